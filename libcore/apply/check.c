/* The shape of requests, and what they cost.
 *
 * Nested txns are walked with a stack of frames. Overlaps of one branch are in check_overlap.c. */
#include "apply/apply_int.h"
#include "apply/check_int.h"

/* ---- single requests ------------------------------------------------------------------------- */

int apply_check_range(const Etcdserverpb__RangeRequest *r)
{
    if (r->key.len == 0) return E_EMPTY_KEY;
    int order = (int)r->sort_order;
    int target = (int)r->sort_target;
    if (order < 0 || order > ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__DESCEND) {
        return E_INVALID_SORT_OPTION;
    }
    if (target < 0 || target > ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__VALUE) {
        return E_INVALID_SORT_OPTION;
    }
    return 0;
}

int apply_check_range_stream(const Etcdserverpb__RangeRequest *r)
{
    int rc = apply_check_range(r);
    if (rc < 0) return rc;
    bool by_key = r->sort_target == ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__KEY;
    bool ascend = r->sort_order == ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__ASCEND;
    if (r->sort_order != ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__NONE && !(by_key && ascend)) {
        return E_RANGE_STREAM_SORT;
    }
    bool filtered = r->min_mod_revision != 0 || r->max_mod_revision != 0 ||
                    r->min_create_revision != 0 || r->max_create_revision != 0;
    return filtered ? E_RANGE_STREAM_FILTER : 0;
}

int apply_check_put(const Etcdserverpb__PutRequest *r)
{
    if (r->key.len == 0) return E_EMPTY_KEY;
    if (r->ignore_value && r->value.len != 0) return E_VALUE_PROVIDED;
    if (r->ignore_lease && r->lease != 0) return E_LEASE_PROVIDED;
    return 0;
}

int apply_check_delete_range(const Etcdserverpb__DeleteRangeRequest *r)
{
    return r->key.len == 0 ? E_EMPTY_KEY : 0;
}

int apply_check_size(size_t bytes, size_t bytes_max)
{
    return bytes > bytes_max ? E_REQUEST_TOO_LARGE : 0;
}

/* ---- txns: limits and single ops ------------------------------------------------------------- */

struct check_frame {
    const Etcdserverpb__TxnRequest *txn;
    size_t ops_max; /* left for the txns inside */
    size_t at;      /* op, counted over both branches */
};

/* What is judged when a txn is entered. */
static int txn_enter(const Etcdserverpb__TxnRequest *txn, size_t ops_max, struct check_frame *f)
{
    size_t n = txn->n_compare;
    if (n < txn->n_success) n = txn->n_success;
    if (n < txn->n_failure) n = txn->n_failure;
    if (n > ops_max) return E_TOO_MANY_OPS;
    for (size_t i = 0; i < txn->n_compare; i++) {
        if (txn->compare[i]->key.len == 0) return E_EMPTY_KEY;
    }
    *f = (struct check_frame){.txn = txn, .ops_max = ops_max - n};
    return 0;
}

static int check_op(const Etcdserverpb__RequestOp *op)
{
    switch ((int)op->request_case) {
    case ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE:
        return apply_check_range(op->request_range);
    case ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT: return apply_check_put(op->request_put);
    case ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE:
        return apply_check_delete_range(op->request_delete_range);
    case ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN: return 0;
    default: return E_KEY_NOT_FOUND;
    }
}

static const Etcdserverpb__RequestOp *frame_op(const struct check_frame *f)
{
    const Etcdserverpb__TxnRequest *t = f->txn;
    if (f->at < t->n_success) return t->success[f->at];
    if (f->at - t->n_success < t->n_failure) return t->failure[f->at - t->n_success];
    return NULL;
}

static int check_ops(const Etcdserverpb__TxnRequest *r, size_t ops_max)
{
    struct check_frame frames[PB_DEPTH_MAX];
    size_t depth = 1;
    int rc = txn_enter(r, ops_max, &frames[0]);
    while (rc == 0 && depth > 0) {
        struct check_frame *f = &frames[depth - 1];
        const Etcdserverpb__RequestOp *op = frame_op(f);
        if (op == NULL) {
            depth--;
            continue;
        }
        f->at++;
        rc = check_op(op);
        if (rc < 0 || op->request_case != ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN) continue;
        if (depth == PB_DEPTH_MAX) return E_TOO_MANY_OPS;
        rc = txn_enter(op->request_txn, f->ops_max, &frames[depth]);
        depth++;
    }
    return rc;
}

int apply_check_txn(const Etcdserverpb__TxnRequest *r, size_t ops_max, const struct alloc *alloc)
{
    int rc = check_ops(r, ops_max);
    if (rc == 0) rc = apply__check_overlap(r->success, r->n_success, alloc);
    if (rc == 0) rc = apply__check_overlap(r->failure, r->n_failure, alloc);
    return rc;
}

/* ---- what a txn is --------------------------------------------------------------------------- */

static bool all_ranges(Etcdserverpb__RequestOp *const *ops, size_t n, bool serializable)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->request_case != ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE) return false;
        if (serializable && !ops[i]->request_range->serializable) return false;
    }
    return true;
}

bool apply_txn_is_readonly(const Etcdserverpb__TxnRequest *r)
{
    return all_ranges(r->success, r->n_success, false) &&
           all_ranges(r->failure, r->n_failure, false);
}

bool apply_txn_is_serializable(const Etcdserverpb__TxnRequest *r)
{
    return all_ranges(r->success, r->n_success, true) && all_ranges(r->failure, r->n_failure, true);
}

/* ---- cost ------------------------------------------------------------------------------------ */

/* What upstream takes for the metadata of a key. */
#define COST_KEY_OVERHEAD 256

uint64_t apply_cost_put(size_t key_bytes, size_t value_bytes)
{
    return (uint64_t)COST_KEY_OVERHEAD + key_bytes + value_bytes;
}

struct cost_frame {
    const Etcdserverpb__TxnRequest *txn;
    size_t at; /* op, counted over both branches */
    uint64_t success;
    uint64_t failure;
};

static void frame_add(struct cost_frame *f, uint64_t cost)
{
    if (f->at <= f->txn->n_success) {
        f->success += cost;
    } else {
        f->failure += cost;
    }
}

/* `f->at` is behind the op that the cost is of. */
static uint64_t frame_cost(const struct cost_frame *f)
{
    return f->success > f->failure ? f->success : f->failure;
}

uint64_t apply_cost_txn(const Etcdserverpb__TxnRequest *r)
{
    struct cost_frame frames[PB_DEPTH_MAX];
    size_t depth = 0;
    frames[0] = (struct cost_frame){.txn = r};
    for (;;) {
        struct cost_frame *f = &frames[depth];
        const Etcdserverpb__RequestOp *op =
            frame_op(&(struct check_frame){.txn = f->txn, .at = f->at});
        if (op == NULL && depth == 0) return frame_cost(f);
        if (op == NULL) {
            uint64_t cost = frame_cost(f);
            frame_add(&frames[--depth], cost);
            continue;
        }
        f->at++;
        if (op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT) {
            frame_add(f, apply_cost_put(op->request_put->key.len, op->request_put->value.len));
        } else if (op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN &&
                   depth + 1 < PB_DEPTH_MAX) {
            frames[++depth] = (struct cost_frame){.txn = op->request_txn};
        }
    }
}
