/* etcd-server: one member. Parses its settings, runs, and turns the end into an exit status. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "os/failpoint.h"
#include "os/heap.h"
#include "os/log.h"
#include "rpc/rpc.h"
#include "server/server.h"

enum { USAGE_BYTES_MAX = 1024 * 1024, EXIT_SYNTAX = 2 };

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

extern char **environ;

static int show_usage(FILE *to)
{
    struct buf text;
    buf_init(&text, &os_heap, USAGE_BYTES_MAX);
    int rc = config_usage(&text);
    if (rc == 0) fwrite(text.data, 1, text.len, to);
    buf_deinit(&text);
    return rc == 0 ? 0 : 1;
}

static int show_version(void)
{
    printf("etcd Version: %s\netcd in C: %s\n", RPC_SERVER_VERSION, ETCD_C_VERSION);
    return 0;
}

static int open_log(const struct config *c, struct os_log **out, struct errmsg *em)
{
    const char *outputs[OS_LOG_OUTPUTS_MAX];
    struct os_log_opts o = {
        .level = LOG_INFO, .console = strcmp(c->log_format, "console") == 0, .outputs = outputs};
    for (size_t i = 0; i < c->log_outputs.count && i < OS_LOG_OUTPUTS_MAX; i++) {
        bool is_default = strcmp(c->log_outputs.items[i], "default") == 0;
        outputs[o.output_count++] = is_default ? "stderr" : c->log_outputs.items[i];
    }
    int rc = os_log_level_parse(c->log_level, &o.level);
    return rc < 0 ? rc : os_log_open(&o, out, em);
}

/* Ends as the signal would have ended it; process 1 cannot, and exits with 0. */
static int end_by_signal(int signum)
{
    sigset_t set;
    if (signum == 0 || getpid() == 1) return 0;
    signal(signum, SIG_DFL);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, signum);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(signum);
    return 128 + signum;
}

static int run(const struct config *c)
{
    struct os_log *log = NULL;
    struct errmsg em = {""};
    struct server_end end;
    int rc = open_log(c, &log, &em);
    if (rc < 0) {
        fprintf(stderr, "etcd-server: cannot open the log: %s\n",
                em.text[0] != '\0' ? em.text : err_text(rc));
        return 1;
    }
    const struct log *face = os_log_face(log);
    for (size_t i = 0; i < c->warnings.count; i++)
        LOG(face, LOG_WARN, c->warnings.items[i]);
#ifdef FAILPOINTS
    if (getenv("GOFAIL_FAILPOINTS") != NULL)
        rc = failpoint_set_all(getenv("GOFAIL_FAILPOINTS"), &em);
    if (rc < 0) LOG(face, LOG_WARN, "wrong failpoints", LOGF_STR("error", em.text));
#endif
    rc = server_run(c, face, &end, &em);
    if (rc < 0) {
        LOG(face, LOG_FATAL, "cannot go on",
            LOGF_STR("error", em.text[0] != '\0' ? em.text : err_text(rc)));
    }
    if (end.threads_left) _exit(rc < 0 ? 1 : end_by_signal(end.stop_signal));
    os_log_close(log);
#ifdef __SANITIZE_ADDRESS__
    __lsan_do_leak_check(); /* a signal leaves no time for it */
#endif
    return rc < 0 ? 1 : end_by_signal(end.stop_signal);
}

int main(int argc, char **argv)
{
    struct config c;
    struct errmsg em = {""};
    enum config_result result = CONFIG_RUN;
    int status = 0;
    int rc = config_parse(&c, &os_heap, argc, argv, environ, &result, &em);
    if (rc == E_INVAL || rc == E_NOTFOUND) {
        fprintf(stderr, "%s\n", em.text);
        (void)show_usage(stderr);
        status = EXIT_SYNTAX;
    } else if (rc < 0) {
        fprintf(stderr, "etcd-server: failed to verify flags: %s\n",
                em.text[0] != '\0' ? em.text : err_text(rc));
        status = 1;
    } else if (result == CONFIG_SHOW_HELP) {
        status = show_usage(stdout);
    } else if (result == CONFIG_SHOW_VERSION) {
        status = show_version();
    } else {
        status = run(&c);
    }
    config_deinit(&c);
    return status;
}
