/* Values of raft as text: nothing but formats. */
#include "describe.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void *heap_resize(void *arg, void *old, size_t old_bytes, size_t new_bytes)
{
    if (new_bytes == 0) {
        free(old);
        return NULL;
    }
    void *p = realloc(old, new_bytes);
    if (p == NULL) abort();
    return p;
}

const struct alloc scenario_heap = {heap_resize, NULL};

void packet_deinit(struct packet *p)
{
    raft_message_deinit(&p->message, &scenario_heap);
    raft_messages_free(&scenario_heap, p->responses, p->response_count);
    *p = (struct packet){0};
}

static void put_quoted(struct buf *out, struct bytes s)
{
    (void)buf_put_u8(out, '"');
    for (size_t i = 0; i < s.len; i++) {
        uint8_t c = s.data[i];
        if (c == '"' || c == '\\')
            (void)buf_printf(out, "\\%c", c);
        else if (c == '\n')
            (void)buf_put_str(out, "\\n");
        else if (c == '\t')
            (void)buf_put_str(out, "\\t");
        else if (c < 0x80 && isprint(c))
            (void)buf_put_u8(out, c);
        else
            (void)buf_printf(out, "\\x%02x", c);
    }
    (void)buf_put_u8(out, '"');
}

static void put_change(struct buf *out, const struct raft_entry *e)
{
    static const char letters[] = {[RAFT_CONF_ADD_NODE] = 'v',
                                   [RAFT_CONF_REMOVE_NODE] = 'r',
                                   [RAFT_CONF_UPDATE_NODE] = 'u',
                                   [RAFT_CONF_ADD_LEARNER] = 'l'};
    struct raft_conf_change cc;
    if (raft_conf_change_decode(e, &cc) < 0) {
        (void)buf_put_str(out, " malformed");
        return;
    }
    for (uint32_t i = 0; i < cc.change_count; i++)
        (void)buf_printf(out, " %c%" PRIu64, letters[cc.changes[i].type], cc.changes[i].node_id);
}

void describe_entry(struct buf *out, const struct raft_entry *e)
{
    static const char *const names[] = {[RAFT_ENTRY_NORMAL] = "EntryNormal",
                                        [RAFT_ENTRY_CONF_CHANGE] = "EntryConfChange",
                                        [RAFT_ENTRY_CONF_CHANGE_V2] = "EntryConfChangeV2"};
    (void)buf_printf(out, "%" PRIu64 "/%" PRIu64 " %s", e->term, e->index, names[e->type]);
    if (e->type != RAFT_ENTRY_NORMAL) {
        put_change(out, e);
        return;
    }
    (void)buf_put_u8(out, ' ');
    put_quoted(out, rcbuf_bytes(e->data));
}

void describe_entries(struct buf *out, const struct raft_entry *e, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        describe_entry(out, &e[i]);
        (void)buf_put_u8(out, '\n');
    }
}

void describe_hard_state(struct buf *out, struct raft_hard_state s)
{
    (void)buf_printf(out, "Term:%" PRIu64, s.term);
    if (s.vote != 0) (void)buf_printf(out, " Vote:%" PRIu64, s.vote);
    (void)buf_printf(out, " Commit:%" PRIu64, s.commit);
}

static void put_ids(struct buf *out, const char *name, const raft_id *ids, uint32_t n)
{
    (void)buf_printf(out, "%s:[", name);
    for (uint32_t i = 0; i < n; i++)
        (void)buf_printf(out, "%s%" PRIu64, i == 0 ? "" : " ", ids[i]);
    (void)buf_put_str(out, "] ");
}

void describe_snapshot(struct buf *out, const struct raft_snapshot_meta *s)
{
    const struct raft_conf_state *cs = &s->conf;
    (void)buf_printf(out, "Index:%" PRIu64 " Term:%" PRIu64 " ConfState:", s->index, s->term);
    put_ids(out, "Voters", cs->voters, cs->voter_count);
    put_ids(out, "VotersOutgoing", cs->voters_outgoing, cs->voter_outgoing_count);
    put_ids(out, "Learners", cs->learners, cs->learner_count);
    put_ids(out, "LearnersNext", cs->learners_next, cs->learner_next_count);
    (void)buf_printf(out, "AutoLeave:%s", cs->auto_leave ? "true" : "false");
}

