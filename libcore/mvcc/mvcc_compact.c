/* Compaction: what goes, in portions, and what of the index.
 *
 * A row at or below the mark stays when it is the newest of its key there and no deletion, or a deletion exactly at the
 * mark (upstream keeps those since 3.5.16). So whether a row stays is one look-up in the index, and no set of
 * a million revisions is ever built. A put that follows a deletion of its key in the same transaction is the newest
 * one, and stays (upstream loses it).
 *
 * The lister reads rows and parses them without the lock, then looks up a batch under it: no page fault is ever
 * waited for with the lock held. */
#include "base/crc32c.h"
#include "mvcc/mvcc_int.h"
#include "pb/kv.h"

enum { PORTION_ROWS = 4096 };

struct gone {
    int64_t main;
    uint32_t sub : 31;
    uint32_t tomb : 1;
};

struct mvcc_portion {
    const struct alloc *alloc;
    int64_t finished; /* with the last portion: the revision of the job; else -1 */
    uint32_t count;
    struct gone rows[PORTION_ROWS];
};

struct mvcc_compact {
    struct mvcc *m;
    int64_t rev;
    int64_t prev;
    bool remember;
    /* the lister's */
    struct mvcc_keep keep;
    struct mvcc_rev next; /* where to read on */
    struct mvcc_portion *open;
    uint64_t gone_count;
    uint32_t crc;
    bool listed;
    /* the apply actor's */
    uint8_t *key; /* where pruning goes on */
    size_t key_len, key_cap;
    bool pruning, pruned;
};

bool mvcc_compact_pending(const struct mvcc *m)
{
    return m->job != NULL || m->mark_count > 0;
}

int64_t mvcc_compact_rev(const struct mvcc_compact *c)
{
    return c->rev;
}

int mvcc_compact_begin(struct mvcc *m, struct mvcc_compact **out)
{
    ASSERT(!m->in_entry);
    const struct mvcc_mark *mark = &m->marks[0];
    *out = NULL;
    if (m->job != NULL || m->mark_count == 0) return 0;
    if (mark->seq > m->durable_seq && !PLANTED(PLANT_REMOVE_BEFORE_MARK)) return 0;
    if (mvcc__pins_below(m, mark->rev)) return 0;
    struct mvcc_compact *c = alloc_zero(m->alloc, sizeof *c);
    if (c == NULL) return E_NOMEM;
    c->m = m;
    c->rev = mark->rev;
    c->prev = mark->prev;
    c->remember = mark->remember;
    c->keep = (struct mvcc_keep){.rev = mark->rev, .tombs = true, .known = mark->prev < 0};
    c->crc = crc32c(bytes_str(table_name(TABLE_KEY)));
    m->mark_count--;
    memmove(m->marks, m->marks + 1, m->mark_count * sizeof m->marks[0]);
    m->job = c;
    *out = c;
    return 0;
}

/* --- listing --- */

static int portion_need(struct mvcc_compact *c)
{
    if (c->open != NULL) return 0;
    c->open = alloc_new(c->m->alloc, sizeof *c->open);
    if (c->open == NULL) return E_NOMEM;
    c->open->alloc = c->m->alloc;
    c->open->finished = -1;
    c->open->count = 0;
    return 0;
}

static void portion_give(struct mvcc_compact *c, struct mvcc_portion **out)
{
    *out = c->open;
    c->open = NULL;
}

/* Notes a batch: rows that go into the portion, hashed rows into the sum. */
static void list_batch(struct mvcc_compact *c, const struct mvcc_batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        const struct mvcc_batch_row *row = &b->rows[i];
        bool kept = row->rev.main > c->rev || row->kept || (row->tomb && row->rev.main == c->rev);
        if (!kept) {
            ASSERT(c->open->count < PORTION_ROWS);
            c->open->rows[c->open->count++] = (struct gone){
                .main = row->rev.main, .sub = row->rev.sub & SUB_MAX, .tomb = row->tomb};
            c->gone_count++;
        }
        c->crc = mvcc__hash_row(c->crc, row, c->prev, kept || c->keep.empty);
        c->next = (struct mvcc_rev){row->rev.main, row->rev.sub + 1};
    }
}

