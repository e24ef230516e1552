/* Phases CHECK and EXEC of a program: the ops, one after the other. */
#include "apply/apply_int.h"

/* ---- CHECK ----------------------------------------------------------------------------------- */

static int check_put(const struct apply_txn *x, const struct apply__put *p)
{
    if (p->lease != LEASE_NONE && !lease_find(x->leases, p->lease, NULL)) {
        return E_LEASE_NOT_FOUND;
    }
    if (!p->ignore_value && !p->ignore_lease) return 0;
    struct mvcc_row row;
    return mvcc_write_get(x->m, p->key, &row) < 0 ? E_KEY_NOT_FOUND : 0;
}

/* Against the revision before the txn, even if the txn would make the one that is asked for. A
 * negative one is below the compact revision, which starts at -1. */
static int check_range(const struct apply_txn *x, int64_t revision)
{
    if (revision == 0 || !x->check_ranges) return 0;
    if (revision > x->current) return E_FUTURE_REV;
    return revision < x->compacted ? E_COMPACTED : 0;
}

/* 0, or what the request is answered with; nothing was changed yet. */
int apply__check_op(struct apply_txn *x, const struct apply__prog_op *op)
{
    if (op->kind == APPLY_OP_PUT) return check_put(x, op->put);
    if (op->kind == APPLY_OP_RANGE) return check_range(x, op->range->revision);
    return 0;
}

/* ---- EXEC ------------------------------------------------------------------------------------ */

static struct apply_op *result_op(const struct apply_txn *x)
{
    return x->result == NULL ? NULL : &x->result->ops[x->at];
}

static int64_t revision_now(const struct apply_txn *x)
{
    return x->leases == NULL ? x->current : mvcc_entry_revision(x->m);
}

/* The row before, which the caller wants back. */
static int keep_prev(struct apply_txn *x, struct apply_op *op, const struct mvcc_row *row)
{
    int rc = apply__txn_base(x);
    if (rc < 0) return rc;
    op->view = x->base;
    op->one = *row;
    op->rows = &op->one;
    op->row_count = 1;
    return 0;
}

/* What ignore_value and ignore_lease leave as it is. */
static int put_inherit(struct apply_txn *x, struct apply__put *p, const struct mvcc_row *row,
                       struct errmsg *em)
{
    struct bytes raw;
    int rc = mvcc_write_kv(x->m, row, &raw, em);
    if (rc < 0) return rc;
    struct pb_kv kv;
    if (pb_kv_decode(raw, &kv) < 0) {
        errmsg_set(em, "the row at revision %lld does not parse", (long long)row->mod);
        return E_CORRUPT;
    }
    if (p->ignore_value) p->value = kv.value;
    if (p->ignore_lease) p->lease = kv.lease;
    return 0;
}

/* The key hangs on its new lease and on no other. A lease that ignore_lease brought along may be
 * unknown in a restored store: the row keeps its number. */
static int put_lease(struct apply_txn *x, const struct apply__put *p)
{
    if (p->lease != LEASE_NONE && lease_find(x->leases, p->lease, NULL)) {
        return lease_attach(x->leases, p->lease, p->key);
    }
    lease_detach(x->leases, p->key);
    return 0;
}

static int put_prev(struct apply_txn *x, struct apply__put *p, struct errmsg *em)
{
    struct apply_op *op = result_op(x);
    bool inherit = p->ignore_value || p->ignore_lease;
    if (!inherit && !(p->prev_kv && op != NULL)) return 0;
    struct mvcc_row row;
    int rc = mvcc_write_get(x->m, p->key, &row);
    if (rc == E_NOTFOUND && !inherit) return 0;
    if (rc == E_NOTFOUND) {
        errmsg_set(em, "a put keeps the value or lease of a key that its own txn has deleted");
        return E_CORRUPT;
    }
    if (rc < 0) return rc;
    if (inherit) rc = put_inherit(x, p, &row, em);
    if (rc == 0 && p->prev_kv && op != NULL) rc = keep_prev(x, op, &row);
    return rc;
}

