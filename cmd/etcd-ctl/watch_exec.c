/* The program that is run for each event of a watch. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "watch.h"

enum { ENV_MAX = 4, TEXT_BYTES_MAX = 128 };

/* The words as an argument vector in `arena`; NULL without memory. */
static char **argv_of(struct arena *arena, const struct cli_words *words)
{
    char **argv = arena_new(arena, (words->count + 1) * sizeof *argv);
    for (size_t i = 0; argv != NULL && i < words->count; i++) {
        argv[i] = (char *)(uintptr_t)arena_copy(arena, words->items[i]).data;
        if (argv[i] == NULL) return NULL;
    }
    if (argv != NULL) argv[words->count] = NULL;
    return argv;
}

/* NAME="quoted", or with `number` NAME=number. */
static char *variable(struct arena *arena, const char *name, struct bytes value, bool quoted)
{
    struct cli_out text;
    struct alloc alloc = arena_alloc(arena);
    cli_out_init(&text, &alloc, -1);
    cli_put(&text, name);
    cli_put(&text, "=");
    if (quoted) {
        cli_put_quoted(&text, value);
    } else {
        cli_put_bytes(&text, value);
    }
    if (text.rc < 0 || buf_put_u8(&text.buf, 0) < 0) return NULL;
    return (char *)text.buf.data;
}

static char **environment(struct ctl *ctl, struct arena *arena, int64_t revision,
                          const Mvccpb__Event *e)
{
    static const Mvccpb__KeyValue NONE = MVCCPB__KEY_VALUE__INIT;
    const Mvccpb__KeyValue *kv = e->kv != NULL ? e->kv : &NONE;
    bool deletion = e->type == MVCCPB__EVENT__EVENT_TYPE__DELETE;
    char number[TEXT_BYTES_MAX];
    size_t count = 0;
    while (ctl->environ[count] != NULL)
        count++;
    char **out = arena_new(arena, (count + ENV_MAX + 1) * sizeof *out);
    if (out == NULL) return NULL;
    memcpy(out, ctl->environ, count * sizeof *out);
    snprintf(number, sizeof number, "%lld", (long long)revision);
    char **own = out + count;
    own[0] = variable(arena, "ETCD_WATCH_REVISION", bytes_str(number), false);
    own[1] = variable(arena, "ETCD_WATCH_EVENT_TYPE", bytes_str(deletion ? "DELETE" : "PUT"), true);
    own[2] = variable(arena, "ETCD_WATCH_KEY", bytes_of(kv->key.data, kv->key.len), true);
    own[3] = variable(arena, "ETCD_WATCH_VALUE", bytes_of(kv->value.data, kv->value.len), true);
    own[4] = NULL;
    return own[0] == NULL || own[1] == NULL || own[2] == NULL || own[3] == NULL ? NULL : out;
}

/* Why it could not start, in Go's words. */
static void tell_start(struct cli_out *to, const char *program, int error)
{
    if (strchr(program, '/') != NULL) {
        const char *why = error == ENOENT   ? "no such file or directory"
                          : error == EACCES ? "permission denied"
                                            : err_text(err_from_errno(error));
        cli_printf(to, "fork/exec %s: %s", program, why);
    } else {
        cli_put(to, "exec: ");
        cli_put_quoted(to, bytes_str(program));
        cli_put(to, ": executable file not found in $PATH");
    }
}

static void tell_end(struct cli_out *to, int status)
{
    if (WIFSIGNALED(status)) {
        cli_printf(to, "signal: %s", strsignal(WTERMSIG(status)));
    } else {
        cli_printf(to, "exit status %d", WEXITSTATUS(status));
    }
}

/* 0, or an errno: it did not start. */
static int start(char **argv, char **env, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0) return rc;
    rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (rc == 0) rc = posix_spawnp(pid, argv[0], &actions, NULL, argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    return rc;
}

static int wait_for(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

static int complain(struct ctl *ctl, const struct cli_words *command, int error, int status)
{
    struct cli_out *to = &ctl->err;
    cli_put(to, "command [");
    for (size_t i = 0; i < command->count; i++) {
        cli_put(to, i == 0 ? "" : " ");
        cli_put_quoted(to, command->items[i]);
    }
    cli_put(to, "] error (");
    if (error != 0) {
        tell_start(to, cli_text(command->items[0]), error);
    } else {
        tell_end(to, status);
    }
    cli_put(to, ")\n");
    return CLI_ERROR;
}

int watch_run(struct ctl *ctl, const struct cli_words *command, int64_t revision,
              const Mvccpb__Event *event)
{
    struct arena arena;
    pid_t pid = 0;
    int status = 0;
    arena_init(&arena, ctl->arena.alloc, SIZE_MAX / 2);
    char **argv = argv_of(&arena, command);
    char **env = environment(ctl, &arena, revision, event);
    int error = argv == NULL || env == NULL ? ENOMEM : start(argv, env, &pid);
    if (error == 0) status = wait_for(pid);
    arena_deinit(&arena);
    if (error == 0 && status == 0) return CLI_OK;
    return complain(ctl, command, error, status);
}
