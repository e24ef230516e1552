/* The usual sift up and sift down, keeping each item's place up to date. */
#include "base/heap.h"

#include <stdint.h>

#include "base/assert.h"
#include "base/err.h"

enum { HEAP_CAP_MIN = 16 };

void heap_init(struct heap *h, const struct alloc *alloc, heap_before_fn before)
{
    ASSERT(alloc != NULL);
    ASSERT(before != NULL);
    *h = (struct heap){.alloc = alloc, .before = before};
}

void heap_deinit(struct heap *h)
{
    if (h->items != NULL) alloc_free(h->alloc, h->items, h->cap * sizeof *h->items);
    *h = HEAP_EMPTY;
}

int heap_reserve(struct heap *h, size_t more)
{
    ASSERT(h->alloc != NULL);
    if (more <= h->cap - h->count) return 0;
    if (more > SIZE_MAX / sizeof *h->items / 2 - h->count) return E_NOMEM;
    size_t cap = 2 * h->cap > HEAP_CAP_MIN ? 2 * h->cap : HEAP_CAP_MIN;
    if (cap < h->count + more) cap = h->count + more;
    void *items = h->alloc->resize(h->alloc->arg, h->items, h->cap * sizeof *h->items,
                                   cap * sizeof *h->items);
    if (items == NULL) return E_NOMEM;
    h->items = items;
    h->cap = cap;
    return 0;
}

static void put(struct heap *h, size_t at, struct heap_item *item)
{
    h->items[at] = item;
    item->place = at + 1;
}

static size_t sift_up(struct heap *h, size_t at)
{
    struct heap_item *item = h->items[at];
    while (at > 0 && h->before(item, h->items[(at - 1) / 2])) {
        put(h, at, h->items[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(h, at, item);
    return at;
}

static void sift_down(struct heap *h, size_t at)
{
    struct heap_item *item = h->items[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= h->count) break;
        if (child + 1 < h->count && h->before(h->items[child + 1], h->items[child])) child++;
        if (!h->before(h->items[child], item)) break;
        put(h, at, h->items[child]);
        at = child;
    }
    put(h, at, item);
}

int heap_push(struct heap *h, struct heap_item *item)
{
    ASSERT(item->place == 0);
    int rc = heap_reserve(h, 1);
    if (rc < 0) return rc;
    put(h, h->count, item);
    h->count++;
    (void)sift_up(h, h->count - 1);
    return 0;
}

struct heap_item *heap_first(const struct heap *h)
{
    return h->count == 0 ? NULL : h->items[0];
}

struct heap_item *heap_pop(struct heap *h)
{
    struct heap_item *first = heap_first(h);
    if (first != NULL) heap_remove(h, first);
    return first;
}

void heap_remove(struct heap *h, struct heap_item *item)
{
    ASSERT(item->place > 0 && item->place <= h->count);
    ASSERT(h->items[item->place - 1] == item);
    size_t at = item->place - 1;
    h->count--;
    item->place = 0;
    if (at == h->count) return;
    put(h, at, h->items[h->count]);
    sift_down(h, sift_up(h, at));
}

void heap_update(struct heap *h, struct heap_item *item)
{
    ASSERT(item->place > 0 && item->place <= h->count);
    ASSERT(h->items[item->place - 1] == item);
    sift_down(h, sift_up(h, item->place - 1));
}
