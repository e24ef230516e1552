/* Memory of one request or one batch: many small blocks, freed at once. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/alloc.h"
#include "base/bytes.h"

struct arena_chunk;

struct arena {
    const struct alloc *alloc;
    struct arena_chunk *chunks; /* newest first */
    size_t used_bytes;          /* handed out since the last reset */
    size_t bytes_max;           /* bound on used_bytes */
};

#define ARENA_EMPTY ((struct arena){0})

void arena_init(struct arena *a, const struct alloc *alloc, size_t bytes_max);
void arena_deinit(struct arena *a);

/* Frees all blocks but keeps the first chunk for the next round. */
void arena_reset(struct arena *a);

/* A block aligned for any type, living until reset or deinit; NULL when memory or bound is used up.
 */
void *arena_new(struct arena *a, size_t bytes);
void *arena_zero(struct arena *a, size_t bytes);

/* Copies `s` with a terminating zero behind it; data is NULL on failure (a copy of an empty span is
 * not). */
struct bytes arena_copy(struct arena *a, struct bytes s);

/* A `struct alloc` view of the arena (frees are no-ops); valid as long as the arena stays in place.
 */
struct alloc arena_alloc(struct arena *a);

#endif
