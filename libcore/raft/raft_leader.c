/* What a leader does with messages: proposals, acknowledgements, reads, transfers. */
#include <inttypes.h>
#include <stdio.h>

#include "raft/raft_int.h"

enum { REASON_BYTES_MAX = 128 };

typedef int (*leader_fn)(struct raft *r, const struct raft_message *m);
typedef void (*peer_fn)(struct raft *r, struct raft__progress *pr, const struct raft_message *m);

/* --- without a sender ---------------------------------------------------------------------------- */

static int leader_beat(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->type == RAFT_MSG_BEAT);
    raft__bcast_heartbeat(r);
    return 0;
}

static int active_of(const void *arg, raft_id id)
{
    const struct raft__progress *pr = raft__tracker_find(arg, id);
    ASSERT(pr != NULL);
    return pr->recent_active;
}

/* Thesis 6.2: "a leader steps down if an election timeout elapses without a successful round of heartbeats to a
 * majority of its cluster". */
static int leader_check_quorum(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->type == RAFT_MSG_CHECK_QUORUM);
    if (raft__joint_vote(&r->trk.conf, active_of, &r->trk) != RAFT__VOTE_WON) {
        raft__log_line(r, LOG_WARN,
                       "%" PRIx64 " stepped down to follower since quorum is not active",
                       r->opts.id);
        raft__become_follower(r, r->term, 0);
    }
    for (uint32_t i = 0; i < r->trk.count; i++)
        if (r->trk.prs[i].id != r->opts.id) r->trk.prs[i].recent_active = false;
    return 0;
}

/* NULL: it may be proposed now. Else why not; `text` is scratch. */
static const char *refuse_conf_change(const struct raft *r, const struct raft_entry *e,
                                      char text[REASON_BYTES_MAX])
{
    ASSERT(e->type != RAFT_ENTRY_NORMAL);
    bool joint = raft__conf_joint(&r->trk.conf);
    struct raft_conf_change cc;
    if (raft_conf_change_decode(e, &cc) < 0) return "it cannot be read";
    if (r->pending_conf_index > r->log.applied) {
        (void)snprintf(text, REASON_BYTES_MAX,
                       "possible unapplied conf change at index %" PRIu64 " (applied to %" PRIu64
                       ")",
                       r->pending_conf_index, r->log.applied);
        return text;
    }
    if (joint && cc.change_count > 0) return "must transition out of joint config first";
    if (!joint && cc.change_count == 0) return "not in joint state; refusing empty conf change";
    return NULL;
}

/* Thesis 4.1: only one configuration change at a time. One that may not be now becomes an empty entry, so that
 * its proposer is not told something that another leader might see differently. */
static void check_conf_change(struct raft *r, struct raft_entry *e, raft_index index)
{
    ASSERT(index > raft__log_last(&r->log));
    if (e->type == RAFT_ENTRY_NORMAL) return;
    char text[REASON_BYTES_MAX];
    const char *why = refuse_conf_change(r, e, text);
    if (why == NULL || r->opts.disable_conf_change_checks) {
        r->pending_conf_index = index;
        return;
    }
    char conf[RAFT__CONF_TEXT_MAX];
    char change[RAFT__CHANGE_TEXT_MAX];
    raft__log_line(r, LOG_INFO, "%" PRIx64 " ignoring conf change %s at config %s: %s", r->opts.id,
                   raft__conf_change_text(e, change), raft__conf_text(&r->trk.conf, conf), why);
    rcbuf_unref(e->data);
    *e = (struct raft_entry){.type = RAFT_ENTRY_NORMAL};
}

static bool has_conf_change(const struct raft_message *m)
{
    ASSERT(m->entry_count > 0);
    for (size_t i = 0; i < m->entry_count; i++)
        if (m->entries[i].type != RAFT_ENTRY_NORMAL) return true;
    return false;
}

static int append_proposal(struct raft *r, const struct raft_message *m)
{
    ASSERT(r->state == RAFT_LEADER);
    if (!has_conf_change(m)) return raft__append_entries(r, m->entries, m->entry_count);
    struct raft_entry *copy;
    int rc = raft_entries_copy(r->alloc, m->entries, m->entry_count, &copy);
    if (rc < 0) return rc;
    for (size_t i = 0; i < m->entry_count; i++)
        check_conf_change(r, &copy[i], raft__log_last(&r->log) + i + 1);
    rc = raft__append_entries(r, copy, m->entry_count);
    raft_entries_free(r->alloc, copy, m->entry_count);
    return rc;
}

static int leader_prop(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->entry_count > 0);
    /* Removed while leading: nothing of ours may be committed any more. */
    if (raft__tracker_find(&r->trk, r->opts.id) == NULL) return E_AGAIN;
    if (r->transferee != 0) {
        raft__log_line(r, LOG_DEBUG,
                       "%" PRIx64 " [term %" PRIu64 "] transfer leadership to %" PRIx64
                       " is in progress; dropping proposal",
                       r->opts.id, r->term, r->transferee);
        return E_AGAIN;
    }
    int rc = append_proposal(r, m);
    if (rc < 0) return rc;
    raft__bcast_append(r);
    return 0;
}

