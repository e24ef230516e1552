/* The apply half: committed entries into changes, answers, commits, snapshots.
 *
 * A driver gives notes and feedback, calls node_apply_run() while it asks for more, and takes all outputs. A run is
 * short, so that a tick, a read or a change of leader between two of them never waits for a large entry.
 *
 * When the backend commits (design, rules 4 and 5): a change starts a timer of `commit_interval_ns`; half of a run's
 * limit, a scheduled compaction, a snapshot, a stop and node_apply_flush() commit at once; index and term alone wait for
 * the next commit. No commit is above the WAL's durable index.
 *
 * Thread: one at a time (the apply actor), but node_status. */
#ifndef NODE_NODE_APPLY_H
#define NODE_NODE_APPLY_H

#include "apply/apply.h"
#include "mvcc/compact.h"
#include "node/node.h"

struct node_apply;

struct node_apply_opts {
    /* `waits` and `waits_arg` are set here; the rest as apply.h says. */
    struct apply_config apply;
    int64_t tick_ns;            /* H */
    int64_t timeout_ns;         /* T; 0: 5 s + 2 E */
    uint32_t election_ticks;    /* E / H */
    int64_t commit_interval_ns; /* --backend-batch-interval */
    uint64_t commit_limit;      /* --backend-batch-limit; 0: none */
    size_t run_bytes_max;       /* of mvcc; 0: RUN_BYTES_MAX */
    uint64_t snapshot_count;    /* --snapshot-count */
    uint64_t catchup_entries;   /* --snapshot-catchup-entries */
    raft_index snapshot_index;  /* of the newest snapshot record in the WAL */
    raft_index replay_index;    /* entries handed out begin behind this */
    bool ready;                 /* answer from the start: no publishing (tests) */
    struct bytes name;          /* published; borrowed for life */
    const struct bytes *client_urls;
    size_t client_url_count;
    struct node_ids *ids;
    struct node_status *status;
};

/* Errors: as apply_new(). */
int node_apply_new(const struct node_apply_opts *opts, const struct apply_start *start,
                   struct node_apply **out, struct errmsg *em);
void node_apply_free(struct node_apply *n);

/* --- inputs ------------------------------------------------------------------------------------------- */

/* From the raft half, in order; takes what the note holds. Errors: E_NOMEM (nothing was taken). */
int node_apply_note(struct node_apply *n, struct node_to_apply *note);

/* To be called every `tick_ns` and at node_apply_deadline(). */
void node_apply_tick(struct node_apply *n, int64_t now_ns);

/* Works on entries for at most `budget` steps; true when there is more to do now. */
bool node_apply_run(struct node_apply *n, int64_t now_ns, uint32_t budget);

/* A COMMIT is durable; `store_bytes` is the store's size then. The run and portion are node's again. */
void node_apply_committed(struct node_apply *n, struct mvcc_run *run, struct mvcc_portion *portion,
                          uint64_t store_bytes);

/* The backend had no space and tries again: raise NOSPACE, as rule 8 says. It need not be for a COMMIT: the store writes
 * rows of its own too, and may have found space before this is heard. */
void node_apply_no_space(struct node_apply *n);

/* What a COMPACT job listed; takes the portion. */
void node_apply_portion(struct node_apply *n, struct mvcc_portion *portion);

/* The .snap file and its WAL record for `index` are durable (or could not be made: false). */
void node_apply_snapshot_done(struct node_apply *n, raft_index index, bool ok);

/* Commit all that is applied now, with or without changes (before a hash, a snapshot stream, a defragmentation);
 * status of node_apply_durable() tells when. */
void node_apply_flush(struct node_apply *n);

/* --- outputs ------------------------------------------------------------------------------------------ */

enum node_apply_output_kind {
    NODE_APPLY_REPLY,
    NODE_APPLY_NOTE,
    NODE_APPLY_COMMIT,   /* one transaction: `run` (may be NULL), then `portion` (may be NULL) */
    NODE_APPLY_COMPACT,  /* list the next portion of `job` on a worker */
    NODE_APPLY_SNAPSHOT, /* write .snap and WAL record, release WAL segments below */
    NODE_APPLY_MEMBERS,  /* a new version; a reference is given */
    NODE_APPLY_ALARMS,   /* likewise */
    NODE_APPLY_PEER,     /* the transport has to add, update or remove a peer */
    NODE_APPLY_READY,    /* published: serve clients now */
    NODE_APPLY_STOPPED,  /* after NODE_STOPPING: all is answered and committed */
    NODE_APPLY_REMOVED,  /* this member was removed from the cluster: stop */
    NODE_APPLY_FATAL     /* end the process with this line */
};

struct node_apply_output {
    enum node_apply_output_kind kind;
    union {
        struct node_reply reply;
        struct node_to_raft note; /* given */
        struct {
            struct mvcc_run *run;
            struct mvcc_portion *portion;
        } commit;                 /* lent until node_apply_committed() */
        struct mvcc_compact *job; /* lent until node_apply_portion() */
        struct {
            raft_index index;
            raft_term term;
            struct raft_conf_state *conf; /* given: node_conf_free() */
            struct membership *members;   /* a reference is given */
        } snapshot;
        struct membership *members;
        struct alarms *alarms;
        struct {
            enum apply_peer_action action;
            uint64_t id;
        } peer;
        const struct errmsg *fatal; /* borrowed for the life of the half */
    } u;
};

/* Gives the next output: 1, or 0 when there is none now. */
int node_apply_take(struct node_apply *n, struct node_apply_output *out);

void node_conf_free(struct raft_conf_state *conf, const struct alloc *alloc);

/* --- state -------------------------------------------------------------------------------------------- */

/* When node_apply_tick() is next wanted; INT64_MAX: only with the next ordinary tick. */
int64_t node_apply_deadline(const struct node_apply *n);
/* Up to here the store is durable. */
raft_index node_apply_durable(const struct node_apply *n);
/* For apply's own accessors (members, alarms, quota). */
struct apply *node_apply_core(const struct node_apply *n);

#endif
