/* Committed entries in, changes and replies out: the only writer of ring 1's tables.
 *
 * One entry is one unit. It is executed against the tables, its rows go into the filling run of
 * mvcc, and at its end they are sealed together with its index and term: what is not sealed exists
 * for nobody. Work is cut into slices by a budget of steps (one key, one compare row, one lease:
 * about half a microsecond), so that no entry, however large, holds up the caller.
 *
 *      apply_begin(entry), then apply_step() again and again:
 *          APPLY_DONE     the entry is done
 *          APPLY_MORE     the budget is used up: step again
 *          APPLY_PAUSED   both runs are full: step again after a commit
 *          APPLY_CONF     hand out->conf to raft, then apply_conf_done(), then step again
 *          APPLY_FATAL    end the process with out->fatal; nothing of the entry counts
 *
 * Entries up to the consistent index of the store were applied before: they only repeat what lives
 * in memory alone (walkthroughs.md 3.6). Rule 7: nothing that is short here refuses a committed
 * entry: APPLY_FATAL does.
 *
 * Owner: the apply actor; one call at a time. What other threads may call says so. */
#ifndef APPLY_APPLY_H
#define APPLY_APPLY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apply/result.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/errmsg.h"
#include "base/log.h"
#include "pb/raftpb.h"

struct alarms;
struct lease_table;
struct membership;
struct mvcc;
struct apply;

/* --quota-backend-bytes 0 means this. */
#define APPLY_QUOTA_BYTES_DEFAULT (2LL * 1024 * 1024 * 1024)

struct apply_config {
    uint64_t member_id;         /* our own */
    struct mvcc *mvcc;          /* borrowed for life */
    struct lease_table *leases; /* borrowed for life */
    int64_t quota_bytes;        /* as the flag: 0 the default, negative none */
    size_t learners_max;        /* --max-learners */
    const char *server_version; /* "3.7.0": no cluster version above it; borrowed for life */

    bool auth_enabled; /* auth/authEnabled of the store: refused until there is module auth */

    /* Whether anybody here waits for the answer to this request: a pure question, asked from
     * apply_step(). NULL: always true. Without a waiter no result is made. */
    bool (*waits)(void *arg, uint64_t request_id);
    void *waits_arg;

    const struct alloc *alloc; /* for results: usable from any thread, and that of `mvcc` */
    const struct log *log;     /* may be NULL */
};

/* What the store says, loaded before: where applying starts. */
struct apply_start {
    uint64_t consistent_index;
    uint64_t consistent_term;
    struct bytes conf_state_json; /* row meta/confState, empty when absent; borrowed */
    struct membership *members;   /* one more reference is taken */
    struct alarms *alarms;        /* likewise */
};

struct apply_entry {
    uint64_t index;
    uint64_t term;
    int32_t type;      /* enum pb_entry_type */
    struct bytes data; /* borrowed until APPLY_DONE */
};

enum apply_state { APPLY_DONE, APPLY_MORE, APPLY_PAUSED, APPLY_CONF, APPLY_FATAL };

/* What the transport has to do about a peer, never about us; URLs are in the member table. */
enum apply_peer_action { APPLY_PEER_NONE, APPLY_PEER_ADD, APPLY_PEER_UPDATE, APPLY_PEER_REMOVE };

/* Filled by apply_step(); valid until the next call. With APPLY_DONE all of it counts, in this
 * order: the revision is published already; then events, peers, and last the result. */
struct apply_output {
    uint64_t index; /* of the entry in progress */
    uint64_t term;

    /* APPLY_DONE */
    bool replayed;               /* index <= consistent index: bookkeeping only, no result */
    int64_t published_from;      /* revisions this entry published, both inclusive; 0, 0: none */
    int64_t published_to;        /* (an entry makes at most one) */
    uint64_t request_id;         /* of the entry, 0: none */
    struct apply_result *result; /* gives: apply_result_free(); NULL when nobody waits */
    bool empty;                  /* a new leader's no-op: leases may be promoted */
    bool raise_nospace;   /* over the quota: propose {ACTIVATE, own id, NOSPACE}, then answer */
    bool force_snapshot;  /* the cluster version went down: take a disk snapshot after this batch */
    bool members_changed; /* a new apply_members(): members, cluster version or downgrade info */
    bool alarms_changed;  /* a new apply_alarms() */
    bool compacted; /* a compaction is scheduled: commit at once, then run it (mvcc/compact.h) */
    int64_t compact_revision;
    bool compact_physical; /* answer `result` only when it has run and is committed */
    enum apply_peer_action peer_action;
    uint64_t peer_id;
    bool removed_self; /* stop the member */

    /* APPLY_CONF; context and node id as raft must see it (node id 0: refused); borrowed until
     * apply_conf_done() */
    struct pb_conf_change conf;

    /* APPLY_FATAL: one line for the log; lives as long as the instance */
    const char *fatal;
};

/* Gives an instance, to be freed with apply_free(). Errors: E_NOMEM; E_UNSUPPORTED the store has
 * authentication enabled (said in `em`). */
int apply_new(const struct apply_config *config, const struct apply_start *start,
              struct apply **out, struct errmsg *em);
void apply_free(struct apply *a);

/* After a snapshot replaced the store: mvcc and leases have been reloaded in place, here are the
 * versions of the rest (a reference is taken) and where applying goes on. No entry may be in
 * progress. Errors: E_NOMEM, nothing changed. */
int apply_restart(struct apply *a, const struct apply_start *start);

/* Starts on the next entry; the one before must be done. Indexes follow one another (asserted, but
 * after apply_new() and apply_restart()). */
void apply_begin(struct apply *a, const struct apply_entry *e);

/* Works on the entry until it is done or `*budget` steps are used up (it is counted down, never
 * below 0, and at least one step is made). `now_ns`: monotonic, for leases. */
enum apply_state apply_step(struct apply *a, int64_t now_ns, uint32_t *budget,
                            struct apply_output *out);

/* After APPLY_CONF: the configuration that raft holds now (borrowed); then step on. */
void apply_conf_done(struct apply *a, const struct pb_conf_state *now);

/* The present versions; borrowed until the next apply_step(): take a reference to keep one or to
 * show it to others. */
struct membership *apply_members(const struct apply *a);
struct alarms *apply_alarms(const struct apply *a);

/* What the tables reflect: the last entry that is done, at least the consistent index. */
uint64_t apply_index(const struct apply *a);
uint64_t apply_term(const struct apply *a);

/* ---- quota: any thread ----------------------------------------------------------------------- */

/* The store's size, told after every commit of the backend (struct backend_size.total_bytes). */
void apply_set_store_bytes(struct apply *a, uint64_t bytes);
/* Size as quotas see it: the store plus what the runs hold. */
uint64_t apply_store_bytes(const struct apply *a);
/* Whether `cost` (apply/check.h) fits; a cost of 0 always does. What a proposer asks before it
 * proposes. */
bool apply_quota_has_room(const struct apply *a, uint64_t cost);

#endif
