/* The answer to one applied request: names of rows, not rows.
 *
 * A result says what happened and which rows the answer shows, by their revisions; a pin keeps those rows until the
 * result is freed. So the apply actor copies nothing, and the thread that writes the answer reads the rows:
 *
 *      struct apply_result *r = ...;                          (from struct apply_output, ours now)
 *      for (size_t i = 0; i < r->op_count; i++) {
 *          const struct apply_op *op = &r->ops[i];            (pre-order: a txn's own ops follow it)
 *          for (size_t k = 0; k < op->row_count; k++)
 *              mvcc_view_row(view, r->rows[op->row_first + k], &row) ... encode ...
 *      }
 *      apply_result_free(r);
 *
 * A put without prev_kv is one block of memory and no rows. A result has one owner at a time, who may be any thread. */
#ifndef APPLY_RESULT_H
#define APPLY_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "pb/kv.h"

struct membership;

/* A row by its revision; main 0: none. */
struct apply_row {
    int64_t main;
    int64_t sub;
};

enum apply_op_kind {
    APPLY_OP_NONE, /* an op without a oneof in an old log: an empty ResponseOp */
    APPLY_OP_RANGE,
    APPLY_OP_PUT,
    APPLY_OP_DELETE_RANGE,
    APPLY_OP_TXN,
    APPLY_OP_COMPACTION,
    APPLY_OP_LEASE_GRANT,
    APPLY_OP_LEASE_REVOKE,
    APPLY_OP_LEASE_CHECKPOINT,
    APPLY_OP_ALARM,
    APPLY_OP_CONF_CHANGE,
    APPLY_OP_OTHER /* cluster version, attributes, downgrade info: no answer but done */
};

/* How a range's rows become the answer's (rows come in key order, unfiltered, when they must be sorted or filtered:
 * apply/range.h does that once their contents are read). */
struct apply_range_opts {
    int64_t limit;
    int64_t min_mod, max_mod, min_create, max_create; /* 0: off */
    uint8_t sort_order;
    uint8_t sort_target;
    bool keys_only;
    bool count_only;
};

struct apply_op {
    enum apply_op_kind kind;
    bool succeeded;   /* TXN */
    bool more;        /* RANGE without sort and filters: the limit cut rows off */
    int64_t revision; /* of this op's header; 0 in a nested TXN, whose header is empty */
    int64_t
        count; /* RANGE: keys in the range; DELETE_RANGE: deleted; TXN: ops of it that follow, deeper ones included */
    size_t row_first; /* rows of a RANGE, prev_kv of a PUT (0 or 1), prev_kvs of a DELETE_RANGE */
    size_t row_count;
    struct apply_range_opts range; /* RANGE */
    int64_t lease_id;              /* LEASE_GRANT */
    int64_t ttl_s;                 /* LEASE_GRANT */
};

struct apply_result {
    uint64_t request_id;
    uint64_t index;   /* of its entry */
    int error;        /* 0 or the E_... to answer with; the ops are then not to be shown */
    int64_t revision; /* of the store when the entry was done: the top header */

    size_t op_count; /* at least 1 when error is 0 */
    struct apply_op *ops;
    struct apply_op op_inline; /* where `ops` of a single op points */
    size_t row_count;
    struct apply_row *rows;

    size_t alarm_count; /* ALARM */
    struct pb_alarm *alarms;
    struct membership *members; /* CONF_CHANGE: the list to answer with; a reference */

    /* private */
    const struct alloc *alloc;
    size_t rows_cap;
    void *pin;
};

/* Any thread. NULL is allowed. */
void apply_result_free(struct apply_result *r);

#endif
