/* Transactions as one would write them down: eight keys, every state of every revision, recursion.
 */
#ifndef TEST_UNIT_APPLY_MODEL_H
#define TEST_UNIT_APPLY_MODEL_H

#include "fixture.h"

enum { KEYS = 8, REVISIONS_MAX = 4096, OPS_MAX = 512, ROWS_MAX = KEYS };

struct model_row {
    bool live;
    int64_t create, mod, version, lease;
    char value[8];
};

struct model_state {
    struct model_row rows[KEYS];
};

struct shown_row {
    unsigned key;
    struct model_row row;
};

struct shown_op {
    enum apply_op_kind kind;
    bool succeeded, more;
    int64_t revision, count;
    size_t op_count, row_count;
    struct shown_row rows[ROWS_MAX];
};

struct model {
    struct model_state at[REVISIONS_MAX]; /* by revision */
    int64_t revision, compacted;
    /* the txn in progress */
    struct model_state now;
    bool changed;
    struct shown_op ops[OPS_MAX];
    size_t op_count;
};

static inline struct bytes span(ProtobufCBinaryData d)
{
    return bytes_of(d.data, d.len);
}

static inline bool model_in(unsigned key, ProtobufCBinaryData from, ProtobufCBinaryData end)
{
    char text[2] = {(char)('a' + (int)key), 0};
    struct bytes k = bytes_str(text);
    if (end.len == 0) return bytes_eq(k, span(from));
    if (bytes_cmp(k, span(from)) < 0) return false;
    return (end.len == 1 && end.data[0] == 0) || bytes_cmp(k, span(end)) < 0;
}

static inline int sign(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static inline int model_sides(const compare_request *c, const struct model_row *r)
{
    int64_t v = 0;
    if (c->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION && c->target == 0) {
        v = c->version;
    }
    if (c->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION &&
        c->target == 1) {
        v = c->create_revision;
    }
    if (c->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION &&
        c->target == 2) {
        v = c->mod_revision;
    }
    if (c->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_LEASE && c->target == 4) {
        v = c->lease;
    }
    switch ((int)c->target) {
    case 0: return sign(r->version, v);
    case 1: return sign(r->create, v);
    case 2: return sign(r->mod, v);
    case 3:
        return bytes_cmp(bytes_str(r->value),
                         c->target_union_case == ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE
                             ? span(c->value)
                             : BYTES_EMPTY);
    case 4: return sign(r->lease, v);
    default: return 0;
    }
}

static inline bool model_row_holds(const compare_request *c, const struct model_row *r)
{
    int s = model_sides(c, r);
    switch ((int)c->result) {
    case 0: return s == 0;
    case 1: return s > 0;
    case 2: return s < 0;
    case 3: return s != 0;
    default: return true;
    }
}

static inline bool model_holds(const struct model *m, const compare_request *c)
{
    bool any = false;
    for (unsigned k = 0; k < KEYS; k++) {
        const struct model_row *r = &m->at[m->revision].rows[k];
        if (!r->live || !model_in(k, c->key, c->range_end)) continue;
        any = true;
        if (!model_row_holds(c, r)) return false;
    }
    if (any) return true;
    return c->target != 3 && model_row_holds(c, &(struct model_row){.live = false});
}

static inline bool model_picks(const struct model *m, const txn_request *t)
{
    for (size_t i = 0; i < t->n_compare; i++) {
        if (!model_holds(m, t->compare[i])) return false;
    }
    return true;
}

static inline int model_check_op(const struct model *m, const request_op *op);

static inline int model_check(const struct model *m, const txn_request *t)
{
    bool yes = model_picks(m, t);
    size_t n = yes ? t->n_success : t->n_failure;
    request_op **ops = yes ? t->success : t->failure;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = model_check_op(m, ops[i]);
    }
    return rc;
}

