/* Leases: grant and revoke go through raft; keepalive, time to live and the list are questions to the apply half.
 *
 * A keepalive stream asks in batches: what one read of the connection brought goes to the member as one question, and what
 * comes meanwhile is the next one. Answers leave in the order of the requests, each with a header that was made
 * before its renewal. */
#include "rpc/rpc_int.h"

#include <stdlib.h>

#include "apply/check.h"
#include "base/assert.h"
#include "etcdserverpb.pb-c.h"
#include "node/node_lease.h"

/* Fields of InternalRaftRequest. */
enum { RAFT_LEASE_GRANT = 8, RAFT_LEASE_REVOKE = 9 };

enum {
    RENEWALS_MAX = 4096,  /* of a stream, not yet asked for: above it the stream is not read */
    SORT_HERE_MAX = 4096, /* a longer list is sorted on a worker */
    LEASE_FIELD_ID = 2,   /* of the answers */
    LEASE_FIELD_TTL = 3,
    LEASE_FIELD_GRANTED = 4,
    LEASE_FIELD_LEASES = 2
};

/* --- grant and revoke ------------------------------------------------------------------------------ */

void rpc__lease_grant(struct rpc_call *c, struct bytes msg)
{
    const struct rpc_member *m = c->t->member;
    Etcdserverpb__LeaseGrantRequest *q =
        rpc__unpack(c, &etcdserverpb__lease_grant_request__descriptor, msg);
    if (q == NULL) return;
    int rc = rpc__check_quota(c, APPLY_COST_LEASE_GRANT);
    if (rc < 0) {
        rpc__fail(c, rc);
        return;
    }
    while (q->id == LEASE_NONE)
        q->id = (int64_t)(m->next_request_id(m->arg) & INT64_MAX);
    rpc__propose_pb(c, RPC_ASK_PROPOSE, RAFT_LEASE_GRANT, &q->base);
}

void rpc__lease_revoke(struct rpc_call *c, struct bytes msg)
{
    Etcdserverpb__LeaseRevokeRequest *q =
        rpc__unpack(c, &etcdserverpb__lease_revoke_request__descriptor, msg);
    if (q != NULL) rpc__propose_pb(c, RPC_ASK_PROPOSE_REVOKE, RAFT_LEASE_REVOKE, &q->base);
}

/* --- keepalive -------------------------------------------------------------------------------------- */

struct keepalive {
    struct list link; /* first; in t->keepalives while there is something to ask for, else in
                       * t->keepalives_idle */
    struct rpc_call *c;
    struct buf pending; /* struct node_renewal each: not asked for yet */
    struct buf batch;   /* likewise: lent to the member while `asked` */
    struct node_lease_question q;
    struct rpc_header header; /* of the batch's answers */
    size_t sent;              /* of the q.done answers */
    bool asked;
    bool held;   /* the client is not read from */
    bool closed; /* it will send no more */
    bool last;   /* the member stops: this batch ends the call */
};

static void send_answers(struct rpc_call *c);

void rpc__keepalive_drop(struct rpc_call *c)
{
    struct keepalive *k = c->state;
    if (k == NULL) return;
    list_remove(&k->link);
    buf_deinit(&k->pending);
    buf_deinit(&k->batch);
    grpc_pool_put(c->t->pool, k, sizeof *k);
}

void rpc__keepalive_half_close(struct rpc_call *c)
{
    struct keepalive *k = c->state;
    if (k != NULL) k->closed = true;
    if (k == NULL || (!k->asked && k->q.count == 0 && k->pending.len == 0)) rpc__fail(c, 0);
}

static struct keepalive *keepalive_new(struct rpc_call *c)
{
    struct keepalive *k = grpc_pool_get(c->t->pool, sizeof *k);
    if (k == NULL) return NULL;
    memset(k, 0, sizeof *k);
    list_init(&k->link);
    k->c = c;
    buf_init(&k->pending, c->t->alloc, RENEWALS_MAX * sizeof(struct node_renewal));
    buf_init(&k->batch, c->t->alloc, RENEWALS_MAX * sizeof(struct node_renewal));
    c->state = k;
    list_push_back(&c->t->keepalives_idle, &k->link);
    return k;
}

static void answered(struct rpc_call *c)
{
    struct keepalive *k = c->state;
    k->asked = false;
    if (c->job.wait.rc < 0) {
        rpc__fail(c, c->job.wait.rc);
    } else {
        k->sent = 0;
        send_answers(c);
    }
}

static void ask(struct keepalive *k)
{
    struct rpc_call *c = k->c;
    ASSERT(!k->asked && k->q.count > 0);
    k->asked = true;
    k->q.ask = NODE_LEASE_RENEW;
    k->q.arg = &c->job.wait;
    rpc__ask(c, RPC_ASK_LEASE, NULL, 0, answered);
    c->job.wait.lease = &k->q;
}

