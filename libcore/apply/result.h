/* The answer to one request: names of rows, not rows.
 *
 * A result says what happened and which rows the answer shows; views pin those rows until the
 * result is freed. So the apply actor copies nothing, and the thread that writes the answer reads
 * the rows:
 *
 *      struct apply_result *r = ...;         (of an apply_output or apply_read_take(); ours now)
 *      if (r->error != 0) answer that error;
 *      for (size_t i = 0; i < r->op_count; i++) {
 *          struct apply_op *op = &r->ops[i]; (pre-order: the ops of a txn follow it)
 *          for (size_t k = 0; k < op->row_count; k++) {
 *              struct bytes kv;              (an encoded KeyValue: goes into the answer as it is,
 *                                             with keys_only through mvcc_kv_strip())
 *              mvcc_view_kv(op->view, &op->rows[k], &kv, &em);
 *          }
 *      }
 *      apply_result_free(r);
 *
 * To wait for a socket in between: mvcc_view_suspend(op->view), later mvcc_view_resume(). Rows are
 * final: filtered, sorted and cut as the request says. A put without prev_kv is one block of memory
 * and no view. A result has one owner at a time, who may be any thread. */
#ifndef APPLY_RESULT_H
#define APPLY_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "mvcc/view.h"
#include "pb/kv.h"

struct membership;

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
    APPLY_OP_OTHER /* cluster version, attributes, downgrade info: done, nothing to show */
};

/* What one op has to show. Of the top level it is ops[0]. */
struct apply_op {
    enum apply_op_kind kind;
    bool succeeded;  /* TXN */
    bool more;       /* RANGE: the limit cut rows off */
    bool keys_only;  /* RANGE: without values, and without leases too unless keep_lease */
    bool keep_lease; /* (sorted by value) */
    bool view_owned; /* private */
    int64_t
        revision;    /* of this op's header; 0 in a nested TXN, whose header is present but empty */
    int64_t count;   /* RANGE: keys in the range; DELETE_RANGE: deleted keys */
    size_t op_count; /* TXN: ops that follow and are inside it, deeper ones included */
    struct mvcc_view *view;      /* NULL without rows */
    const struct mvcc_row *rows; /* RANGE: kvs; DELETE_RANGE: prev_kvs; PUT: prev_kv, none or one */
    size_t row_count;
    size_t rows_cap;     /* private: 0 when `rows` is `one` */
    struct mvcc_row one; /* private */
    int64_t lease_id;    /* LEASE_GRANT */
    int64_t ttl_s;       /* LEASE_GRANT: as granted */
};

struct apply_result {
    uint64_t request_id;
    int error;        /* 0, or the E_... to answer with; there are no ops then */
    int64_t revision; /* of the store behind the request: for the top header */

    struct apply_op *ops;
    size_t op_count;           /* at least 1 without error */
    struct apply_op op_inline; /* where `ops` points when there is one */

    struct pb_alarm *alarms; /* ALARM */
    size_t alarm_count;
    struct membership
        *members; /* CONF_CHANGE: the list to answer with, a reference of the result */

    /* private */
    const struct alloc *alloc;
    struct mvcc_view view; /* of the newest revision; ops share it */
    bool view_open;
};

/* Any thread. NULL is allowed. */
void apply_result_free(struct apply_result *r);

#endif