static inline int model_check_op(const struct model *m, const request_op *op)
{
    if (op->request_case == OP_CASE(TXN)) return model_check(m, op->request_txn);
    if (op->request_case == OP_CASE(RANGE)) {
        int64_t rev = op->request_range->revision;
        if (rev == 0) return 0;
        if (rev > m->revision) return E_FUTURE_REV;
        return rev < m->compacted ? E_COMPACTED : 0;
    }
    if (op->request_case != OP_CASE(PUT)) return 0;
    const Etcdserverpb__PutRequest *p = op->request_put;
    if (p->lease > 2) return E_LEASE_NOT_FOUND;
    bool keeps = p->ignore_value || p->ignore_lease;
    return keeps && !m->at[m->revision].rows[p->key.data[0] - 'a'].live ? E_KEY_NOT_FOUND : 0;
}

/* ---- execution ------------------------------------------------------------------------------- */

static inline struct shown_op *model_show(struct model *m, enum apply_op_kind kind)
{
    assert_true(m->op_count < OPS_MAX);
    m->ops[m->op_count] = (struct shown_op){.kind = kind};
    return &m->ops[m->op_count++];
}

static inline void model_put(struct model *m, const Etcdserverpb__PutRequest *p)
{
    struct shown_op *op = model_show(m, APPLY_OP_PUT);
    unsigned k = (unsigned)(p->key.data[0] - 'a');
    struct model_row *r = &m->now.rows[k];
    if (p->prev_kv && r->live) op->rows[op->row_count++] = (struct shown_row){k, *r};
    struct model_row old = *r;
    r->create = old.live ? old.create : m->revision + 1;
    r->version = old.live ? old.version + 1 : 1;
    r->mod = m->revision + 1;
    r->live = true;
    if (!p->ignore_lease) r->lease = p->lease;
    if (!p->ignore_value) {
        memset(r->value, 0, sizeof r->value);
        memcpy(r->value, p->value.data, p->value.len);
    }
    m->changed = true;
    op->revision = m->revision + 1;
}

static inline void model_delete(struct model *m, const Etcdserverpb__DeleteRangeRequest *d)
{
    struct shown_op *op = model_show(m, APPLY_OP_DELETE_RANGE);
    for (unsigned k = 0; k < KEYS; k++) {
        struct model_row *r = &m->now.rows[k];
        if (!r->live || !model_in(k, d->key, d->range_end)) continue;
        if (d->prev_kv) op->rows[op->row_count++] = (struct shown_row){k, *r};
        *r = (struct model_row){.live = false};
        op->count++;
        m->changed = true;
    }
    op->revision = m->revision + m->changed;
}

static inline int64_t sort_value(const struct model_row *r, int target)
{
    return target == 1 ? r->version : target == 2 ? r->create : r->mod;
}

static inline bool out_of_order(const struct shown_row *a, const struct shown_row *b, int target,
                                bool descend)
{
    int c = sign(a->key, b->key);
    if (target == 4) c = bytes_cmp(bytes_str(a->row.value), bytes_str(b->row.value));
    if (target > 0 && target < 4) {
        c = sign(sort_value(&a->row, target), sort_value(&b->row, target));
    }
    return descend ? c < 0 : c > 0;
}

static inline void model_sort(struct shown_op *op, int target, bool descend)
{
    for (size_t i = 1; i < op->row_count; i++) {
        for (size_t j = i; j > 0; j--) {
            if (!out_of_order(&op->rows[j - 1], &op->rows[j], target, descend)) break;
            struct shown_row t = op->rows[j];
            op->rows[j] = op->rows[j - 1];
            op->rows[j - 1] = t;
        }
    }
}

static inline bool passes(const struct model_row *r, const Etcdserverpb__RangeRequest *q)
{
    return (q->min_mod_revision == 0 || r->mod >= q->min_mod_revision) &&
           (q->max_mod_revision == 0 || r->mod <= q->max_mod_revision) &&
           (q->min_create_revision == 0 || r->create >= q->min_create_revision) &&
           (q->max_create_revision == 0 || r->create <= q->max_create_revision);
}

