/* Memory of the connections of one thread: size classes with free lists.
 *
 * A request costs a dozen small blocks (stream, frames, queued bytes). Kept per thread rather than per
 * connection, an idle connection holds nothing beyond its session. Blocks above the largest class
 * go straight to the allocator. */
#ifndef GRPC_GRPC_POOL_H
#define GRPC_GRPC_POOL_H

#include "base/alloc.h"

struct grpc_pool;

/* Gives a pool that keeps at most `idle_bytes_max` of unused blocks; NULL without memory. Borrows `alloc`
 * for its life. One thread at a time. */
struct grpc_pool *grpc_pool_new(const struct alloc *alloc, size_t idle_bytes_max);
/* All blocks must have come back. A NULL `p` is allowed. */
void grpc_pool_free(struct grpc_pool *p);

/* The pool as an allocator; valid as long as the pool. */
const struct alloc *grpc_pool_alloc(const struct grpc_pool *p);

/* A block of `bytes` > 0, or NULL; grpc_pool_put() takes it back with the same size. */
void *grpc_pool_get(struct grpc_pool *p, size_t bytes);
void grpc_pool_put(struct grpc_pool *p, void *block, size_t bytes);

/* Bytes in blocks that are out, and in blocks that wait in the lists. */
size_t grpc_pool_used_bytes(const struct grpc_pool *p);
size_t grpc_pool_idle_bytes(const struct grpc_pool *p);

#endif
