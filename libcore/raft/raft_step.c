/* One message: what its term does to us, then what it asks of a follower, a candidate, a leader.
 *
 * A table per state has the handler of each message; an empty slot means that the state ignores it. */
#include <inttypes.h>

#include "raft/raft_int.h"

typedef int (*step_fn)(struct raft *r, const struct raft_message *m);

/* --- votes --------------------------------------------------------------------------------------- */

static void log_vote(struct raft *r, const struct raft_message *m, const char *what,
                     const char *preposition)
{
    ASSERT(what != NULL);
    raft__log_line(
        r, LOG_INFO,
        "%" PRIx64 " [logterm: %" PRIu64 ", index: %" PRIu64 ", vote: %" PRIx64
        "] %s %s %s %" PRIx64 " [logterm: %" PRIu64 ", index: %" PRIu64 "] at term %" PRIu64,
        r->opts.id, raft__log_last_term(&r->log), raft__log_last(&r->log), r->vote, what,
        raft_message_name(m->type), preposition, m->from, m->log_term, m->index, r->term);
}

static enum raft_message_type vote_answer(enum raft_message_type t)
{
    ASSERT(t == RAFT_MSG_VOTE || t == RAFT_MSG_PRE_VOTE);
    return t == RAFT_MSG_VOTE ? RAFT_MSG_VOTE_RESP : RAFT_MSG_PRE_VOTE_RESP;
}

/* Paper figure 2: "If votedFor is null or candidateId, and candidate's log is at least as up-to-date as
 * receiver's log, grant vote". Learners vote too: one that was promoted may not know it yet. */
static void step_vote(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->term >= r->term);
    bool can = r->vote == m->from || (r->vote == 0 && r->lead == 0) ||
               (m->type == RAFT_MSG_PRE_VOTE && m->term > r->term);
    bool grant = can && raft__log_up_to_date(&r->log, m->index, m->log_term);
    log_vote(r, m, grant ? "cast" : "rejected", grant ? "for" : "from");
    struct raft_message resp = {.type = vote_answer(m->type), .to = m->from, .reject = !grant};
    /* A granted pre-vote is of the term asked for, or the asker would ignore it as old. */
    resp.term = grant ? m->term : r->term;
    raft__send(r, &resp);
    if (grant && m->type == RAFT_MSG_VOTE) {
        r->election_elapsed = 0;
        r->vote = m->from;
    }
}

static bool is_transfer(const struct raft_message *m)
{
    ASSERT(m->context_len <= RAFT_CONTEXT_BYTES_MAX);
    static const char why[] = "CampaignTransfer";
    return m->context_len == sizeof why - 1 && memcmp(m->context, why, sizeof why - 1) == 0;
}

/* Thesis 4.2.3: "if a server receives a RequestVote request within the minimum election timeout of hearing
 * from a current leader, it does not update its term or grant its vote." */
static bool lease_holds(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->term > r->term);
    if (is_transfer(m) || !r->opts.check_quorum || r->lead == 0 ||
        r->election_elapsed >= r->opts.election_tick)
        return false;
    raft__log_line(r, LOG_INFO,
                   "%" PRIx64 " [logterm: %" PRIu64 ", index: %" PRIu64 ", vote: %" PRIx64
                   "] ignored %s from %" PRIx64 " [logterm: %" PRIu64 ", index: %" PRIu64
                   "] at term %" PRIu64 ": lease is not expired (remaining ticks: %" PRIu32 ")",
                   r->opts.id, raft__log_last_term(&r->log), raft__log_last(&r->log), r->vote,
                   raft_message_name(m->type), m->from, m->log_term, m->index, r->term,
                   r->opts.election_tick - r->election_elapsed);
    return true;
}

/* --- terms --------------------------------------------------------------------------------------- */

static bool from_leader(enum raft_message_type t)
{
    ASSERT((unsigned)t < RAFT_MSG_COUNT);
    return t == RAFT_MSG_APP || t == RAFT_MSG_HEARTBEAT || t == RAFT_MSG_SNAP;
}

