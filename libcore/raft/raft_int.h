/* Inside of module raft: the state and what its files share.
 *
 * The parts, from the bottom: quorum (who agrees), progress (what each follower has), conf (how a
 * configuration changes), log (the entries in memory), read (open read rounds), core (states, elections,
 * sending), step (messages), take (obligations). */
#ifndef RAFT_INT_H
#define RAFT_INT_H

#include "base/assert.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/prng.h"
#include "raft/raft.h"

/* --- quorum -------------------------------------------------------------------------------------- */

enum raft__vote { RAFT__VOTE_PENDING, RAFT__VOTE_WON, RAFT__VOTE_LOST };

/* -1: no answer, 0: rejected, 1: granted. */
typedef int (*raft__vote_fn)(const void *arg, raft_id id);
typedef uint64_t (*raft__index_fn)(const void *arg, raft_id id);

/* The largest index that a majority of `ids` acknowledged; UINT64_MAX for no ids at all. */
uint64_t raft__majority_index(const raft_id *ids, uint32_t n, raft__index_fn fn, const void *arg);
enum raft__vote raft__majority_vote(const raft_id *ids, uint32_t n, raft__vote_fn fn,
                                    const void *arg);
/* Both halves of a joint configuration must agree (thesis 4.3). */
uint64_t raft__joint_index(const struct raft_conf_state *cs, raft__index_fn fn, const void *arg);
enum raft__vote raft__joint_vote(const struct raft_conf_state *cs, raft__vote_fn fn,
                                 const void *arg);

/* --- progress ------------------------------------------------------------------------------------ */

struct raft__inflight {
    raft_index index; /* last index of one append under way */
    size_t bytes;
};

struct raft__progress {
    raft_id id;
    raft_index match; /* known to be in its log */
    raft_index next;  /* the next entry to send; > match */
    raft_index sent_commit;
    raft_index pending_snapshot;
    uint64_t read_acked; /* the newest read token that it echoed in this term */
    enum raft_progress_state state;
    int vote;         /* in the running election: -1, 0, 1 */
    bool flow_paused; /* no more appends until it answers */
    bool recent_active;
    bool learner;
    struct raft__inflight *inflights; /* ring; NULL until used */
    uint32_t inflight_cap;
    uint32_t inflight_start;
    uint32_t inflight_count;
    size_t inflight_bytes;
};

struct raft__limits {
    uint32_t inflight_count_max;
    size_t inflight_bytes_max;
};

void raft__progress_reset(struct raft__progress *pr, raft_index last, bool self);
void raft__progress_deinit(struct raft__progress *pr, const struct alloc *alloc);
bool raft__progress_paused(const struct raft__progress *pr);
bool raft__progress_full(const struct raft__progress *pr, const struct raft__limits *lim);
void raft__progress_probe(struct raft__progress *pr);
void raft__progress_replicate(struct raft__progress *pr);
void raft__progress_snapshot(struct raft__progress *pr, raft_index index);
/* Makes room for one more append under way. Errors: E_NOMEM. */
int raft__progress_reserve(struct raft__progress *pr, const struct alloc *alloc);
void raft__progress_sent(struct raft__progress *pr, const struct raft__limits *lim, size_t count,
                         size_t bytes);
bool raft__progress_update(struct raft__progress *pr, raft_index match);
bool raft__progress_decrease(struct raft__progress *pr, raft_index rejected, raft_index hint);
bool raft__progress_can_bump_commit(const struct raft__progress *pr, raft_index commit);
void raft__progress_free_to(struct raft__progress *pr, raft_index index);
/* "StateProbe match=1 next=2 ...": the text of logs. Returns `out`. */
enum { RAFT__PROGRESS_TEXT_MAX = 192 };
const char *raft__progress_text(const struct raft__progress *pr, const struct raft__limits *lim,
                                char out[RAFT__PROGRESS_TEXT_MAX]);

/* --- configuration ------------------------------------------------------------------------------- */

/* A configuration and the progress of each of its members, ascending by id. */
struct raft__tracker {
    struct raft_conf_state conf;
    struct raft__progress *prs;
    uint32_t count;
    uint32_t cap;
};

struct raft__progress *raft__tracker_find(const struct raft__tracker *t, raft_id id);
void raft__tracker_deinit(struct raft__tracker *t, const struct alloc *alloc);
bool raft__ids_have(const raft_id *ids, uint32_t n, raft_id id);
bool raft__conf_has_voter(const struct raft_conf_state *cs, raft_id id); /* in either half */
bool raft__conf_joint(const struct raft_conf_state *cs);
bool raft__conf_single(const struct raft_conf_state *cs); /* one voter, not joint */

