/* The life of a result. */
#include "apply/apply_int.h"

struct apply_result *apply__result_new(const struct alloc *alloc, uint64_t request_id)
{
    struct apply_result *r = alloc_zero(alloc, sizeof *r);
    if (r == NULL) return NULL;
    r->alloc = alloc;
    r->request_id = request_id;
    return r;
}

int apply__result_ops(struct apply_result *r, size_t count)
{
    ASSERT(count > 0);
    ASSERT(r->ops == NULL);
    struct apply_op *ops = &r->op_inline;
    if (count > 1) {
        ops = alloc_zero(r->alloc, count * sizeof *ops);
        if (ops == NULL) return E_NOMEM;
    }
    r->ops = ops;
    r->op_count = count;
    return 0;
}

static void op_clear(struct apply_result *r, struct apply_op *op)
{
    if (op->rows_cap > 0) {
        union {
            const struct mvcc_row *shown;
            struct mvcc_row *own;
        } rows = {.shown = op->rows};
        alloc_free(r->alloc, rows.own, op->rows_cap * sizeof *rows.own);
    }
    if (op->view_owned) {
        mvcc_view_close(op->view);
        alloc_free(r->alloc, op->view, sizeof *op->view);
    }
}

void apply__result_clear(struct apply_result *r)
{
    for (size_t i = 0; i < r->op_count; i++) {
        op_clear(r, &r->ops[i]);
    }
    if (r->op_count > 1) alloc_free(r->alloc, r->ops, r->op_count * sizeof *r->ops);
    r->ops = NULL;
    r->op_count = 0;
    if (r->view_open) mvcc_view_close(&r->view);
    r->view_open = false;
}

void apply_result_free(struct apply_result *r)
{
    if (r == NULL) return;
    apply__result_clear(r);
    alloc_free(r->alloc, r->alarms, r->alarm_count * sizeof *r->alarms);
    membership_unref(r->members);
    alloc_free(r->alloc, r, sizeof *r);
}
