/* A span of revisions as events, encoded once and shared by everybody who gets them.
 *
 * A piece is a whole field of a WatchResponse: tag 11, length, mvccpb.Event with type and kv (as stored; a deletion's
 * gets its mod_revision). Pieces of neighbouring events stand side by side, so many events leave as one span. A batch
 * is immutable and reference-counted; any thread may read it. */
#ifndef WATCH_BATCH_H
#define WATCH_BATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rcbuf.h"
#include "mvcc/view.h"

/* Field of WatchResponse, and fields of Event. */
enum { WATCH_FIELD_EVENT = 11 };

struct watch_event {
    int64_t main;
    size_t at;       /* of its piece in `bytes` */
    uint32_t len;    /* of the piece */
    uint32_t body;   /* in the piece: where the Event's own fields begin */
    uint32_t key_at; /* in the piece */
    uint32_t key_len;
    bool deletion;
    bool creation; /* a put that made the key: it has no previous value */
};

struct watch_batch {
    atomic_uint refs;
    const struct alloc *alloc; /* usable from any thread */
    int64_t from, to;          /* revisions, inclusive; every event of theirs is here */
    struct watch_event *events;
    size_t count, cap;
    struct rcbuf *bytes; /* NULL without events */
    size_t used;         /* of its bytes */
};

/* Any thread. NULL is allowed. */
struct watch_batch *watch_batch_ref(struct watch_batch *b);
void watch_batch_unref(struct watch_batch *b);

/* The index of the first event of revision >= `rev`. */
size_t watch_batch_find(const struct watch_batch *b, int64_t rev);
/* What it holds in memory. */
size_t watch_batch_bytes(const struct watch_batch *b);

static inline struct bytes watch_event_piece(const struct watch_batch *b,
                                             const struct watch_event *e)
{
    return bytes_of(b->bytes->data + e->at, e->len);
}

static inline struct bytes watch_event_key(const struct watch_batch *b, const struct watch_event *e)
{
    return bytes_of(b->bytes->data + e->at + e->key_at, e->key_len);
}

/* --- making one -------------------------------------------------------------------------------- */

/* Reads history into a batch, step by step. In the caller's storage; zero is closed. */
struct watch_builder {
    struct mvcc_view view;
    struct mvcc_history history;
    struct watch_batch *batch; /* NULL: closed */
    int64_t last;              /* revision of the last event; 0: none yet */
    size_t events_max, bytes_max;
    size_t step_bytes_max;
};

/* Starts on [from, to] (`to` is published). It may end sooner, at the end of the revision in which it reaches `events_max` or
 * `bytes_max`. Any thread. Errors: E_COMPACTED, E_NOMEM. */
int watch_builder_open(struct watch_builder *b, struct mvcc *m, const struct alloc *alloc,
                       int64_t from, int64_t to);
/* Reads at most `rows_max` rows, fewer when they are large; 1 while there is more, 0 at the end. Errors: E_NOMEM, E_INTR (the pin was broken), E_CORRUPT,
 * those of the backend; it is closed then. */
int watch_builder_step(struct watch_builder *b, size_t rows_max, struct errmsg *em);
/* Gives the finished batch and closes. */
struct watch_batch *watch_builder_take(struct watch_builder *b);
void watch_builder_close(struct watch_builder *b);

/* The first part of [from, to] at once: what one run of the apply actor publishes. Gives a batch, or NULL when it would have to
 * hold more than `events_max` events, or is very large, or cannot be made: readers then find the same in history. */
struct watch_batch *watch_batch_read(struct mvcc *m, const struct alloc *alloc, int64_t from,
                                     int64_t to, size_t events_max);

#endif
