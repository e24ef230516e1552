/* The writer: one entry at a time, sealed as a whole.
 *
 * A change goes to the active run first, then to the index; both are ahead of the published revision and so unseen. The
 * seal binds them to (index, term), sets a compaction mark, and publishes the revision last. The index lock is held for a few
 * stores per key only: memory is got before, old arrays are freed behind it. */
#include "mvcc/mvcc_int.h"
#include "pb/kv.h"

void mvcc_entry_begin(struct mvcc *m)
{
    ASSERT(!m->in_entry);
    ASSERT(m->load == NULL);
    m->in_entry = true;
    m->has_mark = false;
    m->main = mvcc_revision(m) + 1;
    m->sub = 0;
}

int64_t mvcc_entry_revision(const struct mvcc *m)
{
    ASSERT(m->in_entry);
    return m->sub > 0 ? m->main : m->main - 1;
}

/* Appends the row of a change to the run. */
static int write_row(struct mvcc *m, const struct pb_kv *kv, bool tomb)
{
    struct mvcc_run *run = m->pair->active;
    size_t before = run->bytes;
    uint8_t *at;
    size_t n = pb_kv_size(kv);
    int rc = mvcc__run_row(run, m->main, m->sub, tomb, n, &at);
    if (rc < 0) return rc;
    uint8_t *end = pb_kv_write(kv, at);
    ASSERT(end == at + n);
    mvcc__run_publish(run);
    atomic_fetch_add_explicit(&m->run_bytes, run->bytes - before, memory_order_relaxed);
    return 0;
}

static void count_change(struct mvcc *m)
{
    ASSERT(m->sub < SUB_MAX);
    m->sub++;
    if (PLANTED(PLANT_PUBLISH_EARLY)) atomic_store(&m->published, m->main);
}

static int put_known(struct mvcc *m, struct mvcc_leaf *leaf, struct mvcc_item *it,
                     const struct pb_kv *kv)
{
    struct mvcc_item_change ch;
    int rc = mvcc__item_prepare(m->alloc, it, &ch);
    if (rc < 0) return rc;
    rc = write_row(m, kv, false);
    if (rc < 0) {
        if (ch.hist != NULL) ch.old = ch.hist;
        mvcc__item_settle(m->alloc, &ch);
        return rc;
    }
    mvcc__write_lock(m);
    mvcc__leaf_changed(leaf, m->main, !it->tomb, true);
    mvcc__item_store(it, &ch, m->main, m->sub, false);
    it->leased = kv->lease != 0;
    mvcc__write_unlock(m);
    mvcc__item_settle(m->alloc, &ch);
    return 0;
}

static int put_new(struct mvcc *m, struct mvcc_path *p, const struct pb_kv *kv)
{
    struct mvcc_item *it = mvcc__item_new(m->alloc, kv->key);
    if (it == NULL) return E_NOMEM;
    struct mvcc_item_change none = {0};
    mvcc__item_store(it, &none, m->main, m->sub, false);
    it->leased = kv->lease != 0;
    struct mvcc_spare spare;
    int rc = mvcc__tree_reserve(&m->tree, p, &spare);
    if (rc == 0) {
        rc = write_row(m, kv, false);
        if (rc < 0) mvcc__spare_free(&m->tree, &spare);
    }
    if (rc < 0) {
        mvcc__item_free(m->alloc, it);
        return rc;
    }
    mvcc__write_lock(m);
    mvcc__tree_insert(&m->tree, p, &spare, it);
    mvcc__write_unlock(m);
    return 0;
}

static struct mvcc_item *path_item(const struct mvcc_path *p, struct bytes key)
{
    if (p->leaf == NULL || p->slot >= p->leaf->count) return NULL;
    struct mvcc_item *it = p->leaf->items[p->slot];
    return bytes_eq(mvcc__item_key(it), key) ? it : NULL;
}

