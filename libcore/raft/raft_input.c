/* The door: every input is checked, gets what memory it may need, and only then changes anything. */
#include <inttypes.h>

#include "raft/raft_int.h"

static bool is_storage(raft_id id)
{
    return id == RAFT_ID_APPEND_THREAD || id == RAFT_ID_APPLY_THREAD;
}

static bool is_local(enum raft_message_type t)
{
    ASSERT((unsigned)t < RAFT_MSG_COUNT);
    return t == RAFT_MSG_HUP || t == RAFT_MSG_BEAT || t == RAFT_MSG_UNREACHABLE ||
           t == RAFT_MSG_SNAP_STATUS || t == RAFT_MSG_CHECK_QUORUM ||
           t == RAFT_MSG_STORAGE_APPEND || t == RAFT_MSG_STORAGE_APPEND_RESP ||
           t == RAFT_MSG_STORAGE_APPLY || t == RAFT_MSG_STORAGE_APPLY_RESP ||
           t == RAFT_MSG_FORGET_LEADER;
}

static bool is_response(enum raft_message_type t)
{
    ASSERT((unsigned)t < RAFT_MSG_COUNT);
    return t == RAFT_MSG_APP_RESP || t == RAFT_MSG_VOTE_RESP || t == RAFT_MSG_HEARTBEAT_RESP ||
           t == RAFT_MSG_PRE_VOTE_RESP || t == RAFT_MSG_READ_INDEX_RESP;
}

/* What followers pass on to whom they think leads; it may come back to who asked. */
static bool is_forwarded(enum raft_message_type t)
{
    ASSERT((unsigned)t < RAFT_MSG_COUNT);
    return t == RAFT_MSG_PROP || t == RAFT_MSG_READ_INDEX || t == RAFT_MSG_TRANSFER_LEADER;
}

static bool append_valid(const struct raft_message *m)
{
    ASSERT(m->type == RAFT_MSG_APP);
    raft_index at = m->index;
    raft_term term = m->log_term;
    for (size_t i = 0; i < m->entry_count; i++) {
        const struct raft_entry *e = &m->entries[i];
        if (at == UINT64_MAX || e->index != at + 1 || e->term < term || e->term == 0) return false;
        if ((unsigned)e->type > RAFT_ENTRY_CONF_CHANGE_V2) return false;
        at = e->index;
        term = e->term;
    }
    return term <= m->term && (m->index == 0) == (m->log_term == 0);
}

static bool entries_valid(const struct raft_message *m)
{
    ASSERT(m->entries != NULL || m->entry_count == 0);
    if (m->type == RAFT_MSG_APP) return append_valid(m);
    if (m->type == RAFT_MSG_READ_INDEX || m->type == RAFT_MSG_READ_INDEX_RESP)
        return m->entry_count == 1 && m->entries[0].data != NULL;
    if (m->type != RAFT_MSG_PROP) return true;
    for (size_t i = 0; i < m->entry_count; i++)
        if ((unsigned)m->entries[i].type > RAFT_ENTRY_CONF_CHANGE_V2) return false;
    return m->entry_count > 0;
}

static bool term_valid(const struct raft_message *m)
{
    ASSERT((unsigned)m->type < RAFT_MSG_COUNT);
    return is_forwarded(m->type) ? m->type == RAFT_MSG_TRANSFER_LEADER || m->term == 0
                                 : m->term != 0 && m->term < UINT64_MAX - 1;
}

static bool snapshot_valid(const struct raft_message *m)
{
    if (m->type != RAFT_MSG_SNAP) return true;
    const struct raft_snapshot *s = m->snapshot;
    return s != NULL && s->meta.index != 0 && s->meta.term != 0 && s->meta.term <= m->term;
}

/* Entries that would replace what is committed here: the sender's log or ours was damaged. */
static bool overwrites_committed(const struct raft *r, const struct raft_message *m)
{
    ASSERT(r->log.committed >= r->log.before_index);
    if (m->type != RAFT_MSG_APP || m->index < r->log.committed) return false;
    /* Entries begin behind the committed ones. */
    return m->index == r->log.committed && m->log_term != 0 &&
           !raft__log_match(&r->log, m->index, m->log_term) && m->term >= r->term;
}

static bool sender_valid(const struct raft *r, const struct raft_message *m)
{
    ASSERT(r->opts.id != 0);
    if (is_local(m->type) || m->from == 0) return false;
    if (m->to != 0 && m->to != r->opts.id) return false;
    return m->from != r->opts.id || is_response(m->type) || is_forwarded(m->type);
}

