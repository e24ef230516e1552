/* Commands by table: one row makes the parser, the help text, the manual page and the completion of a command.
 *
 * Words are taken apart as Go's cobra does it (cli-etcdctl.md 1): the first words that are no flags name the command, any
 * unambiguous prefix will do, a group without a (known) subcommand shows its help, and a mistyped command gets
 * suggestions. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/errmsg.h"
#include "cli/cli.h"
#include "cli/flag.h"
#include "cli/out.h"

struct cli_call;

struct cli_command {
    const char *name;
    const char *usage;           /* behind the name in the usage line; NULL: nothing */
    const char *brief;           /* one line */
    const char *details;         /* above the usage; NULL: the brief line */
    unsigned group;              /* index into the program's `groups`; of top-level commands */
    const struct cli_flag *rows; /* its flags; those of a group are also its subcommands' */
    size_t row_count;
    size_t values_bytes; /* of the struct for the rows' values */
    const struct cli_command *subs;
    size_t sub_count;    /* > 0: a group, `run` is NULL */
    const char *choices; /* for completion: values of the first argument; NULL: anything */
    bool hidden;         /* not in help, suggestions and completion */
    bool raw;            /* gets its words as they are, flags too */
    /* Does the job. Returns an exit code; an empty `em` then means that all has been said. */
    int (*run)(void *arg, struct cli_call *call, struct errmsg *em);
};

struct cli_program {
    const char *name;               /* as the user called it */
    const struct cli_command *root; /* its subs are the commands, in the order of suggestions */
    const char *const *groups;      /* headings of help, one a group; the order of help */
    size_t group_count;
    const struct cli_flag *rows; /* flags of every command */
    size_t row_count;
    void *values;        /* the zeroed struct for them */
    void *arg;           /* handed to the commands */
    struct arena *arena; /* for the run */
    struct cli_out *out; /* standard output */
    struct cli_out *err; /* standard error */
};

/* The tables of a call's flags. */
enum { CLI_OF_COMMAND, CLI_OF_GROUP, CLI_OF_PROGRAM, CLI_OF_HELP };

/* One command being run. */
struct cli_call {
    const struct cli_program *program;
    const struct cli_command *group; /* NULL: a top-level command */
    const struct cli_command *command;
    struct cli_flags flags;   /* CLI_OF_... */
    const void *values;       /* of the command's rows */
    const void *group_values; /* of the group's rows */
    bool help;                /* --help was given */
    bool show_usage;          /* set by a command that fails: its usage helps */
    struct cli_words args;
};

/* Runs the command that `argv` (from the first word behind the program's name) asks for, and says on `err` why it did
 * not go well. Returns the exit code. */
int cli_run(const struct cli_program *p, size_t count, char *const *argv);

/* Prepares `call` for `command` without running it: its tables of flags with their defaults. E_NOMEM. */
int cli_call_init(struct cli_call *call, const struct cli_program *p,
                  const struct cli_command *group, const struct cli_command *command);

/* The sub of `c` that `word` names: exactly, or as the prefix of that one only. NULL: none. */
const struct cli_command *cli_command_find(const struct cli_command *c, struct bytes word);

/* Finds command and group for `words`, and takes the words that named them out. `*command` is `root` when none was
 * named. */
void cli_command_resolve(const struct cli_program *p, struct cli_words *words,
                         const struct cli_command **group, const struct cli_command **command);

/* --- help (help.c) ------------------------------------------------------------------------------- */

/* The whole help text, or from "Usage:" on. `command` may be the root. */
void cli_help(const struct cli_program *p, const struct cli_command *group,
              const struct cli_command *command, struct cli_out *to);
void cli_usage(const struct cli_program *p, const struct cli_command *group,
               const struct cli_command *command, struct cli_out *to);
/* The flags of every command. */
void cli_options(const struct cli_program *p, struct cli_out *to);
/* The manual page, as scdoc source. */
void cli_manual(const struct cli_program *p, struct cli_out *to);

/* --- rows for any program (builtin.c) -------------------------------------------------------------- */

int cli_run_help(void *arg, struct cli_call *call, struct errmsg *em);       /* help [COMMAND] */
int cli_run_options(void *arg, struct cli_call *call, struct errmsg *em);    /* options */
int cli_run_manual(void *arg, struct cli_call *call, struct errmsg *em);     /* __manual */
int cli_run_completion(void *arg, struct cli_call *call, struct errmsg *em); /* completion SHELL */
/* __complete WORD...: candidates for the last word, one a line with its description behind a tab, then `:4` or `:0`
 * (whether file names would make sense). Raw. __completeNoDesc leaves the descriptions out. */
int cli_run_complete(void *arg, struct cli_call *call, struct errmsg *em);
int cli_run_complete_bare(void *arg, struct cli_call *call, struct errmsg *em);

#endif
