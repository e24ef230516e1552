/* States, elections and configuration of one member: birth, ticks, becoming somebody else. */
#include "raft/raft.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "raft/raft_int.h"

enum { LINE_BYTES_MAX = 2048 };

void raft__log_line(const struct raft *r, enum log_level level, const char *format, ...)
{
    ASSERT(format != NULL);
    if (r->opts.log == NULL) return;
    char text[LINE_BYTES_MAX];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    const struct log_event event = {level, __FILE__, __LINE__, text, NULL, 0};
    log_emit(r->opts.log, &event);
}

int raft__begin(struct raft *r, size_t acks)
{
    ASSERT(acks < SIZE_MAX / 4);
    /* One input makes at most: an answer, an own vote or acknowledgement, and an entry of our own (the no-op of
     * a new leader, or the end of a joint configuration). */
    int rc = raft__messages_reserve(r->alloc, &r->acks, 4 + 2 * acks);
    if (rc == 0) rc = raft__messages_reserve(r->alloc, &r->msgs, acks + r->trk.count + 2);
    if (rc == 0) rc = raft__log_reserve(&r->log, 2 + acks);
    return rc;
}

static void draw_election_timeout(struct raft *r)
{
    ASSERT(r->opts.election_tick > 0);
    r->election_timeout = r->opts.election_tick +
                          (uint32_t)prng_below(&r->prng, r->opts.election_tick);
}

static void reset_votes(struct raft *r)
{
    ASSERT(r->trk.count <= r->trk.cap);
    for (uint32_t i = 0; i < r->trk.count; i++)
        r->trk.prs[i].vote = -1;
}

static void reset(struct raft *r, raft_term term)
{
    ASSERT(term >= r->term);
    if (r->term != term) {
        r->term = term;
        r->vote = 0;
    }
    r->lead = 0;
    r->election_elapsed = 0;
    r->heartbeat_elapsed = 0;
    draw_election_timeout(r);
    r->transferee = 0;
    reset_votes(r);
    for (uint32_t i = 0; i < r->trk.count; i++) {
        struct raft__progress *pr = &r->trk.prs[i];
        raft__progress_reset(pr, raft__log_last(&r->log), pr->id == r->opts.id);
    }
    r->pending_conf_index = 0;
    r->uncommitted_bytes = 0;
    /* A read round is of one term: its index says nothing under another leader. */
    raft__reads_clear(&r->reads_open);
    raft__reads_clear(&r->reads_pending);
    r->reads_confirmed = 0;
}

void raft__become_follower(struct raft *r, raft_term term, raft_id lead)
{
    ASSERT(term >= r->term);
    reset(r, term);
    r->lead = lead;
    r->state = RAFT_FOLLOWER;
    raft__log_line(r, LOG_INFO, "%" PRIx64 " became follower at term %" PRIu64, r->opts.id,
                   r->term);
}

/* Paper 5.2: "To begin an election, a follower increments its current term and transitions to candidate
 * state. It then votes for itself ..." */
static void become_candidate(struct raft *r)
{
    ASSERT(r->state != RAFT_LEADER);
    reset(r, r->term + 1);
    r->vote = r->opts.id;
    r->state = RAFT_CANDIDATE;
    raft__log_line(r, LOG_INFO, "%" PRIx64 " became candidate at term %" PRIu64, r->opts.id,
                   r->term);
}

/* Thesis 9.6: a pre-candidate asks first whether it could win; it changes neither term nor vote. */
static void become_pre_candidate(struct raft *r)
{
    ASSERT(r->state != RAFT_LEADER);
    reset_votes(r);
    r->lead = 0;
    r->state = RAFT_PRE_CANDIDATE;
    raft__log_line(r, LOG_INFO, "%" PRIx64 " became pre-candidate at term %" PRIu64, r->opts.id,
                   r->term);
}