static inline void model_range(struct model *m, const Etcdserverpb__RangeRequest *q)
{
    struct shown_op *op = model_show(m, APPLY_OP_RANGE);
    op->revision = m->revision + m->changed;
    const struct model_state *s = q->revision > 0 ? &m->at[q->revision] : &m->now;
    bool filters = q->min_mod_revision != 0 || q->max_mod_revision != 0 ||
                   q->min_create_revision != 0 || q->max_create_revision != 0;
    bool by_default = q->sort_order == 0 || (q->sort_order == 1 && q->sort_target == 0);
    size_t limit = q->limit > 0 ? (size_t)q->limit : SIZE_MAX - 1;
    for (unsigned k = 0; k < KEYS; k++) {
        if (!s->rows[k].live || !model_in(k, q->key, q->range_end)) continue;
        op->count++;
        bool cut = by_default && !filters && op->row_count > limit;
        if (!q->count_only && !cut && passes(&s->rows[k], q)) {
            op->rows[op->row_count++] = (struct shown_row){k, s->rows[k]};
        }
    }
    if (q->sort_order != 0 || q->sort_target != 0) {
        model_sort(op, (int)q->sort_target, q->sort_order == 2);
    }
    op->more = op->row_count > limit;
    if (op->more) op->row_count = limit;
}

static inline void model_exec(struct model *m, const txn_request *t)
{
    size_t self = m->op_count;
    struct shown_op *op = model_show(m, APPLY_OP_TXN);
    op->succeeded = model_picks(m, t);
    size_t n = op->succeeded ? t->n_success : t->n_failure;
    request_op **ops = op->succeeded ? t->success : t->failure;
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->request_case == OP_CASE(PUT)) model_put(m, ops[i]->request_put);
        if (ops[i]->request_case == OP_CASE(RANGE)) model_range(m, ops[i]->request_range);
        if (ops[i]->request_case == OP_CASE(DELETE_RANGE)) {
            model_delete(m, ops[i]->request_delete_range);
        }
        if (ops[i]->request_case == OP_CASE(TXN)) model_exec(m, ops[i]->request_txn);
        if (ops[i]->request_case == 0) (void)model_show(m, APPLY_OP_NONE);
    }
    m->ops[self].op_count = m->op_count - self - 1;
}

/* Runs the txn; the ops to be shown are in m->ops. Returns its error. */
static inline int model_txn(struct model *m, const txn_request *t)
{
    int rc = model_check(m, t);
    m->op_count = 0;
    m->changed = false;
    if (rc < 0) return rc;
    m->now = m->at[m->revision];
    model_exec(m, t);
    m->ops[0].revision = m->revision + m->changed;
    if (m->changed) {
        assert_true(m->revision + 1 < REVISIONS_MAX);
        m->at[++m->revision] = m->now;
    }
    return 0;
}

/* ---- comparison ------------------------------------------------------------------------------ */

static inline void compare_op(struct apply_result *r, size_t i, const struct shown_op *want)
{
    const struct apply_op *got = &r->ops[i];
    assert_int_equal(got->kind, want->kind);
    assert_int_equal(got->succeeded, want->succeeded);
    assert_int_equal(got->more, want->more);
    assert_int_equal(got->revision, want->revision);
    assert_int_equal(got->count, want->count);
    assert_int_equal(got->op_count, want->op_count);
    assert_int_equal(got->row_count, want->row_count);
    for (size_t k = 0; k < want->row_count; k++) {
        struct pb_kv kv = row_of(r, i, k);
        const struct model_row *row = &want->rows[k].row;
        assert_int_equal(kv.key.data[0], 'a' + (int)want->rows[k].key);
        assert_int_equal(kv.create_revision, row->create);
        assert_int_equal(kv.mod_revision, row->mod);
        assert_int_equal(kv.version, row->version);
        assert_int_equal(kv.lease, row->lease);
        assert_span(kv.value, row->value);
    }
}

static inline void compare_result(struct apply_result *r, const struct model *m, int error)
{
    assert_int_equal(r->error, error);
    assert_int_equal(r->op_count, m->op_count);
    for (size_t i = 0; i < m->op_count; i++) {
        compare_op(r, i, &m->ops[i]);
    }
}

#endif
