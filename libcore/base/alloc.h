/* The allocator that every handle gets at its birth.
 *
 * Pure modules call no other. Frees are sized, so that an allocator needs no headers of its own, and
 * the `arg` lets tests count, limit or fail the n-th allocation. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stddef.h>

struct alloc {
    /* Resizes `old` (NULL, 0 for a new block) to `new_bytes`; 0 frees and returns NULL.
     * Returns NULL when there is no memory; `old` is then as before. Any thread. */
    void *(*resize)(void *arg, void *old, size_t old_bytes, size_t new_bytes);
    void *arg;
};

static inline void *alloc_new(const struct alloc *a, size_t bytes)
{
    return a->resize(a->arg, NULL, 0, bytes);
}

static inline void alloc_free(const struct alloc *a, void *block, size_t bytes)
{
    if (block != NULL) (void)a->resize(a->arg, block, bytes, 0);
}

/* A zeroed block, or NULL. */
void *alloc_zero(const struct alloc *a, size_t bytes);

#endif
