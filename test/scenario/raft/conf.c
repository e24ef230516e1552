/* Directives of the confchange files: changes of a configuration that no log carries. */
#include <inttypes.h>
#include <stdio.h>

#include "tables.h"

enum { INFLIGHT_MAX = 10 };

void conf_env_deinit(struct conf_env *env)
{
    raft__tracker_deinit(&env->trk, &scenario_heap);
}

/* "v1 l2 r3 u4". False: malformed. */
static bool parse(const char *input, struct raft_conf_change *out)
{
    static const char letters[] = "vrul"; /* by number of the type */
    *out = (struct raft_conf_change){0};
    for (const char *at = input; *at != '\0';) {
        const char *letter = strchr(letters, *at);
        size_t len = strcspn(at, " ");
        char number[24];
        uint64_t id;
        if (letter == NULL || len < 2 || len > sizeof number) return false;
        (void)snprintf(number, sizeof number, "%.*s", (int)(len - 1), at + 1);
        if (!dd_u64(number, &id) || out->change_count == RAFT_CONF_CHANGES_MAX) return false;
        out->changes[out->change_count++] =
            (struct raft_conf_single){(enum raft_conf_change_type)(letter - letters), id};
        at += len;
        at += strspn(at, " ");
    }
    return true;
}

static int change(struct conf_env *env, const struct dd_case *c, const struct raft_conf_change *cc,
                  struct errmsg *em)
{
    const struct alloc *a = &scenario_heap;
    struct raft__tracker *t = &env->trk;
    if (strcmp(c->command, "simple") == 0)
        return raft__conf_simple(t, a, env->last, cc->changes, cc->change_count, em);
    if (strcmp(c->command, "enter-joint") == 0) {
        const struct dd_arg *arg = dd_arg(c, "autoleave");
        bool auto_leave = arg != NULL && strcmp(arg->values[0], "true") == 0;
        return raft__conf_enter_joint(t, a, env->last, auto_leave, cc->changes, cc->change_count,
                                      em);
    }
    if (strcmp(c->command, "leave-joint") != 0) {
        errmsg_set(em, "unknown command");
        return E_INVAL;
    }
    if (cc->change_count == 0) return raft__conf_leave_joint(t, a, em);
    errmsg_set(em, "this command takes no input");
    return E_INVAL;
}

void conf_run(struct conf_env *env, const struct dd_case *c, struct buf *out)
{
    static const struct raft__limits limits = {.inflight_count_max = INFLIGHT_MAX};
    struct raft_conf_change cc;
    struct errmsg em = {"unknown input"};
    int rc = parse(c->input, &cc) ? change(env, c, &cc, &em) : E_INVAL;
    env->last++;
    if (rc < 0) {
        (void)buf_put_str(out, em.text);
        return;
    }
    char text[RAFT__CONF_TEXT_MAX];
    (void)buf_printf(out, "%s\n", raft__conf_text(&env->trk.conf, text));
    for (uint32_t i = 0; i < env->trk.count; i++) {
        const struct raft__progress *pr = &env->trk.prs[i];
        char progress[RAFT__PROGRESS_TEXT_MAX];
        (void)buf_printf(out, "%" PRIu64 ": %s\n", pr->id,
                         raft__progress_text(pr, &limits, progress));
    }
}