void raft__become_leader(struct raft *r)
{
    ASSERT(r->state != RAFT_FOLLOWER);
    reset(r, r->term);
    r->lead = r->opts.id;
    r->state = RAFT_LEADER;
    struct raft__progress *pr = raft__tracker_find(&r->trk, r->opts.id);
    ASSERT(pr != NULL);
    raft__progress_replicate(pr);
    pr->recent_active = true;
    /* There may be a conf change in the tail that is not applied yet: wait for all of it. */
    r->pending_conf_index = raft__log_last(&r->log);
    /* Paper 8: "each leader ... commit[s] a blank no-op entry into the log at the start of its term." */
    const struct raft_entry noop = {.type = RAFT_ENTRY_NORMAL};
    int rc = raft__append_entries(r, &noop, 1);
    ASSERT(rc == 0);
    raft__log_line(r, LOG_INFO, "%" PRIx64 " became leader at term %" PRIu64, r->opts.id, r->term);
}

bool raft__promotable(const struct raft *r)
{
    ASSERT(r->opts.id != 0);
    const struct raft__progress *pr = raft__tracker_find(&r->trk, r->opts.id);
    return pr != NULL && !pr->learner && r->log.snapshot == NULL;
}

static bool unapplied_conf_change(const struct raft *r)
{
    ASSERT(r->log.applied <= r->log.committed);
    raft_index i = r->log.applied;
    if (i < r->log.before_index) i = r->log.before_index;
    for (i++; i <= r->log.committed; i++)
        if (raft__log_at(&r->log, i)->type != RAFT_ENTRY_NORMAL) return true;
    return false;
}

void raft__hup(struct raft *r, enum raft__campaign kind)
{
    ASSERT(r->opts.id != 0);
    if (r->state == RAFT_LEADER) {
        raft__log_line(r, LOG_DEBUG, "%" PRIx64 " ignoring MsgHup because already leader",
                       r->opts.id);
        return;
    }
    if (!raft__promotable(r)) {
        raft__log_line(r, LOG_WARN, "%" PRIx64 " is unpromotable and can not campaign", r->opts.id);
        return;
    }
    if (unapplied_conf_change(r)) {
        raft__log_line(r, LOG_WARN,
                       "%" PRIx64 " cannot campaign at term %" PRIu64
                       " since there are still pending configuration changes to apply",
                       r->opts.id, r->term);
        return;
    }
    raft__log_line(r, LOG_INFO, "%" PRIx64 " is starting a new election at term %" PRIu64,
                   r->opts.id, r->term);
    raft__campaign_start(r, kind);
}

static void ask_vote(struct raft *r, raft_id id, enum raft_message_type type, raft_term term,
                     bool transfer)
{
    ASSERT(id != r->opts.id);
    raft_index last = raft__log_last(&r->log);
    raft_term last_term = raft__log_last_term(&r->log);
    raft__log_line(r, LOG_INFO,
                   "%" PRIx64 " [logterm: %" PRIu64 ", index: %" PRIu64
                   "] sent %s request to %" PRIx64 " at term %" PRIu64,
                   r->opts.id, last_term, last, raft_message_name(type), id, r->term);
    struct raft_message m = {.type = type, .to = id, .term = term};
    m.index = last;
    m.log_term = last_term;
    if (transfer) {
        static const char why[] = "CampaignTransfer";
        m.context_len = sizeof why - 1;
        memcpy(m.context, why, sizeof why - 1);
    }
    raft__send(r, &m);
}

/* Voters of both halves, each once, ascending: the progress list holds all members in that order. */
void raft__campaign_start(struct raft *r, enum raft__campaign kind)
{
    ASSERT(raft__promotable(r));
    bool pre = kind == RAFT__PRE_ELECTION;
    if (pre)
        become_pre_candidate(r);
    else
        become_candidate(r);
    raft_term term = pre ? r->term + 1 : r->term;
    for (uint32_t i = 0; i < r->trk.count; i++) {
        raft_id id = r->trk.prs[i].id;
        if (!raft__conf_has_voter(&r->trk.conf, id)) continue;
        if (id == r->opts.id) {
            /* Our own vote counts once it is on disk, like anybody's. */
            struct raft_message own = {
                .type = pre ? RAFT_MSG_PRE_VOTE_RESP : RAFT_MSG_VOTE_RESP, .to = id, .term = term};
            raft__send(r, &own);
        } else {
            ask_vote(r, id, pre ? RAFT_MSG_PRE_VOTE : RAFT_MSG_VOTE, term, kind == RAFT__TRANSFER);
        }
    }
}