/* What has come since makes the next batch. */
static void ask_pending(struct keepalive *k)
{
    const struct rpc_thread *t = k->c->t;
    ASSERT(k->q.count == 0 && k->pending.len > 0);
    struct buf used = k->batch;
    k->batch = k->pending;
    k->pending = used;
    buf_reset(&k->pending);
    k->header = rpc__header(t, mvcc_revision(t->member->mvcc));
    k->q.renewals = (struct node_renewal *)(void *)k->batch.data;
    k->q.count = k->batch.len / sizeof(struct node_renewal);
    ask(k);
}

void rpc__keepalives_ask(struct rpc_thread *t)
{
    struct list *link;
    while ((link = list_pop_front(&t->keepalives)) != NULL) {
        list_push_back(&t->keepalives_idle, link);
        ask_pending((struct keepalive *)(void *)link);
    }
}

/* A stopping member does not wait for streams that would stay for ever: clients go on elsewhere, or come back. */
void rpc__keepalives_drain(struct rpc_thread *t)
{
    struct list *next = NULL;
    rpc__keepalives_ask(t);
    for (struct list *at = t->keepalives_idle.next; at != &t->keepalives_idle; at = next) {
        struct keepalive *k = (struct keepalive *)(void *)at;
        next = at->next;
        k->last = true;
        if (k->q.count == 0) rpc__fail(k->c, E_STOPPED);
    }
}

static int send_answer(struct keepalive *k, const struct node_renewal *r)
{
    struct buf *out = &k->c->t->out;
    buf_reset(out);
    int rc = rpc__header_put(&k->header, out);
    if (rc == 0 && r->id != 0) rc = pb_put_uint(out, LEASE_FIELD_ID, (uint64_t)r->id);
    if (rc == 0 && r->ttl_s != 0) rc = pb_put_uint(out, LEASE_FIELD_TTL, (uint64_t)r->ttl_s);
    if (rc == 0) rc = grpc_call_send(k->c->call, buf_bytes(out));
    if (rc == 0) rpc__count_sent(k->c, out->len);
    return rc;
}

/* All answers of the batch have left. */
static void next_batch(struct rpc_call *c)
{
    struct keepalive *k = c->state;
    bool held = k->held;
    k->q.count = 0;
    k->held = false;
    if (k->last) {
        rpc__fail(c, E_STOPPED);
        return;
    }
    if (k->pending.len > 0) {
        ask_pending(k); /* at once: there must be room for what release gives */
    } else if (k->closed) {
        rpc__fail(c, 0);
        return;
    }
    /* This may give messages, or end the call: nothing of it may be touched afterwards. */
    if (held) grpc_call_release(c->call);
}

static void send_answers(struct rpc_call *c)
{
    struct keepalive *k = c->state;
    int rc = 0;
    rpc__output(c);
    while (k->sent < k->q.done && rc == 0) {
        rc = send_answer(k, &k->q.renewals[k->sent]);
        if (rc == 0) k->sent++;
    }
    if (rc == E_AGAIN) {
        c->on_writable = send_answers;
    } else if (rc < 0) {
        rpc__fail(c, rc);
    } else if (k->q.done < k->q.count) {
        k->q.renewals += k->q.done;
        k->q.count -= k->q.done;
        ask(k);
    } else {
        next_batch(c);
    }
}

void rpc__lease_keep_alive(struct rpc_call *c, struct bytes msg)
{
    struct keepalive *k = c->state;
    const Etcdserverpb__LeaseKeepAliveRequest *q =
        rpc__unpack(c, &etcdserverpb__lease_keep_alive_request__descriptor, msg);
    if (q == NULL) return;
    if (k == NULL) k = keepalive_new(c);
    const struct node_renewal r = {.id = q->id};
    int rc = k == NULL ? E_NOMEM : buf_put(&k->pending, &r, sizeof r);
    if (rc < 0) {
        rpc__fail(c, rc);
        return;
    }
    if (k->q.count == 0 && k->pending.len == sizeof r) {
        list_remove(&k->link);
        list_push_back(&c->t->keepalives, &k->link);
    }
    if (k->pending.len == RENEWALS_MAX * sizeof r && !k->held) {
        k->held = true;
        grpc_call_hold(c->call);
    }
}

/* --- time to live, and the list ---------------------------------------------------------------------- */

void rpc__lease_question_drop(struct rpc_call *c)
{
    struct node_lease_question *q = c->state;
    if (q == NULL) return;
    buf_deinit(&q->list);
    grpc_pool_put(c->t->pool, q, sizeof *q);
}