static int exec_put(struct apply_txn *x, const struct apply__put *request, struct errmsg *em)
{
    struct apply__put p = *request;
    int rc = put_prev(x, &p, em);
    if (rc == 0) rc = mvcc_write_put(x->m, p.key, p.value, p.lease, NULL);
    if (rc == 0) rc = put_lease(x, &p);
    if (rc == 0 && x->result != NULL) result_op(x)->revision = revision_now(x);
    return rc;
}

static void detach_deleted(void *arg, struct bytes key)
{
    lease_detach(arg, key);
}

/* The deleted rows change their owner from the deletion to the result: both have the same
 * allocator. */
static int delete_result(struct apply_txn *x, struct apply_op *op)
{
    struct mvcc_delete *d = &x->delete;
    op->revision = revision_now(x);
    op->count = (int64_t)d->count;
    if (d->prev_count == 0) return 0;
    int rc = apply__txn_base(x);
    if (rc < 0) return rc;
    op->view = x->base;
    op->rows = d->prev;
    op->row_count = d->prev_count;
    op->rows_cap = d->prev_cap;
    d->prev = NULL;
    d->prev_count = d->prev_cap = 0;
    return 0;
}

static int exec_delete(struct apply_txn *x, const Etcdserverpb__DeleteRangeRequest *r,
                       uint32_t *budget)
{
    if (!x->delete_open) {
        /* The view that shows the rows is opened before they are gone. */
        int rc = r->prev_kv && x->result != NULL ? apply__txn_base(x) : 0;
        if (rc < 0) return rc;
        mvcc_delete_init(&x->delete, x->m, apply__bytes(r->key), apply__bytes(r->range_end));
        x->delete.on_lease = detach_deleted;
        x->delete.arg = x->leases;
        x->delete.want_prev = r->prev_kv && x->result != NULL;
        x->delete_open = true;
    }
    int rc = 1;
    while (rc == 1) {
        uint32_t keys = *budget < MVCC_SLICE_KEYS ? *budget : MVCC_SLICE_KEYS;
        if (keys == 0) return 1;
        rc = mvcc_delete_step(&x->delete, keys);
        (void)apply__spend(budget, keys);
    }
    if (rc == 0 && x->result != NULL) rc = delete_result(x, result_op(x));
    if (rc < 0) return rc;
    mvcc_delete_deinit(&x->delete);
    x->delete_open = false;
    return 0;
}

/* The view of a range: the common one where it shows the same, else one of its own. */
static int range_view(struct apply_txn *x, int64_t revision, struct apply_op *op)
{
    if (revision <= 0 && revision_now(x) == x->current) {
        int rc = apply__txn_base(x);
        op->view = x->base;
        return rc;
    }
    struct mvcc_view *v = alloc_zero(x->alloc, sizeof *v);
    if (v == NULL) return E_NOMEM;
    int rc = x->leases == NULL ? mvcc_view_open(x->m, revision, v)
                               : mvcc_view_open_entry(x->m, revision, v);
    if (rc < 0) {
        alloc_free(x->alloc, v, sizeof *v);
        return rc;
    }
    op->view = v;
    op->view_owned = true;
    return 0;
}

static int64_t enum_or_zero(int64_t v, int64_t max)
{
    return v < 0 || v > max ? 0 : v;
}

static int range_start(struct apply_txn *x, const Etcdserverpb__RangeRequest *r)
{
    struct apply_op *op = result_op(x);
    int rc = range_view(x, r->revision, op);
    if (rc < 0) return rc;
    struct mvcc_range_opts o = {
        .key = apply__bytes(r->key),
        .end = apply__bytes(r->range_end),
        .limit = r->limit,
        .order = (enum mvcc_sort_order)enum_or_zero(r->sort_order, MVCC_SORT_DESCEND),
        .target = (enum mvcc_sort_target)enum_or_zero(r->sort_target, MVCC_SORT_VALUE),
        .mod_min = r->min_mod_revision,
        .mod_max = r->max_mod_revision,
        .create_min = r->min_create_revision,
        .create_max = r->max_create_revision,
        .count_only = r->count_only,
    };
    mvcc_range_init(&x->range, op->view, &o);
    x->range_open = true;
    x->row_at = 0;
    op->keys_only = r->keys_only;
    op->keep_lease = o.target == MVCC_SORT_VALUE;
    return 0;
}

