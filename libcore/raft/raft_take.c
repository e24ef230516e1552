/* Obligations: what the driver must do now, in order, and views of the state.
 *
 * A batch is what upstream calls a Ready: all messages that may leave at once; then one write with everything that is
 * not handed out yet and the acknowledgements waiting for it; then one span to apply; then reads. */
#include "raft/raft_int.h"

enum { PHASE_IDLE, PHASE_SEND, PHASE_PERSIST, PHASE_APPLY, PHASE_READ };

static struct raft_hard_state state_now(const struct raft *r)
{
    ASSERT(r->log.committed >= r->log.before_index);
    return (struct raft_hard_state){r->term, r->vote, r->log.committed};
}

static bool snapshot_waits(const struct raft *r)
{
    ASSERT(r->log.snapshot != NULL || !r->log.snapshot_in_progress);
    return r->log.snapshot != NULL && !r->log.snapshot_in_progress;
}

static bool needs_persist(const struct raft *r)
{
    ASSERT(r->log.in_progress <= raft__log_last(&r->log));
    return r->log.in_progress < raft__log_last(&r->log) || snapshot_waits(r) || r->acks.n > 0 ||
           !raft_hard_state_eq(state_now(r), r->handed_state);
}

bool raft_has_work(const struct raft *r)
{
    ASSERT(r->msgs.head <= r->msgs.n);
    if (r->batch_phase != PHASE_IDLE) return true;
    return r->msgs.head < r->msgs.n || needs_persist(r) ||
           raft__log_has_committed(&r->log, r->opts.apply_unstable) ||
           r->reads_done.head < r->reads_done.n || r->lead != r->handed_lead ||
           r->state != r->handed_role;
}

/* The storage's own answer: what it names is in the WAL, if the term is still the same then. It names the end of
 * the log even when this write has no entries, since the answer that had them may have been ignored for its term. */
static int add_storage_answer(struct raft *r, const struct raft_snapshot *snapshot,
                              struct raft_message *out, size_t *n)
{
    bool unstable = r->log.stable < raft__log_last(&r->log);
    ASSERT(r->log.stable <= r->log.in_progress);
    if (!unstable && snapshot == NULL) return 0;
    struct raft_message m = {.type = RAFT_MSG_STORAGE_APPEND_RESP,
                             .to = r->opts.id,
                             .from = RAFT_ID_APPEND_THREAD,
                             .term = r->term};
    if (unstable) {
        m.index = raft__log_last(&r->log);
        m.log_term = raft__log_last_term(&r->log);
    }
    if (snapshot != NULL) {
        m.snapshot = alloc_new(r->alloc, sizeof *m.snapshot);
        if (m.snapshot == NULL) return E_NOMEM;
        *m.snapshot = *snapshot;
        (void)rcbuf_ref(snapshot->data);
    }
    out[(*n)++] = m;
    return 0;
}

static void free_persist(const struct alloc *alloc, struct raft_persist *p)
{
    ASSERT(alloc != NULL);
    raft_entries_free(alloc, p->entries, p->entry_count);
    if (p->snapshot != NULL) {
        rcbuf_unref(p->snapshot->data);
        alloc_free(alloc, p->snapshot, sizeof *p->snapshot);
    }
    raft_messages_free(alloc, p->acks, p->ack_count);
    *p = (struct raft_persist){0};
}

static int fill_acks(struct raft *r, struct raft_persist *p)
{
    size_t cap = r->acks.n + 1;
    ASSERT(p->acks == NULL);
    struct raft_message own[1];
    size_t own_count = 0;
    int rc = add_storage_answer(r, p->snapshot, own, &own_count);
    if (rc < 0) return rc;
    p->ack_count = cap - 1 + own_count;
    if (p->ack_count == 0) return 0;
    p->acks = alloc_new(r->alloc, p->ack_count * sizeof *p->acks);
    if (p->acks == NULL) {
        p->ack_count = 0;
        if (own_count > 0) raft_message_deinit(&own[0], r->alloc);
        return E_NOMEM;
    }
    if (r->acks.n > 0) memcpy(p->acks, r->acks.v, r->acks.n * sizeof *p->acks);
    if (own_count > 0) p->acks[p->ack_count - 1] = own[0];
    return 0;
}