/* False: the message is not to be looked at further. */
static bool step_higher_term(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->term > r->term);
    bool vote = m->type == RAFT_MSG_VOTE || m->type == RAFT_MSG_PRE_VOTE;
    if (vote && lease_holds(r, m)) return false;
    /* A pre-vote asks about a term that nobody is in; so does the grant of one. A refusal names a real term. */
    if (m->type == RAFT_MSG_PRE_VOTE) return true;
    if (m->type == RAFT_MSG_PRE_VOTE_RESP && !m->reject) return true;
    raft__log_line(r, LOG_INFO,
                   "%" PRIx64 " [term: %" PRIu64
                   "] received a %s message with higher term from %" PRIx64 " [term: %" PRIu64 "]",
                   r->opts.id, r->term, raft_message_name(m->type), m->from, m->term);
    raft__become_follower(r, m->term, from_leader(m->type) ? m->from : 0);
    return true;
}

static void stale_storage_answer(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->type == RAFT_MSG_STORAGE_APPEND_RESP);
    /* The entries may have been overwritten since, and the writes of the new ones may still be under way: only an
     * answer of the current term says what the disk holds in the end. Each change of term makes one. */
    if (m->index != 0)
        raft__log_line(
            r, LOG_INFO,
            "%" PRIx64 " [term: %" PRIu64
            "] ignored entry appends from a MsgStorageAppendResp message with lower term "
            "[term: %" PRIu64 "]",
            r->opts.id, r->term, m->term);
    /* A snapshot is of committed state, which no term changes. */
    if (m->snapshot != NULL) raft__applied_snapshot(r, m->snapshot->meta.index);
}

static void step_lower_term(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->term < r->term);
    if ((r->opts.check_quorum || r->opts.pre_vote) &&
        (m->type == RAFT_MSG_HEARTBEAT || m->type == RAFT_MSG_APP)) {
        /* The sender leads an old term. With check-quorum our vote requests cannot move it, so tell it. */
        struct raft_message resp = {.type = RAFT_MSG_APP_RESP, .to = m->from};
        raft__send(r, &resp);
    } else if (m->type == RAFT_MSG_PRE_VOTE) {
        log_vote(r, m, "rejected", "from");
        struct raft_message resp = {
            .type = RAFT_MSG_PRE_VOTE_RESP, .to = m->from, .term = r->term, .reject = true};
        raft__send(r, &resp);
    } else if (m->type == RAFT_MSG_STORAGE_APPEND_RESP) {
        stale_storage_answer(r, m);
    } else {
        raft__log_line(r, LOG_INFO,
                       "%" PRIx64 " [term: %" PRIu64
                       "] ignored a %s message with lower term from %" PRIx64 " [term: %" PRIu64
                       "]",
                       r->opts.id, r->term, raft_message_name(m->type), m->from, m->term);
    }
}

static void stable_to(struct raft *r, raft_index index, raft_term term)
{
    struct raft__log *l = &r->log;
    ASSERT(l->stable <= l->in_progress);
    raft_term mine;
    if (l->snapshot != NULL && index == l->snapshot->meta.index) {
        raft__log_line(r, LOG_INFO,
                       "entry at index %" PRIu64 " matched unstable snapshot; ignoring", index);
        return;
    }
    if (index <= l->stable || !raft__log_term(l, index, &mine)) {
        raft__log_line(r, LOG_INFO,
                       "entry at index %" PRIu64 " missing from unstable log; ignoring", index);
        return;
    }
    if (mine != term) {
        raft__log_line(r, LOG_INFO,
                       "entry at (index,term)=(%" PRIu64 ",%" PRIu64
                       ") mismatched with entry at (%" PRIu64 ",%" PRIu64
                       ") in unstable log; ignoring",
                       index, term, index, mine);
        return;
    }
    raft__log_stable_to(l, index);
}

static int step_storage_append_resp(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->from == RAFT_ID_APPEND_THREAD);
    if (m->index != 0) stable_to(r, m->index, m->log_term);
    if (m->snapshot != NULL) raft__applied_snapshot(r, m->snapshot->meta.index);
    return 0;
}

/* --- followers ----------------------------------------------------------------------------------- */

static void answer_append(struct raft *r, const struct raft_message *m, raft_index index)
{
    ASSERT(index <= raft__log_last(&r->log));
    struct raft_message resp = {.type = RAFT_MSG_APP_RESP, .to = m->from, .index = index};
    raft__send(r, &resp);
}

/* Where the logs may meet: "the follower can include the term of the conflicting entry and the first index it
 * stores for that term" (paper 5.3), in the form that upstream members use. */