static int list_rows(struct mvcc_compact *c, struct backend_cursor *cur, size_t rows_max,
                     struct errmsg *em)
{
    struct mvcc_batch b;
    uint8_t key[REV_KEY_TOMB_BYTES];
    struct bytes k, v;
    int rc = c->m->backend->seek(cur, mvcc__rev_key(c->next.main, c->next.sub, false, key), &k, &v);
    size_t done = 0;
    while (rc == 0 && done < rows_max && c->open->count + MVCC_BATCH_ROWS <= PORTION_ROWS) {
        b.count = 0;
        while (rc == 0 && b.count < MVCC_BATCH_ROWS) {
            rc = mvcc__batch_add(&b, k, v, c->rev, em);
            if (rc == 0) rc = c->m->backend->next(cur, &k, &v);
        }
        if (rc < 0 && rc != E_NOTFOUND) return rc;
        mvcc__batch_look_up(c->m, &b, c->rev, c->rev);
        list_batch(c, &b);
        done += b.count;
    }
    return rc == E_NOTFOUND ? 0 : rc < 0 ? rc : 1;
}

static int list_through(struct mvcc_compact *c, size_t rows_max, struct errmsg *em)
{
    const struct backend *b = c->m->backend;
    struct backend_read *r;
    struct backend_cursor *cur;
    int rc = b->read_begin(b->arg, &r, em);
    if (rc < 0) return rc;
    rc = b->cursor_open(r, TABLE_KEY, &cur);
    if (rc == 0) {
        rc = list_rows(c, cur, rows_max, em);
        b->cursor_close(cur);
    }
    b->read_end(r);
    return rc;
}

int mvcc_compact_list(struct mvcc_compact *c, size_t rows_max, struct mvcc_portion **portion,
                      struct errmsg *em)
{
    ASSERT(!c->listed);
    *portion = NULL;
    if (!c->keep.known) {
        int rc = mvcc__keep_scan(c->m, &c->keep, rows_max);
        return rc < 0 ? rc : 1;
    }
    int rc = portion_need(c);
    if (rc == 0) rc = list_through(c, rows_max, em);
    if (rc < 0) return rc;
    if (rc == 0) {
        c->open->finished = c->rev;
        c->listed = true;
    }
    if (rc == 0 || c->open->count + MVCC_BATCH_ROWS > PORTION_ROWS) portion_give(c, portion);
    return rc;
}

/* --- deleting --- */

int mvcc_portion_write(const struct mvcc_portion *p, const struct backend *b, struct backend_tx *tx,
                       struct errmsg *em)
{
    uint8_t key[REV_KEY_TOMB_BYTES];
    for (uint32_t i = 0; i < p->count; i++) {
        const struct gone *g = &p->rows[i];
        int rc = b->del(tx, TABLE_KEY, mvcc__rev_key(g->main, g->sub, g->tomb, key), em);
        if (rc < 0) return rc;
    }
    if (p->finished < 0) return 0;
    return b->put(tx, TABLE_META, bytes_str("finishedCompactRev"),
                  mvcc__rev_key(p->finished, 0, false, key), em);
}

size_t mvcc_portion_rows(const struct mvcc_portion *p)
{
    return p->count;
}

bool mvcc_portion_is_last(const struct mvcc_portion *p)
{
    return p->finished >= 0;
}

void mvcc_portion_free(struct mvcc_portion *p)
{
    if (p != NULL) alloc_free(p->alloc, p, sizeof *p);
}

/* --- pruning the index --- */

