/* Inside of the apply half. */
#ifndef NODE_APPLY_INT_H
#define NODE_APPLY_INT_H

#include "base/map.h"
#include "etcdserverpb.pb-c.h"
#include "lease/lease.h"
#include "node/node_apply.h"
#include "node/node_int.h"
#include "node/node_lease.h"

/* How often expired leases are looked for, as upstream. */
#define NODE__LEASE_SCAN_NS INT64_C(500000000)
/* Revocations under way at once, as upstream. */
#define NODE__REVOKES_MAX 16
/* How often the leader looks at the cluster's version, as upstream. */
#define NODE__VERSION_CHECK_NS INT64_C(4000000000)
/* The log in memory is cut every so many entries, as upstream. */
#define NODE__COMPACT_LOG_ENTRIES 100
/* Keys pruned, leases promoted in one go between entries. */
#define NODE__SLICE_STEPS 256
/* Outputs that one entry, or one small step, makes at most. */
#define NODE__OUTPUTS_PER_STEP 8

struct node__span {
    struct raft_entry *entries;
    size_t count;
    size_t at; /* the next one to be applied */
};

/* A disk snapshot on its way. */
struct node__snapshot {
    raft_index index; /* 0: none */
    raft_term term;
    struct raft_conf_state *conf;
    struct membership *members;
    bool handed_out;
};

/* A revocation that was proposed. */
struct node__revoke {
    uint64_t request_id;
    int64_t due_ns; /* its proposal counts as lost from then */
};

/* What has run out: those that the last scan found, and those of them that are under way. */
struct node__revokes {
    lease_id ids[LEASE_EXPIRED_PER_SCAN_MAX];
    size_t at, count;
    struct node__revoke flight[NODE__REVOKES_MAX];
    size_t flying;
    uint64_t done_total;
};

/* What questions about leases wait for, as it was when they were last looked at. */
struct node__lease_sight {
    raft_index applied;
    int64_t tick_ns;
    raft_id lead;
    bool primary, unconfirmed, stopping;
};

struct node_apply {
    struct node_apply_opts opts;
    const struct alloc *alloc;
    struct apply *core;
    struct mvcc *mvcc;
    struct lease_table *leases;
    int64_t now_ns;
    int64_t tick_last_ns;
    int64_t timeout_ns;

    /* Queues: taken at head, put at n. */
    struct node_apply_output *out;
    size_t out_head, out_n, out_cap;
    struct node__span *spans;
    size_t span_head, span_n, span_cap;

    /* The entry in progress. */
    bool entry_open;
    bool conf_wait; /* raft is asked to switch */
    bool paused;    /* both runs are full: nothing until a commit is done */
    raft_index applied;
    raft_index applied_told;
    bool applied_ack; /* the next APPLIED asks to be noted */
    raft_index wal_durable;

    /* Who waits. */
    struct map_u64 waiters; /* request id -> waiter */
    struct list limited;    /* of those, with T, in order of start */
    struct list unlimited;  /* and without */
    struct list reads;      /* ascending `read_index` */
    struct list noted;      /* conf changes, until raft has noted them */
    struct list compacting; /* physical compactions, until they have run */

    /* Leadership. */
    raft_term lead_term; /* 0: this member does not lead */
    bool primary;        /* leases are promoted or being promoted */
    bool promoting;
    bool unconfirmed;     /* it may have lost the lead while it did not tick */
    int64_t confirmed_ns; /* when it last heard that it has not */
    int64_t lead_elected_ns;
    raft_id lead;

    /* Commits. */
    bool commit_open;
    bool commit_wanted;
    int64_t dirty_since_ns; /* -1: nothing but index and term to commit */
    uint64_t entries_uncommitted;
    raft_index durable;

    /* Compaction. */
    struct mvcc_compact *job;
    bool job_listing; /* lent to a worker */
    bool job_listed;  /* its last portion is here or committed */
    bool job_pruned;
    bool job_durable;
    struct mvcc_portion *portion; /* listed, not committed yet */
    bool portion_open;            /* in the open commit */

    /* Snapshots. */
    raft_index snapshot_last;
    bool snapshot_forced;
    struct node__snapshot snapshot;
    raft_index log_compact_last;

    /* The member's own requests. */
    uint64_t publish_id;
    int64_t publish_due_ns;
    bool published;
    int64_t version_due_ns;
    uint64_t version_id; /* of the one proposed, 0: none */
    int64_t lease_due_ns;
    bool nospace_wanted;

    /* Leases. */
    struct node__revokes revokes;
    struct list questions; /* to be looked at */
    struct list waiting;   /* until `sight` changes */
    struct list answers;
    struct node__lease_sight sight;

    bool stopping;
    bool stopped_told;
    bool fatal_told;
    struct errmsg fatal; /* "": none */
};

/* Outputs. node__apply_out() needs room. */
int node__apply_reserve(struct node_apply *n, size_t more);
void node__apply_out(struct node_apply *n, struct node_apply_output o);
void node__apply_note(struct node_apply *n, struct node_to_raft note);
void node__apply_reply(struct node_apply *n, struct node_waiter *w, int error,
                       struct apply_result *result);

/* Waiters. */
bool node__waits(void *arg, uint64_t request_id);
void node__register(struct node_apply *n, struct node_waiter *w);
struct node_waiter *node__unregister(struct node_apply *n, uint64_t request_id);
void node__cancel(struct node_apply *n, uint64_t request_id, int error);
void node__reads_wait(struct node_apply *n, struct node_waiter *chain, raft_index index);
void node__reads_release(struct node_apply *n);
void node__expire(struct node_apply *n);
void node__answer_all(struct node_apply *n, int error);
/* Keeps the answer until `list`'s condition; node__answer_list() gives it. */
void node__hold(struct list *list, struct node_waiter *w, struct apply_result *result);
void node__answer_list(struct node_apply *n, struct list *list);
void node__answer_noted(struct node_apply *n, raft_index index);

/* Commits, compaction, snapshots. */
void node__sealed(struct node_apply *n, const struct apply_output *out);
void node__commit_step(struct node_apply *n);
bool node__background_step(struct node_apply *n); /* true: more to do now */
void node__snapshot_step(struct node_apply *n);
void node__compact_log_step(struct node_apply *n);

/* The member's own requests. */
void node__own_start(struct node_apply *n);
void node__own_tick(struct node_apply *n);
void node__own_applied(struct node_apply *n, const struct apply_output *out);
/* Marshals and hands to the raft half, with a header of its own. Returns the request's id, 0 without memory. */
uint64_t node__propose(struct node_apply *n, Etcdserverpb__InternalRaftRequest *req);
/* Proposes {ACTIVATE, own id, NOSPACE}; returns its request id, 0 without memory. */
uint64_t node__raise_nospace(struct node_apply *n);

/* Leases. The first two on a leader only. */
void node__lease_tick(struct node_apply *n, int64_t gap_ns);
void node__lease_applied(struct node_apply *n, uint64_t request_id);
void node__lease_lost(struct node_apply *n);
bool node__lease_answer(struct node_apply *n); /* true: more to do now */

#endif
