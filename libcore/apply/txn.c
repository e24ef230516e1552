/* The program of a request: its phases, and the face for reads beside raft. */
#include "apply/apply_int.h"

bool apply__spend(uint32_t *budget, uint32_t steps)
{
    *budget = *budget > steps ? *budget - steps : 0;
    return *budget > 0;
}

void apply__txn_init(struct apply_txn *x, struct mvcc *m, struct lease_table *leases,
                     const struct alloc *alloc, struct arena *arena, struct apply_result *result)
{
    /* Not the frames: they are large, and filled before they are read. */
    memset((char *)x + offsetof(struct apply_txn, depth), 0,
           sizeof *x - offsetof(struct apply_txn, depth));
    x->m = m;
    x->leases = leases;
    x->alloc = alloc;
    x->arena = arena;
    x->result = result;
    x->check_ranges = false;
    x->prog = NULL;
    x->prog_count = x->prog_cap = 0;
    x->current = mvcc_revision(m);
    x->compacted = mvcc_compacted(m);
}

int apply__txn_push(struct apply_txn *x, const struct apply__prog_op *op)
{
    if (x->prog_count == x->prog_cap) {
        size_t cap = x->prog_cap == 0 ? 1 : x->prog_cap * 2;
        struct apply__prog_op *prog = arena_new(x->arena, cap * sizeof *prog);
        if (prog == NULL) return E_NOMEM;
        if (x->prog_count > 0) memcpy(prog, x->prog, x->prog_count * sizeof *prog);
        x->prog = prog;
        x->prog_cap = cap;
    }
    x->prog[x->prog_count++] = *op;
    return 0;
}

int apply__txn_set(struct apply_txn *x, const Etcdserverpb__TxnRequest *txn)
{
    ASSERT(x->prog_count == 0);
    int rc = apply__txn_push(x, &(struct apply__prog_op){.kind = APPLY_OP_TXN});
    if (rc < 0) return rc;
    x->frames[0] = (struct apply__frame){.txn = txn};
    x->depth = 1;
    x->phase = APPLY__COMPARE;
    x->check_ranges = true;
    return 0;
}

int apply__txn_set_op(struct apply_txn *x, const struct apply__prog_op *op)
{
    ASSERT(x->prog_count == 0);
    x->phase = APPLY__CHECK;
    return apply__txn_push(x, op);
}

int apply__txn_base(struct apply_txn *x)
{
    if (x->base != NULL) return 0;
    struct mvcc_view *v = x->result != NULL ? &x->result->view : &x->own_view;
    int rc = x->leases == NULL ? mvcc_view_open(x->m, 0, v) : mvcc_view_open_entry(x->m, 0, v);
    if (rc < 0) return rc;
    if (x->result != NULL) x->result->view_open = true;
    x->base = v;
    return 0;
}

void apply__txn_deinit(struct apply_txn *x)
{
    if (x->range_open) mvcc_range_deinit(&x->range);
    if (x->delete_open) mvcc_delete_deinit(&x->delete);
    if (x->base == &x->own_view) mvcc_view_close(x->base);
    x->range_open = x->delete_open = false;
    x->base = NULL;
    x->phase = APPLY__FINISHED;
}

/* Between CHECK and EXEC: the ops of the result, shaped as the program. */
static int result_shape(struct apply_txn *x)
{
    if (x->result == NULL) return 0;
    int rc = apply__result_ops(x->result, x->prog_count);
    for (size_t i = 0; rc == 0 && i < x->prog_count; i++) {
        x->result->ops[i].kind = x->prog[i].kind;
        x->result->ops[i].succeeded = x->prog[i].succeeded;
        x->result->ops[i].op_count = x->prog[i].op_count;
    }
    return rc;
}

static int check_step(struct apply_txn *x, uint32_t *budget)
{
    while (x->at < x->prog_count) {
        if (*budget == 0) return 1;
        (void)apply__spend(budget, 1);
        x->answer = apply__check_op(x, &x->prog[x->at]);
        if (x->answer < 0) return 0;
        x->at++;
    }
    x->at = 0;
    return result_shape(x);
}

int apply__txn_step(struct apply_txn *x, uint32_t *budget, struct errmsg *em)
{
    int rc = 0;
    if (x->phase == APPLY__COMPARE) {
        rc = apply__compare_step(x, budget, em);
        if (rc != 0) return rc;
        x->phase = APPLY__CHECK;
    }
    if (x->phase == APPLY__CHECK) {
        rc = check_step(x, budget);
        if (rc != 0) return rc;
        x->phase = x->answer < 0 ? APPLY__FINISHED : APPLY__EXEC;
    }
    if (x->phase == APPLY__EXEC) {
        rc = apply__exec_step(x, budget, em);
        if (rc != 0) return rc;
        x->phase = APPLY__FINISHED;
    }
    return 0;
}

/* ---- reads beside raft ----------------------------------------------------------------------- */

struct apply_read {
    const struct alloc *alloc;
    struct arena arena;
    struct apply_result *result;
    struct apply_txn txn;
};

int apply_read_new(const struct alloc *alloc, struct mvcc *m, const Etcdserverpb__TxnRequest *txn,
                   struct apply_read **out)
{
    ASSERT(apply_txn_is_readonly(txn));
    struct apply_read *r = alloc_zero(alloc, sizeof *r);
    if (r == NULL) return E_NOMEM;
    r->alloc = alloc;
    arena_init(&r->arena, alloc, APPLY_ARENA_BYTES_MAX);
    r->result = apply__result_new(alloc, 0);
    int rc = r->result == NULL ? E_NOMEM : 0;
    if (rc == 0) {
        apply__txn_init(&r->txn, m, NULL, alloc, &r->arena, r->result);
        rc = apply__txn_set(&r->txn, txn);
    }
    if (rc == 0) rc = apply__txn_base(&r->txn);
    if (rc < 0) {
        apply_read_free(r);
        return rc;
    }
    /* One pinned revision judges and answers all of it. */
    r->txn.current = r->txn.base->current;
    r->txn.compacted = r->txn.base->compacted;
    r->result->revision = r->txn.current;
    *out = r;
    return 0;
}

int apply_read_step(struct apply_read *r, uint32_t *budget, struct errmsg *em)
{
    if (*budget == 0) *budget = 1;
    int rc = apply__txn_step(&r->txn, budget, em);
    if (rc != 0) return rc;
    return r->txn.answer;
}

struct apply_result *apply_read_take(struct apply_read *r)
{
    ASSERT(r->txn.phase == APPLY__FINISHED);
    ASSERT(r->txn.answer == 0);
    struct apply_result *result = r->result;
    r->result = NULL;
    r->txn.base = NULL;
    return result;
}

void apply_read_free(struct apply_read *r)
{
    if (r == NULL) return;
    apply__txn_deinit(&r->txn);
    apply_result_free(r->result);
    arena_deinit(&r->arena);
    alloc_free(r->alloc, r, sizeof *r);
}
