/* An immutable, reference-counted run of bytes, shared between threads.
 *
 * One entry's bytes are one of these, held by the raft log, the WAL queue, peers and apply alike.
 */
#ifndef BASE_RCBUF_H
#define BASE_RCBUF_H

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/bytes.h"

struct rcbuf {
    atomic_uint refs;
    const struct alloc *alloc; /* must be usable from any thread */
    size_t len;
    uint8_t data[];
};

/* Gives a buffer of `len` writable bytes with one reference, NULL without memory. Its maker may
 * write to it until the first time it is shared. */
struct rcbuf *rcbuf_new(const struct alloc *alloc, size_t len);
struct rcbuf *rcbuf_copy(const struct alloc *alloc, struct bytes s);

/* Takes one more reference; returns `b`. Any thread. A NULL `b` is allowed. */
struct rcbuf *rcbuf_ref(struct rcbuf *b);

/* Gives one reference back; the last one frees. Any thread. A NULL `b` is allowed. */
void rcbuf_unref(struct rcbuf *b);

static inline struct bytes rcbuf_bytes(const struct rcbuf *b)
{
    return b == NULL ? BYTES_EMPTY : bytes_of(b->data, b->len);
}

#endif
