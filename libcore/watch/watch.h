/* Which watcher gets which events: one shard for the watchers of one io thread.
 *
 * The shard has a position p: every watcher that is up to date ("live") was given all events <= p. It lags the published
 * revision q, which watch_shard_publish() tells, by what watch_shard_step() still has to do. The others stand in sweeps: a
 * sweep reads history slice by slice, from the oldest revision that one of its watchers wants, until it meets p, where
 * they become live. So a hundred thousand watchers that start in the past cost one reading, not a hundred
 * thousand. What the ring of recent batches holds is not read again. A stream that takes no more parks its watchers
 * at their next revision until watch_stream_wake(): a slow watcher costs itself only.
 *
 * Every watcher filters by its own next revision; that is what makes joining anywhere exact: no event is lost,
 * repeated or out of order, wherever it stands.
 *
 * Outputs go to the sink, from watch_shard_step() only; the sink must not call the shard from inside.
 * Thread: one; any other only where said. */
#ifndef WATCH_WATCH_H
#define WATCH_WATCH_H

#include "base/heap.h"
#include "base/list.h"
#include "watch/batch.h"

struct watch_shard;
struct watch_group;
struct watch_watcher;

/* In the caller's storage. All fields are the shard's. */
struct watch_stream {
    struct watch_shard *shard;
    struct list parked; /* watchers that wait for room */
    struct list asking; /* in the shard's list while a progress request is open */
    size_t watcher_count;
    size_t behind_count; /* not live */
    size_t future_count; /* live, but p is below their start */
    int64_t asked_rev;   /* published when progress was asked for last */
    uint32_t asked;      /* progress answers owed */
};

enum watch_place {
    WATCH_NEW,
    WATCH_PENDING,  /* to be given to a sweep */
    WATCH_SWEEP,    /* in a sweep */
    WATCH_LIVE,     /* up to date */
    WATCH_PARKED,   /* its stream takes no more */
    WATCH_OVERTAKEN /* by a compaction: it gets nothing any more */
};

/* In the caller's storage; set the first part, then watch_add(). */
struct watch_watcher {
    struct bytes key; /* borrowed while it is added */
    struct bytes end; /* likewise; empty: one key; one zero byte: all keys >= key */
    int64_t start;    /* <= 0: from now */
    bool no_put, no_delete, prev_kv;

    /* the shard's */
    bool touched, leaving;
    uint8_t place; /* enum watch_place */
    int8_t told;   /* OVERTAKEN: the sink has been told */
    int leave_rc;  /* why it leaves its group: E_AGAIN, E_NOMEM, or what broke */
    int64_t next;  /* events below are not for it */
    struct watch_stream *stream;
    struct watch_group *group;
    struct list link;                            /* of the group, or of a list of those that wait */
    struct heap_item timer;                      /* among those that start in the future */
    struct watch_watcher *same_next, *same_prev; /* with the same key or range */
    struct watch_watcher *left, *right, *parent, *furthest; /* ranges: the tree */
    struct watch_watcher *touched_next;
    uint32_t priority;
    uint32_t revs; /* revisions gathered now */
    int64_t rev_first, rev_last;
    size_t hit_first, hit_last; /* + 1 */
};

/* One response: pieces in order. A span may lie in `shared` (then it lives as long as that), else it is borrowed. */
struct watch_piece {
    struct bytes bytes;
    struct rcbuf *shared;
};
struct watch_out {
    int64_t revision; /* for the header */
    const struct watch_piece *pieces;
    size_t count; /* one piece is one event */
};

struct watch_sink {
    void *arg;
    bool (*writable)(void *arg, struct watch_stream *st);
    /* These give 0; E_AGAIN (nothing was sent: come again when the stream is woken) or E_NOMEM (come again soon). */
    int (*events)(void *arg, struct watch_watcher *w, const struct watch_out *out);
    int (*overtaken)(void *arg, struct watch_watcher *w, int64_t compacted);
    int (*progress)(void *arg, struct watch_stream *st, int64_t rev);
    /* The store could not be read: the watcher gets nothing any more. */
    void (*failed)(void *arg, struct watch_watcher *w, int rc);
};

struct watch_opts {
    struct mvcc *mvcc;
    const struct alloc *alloc; /* usable from any thread; outlives the shard */
    struct watch_sink sink;
    size_t ring_bytes_max; /* 0: WATCH_RING_BYTES_MAX */
    uint64_t seed;         /* of hash tables and trees; best an unknown one */
};

/* What the ring of recent batches may hold; one batch is kept in any case. */
#define WATCH_RING_BYTES_MAX (8 * 1024 * 1024)

/* Gives a shard, freed with watch_shard_free(). Errors: E_NOMEM. */
int watch_shard_new(const struct watch_opts *opts, struct watch_shard **out);
/* All streams must be closed. NULL is allowed. */
void watch_shard_free(struct watch_shard *s);

/* Revisions up to `to` are published. `batch` (a reference is taken over) has the newest of them, or is NULL: then history has
 * them. Told in order; what is known already is ignored. */
void watch_shard_publish(struct watch_shard *s, int64_t to, struct watch_batch *batch);

/* Does a portion of the work; 1 while there is more to do, 0 when there is none until the next publication, wake or change.
 * Errors: E_NOMEM: call it again in a while. */
int watch_shard_step(struct watch_shard *s);

/* p: every live watcher has all events up to here. */
int64_t watch_shard_position(const struct watch_shard *s);
size_t watch_shard_watchers(const struct watch_shard *s);
/* Watchers that are not live. */
size_t watch_shard_behind(const struct watch_shard *s);

/* --- streams and watchers ------------------------------------------------------------------------ */

void watch_stream_open(struct watch_stream *st, struct watch_shard *s);
/* All its watchers must have been removed. */
void watch_stream_close(struct watch_stream *st);
/* It takes responses again. */
void watch_stream_wake(struct watch_stream *st);
/* Asks for one progress answer, given when all watchers of the stream have everything up to a revision that is at least the one
 * published now and each start. Without any watcher nothing is answered. */
void watch_stream_progress(struct watch_stream *st);

/* Adds a watcher; `*current` is the published revision, behind which a watch from now starts. Errors: E_INVAL
 * the range is empty; E_NOMEM. */
int watch_add(struct watch_watcher *w, struct watch_stream *st, int64_t *current);
void watch_remove(struct watch_watcher *w);
/* It has everything up to p, and p has reached its start: a progress notice may be sent to it. */
bool watch_is_current(const struct watch_watcher *w);

#endif