int mvcc_write_put(struct mvcc *m, struct bytes key, struct bytes value, int64_t lease,
                   struct mvcc_row *out)
{
    ASSERT(m->in_entry);
    ASSERT(key.len <= KEY_LEN_MAX);
    struct mvcc_path p;
    mvcc__tree_seek(&m->tree, key, &p);
    struct mvcc_item *it = path_item(&p, key);
    bool lives = it != NULL && !it->tomb;
    struct mvcc_row row = {.mod = m->main,
                           .create = lives ? it->create : m->main,
                           .version = lives ? it->version + 1 : 1,
                           .sub = m->sub};
    struct pb_kv kv = {.key = key,
                       .create_revision = row.create,
                       .mod_revision = row.mod,
                       .version = row.version,
                       .value = value,
                       .lease = lease};
    int rc = it != NULL ? put_known(m, p.leaf, it, &kv) : put_new(m, &p, &kv);
    if (rc < 0) return rc;
    count_change(m);
    if (out != NULL) *out = row;
    return 0;
}

int mvcc_write_get(const struct mvcc *m, struct bytes key, struct mvcc_row *out)
{
    const struct mvcc_item *it = mvcc__tree_get(&m->tree, key);
    if (it == NULL || !mvcc__item_at(it, INT64_MAX, out)) return E_NOTFOUND;
    return 0;
}

int mvcc_write_kv(struct mvcc *m, const struct mvcc_row *row, struct bytes *kv, struct errmsg *em)
{
    ASSERT(m->in_entry);
    if (mvcc__pair_find(m->pair, row->mod, row->sub, kv)) return 0;
    if (m->read == NULL) {
        struct backend_read *r;
        int rc = m->backend->read_begin(m->backend->arg, &r, em);
        if (rc < 0) return rc;
        m->read = r;
    }
    return mvcc__backend_kv(m->backend, m->read, row, kv, em);
}

static int table_op(struct mvcc *m, enum table t, bool del, struct bytes key, struct bytes value)
{
    ASSERT(m->in_entry);
    ASSERT(t != TABLE_KEY);
    ASSERT(t < TABLE_COUNT);
    struct mvcc_run *run = m->pair->active;
    size_t before = run->bytes;
    int rc = mvcc__run_op(run, t, del, key, value);
    if (rc < 0) return rc;
    atomic_fetch_add_explicit(&m->run_bytes, run->bytes - before, memory_order_relaxed);
    return 0;
}

int mvcc_table_put(struct mvcc *m, enum table t, struct bytes key, struct bytes value)
{
    return table_op(m, t, false, key, value);
}

int mvcc_table_del(struct mvcc *m, enum table t, struct bytes key)
{
    return table_op(m, t, true, key, BYTES_EMPTY);
}

int mvcc_write_compact(struct mvcc *m, int64_t rev)
{
    ASSERT(m->in_entry);
    if (rev <= mvcc_compacted(m) || (m->has_mark && rev <= m->mark_rev)) return E_COMPACTED;
    if (rev > mvcc_revision(m)) return E_FUTURE_REV;
    uint8_t key[REV_KEY_TOMB_BYTES];
    int rc = mvcc_table_put(m, TABLE_META, bytes_str("scheduledCompactRev"),
                            mvcc__rev_key(rev, 0, false, key));
    if (rc < 0) return rc;
    m->has_mark = true;
    m->mark_rev = rev;
    return 0;
}

/* Queues the mark. When the queue is full the last one grows instead: its hash is then not complete. */
static void seal_mark(struct mvcc *m)
{
    int64_t prev = mvcc_compacted(m);
    bool complete = m->job == NULL && m->mark_count == 0 && m->finished == prev;
    uint64_t seq = m->pair->active->seq;
    if (m->mark_count == MARKS_MAX) {
        struct mvcc_mark *last = &m->marks[MARKS_MAX - 1];
        *last = (struct mvcc_mark){.rev = m->mark_rev, .prev = last->prev, .seq = seq};
    } else {
        m->marks[m->mark_count++] =
            (struct mvcc_mark){.rev = m->mark_rev, .prev = prev, .seq = seq, .remember = complete};
    }
    mvcc__write_lock(m);
    atomic_store_explicit(&m->compacted, m->mark_rev, memory_order_release);
    mvcc__write_unlock(m);
}

