/* Write-buffer runs: applied rows that no commit has made durable yet.
 *
 * A run is append-only. Bytes lie in chunks, row descriptors in segments that double in size; neither ever moves,
 * so a reader needs no lock: it loads row_count, and all rows below it are complete. Rows come in revision order, so
 * one is found by bisection. Changes to the other tables are a list beside them; only commits read that.
 *
 * The pair of runs that readers see is immutable too: swapping and retiring make a new pair. A view holds its pair, the
 * pair holds its runs, the last one to let go frees, on whatever thread. */
#include "mvcc/mvcc_int.h"

enum { CHUNK_BYTES_MIN = 4096, CHUNK_BYTES_MAX = 256 * 1024 };

struct mvcc_chunk {
    struct mvcc_chunk *next;
    size_t bytes; /* with this head */
};

struct mvcc_run *mvcc__run_new(const struct alloc *a, uint64_t seq)
{
    struct mvcc_run *r = alloc_zero(a, sizeof *r);
    if (r == NULL) return NULL;
    r->alloc = a;
    r->seq = seq;
    return r;
}

static size_t seg_rows(uint32_t k)
{
    return (size_t)RUN_SEG_ROWS_MIN << k;
}

/* Segment k begins at row RUN_SEG_ROWS_MIN * (2^k - 1). */
static uint32_t seg_of(size_t i, size_t *at)
{
    uint64_t x = i / RUN_SEG_ROWS_MIN + 1;
    uint32_t k = 63u - (uint32_t)__builtin_clzll(x);
    *at = i - RUN_SEG_ROWS_MIN * (((size_t)1 << k) - 1);
    return k;
}

static void run_free(struct mvcc_run *r)
{
    const struct alloc *a = r->alloc;
    while (r->chunks != NULL) {
        struct mvcc_chunk *c = r->chunks;
        r->chunks = c->next;
        alloc_free(a, c, c->bytes);
    }
    for (uint32_t k = 0; k < RUN_SEGS; k++) {
        alloc_free(a, r->row_segs[k], seg_rows(k) * sizeof *r->row_segs[k]);
        alloc_free(a, r->op_segs[k], seg_rows(k) * sizeof *r->op_segs[k]);
    }
    alloc_free(a, r, sizeof *r);
}

void mvcc__run_unref(struct mvcc_run *r)
{
    if (r == NULL) return;
    if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1) run_free(r);
}

/* --- appending --- */

/* Room for `n` bytes; a big piece gets a chunk of its own and leaves the open one as it is. */
static uint8_t *run_room(struct mvcc_run *r, size_t n)
{
    if (n <= (size_t)(r->room_end - r->room)) {
        uint8_t *at = r->room;
        r->room += n;
        return at;
    }
    size_t want = r->bytes < CHUNK_BYTES_MIN ? CHUNK_BYTES_MIN : r->bytes;
    if (want > CHUNK_BYTES_MAX) want = CHUNK_BYTES_MAX;
    bool own = n > want / 4;
    size_t bytes = sizeof(struct mvcc_chunk) + (own ? n : want);
    struct mvcc_chunk *c = alloc_new(r->alloc, bytes);
    if (c == NULL) return NULL;
    *c = (struct mvcc_chunk){.next = r->chunks, .bytes = bytes};
    r->chunks = c;
    uint8_t *data = (uint8_t *)(c + 1);
    if (own) return data;
    r->room = data + n;
    r->room_end = data + want;
    return data;
}

int mvcc__run_row(struct mvcc_run *r, int64_t main, uint32_t sub, bool tomb, size_t kv_len,
                  uint8_t **kv)
{
    size_t i = atomic_load_explicit(&r->row_count, memory_order_relaxed), at;
    uint32_t k = seg_of(i, &at);
    ASSERT(k < RUN_SEGS);
    ASSERT(kv_len <= UINT32_MAX);
    if (r->row_segs[k] == NULL) {
        r->row_segs[k] = alloc_new(r->alloc, seg_rows(k) * sizeof(struct mvcc_run_row));
        if (r->row_segs[k] == NULL) return E_NOMEM;
    }
    uint8_t *data = run_room(r, kv_len);
    if (data == NULL) return E_NOMEM;
    r->row_segs[k][at] = (struct mvcc_run_row){
        .kv = data, .main = main, .sub = sub & SUB_MAX, .tomb = tomb, .kv_len = (uint32_t)kv_len};
    r->bytes += kv_len + sizeof(struct mvcc_run_row);
    *kv = data;
    return 0;
}

void mvcc__run_publish(struct mvcc_run *r)
{
    atomic_fetch_add_explicit(&r->row_count, 1, memory_order_release);
}

int mvcc__run_op(struct mvcc_run *r, enum table t, bool del, struct bytes key, struct bytes value)
{
    size_t at;
    uint32_t k = seg_of(r->op_count, &at);
    ASSERT(k < RUN_SEGS);
    ASSERT(key.len <= UINT32_MAX && value.len <= UINT32_MAX);
    if (r->op_segs[k] == NULL) {
        r->op_segs[k] = alloc_new(r->alloc, seg_rows(k) * sizeof(struct mvcc_run_op));
        if (r->op_segs[k] == NULL) return E_NOMEM;
    }
    uint8_t *data = run_room(r, key.len + value.len);
    if (data == NULL) return E_NOMEM;
    if (key.len > 0) memcpy(data, key.data, key.len);
    if (value.len > 0) memcpy(data + key.len, value.data, value.len);
    r->op_segs[k][at] = (struct mvcc_run_op){.data = data,
                                             .key_len = (uint32_t)key.len,
                                             .value_len = (uint32_t)value.len,
                                             .table = t,
                                             .del = del};
    r->bytes += key.len + value.len + sizeof(struct mvcc_run_op);
    r->op_count++;
    return 0;
}