/* Takes the whole item out; the path leads to it. */
static void prune_remove(struct mvcc *m, struct mvcc_item *it)
{
    struct mvcc_path p;
    mvcc__tree_seek(&m->tree, mvcc__item_key(it), &p);
    mvcc__write_lock(m);
    mvcc__tree_remove(&m->tree, &p);
    mvcc__write_unlock(m);
    mvcc__item_free(m->alloc, it);
}

static void prune_item(struct mvcc *m, struct mvcc_item *it, struct mvcc_item_change *ch)
{
    mvcc__write_lock(m);
    mvcc__item_prune_store(it, ch);
    mvcc__write_unlock(m);
    mvcc__item_settle(m->alloc, ch);
}

/* From the remembered key on until something is removed, for that may move everything. Returns how many keys
 * were looked at; `*end` when there are no more. */
static int prune_stretch(struct mvcc_compact *c, size_t keys_max, size_t *seen, bool *end)
{
    struct mvcc *m = c->m;
    struct mvcc_path p;
    mvcc__tree_seek(&m->tree, bytes_of(c->key, c->key_len), &p);
    for (;; p.slot++, ++*seen) {
        struct mvcc_item *it = mvcc__tree_item(&p.leaf, &p.slot);
        *end = it == NULL;
        if (it == NULL) return 0;
        struct mvcc_item_change ch = {0};
        int rc = *seen >= keys_max ? 2 : mvcc__item_prune_plan(m->alloc, it, c->rev, &ch);
        if (rc == 0) continue;
        if (rc == 1) {
            prune_item(m, it, &ch);
            continue;
        }
        int kept = mvcc__key_copy(m->alloc, mvcc__item_key(it), &c->key, &c->key_len, &c->key_cap);
        if (rc < 0 || kept < 0) return rc < 0 ? rc : kept;
        if (*seen < keys_max) prune_remove(m, it);
        ++*seen;
        return 0;
    }
}

int mvcc_compact_prune(struct mvcc_compact *c, size_t keys_max)
{
    ASSERT(c->listed);
    ASSERT(!c->m->in_entry);
    size_t seen = 0;
    bool end = c->pruned;
    while (!end && seen < keys_max) {
        int rc = prune_stretch(c, keys_max, &seen, &end);
        if (rc < 0) return rc;
    }
    c->pruned = end;
    return end ? 0 : 1;
}

/* --- the end --- */

/* Newest revision first; the oldest falls out. */
static void hash_remember(struct mvcc *m, struct mvcc_hash_answer a)
{
    mvcc__write_lock(m);
    if (m->hash_count == MVCC_HASHES_KEPT) m->hash_count--;
    memmove(m->hashes + 1, m->hashes, m->hash_count * sizeof m->hashes[0]);
    m->hashes[0] = a;
    m->hash_count++;
    mvcc__write_unlock(m);
}

void mvcc_compact_end(struct mvcc_compact *c)
{
    struct mvcc *m = c->m;
    ASSERT(m->job == c);
    ASSERT(c->listed);
    ASSERT(c->pruned);
    ASSERT(c->open == NULL);
    LOG(m->log, LOG_INFO, "finished scheduled compaction", LOGF_INT("compact-revision", c->rev),
        LOGF_UINT("number-of-keys-compacted", c->gone_count), LOGF_UINT("hash", c->crc));
    if (c->remember) {
        hash_remember(m, (struct mvcc_hash_answer){
                             .hash = c->crc, .compact_rev = c->prev, .hash_rev = c->rev});
    }
    m->finished = c->rev;
    mvcc_compact_abandon(c);
}

void mvcc_compact_abandon(struct mvcc_compact *c)
{
    if (c == NULL) return;
    struct mvcc *m = c->m;
    m->job = NULL;
    mvcc_portion_free(c->open);
    alloc_free(m->alloc, c->keep.key, c->keep.key_cap);
    alloc_free(m->alloc, c->key, c->key_cap);
    alloc_free(m->alloc, c, sizeof *c);
}
