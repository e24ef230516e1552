/* The values that raft, the WAL, peers and apply hand to each other.
 *
 * Names, numbers and fields are those of upstream's raftpb (disk-format.md 4), as plain structs. The
 * bytes of an entry are one immutable shared buffer: whoever keeps an entry keeps one reference. */
#ifndef RAFT_TYPES_H
#define RAFT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/rcbuf.h"

typedef uint64_t raft_index; /* 0: none; the first entry has 1 */
typedef uint64_t raft_term;
typedef uint64_t raft_id; /* 0: nobody */

enum {
    RAFT_MEMBERS_MAX = 64,      /* per list of a configuration; upstream advises 7 */
    RAFT_CONF_CHANGES_MAX = 32, /* single changes in one ConfChangeV2 */
    RAFT_CONTEXT_BYTES_MAX = 64 /* of a message; upstream's are 0, 8 or 16 bytes */
};

enum raft_entry_type {
    RAFT_ENTRY_NORMAL = 0,
    RAFT_ENTRY_CONF_CHANGE = 1,
    RAFT_ENTRY_CONF_CHANGE_V2 = 2
};

struct raft_entry {
    raft_term term;
    raft_index index;
    enum raft_entry_type type;
    struct rcbuf *data; /* NULL: no data (a new leader's no-op) */
};

struct raft_hard_state {
    raft_term term;
    raft_id vote;
    raft_index commit;
};

/* A configuration; each list ascends. Joint while voters_outgoing is not empty. */
struct raft_conf_state {
    raft_id voters[RAFT_MEMBERS_MAX];
    raft_id learners[RAFT_MEMBERS_MAX];
    raft_id voters_outgoing[RAFT_MEMBERS_MAX];
    raft_id learners_next[RAFT_MEMBERS_MAX];
    uint32_t voter_count;
    uint32_t learner_count;
    uint32_t voter_outgoing_count;
    uint32_t learner_next_count;
    bool auto_leave;
};

struct raft_snapshot_meta {
    raft_index index;
    raft_term term;
    struct raft_conf_state conf;
};

struct raft_snapshot {
    struct raft_snapshot_meta meta;
    struct rcbuf *data; /* the membership JSON of disk-format.md 3.1; may be NULL */
};

enum raft_conf_change_type {
    RAFT_CONF_ADD_NODE = 0,
    RAFT_CONF_REMOVE_NODE = 1,
    RAFT_CONF_UPDATE_NODE = 2,
    RAFT_CONF_ADD_LEARNER = 3
};

enum raft_conf_transition {
    RAFT_CONF_AUTO = 0,
    RAFT_CONF_JOINT_IMPLICIT = 1,
    RAFT_CONF_JOINT_EXPLICIT = 2
};

struct raft_conf_single {
    enum raft_conf_change_type type;
    raft_id node_id; /* 0: a refused change, without effect */
};

/* What raft needs of a ConfChange or ConfChangeV2. One change and RAFT_CONF_AUTO is a simple one; no change
 * at all leaves a joint configuration. */
struct raft_conf_change {
    enum raft_conf_transition transition;
    struct raft_conf_single changes[RAFT_CONF_CHANGES_MAX];
    uint32_t change_count;
};

enum raft_message_type {
    RAFT_MSG_HUP = 0,
    RAFT_MSG_BEAT = 1,
    RAFT_MSG_PROP = 2,
    RAFT_MSG_APP = 3,
    RAFT_MSG_APP_RESP = 4,
    RAFT_MSG_VOTE = 5,
    RAFT_MSG_VOTE_RESP = 6,
    RAFT_MSG_SNAP = 7,
    RAFT_MSG_HEARTBEAT = 8,
    RAFT_MSG_HEARTBEAT_RESP = 9,
    RAFT_MSG_UNREACHABLE = 10,
    RAFT_MSG_SNAP_STATUS = 11,
    RAFT_MSG_CHECK_QUORUM = 12,
    RAFT_MSG_TRANSFER_LEADER = 13,
    RAFT_MSG_TIMEOUT_NOW = 14,
    RAFT_MSG_READ_INDEX = 15,
    RAFT_MSG_READ_INDEX_RESP = 16,
    RAFT_MSG_PRE_VOTE = 17,
    RAFT_MSG_PRE_VOTE_RESP = 18,
    RAFT_MSG_STORAGE_APPEND = 19,
    RAFT_MSG_STORAGE_APPEND_RESP = 20,
    RAFT_MSG_STORAGE_APPLY = 21,
    RAFT_MSG_STORAGE_APPLY_RESP = 22,
    RAFT_MSG_FORGET_LEADER = 23,
    RAFT_MSG_COUNT
};

/* One message between members. `entries` is an array of the maker's allocator, each with a reference;
 * raft_message_deinit() gives all back. */
struct raft_message {
    enum raft_message_type type;
    raft_id to;
    raft_id from;
    raft_term term;
    raft_term log_term;
    raft_index index;
    raft_index commit;
    raft_index reject_hint;
    raft_id vote;
    bool reject;
    uint8_t context_len; /* 0: absent */
    uint8_t context[RAFT_CONTEXT_BYTES_MAX];
    struct raft_entry *entries;
    size_t entry_count;
    struct raft_snapshot *snapshot; /* NULL but for RAFT_MSG_SNAP */
};

/* Gives back entries and snapshot, and makes the message empty. `alloc`: its maker's. Any thread that owns
 * the message. */
void raft_message_deinit(struct raft_message *m, const struct alloc *alloc);

/* Copies `n` entries into a new array of `alloc`, each with one more reference; NULL when n is 0.
 * Errors: E_NOMEM. */
int raft_entries_copy(const struct alloc *alloc, const struct raft_entry *src, size_t n,
                      struct raft_entry **out);
/* Gives the array and its references back. */
void raft_entries_free(const struct alloc *alloc, struct raft_entry *entries, size_t n);

/* The size of an entry as upstream's size limits count it: its protobuf form of 3.7. */
size_t raft_entry_bytes(const struct raft_entry *e);

/* What raft needs of a ConfChange or ConfChangeV2 entry; no data at all is an empty V2. Errors: E_PROTO it is no
 * conf change or malformed; E_TOOBIG more than RAFT_CONF_CHANGES_MAX changes. */
int raft_conf_change_decode(const struct raft_entry *e, struct raft_conf_change *out);

static inline bool raft_hard_state_eq(struct raft_hard_state a, struct raft_hard_state b)
{
    return a.term == b.term && a.vote == b.vote && a.commit == b.commit;
}

static inline bool raft_hard_state_empty(struct raft_hard_state s)
{
    return s.term == 0 && s.vote == 0 && s.commit == 0;
}

bool raft_conf_state_eq(const struct raft_conf_state *a, const struct raft_conf_state *b);

/* "MsgApp", ...; static storage. */
const char *raft_message_name(enum raft_message_type type);

#endif
