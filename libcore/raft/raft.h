/* Consensus: ticks, messages and proposals in; ordered obligations out.
 *
 * The algorithm is that of Ongaro and Ousterhout ("the paper") and of Ongaro's thesis, with the
 * extensions that upstream members use: pre-vote, check-quorum, read index, leadership transfer, learners,
 * joint configurations, asynchronous storage writes. One mode only: entries and hard state are handed
 * out to be written, and what depends on them (acknowledgements, votes) is handed out with them and let
 * go when they are on disk. The core writes nothing, reads no clock and draws only from its seed, so equal
 * inputs give equal outputs.
 *
 * A driver does, after each input or each few: `while (raft_has_work(r)) while (raft_take(r, &o) > 0) ...;`
 * and executes the obligations in the order they come. Persisted and applied come back later, in order.
 *
 * Memory: an input that returns E_NOMEM did nothing and may be given again. A message to another member for
 * which there is no memory is not made, as if the network had lost it; raft recovers from that.
 *
 * Thread: one at a time for everything here (the raft actor). */
#ifndef RAFT_RAFT_H
#define RAFT_RAFT_H

#include "base/errmsg.h"
#include "base/log.h"
#include "raft/raft_types.h"

struct raft;

/* Senders and receivers that are no members: the local storage. */
#define RAFT_ID_APPEND_THREAD UINT64_MAX
#define RAFT_ID_APPLY_THREAD  (UINT64_MAX - 1)

struct raft_opts {
    raft_id id;
    uint32_t election_tick; /* > heartbeat_tick; a follower waits this up to twice this, less one */
    uint32_t heartbeat_tick; /* > 0 */
    bool pre_vote;
    bool check_quorum;
    bool step_down_on_removal;        /* a leader that is removed becomes a follower */
    bool disable_proposal_forwarding; /* a follower drops proposals */
    bool disable_conf_change_checks;  /* scenario driver only */
    bool lease_based_reads;           /* needs check_quorum */
    bool apply_unstable;              /* scenario driver only: upstream's synchronous mode may apply
                                          entries that are committed but not yet stable here */
    size_t message_bytes_max;         /* entries in one append; 0: none but one entry each */
    uint32_t inflight_count_max;      /* appends under way to one follower, > 0 */
    size_t inflight_bytes_max;        /* 0: no limit */
    size_t uncommitted_bytes_max;     /* payload proposed but not yet applied; 0: no limit */
    size_t applying_bytes_max;        /* handed out to apply, not yet applied; 0: no limit */
    uint64_t seed;                    /* of the election timeouts */
    const struct alloc *alloc;        /* must outlive the raft and what it gave away */
    const struct log *log;            /* may be NULL */
};

/* What was on disk. The log begins behind the snapshot: entries are snapshot.index + 1, ... without a gap. */
struct raft_restored {
    struct raft_hard_state hard_state; /* all zero: none was written yet */
    struct raft_snapshot_meta
        snapshot;                     /* index and term 0 when there is none; conf is that of now */
    const struct raft_entry *entries; /* borrowed for raft_new(); references are taken */
    size_t entry_count;
    raft_index applied; /* entries behind it are handed out again; 0 counts as snapshot.index */
};

enum raft_state { RAFT_FOLLOWER, RAFT_CANDIDATE, RAFT_LEADER, RAFT_PRE_CANDIDATE };

struct raft_status {
    raft_id id;
    raft_id lead; /* 0: unknown */
    raft_id transferee;
    enum raft_state state;
    struct raft_hard_state hard_state;
    raft_index applied;
    raft_index stable; /* last entry known to be in the local WAL */
    raft_index first;  /* first entry still in memory */
    raft_index last;
};

enum raft_progress_state { RAFT_PROBE, RAFT_REPLICATE, RAFT_SNAPSHOT };

struct raft_progress_status {
    raft_id id;
    raft_index match;
    raft_index next;
    raft_index pending_snapshot;
    enum raft_progress_state state;
    bool learner;
    bool paused;
    bool recent_active;
    uint32_t inflight_count;
    bool inflight_full;
};

enum raft_obligation_kind {
    RAFT_SEND,    /* hand `message` to the network now; it may be lost */
    RAFT_PERSIST, /* write; when it is durable give `acks` to raft_persisted() */
    RAFT_APPLY,   /* apply `entries` in order, then raft_applied() (in one or several steps) */
    RAFT_READ_OK  /* the read with this context may be served once applied >= read.index */
};

struct raft_persist {
    struct raft_entry *entries; /* given: raft_entries_free() with the raft's allocator */
    size_t entry_count;
    struct raft_hard_state hard_state; /* all zero: unchanged since the last one */
    struct raft_snapshot
        *snapshot;  /* given (as a message's); NULL: none. Goes to disk before the entries */
    bool must_sync; /* false: a change of commit alone, or nothing to write */
    struct raft_message *acks; /* given: to raft_persisted() or raft_messages_free() */
    size_t ack_count;
};

struct raft_apply {
    struct raft_entry *entries; /* given: raft_entries_free() */
    size_t entry_count;
};

struct raft_read {
    raft_index index;
    struct rcbuf *context; /* given: one reference */
};

struct raft_obligation {
    enum raft_obligation_kind kind;
    union {
        struct raft_message message; /* given: raft_message_deinit() */
        struct raft_persist persist;
        struct raft_apply apply;
        struct raft_read read;
    } u;
};