static int fill_persist(struct raft *r, struct raft_persist *p)
{
    const struct raft__log *l = &r->log;
    ASSERT(p->entries == NULL);
    size_t n = (size_t)(raft__log_last(l) - l->in_progress);
    if (n > 0) {
        int rc = raft_entries_copy(r->alloc, raft__log_at(l, l->in_progress + 1), n, &p->entries);
        if (rc < 0) return rc;
        p->entry_count = n;
    }
    if (snapshot_waits(r)) {
        p->snapshot = alloc_new(r->alloc, sizeof *p->snapshot);
        if (p->snapshot == NULL) return E_NOMEM;
        *p->snapshot = *l->snapshot;
        (void)rcbuf_ref(p->snapshot->data);
    }
    struct raft_hard_state now = state_now(r);
    if (!raft_hard_state_eq(now, r->handed_state)) p->hard_state = now;
    p->must_sync = n > 0 || now.term != r->handed_state.term || now.vote != r->handed_state.vote;
    return fill_acks(r, p);
}

static int take_persist(struct raft *r, struct raft_obligation *out)
{
    ASSERT(r->acks.head == 0);
    struct raft_persist p = {0};
    if (!needs_persist(r)) return 0;
    size_t own = r->acks.n;
    int rc = fill_persist(r, &p);
    if (rc < 0) {
        /* The acknowledgements are still ours. */
        ASSERT(p.acks == NULL);
        free_persist(r->alloc, &p);
        return rc;
    }
    r->acks.n -= own;
    r->log.in_progress = raft__log_last(&r->log);
    if (r->log.snapshot != NULL) r->log.snapshot_in_progress = true;
    r->handed_state = state_now(r);
    *out = (struct raft_obligation){.kind = RAFT_PERSIST, .u.persist = p};
    return 1;
}

static int take_apply(struct raft *r, struct raft_obligation *out)
{
    struct raft__log *l = &r->log;
    ASSERT(l->applied <= l->applying);
    if (!raft__log_has_committed(l, r->opts.apply_unstable)) return 0;
    raft_index hi = raft__log_appliable(l, r->opts.apply_unstable);
    size_t bytes = 0;
    size_t n = raft__log_fit(l, l->applying + 1, hi + 1, l->applying_bytes_max - l->applying_bytes,
                             &bytes);
    struct raft_apply a = {NULL, n};
    int rc = raft_entries_copy(r->alloc, raft__log_at(l, l->applying + 1), n, &a.entries);
    if (rc < 0) return rc;
    raft__log_accept_applying(l, l->applying + n, bytes, r->opts.apply_unstable);
    *out = (struct raft_obligation){.kind = RAFT_APPLY, .u.apply = a};
    return 1;
}

static int take_send(struct raft *r, struct raft_obligation *out)
{
    ASSERT(r->msgs.head <= r->msgs.n);
    if (r->batch_sends == 0 || r->msgs.head == r->msgs.n) return 0;
    r->batch_sends--;
    *out = (struct raft_obligation){.kind = RAFT_SEND, .u.message = r->msgs.v[r->msgs.head]};
    r->msgs.head++;
    if (r->msgs.head == r->msgs.n) r->msgs.head = r->msgs.n = 0;
    return 1;
}

static int take_read(struct raft *r, struct raft_obligation *out)
{
    struct raft__reads *q = &r->reads_done;
    ASSERT(q->head <= q->n);
    if (r->batch_reads == 0 || q->head == q->n) return 0;
    r->batch_reads--;
    struct raft__read_req *req = &q->v[q->head];
    *out = (struct raft_obligation){.kind = RAFT_READ_OK, .u.read = {req->index, req->context}};
    q->head++;
    if (q->head == q->n) q->head = q->n = 0;
    return 1;
}

static void begin_batch(struct raft *r)
{
    ASSERT(r->batch_phase == PHASE_IDLE);
    r->batch_phase = PHASE_SEND;
    r->batch_sends = r->msgs.n - r->msgs.head;
    r->batch_reads = r->reads_done.n - r->reads_done.head;
    r->handed_lead = r->lead;
    r->handed_role = r->state;
}

