/* The store as a whole: its numbers, and the life of its two runs.
 *
 * The pair for a retirement is made at the swap already, so that nothing can fail once a commit is durable. */
#include "mvcc/mvcc_int.h"

int64_t mvcc_revision(const struct mvcc *m)
{
    return atomic_load_explicit(&m->published, memory_order_acquire);
}

int64_t mvcc_compacted(const struct mvcc *m)
{
    return atomic_load_explicit(&m->compacted, memory_order_acquire);
}

size_t mvcc_run_bytes(const struct mvcc *m)
{
    return atomic_load_explicit(&m->run_bytes, memory_order_relaxed);
}

uint64_t mvcc_key_count(const struct mvcc *m)
{
    return atomic_load_explicit(&m->tree.count, memory_order_relaxed);
}

void mvcc_tick(struct mvcc *m, int64_t now_ms)
{
    atomic_store_explicit(&m->now_ms, now_ms, memory_order_relaxed);
}

uint64_t mvcc_applied_index(const struct mvcc *m)
{
    return m->index;
}

uint64_t mvcc_applied_term(const struct mvcc *m)
{
    return m->term;
}

void mvcc_free(struct mvcc *m)
{
    if (m == NULL) return;
    ASSERT(m->job == NULL);
    if (m->read != NULL) m->backend->read_end(m->read);
    mvcc__load_free(m);
    mvcc__tree_free(&m->tree);
    mvcc__pair_unref(m->pair);
    mvcc__pair_unref(m->next_pair);
    mvcc__pins_free(m);
    alloc_free(m->alloc, m, sizeof *m);
}

/* --- runs --- */

size_t mvcc_active_bytes(const struct mvcc *m)
{
    return m->pair->active->bytes;
}

bool mvcc_active_is_trivial(const struct mvcc *m)
{
    return mvcc_run_is_trivial(m->pair->active);
}

bool mvcc_run_full(const struct mvcc *m)
{
    return m->pair->frozen != NULL && m->pair->active->bytes >= m->run_bytes_max;
}

/* Puts `fresh` in place of the pair; readers hold their own references. */
static void pair_replace(struct mvcc *m, struct mvcc_pair *fresh)
{
    struct mvcc_pair *old = m->pair;
    mvcc__write_lock(m);
    m->pair = fresh;
    mvcc__write_unlock(m);
    mvcc__pair_unref(old);
}

int mvcc_run_swap(struct mvcc *m, struct mvcc_run **out)
{
    struct mvcc_run *full = m->pair->active;
    bool between = !m->in_entry || PLANTED(PLANT_SPLIT_ENTRY);
    if (!between || m->pair->frozen != NULL || !full->sealed) {
        *out = NULL;
        return 0;
    }
    struct mvcc_run *fresh = mvcc__run_new(m->alloc, full->seq + 1);
    if (fresh == NULL) return E_NOMEM;
    struct mvcc_pair *now = mvcc__pair_new(m->alloc, fresh, full);
    struct mvcc_pair *later = now == NULL ? NULL : mvcc__pair_new(m->alloc, fresh, NULL);
    if (later == NULL) {
        if (now == NULL) {
            atomic_store(&fresh->refs, 1);
            mvcc__run_unref(fresh);
        }
        mvcc__pair_unref(now);
        return E_NOMEM;
    }
    ASSERT(m->next_pair == NULL);
    m->next_pair = later;
    pair_replace(m, now);
    *out = full;
    return 0;
}

void mvcc_run_retire(struct mvcc *m, struct mvcc_run *run)
{
    ASSERT(run != NULL);
    ASSERT(m->pair->frozen == run);
    struct mvcc_pair *later = m->next_pair;
    m->next_pair = NULL;
    m->durable_seq = run->seq;
    atomic_fetch_sub_explicit(&m->run_bytes, run->bytes, memory_order_relaxed);
    pair_replace(m, later);
}

void mvcc_run_hold(struct mvcc_run *run)
{
    ASSERT(run->sealed);
    atomic_fetch_add_explicit(&run->refs, 1, memory_order_relaxed);
}

void mvcc_run_release(struct mvcc_run *run)
{
    mvcc__run_unref(run);
}