static uint64_t match_of(const void *arg, raft_id id)
{
    const struct raft__progress *pr = raft__tracker_find(arg, id);
    ASSERT(pr != NULL);
    return pr->match;
}

/* Paper 5.4.2: "only log entries from the leader's current term are committed by counting replicas; once an
 * entry from the current term has been committed in this way, then all prior entries are committed
 * indirectly". */
bool raft__maybe_commit(struct raft *r)
{
    ASSERT(r->state == RAFT_LEADER);
    raft_index i = raft__joint_index(&r->trk.conf, match_of, &r->trk);
    if (i == UINT64_MAX || i <= r->log.committed || !raft__log_match(&r->log, i, r->term))
        return false;
    raft__log_commit_to(&r->log, i);
    return true;
}

static size_t payload_bytes(const struct raft_entry *es, size_t n)
{
    ASSERT(es != NULL);
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += es[i].data == NULL ? 0 : es[i].data->len;
    return sum;
}

int raft__append_entries(struct raft *r, const struct raft_entry *es, size_t n)
{
    ASSERT(n > 0);
    size_t bytes = payload_bytes(es, n);
    size_t max = r->opts.uncommitted_bytes_max;
    /* Empty entries are never refused: a new leader's no-op, the end of a joint configuration. Nor is the
     * first one, or it could never be proposed. */
    if (max != 0 && r->uncommitted_bytes > 0 && bytes > 0 && r->uncommitted_bytes + bytes > max) {
        raft__log_line(r, LOG_WARN,
                       "%" PRIx64
                       " appending new entries to log would exceed uncommitted entry size "
                       "limit; dropping proposal",
                       r->opts.id);
        return E_AGAIN;
    }
    r->uncommitted_bytes += bytes;
    for (size_t i = 0; i < n; i++) {
        struct raft_entry e = es[i];
        e.term = r->term;
        e.index = raft__log_last(&r->log) + 1;
        raft__log_append(&r->log, &e, 1);
    }
    /* We acknowledge to ourselves what is on our disk, as a follower does. */
    struct raft_message own = {
        .type = RAFT_MSG_APP_RESP, .to = r->opts.id, .index = raft__log_last(&r->log)};
    raft__send(r, &own);
    return 0;
}

static void leave_joint_automatically(struct raft *r)
{
    ASSERT(r->state == RAFT_LEADER);
    char text[RAFT__CONF_TEXT_MAX];
    struct raft_entry e = {.type = RAFT_ENTRY_CONF_CHANGE_V2};
    const struct raft_message m = {
        .type = RAFT_MSG_PROP, .from = r->opts.id, .entries = &e, .entry_count = 1};
    int rc = raft__step(r, &m);
    if (rc < 0)
        raft__log_line(r, LOG_DEBUG,
                       "not initiating automatic transition out of joint configuration %s: raft "
                       "proposal dropped",
                       raft__conf_text(&r->trk.conf, text));
    else
        raft__log_line(r, LOG_INFO, "initiating automatic transition out of joint configuration %s",
                       raft__conf_text(&r->trk.conf, text));
}

void raft__applied_to(struct raft *r, raft_index index)
{
    raft_index old = r->log.applied;
    ASSERT(old <= r->log.committed);
    if (index < old) index = old;
    if (r->opts.uncommitted_bytes_max != 0 && r->uncommitted_bytes > 0) {
        size_t bytes = 0;
        for (raft_index i = old + 1; i <= index; i++)
            if (i > r->log.before_index) bytes += payload_bytes(raft__log_at(&r->log, i), 1);
        r->uncommitted_bytes -= bytes < r->uncommitted_bytes ? bytes : r->uncommitted_bytes;
    }
    raft__log_applied_to(&r->log, index);
    if (r->trk.conf.auto_leave && index >= r->pending_conf_index && r->state == RAFT_LEADER)
        leave_joint_automatically(r);
}

void raft__applied_snapshot(struct raft *r, raft_index index)
{
    ASSERT(index > 0);
    struct raft__log *l = &r->log;
    if (l->snapshot != NULL && l->snapshot->meta.index == index) {
        rcbuf_unref(l->snapshot->data);
        alloc_free(r->alloc, l->snapshot, sizeof *l->snapshot);
        l->snapshot = NULL;
        l->snapshot_in_progress = false;
    }
    raft__applied_to(r, index);
}

