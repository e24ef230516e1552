/* Lives and texts of the values that cross raft's border. */
#include "raft/raft_types.h"

#include "base/assert.h"
#include "base/err.h"

int raft_entries_copy(const struct alloc *alloc, const struct raft_entry *src, size_t n,
                      struct raft_entry **out)
{
    ASSERT(n < SIZE_MAX / sizeof *src);
    if (n == 0) {
        *out = NULL;
        return 0;
    }
    struct raft_entry *v = alloc_new(alloc, n * sizeof *v);
    if (v == NULL) return E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        v[i] = src[i];
        (void)rcbuf_ref(v[i].data);
    }
    *out = v;
    return 0;
}

void raft_entries_free(const struct alloc *alloc, struct raft_entry *entries, size_t n)
{
    ASSERT(entries != NULL || n == 0);
    for (size_t i = 0; i < n; i++)
        rcbuf_unref(entries[i].data);
    alloc_free(alloc, entries, n * sizeof *entries);
}

static void snapshot_free(const struct alloc *alloc, struct raft_snapshot *s)
{
    if (s == NULL) return;
    rcbuf_unref(s->data);
    alloc_free(alloc, s, sizeof *s);
}

void raft_message_deinit(struct raft_message *m, const struct alloc *alloc)
{
    ASSERT(m != NULL && alloc != NULL);
    raft_entries_free(alloc, m->entries, m->entry_count);
    snapshot_free(alloc, m->snapshot);
    *m = (struct raft_message){0};
}

static size_t varint_bytes(uint64_t v)
{
    size_t n = 1;
    for (; v >= 0x80; v >>= 7)
        n++;
    return n;
}

size_t raft_entry_bytes(const struct raft_entry *e)
{
    ASSERT(e != NULL);
    size_t n = 2 + varint_bytes(e->term) + varint_bytes(e->index);
    if (e->type != RAFT_ENTRY_NORMAL) n += 2;
    if (e->data != NULL) n += 1 + varint_bytes(e->data->len) + e->data->len;
    return n;
}

static bool ids_eq(const raft_id *a, uint32_t an, const raft_id *b, uint32_t bn)
{
    return an == bn && (an == 0 || memcmp(a, b, an * sizeof *a) == 0);
}

bool raft_conf_state_eq(const struct raft_conf_state *a, const struct raft_conf_state *b)
{
    ASSERT(a != NULL && b != NULL);
    return ids_eq(a->voters, a->voter_count, b->voters, b->voter_count) &&
           ids_eq(a->learners, a->learner_count, b->learners, b->learner_count) &&
           ids_eq(a->voters_outgoing, a->voter_outgoing_count, b->voters_outgoing,
                  b->voter_outgoing_count) &&
           ids_eq(a->learners_next, a->learner_next_count, b->learners_next,
                  b->learner_next_count) &&
           a->auto_leave == b->auto_leave;
}

const char *raft_message_name(enum raft_message_type type)
{
    static const char *const names[RAFT_MSG_COUNT] = {
        [RAFT_MSG_HUP] = "MsgHup",
        [RAFT_MSG_BEAT] = "MsgBeat",
        [RAFT_MSG_PROP] = "MsgProp",
        [RAFT_MSG_APP] = "MsgApp",
        [RAFT_MSG_APP_RESP] = "MsgAppResp",
        [RAFT_MSG_VOTE] = "MsgVote",
        [RAFT_MSG_VOTE_RESP] = "MsgVoteResp",
        [RAFT_MSG_SNAP] = "MsgSnap",
        [RAFT_MSG_HEARTBEAT] = "MsgHeartbeat",
        [RAFT_MSG_HEARTBEAT_RESP] = "MsgHeartbeatResp",
        [RAFT_MSG_UNREACHABLE] = "MsgUnreachable",
        [RAFT_MSG_SNAP_STATUS] = "MsgSnapStatus",
        [RAFT_MSG_CHECK_QUORUM] = "MsgCheckQuorum",
        [RAFT_MSG_TRANSFER_LEADER] = "MsgTransferLeader",
        [RAFT_MSG_TIMEOUT_NOW] = "MsgTimeoutNow",
        [RAFT_MSG_READ_INDEX] = "MsgReadIndex",
        [RAFT_MSG_READ_INDEX_RESP] = "MsgReadIndexResp",
        [RAFT_MSG_PRE_VOTE] = "MsgPreVote",
        [RAFT_MSG_PRE_VOTE_RESP] = "MsgPreVoteResp",
        [RAFT_MSG_STORAGE_APPEND] = "MsgStorageAppend",
        [RAFT_MSG_STORAGE_APPEND_RESP] = "MsgStorageAppendResp",
        [RAFT_MSG_STORAGE_APPLY] = "MsgStorageApply",
        [RAFT_MSG_STORAGE_APPLY_RESP] = "MsgStorageApplyResp",
        [RAFT_MSG_FORGET_LEADER] = "MsgForgetLeader",
    };
    ASSERT((unsigned)type < RAFT_MSG_COUNT);
    return names[type];
}