/* Changes `t` in place, or leaves it as it was. `last` is the last index of the log. Errors: E_NOMEM;
 * E_INVAL with the reason in `em`. */
int raft__conf_simple(struct raft__tracker *t, const struct alloc *alloc, raft_index last,
                      const struct raft_conf_single *ch, uint32_t n, struct errmsg *em);
int raft__conf_enter_joint(struct raft__tracker *t, const struct alloc *alloc, raft_index last,
                           bool auto_leave, const struct raft_conf_single *ch, uint32_t n,
                           struct errmsg *em);
int raft__conf_leave_joint(struct raft__tracker *t, const struct alloc *alloc, struct errmsg *em);
/* Simple, enter or leave, as the change asks. */
int raft__conf_change(struct raft__tracker *t, const struct alloc *alloc, raft_index last,
                      const struct raft_conf_change *cc, struct errmsg *em);
/* Builds the tracker of a conf state in an empty `t`. */
int raft__conf_restore(struct raft__tracker *t, const struct alloc *alloc, raft_index last,
                       const struct raft_conf_state *cs, struct errmsg *em);
/* "voters=(1 2 3)&&(1 2) learners=(4)": the text of logs. Returns `out`. */
enum { RAFT__CONF_TEXT_MAX = 1024 };
const char *raft__conf_text(const struct raft_conf_state *cs, char out[RAFT__CONF_TEXT_MAX]);

/* --- log ----------------------------------------------------------------------------------------- */

/* The entries from `first` on, in memory; what is before is known by the index and term of its last. */
struct raft__log {
    const struct alloc *alloc;
    struct raft_entry *entries; /* [head, head + count) are in use */
    size_t cap;
    size_t head;
    size_t count;
    raft_index before_index; /* first - 1 */
    raft_term before_term;
    raft_index stable;      /* up to here in the WAL, for sure */
    raft_index in_progress; /* up to here handed out to be written; >= stable */
    raft_index committed;
    raft_index applying; /* handed out to be applied; applied <= applying <= committed */
    raft_index applied;
    size_t applying_bytes;
    size_t applying_bytes_max;
    bool applying_paused;
    struct raft_snapshot *snapshot; /* received, not yet durable; NULL: none */
    bool snapshot_in_progress;
};

raft_index raft__log_first(const struct raft__log *l);
raft_index raft__log_last(const struct raft__log *l);
/* False when the term of `i` is not known. */
bool raft__log_term(const struct raft__log *l, raft_index i, raft_term *term);
raft_term raft__log_last_term(const struct raft__log *l);
bool raft__log_match(const struct raft__log *l, raft_index i, raft_term term);
const struct raft_entry *raft__log_at(const struct raft__log *l, raft_index i);
bool raft__log_up_to_date(const struct raft__log *l, raft_index index, raft_term term);
/* The largest index <= `i` whose term is <= `term` or unknown, and that term (0: unknown). */
raft_index raft__log_conflict_by_term(const struct raft__log *l, raft_index i, raft_term term,
                                      raft_term *found);
/* Room for `n` more entries. Errors: E_NOMEM. */
int raft__log_reserve(struct raft__log *l, size_t n);
/* Cuts everything from ents[0].index on, then appends; room must be reserved. Takes references. */
void raft__log_append(struct raft__log *l, const struct raft_entry *ents, size_t n);
void raft__log_commit_to(struct raft__log *l, raft_index i);
void raft__log_stable_to(struct raft__log *l, raft_index i);
void raft__log_applied_to(struct raft__log *l, raft_index i);
raft_index raft__log_appliable(const struct raft__log *l, bool allow_unstable);
bool raft__log_has_committed(const struct raft__log *l, bool allow_unstable);
/* How many entries from `lo` < `hi` fit `bytes_max`: at least one. `*bytes` is their size. */
size_t raft__log_fit(const struct raft__log *l, raft_index lo, raft_index hi, size_t bytes_max,
                     size_t *bytes);
void raft__log_accept_applying(struct raft__log *l, raft_index i, size_t bytes, bool unstable_ok);
void raft__log_restore(struct raft__log *l, struct raft_snapshot *s); /* takes `s` */
void raft__log_compact(struct raft__log *l, raft_index i);
void raft__log_deinit(struct raft__log *l);

/* --- the whole ----------------------------------------------------------------------------------- */

/* A queue: taken at `head`, put at `n`; head <= n <= cap. */
struct raft__messages {
    struct raft_message *v;
    size_t head;
    size_t n;
    size_t cap;
};

