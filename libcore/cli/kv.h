/* get, put and del as flags and arguments, for the commands of that name and for the lines of a txn. */
#ifndef CLI_KV_H
#define CLI_KV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/errmsg.h"
#include "cli/cli.h"
#include "cli/flag.h"
#include "etcdserverpb.pb-c.h"

struct cli_get_values {
    struct bytes consistency, order, sort_by;
    int64_t limit, revision;
    int64_t min_create, max_create, min_mod, max_mod;
    bool prefix, from_key, keys_only, count_only, value_only, stream;
};

struct cli_put_values {
    struct bytes lease;
    bool prev_kv, ignore_value, ignore_lease;
};

struct cli_del_values {
    bool prefix, from_key, prev_kv, range;
};

enum { CLI_GET_ROWS = 15, CLI_PUT_ROWS = 4, CLI_DEL_ROWS = 4 };
extern const struct cli_flag cli_get_rows[CLI_GET_ROWS];
extern const struct cli_flag cli_put_rows[CLI_PUT_ROWS];
extern const struct cli_flag cli_del_rows[CLI_DEL_ROWS];

/* Each fills `out` (initialised by the callee), whose bytes live as long as words and arena, and returns an exit code. */
int cli_get_request(const struct cli_get_values *v, const struct cli_words *args,
                    struct arena *arena, Etcdserverpb__RangeRequest *out, struct errmsg *em);

/* Whether the value is to come from standard input; it is then what cli_put_request() gets as `input`. */
bool cli_put_wants_input(const struct cli_put_values *v, const struct cli_words *args);
/* An `input` without bytes is no value. */
int cli_put_request(const struct cli_put_values *v, const struct cli_words *args,
                    struct bytes input, Etcdserverpb__PutRequest *out, struct errmsg *em);

/* `*risky`: a range that was given without --range, which gets a warning and two seconds' grace. */
int cli_del_request(const struct cli_del_values *v, const struct cli_words *args,
                    struct arena *arena, Etcdserverpb__DeleteRangeRequest *out, bool *risky,
                    struct errmsg *em);

/* "l" or "s" (serializable); CLI_BAD_FEATURE otherwise, which names `said`. */
int cli_consistency(struct bytes value, const char *said, bool *serializable, struct errmsg *em);

/* The end of the range of all keys that begin with `prefix`: the next greater of its length or shorter, "\0" (no end) when
 * there is none. `prefix` is not empty. E_NOMEM. */
int cli_prefix_end(struct bytes prefix, struct arena *arena, struct bytes *out);

#endif
