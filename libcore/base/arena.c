/* Chunks in a list, each twice as large as the one before, up to a bound; blocks are cut off the
 * newest.
 *
 * A block larger than the next chunk would be gets a chunk of its own size. Nothing moves, nothing
 * is freed singly. The oldest chunk survives a reset, so that a steady round of work allocates
 * nothing. */
#include "base/arena.h"

#include <stdalign.h>

#include "base/assert.h"

enum { CHUNK_BYTES_MIN = 4096, CHUNK_BYTES_MAX = 1024 * 1024 };

struct arena_chunk {
    struct arena_chunk *next; /* older */
    size_t cap;               /* bytes of data[] */
    size_t used;
    alignas(max_align_t) uint8_t data[];
};

void arena_init(struct arena *a, const struct alloc *alloc, size_t bytes_max)
{
    ASSERT(alloc != NULL);
    *a = (struct arena){.alloc = alloc, .bytes_max = bytes_max};
}

static void chunk_free(struct arena *a, struct arena_chunk *c)
{
    alloc_free(a->alloc, c, sizeof *c + c->cap);
}

void arena_deinit(struct arena *a)
{
    while (a->chunks != NULL) {
        struct arena_chunk *c = a->chunks;
        a->chunks = c->next;
        chunk_free(a, c);
    }
    *a = ARENA_EMPTY;
}

void arena_reset(struct arena *a)
{
    while (a->chunks != NULL && a->chunks->next != NULL) {
        struct arena_chunk *c = a->chunks;
        a->chunks = c->next;
        chunk_free(a, c);
    }
    if (a->chunks != NULL) a->chunks->used = 0;
    a->used_bytes = 0;
}

/* The size of the next chunk, large enough for `bytes`. */
static size_t chunk_cap(const struct arena *a, size_t bytes)
{
    size_t cap = CHUNK_BYTES_MIN - sizeof(struct arena_chunk);
    if (a->chunks != NULL) {
        cap = 2 * (a->chunks->cap + sizeof(struct arena_chunk)) - sizeof(struct arena_chunk);
    }
    size_t cap_max = CHUNK_BYTES_MAX - sizeof(struct arena_chunk);
    if (cap > cap_max) cap = cap_max;
    return cap < bytes ? bytes : cap;
}

static struct arena_chunk *chunk_new(struct arena *a, size_t bytes)
{
    size_t cap = chunk_cap(a, bytes);
    struct arena_chunk *c = alloc_new(a->alloc, sizeof *c + cap);
    if (c == NULL) return NULL;
    *c = (struct arena_chunk){.next = a->chunks, .cap = cap};
    a->chunks = c;
    return c;
}

void *arena_new(struct arena *a, size_t bytes)
{
    ASSERT(a->alloc != NULL);
    size_t left = a->bytes_max - a->used_bytes;
    if (bytes > left) return NULL;
    size_t step = (bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (step < alignof(max_align_t)) step = alignof(max_align_t);
    struct arena_chunk *c = a->chunks;
    if (c == NULL || c->cap - c->used < step) c = chunk_new(a, step);
    if (c == NULL) return NULL;
    void *block = c->data + c->used;
    c->used += step;
    a->used_bytes += step < left ? step : left;
    return block;
}

void *arena_zero(struct arena *a, size_t bytes)
{
    void *block = arena_new(a, bytes);
    if (block != NULL) memset(block, 0, bytes);
    return block;
}

struct bytes arena_copy(struct arena *a, struct bytes s)
{
    if (s.len == SIZE_MAX) return BYTES_EMPTY;
    uint8_t *copy = arena_new(a, s.len + 1);
    if (copy == NULL) return BYTES_EMPTY;
    if (s.len > 0) memcpy(copy, s.data, s.len);
    copy[s.len] = 0;
    return bytes_of(copy, s.len);
}

static void *arena_resize(void *arg, void *old, size_t old_bytes, size_t new_bytes)
{
    struct arena *a = arg;
    if (new_bytes == 0) return NULL;
    if (old != NULL && new_bytes <= old_bytes) return old;
    void *block = arena_new(a, new_bytes);
    if (block != NULL && old != NULL) memcpy(block, old, old_bytes);
    return block;
}

struct alloc arena_alloc(struct arena *a)
{
    return (struct alloc){.resize = arena_resize, .arg = a};
}