static void reject_append(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->index >= r->log.committed);
    raft_term at = 0;
    (void)raft__log_term(&r->log, m->index, &at);
    raft__log_line(r, LOG_DEBUG,
                   "%" PRIx64 " [logterm: %" PRIu64 ", index: %" PRIu64
                   "] rejected MsgApp [logterm: %" PRIu64 ", index: %" PRIu64 "] from %" PRIx64,
                   r->opts.id, at, m->index, m->log_term, m->index, m->from);
    raft_index last = raft__log_last(&r->log);
    raft_index hint = m->index < last ? m->index : last;
    struct raft_message resp = {
        .type = RAFT_MSG_APP_RESP, .to = m->from, .index = m->index, .reject = true};
    resp.reject_hint = raft__log_conflict_by_term(&r->log, hint, m->log_term, &resp.log_term);
    raft__send(r, &resp);
}

/* How many of the entries are here already. Paper 5.3: "If an existing entry conflicts with a new one (same
 * index but different terms), delete the existing entry and all that follow it". */
static size_t count_present(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->entries != NULL || m->entry_count == 0);
    for (size_t i = 0; i < m->entry_count; i++) {
        const struct raft_entry *e = &m->entries[i];
        if (raft__log_match(&r->log, e->index, e->term)) continue;
        raft_term mine;
        if (raft__log_term(&r->log, e->index, &mine))
            raft__log_line(r, LOG_INFO,
                           "found conflict at index %" PRIu64 " [existing term: %" PRIu64
                           ", conflicting term: %" PRIu64 "]",
                           e->index, mine, e->term);
        return i;
    }
    return m->entry_count;
}

static void log_truncation(struct raft *r, raft_index from)
{
    const struct raft__log *l = &r->log;
    ASSERT(from > l->committed);
    if (from > raft__log_last(l)) return;
    if (from <= l->stable + 1)
        raft__log_line(r, LOG_INFO, "replace the unstable entries from index %" PRIu64, from);
    else
        raft__log_line(r, LOG_INFO, "truncate the unstable entries before index %" PRIu64, from);
}

static int handle_append(struct raft *r, const struct raft_message *m)
{
    if (m->index < r->log.committed) {
        answer_append(r, m, r->log.committed);
        return 0;
    }
    if (!raft__log_match(&r->log, m->index, m->log_term)) {
        reject_append(r, m);
        return 0;
    }
    size_t have = count_present(r, m);
    raft_index last = m->index + m->entry_count;
    if (have < m->entry_count) {
        const struct raft_entry *first = &m->entries[have];
        ASSERT(first->index > r->log.committed);
        log_truncation(r, first->index);
        raft__log_append(&r->log, first, m->entry_count - have);
    }
    raft__log_commit_to(&r->log, m->commit < last ? m->commit : last);
    answer_append(r, m, last);
    return 0;
}

static int handle_heartbeat(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->term == r->term);
    if (m->commit > raft__log_last(&r->log)) {
        /* A leader only names what we acknowledged: our log must have lost its end. */
        raft__log_line(r, LOG_ERROR,
                       "tocommit(%" PRIu64 ") is out of range [lastIndex(%" PRIu64
                       ")]. Was the raft log corrupted, truncated, or lost?",
                       m->commit, raft__log_last(&r->log));
        return E_INVAL;
    }
    raft__log_commit_to(&r->log, m->commit);
    struct raft_message resp = {
        .type = RAFT_MSG_HEARTBEAT_RESP, .to = m->from, .context_len = m->context_len};
    memcpy(resp.context, m->context, m->context_len);
    raft__send(r, &resp);
    return 0;
}

static int handle_snapshot(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->snapshot != NULL);
    bool restored = raft__restore_snapshot(r, m->snapshot);
    raft__log_line(r, LOG_INFO,
                   "%" PRIx64 " [commit: %" PRIu64 "] %s snapshot [index: %" PRIu64
                   ", term: %" PRIu64 "]",
                   r->opts.id, r->log.committed, restored ? "restored" : "ignored",
                   m->snapshot->meta.index, m->snapshot->meta.term);
    answer_append(r, m, restored ? raft__log_last(&r->log) : r->log.committed);
    return 0;
}

static int hear_leader(struct raft *r, const struct raft_message *m)
{
    ASSERT(r->state != RAFT_LEADER);
    if (r->state == RAFT_FOLLOWER) {
        r->election_elapsed = 0;
        r->lead = m->from;
    } else {
        /* Paper 5.2: a candidate that hears from a leader of its term "recognizes the leader as legitimate and
         * returns to follower state". */
        raft__become_follower(r, m->term, m->from);
    }
    if (m->type == RAFT_MSG_APP) return handle_append(r, m);
    if (m->type == RAFT_MSG_HEARTBEAT) return handle_heartbeat(r, m);
    return handle_snapshot(r, m);
}