void raft__switch_conf(struct raft *r)
{
    char text[RAFT__CONF_TEXT_MAX];
    raft__log_line(r, LOG_INFO, "%" PRIx64 " switched to configuration %s", r->opts.id,
                   raft__conf_text(&r->trk.conf, text));
    const struct raft__progress *pr = raft__tracker_find(&r->trk, r->opts.id);
    r->learner = pr != NULL && pr->learner;
    if (r->state != RAFT_LEADER) return;
    if (pr == NULL || r->learner) {
        if (r->opts.step_down_on_removal) raft__become_follower(r, r->term, 0);
        return;
    }
    ASSERT(r->trk.conf.voter_count > 0);
    if (raft__maybe_commit(r)) {
        /* A smaller quorum may have committed more. */
        raft__bcast_append(r);
    } else {
        for (uint32_t i = 0; i < r->trk.count; i++)
            if (r->trk.prs[i].id != r->opts.id) (void)raft__send_append(r, r->trk.prs[i].id, false);
    }
    if (r->transferee != 0 && !raft__conf_has_voter(&r->trk.conf, r->transferee)) r->transferee = 0;
}

static bool conf_has_member(const struct raft_conf_state *cs, raft_id id)
{
    ASSERT(id != 0);
    return raft__conf_has_voter(cs, id) || raft__ids_have(cs->learners, cs->learner_count, id);
}

static bool snapshot_wanted(struct raft *r, const struct raft_snapshot *s)
{
    ASSERT(s != NULL);
    if (s->meta.index <= r->log.committed) return false;
    if (!conf_has_member(&s->meta.conf, r->opts.id)) {
        raft__log_line(r, LOG_WARN,
                       "%" PRIx64 " attempted to restore snapshot but it is not in the ConfState; "
                       "should never happen",
                       r->opts.id);
        return false;
    }
    if (raft__log_match(&r->log, s->meta.index, s->meta.term)) {
        raft__log_line(r, LOG_INFO,
                       "%" PRIx64 " [commit: %" PRIu64 ", lastindex: %" PRIu64
                       ", lastterm: %" PRIu64 "] fast-forwarded commit to snapshot [index: %" PRIu64
                       ", term: %" PRIu64 "]",
                       r->opts.id, r->log.committed, raft__log_last(&r->log),
                       raft__log_last_term(&r->log), s->meta.index, s->meta.term);
        raft__log_commit_to(&r->log, s->meta.index);
        return false;
    }
    return true;
}

static struct raft_snapshot *snapshot_copy(const struct raft *r, const struct raft_snapshot *s)
{
    ASSERT(s != NULL);
    struct raft_snapshot *copy = alloc_new(r->alloc, sizeof *copy);
    if (copy == NULL) return NULL;
    *copy = *s;
    (void)rcbuf_ref(copy->data);
    return copy;
}

static void log_restore_line(struct raft *r, const struct raft_snapshot *s)
{
    const struct raft__log *l = &r->log;
    ASSERT(l->in_progress >= l->stable);
    raft__log_line(r, LOG_INFO,
                   "log [committed=%" PRIu64 ", applied=%" PRIu64 ", applying=%" PRIu64
                   ", unstable.offset=%" PRIu64 ", unstable.offsetInProgress=%" PRIu64
                   ", len(unstable.Entries)=%" PRIu64
                   "] starts to restore snapshot [index: %" PRIu64 ", term: %" PRIu64 "]",
                   l->committed, l->applied, l->applying, l->stable + 1, l->in_progress + 1,
                   raft__log_last(l) - l->stable, s->meta.index, s->meta.term);
}

