/* One member as a state machine: inputs in, ordered outputs out.
 *
 * It has two halves, which run as two actors and share nothing but what is said here. The raft half
 * (node/node_raft.h) turns requests into log entries and knows who leads. The apply half
 * (node/node_apply.h) turns committed entries into changes and answers. They exchange values, "notes", in
 * order. Neither touches disk, network, clock or thread: a driver does what the outputs say, in their order, and feeds
 * back what became of it. So equal inputs give equal outputs, in the server and in simulation.
 *
 *      io threads -> raft half:   propose, read, cancel, message, tick
 *      raft half  -> WAL thread:  PERSIST;   back: node_raft_persisted(seq), in order
 *      raft half  -> peers:       SEND
 *      raft half  -> apply half:  NOTE;      back: NOTE
 *      apply half -> backend:     COMMIT;    back: node_apply_committed()
 *      apply half -> worker:      COMPACT, SNAPSHOT;   back: ..._portion(), ..._snapshot_done()
 *      either     -> io threads:  REPLY
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/errmsg.h"
#include "base/list.h"
#include "base/log.h"
#include "base/rcbuf.h"
#include "membership/membership.h"
#include "raft/raft.h"

/* --- request ids (disk-format.md 7) ---------------------------------------------------------------- */

struct node_ids {
    uint64_t high; /* low 16 bits of the member id, shifted up */
    _Atomic uint64_t low;
};

/* `start_ms`: Unix time at process start. */
void node_ids_init(struct node_ids *ids, uint64_t member_id, uint64_t start_ms);
/* A new id; never 0. Any thread. */
uint64_t node_ids_next(struct node_ids *ids);

/* --- who waits -------------------------------------------------------------------------------------- */

/* Embedded in the caller's request. From node_raft_propose()/node_raft_read() returning 0 until it comes back in a
 * REPLY it belongs to node; it comes back exactly once. */
struct node_waiter {
    struct list link;    /* node's */
    uint64_t request_id; /* set by the caller: node_ids_next() */
    int64_t start_ns;    /* node's: when it came in */
    bool no_limit; /* set by the caller: only the client's own deadline ends it (conf changes) */
    bool read;     /* node's */
    raft_index read_index;     /* node's: what must be applied, or noted, before the answer */
    struct apply_result *held; /* node's: an answer that something else must come before */
};

/* An answer. `error` 0: for a read, it may be served now from a view of this moment; for a proposal, `result` has
 * it (apply_result_free()). With an error there may be a result too: its error is then the same. */
struct node_reply {
    struct node_waiter *waiter;
    int error;
    struct apply_result *result; /* given; NULL for reads */
};

/* --- notes between the halves ---------------------------------------------------------------------- */

enum node_to_apply_kind {
    NODE_SPAN,      /* committed and stable entries, to be applied in order */
    NODE_REGISTER,  /* who waits for a request; comes before its entry can */
    NODE_CANCEL,    /* nobody waits any more */
    NODE_LEADER,    /* this member leads `term` */
    NODE_LOST,      /* and does no more */
    NODE_LEAD,      /* who leads, for errors: `lead` */
    NODE_READ_OK,   /* these may read once `index` is applied */
    NODE_CONF_DONE, /* raft has switched: `conf` */
    NODE_NOTED,     /* raft knows that `index` is applied */
    NODE_STOPPING   /* answer everybody, commit, stop */
};

struct node_to_apply {
    enum node_to_apply_kind kind;
    raft_index index; /* READ_OK, NOTED; SPAN: the WAL's durable index, >= its last entry */
    raft_term term;   /* LEADER, LOST */
    uint64_t id;      /* CANCEL: request id; LEAD: member */
    int error;        /* CANCEL: what to answer */
    struct raft_entry *entries; /* SPAN: given */
    size_t entry_count;         /* SPAN */
    struct node_waiter
        *waiter;  /* REGISTER; READ_OK: the first of a chain by link.next, ended by NULL */
    bool confirm; /* READ_OK: answers NODE_CONFIRM */
    struct raft_conf_state *conf; /* CONF_DONE: given */
};

enum node_to_raft_kind {
    NODE_APPLIED,     /* everything up to `index` is sealed */
    NODE_CONF_CHANGE, /* apply stands at `index`: switch, answer CONF_DONE */
    NODE_PROPOSE,     /* a request of the member itself: `data` */
    NODE_CONFIRM,     /* is this member still the leader? answer READ_OK with confirm */
    NODE_COMPACT_LOG  /* drop the log up to `index`; members that need older are sent a snapshot */
};

struct node_to_raft {
    enum node_to_raft_kind kind;
    raft_index index;
    bool ack;                     /* APPLIED: answer with NOTED */
    struct rcbuf *data;           /* PROPOSE: given */
    struct raft_conf_single conf; /* CONF_CHANGE: as raft must see it */
    raft_index snapshot_index;    /* COMPACT_LOG: what a snapshot made now would be of */
};

/* Gives back what a note holds. */
void node_to_apply_deinit(struct node_to_apply *n, const struct alloc *alloc);
void node_to_raft_deinit(struct node_to_raft *n);

/* --- what other threads may look at ----------------------------------------------------------------- */

struct node_status {
    _Atomic uint64_t term;
    _Atomic uint64_t lead; /* 0: unknown */
    _Atomic uint64_t commit;
    _Atomic uint64_t applied; /* sealed and published */
    _Atomic bool leader;
    _Atomic bool learner;
    /* A linearizable read needs no round. To be read after the view was taken (design: linearizable reads). */
    _Atomic bool reads_alone;
    _Atomic bool stopped;
};

/* --- start ------------------------------------------------------------------------------------------ */

/* The first entries of a new cluster: one AddNode per member, ascending id, term 1, index 1..n
 * (walkthroughs.md 1). Gives an array (raft_entries_free()). Errors: E_NOMEM. */
int node_first_entries(const struct alloc *alloc, const struct member *members, size_t n,
                       struct raft_entry **out);

/* The configuration that a member table stands for. Errors: E_TOOBIG more than RAFT_MEMBERS_MAX. */
int node_conf_of_members(const struct membership *m, struct raft_conf_state *out);

/* What disk says at a restart. Borrowed. */
struct node_disk_state {
    struct raft_hard_state hard_state;
    raft_index snapshot_index; /* where the log begins */
    raft_term snapshot_term;
    const struct raft_entry *entries;
    size_t entry_count;
    raft_index consistent_index;        /* of the store */
    const struct raft_conf_state *conf; /* of the store's members */
};

/* What raft starts from: commit := max(commit, min(consistent index, last)), for commit is not synced.
 * Errors: E_CORRUPT the log ends before the store's consistent index; `em` names both. */
int node_restore(const struct node_disk_state *disk, struct raft_restored *out, struct errmsg *em);

#endif