static int forward(struct raft *r, const struct raft_message *m)
{
    ASSERT(r->lead != 0);
    struct raft_message copy = *m;
    copy.to = r->lead;
    copy.term = 0;
    copy.entries = NULL;
    copy.snapshot = NULL;
    int rc = raft_entries_copy(r->alloc, m->entries, m->entry_count, &copy.entries);
    if (rc < 0) return rc;
    raft__send(r, &copy);
    return 0;
}

static int follower_prop(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->entry_count > 0);
    if (r->lead == 0) {
        raft__log_line(r, LOG_INFO, "%" PRIx64 " no leader at term %" PRIu64 "; dropping proposal",
                       r->opts.id, r->term);
        return E_AGAIN;
    }
    if (r->opts.disable_proposal_forwarding) {
        raft__log_line(r, LOG_INFO,
                       "%" PRIx64 " not forwarding to leader %" PRIx64 " at term %" PRIu64
                       "; dropping proposal",
                       r->opts.id, r->lead, r->term);
        return E_AGAIN;
    }
    return forward(r, m);
}

static int follower_transfer(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->type == RAFT_MSG_TRANSFER_LEADER);
    if (r->lead != 0) return forward(r, m);
    raft__log_line(r, LOG_INFO,
                   "%" PRIx64 " no leader at term %" PRIu64 "; dropping leader transfer msg",
                   r->opts.id, r->term);
    return 0;
}

static int follower_forget(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->type == RAFT_MSG_FORGET_LEADER);
    if (r->opts.lease_based_reads) {
        raft__log_line(r, LOG_ERROR, "ignoring MsgForgetLeader due to ReadOnlyLeaseBased");
        return 0;
    }
    if (r->lead != 0) {
        raft__log_line(r, LOG_INFO, "%" PRIx64 " forgetting leader %" PRIx64 " at term %" PRIu64,
                       r->opts.id, r->lead, r->term);
        r->lead = 0;
    }
    return 0;
}

/* Thesis 3.10: the target of a transfer starts an election at once, without a pre-vote. */
static int follower_timeout_now(struct raft *r, const struct raft_message *m)
{
    ASSERT(r->state == RAFT_FOLLOWER);
    raft__log_line(r, LOG_INFO,
                   "%" PRIx64 " [term %" PRIu64 "] received MsgTimeoutNow from %" PRIx64
                   " and starts an election to get leadership.",
                   r->opts.id, r->term, m->from);
    raft__hup(r, RAFT__TRANSFER);
    return 0;
}

static int follower_read_index(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->entry_count == 1);
    if (r->lead != 0) return forward(r, m);
    raft__log_line(r, LOG_INFO,
                   "%" PRIx64 " no leader at term %" PRIu64 "; dropping index reading msg",
                   r->opts.id, r->term);
    return E_AGAIN;
}

static int follower_read_resp(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->entry_count == 1);
    const struct raft__read_req req = {0, m->index, m->entries[0].data};
    return raft__reads_put(r->alloc, &r->reads_done, req);
}

/* --- candidates ---------------------------------------------------------------------------------- */

static int candidate_prop(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->entry_count > 0);
    raft__log_line(r, LOG_INFO, "%" PRIx64 " no leader at term %" PRIu64 "; dropping proposal",
                   r->opts.id, r->term);
    return E_AGAIN;
}

static int vote_of(const void *arg, raft_id id)
{
    const struct raft__progress *pr = raft__tracker_find(arg, id);
    ASSERT(pr != NULL);
    return pr->vote;
}

static void log_votes(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->from != 0);
    int granted = 0;
    int rejected = 0;
    for (uint32_t i = 0; i < r->trk.count; i++) {
        const struct raft__progress *pr = &r->trk.prs[i];
        if (pr->learner) continue;
        granted += pr->vote > 0;
        rejected += pr->vote == 0;
    }
    raft__log_line(r, LOG_INFO, "%" PRIx64 " has received %d %s votes and %d vote rejections",
                   r->opts.id, granted, raft_message_name(m->type), rejected);
}

/* Paper 5.2: "A candidate wins an election if it receives votes from a majority of the servers in the full
 * cluster for the same term." */