static void put_target(struct buf *out, raft_id id)
{
    if (id == 0)
        (void)buf_put_str(out, "None");
    else if (id == RAFT_ID_APPEND_THREAD)
        (void)buf_put_str(out, "AppendThread");
    else if (id == RAFT_ID_APPLY_THREAD)
        (void)buf_put_str(out, "ApplyThread");
    else
        (void)buf_printf(out, "%" PRIx64, id);
}

static void put_message_entries(struct buf *out, const char *indent, const struct raft_message *m)
{
    if (m->entry_count == 0) return;
    (void)buf_put_str(out, " Entries:[");
    if (m->entry_count == 1) {
        describe_entry(out, &m->entries[0]);
    } else {
        for (size_t i = 0; i < m->entry_count; i++) {
            (void)buf_printf(out, "\n%s  ", indent);
            describe_entry(out, &m->entries[i]);
        }
        (void)buf_printf(out, "\n%s", indent);
    }
    (void)buf_put_u8(out, ']');
}

static void put_message(struct buf *out, const char *indent, const struct raft_message *m)
{
    (void)buf_put_str(out, indent);
    put_target(out, m->from);
    (void)buf_put_str(out, "->");
    put_target(out, m->to);
    (void)buf_printf(out, " %s Term:%" PRIu64 " Log:%" PRIu64 "/%" PRIu64,
                     raft_message_name(m->type), m->term, m->log_term, m->index);
    if (m->reject) (void)buf_printf(out, " Rejected (Hint: %" PRIu64 ")", m->reject_hint);
    if (m->commit != 0) (void)buf_printf(out, " Commit:%" PRIu64, m->commit);
    if (m->vote != 0) (void)buf_printf(out, " Vote:%" PRIu64, m->vote);
    put_message_entries(out, indent, m);
    if (m->snapshot == NULL) return;
    (void)buf_printf(out, "\n%s  Snapshot: ", indent);
    describe_snapshot(out, &m->snapshot->meta);
}

void describe_packet(struct buf *out, const struct packet *p)
{
    put_message(out, "", &p->message);
    if (p->response_count == 0) return;
    (void)buf_put_str(out, " Responses:[");
    for (size_t i = 0; i < p->response_count; i++) {
        (void)buf_put_u8(out, '\n');
        put_message(out, "  ", &p->responses[i]);
    }
    (void)buf_put_str(out, "\n]");
}

void describe_progress(struct buf *out, const struct raft_progress_status *p)
{
    static const char *const names[] = {[RAFT_PROBE] = "StateProbe",
                                        [RAFT_REPLICATE] = "StateReplicate",
                                        [RAFT_SNAPSHOT] = "StateSnapshot"};
    (void)buf_printf(out, "%" PRIu64 ": %s match=%" PRIu64 " next=%" PRIu64 "%s%s", p->id,
                     names[p->state], p->match, p->next, p->learner ? " learner" : "",
                     p->paused ? " paused" : "");
    if (p->pending_snapshot > 0)
        (void)buf_printf(out, " pendingSnap=%" PRIu64, p->pending_snapshot);
    if (!p->recent_active) (void)buf_put_str(out, " inactive");
    if (p->inflight_count > 0)
        (void)buf_printf(out, " inflight=%" PRIu32 "%s", p->inflight_count,
                         p->inflight_full ? "[full]" : "");
    (void)buf_put_u8(out, '\n');
}

const char *describe_state(enum raft_state s)
{
    static const char *const names[] = {[RAFT_FOLLOWER] = "StateFollower",
                                        [RAFT_CANDIDATE] = "StateCandidate",
                                        [RAFT_LEADER] = "StateLeader",
                                        [RAFT_PRE_CANDIDATE] = "StatePreCandidate"};
    return names[s];
}
