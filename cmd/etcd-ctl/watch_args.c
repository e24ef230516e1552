/* From words to what is watched (cli-etcdctl.md 7.5). */
#include <string.h>

#include "base/err.h"
#include "cli/kv.h"
#include "watch.h"

#define AT(field) offsetof(struct ctl_watch_values, field)

const struct cli_flag ctl_watch_rows[CTL_WATCH_ROWS] = {
    {"interactive", CLI_BOOL, 'i', AT(interactive), NULL,
     "read watch and progress lines from standard input", NULL},
    {"prefix", CLI_BOOL, 0, AT(prefix), NULL, "watch all keys that begin with the key", NULL},
    {"prev-kv", CLI_BOOL, 0, AT(prev_kv), NULL, "print the pair as it was before, too", NULL},
    {"progress-notify", CLI_BOOL, 0, AT(progress_notify), NULL,
     "let the server tell from time to time how far the watch is", NULL},
    {"rev", CLI_INT, 0, AT(revision), NULL, "revision to begin with; 0 means now", NULL},
};

static struct bytes env_get(const struct ctl *ctl, const char *name)
{
    size_t len = strlen(name);
    for (char *const *at = ctl->environ; at != NULL && *at != NULL; at++) {
        if (strncmp(*at, name, len) == 0 && (*at)[len] == '=') return bytes_str(*at + len + 1);
    }
    return BYTES_EMPTY;
}

int watch_env(struct ctl *ctl, struct watch_env *env, struct errmsg *em)
{
    env->key = env_get(ctl, "ETCDCTL_WATCH_KEY");
    env->end = env_get(ctl, "ETCDCTL_WATCH_RANGE_END");
    if (env->key.len > 0 || env->end.len == 0) return CLI_OK;
    struct cli_out text;
    cli_out_init(&text, ctl->arena.alloc, -1);
    cli_put(&text, "ETCDCTL_WATCH_KEY is empty but got ETCDCTL_WATCH_RANGE_END=");
    cli_put_quoted(&text, env->end);
    struct bytes words = buf_bytes(&text.buf);
    int status = cli_fail(em, CLI_BAD_ARGS, "%.*s", (int)words.len, (const char *)words.data);
    cli_out_deinit(&text);
    return status;
}

static int set_range(struct ctl *ctl, const struct ctl_watch_values *v,
                     const struct cli_words *words, struct watch_target *out, struct errmsg *em)
{
    static const uint8_t LEAST[1] = {0};
    out->key = words->items[0];
    if (words->count == 2) {
        if (v->prefix)
            return cli_fail(em, CLI_BAD_ARGS, "`range_end` and `--prefix` are mutually exclusive");
        out->end = words->items[1];
    }
    if (!v->prefix) return CLI_OK;
    if (out->key.len == 0) {
        out->key = out->end = bytes_of(LEAST, 1);
        return CLI_OK;
    }
    int rc = cli_prefix_end(out->key, &ctl->arena, &out->end);
    return rc < 0 ? cli_fail(em, CLI_ERROR, "%s", err_text(rc)) : CLI_OK;
}

int watch_target_of(struct ctl *ctl, const struct ctl_watch_values *v, const struct cli_words *args,
                    bool dashed, size_t before, const struct watch_env *env,
                    struct watch_target *out, bool *range, struct errmsg *em)
{
    struct bytes own[2] = {env->key, env->end};
    size_t count = dashed ? before : args->count;
    struct cli_words words = {args->items, count};
    *out = (struct watch_target){.next = v->revision > 0 ? v->revision : 0,
                                 .prev_kv = v->prev_kv,
                                 .progress_notify = v->progress_notify};
    *range = false;
    if (dashed && args->count == before)
        return cli_fail(em, CLI_BAD_ARGS,
                        "bad number of arguments (found separator --, but no commands)");
    if (env->key.len > 0 && count > 0)
        return cli_fail(em, CLI_BAD_ARGS,
                        "bad number of arguments (found conflicting environment key)");
    if (env->key.len > 0) words = (struct cli_words){own, env->end.len > 0 ? 2 : 1};
    if (words.count == 0) return cli_fail(em, CLI_BAD_ARGS, "bad number of arguments");
    if (dashed) out->command = (struct cli_words){args->items + before, args->count - before};
    *range = true;
    return set_range(ctl, v, &words, out, em);
}
