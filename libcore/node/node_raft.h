/* The raft half: requests into log entries, rounds of reads, and who leads.
 *
 * A driver calls inputs, then takes all outputs: `while (node_raft_take(n, &o) > 0) ...`. Requests given between two such
 * loops are proposed together, as one write.
 *
 * Memory: an input that returns E_NOMEM did nothing; work inside that finds no memory stays where it is and is tried
 * again at the next loop. Thread: one at a time for everything here (the raft actor), but node_status. */
#ifndef NODE_NODE_RAFT_H
#define NODE_NODE_RAFT_H

#include "node/node.h"

struct node_raft;

struct node_raft_opts {
    raft_id id;
    uint32_t election_ticks; /* E / H */
    int64_t tick_ns;         /* H */
    int64_t timeout_ns;      /* T; 0: 5 s + 2 E */
    bool pre_vote;
    uint64_t seed;
    struct node_ids *ids; /* borrowed for life; shared */
    struct node_status
        *status; /* borrowed for life; written here, and `applied` by the apply half */
    const struct alloc *alloc; /* usable from any thread */
    const struct log *log;
};

/* A new member (`first` entries, from node_first_entries()) or one that restarts (none). Borrows all but what `opts` says.
 * Errors: E_NOMEM, E_CORRUPT. */
int node_raft_new(const struct node_raft_opts *opts, const struct raft_restored *restored,
                  const struct raft_entry *first, size_t first_count, struct node_raft **out,
                  struct errmsg *em);
/* No waiter may be inside (node_raft_stop() and take all outputs). */
void node_raft_free(struct node_raft *n);

/* --- inputs: 0 means taken, an answer follows --------------------------------------------------------- */

/* To be called every `tick_ns`; `now_ns` is monotonic. */
int node_raft_tick(struct node_raft *n, int64_t now_ns);

enum node_request_kind { NODE_REQUEST_NORMAL, NODE_REQUEST_LEASE_REVOKE, NODE_REQUEST_CONF_CHANGE };

struct node_request {
    enum node_request_kind kind;
    struct rcbuf *data; /* a marshalled InternalRaftRequest or ConfChange; a reference is taken */
    struct node_waiter *waiter; /* lent until its REPLY */
};

/* Errors (the waiter is still the caller's): E_TOO_MANY_REQUESTS, E_STOPPED, E_NOMEM. */
int node_raft_propose(struct node_raft *n, const struct node_request *req);

/* A linearizable read. Errors: E_TOO_MANY_REQUESTS, E_STOPPED. */
int node_raft_read(struct node_raft *n, struct node_waiter *waiter);

/* Ends the wait for a request, if it is not answered yet, with `error` (E_CANCELED, E_DEADLINE_EXCEEDED).
 * Errors: E_NOMEM. */
int node_raft_cancel(struct node_raft *n, uint64_t request_id, int error);

/* --initial-election-tick-advance: the next election comes `ticks` sooner, but not now. */
void node_raft_advance(struct node_raft *n, uint32_t ticks);

/* A message of another member; borrowed. Errors as raft_step(). */
int node_raft_message(struct node_raft *n, const struct raft_message *m);
void node_raft_unreachable(struct node_raft *n, raft_id id);
void node_raft_snapshot_sent(struct node_raft *n, raft_id id, bool ok);
int node_raft_transfer(struct node_raft *n, raft_id to);

/* All PERSISTs up to `seq` are done: written, and synced where that was asked for. In order. Errors: E_NOMEM. */
int node_raft_persisted(struct node_raft *n, uint64_t seq);

/* From the apply half; takes what the note holds. Errors: E_NOMEM (nothing was taken). */
int node_raft_note(struct node_raft *n, struct node_to_raft *note);

/* Answers all that wait here with E_STOPPED, and tells the apply half. Errors: E_NOMEM. */
int node_raft_stop(struct node_raft *n);

/* --- outputs ------------------------------------------------------------------------------------------ */

enum node_raft_output_kind {
    NODE_RAFT_PERSIST,
    NODE_RAFT_SEND,
    NODE_RAFT_NOTE,
    NODE_RAFT_REPLY,
    NODE_RAFT_FATAL
};

/* To be written as one group: the snapshot's .snap file and WAL record first, then the entries, then the hard state if it
 * is not all zero. Arrays and references are given. */
struct node_persist {
    uint64_t seq;
    struct raft_entry *entries;
    size_t entry_count;
    struct raft_hard_state hard_state;
    struct raft_snapshot *snapshot; /* NULL: none */
    bool must_sync;
};

struct node_raft_output {
    enum node_raft_output_kind kind;
    union {
        struct node_persist persist;
        struct raft_message message; /* SEND: given */
        struct node_to_apply note;   /* given */
        struct node_reply reply;
        struct errmsg
            *fatal; /* borrowed for the life of the half: end the process with this line */
    } u;
};

/* Gives the next output: 1, or 0 when there is nothing to do. */
int node_raft_take(struct node_raft *n, struct node_raft_output *out);

void node_persist_deinit(struct node_persist *p, const struct alloc *alloc);

/* For tests and the simulator. */
const struct raft *node_raft_core(const struct node_raft *n);

#endif
