/* What goes to other members, and what must wait for the local disk first. */
#include <inttypes.h>

#include "raft/raft_int.h"

int raft__messages_reserve(const struct alloc *alloc, struct raft__messages *ms, size_t more)
{
    ASSERT(ms->head <= ms->n);
    ASSERT(ms->n <= ms->cap);
    if (ms->cap - ms->n >= more) return 0;
    if (ms->head > 0) {
        memmove(ms->v, ms->v + ms->head, (ms->n - ms->head) * sizeof *ms->v);
        ms->n -= ms->head;
        ms->head = 0;
        if (ms->cap - ms->n >= more) return 0;
    }
    size_t cap = ms->cap < 8 ? 8 : ms->cap * 2;
    while (cap - ms->n < more)
        cap *= 2;
    struct raft_message *v = alloc->resize(alloc->arg, ms->v, ms->cap * sizeof *v, cap * sizeof *v);
    if (v == NULL) return E_NOMEM;
    ms->v = v;
    ms->cap = cap;
    return 0;
}

/* Thesis 3.8: "each server persists its current term and vote; this is necessary to prevent the server from
 * voting twice in the same term ... Each server also persists new log entries before they are counted".
 * So answers that vote or acknowledge wait for the disk, even those that we give to ourselves. */
static bool waits_for_disk(enum raft_message_type t)
{
    ASSERT((unsigned)t < RAFT_MSG_COUNT);
    return t == RAFT_MSG_APP_RESP || t == RAFT_MSG_VOTE_RESP || t == RAFT_MSG_PRE_VOTE_RESP;
}

static bool names_its_term(enum raft_message_type t)
{
    ASSERT((unsigned)t < RAFT_MSG_COUNT);
    return t == RAFT_MSG_VOTE || t == RAFT_MSG_VOTE_RESP || t == RAFT_MSG_PRE_VOTE ||
           t == RAFT_MSG_PRE_VOTE_RESP;
}

void raft__send(struct raft *r, struct raft_message *m)
{
    if (m->from == 0) m->from = r->opts.id;
    ASSERT(!names_its_term(m->type) || m->term != 0);
    /* Proposals and reads go to whoever leads: they belong to no term. */
    if (!names_its_term(m->type) && m->type != RAFT_MSG_PROP && m->type != RAFT_MSG_READ_INDEX)
        m->term = r->term;
    bool wait = waits_for_disk(m->type);
    ASSERT(wait || m->to != r->opts.id);
    struct raft__messages *q = wait ? &r->acks : &r->msgs;
    if (raft__messages_reserve(r->alloc, q, 1) < 0) {
        /* raft__begin() reserved for all that must not be lost. */
        ASSERT(!wait);
        raft_message_deinit(m, r->alloc);
        return;
    }
    q->v[q->n++] = *m;
}

static struct raft_snapshot *copy_snapshot(const struct raft *r)
{
    ASSERT(r->snapshot != NULL);
    struct raft_snapshot *s = alloc_new(r->alloc, sizeof *s);
    if (s == NULL) return NULL;
    *s = *r->snapshot;
    (void)rcbuf_ref(s->data);
    return s;
}

/* Paper 7: the leader "must occasionally send snapshots to followers that lag behind". */
static bool send_snapshot(struct raft *r, struct raft__progress *pr)
{
    ASSERT(pr->id != r->opts.id);
    if (!pr->recent_active) {
        raft__log_line(r, LOG_DEBUG,
                       "ignore sending snapshot to %" PRIx64 " since it is not recently active",
                       pr->id);
        return false;
    }
    struct raft_snapshot *s = r->snapshot == NULL ? NULL : copy_snapshot(r);
    if (s == NULL) {
        raft__log_line(r, LOG_DEBUG,
                       "%" PRIx64 " failed to send snapshot to %" PRIx64
                       " because snapshot is temporarily unavailable",
                       r->opts.id, pr->id);
        return false;
    }
    char text[RAFT__PROGRESS_TEXT_MAX];
    raft__log_line(r, LOG_DEBUG,
                   "%" PRIx64 " [firstindex: %" PRIu64 ", commit: %" PRIu64
                   "] sent snapshot[index: %" PRIu64 ", term: %" PRIu64 "] to %" PRIx64 " [%s]",
                   r->opts.id, raft__log_first(&r->log), r->log.committed, s->meta.index,
                   s->meta.term, pr->id, raft__progress_text(pr, &r->limits, text));
    raft__progress_snapshot(pr, s->meta.index);
    raft__log_line(r, LOG_DEBUG,
                   "%" PRIx64 " paused sending replication messages to %" PRIx64 " [%s]",
                   r->opts.id, pr->id, raft__progress_text(pr, &r->limits, text));
    struct raft_message m = {.type = RAFT_MSG_SNAP, .to = pr->id, .snapshot = s};
    raft__send(r, &m);
    return true;
}

