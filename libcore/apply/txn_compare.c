/* Phase COMPARE: which branch of which txn, on the state before any of its ops.
 *
 * The path is walked with a stack of frames, one per nested txn, so that the request's depth is no
 * recursion of ours. A compare over a range reads all its rows; each must satisfy it. */
#include "apply/apply_int.h"

static int compare_int64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* How the row stands to what is compared with: below, equal, above. A missing operand is 0 or
 * empty. */
static int compare_sides(const Etcdserverpb__Compare *c, const struct mvcc_row *row,
                         const struct pb_kv *kv)
{
    switch ((int)c->target) {
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE: {
        bool given = c->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE;
        return bytes_cmp(kv->value, given ? apply__bytes(c->value) : BYTES_EMPTY);
    }
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE: {
        bool given = c->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
        return compare_int64(row->create, given ? c->create_revision : 0);
    }
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD: {
        bool given = c->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
        return compare_int64(row->mod, given ? c->mod_revision : 0);
    }
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__VERSION: {
        bool given = c->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION;
        return compare_int64(row->version, given ? c->version : 0);
    }
    case ETCDSERVERPB__COMPARE__COMPARE_TARGET__LEASE: {
        bool given = c->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_LEASE;
        return compare_int64(kv->lease, given ? c->lease : 0);
    }
    default: return 0; /* a target of the future: as upstream */
    }
}

static bool compare_holds(const Etcdserverpb__Compare *c, int sides)
{
    switch ((int)c->result) {
    case ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL: return sides == 0;
    case ETCDSERVERPB__COMPARE__COMPARE_RESULT__NOT_EQUAL: return sides != 0;
    case ETCDSERVERPB__COMPARE__COMPARE_RESULT__GREATER: return sides > 0;
    case ETCDSERVERPB__COMPARE__COMPARE_RESULT__LESS: return sides < 0;
    default: return true; /* a result of the future: as upstream */
    }
}

/* Nothing is there: an all-zero row, but no value equals the absence of one. */
static bool compare_absent(const Etcdserverpb__Compare *c)
{
    if (c->target == ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE) return false;
    return compare_holds(c, compare_sides(c, &(struct mvcc_row){0}, &(struct pb_kv){0}));
}

/* Reads the row's content only if the target is in it. */
static int compare_row(struct apply_txn *x, const Etcdserverpb__Compare *c,
                       const struct mvcc_row *row, bool *holds, struct errmsg *em)
{
    struct pb_kv kv = {0};
    if (c->target == ETCDSERVERPB__COMPARE__COMPARE_TARGET__VALUE ||
        c->target == ETCDSERVERPB__COMPARE__COMPARE_TARGET__LEASE) {
        struct bytes raw;
        int rc = mvcc_view_kv(x->base, row, &raw, em);
        if (rc < 0) return rc;
        if (pb_kv_decode(raw, &kv) < 0) {
            errmsg_set(em, "the row at revision %lld does not parse", (long long)row->mod);
            return E_CORRUPT;
        }
    }
    *holds = compare_holds(c, compare_sides(c, row, &kv));
    return 0;
}

static int compare_one_key(struct apply_txn *x, const Etcdserverpb__Compare *c, uint32_t *budget,
                           bool *holds, struct errmsg *em)
{
    (void)apply__spend(budget, 1);
    struct mvcc_row row;
    int rc = mvcc_view_get(x->base, apply__bytes(c->key), &row);
    if (rc == E_NOTFOUND) {
        *holds = compare_absent(c);
        return 0;
    }
    return rc < 0 ? rc : compare_row(x, c, &row, holds, em);
}

/* The rows of the finished walk, one after the other, until one differs. */
static int compare_rows(struct apply_txn *x, const Etcdserverpb__Compare *c, uint32_t *budget,
                        struct errmsg *em)
{
    while (x->row_at < x->range.row_count && !x->row_differs) {
        if (*budget == 0) return 1;
        (void)apply__spend(budget, 1);
        bool holds = false;
        int rc = compare_row(x, c, mvcc_range_row(&x->range, x->row_at), &holds, em);
        if (rc < 0) return rc;
        x->row_differs = !holds;
        x->row_at++;
    }
    return 0;
}