void mvcc_entry_seal(struct mvcc *m, uint64_t index, uint64_t term)
{
    ASSERT(m->in_entry);
    ASSERT(index > m->index);
    struct mvcc_run *run = m->pair->active;
    run->sealed_rows = atomic_load_explicit(&run->row_count, memory_order_relaxed);
    run->sealed_ops = run->op_count;
    run->index = index;
    run->term = term;
    run->sealed = true;
    m->index = index;
    m->term = term;
    if (m->read != NULL) m->backend->read_end(m->read);
    m->read = NULL;
    m->in_entry = false;
    if (m->sub > 0) atomic_store_explicit(&m->published, m->main, memory_order_release);
    if (m->has_mark) seal_mark(m);
    m->has_mark = false;
}

/* --- deleting a range --- */

void mvcc_delete_init(struct mvcc_delete *d, struct mvcc *m, struct bytes key, struct bytes end)
{
    struct mvcc_bounds b = mvcc__bounds(key, end);
    *d = (struct mvcc_delete){.m = m, .key = b.key, .end = b.end};
}

static int note_prev(struct mvcc_delete *d, const struct mvcc_item *it)
{
    if (!d->want_prev) return 0;
    const struct alloc *a = d->m->alloc;
    if (d->prev_count == d->prev_cap) {
        size_t cap = d->prev_cap == 0 ? 8 : 2 * d->prev_cap;
        struct mvcc_row *grown =
            a->resize(a->arg, d->prev, d->prev_cap * sizeof *grown, cap * sizeof *grown);
        if (grown == NULL) return E_NOMEM;
        d->prev = grown;
        d->prev_cap = cap;
    }
    bool lives = mvcc__item_at(it, INT64_MAX, &d->prev[d->prev_count]);
    ASSERT(lives);
    d->prev_count++;
    return 0;
}

static int delete_item(struct mvcc_delete *d, struct mvcc_item *it)
{
    struct mvcc *m = d->m;
    int rc = note_prev(d, it);
    if (rc < 0) return rc;
    struct mvcc_item_change ch;
    rc = mvcc__item_prepare(m->alloc, it, &ch);
    if (rc < 0) return rc;
    struct pb_kv kv = {.key = mvcc__item_key(it)};
    rc = write_row(m, &kv, true);
    if (rc < 0) {
        if (ch.hist != NULL) ch.old = ch.hist;
        mvcc__item_settle(m->alloc, &ch);
        return rc;
    }
    bool leased = it->leased;
    mvcc__write_lock(m);
    mvcc__leaf_changed(d->leaf, m->main, true, false);
    mvcc__item_store(it, &ch, m->main, m->sub, true);
    it->leased = false;
    mvcc__write_unlock(m);
    mvcc__item_settle(m->alloc, &ch);
    count_change(m);
    d->count++;
    if (leased && d->on_lease != NULL) d->on_lease(d->arg, mvcc__item_key(it));
    return 0;
}

int mvcc_delete_step(struct mvcc_delete *d, size_t keys_max)
{
    struct mvcc *m = d->m;
    ASSERT(m->in_entry);
    struct mvcc_bounds b = mvcc__bounds(d->key, d->end);
    if (!d->started) {
        struct mvcc_path p;
        mvcc__tree_seek(&m->tree, d->key, &p);
        d->leaf = p.leaf;
        d->slot = p.slot;
        d->started = true;
    }
    for (; keys_max > 0; keys_max--) {
        struct mvcc_item *it = mvcc__tree_item(&d->leaf, &d->slot);
        if (it == NULL || mvcc__beyond(&b, mvcc__item_key(it))) return 0;
        int rc = it->tomb ? 0 : delete_item(d, it);
        if (rc < 0) return rc;
        d->slot++;
    }
    return 1;
}

void mvcc_delete_deinit(struct mvcc_delete *d)
{
    alloc_free(d->m->alloc, d->prev, d->prev_cap * sizeof *d->prev);
    d->prev = NULL;
    d->prev_cap = d->prev_count = 0;
}
