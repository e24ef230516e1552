/* A table of the in-memory store: sorted rows that several states share. See memory.c for the idea.
 *
 * A table is an array of leaves, a leaf a short sorted array of rows, all reference-counted. Whoever holds the only
 * reference to a table may change it; within it, leaves that others hold too are copied first. */
#ifndef BACKEND_MEMORY_ROWS_H
#define BACKEND_MEMORY_ROWS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/bytes.h"

enum {
    LEAF_ROWS_MAX = 64,
    ROW_COST_BYTES =
        16 /* what a row weighs beside key and value: pointer and node in LMDB, rounded up */
};

struct row {
    atomic_uint refs;
    size_t key_bytes, value_bytes;
    uint8_t data[]; /* key, value */
};

struct leaf {
    atomic_uint refs;
    unsigned count; /* > 0 in a table */
    struct row *row[LEAF_ROWS_MAX];
};

struct rows { /* a table's content */
    atomic_uint refs;
    size_t count, cap;
    struct leaf *leaf[];
};

static inline void memory__ref(atomic_uint *refs)
{
    unsigned before = atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
    ASSERT(before > 0);
}

/* Whether that was the last. */
static inline bool memory__unref(atomic_uint *refs)
{
    unsigned before = atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel);
    ASSERT(before > 0);
    return before == 1;
}

static inline struct bytes memory__row_key(const struct row *r)
{
    return bytes_of(r->data, r->key_bytes);
}

static inline struct bytes memory__row_value(const struct row *r)
{
    return bytes_of(r->data + r->key_bytes, r->value_bytes);
}

static inline uint64_t memory__row_weight(const struct row *r)
{
    return ROW_COST_BYTES + r->key_bytes + r->value_bytes;
}

/* Gives a table of its own with the rows of `from` (NULL: none); NULL without memory. */
struct rows *memory__rows_copy(const struct alloc *a, const struct rows *from);

/* Gives one reference back. A NULL `t` is allowed. */
void memory__rows_unref(const struct alloc *a, struct rows *t);

/* Where `key` is or would be. The leaf: the last whose first key is <= `key`, 0 when there is none. The row: the first
 * of the leaf that is >= `key`, the leaf's count when there is none. */
size_t memory__find_leaf(const struct rows *t, struct bytes key);
unsigned memory__find_row(const struct leaf *l, struct bytes key);

/* The row of `key`, or NULL; borrowed. A NULL `t` is allowed. */
const struct row *memory__lookup(const struct rows *t, struct bytes key);

/* Puts a row; `*table` is the caller's own and may move. `*weight` follows. E_NOMEM: nothing changed. */
int memory__rows_put(const struct alloc *a, struct rows **table, struct bytes key,
                     struct bytes value, uint64_t *weight);

/* Removes the row of `key`, if there is one. E_NOMEM: nothing changed. */
int memory__rows_del(const struct alloc *a, struct rows *t, struct bytes key, uint64_t *weight);

#endif