static int compare_range(struct apply_txn *x, const Etcdserverpb__Compare *c, uint32_t *budget,
                         bool *holds, struct errmsg *em)
{
    if (!x->range_open) {
        mvcc_range_init(&x->range, x->base,
                        &(struct mvcc_range_opts){.key = apply__bytes(c->key),
                                                  .end = apply__bytes(c->range_end)});
        x->range_open = true;
        x->row_at = 0;
        x->row_differs = false;
    }
    int rc = 1;
    while (x->range.state != MVCC_RANGE_DONE) {
        uint32_t keys = *budget < MVCC_SLICE_KEYS ? *budget : MVCC_SLICE_KEYS;
        if (keys == 0) return 1;
        rc = mvcc_range_step(&x->range, keys, em);
        (void)apply__spend(budget, keys);
        if (rc < 0) return rc;
        if (rc == 0) break;
    }
    rc = compare_rows(x, c, budget, em);
    if (rc != 0) return rc;
    *holds = x->range.row_count == 0 ? compare_absent(c) : !x->row_differs;
    mvcc_range_deinit(&x->range);
    x->range_open = false;
    return 0;
}

/* The compares of the innermost frame, up to the first that fails. */
static int frame_compare(struct apply_txn *x, struct apply__frame *f, uint32_t *budget,
                         struct errmsg *em)
{
    bool holds = true;
    while (f->compare_at < f->txn->n_compare && holds) {
        if (*budget == 0) return 1;
        int rc = apply__txn_base(x);
        if (rc < 0) return rc;
        const Etcdserverpb__Compare *c = f->txn->compare[f->compare_at];
        rc = c->range_end.len == 0 ? compare_one_key(x, c, budget, &holds, em)
                                   : compare_range(x, c, budget, &holds, em);
        if (rc != 0) return rc;
        f->compare_at++;
    }
    x->prog[f->op].succeeded = holds;
    f->decided = true;
    return 0;
}

static int push_put(struct apply_txn *x, const Etcdserverpb__PutRequest *p)
{
    struct apply__put *put = arena_new(x->arena, sizeof *put);
    if (put == NULL) return E_NOMEM;
    apply__put_from(p, put);
    return apply__txn_push(x, &(struct apply__prog_op){.kind = APPLY_OP_PUT, .put = put});
}

static int push_op(struct apply_txn *x, const Etcdserverpb__RequestOp *op)
{
    struct apply__prog_op p = {.kind = APPLY_OP_NONE};
    switch ((int)op->request_case) {
    case ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT: return push_put(x, op->request_put);
    case ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE:
        p.kind = APPLY_OP_RANGE;
        p.range = op->request_range;
        break;
    case ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE:
        p.kind = APPLY_OP_DELETE_RANGE;
        p.del = op->request_delete_range;
        break;
    case ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN:
        if (x->depth == PB_DEPTH_MAX) return E_CORRUPT; /* pb_unpack() has refused it */
        x->frames[x->depth++] = (struct apply__frame){.txn = op->request_txn, .op = x->prog_count};
        p.kind = APPLY_OP_TXN;
        break;
    default: break;
    }
    return apply__txn_push(x, &p);
}

/* The next op of the innermost frame's branch, or the end of the frame. */
static int frame_walk(struct apply_txn *x, struct apply__frame *f)
{
    bool ok = x->prog[f->op].succeeded;
    size_t n = ok ? f->txn->n_success : f->txn->n_failure;
    Etcdserverpb__RequestOp **branch = ok ? f->txn->success : f->txn->failure;
    if (f->branch_at < n) return push_op(x, branch[f->branch_at++]);
    x->prog[f->op].op_count = x->prog_count - f->op - 1;
    x->depth--;
    return 0;
}

int apply__compare_step(struct apply_txn *x, uint32_t *budget, struct errmsg *em)
{
    while (x->depth > 0) {
        struct apply__frame *f = &x->frames[x->depth - 1];
        if (!f->decided) {
            int rc = frame_compare(x, f, budget, em);
            if (rc != 0) return rc;
        }
        if (*budget == 0) return 1;
        (void)apply__spend(budget, 1);
        int rc = frame_walk(x, f);
        if (rc < 0) return rc;
    }
    return 0;
}
