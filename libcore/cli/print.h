/* Answers in the five output formats (cli-etcdctl.md 5), byte for byte as scripts know them. */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "cli/out.h"
#include "etcdserverpb.pb-c.h"

enum cli_format { CLI_SIMPLE, CLI_JSON, CLI_FIELDS, CLI_PROTOBUF, CLI_TABLE };

struct cli_printer {
    struct cli_out *out;
    enum cli_format format;
    bool hex;        /* --hex: another meaning in each format */
    bool value_only; /* simple: values without their keys */
};

/* E_INVAL: no such format. */
int cli_format_parse(struct bytes name, enum cli_format *out);

/* Each returns an exit code: CLI_BAD_FEATURE when the answer has no such form, and nothing was printed. */
int cli_print_range(struct cli_printer *p, const Etcdserverpb__RangeResponse *r, struct errmsg *em);
int cli_print_put(struct cli_printer *p, const Etcdserverpb__PutResponse *r, struct errmsg *em);
int cli_print_delete(struct cli_printer *p, const Etcdserverpb__DeleteRangeResponse *r,
                     struct errmsg *em);
int cli_print_txn(struct cli_printer *p, const Etcdserverpb__TxnResponse *r, struct errmsg *em);
int cli_print_members(struct cli_printer *p, const Etcdserverpb__MemberListResponse *r,
                      struct errmsg *em);
int cli_print_alarms(struct cli_printer *p, const Etcdserverpb__AlarmResponse *r,
                     struct errmsg *em);

int cli_print_grant(struct cli_printer *p, const Etcdserverpb__LeaseGrantResponse *r,
                    struct errmsg *em);
int cli_print_keep_alive(struct cli_printer *p, const Etcdserverpb__LeaseKeepAliveResponse *r,
                         struct errmsg *em);
int cli_print_revoke(struct cli_printer *p, int64_t id, const Etcdserverpb__LeaseRevokeResponse *r,
                     struct errmsg *em);
/* `keys`: they were asked for. */
int cli_print_time_to_live(struct cli_printer *p, const Etcdserverpb__LeaseTimeToLiveResponse *r,
                           bool keys, struct errmsg *em);
int cli_print_leases(struct cli_printer *p, const Etcdserverpb__LeaseLeasesResponse *r,
                     struct errmsg *em);

int cli_print_watch(struct cli_printer *p, const Etcdserverpb__WatchResponse *r, struct errmsg *em);

/* What one endpoint said of itself. */
struct cli_health {
    struct bytes endpoint;
    bool healthy;
    int64_t took_ns;
    const char *error; /* "" when healthy */
};
struct cli_status {
    struct bytes endpoint;
    const Etcdserverpb__StatusResponse *status;
};
struct cli_hash {
    struct bytes endpoint;
    const Etcdserverpb__HashKVResponse *hash;
};

/* In simple form an unhealthy endpoint is a line for `err`. */
int cli_print_health(struct cli_printer *p, const struct cli_health *rows, size_t count,
                     struct cli_out *err, struct errmsg *em);
int cli_print_status(struct cli_printer *p, const struct cli_status *rows, size_t count,
                     struct errmsg *em);
int cli_print_hash(struct cli_printer *p, const struct cli_hash *rows, size_t count,
                   struct errmsg *em);

/* --- parts --------------------------------------------------------------------------------------- */

/* A size in SI steps with at most one decimal, as go-humanize writes it: "20 kB"; zero-terminated. */
enum { CLI_SIZE_BYTES_MAX = 32 };
void cli_size_text(uint64_t bytes, char out[CLI_SIZE_BYTES_MAX]);

/* Draws `row_count` rows of `column_count` cells (row by row in `cells`) under their headings in a frame of lines. */
void cli_print_table(struct cli_out *o, const char *const *headings, size_t column_count,
                     const struct bytes *cells, size_t row_count);

#endif