static int candidate_vote_resp(struct raft *r, const struct raft_message *m)
{
    enum raft_message_type mine = r->state == RAFT_PRE_CANDIDATE ? RAFT_MSG_PRE_VOTE_RESP
                                                                 : RAFT_MSG_VOTE_RESP;
    ASSERT(r->state == RAFT_CANDIDATE || r->state == RAFT_PRE_CANDIDATE);
    if (m->type != mine) return 0; /* of our pre-candidacy in this term */
    raft__log_line(r, LOG_INFO, "%" PRIx64 " received %s%s from %" PRIx64 " at term %" PRIu64,
                   r->opts.id, raft_message_name(m->type), m->reject ? " rejection" : "", m->from,
                   r->term);
    struct raft__progress *pr = raft__tracker_find(&r->trk, m->from);
    if (pr != NULL && pr->vote < 0) pr->vote = !m->reject;
    log_votes(r, m);
    switch (raft__joint_vote(&r->trk.conf, vote_of, &r->trk)) {
    case RAFT__VOTE_WON:
        if (r->state == RAFT_PRE_CANDIDATE) {
            raft__campaign_start(r, RAFT__ELECTION);
        } else {
            raft__become_leader(r);
            raft__bcast_append(r);
        }
        break;
    case RAFT__VOTE_LOST: raft__become_follower(r, r->term, 0); break;
    case RAFT__VOTE_PENDING: break;
    }
    return 0;
}

static int candidate_timeout_now(struct raft *r, const struct raft_message *m)
{
    static const char *const names[] = {"StateFollower", "StateCandidate", "StateLeader",
                                        "StatePreCandidate"};
    ASSERT((unsigned)r->state < 4);
    raft__log_line(r, LOG_DEBUG,
                   "%" PRIx64 " [term %" PRIu64 " state %s] ignored MsgTimeoutNow from %" PRIx64,
                   r->opts.id, r->term, names[r->state], m->from);
    return 0;
}

/* --- tables -------------------------------------------------------------------------------------- */

static const step_fn follower_steps[RAFT_MSG_COUNT] = {
    [RAFT_MSG_PROP] = follower_prop,
    [RAFT_MSG_APP] = hear_leader,
    [RAFT_MSG_HEARTBEAT] = hear_leader,
    [RAFT_MSG_SNAP] = hear_leader,
    [RAFT_MSG_TRANSFER_LEADER] = follower_transfer,
    [RAFT_MSG_FORGET_LEADER] = follower_forget,
    [RAFT_MSG_TIMEOUT_NOW] = follower_timeout_now,
    [RAFT_MSG_READ_INDEX] = follower_read_index,
    [RAFT_MSG_READ_INDEX_RESP] = follower_read_resp,
};

static const step_fn candidate_steps[RAFT_MSG_COUNT] = {
    [RAFT_MSG_PROP] = candidate_prop,
    [RAFT_MSG_APP] = hear_leader,
    [RAFT_MSG_HEARTBEAT] = hear_leader,
    [RAFT_MSG_SNAP] = hear_leader,
    [RAFT_MSG_VOTE_RESP] = candidate_vote_resp,
    [RAFT_MSG_PRE_VOTE_RESP] = candidate_vote_resp,
    [RAFT_MSG_TIMEOUT_NOW] = candidate_timeout_now,
};

static int step_by_state(struct raft *r, const struct raft_message *m)
{
    ASSERT((unsigned)m->type < RAFT_MSG_COUNT);
    step_fn fn = NULL;
    switch (r->state) {
    case RAFT_LEADER: return raft__step_leader(r, m);
    case RAFT_FOLLOWER: fn = follower_steps[m->type]; break;
    case RAFT_CANDIDATE:
    case RAFT_PRE_CANDIDATE: fn = candidate_steps[m->type]; break;
    }
    return fn == NULL ? 0 : fn(r, m);
}

int raft__step(struct raft *r, const struct raft_message *m)
{
    ASSERT((unsigned)m->type < RAFT_MSG_COUNT);
    if (m->term > r->term) {
        if (!step_higher_term(r, m)) return 0;
    } else if (m->term != 0 && m->term < r->term) {
        step_lower_term(r, m);
        return 0;
    }
    if (m->type == RAFT_MSG_HUP) {
        raft__hup(r, r->opts.pre_vote ? RAFT__PRE_ELECTION : RAFT__ELECTION);
        return 0;
    }
    if (m->type == RAFT_MSG_STORAGE_APPEND_RESP) return step_storage_append_resp(r, m);
    if (m->type == RAFT_MSG_VOTE || m->type == RAFT_MSG_PRE_VOTE) {
        step_vote(r, m);
        return 0;
    }
    return step_by_state(r, m);
}