static size_t payload_bytes(const struct raft_entry *es, size_t n)
{
    ASSERT(es != NULL || n == 0);
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += es[i].data == NULL ? 0 : es[i].data->len;
    return sum;
}

/* Fills the entries that may go to `pr` now. Errors: E_NOMEM. */
static int fill_entries(struct raft *r, struct raft__progress *pr, struct raft_message *m)
{
    ASSERT(pr->next > r->log.before_index);
    raft_index last = raft__log_last(&r->log);
    /* To a member whose window is full only empty appends go: enough to learn that it is alive, and whether the
     * appends under way were lost. */
    bool full = pr->state == RAFT_REPLICATE && raft__progress_full(pr, &r->limits);
    if (full || pr->next > last) return 0;
    size_t bytes = 0;
    size_t n = raft__log_fit(&r->log, pr->next, last + 1, r->opts.message_bytes_max, &bytes);
    if (pr->state == RAFT_REPLICATE && raft__progress_reserve(pr, r->alloc) < 0) return E_NOMEM;
    int rc = raft_entries_copy(r->alloc, raft__log_at(&r->log, pr->next), n, &m->entries);
    if (rc < 0) return rc;
    m->entry_count = n;
    return 0;
}

bool raft__send_append(struct raft *r, raft_id to, bool even_empty)
{
    ASSERT(to != r->opts.id);
    struct raft__progress *pr = raft__tracker_find(&r->trk, to);
    ASSERT(pr != NULL);
    if (raft__progress_paused(pr)) return false;
    struct raft_message m = {.type = RAFT_MSG_APP, .to = to, .index = pr->next - 1};
    if (!raft__log_term(&r->log, m.index, &m.log_term)) return send_snapshot(r, pr);
    if (fill_entries(r, pr, &m) < 0) return false;
    if (m.entry_count == 0 && !even_empty) return false;
    m.commit = r->log.committed;
    raft__progress_sent(pr, &r->limits, m.entry_count, payload_bytes(m.entries, m.entry_count));
    pr->sent_commit = r->log.committed;
    raft__send(r, &m);
    return true;
}

void raft__bcast_append(struct raft *r)
{
    ASSERT(r->state == RAFT_LEADER);
    for (uint32_t i = 0; i < r->trk.count; i++)
        if (r->trk.prs[i].id != r->opts.id) (void)raft__send_append(r, r->trk.prs[i].id, true);
}

void raft__bcast_heartbeat(struct raft *r)
{
    ASSERT(r->state == RAFT_LEADER);
    uint64_t token = raft__read_token(r);
    for (uint32_t i = 0; i < r->trk.count; i++) {
        struct raft__progress *pr = &r->trk.prs[i];
        if (pr->id == r->opts.id) continue;
        struct raft_message m = {.type = RAFT_MSG_HEARTBEAT, .to = pr->id};
        /* A follower must not take as committed what it may not have. */
        m.commit = pr->match < r->log.committed ? pr->match : r->log.committed;
        if (token != 0) {
            m.context_len = 8;
            for (int b = 0; b < 8; b++)
                m.context[b] = (uint8_t)(token >> (8 * b));
        }
        pr->sent_commit = m.commit;
        raft__send(r, &m);
    }
}

void raft__send_timeout_now(struct raft *r, raft_id to)
{
    ASSERT(to != 0 && to != r->opts.id);
    struct raft_message m = {.type = RAFT_MSG_TIMEOUT_NOW, .to = to};
    raft__send(r, &m);
}
