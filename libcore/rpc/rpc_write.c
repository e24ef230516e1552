/* Requests that become entries: put, delete_range, txn, compaction, alarm; and txns that only read.
 *
 * The entry is an InternalRaftRequest: the request as decoded and encoded anew, so that unknown fields are gone and the
 * bytes are those that upstream would have logged, then the header with the request's id. */
#include "rpc/rpc_int.h"

#include "apply/check.h"
#include "apply/txn.h"
#include "etcdserverpb.pb-c.h"
#include "pb/pack.h"
#include "pb/unpack.h"

/* Fields of InternalRaftRequest. */
enum {
    RAFT_PUT = 4,
    RAFT_DELETE_RANGE = 5,
    RAFT_TXN = 6,
    RAFT_COMPACTION = 7,
    RAFT_ALARM = 10,
    RAFT_HEADER = 100
};

enum { READ_STEPS = 1024 /* keys of a read-only txn before other requests have their turn */ };

static void applied(struct rpc_call *c)
{
    struct rpc_wait *w = &c->job.wait;
    if (w->rc < 0) {
        rpc__fail(c, w->rc);
    } else {
        rpc__reply_result(c, w->result);
    }
}

/* Room for an entry whose request field holds `len` bytes; the place to write them. */
static struct rcbuf *entry_new(struct rpc_call *c, uint32_t field, size_t len, uint64_t id,
                               uint8_t **body)
{
    size_t header_len = pb_uint_size(1, id);
    size_t bytes = pb_len_size(field, len) + pb_len_size(RAFT_HEADER, header_len);
    if (apply_check_size(bytes, c->t->member->request_bytes_max) < 0) {
        rpc__fail(c, E_REQUEST_TOO_LARGE);
        return NULL;
    }
    struct rcbuf *entry = rcbuf_new(c->t->alloc, bytes);
    if (entry == NULL) {
        rpc__fail(c, E_NOMEM);
        return NULL;
    }
    *body = pb_write_len(entry->data, field, len);
    uint8_t *at = pb_write_len(*body + len, RAFT_HEADER, header_len);
    (void)pb_write_uint(at, 1, id);
    return entry;
}

void rpc__propose_pb(struct rpc_call *c, enum rpc_ask ask, uint32_t field,
                     const ProtobufCMessage *request)
{
    uint64_t id = c->t->member->next_request_id(c->t->member->arg);
    uint8_t *body = NULL;
    struct buf *out = &c->t->out;
    buf_reset(out);
    int rc = pb_pack(request, out);
    if (rc < 0) {
        rpc__fail(c, rc);
        return;
    }
    struct rcbuf *entry = entry_new(c, field, out->len, id, &body);
    if (entry == NULL) return;
    if (out->len > 0) memcpy(body, out->data, out->len);
    rpc__ask(c, ask, entry, id, applied);
}

static void propose_pb(struct rpc_call *c, uint32_t field, const ProtobufCMessage *request)
{
    rpc__propose_pb(c, RPC_ASK_PROPOSE, field, request);
}

int rpc__check_quota(const struct rpc_call *c, uint64_t cost)
{
    const struct rpc_member *m = c->t->member;
    if (apply_quota_has_room(m->apply, cost)) return 0;
    m->raise_nospace(m->arg);
    return E_QUOTA;
}

void rpc__kv_put(struct rpc_call *c, struct bytes msg)
{
    Etcdserverpb__PutRequest *q = rpc__unpack(c, &etcdserverpb__put_request__descriptor, msg);
    if (q == NULL) return;
    int rc = rpc__check_quota(c, apply_cost_put(q->key.len, q->value.len));
    if (rc == 0) rc = apply_check_put(q);
    if (rc < 0) {
        rpc__fail(c, rc);
    } else {
        propose_pb(c, RAFT_PUT, &q->base);
    }
}

void rpc__kv_delete_range(struct rpc_call *c, struct bytes msg)
{
    Etcdserverpb__DeleteRangeRequest *q =
        rpc__unpack(c, &etcdserverpb__delete_range_request__descriptor, msg);
    if (q == NULL) return;
    int rc = apply_check_delete_range(q);
    if (rc < 0) {
        rpc__fail(c, rc);
    } else {
        propose_pb(c, RAFT_DELETE_RANGE, &q->base);
    }
}

