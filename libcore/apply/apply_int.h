/* Inside of module apply. */
#ifndef APPLY_APPLY_INT_H
#define APPLY_APPLY_INT_H

#include "alarm/alarm.h"
#include "apply/apply.h"
#include "apply/check.h"
#include "apply/result.h"
#include "apply/txn.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "etcdserverpb.pb-c.h"
#include "lease/lease.h"
#include "membership/membership.h"
#include "mvcc/mvcc.h"
#include "mvcc/view.h"

/* Memory of one entry's request: what was accepted once must never fail here. */
#define APPLY_ARENA_BYTES_MAX ((size_t)1 << 32)

static inline struct bytes apply__bytes(ProtobufCBinaryData d)
{
    return bytes_of(d.data, d.len);
}

/* ---- result.c -------------------------------------------------------------------------------- */

/* Gives an empty result, NULL without memory. */
struct apply_result *apply__result_new(const struct alloc *alloc, uint64_t request_id);
/* Makes `count` > 0 zeroed ops. Errors: E_NOMEM. */
int apply__result_ops(struct apply_result *r, size_t count);
/* Drops ops, rows, views: what a failed request does not show. */
void apply__result_clear(struct apply_result *r);

/* ---- the program of a request: txn.c, txn_compare.c, txn_exec.c ------------------------------ */

struct apply__put {
    struct bytes key;
    struct bytes value;
    lease_id lease;
    bool prev_kv;
    bool ignore_value;
    bool ignore_lease;
};

struct apply__prog_op {
    enum apply_op_kind kind;
    bool succeeded;  /* TXN */
    size_t op_count; /* TXN */
    const struct apply__put *put;
    const Etcdserverpb__RangeRequest *range;
    const Etcdserverpb__DeleteRangeRequest *del;
};

/* A txn whose path is being found. */
struct apply__frame {
    const Etcdserverpb__TxnRequest *txn;
    size_t op; /* its place in the program */
    size_t compare_at;
    size_t branch_at;
    bool decided; /* compares are done: `branch` is walked */
};

enum apply__phase { APPLY__COMPARE, APPLY__CHECK, APPLY__EXEC, APPLY__FINISHED };

struct apply_txn {
    struct mvcc *m;
    struct lease_table *leases;  /* NULL: reads only, beside raft */
    const struct alloc *alloc;   /* of the result */
    struct arena *arena;         /* of the program */
    struct apply_result *result; /* borrowed; NULL: nobody waits, ranges are skipped */
    bool check_ranges;           /* inside a txn a range's revision is judged beforehand */

    struct apply__prog_op *prog;
    size_t prog_count;
    size_t prog_cap;
    struct apply__frame frames[PB_DEPTH_MAX]; /* innermost last */
    size_t depth;

    enum apply__phase phase;
    size_t at;         /* op in progress */
    int answer;        /* E_... of the request itself: nothing was changed */
    int64_t current;   /* the revision before */
    int64_t compacted; /* at that moment */

    struct mvcc_view
        *base; /* the state before; NULL until needed. That of the result, or own_view */
    struct mvcc_view own_view;

    /* the op or compare in progress */
    bool range_open;
    struct mvcc_range range;
    bool delete_open;
    struct mvcc_delete delete;
    size_t row_at;
    bool row_differs; /* a row did not pass the compare */
};

/* Prepares an empty program; put the request in with one of the next two. Nothing is allocated. */
void apply__txn_init(struct apply_txn *x, struct mvcc *m, struct lease_table *leases,
                     const struct alloc *alloc, struct arena *arena, struct apply_result *result);
/* A whole txn. Errors: E_NOMEM. */
int apply__txn_set(struct apply_txn *x, const Etcdserverpb__TxnRequest *txn);
/* A single op outside a txn. Errors: E_NOMEM. */
int apply__txn_set_op(struct apply_txn *x, const struct apply__prog_op *op);
/* 1 more, 0 done (then `answer`), or an error that is not the request's. */
int apply__txn_step(struct apply_txn *x, uint32_t *budget, struct errmsg *em);
/* Drops what is in progress; the result stays. Safe at any time after init. */
void apply__txn_deinit(struct apply_txn *x);

