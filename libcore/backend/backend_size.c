/* The size of the store, as quotas and status see it.
 *
 * LMDB counts pages up to the last one used; which of them are free stands in its table 0, one row per
 * transaction whose first word is a count. So a look at each row's head is enough; the answer is kept for the
 * transaction it belongs to. */
#include "backend/backend_int.h"
#include "base/assert.h"
#include "base/err.h"

#define FREE_LIST_DBI 0

static int count_free(MDB_txn *txn, uint64_t *out)
{
    MDB_cursor *c = NULL;
    int rc = mdb_cursor_open(txn, FREE_LIST_DBI, &c);
    if (rc != 0) return rc;
    MDB_val k, v;
    uint64_t total = 0;
    for (rc = mdb_cursor_get(c, &k, &v, MDB_FIRST); rc == 0;
         rc = mdb_cursor_get(c, &k, &v, MDB_NEXT)) {
        uint64_t count = 0;
        if (v.mv_size < sizeof count) continue;
        memcpy(&count, v.mv_data, sizeof count);
        total += count;
    }
    mdb_cursor_close(c);
    if (rc == MDB_NOTFOUND) *out = total;
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static bool cached(struct backend_lmdb *b, uint64_t txn_id, struct backend_size *out)
{
    if (atomic_flag_test_and_set_explicit(&b->size_busy, memory_order_acquire)) return false;
    bool hit = b->size_txn_id == txn_id;
    if (hit) *out = b->size;
    atomic_flag_clear_explicit(&b->size_busy, memory_order_release);
    return hit;
}

static void keep(struct backend_lmdb *b, uint64_t txn_id, const struct backend_size *s)
{
    if (atomic_flag_test_and_set_explicit(&b->size_busy, memory_order_acquire)) return;
    b->size_txn_id = txn_id;
    b->size = *s;
    atomic_flag_clear_explicit(&b->size_busy, memory_order_release);
}

void backend__size_forget(struct backend_lmdb *b)
{
    while (atomic_flag_test_and_set_explicit(&b->size_busy, memory_order_acquire)) {}
    b->size_txn_id = 0;
    atomic_flag_clear_explicit(&b->size_busy, memory_order_release);
}

static int measure(MDB_env *env, MDB_txn *txn, uint64_t last_page, struct backend_size *out)
{
    MDB_stat st;
    uint64_t free_count = 0;
    int rc = mdb_env_stat(env, &st);
    if (rc == 0) rc = count_free(txn, &free_count);
    if (rc != 0) return backend__error(rc, "backend size", NULL);
    uint64_t total = last_page + 1;
    if (free_count > total) return E_CORRUPT;
    out->total_bytes = total * st.ms_psize;
    out->in_use_bytes = (total - free_count) * st.ms_psize;
    return 0;
}

/* One attempt: E_AGAIN when a commit came between the two looks at the state. */
static int size_once(struct backend_lmdb *b, struct backend_size *out)
{
    struct backend_read *r = NULL;
    int rc = backend__read_begin(b, &r, NULL);
    if (rc < 0) return rc;
    uint64_t txn_id = mdb_txn_id(r->txn);
    if (!cached(b, txn_id, out)) {
        MDB_envinfo info;
        rc = backend__error(mdb_env_info(r->env, &info), "backend size", NULL);
        if (rc == 0 && info.me_last_txnid != txn_id) rc = E_AGAIN;
        if (rc == 0) rc = measure(r->env, r->txn, info.me_last_pgno, out);
        if (rc == 0) keep(b, txn_id, out);
    }
    backend__read_end(r);
    return rc;
}

int backend__size(void *arg, struct backend_size *out)
{
    struct backend_lmdb *b = arg;
    struct backend_size s;
    int rc = E_AGAIN;
    while (rc == E_AGAIN)
        rc = size_once(b, &s); /* commits are milliseconds apart, this is not */
    if (rc == 0) *out = s;
    return rc;
}