/* --- reading --- */

const struct mvcc_run_row *mvcc__run_at(const struct mvcc_run *r, size_t i)
{
    size_t at;
    uint32_t k = seg_of(i, &at);
    return &r->row_segs[k][at];
}

size_t mvcc__run_lower(const struct mvcc_run *r, size_t n, int64_t main, uint32_t sub)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct mvcc_run_row *row = mvcc__run_at(r, mid);
        if (mvcc__rev_less(row->main, row->sub, main, sub)) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static bool run_find(const struct mvcc_run *r, int64_t main, uint32_t sub, struct bytes *kv)
{
    if (r == NULL) return false;
    size_t n = atomic_load_explicit(&r->row_count, memory_order_acquire);
    if (n == 0) return false;
    const struct mvcc_run_row *first = mvcc__run_at(r, 0);
    if (mvcc__rev_less(main, sub, first->main, first->sub)) return false;
    size_t i = mvcc__run_lower(r, n, main, sub);
    if (i == n) return false;
    const struct mvcc_run_row *row = mvcc__run_at(r, i);
    if (row->main != main || row->sub != sub || row->tomb) return false;
    *kv = bytes_of(row->kv, row->kv_len);
    return true;
}

struct mvcc_pair *mvcc__pair_new(const struct alloc *a, struct mvcc_run *active,
                                 struct mvcc_run *frozen)
{
    struct mvcc_pair *p = alloc_zero(a, sizeof *p);
    if (p == NULL) return NULL;
    p->alloc = a;
    p->active = active;
    p->frozen = frozen;
    atomic_store_explicit(&p->refs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&active->refs, 1, memory_order_relaxed);
    if (frozen != NULL) atomic_fetch_add_explicit(&frozen->refs, 1, memory_order_relaxed);
    return p;
}

struct mvcc_pair *mvcc__pair_ref(struct mvcc_pair *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void mvcc__pair_unref(struct mvcc_pair *p)
{
    if (p == NULL) return;
    if (atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
    mvcc__run_unref(p->active);
    mvcc__run_unref(p->frozen);
    alloc_free(p->alloc, p, sizeof *p);
}

bool mvcc__pair_find(const struct mvcc_pair *p, int64_t main, uint32_t sub, struct bytes *kv)
{
    return run_find(p->active, main, sub, kv) || run_find(p->frozen, main, sub, kv);
}

/* --- committing --- */

uint64_t mvcc_run_index(const struct mvcc_run *run)
{
    return run->index;
}

uint64_t mvcc_run_term(const struct mvcc_run *run)
{
    return run->term;
}

bool mvcc_run_is_trivial(const struct mvcc_run *run)
{
    return run->sealed_rows == 0 && run->sealed_ops == 0;
}

static int write_rows(const struct mvcc_run *run, const struct backend *b, struct backend_tx *tx,
                      struct errmsg *em)
{
    for (size_t i = 0; i < run->sealed_rows; i++) {
        const struct mvcc_run_row *row = mvcc__run_at(run, i);
        uint8_t key[REV_KEY_TOMB_BYTES];
        int rc = b->put(tx, TABLE_KEY, mvcc__rev_key(row->main, row->sub, row->tomb, key),
                        bytes_of(row->kv, row->kv_len), em);
        if (rc < 0) return rc;
    }
    return 0;
}

static int write_ops(const struct mvcc_run *run, const struct backend *b, struct backend_tx *tx,
                     struct errmsg *em)
{
    for (size_t i = 0; i < run->sealed_ops; i++) {
        size_t at;
        uint32_t k = seg_of(i, &at);
        const struct mvcc_run_op *op = &run->op_segs[k][at];
        struct bytes key = bytes_of(op->data, op->key_len);
        int rc = op->del ? b->del(tx, op->table, key, em)
                         : b->put(tx, op->table, key,
                                  bytes_of(op->data + op->key_len, op->value_len), em);
        if (rc < 0) return rc;
    }
    return 0;
}

static int write_u64(const struct backend *b, struct backend_tx *tx, const char *name, uint64_t v,
                     struct errmsg *em)
{
    uint8_t be[8];
    endian_store_be64(be, v);
    return b->put(tx, TABLE_META, bytes_str(name), bytes_of(be, sizeof be), em);
}

int mvcc_run_write(const struct mvcc_run *run, const struct backend *b, struct backend_tx *tx,
                   struct errmsg *em)
{
    ASSERT(run->sealed);
    int rc = write_rows(run, b, tx, em);
    if (rc == 0) rc = write_ops(run, b, tx, em);
    if (rc < 0 || run->index == 0) return rc; /* index 0 is never written */
    rc = write_u64(b, tx, "consistent_index", run->index, em);
    if (rc == 0) rc = write_u64(b, tx, "term", run->term, em);
    return rc;
}
