/* The hashes of bbolt-format.md 11, and what compaction shares with them.
 *
 * Rows are gathered into batches; only those at or below the compact revision need the index, and a batch of
 * them is looked up in one hold of the lock. The keep set is never built: a row is in it when it is the newest of its key at the
 * hashed revision. Only whether the set is empty has to be known beforehand, which the first live key settles. */
#include "base/crc32c.h"
#include "mvcc/mvcc_int.h"
#include "pb/kv.h"

/* --- shared with the lister --- */

int mvcc__batch_add(struct mvcc_batch *b, struct bytes k, struct bytes v, int64_t rev_max,
                    struct errmsg *em)
{
    ASSERT(b->count < MVCC_BATCH_ROWS);
    struct mvcc_batch_row *row = &b->rows[b->count];
    struct pb_kv kv;
    if (mvcc__rev_parse(k, &row->rev, &row->tomb) < 0) {
        errmsg_set(em, "table \"key\": a key of %zu bytes is no revision", k.len);
        return E_CORRUPT;
    }
    if (row->rev.main > rev_max) return E_NOTFOUND;
    if (pb_kv_decode(v, &kv) < 0) {
        errmsg_set(em, "table \"key\": revision %lld,%u holds no KeyValue",
                   (long long)row->rev.main, row->rev.sub);
        return E_CORRUPT;
    }
    row->key = kv.key;
    row->kv = v;
    row->kept = false;
    b->count++;
    return 0;
}

void mvcc__batch_look_up(struct mvcc *m, struct mvcc_batch *b, int64_t rev, int64_t below)
{
    mvcc__read_lock(m);
    for (size_t i = 0; i < b->count; i++) {
        struct mvcc_batch_row *row = &b->rows[i];
        if (row->tomb || row->rev.main > below) continue;
        const struct mvcc_item *it = mvcc__tree_get(&m->tree, row->key);
        row->kept = it != NULL && mvcc__item_is_newest(it, rev, row->rev.main, row->rev.sub);
    }
    mvcc__read_unlock(m);
}

uint32_t mvcc__hash_row(uint32_t crc, const struct mvcc_batch_row *row, int64_t compact_rev,
                        bool kept)
{
    if (row->rev.main <= compact_rev && !kept) return crc;
    if (row->rev.main == compact_rev && row->tomb) return crc;
    uint8_t key[REV_KEY_TOMB_BYTES];
    struct bytes k = mvcc__rev_key(row->rev.main, row->rev.sub, row->tomb, key);
    crc = crc32c_update(crc, k.data, k.len);
    return crc32c_update(crc, row->kv.data, row->kv.len);
}

int mvcc__keep_scan(struct mvcc *m, struct mvcc_keep *k, size_t keys_max)
{
    struct mvcc_path p;
    struct mvcc_row row;
    int rc = 0;
    mvcc__read_lock(m);
    mvcc__tree_seek(&m->tree, bytes_of(k->key, k->key_len), &p);
    for (;; p.slot++) {
        const struct mvcc_item *it = mvcc__tree_item(&p.leaf, &p.slot);
        bool in = it != NULL &&
                  (mvcc__item_at(it, k->rev, &row) || (k->tombs && mvcc__item_tomb_at(it, k->rev)));
        k->known = it == NULL || in;
        k->empty = it == NULL;
        if (k->known) break;
        if (keys_max-- > 0) continue;
        rc = mvcc__key_copy(m->alloc, mvcc__item_key(it), &k->key, &k->key_len, &k->key_cap);
        break;
    }
    mvcc__read_unlock(m);
    return rc;
}

/* --- HashKV --- */

/* The remembered hash of a compaction at `rev`, if there is one. */
static bool hash_recall(struct mvcc *m, int64_t rev, struct mvcc_hash_answer *out)
{
    bool found = false;
    mvcc__read_lock(m);
    for (uint32_t i = 0; i < m->hash_count && !found; i++) {
        found = m->hashes[i].hash_rev == rev;
        if (found) *out = m->hashes[i];
    }
    mvcc__read_unlock(m);
    return found;
}

