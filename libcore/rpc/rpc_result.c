/* What apply says happened, as the bytes of an answer.
 *
 * Ops stand in pre-order and the list of responses is the last field of a TxnResponse, so one forward pass writes the whole
 * tree once each op's size is known; sizes are added up backwards, children before their txn. */
#include "rpc/rpc_int.h"

#include "base/assert.h"
#include "pb/kv.h"

/* Fields: a list of KeyValues and what stands beside it. */
enum {
    RANGE_KVS = 2,
    RANGE_MORE = 3,
    RANGE_COUNT = 4,
    PUT_PREV_KV = 2,
    DELETE_DELETED = 2,
    DELETE_PREV_KVS = 3,
    TXN_SUCCEEDED = 2,
    TXN_RESPONSES = 3,
    GRANT_ID = 2,
    GRANT_TTL = 3,
    ALARM_ALARMS = 2
};

struct encoder {
    const struct apply_result *result;
    struct rpc_header top;
    size_t *body; /* bytes of each op's message */
};

static int shown(const struct apply_op *op, size_t i, struct bytes *head, struct bytes *lease)
{
    struct errmsg em = {""};
    struct bytes kv = BYTES_EMPTY;
    int rc = mvcc_view_kv(op->view, &op->rows[i], &kv, &em);
    if (rc == 0) {
        *head = rpc__kv_shown(kv, op->keys_only, op->keep_lease ? MVCC_SORT_VALUE : MVCC_SORT_KEY,
                              lease);
    }
    return rc;
}

static uint32_t rows_field(const struct apply_op *op)
{
    return op->kind == APPLY_OP_DELETE_RANGE ? DELETE_PREV_KVS : RANGE_KVS;
}

static struct rpc_header header_of(const struct encoder *e, size_t i)
{
    return i == 0 ? e->top : (struct rpc_header){.revision = e->result->ops[i].revision};
}

/* --- sizes ----------------------------------------------------------------------------------------- */

static int rows_size(const struct apply_op *op, size_t *size)
{
    for (size_t i = 0; i < op->row_count; i++) {
        struct bytes head = BYTES_EMPTY;
        struct bytes lease = BYTES_EMPTY;
        int rc = shown(op, i, &head, &lease);
        if (rc < 0) return rc;
        *size += pb_len_size(rows_field(op), head.len + lease.len);
    }
    return 0;
}

/* A ResponseOp inside a txn: the oneof member, its number being the kind's. */
static uint32_t oneof_field(const struct apply_op *op)
{
    return op->kind == APPLY_OP_RANGE          ? 1
           : op->kind == APPLY_OP_PUT          ? 2
           : op->kind == APPLY_OP_DELETE_RANGE ? 3
                                               : 4;
}

static size_t op_size(const struct encoder *e, size_t i)
{
    const struct apply_op *op = &e->result->ops[i];
    return op->kind == APPLY_OP_NONE ? 0 : pb_len_size(oneof_field(op), e->body[i]);
}

static size_t alarms_size(const struct apply_result *r)
{
    size_t size = 0;
    uint8_t room[PB_ALARM_BYTES_MAX];
    for (size_t i = 0; i < r->alarm_count; i++) {
        size += pb_len_size(ALARM_ALARMS, (size_t)(pb_alarm_write(&r->alarms[i], room) - room));
    }
    return size;
}

static size_t fields_size(const struct encoder *e, size_t i)
{
    const struct apply_op *op = &e->result->ops[i];
    size_t n = 0;
    if (op->kind == APPLY_OP_RANGE && op->more) n += pb_uint_size(RANGE_MORE, 1);
    if (op->kind == APPLY_OP_RANGE && op->count != 0)
        n += pb_uint_size(RANGE_COUNT, (uint64_t)op->count);
    if (op->kind == APPLY_OP_DELETE_RANGE && op->count != 0) {
        n += pb_uint_size(DELETE_DELETED, (uint64_t)op->count);
    }
    if (op->kind == APPLY_OP_TXN && op->succeeded) n += pb_uint_size(TXN_SUCCEEDED, 1);
    if (op->kind == APPLY_OP_LEASE_GRANT) {
        n += pb_uint_size(GRANT_ID, (uint64_t)op->lease_id) +
             pb_uint_size(GRANT_TTL, (uint64_t)op->ttl_s);
    }
    if (op->kind == APPLY_OP_ALARM) n += alarms_size(e->result);
    return n;
}

static int body_size(struct encoder *e, size_t i)
{
    const struct apply_op *op = &e->result->ops[i];
    struct rpc_header h = header_of(e, i);
    size_t size = pb_len_size(1, rpc__header_size(&h)) + fields_size(e, i);
    int rc = rows_size(op, &size);
    /* Direct children of a txn: each skips its own descendants. */
    for (size_t k = i + 1; op->kind == APPLY_OP_TXN && k <= i + op->op_count;
         k += 1 + e->result->ops[k].op_count) {
        size += pb_len_size(TXN_RESPONSES, op_size(e, k));
    }
    e->body[i] = size;
    return rc;
}

