/* One batch for all threads that have watchers. */
#include "rpc/rpc_hub.h"

#include "base/assert.h"
#include "rpc/rpc_watch_int.h"

enum {
    HUB_THREADS_MAX = 64, /* as many as there may be io threads */
    /* Events that the apply actor encodes at once; a larger publication is read from history by those who need it. */
    HUB_EVENTS_MAX = 4096
};

struct rpc_hub {
    const struct alloc *alloc;
    struct mvcc *mvcc;
    int64_t told;
    atomic_size_t count;
    _Atomic(struct rpc_watch *) threads[HUB_THREADS_MAX];
};

int rpc_hub_new(struct mvcc *mvcc, const struct alloc *alloc, struct rpc_hub **out)
{
    struct rpc_hub *h = alloc_zero(alloc, sizeof *h);
    if (h == NULL) return E_NOMEM;
    h->alloc = alloc;
    h->mvcc = mvcc;
    h->told = mvcc_revision(mvcc);
    *out = h;
    return 0;
}

void rpc_hub_free(struct rpc_hub *h)
{
    if (h == NULL) return;
    for (size_t i = 0; i < atomic_load(&h->count); i++)
        ASSERT(atomic_load(&h->threads[i]) == NULL);
    alloc_free(h->alloc, h, sizeof *h);
}

int rpc__hub_join(struct rpc_hub *h, struct rpc_watch *rw)
{
    size_t at = atomic_load(&h->count);
    if (at == HUB_THREADS_MAX) return E_TOOBIG;
    atomic_store(&h->threads[at], rw);
    atomic_store(&h->count, at + 1);
    return 0;
}

void rpc__hub_leave(struct rpc_hub *h, struct rpc_watch *rw)
{
    for (size_t i = 0; i < atomic_load(&h->count); i++) {
        if (atomic_load(&h->threads[i]) == rw) atomic_store(&h->threads[i], NULL);
    }
}

static struct rpc_watch *active_at(struct rpc_hub *h, size_t i)
{
    struct rpc_watch *rw = atomic_load(&h->threads[i]);
    return rw != NULL && atomic_load(&rw->active) ? rw : NULL;
}

/* The revision is published before `active` is read, and a new watcher sets `active` before it reads the revision: so either
 * it is told here, or it starts behind this publication. */
void rpc_hub_publish(struct rpc_hub *h)
{
    int64_t now = mvcc_revision(h->mvcc);
    if (now == h->told) return;
    int64_t from = h->told + 1;
    h->told = now;
    struct watch_batch *batch = NULL;
    bool made = false;
    for (size_t i = 0; i < atomic_load(&h->count); i++) {
        struct rpc_watch *rw = active_at(h, i);
        if (rw == NULL) continue;
        if (!made) batch = watch_batch_read(h->mvcc, h->alloc, from, now, HUB_EVENTS_MAX);
        made = true;
        rpc__watch_feed(rw, now, watch_batch_ref(batch));
    }
    watch_batch_unref(batch);
}