/* Shared by the phases: */
int apply__txn_push(struct apply_txn *x, const struct apply__prog_op *op); /* E_NOMEM */
/* Opens `base`. Errors: those of mvcc_view_open(). */
int apply__txn_base(struct apply_txn *x);
/* Counts down; true when there was a step left. */
bool apply__spend(uint32_t *budget, uint32_t steps);
int apply__compare_step(struct apply_txn *x, uint32_t *budget, struct errmsg *em);
int apply__check_op(struct apply_txn *x, const struct apply__prog_op *op);
int apply__exec_step(struct apply_txn *x, uint32_t *budget, struct errmsg *em);

/* ---- request.c: entry bytes to a request ----------------------------------------------------- */

struct apply;

/* What may happen to an entry of one kind. */
struct apply__kind {
    const char *name; /* of the field */
    size_t offset;    /* of its pointer in the InternalRaftRequest */
    bool replay;      /* looked at below the consistent index too */
    bool read;        /* no side effect: skipped where nobody waits */
    bool not_corrupt; /* refused under alarm CORRUPT */
    bool auth;        /* needs module auth: fatal */
    enum apply_op_kind op;
    /* Starts it. 0, or an error that ends the process. */
    int (*start)(struct apply *a, const void *msg);
    /* Works on it: 1 more, 0 done, or an error that ends the process. NULL: start() did all. */
    int (*step)(struct apply *a, uint32_t *budget);
};

struct apply__request {
    uint64_t id;
    const struct apply__kind *kind;
    const void *msg;       /* of that kind; for a put: struct apply__put */
    struct apply__put put; /* where `msg` of a put points */
};

/* Decodes; spans point into `data`. Errors: E_CORRUPT (`em` says what is wrong with it), E_NOMEM.
 */
int apply__request_decode(struct bytes data, struct arena *arena, struct apply__request *out,
                          struct errmsg *em);
void apply__put_from(const Etcdserverpb__PutRequest *p, struct apply__put *out);

/* ---- kinds.c --------------------------------------------------------------------------------- */

/* In the order in which upstream looks for them; ends with a NULL name. */
extern const struct apply__kind apply__kinds[];
extern const struct apply__kind *const apply__kind_put;

struct apply__version {
    unsigned major, minor, patch;
};
/* "3.7.0". Errors: E_INVAL. */
int apply__version_parse(struct bytes text, struct apply__version *out);

/* ---- conf.c ---------------------------------------------------------------------------------- */

/* Judges the entry as a conf change; fills a->conf. 0, or an error that ends the process. */
int apply__conf_start(struct apply *a);
/* After raft has switched. 0, or an error that ends the process. */
int apply__conf_finish(struct apply *a);
/* One from below the consistent index: only what the transport has to know. */
int apply__conf_replay(struct apply *a);

/* ---- apply.c --------------------------------------------------------------------------------- */

enum apply__stage {
    APPLY__IDLE,
    APPLY__BEGUN,    /* an entry is there, nothing done yet */
    APPLY__RUNNING,  /* its request is worked on */
    APPLY__CONF_OUT, /* raft has the conf change */
    APPLY__CONF_IN,  /* and has switched */
    APPLY__BROKEN
};

struct apply {
    struct apply_config config;
    struct membership *members;
    struct alarms *alarms;
    uint64_t consistent; /* the store's index at start */
    uint64_t index;      /* what the tables reflect */
    uint64_t term;
    uint64_t last_index; /* of the last entry, 0: none yet */
    struct buf conf_json;

    enum apply__stage stage;
    struct apply_entry entry;
    int64_t now_ns;
    int64_t revision_before;
    struct arena arena;
    struct apply__request request;
    struct apply_result *result;
    int answer;      /* E_... that the request is answered with */
    bool over_quota; /* it was, before the request ran */
    struct apply_txn txn;
    size_t item_at; /* of a request with many items */

    struct pb_conf_change conf;
    struct membership_change change; /* of a conf change that passed; next NULL: refused */
    struct buf conf_json_next;
    int conf_error; /* of making it: the next step ends the process */

    struct apply_output *out; /* during apply_step() */
    struct errmsg em;         /* of a fatal end */

    atomic_uint_least64_t store_bytes;
};

/* Says why the process ends; returns `rc` < 0. */
int apply__fatal(struct apply *a, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Installs a version and writes its rows. Takes `c->next`, also when it fails. Errors: E_NOMEM. */
int apply__install_members(struct apply *a, struct membership_change *c);

#endif