void rpc__kv_compact(struct rpc_call *c, struct bytes msg)
{
    Etcdserverpb__CompactionRequest *q =
        rpc__unpack(c, &etcdserverpb__compaction_request__descriptor, msg);
    if (q != NULL) propose_pb(c, RAFT_COMPACTION, &q->base);
}

void rpc__alarm(struct rpc_call *c, struct bytes msg)
{
    Etcdserverpb__AlarmRequest *q = rpc__unpack(c, &etcdserverpb__alarm_request__descriptor, msg);
    if (q != NULL) propose_pb(c, RAFT_ALARM, &q->base);
}

/* --- txn ------------------------------------------------------------------------------------------- */

/* A read-only txn at work: its request stays, since the reader borrows it. */
struct txn {
    struct arena arena;
    Etcdserverpb__TxnRequest *request;
    struct apply_read *read;
};

void rpc__txn_drop(struct rpc_call *c)
{
    struct txn *x = c->state;
    if (x == NULL) return;
    apply_read_free(x->read);
    arena_deinit(&x->arena);
    grpc_pool_put(c->t->pool, x, sizeof *x);
}

static void step_read(struct rpc_call *c)
{
    struct txn *x = c->state;
    uint32_t budget = READ_STEPS;
    struct errmsg em = {""};
    int rc = apply_read_step(x->read, &budget, &em);
    if (rc > 0) {
        rpc__yield(c, step_read);
    } else if (rc < 0) {
        rpc__fail(c, rc);
    } else {
        c->job.wait.result = apply_read_take(x->read);
        rpc__reply_result(c, c->job.wait.result);
    }
}

static void begin_read(struct rpc_call *c)
{
    struct txn *x = c->state;
    int rc = c->job.wait.rc;
    if (rc == 0) rc = apply_read_new(c->t->alloc, c->t->member->mvcc, x->request, &x->read);
    if (rc < 0) {
        rpc__fail(c, rc);
    } else {
        step_read(c);
    }
}

/* The flag is asked after the state is pinned: apply_read_new() pins, so it comes first. */
static void read_txn(struct rpc_call *c)
{
    const struct rpc_member *m = c->t->member;
    struct txn *x = c->state;
    if (!apply_txn_is_serializable(x->request)) {
        int rc = apply_read_new(c->t->alloc, m->mvcc, x->request, &x->read);
        if (rc == 0 && m->reads_alone(m->arg)) {
            step_read(c);
            return;
        }
        apply_read_free(x->read);
        x->read = NULL;
        rpc__ask(c, RPC_ASK_READ, NULL, m->next_request_id(m->arg), begin_read);
        return;
    }
    begin_read(c);
}

static void keep_request(struct rpc_call *c, struct bytes msg)
{
    struct txn *x = grpc_pool_get(c->t->pool, sizeof *x);
    if (x == NULL) {
        rpc__fail(c, E_NOMEM);
        return;
    }
    *x = (struct txn){.request = NULL};
    arena_init(&x->arena, c->t->alloc, SIZE_MAX / 2);
    c->state = x;
    ProtobufCMessage *copy = NULL;
    int rc = pb_unpack(&etcdserverpb__txn_request__descriptor, msg, &x->arena, &copy, NULL);
    if (rc < 0) {
        rpc__fail(c, rc);
        return;
    }
    x->request = (Etcdserverpb__TxnRequest *)(void *)copy;
    read_txn(c);
}

void rpc__kv_txn(struct rpc_call *c, struct bytes msg)
{
    const struct rpc_member *m = c->t->member;
    Etcdserverpb__TxnRequest *q = rpc__unpack(c, &etcdserverpb__txn_request__descriptor, msg);
    if (q == NULL) return;
    bool reads = apply_txn_is_readonly(q);
    int rc = reads ? 0 : rpc__check_quota(c, apply_cost_txn(q));
    if (rc == 0) rc = apply_check_txn(q, m->txn_ops_max, c->t->alloc);
    if (rc < 0) {
        rpc__fail(c, rc);
    } else if (reads) {
        keep_request(c, msg);
    } else {
        propose_pb(c, RAFT_TXN, &q->base);
    }
}