/* A leader hears of no other leader in its own term (election safety). */
static bool second_leader(const struct raft *r, const struct raft_message *m)
{
    ASSERT((unsigned)m->type < RAFT_MSG_COUNT);
    return r->state == RAFT_LEADER && m->term == r->term &&
           (m->type == RAFT_MSG_APP || m->type == RAFT_MSG_HEARTBEAT || m->type == RAFT_MSG_SNAP);
}

int raft__step_valid(const struct raft *r, const struct raft_message *m)
{
    ASSERT(r->opts.id != 0);
    if ((unsigned)m->type >= RAFT_MSG_COUNT || m->context_len > RAFT_CONTEXT_BYTES_MAX)
        return E_INVAL;
    if (is_storage(m->from)) return m->type == RAFT_MSG_STORAGE_APPEND_RESP ? 0 : E_INVAL;
    if (!sender_valid(r, m) || !term_valid(m)) return E_INVAL;
    if (!entries_valid(m) || !snapshot_valid(m)) return E_INVAL;
    return second_leader(r, m) || overwrites_committed(r, m) ? E_INVAL : 0;
}

static void log_refused(struct raft *r, const struct raft_message *m)
{
    ASSERT(m != NULL);
    bool known = (unsigned)m->type < RAFT_MSG_COUNT;
    raft__log_line(r, LOG_WARN, "%" PRIx64 " ignored an invalid %s message from %" PRIx64,
                   r->opts.id, known ? raft_message_name(m->type) : "unknown", m->from);
}

int raft_step(struct raft *r, const struct raft_message *m)
{
    int rc = raft__step_valid(r, m);
    ASSERT(rc == 0 || rc == E_INVAL);
    if (rc < 0) {
        log_refused(r, m);
        return rc;
    }
    if (is_response(m->type) && raft__tracker_find(&r->trk, m->from) == NULL) return E_NOTFOUND;
    rc = raft__begin(r, m->entry_count);
    return rc < 0 ? rc : raft__step(r, m);
}

static int step_local(struct raft *r, enum raft_message_type type, raft_id from)
{
    ASSERT(from != 0);
    const struct raft_message m = {.type = type, .from = from};
    return raft__step(r, &m);
}

static void tick_election(struct raft *r)
{
    ASSERT(r->state != RAFT_LEADER);
    r->election_elapsed++;
    if (!raft__promotable(r) || r->election_elapsed < r->election_timeout) return;
    r->election_elapsed = 0;
    (void)step_local(r, RAFT_MSG_HUP, r->opts.id);
}

static void tick_leader(struct raft *r)
{
    ASSERT(r->state == RAFT_LEADER);
    r->heartbeat_elapsed++;
    r->election_elapsed++;
    if (r->election_elapsed >= r->opts.election_tick) {
        r->election_elapsed = 0;
        if (r->opts.check_quorum) (void)step_local(r, RAFT_MSG_CHECK_QUORUM, r->opts.id);
        /* A transfer that took this long has failed: go on leading (thesis 3.10). */
        if (r->state == RAFT_LEADER) r->transferee = 0;
    }
    if (r->state != RAFT_LEADER || r->heartbeat_elapsed < r->opts.heartbeat_tick) return;
    r->heartbeat_elapsed = 0;
    (void)step_local(r, RAFT_MSG_BEAT, r->opts.id);
}

int raft_tick(struct raft *r)
{
    ASSERT(r->opts.election_tick > 0);
    int rc = raft__begin(r, 0);
    if (rc < 0) return rc;
    if (r->state == RAFT_LEADER)
        tick_leader(r);
    else
        tick_election(r);
    return 0;
}

void raft_skip_ticks(struct raft *r, uint32_t n)
{
    ASSERT(r->opts.election_tick > 0);
    if (r->state == RAFT_LEADER) return;
    uint32_t max = r->election_timeout - 1;
    r->election_elapsed = n >= max - r->election_elapsed ? max : r->election_elapsed + n;
}

int raft_propose(struct raft *r, const struct raft_entry *entries, size_t n)
{
    ASSERT(n > 0);
    int rc = raft__begin(r, n);
    if (rc < 0) return rc;
    /* raft only borrows the entries of a message that is stepped, so the cast takes nothing away. */
    struct raft_message m = {.type = RAFT_MSG_PROP, .from = r->opts.id, .entry_count = n};
    m.entries = (struct raft_entry *)(uintptr_t)entries;
    return raft__step(r, &m);
}

