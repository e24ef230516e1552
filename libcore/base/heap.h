/* An intrusive binary min-heap: each item knows its place, so any one can be moved or removed in
 * O(log n).
 *
 * The items' order is a function; the array of pointers is the only memory. Used for deadlines and
 * the like. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"

/* Part of the owner's struct (LIST_OBJECT of base/list.h gets back to it). */
struct heap_item {
    size_t place; /* index + 1 in the array; 0: in no heap */
};

/* Whether `a` comes before `b`. */
typedef bool (*heap_before_fn)(const struct heap_item *a, const struct heap_item *b);

struct heap {
    const struct alloc *alloc;
    struct heap_item **items;
    size_t count;
    size_t cap;
    heap_before_fn before;
};

#define HEAP_EMPTY ((struct heap){0})

void heap_init(struct heap *h, const struct alloc *alloc, heap_before_fn before);
void heap_deinit(struct heap *h); /* the items are not touched */

/* Makes `more` further pushes sure to succeed. Errors: E_NOMEM. */
int heap_reserve(struct heap *h, size_t more);

/* Borrows `item`, which is in no heap, until it leaves. Errors: E_NOMEM. */
int heap_push(struct heap *h, struct heap_item *item);

/* The first in order, NULL when empty. */
struct heap_item *heap_first(const struct heap *h);
struct heap_item *heap_pop(struct heap *h);

void heap_remove(struct heap *h, struct heap_item *item);

/* To be called when the order of `item`, which is in the heap, has changed. */
void heap_update(struct heap *h, struct heap_item *item);

static inline bool heap_item_queued(const struct heap_item *item)
{
    return item->place != 0;
}

#endif