bool raft__restore_snapshot(struct raft *r, const struct raft_snapshot *s)
{
    ASSERT(r->state == RAFT_FOLLOWER);
    if (!snapshot_wanted(r, s)) return false;
    struct raft__tracker trk = {0};
    struct errmsg em = {""};
    int rc = raft__conf_restore(&trk, r->alloc, s->meta.index, &s->meta.conf, &em);
    struct raft_snapshot *copy = rc < 0 ? NULL : snapshot_copy(r, s);
    if (copy == NULL) {
        raft__log_line(r, LOG_WARN, "%" PRIx64 " cannot restore snapshot: %s", r->opts.id,
                       rc == E_INVAL ? em.text : "out of memory");
        raft__tracker_deinit(&trk, r->alloc);
        return false;
    }
    log_restore_line(r, s);
    raft__log_restore(&r->log, copy);
    raft__tracker_deinit(&r->trk, r->alloc);
    r->trk = trk;
    raft__switch_conf(r);
    raft__log_line(r, LOG_INFO,
                   "%" PRIx64 " [commit: %" PRIu64 ", lastindex: %" PRIu64 ", lastterm: %" PRIu64
                   "] restored snapshot [index: %" PRIu64 ", term: %" PRIu64 "]",
                   r->opts.id, r->log.committed, raft__log_last(&r->log),
                   raft__log_last_term(&r->log), s->meta.index, s->meta.term);
    return true;
}

/* --- birth --------------------------------------------------------------------------------------- */

static int restored_valid(const struct raft_restored *in, struct errmsg *em)
{
    ASSERT(in->entries != NULL || in->entry_count == 0);
    raft_index at = in->snapshot.index;
    raft_term term = in->snapshot.term;
    for (size_t i = 0; i < in->entry_count; i++) {
        const struct raft_entry *e = &in->entries[i];
        if (e->index != at + 1 || e->term < term) {
            errmsg_set(em,
                       "log entry %zu has index %" PRIu64 " and term %" PRIu64
                       " behind index %" PRIu64 " and term %" PRIu64,
                       i, e->index, e->term, at, term);
            return E_CORRUPT;
        }
        at = e->index;
        term = e->term;
    }
    raft_index commit = in->hard_state.commit;
    if (!raft_hard_state_empty(in->hard_state) && (commit < in->snapshot.index || commit > at)) {
        errmsg_set(em, "commit index %" PRIu64 " is out of range [%" PRIu64 ", %" PRIu64 "]",
                   commit, in->snapshot.index, at);
        return E_CORRUPT;
    }
    if (commit < in->snapshot.index) commit = in->snapshot.index;
    if (in->applied > commit) {
        errmsg_set(em, "applied index %" PRIu64 " is above the commit index %" PRIu64, in->applied,
                   commit);
        return E_CORRUPT;
    }
    return 0;
}

static int restore_log(struct raft *r, const struct raft_restored *in)
{
    struct raft__log *l = &r->log;
    ASSERT(l->count == 0);
    l->alloc = r->alloc;
    l->applying_bytes_max = r->opts.applying_bytes_max == 0 ? SIZE_MAX : r->opts.applying_bytes_max;
    l->before_index = in->snapshot.index;
    l->before_term = in->snapshot.term;
    l->committed = in->snapshot.index;
    if (in->entry_count > 0) {
        int rc = raft__log_reserve(l, in->entry_count);
        if (rc < 0) return rc;
        raft__log_append(l, in->entries, in->entry_count);
    }
    l->stable = raft__log_last(l);
    l->in_progress = l->stable;
    if (in->hard_state.commit > l->committed) l->committed = in->hard_state.commit;
    l->applied = in->applied > in->snapshot.index ? in->applied : in->snapshot.index;
    l->applying = l->applied;
    return 0;
}

static void log_birth(struct raft *r)
{
    ASSERT(r->opts.id != 0);
    char peers[RAFT__CONF_TEXT_MAX];
    size_t len = 0;
    peers[0] = '\0';
    for (uint32_t i = 0; i < r->trk.count && len < sizeof peers; i++) {
        if (!raft__conf_has_voter(&r->trk.conf, r->trk.prs[i].id)) continue;
        int n = snprintf(peers + len, sizeof peers - len, "%s%" PRIx64, len == 0 ? "" : ",",
                         r->trk.prs[i].id);
        len += n < 0 ? 0 : (size_t)n;
    }
    raft__log_line(r, LOG_INFO,
                   "newRaft %" PRIx64 " [peers: [%s], term: %" PRIu64 ", commit: %" PRIu64
                   ", applied: %" PRIu64 ", lastindex: %" PRIu64 ", lastterm: %" PRIu64 "]",
                   r->opts.id, peers, r->term, r->log.committed, r->log.applied,
                   raft__log_last(&r->log), raft__log_last_term(&r->log));
}

