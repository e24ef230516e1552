/* Inside of watch. */
#ifndef WATCH_WATCH_INT_H
#define WATCH_WATCH_INT_H

#include "base/assert.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "watch/watch.h"

/* Faults on purpose: the tests build the module with them to see that the model finds each. */
enum watch_plant_kind {
    PLANT_NONE,
    PLANT_EARLY,          /* an event before its revision is published */
    PLANT_GAP_AT_JOIN,    /* a sweep joins one revision too late */
    PLANT_REPEAT_AT_JOIN, /* it joins where it is ahead, and forgets what it has given */
    PLANT_GAP_AT_PARK     /* a watcher that waits for room forgets its first event */
};
#ifdef WATCH_PLANTED
extern enum watch_plant_kind watch_plant;
#define PLANTED(kind) (watch_plant == (kind))
#else
#define PLANTED(kind) false
#endif

enum {
    /* A slice of history: large enough that a small history is one response, as upstream's, and a multiple of the
     * revisions of a response, so that a longer one is cut where upstream cuts it. */
    WATCH_SLICE_EVENTS = 8000,
    WATCH_SLICE_BYTES = 8 * 1024 * 1024,
    /* Rows, and bytes of them, read in one step: about 100 us. */
    WATCH_STEP_ROWS = 512,
    WATCH_STEP_BYTES = 256 * 1024,
    /* Live watchers met by an event in one step, and events looked at; of a sweep, whose watchers gather a response over the whole
     * slice, it may be more. */
    WATCH_STEP_HITS = 4096,
    WATCH_STEP_EVENTS = 1024,
    WATCH_SWEEP_HITS = 32768,
    /* Watchers that change their group in one step. */
    WATCH_STEP_WATCHERS = 512,
    /* Revisions in a response from history, as upstream. */
    WATCH_RESPONSE_REVISIONS = 1000,
    /* Sweeps at the same time: those who are far behind do not hold up those who are near. */
    WATCH_SWEEPS_MAX = 4,
    /* A watcher that is this far ahead of a sweep rather waits for one of its own. */
    WATCH_SWEEP_AHEAD_MAX = 10000,
    WATCH_RING_BATCHES = 1024
};

/* --- watch_index.c: who watches a key ------------------------------------------------------------ */

struct watch_index {
    struct map_bytes keys;      /* single keys: to the first of a chain */
    struct watch_watcher *root; /* ranges: a treap by (key, end), each node the first of a chain */
    uint64_t draws;
};

void watch__index_init(struct watch_index *ix, const struct alloc *alloc, uint64_t seed);
void watch__index_deinit(struct watch_index *ix);
/* Errors: E_NOMEM; never after a reserve. */
int watch__index_add(struct watch_index *ix, struct watch_watcher *w);
int watch__index_reserve(struct watch_index *ix, size_t more);
void watch__index_remove(struct watch_index *ix, struct watch_watcher *w);

/* Walks the first of each chain that covers `key`; NULL at the end. The index must not change meanwhile. */
struct watch__cover {
    struct bytes key;
    struct watch_watcher *at;
};
struct watch_watcher *watch__cover_first(const struct watch_index *ix, struct bytes key,
                                         struct watch__cover *c);
struct watch_watcher *watch__cover_next(const struct watch_index *ix, struct watch__cover *c);

/* --- batch.c ----------------------------------------------------------------------------------- */

/* An empty batch with one reference; NULL without memory. */
struct watch_batch *watch__batch_new(const struct alloc *alloc, int64_t from, int64_t to);
/* Appends the events of `b` from revision `from` on; `out` is not shared yet and ends before it. Errors: E_NOMEM (`out` is then good
 * only to be dropped). */
int watch__batch_append(struct watch_batch *out, const struct watch_batch *b, int64_t from);

/* --- groups --------------------------------------------------------------------------------------- */

/* Watchers that are given the same events at the same time. */
struct watch_group {
    struct watch_index index;
    struct list watchers;
    struct list link; /* in the shard's sweeps */
    size_t count;
    int64_t pos; /* the next revision to be given; all below were */
    bool live;
    struct watch_batch *batch; /* being given; NULL: none */
    size_t at;                 /* its next event */
    struct watch_builder builder;
};

struct watch__hit {
    size_t first, last; /* events, inclusive */
    size_t next;        /* + 1; 0: none */
};

struct watch_shard {
    struct watch_opts opts;
    const struct alloc *alloc;
    struct mvcc *mvcc;
    struct watch_group live;
    struct list sweeps;
    size_t sweep_count;
    struct list pending; /* to be given to a sweep */
    struct list waiting; /* none of the sweeps is for them; tried again when one has ended */
    struct list asking;  /* streams with an open progress request */
    struct heap future;
    int64_t published;
    size_t watcher_count, behind_count;
    bool starved; /* memory was short in this step */
    uint32_t turn;

    struct {
        struct watch_batch *batches[WATCH_RING_BATCHES];
        size_t first, count;
        size_t bytes;
    } ring; /* contiguous revisions */

    /* While a batch is given: what each touched watcher gets. */
    struct watch_watcher *touched;
    struct watch_watcher **touched_end;
    struct watch__hit *hits;
    size_t hit_count, hit_cap;
    struct watch_piece *pieces;
    size_t piece_count, piece_cap;
    struct buf scratch; /* pieces with prev_kv */
    struct mvcc_view prev_view;
    int64_t prev_rev; /* of prev_view; 0: closed */
};

/* --- watch_group.c ----------------------------------------------------------------------------------- */

void watch__group_init(struct watch_group *g, const struct watch_shard *s, bool live);
void watch__group_deinit(struct watch_group *g);
int watch__group_add(struct watch_group *g, struct watch_watcher *w);
/* Takes a watcher out of its group; it is then in no list. */
void watch__group_drop(struct watch_watcher *w);
/* Counts a watcher as behind, or no more. */
void watch__set_place(struct watch_watcher *w, enum watch_place place);
/* Takes it out of its group and lets it wait for room or for a sweep, or ends it, as leave_rc says. */
void watch__leave(struct watch_watcher *w);

/* The batch that has `rev`, or NULL. */
struct watch_batch *watch__ring_find(const struct watch_shard *s, int64_t rev);
/* Gives a reference to a batch with everything from `rev` on, up to `until` as far as one slice and the ring go: one of the ring's,
 * or several of them joined. NULL when the ring does not have `rev`. */
struct watch_batch *watch__ring_take(const struct watch_shard *s, int64_t rev, int64_t until);
void watch__ring_put(struct watch_shard *s, struct watch_batch *b);
void watch__ring_clear(struct watch_shard *s);

/* --- watch_give.c -------------------------------------------------------------------------------------- */

/* Gives events of g->batch up to revision `until`, as much as one step may; 1 while there are more. */
int watch__give(struct watch_shard *s, struct watch_group *g, int64_t until);

/* --- watch_sweep.c --------------------------------------------------------------------------------------- */

/* One step of a group towards `until` (inclusive); 1 while there is more. */
int watch__advance(struct watch_shard *s, struct watch_group *g, int64_t until);
/* Gives pending watchers to sweeps. */
void watch__place_pending(struct watch_shard *s);
/* One step of the next sweep in turn. */
void watch__sweep_step(struct watch_shard *s);
void watch__sweep_free(struct watch_shard *s, struct watch_group *g);
/* Tells a watcher that a compaction has passed it, when its stream takes it. */
void watch__tell_overtaken(struct watch_watcher *w);

#endif