static void ask_question(struct rpc_call *c, const struct node_lease_question *what,
                         void (*resume)(struct rpc_call *c))
{
    struct node_lease_question *q = grpc_pool_get(c->t->pool, sizeof *q);
    if (q == NULL) {
        rpc__fail(c, E_NOMEM);
        return;
    }
    *q = *what;
    q->arg = &c->job.wait;
    buf_init(&q->list, c->t->alloc, INT32_MAX);
    c->state = q;
    rpc__ask(c, RPC_ASK_LEASE, NULL, 0, resume);
    c->job.wait.lease = q;
}

static int put_left(struct rpc_call *c, struct buf *out)
{
    const struct node_lease_question *q = c->state;
    struct rpc_header h = rpc__header(c->t, mvcc_revision(c->t->member->mvcc));
    buf_reset(out);
    int rc = rpc__header_put(&h, out);
    if (rc == 0 && q->id != 0) rc = pb_put_uint(out, LEASE_FIELD_ID, (uint64_t)q->id);
    if (rc == 0 && q->left_s != 0) rc = pb_put_uint(out, LEASE_FIELD_TTL, (uint64_t)q->left_s);
    if (rc == 0 && q->granted_s != 0) {
        rc = pb_put_uint(out, LEASE_FIELD_GRANTED, (uint64_t)q->granted_s);
    }
    return rc < 0 ? rc : buf_put_bytes(out, buf_bytes(&q->list));
}

static void answer_left(struct rpc_call *c)
{
    int rc = c->job.wait.rc;
    if (rc == 0) rc = put_left(c, &c->t->out);
    if (rc < 0) {
        rpc__fail(c, rc);
    } else {
        rpc__reply(c, buf_bytes(&c->t->out));
    }
}

void rpc__lease_time_to_live(struct rpc_call *c, struct bytes msg)
{
    const Etcdserverpb__LeaseTimeToLiveRequest *q =
        rpc__unpack(c, &etcdserverpb__lease_time_to_live_request__descriptor, msg);
    if (q == NULL) return;
    const struct node_lease_question what = {.ask = NODE_LEASE_LEFT, .id = q->id, .keys = q->keys};
    ask_question(c, &what, answer_left);
}

/* The soonest to run out first; a member that does not lead knows no times, and there is no order then. */
static int compare_items(const void *a, const void *b)
{
    const struct node_lease_item *x = a;
    const struct node_lease_item *y = b;
    if (x->expiry_ns != y->expiry_ns) return x->expiry_ns < y->expiry_ns ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static size_t item_count(const struct node_lease_question *q)
{
    return q->list.len / sizeof(struct node_lease_item);
}

static void sort_items(struct rpc_job *job)
{
    const struct rpc_call *c = (struct rpc_call *)job;
    struct node_lease_question *q = c->state;
    if (item_count(q) > 1) {
        qsort(q->list.data, item_count(q), sizeof(struct node_lease_item), compare_items);
    }
}

static int put_items(struct rpc_call *c, struct buf *out)
{
    const struct node_lease_question *q = c->state;
    const struct node_lease_item *items =
        (const struct node_lease_item *)(const void *)q->list.data;
    struct rpc_header h = rpc__header(c->t, mvcc_revision(c->t->member->mvcc));
    buf_reset(out);
    int rc = rpc__header_put(&h, out);
    for (size_t i = 0; i < item_count(q) && rc == 0; i++) {
        uint64_t id = (uint64_t)items[i].id;
        rc = pb_put_len(out, LEASE_FIELD_LEASES, pb_uint_size(1, id));
        if (rc == 0) rc = pb_put_uint(out, 1, id);
    }
    return rc;
}

static void answer_items(struct rpc_call *c)
{
    int rc = put_items(c, &c->t->out);
    if (rc < 0) {
        rpc__fail(c, rc);
    } else {
        rpc__reply(c, buf_bytes(&c->t->out));
    }
}

static void listed(struct rpc_call *c)
{
    const struct rpc_member *m = c->t->member;
    if (c->job.wait.rc < 0) {
        rpc__fail(c, c->job.wait.rc);
    } else if (item_count(c->state) <= SORT_HERE_MAX) {
        sort_items(&c->job);
        answer_items(c);
    } else {
        rpc__wait(c, answer_items);
        c->job.work = sort_items;
        m->work(m->arg, &c->job);
    }
}

void rpc__lease_leases(struct rpc_call *c, struct bytes msg)
{
    if (rpc__unpack(c, &etcdserverpb__lease_leases_request__descriptor, msg) == NULL) return;
    const struct node_lease_question what = {.ask = NODE_LEASE_LIST};
    ask_question(c, &what, listed);
}
