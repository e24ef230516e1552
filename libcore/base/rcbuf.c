/* One block holds the count and the bytes. The release/acquire pair on the count makes all that
 * other holders did happen before the free. */
#include "base/rcbuf.h"

#include "base/assert.h"

struct rcbuf *rcbuf_new(const struct alloc *alloc, size_t len)
{
    ASSERT(alloc != NULL);
    if (len > SIZE_MAX - sizeof(struct rcbuf)) return NULL;
    struct rcbuf *b = alloc_new(alloc, sizeof *b + len);
    if (b == NULL) return NULL;
    atomic_init(&b->refs, 1);
    b->alloc = alloc;
    b->len = len;
    return b;
}

struct rcbuf *rcbuf_copy(const struct alloc *alloc, struct bytes s)
{
    struct rcbuf *b = rcbuf_new(alloc, s.len);
    if (b != NULL && s.len > 0) memcpy(b->data, s.data, s.len);
    return b;
}

struct rcbuf *rcbuf_ref(struct rcbuf *b)
{
    if (b == NULL) return NULL;
    unsigned before = atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    ASSERT(before > 0);
    return b;
}

void rcbuf_unref(struct rcbuf *b)
{
    if (b == NULL) return;
    unsigned before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
    ASSERT(before > 0);
    if (before == 1) alloc_free(b->alloc, b, sizeof *b + b->len);
}