/* A read that waits: for the first commit of the term, or for its round. */
struct raft__read_req {
    raft_id from; /* 0 or ourselves: answered by READ_OK */
    raft_index index;
    struct rcbuf *context;
};

struct raft__reads {
    struct raft__read_req *v;
    size_t head;
    size_t n;
    size_t cap;
};

enum raft__campaign { RAFT__PRE_ELECTION, RAFT__ELECTION, RAFT__TRANSFER };

struct raft {
    struct raft_opts opts;
    struct raft__limits limits;
    const struct alloc *alloc;
    struct prng prng;

    raft_term term;
    raft_id vote;
    raft_id lead;
    raft_id transferee;
    enum raft_state state;
    bool learner;
    struct raft__tracker trk;
    struct raft__log log;

    raft_index pending_conf_index; /* no conf change may be proposed until this is applied */
    size_t uncommitted_bytes;

    uint32_t election_elapsed;
    uint32_t heartbeat_elapsed;
    uint32_t election_timeout; /* drawn anew at each change of state */

    struct raft__messages msgs; /* may leave at once */
    struct raft__messages acks; /* must wait until all that is unstable now is durable */

    struct raft__reads reads_open;    /* asked, their round is running */
    struct raft__reads reads_pending; /* no entry of this term committed yet */
    struct raft__reads reads_done;    /* to be handed out as READ_OK */
    uint64_t reads_confirmed; /* rounds done in this term: the token of reads_open.v[0] less one */

    struct raft_snapshot *snapshot; /* for members too far behind; NULL: none yet */

    struct raft_hard_state handed_state; /* last one given in a PERSIST */
    raft_id handed_lead;
    enum raft_state handed_role;
    size_t batch_sends; /* SENDs left in the current batch */
    size_t batch_reads; /* READ_OKs left in it */
    int batch_phase;    /* 0: between batches */
};

/* core */
void raft__log_line(const struct raft *r, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Reserves what an input with up to `acks` own acknowledgements may need. Errors: E_NOMEM. */
int raft__begin(struct raft *r, size_t acks);
void raft__become_follower(struct raft *r, raft_term term, raft_id lead);
void raft__become_leader(struct raft *r);
void raft__hup(struct raft *r, enum raft__campaign kind);
void raft__campaign_start(struct raft *r, enum raft__campaign kind);
bool raft__promotable(const struct raft *r);
bool raft__maybe_commit(struct raft *r);
/* Appends at the own term; room must be reserved. E_AGAIN: over the limit of uncommitted bytes. */
int raft__append_entries(struct raft *r, const struct raft_entry *es, size_t n);
void raft__applied_to(struct raft *r, raft_index index);
void raft__applied_snapshot(struct raft *r, raft_index index);
void raft__switch_conf(struct raft *r);
bool raft__restore_snapshot(struct raft *r, const struct raft_snapshot *s);

/* send */
void raft__send(struct raft *r, struct raft_message *m); /* takes the contents of `m` */
bool raft__send_append(struct raft *r, raft_id to, bool even_empty);
void raft__bcast_append(struct raft *r);
void raft__bcast_heartbeat(struct raft *r);
void raft__send_timeout_now(struct raft *r, raft_id to);
int raft__messages_reserve(const struct alloc *alloc, struct raft__messages *ms, size_t more);

/* read */
int raft__reads_put(const struct alloc *alloc, struct raft__reads *q, struct raft__read_req req);
void raft__reads_clear(struct raft__reads *q);
void raft__reads_free(const struct alloc *alloc, struct raft__reads *q);
/* The leader's part of ReadIndex. Errors: E_NOMEM; E_AGAIN too many are open. */
int raft__read_request(struct raft *r, raft_id from, struct rcbuf *context);
/* `pr` echoed the token of `m`: rounds that a quorum has echoed are done. */
void raft__read_ack(struct raft *r, struct raft__progress *pr, const struct raft_message *m);
void raft__reads_release_pending(struct raft *r);
uint64_t raft__read_token(const struct raft *r); /* 0: no round is open */

/* step */
/* Whether a member may send this at all. Errors: E_INVAL. */
int raft__step_valid(const struct raft *r, const struct raft_message *m);
int raft__step(struct raft *r, const struct raft_message *m);
int raft__step_leader(struct raft *r, const struct raft_message *m);

/* "transition:ConfChangeTransitionAuto changes:{...}": the text of logs. Returns `out`. */
enum { RAFT__CHANGE_TEXT_MAX = 512 };
const char *raft__conf_change_text(const struct raft_entry *e, char out[RAFT__CHANGE_TEXT_MAX]);

#endif