static int leader_read_index(struct raft *r, const struct raft_message *m)
{
    ASSERT(m->entry_count == 1);
    return raft__read_request(r, m->from, m->entries[0].data);
}

/* --- from members -------------------------------------------------------------------------------- */

static void append_rejected(struct raft *r, struct raft__progress *pr, const struct raft_message *m)
{
    char text[RAFT__PROGRESS_TEXT_MAX];
    ASSERT(m->reject);
    raft__log_line(r, LOG_DEBUG,
                   "%" PRIx64 " received MsgAppResp(rejected, hint: (index %" PRIu64
                   ", term %" PRIu64 ")) from %" PRIx64 " for index %" PRIu64,
                   r->opts.id, m->reject_hint, m->log_term, m->from, m->index);
    raft_index next = m->reject_hint;
    raft_term ignored;
    /* Terms only grow along a log: where ours is above the hint's, theirs cannot match. So each round trip skips at
     * least a whole term. */
    if (m->log_term > 0)
        next = raft__log_conflict_by_term(&r->log, m->reject_hint, m->log_term, &ignored);
    if (!raft__progress_decrease(pr, m->index, next)) return;
    raft__log_line(r, LOG_DEBUG, "%" PRIx64 " decreased progress of %" PRIx64 " to [%s]",
                   r->opts.id, m->from, raft__progress_text(pr, &r->limits, text));
    if (pr->state == RAFT_REPLICATE) raft__progress_probe(pr);
    (void)raft__send_append(r, m->from, true);
}

static void progress_answered(struct raft *r, struct raft__progress *pr,
                              const struct raft_message *m)
{
    char text[RAFT__PROGRESS_TEXT_MAX];
    ASSERT(!m->reject);
    switch (pr->state) {
    case RAFT_PROBE: raft__progress_replicate(pr); break;
    case RAFT_SNAPSHOT:
        /* Whichever snapshot it took, what counts is that our log goes on from there. */
        if (pr->match + 1 < raft__log_first(&r->log)) break;
        raft__log_line(r, LOG_DEBUG,
                       "%" PRIx64 " recovered from needing snapshot, resumed sending replication "
                       "messages to %" PRIx64 " [%s]",
                       r->opts.id, m->from, raft__progress_text(pr, &r->limits, text));
        raft__progress_probe(pr);
        raft__progress_replicate(pr);
        break;
    case RAFT_REPLICATE: raft__progress_free_to(pr, m->index); break;
    }
}

static void append_accepted(struct raft *r, struct raft__progress *pr, const struct raft_message *m)
{
    ASSERT(!m->reject);
    bool news = raft__progress_update(pr, m->index);
    /* An answer to a probe that brought no news still ends the probing. */
    if (!news && !(pr->match == m->index && pr->state == RAFT_PROBE)) return;
    progress_answered(r, pr, m);
    bool other = m->from != r->opts.id;
    if (raft__maybe_commit(r)) {
        raft__reads_release_pending(r);
        raft__bcast_append(r);
    } else if (other && raft__progress_can_bump_commit(pr, r->log.committed)) {
        (void)raft__send_append(r, m->from, true);
    }
    if (!other) return;
    /* The answer may have made room for several appends. Each takes a slot in flight, so this ends. */
    while (raft__send_append(r, m->from, false)) {}
    if (m->from == r->transferee && pr->match == raft__log_last(&r->log)) {
        raft__log_line(r, LOG_INFO,
                       "%" PRIx64 " sent MsgTimeoutNow to %" PRIx64 " after received MsgAppResp",
                       r->opts.id, m->from);
        raft__send_timeout_now(r, m->from);
    }
}

static void peer_append_resp(struct raft *r, struct raft__progress *pr,
                             const struct raft_message *m)
{
    ASSERT(pr->id == m->from);
    pr->recent_active = true;
    if (m->reject) {
        append_rejected(r, pr, m);
    } else if (m->index > raft__log_last(&r->log)) {
        /* It acknowledges what we never had: a member of another cluster, or one whose disk was exchanged. */
        raft__log_line(r, LOG_ERROR,
                       "%" PRIx64 " ignored MsgAppResp from %" PRIx64 " for index %" PRIu64
                       " behind the last index %" PRIu64,
                       r->opts.id, m->from, m->index, raft__log_last(&r->log));
    } else {
        append_accepted(r, pr, m);
    }
}

static void peer_heartbeat_resp(struct raft *r, struct raft__progress *pr,
                                const struct raft_message *m)
{
    ASSERT(pr->id == m->from);
    pr->recent_active = true;
    pr->flow_paused = false;
    /* With a full window this is an empty append, which finds out whether those under way were lost; a caught-up
     * member in probe state gets one to return to replicate. */
    if (pr->match < raft__log_last(&r->log) || pr->state == RAFT_PROBE)
        (void)raft__send_append(r, m->from, true);
    if (!r->opts.lease_based_reads && m->context_len == 8) raft__read_ack(r, pr, m);
}

