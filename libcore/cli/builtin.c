/* Commands that any program can have: help, options, completion and its helpers. */
#include <string.h>

#include "cli/command.h"
#include "cli/complete.h"

int cli_run_help(void *arg, struct cli_call *call, struct errmsg *em)
{
    const struct cli_program *p = call->program;
    const struct cli_command *group = NULL;
    const struct cli_command *command = NULL;
    struct cli_words rest = call->args;
    (void)arg;
    (void)em;
    /* Nothing but names is looked for, so a word that names nothing is an unknown topic. */
    cli_command_resolve(p, &rest, &group, &command);
    if (command == p->root && rest.count > 0) {
        cli_put(p->err, "Unknown help topic [");
        for (size_t i = 0; i < rest.count; i++) {
            cli_put(p->err, i == 0 ? "`" : " `");
            cli_put_bytes(p->err, rest.items[i]);
            cli_put(p->err, "`");
        }
        cli_put(p->err, "]\n");
        cli_usage(p, NULL, p->root, p->err);
        return CLI_OK;
    }
    cli_help(p, group, command, p->out);
    return CLI_OK;
}

int cli_run_options(void *arg, struct cli_call *call, struct errmsg *em)
{
    (void)arg;
    (void)em;
    cli_options(call->program, call->program->out);
    return CLI_OK;
}

int cli_run_manual(void *arg, struct cli_call *call, struct errmsg *em)
{
    (void)arg;
    (void)em;
    cli_manual(call->program, call->program->out);
    return CLI_OK;
}

int cli_run_completion(void *arg, struct cli_call *call, struct errmsg *em)
{
    const struct cli_program *p = call->program;
    (void)arg;
    call->show_usage = true;
    if (call->args.count != 1)
        return cli_fail(em, CLI_ERROR, "accepts 1 arg(s), received %zu", call->args.count);
    const char *shell = cli_text(call->args.items[0]);
    if (!cli_completion_script(p->out, shell, p->name)) {
        return cli_fail(em, CLI_ERROR, "invalid argument \"%s\" for \"%s completion\"", shell,
                        p->name);
    }
    return CLI_OK;
}

int cli_run_complete(void *arg, struct cli_call *call, struct errmsg *em)
{
    (void)arg;
    (void)em;
    cli_complete(call->program, call->args, true);
    return CLI_OK;
}

int cli_run_complete_bare(void *arg, struct cli_call *call, struct errmsg *em)
{
    (void)arg;
    (void)em;
    cli_complete(call->program, call->args, false);
    return CLI_OK;
}