int raft_take(struct raft *r, struct raft_obligation *out)
{
    typedef int (*take_fn)(struct raft *, struct raft_obligation *);
    static const take_fn takes[] = {NULL, take_send, take_persist, take_apply, take_read};
    if (r->batch_phase == PHASE_IDLE) {
        if (!raft_has_work(r)) return 0;
        begin_batch(r);
    }
    while (r->batch_phase <= PHASE_READ) {
        ASSERT(r->batch_phase > PHASE_IDLE);
        int phase = r->batch_phase;
        int rc = takes[phase](r, out);
        if (rc < 0) return rc;
        /* One write and one span to apply per batch. */
        if (rc == 0 || phase == PHASE_PERSIST || phase == PHASE_APPLY) r->batch_phase++;
        if (rc > 0) return rc;
    }
    r->batch_phase = PHASE_IDLE;
    return 0;
}

void raft_messages_free(const struct alloc *alloc, struct raft_message *m, size_t n)
{
    ASSERT(m != NULL || n == 0);
    for (size_t i = 0; i < n; i++)
        raft_message_deinit(&m[i], alloc);
    alloc_free(alloc, m, n * sizeof *m);
}

void raft_obligation_deinit(struct raft_obligation *o, const struct alloc *alloc)
{
    ASSERT(alloc != NULL);
    switch (o->kind) {
    case RAFT_SEND: raft_message_deinit(&o->u.message, alloc); break;
    case RAFT_PERSIST: free_persist(alloc, &o->u.persist); break;
    case RAFT_APPLY: raft_entries_free(alloc, o->u.apply.entries, o->u.apply.entry_count); break;
    case RAFT_READ_OK: rcbuf_unref(o->u.read.context); break;
    }
    *o = (struct raft_obligation){.kind = RAFT_APPLY};
}

/* --- state --------------------------------------------------------------------------------------- */

void raft_status(const struct raft *r, struct raft_status *out)
{
    ASSERT(out != NULL);
    *out = (struct raft_status){
        .id = r->opts.id,
        .lead = r->lead,
        .transferee = r->transferee,
        .state = r->state,
        .hard_state = state_now(r),
        .applied = r->log.applied,
        .stable = r->log.stable,
        .first = raft__log_first(&r->log),
        .last = raft__log_last(&r->log),
    };
}

const struct raft_conf_state *raft_conf(const struct raft *r)
{
    ASSERT(r != NULL);
    return &r->trk.conf;
}

int raft_progress(const struct raft *r, raft_id id, struct raft_progress_status *out)
{
    ASSERT(out != NULL);
    const struct raft__progress *pr = raft__tracker_find(&r->trk, id);
    if (pr == NULL) return E_NOTFOUND;
    *out = (struct raft_progress_status){
        .id = id,
        .match = pr->match,
        .next = pr->next,
        .pending_snapshot = pr->pending_snapshot,
        .state = pr->state,
        .learner = pr->learner,
        .paused = raft__progress_paused(pr),
        .recent_active = pr->recent_active,
        .inflight_count = pr->inflight_count,
        .inflight_full = raft__progress_full(pr, &r->limits),
    };
    return 0;
}

raft_term raft_term_of(const struct raft *r, raft_index index)
{
    ASSERT(r != NULL);
    raft_term t;
    return raft__log_term(&r->log, index, &t) ? t : 0;
}

const struct raft_entry *raft_entries(const struct raft *r, raft_index lo, raft_index hi)
{
    ASSERT(lo <= hi);
    if (lo == hi || lo < raft__log_first(&r->log) || hi > raft__log_last(&r->log) + 1) return NULL;
    return raft__log_at(&r->log, lo);
}

bool raft_is_sole_voter(const struct raft *r)
{
    ASSERT(r->opts.id != 0);
    return raft__conf_single(&r->trk.conf) && r->trk.conf.voters[0] == r->opts.id;
}

bool raft_reads_alone(const struct raft *r)
{
    ASSERT(r->log.applied <= r->log.committed);
    /* pending_conf_index lies on every conf change in the log that is not applied, from the moment that it is
     * appended. */
    return r->state == RAFT_LEADER && raft_is_sole_voter(r) &&
           r->pending_conf_index <= r->log.applied &&
           raft__log_match(&r->log, r->log.applied, r->term);
}

void raft_set_election_timeout(struct raft *r, uint32_t ticks)
{
    ASSERT(ticks > 0);
    r->election_timeout = ticks;
}