static void peer_snap_status(struct raft *r, struct raft__progress *pr,
                             const struct raft_message *m)
{
    ASSERT(pr->id == m->from);
    char text[RAFT__PROGRESS_TEXT_MAX];
    if (pr->state != RAFT_SNAPSHOT) return;
    /* After a failure probing must not begin behind a snapshot that was never applied. */
    if (m->reject) pr->pending_snapshot = 0;
    raft__progress_probe(pr);
    raft__log_line(r, LOG_DEBUG,
                   "%" PRIx64 " snapshot %s, resumed sending replication messages to %" PRIx64
                   " [%s]",
                   r->opts.id, m->reject ? "failed" : "succeeded", m->from,
                   raft__progress_text(pr, &r->limits, text));
    /* Wait for its answer, or for a heartbeat's, before the next append. */
    pr->flow_paused = true;
}

static void peer_unreachable(struct raft *r, struct raft__progress *pr,
                             const struct raft_message *m)
{
    ASSERT(pr->id == m->from);
    char text[RAFT__PROGRESS_TEXT_MAX];
    /* Appends under way are most likely lost. */
    if (pr->state == RAFT_REPLICATE) raft__progress_probe(pr);
    raft__log_line(r, LOG_DEBUG,
                   "%" PRIx64 " failed to send message to %" PRIx64
                   " because it is unreachable [%s]",
                   r->opts.id, m->from, raft__progress_text(pr, &r->limits, text));
}

/* True when a transfer to `to` is under way already; one to somebody else is given up. */
static bool transfer_running(struct raft *r, raft_id to)
{
    ASSERT(to != 0);
    if (r->transferee == 0) return false;
    if (r->transferee == to) {
        raft__log_line(r, LOG_INFO,
                       "%" PRIx64 " [term %" PRIu64 "] transfer leadership to %" PRIx64
                       " is in progress, ignores request to same node %" PRIx64,
                       r->opts.id, r->term, to, to);
        return true;
    }
    raft__log_line(r, LOG_INFO,
                   "%" PRIx64 " [term %" PRIu64
                   "] abort previous transferring leadership to %" PRIx64,
                   r->opts.id, r->term, r->transferee);
    r->transferee = 0;
    return false;
}

/* Thesis 3.10, done within one election timeout or not at all. */
static void peer_transfer(struct raft *r, struct raft__progress *pr, const struct raft_message *m)
{
    raft_id to = m->from;
    ASSERT(pr->id == to);
    if (pr->learner) {
        raft__log_line(r, LOG_DEBUG, "%" PRIx64 " is learner. Ignored transferring leadership",
                       r->opts.id);
        return;
    }
    if (transfer_running(r, to)) return;
    if (to == r->opts.id) {
        raft__log_line(r, LOG_DEBUG,
                       "%" PRIx64 " is already leader. Ignored transferring leadership to self",
                       r->opts.id);
        return;
    }
    raft__log_line(r, LOG_INFO,
                   "%" PRIx64 " [term %" PRIu64 "] starts to transfer leadership to %" PRIx64,
                   r->opts.id, r->term, to);
    r->election_elapsed = 0;
    r->transferee = to;
    if (pr->match != raft__log_last(&r->log)) {
        (void)raft__send_append(r, to, true);
        return;
    }
    raft__send_timeout_now(r, to);
    raft__log_line(r, LOG_INFO,
                   "%" PRIx64 " sends MsgTimeoutNow to %" PRIx64 " immediately as %" PRIx64
                   " already has up-to-date log",
                   r->opts.id, to, to);
}

static const leader_fn leader_steps[RAFT_MSG_COUNT] = {
    [RAFT_MSG_BEAT] = leader_beat,
    [RAFT_MSG_CHECK_QUORUM] = leader_check_quorum,
    [RAFT_MSG_PROP] = leader_prop,
    [RAFT_MSG_READ_INDEX] = leader_read_index,
};

static const peer_fn peer_steps[RAFT_MSG_COUNT] = {
    [RAFT_MSG_APP_RESP] = peer_append_resp,     [RAFT_MSG_HEARTBEAT_RESP] = peer_heartbeat_resp,
    [RAFT_MSG_SNAP_STATUS] = peer_snap_status,  [RAFT_MSG_UNREACHABLE] = peer_unreachable,
    [RAFT_MSG_TRANSFER_LEADER] = peer_transfer,
};

int raft__step_leader(struct raft *r, const struct raft_message *m)
{
    ASSERT(r->state == RAFT_LEADER);
    leader_fn fn = leader_steps[m->type];
    if (fn != NULL) return fn(r, m);
    peer_fn peer = peer_steps[m->type];
    if (peer == NULL) return 0;
    struct raft__progress *pr = raft__tracker_find(&r->trk, m->from);
    if (pr == NULL) {
        raft__log_line(r, LOG_DEBUG, "%" PRIx64 " no progress available for %" PRIx64, r->opts.id,
                       m->from);
        return 0;
    }
    peer(r, pr, m);
    return 0;
}
