/* Inside of module node: what its files share. */
#ifndef NODE_INT_H
#define NODE_INT_H

#include "base/assert.h"
#include "base/err.h"
#include "base/limits.h"
#include "node/node.h"

/* A chain of waiters by link.next: how they travel in a note. */
struct node_waiter *node__waiter_of(struct list *link);

/* Takes all waiters out of `head` and returns them as a chain; NULL for none. */
struct node_waiter *node__chain_from_list(struct list *head);
/* The one behind `w` in a chain; NULL at its end. */
struct node_waiter *node__chain_next(const struct node_waiter *w);

/* T (server-behaviour.md 12). */
int64_t node__timeout_ns(int64_t option_ns, uint32_t election_ticks, int64_t tick_ns);

/* Doubles a vector until `need` items fit. Errors: E_NOMEM, all is as before. */
int node__grow(const struct alloc *alloc, void **v, size_t *cap, size_t need, size_t item_bytes);

#endif