/* --- bytes ------------------------------------------------------------------------------------------ */

static int put_rows(const struct apply_op *op, struct buf *out)
{
    int rc = 0;
    for (size_t i = 0; i < op->row_count && rc == 0; i++) {
        struct bytes head = BYTES_EMPTY;
        struct bytes lease = BYTES_EMPTY;
        rc = shown(op, i, &head, &lease);
        if (rc == 0) rc = pb_put_len(out, rows_field(op), head.len + lease.len);
        if (rc == 0) rc = buf_put_bytes(out, head);
        if (rc == 0) rc = buf_put_bytes(out, lease);
    }
    return rc;
}

static int put_alarms(const struct apply_result *r, struct buf *out)
{
    int rc = 0;
    for (size_t i = 0; i < r->alarm_count && rc == 0; i++) {
        uint8_t room[PB_ALARM_BYTES_MAX];
        size_t len = (size_t)(pb_alarm_write(&r->alarms[i], room) - room);
        rc = pb_put_bytes(out, ALARM_ALARMS, bytes_of(room, len));
    }
    return rc;
}

static int put_grant(const struct apply_op *op, struct buf *out)
{
    int rc = pb_put_uint(out, GRANT_ID, (uint64_t)op->lease_id);
    return rc < 0 ? rc : pb_put_uint(out, GRANT_TTL, (uint64_t)op->ttl_s);
}

static int put_fields(const struct encoder *e, const struct apply_op *op, struct buf *out)
{
    int rc = 0;
    switch (op->kind) {
    case APPLY_OP_RANGE:
        rc = put_rows(op, out);
        if (rc == 0 && op->more) rc = pb_put_uint(out, RANGE_MORE, 1);
        if (rc == 0 && op->count != 0) rc = pb_put_uint(out, RANGE_COUNT, (uint64_t)op->count);
        return rc;
    case APPLY_OP_DELETE_RANGE:
        if (op->count != 0) rc = pb_put_uint(out, DELETE_DELETED, (uint64_t)op->count);
        return rc == 0 ? put_rows(op, out) : rc;
    case APPLY_OP_PUT: return put_rows(op, out);
    case APPLY_OP_TXN: return op->succeeded ? pb_put_uint(out, TXN_SUCCEEDED, 1) : 0;
    case APPLY_OP_LEASE_GRANT: return put_grant(op, out);
    case APPLY_OP_ALARM: return put_alarms(e->result, out);
    case APPLY_OP_NONE:
    case APPLY_OP_COMPACTION:
    case APPLY_OP_LEASE_REVOKE:
    case APPLY_OP_LEASE_CHECKPOINT:
    case APPLY_OP_CONF_CHANGE:
    case APPLY_OP_OTHER: return 0;
    }
    return rc;
}

static int put_op(const struct encoder *e, size_t i, struct buf *out)
{
    const struct apply_op *op = &e->result->ops[i];
    int rc = 0;
    if (i > 0) {
        rc = pb_put_len(out, TXN_RESPONSES, op_size(e, i));
        if (rc < 0 || op->kind == APPLY_OP_NONE) return rc;
        rc = pb_put_len(out, oneof_field(op), e->body[i]);
    }
    struct rpc_header h = header_of(e, i);
    if (rc == 0) rc = rpc__header_put(&h, out);
    return rc == 0 ? put_fields(e, op, out) : rc;
}

int rpc__result_put(struct rpc_thread *t, const struct apply_result *r, struct buf *out)
{
    ASSERT(r->error == 0 && r->op_count > 0);
    struct encoder e = {.result = r, .top = rpc__header(t, r->revision)};
    size_t one = 0;
    e.body = r->op_count == 1 ? &one : arena_new(&t->scratch, r->op_count * sizeof *e.body);
    if (e.body == NULL) return E_NOMEM;
    int rc = 0;
    for (size_t i = r->op_count; i-- > 0 && rc == 0;)
        rc = body_size(&e, i);
    for (size_t i = 0; i < r->op_count && rc == 0; i++)
        rc = put_op(&e, i, out);
    return rc;
}

void rpc__reply_result(struct rpc_call *c, const struct apply_result *r)
{
    buf_reset(&c->t->out);
    int rc = r->error != 0 ? r->error : rpc__result_put(c->t, r, &c->t->out);
    if (rc < 0) {
        rpc__fail(c, rc);
    } else {
        rpc__reply(c, buf_bytes(&c->t->out));
    }
}
