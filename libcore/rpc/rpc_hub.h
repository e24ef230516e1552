/* From the apply actor to the io threads: which revisions are published, and their events.
 *
 * The hub encodes what one run of the apply actor published once, as a batch that all threads with watchers share. A thread
 * without any is told nothing. */
#ifndef RPC_RPC_HUB_H
#define RPC_RPC_HUB_H

#include "base/alloc.h"
#include "mvcc/mvcc.h"

struct rpc_hub;

/* Gives a hub, freed with rpc_hub_free(). Borrows `mvcc` for life. Errors: E_NOMEM. */
int rpc_hub_new(struct mvcc *mvcc, const struct alloc *alloc, struct rpc_hub **out);
/* No thread may be left in it. NULL is allowed. */
void rpc_hub_free(struct rpc_hub *h);

/* Tells what was published since the last call. Apply actor. */
void rpc_hub_publish(struct rpc_hub *h);

#endif