/* Gives a new raft, a follower at the restored term. Errors: E_NOMEM; E_CORRUPT what was restored
 * contradicts itself (a gap, commit beyond the last entry, a conf state that cannot be), `em` says what. */
int raft_new(const struct raft_opts *opts, const struct raft_restored *restored, struct raft **out,
             struct errmsg *em);
void raft_free(struct raft *r);

/* First boot of a new cluster (walkthroughs.md 1): on a raft with an empty log, a conf state of all first
 * members and no hard state, appends their entries (term 1, index 1..n), which are committed by fiat: nobody
 * votes on them. Errors: E_NOMEM. */
int raft_bootstrap(struct raft *r, const struct raft_entry *entries, size_t n);

/* --- inputs -------------------------------------------------------------------------------------- */

/* One tick of the abstract clock. Errors: E_NOMEM. */
int raft_tick(struct raft *r);

/* Ticks `n` times without ever starting an election (upstream's fast-forward at start). */
void raft_skip_ticks(struct raft *r, uint32_t n);

/* A message from another member, or an acknowledgement addressed to ourselves. Borrows `m`.
 * Errors: E_NOMEM; E_INVAL a message that no member may send (ignored); E_NOTFOUND a response of somebody who
 * is no member; E_AGAIN a forwarded proposal was dropped. */
int raft_step(struct raft *r, const struct raft_message *m);

/* Proposes `n` > 0 entries; type and data are read, one reference each is taken. On a follower they are sent
 * to the leader. Errors: E_NOMEM; E_AGAIN no leader, a transfer is under way, or uncommitted_bytes_max. A conf
 * change that may not be proposed now is replaced by an empty entry, as upstream does. */
int raft_propose(struct raft *r, const struct raft_entry *entries, size_t n);

/* Starts an election unless leader, not a voter, or a committed conf change is not applied yet. */
int raft_campaign(struct raft *r);

/* Opens a read round; RAFT_READ_OK brings `context` back. Takes a reference. Nothing comes when there is no
 * leader: ask again. Errors: E_NOMEM, E_AGAIN (no leader known). */
int raft_read_index(struct raft *r, struct rcbuf *context);

int raft_transfer_leader(struct raft *r, raft_id to);
int raft_forget_leader(struct raft *r);
void raft_report_unreachable(struct raft *r, raft_id id);
void raft_report_snapshot(struct raft *r, raft_id id, bool ok);

/* What one RAFT_PERSIST asked for is durable. Takes `acks`: those to ourselves are stepped, the others are
 * handed out as RAFT_SEND. An acknowledgement of entries that were overwritten meanwhile has no effect.
 * Errors: E_NOMEM (nothing was taken). */
int raft_persisted(struct raft *r, struct raft_message *acks, size_t n);

/* Everything up to `index` is applied (sealed); index <= what was handed out. Errors: E_NOMEM. */
int raft_applied(struct raft *r, raft_index index);

/* Switches the configuration when its entry is applied; a change with node id 0 changes nothing.
 * `*out` is the configuration then in force. Errors: E_NOMEM; E_INVAL the change is impossible in the
 * current configuration, nothing changed, `em` says why. */
int raft_apply_conf_change(struct raft *r, const struct raft_conf_change *cc,
                           struct raft_conf_state *out, struct errmsg *em);

/* The snapshot that members too far behind are sent; `index` <= applied. Takes a reference of `data`.
 * Errors: E_NOMEM; E_NOTFOUND the log begins behind `index` (a snapshot was received meanwhile); nothing changed. */
int raft_set_snapshot(struct raft *r, raft_index index, const struct raft_conf_state *conf,
                      struct rcbuf *data);

/* Drops entries up to `index` <= min(applied, stable) from memory. */
void raft_compact(struct raft *r, raft_index index);

/* --- outputs ------------------------------------------------------------------------------------- */

bool raft_has_work(const struct raft *r);

/* Gives the next obligation of the current batch: 1; or 0 when the batch is complete (the next call begins a new
 * one). A batch is: SENDs, at most one PERSIST, at most one APPLY, READ_OKs. Errors: E_NOMEM, nothing was
 * taken. */
int raft_take(struct raft *r, struct raft_obligation *out);

void raft_messages_free(const struct alloc *alloc, struct raft_message *m, size_t n);
void raft_obligation_deinit(struct raft_obligation *o, const struct alloc *alloc);

/* --- state --------------------------------------------------------------------------------------- */

void raft_status(const struct raft *r, struct raft_status *out);
const struct raft_conf_state *raft_conf(const struct raft *r); /* borrowed until the next input */
/* Errors: E_NOTFOUND. */
int raft_progress(const struct raft *r, raft_id id, struct raft_progress_status *out);
/* Term of an entry in memory or just before it; 0 when unknown. */
raft_term raft_term_of(const struct raft *r, raft_index index);
/* Entries lo <= index < hi that are still in memory; borrowed until the next input. NULL when not all are. */
const struct raft_entry *raft_entries(const struct raft *r, raft_index lo, raft_index hi);

/* True while a read needs no round (design: linearizable reads): leader, an entry of its own term is applied,
 * and the applied and every pending configuration has this member as the one voter. */
bool raft_reads_alone(const struct raft *r);

/* Sole voter of the configuration in force. */
bool raft_is_sole_voter(const struct raft *r);

/* Overrides the randomized election timeout until the next change of state (scenario driver). */
void raft_set_election_timeout(struct raft *r, uint32_t ticks);

#endif