int mvcc_hash_open(struct mvcc *m, int64_t rev, struct mvcc_hash *out)
{
    struct mvcc_hash h = {0};
    if (rev > 0 && hash_recall(m, rev, &h.answer)) {
        h.answer.current_rev = mvcc_revision(m);
        h.cached = true;
        *out = h;
        return 0;
    }
    int rc = mvcc__view_open_hash(m, rev, &h.v);
    if (rc < 0) return rc;
    h.answer = (struct mvcc_hash_answer){
        .compact_rev = h.v.compacted, .hash_rev = h.v.rev, .current_rev = h.v.current};
    h.keep = (struct mvcc_keep){.rev = h.v.rev, .known = h.v.compacted < 0};
    h.crc = crc32c(bytes_str(table_name(TABLE_KEY)));
    *out = h;
    mvcc_history_init(&out->h, &out->v, 0, out->v.rev);
    return 0;
}

/* One batch of rows; E_NOTFOUND when they are at an end. */
static int hash_batch(struct mvcc_hash *h, struct errmsg *em, size_t *done)
{
    struct mvcc_batch b;
    b.count = 0;
    int rc = 0;
    while (rc == 0 && b.count < MVCC_BATCH_ROWS) {
        struct mvcc_change c;
        uint8_t key[REV_KEY_TOMB_BYTES];
        rc = mvcc_history_next(&h->h, &c, em);
        if (rc < 0) break;
        rc = mvcc__batch_add(&b, mvcc__rev_key(c.main, c.sub, c.deletion, key), c.kv, c.main, em);
    }
    if (rc < 0 && rc != E_NOTFOUND) return rc;
    bool need = b.count > 0 && b.rows[0].rev.main <= h->answer.compact_rev;
    if (need) mvcc__batch_look_up(h->v.m, &b, h->v.rev, h->answer.compact_rev);
    for (size_t i = 0; i < b.count; i++) {
        h->crc = mvcc__hash_row(h->crc, &b.rows[i], h->answer.compact_rev,
                                b.rows[i].kept || h->keep.empty);
    }
    *done += b.count;
    return rc;
}

int mvcc_hash_step(struct mvcc_hash *h, size_t rows_max, struct errmsg *em)
{
    if (h->cached) return 0;
    int rc = 0;
    if (!h->keep.known) {
        rc = mvcc__keep_scan(h->v.m, &h->keep, rows_max);
        return rc < 0 ? rc : 1;
    }
    for (size_t done = 0; rc == 0 && done < rows_max;) {
        rc = hash_batch(h, em, &done);
    }
    if (rc < 0 && rc != E_NOTFOUND) return rc;
    if (mvcc__pin_broken(h->v.pin)) return E_INTR;
    h->answer.hash = h->crc;
    return rc == E_NOTFOUND ? 0 : 1;
}

void mvcc_hash_close(struct mvcc_hash *h)
{
    if (h->cached) return;
    mvcc_history_deinit(&h->h);
    alloc_free(h->v.m->alloc, h->keep.key, h->keep.key_cap);
    mvcc_view_close(&h->v);
}

size_t mvcc_hash_remembered(struct mvcc *m, struct mvcc_hash_answer out[MVCC_HASHES_KEPT])
{
    mvcc__read_lock(m);
    size_t n = m->hash_count;
    memcpy(out, m->hashes, n * sizeof out[0]);
    mvcc__read_unlock(m);
    return n;
}

/* --- Hash --- */

/* What members may differ in without being unequal. */
static bool hash_skips(enum table t, struct bytes key)
{
    return t == TABLE_META &&
           (bytes_eq(key, bytes_str("consistent_index")) || bytes_eq(key, bytes_str("term")) ||
            bytes_eq(key, bytes_str("storageVersion")));
}

static int hash_table(const struct backend *b, struct backend_read *r, enum table t, uint32_t *crc)
{
    struct backend_cursor *c;
    struct bytes k, v;
    int rc = b->cursor_open(r, t, &c);
    if (rc < 0) return rc;
    uint32_t sum = crc32c_update(*crc, table_name(t), strlen(table_name(t)));
    for (rc = b->seek(c, BYTES_EMPTY, &k, &v); rc == 0; rc = b->next(c, &k, &v)) {
        if (hash_skips(t, k)) continue;
        sum = crc32c_update(sum, k.data, k.len);
        sum = crc32c_update(sum, v.data, v.len);
    }
    b->cursor_close(c);
    if (rc != E_NOTFOUND) return rc;
    *crc = sum;
    return 0;
}

int mvcc_hash_all(const struct backend *b, struct backend_read *r, uint32_t *out)
{
    uint32_t crc = 0;
    for (int t = 0; t < TABLE_COUNT; t++) {
        int rc = hash_table(b, r, (enum table)t, &crc);
        if (rc < 0) return rc;
    }
    *out = crc;
    return 0;
}
