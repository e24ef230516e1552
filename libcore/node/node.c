/* What both halves need: request ids, chains of waiters, notes. */
#include "node/node.h"

#include "node/node_int.h"

/* --- request ids --------------------------------------------------------------------------------- */

#define LOW_BITS 48

void node_ids_init(struct node_ids *ids, uint64_t member_id, uint64_t start_ms)
{
    ASSERT(ids != NULL);
    ids->high = member_id << LOW_BITS;
    /* 40 bits of milliseconds above 8 bits of counter: a restart within a millisecond is needed for a clash. */
    atomic_init(&ids->low, (start_ms & ((UINT64_C(1) << 40) - 1)) << 8);
}

uint64_t node_ids_next(struct node_ids *ids)
{
    uint64_t mask = (UINT64_C(1) << LOW_BITS) - 1;
    uint64_t low = (atomic_fetch_add_explicit(&ids->low, 1, memory_order_relaxed) + 1) & mask;
    ASSERT((ids->high & mask) == 0);
    return ids->high | low;
}

/* --- waiters ------------------------------------------------------------------------------------- */

struct node_waiter *node__waiter_of(struct list *link)
{
    ASSERT(link != NULL);
    return LIST_OBJECT(link, struct node_waiter, link);
}

struct node_waiter *node__chain_from_list(struct list *head)
{
    ASSERT(head != NULL);
    if (list_empty(head)) return NULL;
    struct list *first = head->next;
    head->prev->next = NULL;
    list_init(head);
    return node__waiter_of(first);
}

struct node_waiter *node__chain_next(const struct node_waiter *w)
{
    ASSERT(w != NULL);
    return w->link.next == NULL ? NULL : node__waiter_of(w->link.next);
}

/* --- small things -------------------------------------------------------------------------------- */

int64_t node__timeout_ns(int64_t option_ns, uint32_t election_ticks, int64_t tick_ns)
{
    ASSERT(tick_ns > 0);
    if (option_ns > 0) return option_ns;
    return INT64_C(5000000000) + 2 * (int64_t)election_ticks * tick_ns;
}

int node__grow(const struct alloc *alloc, void **v, size_t *cap, size_t need, size_t item_bytes)
{
    ASSERT(item_bytes > 0);
    if (need <= *cap) return 0;
    size_t n = *cap == 0 ? 16 : *cap;
    while (n < need)
        n *= 2;
    void *bigger = alloc->resize(alloc->arg, *v, *cap * item_bytes, n * item_bytes);
    if (bigger == NULL) return E_NOMEM;
    *v = bigger;
    *cap = n;
    return 0;
}

void node_to_apply_deinit(struct node_to_apply *n, const struct alloc *alloc)
{
    ASSERT(n != NULL);
    raft_entries_free(alloc, n->entries, n->entry_count);
    alloc_free(alloc, n->conf, sizeof *n->conf);
    *n = (struct node_to_apply){.kind = n->kind};
}

void node_to_raft_deinit(struct node_to_raft *n)
{
    ASSERT(n != NULL);
    rcbuf_unref(n->data);
    n->data = NULL;
}