int raft_campaign(struct raft *r)
{
    ASSERT(r->opts.id != 0);
    int rc = raft__begin(r, 0);
    return rc < 0 ? rc : step_local(r, RAFT_MSG_HUP, r->opts.id);
}

int raft_read_index(struct raft *r, struct rcbuf *context)
{
    ASSERT(context != NULL);
    int rc = raft__begin(r, 1);
    if (rc < 0) return rc;
    if (r->state == RAFT_CANDIDATE || r->state == RAFT_PRE_CANDIDATE) return E_AGAIN;
    struct raft_entry e = {.data = context};
    const struct raft_message m = {
        .type = RAFT_MSG_READ_INDEX, .from = r->opts.id, .entries = &e, .entry_count = 1};
    return raft__step(r, &m);
}

int raft_transfer_leader(struct raft *r, raft_id to)
{
    ASSERT(to != 0);
    int rc = raft__begin(r, 0);
    return rc < 0 ? rc : step_local(r, RAFT_MSG_TRANSFER_LEADER, to);
}

int raft_forget_leader(struct raft *r)
{
    ASSERT(r->opts.id != 0);
    int rc = raft__begin(r, 0);
    return rc < 0 ? rc : step_local(r, RAFT_MSG_FORGET_LEADER, r->opts.id);
}

void raft_report_unreachable(struct raft *r, raft_id id)
{
    ASSERT(id != 0);
    if (r->state == RAFT_LEADER) (void)step_local(r, RAFT_MSG_UNREACHABLE, id);
}

void raft_report_snapshot(struct raft *r, raft_id id, bool ok)
{
    ASSERT(id != 0);
    const struct raft_message m = {.type = RAFT_MSG_SNAP_STATUS, .from = id, .reject = !ok};
    if (r->state == RAFT_LEADER) (void)raft__step(r, &m);
}

int raft_persisted(struct raft *r, struct raft_message *acks, size_t n)
{
    ASSERT(acks != NULL || n == 0);
    int rc = raft__begin(r, n);
    if (rc < 0) return rc;
    for (size_t i = 0; i < n; i++) {
        struct raft_message *m = &acks[i];
        if (m->to == r->opts.id) {
            (void)raft__step(r, m);
            continue;
        }
        /* raft__begin() made room, but what was stepped since may have used it: then this one is lost, as the
         * network might have lost it. */
        if (raft__messages_reserve(r->alloc, &r->msgs, 1) < 0) continue;
        r->msgs.v[r->msgs.n++] = *m;
        *m = (struct raft_message){0};
    }
    raft_messages_free(r->alloc, acks, n);
    return 0;
}

int raft_applied(struct raft *r, raft_index index)
{
    ASSERT(index <= r->log.applying);
    int rc = raft__begin(r, 0);
    if (rc < 0) return rc;
    raft__applied_to(r, index);
    return 0;
}

int raft_apply_conf_change(struct raft *r, const struct raft_conf_change *cc,
                           struct raft_conf_state *out, struct errmsg *em)
{
    ASSERT(cc->change_count <= RAFT_CONF_CHANGES_MAX);
    int rc = raft__begin(r, 0);
    if (rc < 0) return rc;
    rc = raft__conf_change(&r->trk, r->alloc, raft__log_last(&r->log), cc, em);
    if (rc < 0) return rc;
    raft__switch_conf(r);
    *out = r->trk.conf;
    return 0;
}

int raft_set_snapshot(struct raft *r, raft_index index, const struct raft_conf_state *conf,
                      struct rcbuf *data)
{
    ASSERT(index <= r->log.committed);
    raft_term term;
    if (!raft__log_term(&r->log, index, &term)) return E_NOTFOUND;
    if (r->snapshot == NULL) {
        r->snapshot = alloc_zero(r->alloc, sizeof *r->snapshot);
        if (r->snapshot == NULL) return E_NOMEM;
    }
    struct rcbuf *old = r->snapshot->data;
    r->snapshot->meta = (struct raft_snapshot_meta){index, term, *conf};
    r->snapshot->data = rcbuf_ref(data);
    rcbuf_unref(old);
    return 0;
}

void raft_compact(struct raft *r, raft_index index)
{
    ASSERT(index <= r->log.applied);
    raft__log_compact(&r->log, index);
}
