/* Linearizable reads without a log entry (thesis 6.4).
 *
 * The leader notes its commit index, then learns from a round of heartbeats that it still leads. A heartbeat carries as
 * token the number of reads taken in this term; an echo of token t by a quorum confirms the first t of them. It
 * must first have committed an entry of its own term, for only then does it know all that is committed. */
#include "raft/raft_int.h"

int raft__reads_put(const struct alloc *alloc, struct raft__reads *q, struct raft__read_req req)
{
    ASSERT(q->head <= q->n);
    if (q->n == q->cap && q->head > 0) {
        memmove(q->v, q->v + q->head, (q->n - q->head) * sizeof *q->v);
        q->n -= q->head;
        q->head = 0;
    }
    if (q->n == q->cap) {
        size_t cap = q->cap == 0 ? 8 : q->cap * 2;
        struct raft__read_req *v =
            alloc->resize(alloc->arg, q->v, q->cap * sizeof *v, cap * sizeof *v);
        if (v == NULL) return E_NOMEM;
        q->v = v;
        q->cap = cap;
    }
    q->v[q->n] = req;
    (void)rcbuf_ref(q->v[q->n].context);
    q->n++;
    return 0;
}

static void pop(struct raft__reads *q)
{
    ASSERT(q->head < q->n);
    rcbuf_unref(q->v[q->head].context);
    q->head++;
    if (q->head == q->n) q->head = q->n = 0;
}

void raft__reads_clear(struct raft__reads *q)
{
    ASSERT(q->head <= q->n);
    while (q->head < q->n)
        pop(q);
}

void raft__reads_free(const struct alloc *alloc, struct raft__reads *q)
{
    ASSERT(q->n <= q->cap);
    raft__reads_clear(q);
    alloc_free(alloc, q->v, q->cap * sizeof *q->v);
    *q = (struct raft__reads){0};
}

uint64_t raft__read_token(const struct raft *r)
{
    ASSERT(r->reads_open.head <= r->reads_open.n);
    size_t open = r->reads_open.n - r->reads_open.head;
    return open == 0 ? 0 : r->reads_confirmed + open;
}

/* Hands the answer to ourselves or to the member that asked. Errors: E_NOMEM. */
static int answer(struct raft *r, const struct raft__read_req *req)
{
    ASSERT(req->context != NULL);
    if (req->from == 0 || req->from == r->opts.id)
        return raft__reads_put(r->alloc, &r->reads_done, *req);
    struct raft_message m = {
        .type = RAFT_MSG_READ_INDEX_RESP, .to = req->from, .index = req->index};
    const struct raft_entry e = {.data = req->context};
    int rc = raft_entries_copy(r->alloc, &e, 1, &m.entries);
    if (rc < 0) return rc;
    m.entry_count = 1;
    raft__send(r, &m);
    return 0;
}

static bool committed_in_own_term(const struct raft *r)
{
    ASSERT(r->term > 0);
    return raft__log_match(&r->log, r->log.committed, r->term);
}

static int open_round(struct raft *r, struct raft__read_req req)
{
    ASSERT(r->state == RAFT_LEADER);
    req.index = r->log.committed;
    if (r->opts.lease_based_reads || raft__conf_single(&r->trk.conf)) return answer(r, &req);
    int rc = raft__reads_put(r->alloc, &r->reads_open, req);
    if (rc < 0) return rc;
    struct raft__progress *self = raft__tracker_find(&r->trk, r->opts.id);
    if (self != NULL) self->read_acked = raft__read_token(r);
    raft__bcast_heartbeat(r);
    return 0;
}

int raft__read_request(struct raft *r, raft_id from, struct rcbuf *context)
{
    ASSERT(context != NULL);
    struct raft__read_req req = {from, r->log.committed, context};
    if (r->reads_open.n - r->reads_open.head >= RAFT_READS_MAX ||
        r->reads_pending.n - r->reads_pending.head >= RAFT_READS_MAX)
        return E_AGAIN;
    /* Even a sole voter waits for this: its commit index was not synced, so after a restart it may lie below what
     * was acknowledged before. */
    if (!committed_in_own_term(r)) return raft__reads_put(r->alloc, &r->reads_pending, req);
    return open_round(r, req);
}

static uint64_t acked_of(const void *arg, raft_id id)
{
    const struct raft__progress *pr = raft__tracker_find(arg, id);
    ASSERT(pr != NULL);
    return pr->read_acked;
}

void raft__read_ack(struct raft *r, struct raft__progress *pr, const struct raft_message *m)
{
    ASSERT(m->context_len == 8);
    uint64_t token = 0;
    for (int b = 0; b < 8; b++)
        token |= (uint64_t)m->context[b] << (8 * b);
    if (token > pr->read_acked) pr->read_acked = token;
    uint64_t confirmed = raft__joint_index(&r->trk.conf, acked_of, &r->trk);
    while (r->reads_confirmed < confirmed && r->reads_open.head < r->reads_open.n) {
        /* Without memory the read goes unanswered; who asked asks again. */
        (void)answer(r, &r->reads_open.v[r->reads_open.head]);
        pop(&r->reads_open);
        r->reads_confirmed++;
    }
}

void raft__reads_release_pending(struct raft *r)
{
    ASSERT(r->state == RAFT_LEADER);
    if (r->reads_pending.head == r->reads_pending.n || !committed_in_own_term(r)) return;
    struct raft__reads q = r->reads_pending;
    r->reads_pending = (struct raft__reads){0};
    for (size_t i = q.head; i < q.n; i++)
        (void)open_round(r, q.v[i]);
    raft__reads_free(r->alloc, &q);
}