static int raft_init(struct raft *r, const struct raft_restored *in, struct errmsg *em)
{
    ASSERT(r->alloc != NULL);
    int rc = restore_log(r, in);
    if (rc < 0) return rc;
    rc = raft__conf_restore(&r->trk, r->alloc, raft__log_last(&r->log), &in->snapshot.conf, em);
    if (rc < 0) return rc == E_INVAL ? E_CORRUPT : rc;
    rc = raft__begin(r, 0);
    if (rc < 0) return rc;
    raft__switch_conf(r);
    r->vote = in->hard_state.vote;
    r->term = in->hard_state.term;
    raft__become_follower(r, r->term, 0);
    r->vote = in->hard_state.vote;
    r->handed_state = (struct raft_hard_state){r->term, r->vote, r->log.committed};
    /* A log without a state record counts as all zero: the first state is written. */
    if (raft_hard_state_empty(in->hard_state)) r->handed_state = (struct raft_hard_state){0};
    r->handed_state.commit = in->hard_state.commit;
    r->handed_role = r->state;
    r->handed_lead = r->lead;
    log_birth(r);
    return 0;
}

int raft_new(const struct raft_opts *opts, const struct raft_restored *restored, struct raft **out,
             struct errmsg *em)
{
    ASSERT(opts->id != 0 && opts->id != RAFT_ID_APPEND_THREAD && opts->id != RAFT_ID_APPLY_THREAD);
    ASSERT(opts->heartbeat_tick > 0);
    ASSERT(opts->election_tick > opts->heartbeat_tick);
    ASSERT(opts->inflight_count_max > 0);
    ASSERT(!opts->lease_based_reads || opts->check_quorum);
    int rc = restored_valid(restored, em);
    if (rc < 0) return rc;
    struct raft *r = alloc_zero(opts->alloc, sizeof *r);
    if (r == NULL) return E_NOMEM;
    r->opts = *opts;
    r->alloc = opts->alloc;
    r->limits = (struct raft__limits){opts->inflight_count_max, opts->inflight_bytes_max};
    prng_init(&r->prng, opts->seed);
    r->log.alloc = r->alloc;
    rc = raft_init(r, restored, em);
    if (rc < 0) {
        raft_free(r);
        return rc;
    }
    *out = r;
    return 0;
}

void raft_free(struct raft *r)
{
    if (r == NULL) return;
    ASSERT(r->alloc != NULL);
    for (size_t i = r->msgs.head; i < r->msgs.n; i++)
        raft_message_deinit(&r->msgs.v[i], r->alloc);
    for (size_t i = 0; i < r->acks.n; i++)
        raft_message_deinit(&r->acks.v[i], r->alloc);
    alloc_free(r->alloc, r->msgs.v, r->msgs.cap * sizeof *r->msgs.v);
    alloc_free(r->alloc, r->acks.v, r->acks.cap * sizeof *r->acks.v);
    raft__reads_free(r->alloc, &r->reads_open);
    raft__reads_free(r->alloc, &r->reads_pending);
    raft__reads_free(r->alloc, &r->reads_done);
    if (r->snapshot != NULL) {
        rcbuf_unref(r->snapshot->data);
        alloc_free(r->alloc, r->snapshot, sizeof *r->snapshot);
    }
    raft__tracker_deinit(&r->trk, r->alloc);
    raft__log_deinit(&r->log);
    alloc_free(r->alloc, r, sizeof *r);
}

int raft_bootstrap(struct raft *r, const struct raft_entry *entries, size_t n)
{
    ASSERT(n > 0);
    ASSERT(r->term == 0 && raft__log_last(&r->log) == 0);
    ASSERT(entries[0].index == 1 && entries[0].term == 1);
    int rc = raft__log_reserve(&r->log, n + 2);
    if (rc < 0) return rc;
    raft__become_follower(r, 1, 0);
    raft__log_append(&r->log, entries, n);
    raft__log_commit_to(&r->log, n);
    return 0;
}