/* Moves the selected rows into the op, some at a time. */
static int range_rows(struct apply_txn *x, struct apply_op *op, uint32_t *budget)
{
    size_t n = x->range.row_count;
    if (n == 0) return 0;
    if (op->rows_cap == 0) {
        struct mvcc_row *rows = alloc_new(x->alloc, n * sizeof *rows);
        if (rows == NULL) return E_NOMEM;
        op->rows = rows;
        op->rows_cap = n;
    }
    union {
        const struct mvcc_row *shown;
        struct mvcc_row *own;
    } rows = {.shown = op->rows};
    while (x->row_at < n) {
        if (*budget == 0) return 1;
        size_t end = x->row_at + MVCC_SLICE_KEYS < n ? x->row_at + MVCC_SLICE_KEYS : n;
        for (; x->row_at < end; x->row_at++) {
            rows.own[x->row_at] = *mvcc_range_row(&x->range, x->row_at);
        }
        (void)apply__spend(budget, MVCC_SLICE_KEYS / 16);
    }
    op->row_count = n;
    return 0;
}

static int exec_range(struct apply_txn *x, const Etcdserverpb__RangeRequest *r, uint32_t *budget,
                      struct errmsg *em)
{
    if (x->result == NULL) return 0;
    struct apply_op *op = result_op(x);
    int rc = x->range_open ? 0 : range_start(x, r);
    while (rc == 0 && x->range.state != MVCC_RANGE_DONE) {
        uint32_t keys = *budget < MVCC_SLICE_KEYS ? *budget : MVCC_SLICE_KEYS;
        if (keys == 0) return 1;
        rc = mvcc_range_step(&x->range, keys, em);
        (void)apply__spend(budget, keys);
        if (rc == 0) break;
        if (rc == 1) rc = 0;
    }
    if (rc == 0) rc = range_rows(x, op, budget);
    if (rc != 0) return rc;
    op->count = (int64_t)x->range.count;
    op->more = x->range.more;
    op->revision = revision_now(x);
    mvcc_range_deinit(&x->range);
    x->range_open = false;
    return 0;
}

static int exec_op(struct apply_txn *x, const struct apply__prog_op *op, uint32_t *budget,
                   struct errmsg *em)
{
    switch (op->kind) {
    case APPLY_OP_PUT: (void)apply__spend(budget, 1); return exec_put(x, op->put, em);
    case APPLY_OP_RANGE: return exec_range(x, op->range, budget, em);
    case APPLY_OP_DELETE_RANGE: return exec_delete(x, op->del, budget);
    case APPLY_OP_NONE:
    case APPLY_OP_TXN:
    case APPLY_OP_COMPACTION:
    case APPLY_OP_LEASE_GRANT:
    case APPLY_OP_LEASE_REVOKE:
    case APPLY_OP_LEASE_CHECKPOINT:
    case APPLY_OP_ALARM:
    case APPLY_OP_CONF_CHANGE:
    case APPLY_OP_OTHER: break;
    }
    (void)apply__spend(budget, 1);
    return 0;
}

int apply__exec_step(struct apply_txn *x, uint32_t *budget, struct errmsg *em)
{
    while (x->at < x->prog_count) {
        /* An op in progress goes on even with an empty budget: it checks for itself. */
        if (*budget == 0) return 1;
        int rc = exec_op(x, &x->prog[x->at], budget, em);
        if (rc != 0) return rc;
        x->at++;
    }
    if (x->result != NULL && x->prog[0].kind == APPLY_OP_TXN) {
        x->result->ops[0].revision = revision_now(x);
    }
    return 0;
}
