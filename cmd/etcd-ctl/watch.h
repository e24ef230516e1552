/* watch: what its files share. */
#ifndef ETCD_CTL_WATCH_H
#define ETCD_CTL_WATCH_H

#include "ctl.h"

struct ctl_watch_values {
    bool interactive, prefix, prev_kv, progress_notify;
    int64_t revision;
};
enum { CTL_WATCH_ROWS = 5 };
extern const struct cli_flag ctl_watch_rows[CTL_WATCH_ROWS];

/* What is to be watched, and the program that is run for each event. */
struct watch_target {
    struct bytes key, end; /* end as in a request: empty for one key */
    int64_t next;          /* revision to go on from; 0: now */
    bool prev_kv, progress_notify;
    struct cli_words command; /* none: count 0 */
    int64_t id;               /* once created */
    bool created, ended;
};

/* From the environment: ETCDCTL_WATCH_KEY and ETCDCTL_WATCH_RANGE_END; data is NULL when unset. */
struct watch_env {
    struct bytes key, end;
};
int watch_env(struct ctl *ctl, struct watch_env *env, struct errmsg *em);

/* Makes a target of flags and arguments, the first `before` of which stood before "--" (if `dashed`). Returns an exit code;
 * `*range` tells that key and range were the trouble, which an interactive line survives. */
int watch_target_of(struct ctl *ctl, const struct ctl_watch_values *v, const struct cli_words *args,
                    bool dashed, size_t before, const struct watch_env *env,
                    struct watch_target *out, bool *range, struct errmsg *em);

/* Runs the target's command for one event (watch_exec.c). Returns an exit code; what went wrong has been said. */
int watch_run(struct ctl *ctl, const struct cli_words *command, int64_t revision,
              const Mvccpb__Event *event);

int ctl_watch(void *arg, struct cli_call *call, struct errmsg *em);

#endif
