/* The write side of the LMDB store: one transaction, and the question what a failure of it means.
 *
 * LMDB commits in three steps: pages (pwrite, writev), fdatasync, meta page (pwrite through an O_DSYNC
 * descriptor). Until the meta page is written nothing has happened, so a full disk in the first step may be tried
 * again. A failed sync or meta page may not: the kernel may have dropped the pages and says so only once. LMDB
 * returns the same errno for all three, so commit_failed() finds out which it was:
 *
 *   meta page   LMDB marks its environment and answers MDB_PANIC from then on;
 *   fdatasync   Linux reports a file's write-back error once to every descriptor that was open, so a sync through
 *               ours, which nobody else syncs, fails too;
 *   pages       what is left. A disk that fills up in the middle of a write makes the write short, and LMDB
 *               calls that EIO; then we try to reserve as much space ourselves, and believe ENOSPC only.
 *
 * Rejected: MDB_NOSYNC with syncs of our own, since LMDB has no step between pages and meta page. */
#include <errno.h>
#include <unistd.h>

#include "backend/backend_int.h"
#include "backend/backend_key.h"
#include "base/assert.h"
#include "base/endian.h"
#include "base/err.h"

/* Added to what was put when the disk is asked for room: branch pages, the list of free pages. */
#define PROBE_SLACK_BYTES ((uint64_t)1 << 20)

/* --- what a failure means -------------------------------------------------------------------------- */

/* One reader slot is kept for this; not getting it for any reason counts as dead, the safe side. */
static bool env_is_dead(struct backend_lmdb *b)
{
    MDB_txn *txn = NULL;
    int rc = mdb_txn_begin(b->env, NULL, MDB_RDONLY, &txn);
    if (rc == 0) mdb_txn_abort(txn);
    return rc != 0;
}

/* Whether the disk has no room for `bytes` more. The file keeps its size. */
static bool disk_is_full(struct backend_lmdb *b, uint64_t bytes)
{
    struct disk_stat st;
    if (b->disk->file_stat(b->disk->arg, b->file, &st) < 0) return false;
    int rc = b->disk->allocate(b->disk->arg, b->file, st.size_bytes + bytes);
    if (b->disk->truncate(b->disk->arg, b->file, st.size_bytes) < 0) return false;
    return rc == E_NOSPACE;
}

/* Decides about an error of writing pages, see the top. */
static int write_failed(struct backend_lmdb *b, uint64_t bytes, int mdb_rc, const char *what,
                        struct errmsg *em)
{
    int rc = backend__error(mdb_rc, what, em);
    ASSERT(rc < 0);
    if (mdb_rc == MDB_MAP_FULL) return rc;
    bool may_be_retried = rc == E_NOSPACE || rc == E_NOMEM;
    bool may_be_full = mdb_rc == EIO || mdb_rc == EFBIG;
    if (!may_be_retried && !may_be_full) return rc;
    if (env_is_dead(b) || b->disk->datasync(b->disk->arg, b->file) < 0) {
        errmsg_set(em, "%s: a sync or the meta page failed: %s", what, mdb_strerror(mdb_rc));
        return E_IO;
    }
    if (may_be_retried) return rc;
    if (!disk_is_full(b, 2 * bytes + PROBE_SLACK_BYTES)) return E_IO;
    errmsg_set(em, "%s: no space left on device", what);
    return E_NOSPACE;
}

static int op_failed(struct backend_tx *tx, int mdb_rc, const char *what, struct errmsg *em)
{
    tx->failed = true;
    return write_failed(tx->store, tx->bytes, mdb_rc, what, em);
}

/* --- the contract's functions ---------------------------------------------------------------------- */

int backend__begin(void *arg, struct backend_tx **out, struct errmsg *em)
{
    struct backend_lmdb *b = arg;
    ASSERT(b->tx.txn == NULL);
    ASSERT(b->pid == getpid());
    backend__retired_close(b);
    int rc = mdb_txn_begin(b->env, NULL, 0, &b->tx.txn);
    if (rc != 0) {
        b->tx.txn = NULL;
        return backend__error(rc, "backend begin", em);
    }
    b->tx.append = NULL;
    b->tx.bytes = 0;
    b->tx.failed = false;
    *out = &b->tx;
    return 0;
}

/* Revisions grow, so they go behind the last page, which fills pages to the brim and needs no search. The
 * cursor is dropped as soon as something else happens to the table. */
static int put_revision(struct backend_tx *tx, MDB_val *k, MDB_val *v)
{
    MDB_dbi dbi = tx->store->dbi[TABLE_KEY];
    if (tx->append == NULL) {
        int rc = mdb_cursor_open(tx->txn, dbi, &tx->append);
        if (rc != 0) return rc;
    }
    int rc = mdb_cursor_put(tx->append, k, v, MDB_APPEND);
    if (rc != MDB_KEYEXIST) return rc;
    mdb_cursor_close(tx->append);
    tx->append = NULL;
    return mdb_put(tx->txn, dbi, k, v, 0);
}

static int put_stand_in(struct backend_tx *tx, enum table t, MDB_val *k, struct bytes key,
                        struct bytes value)
{
    MDB_val v = {.mv_size = KEY_LENGTH_BYTES + key.len + value.len, .mv_data = NULL};
    int rc = mdb_put(tx->txn, tx->store->dbi[t], k, &v, MDB_RESERVE);
    if (rc != 0) return rc;
    uint8_t *p = v.mv_data;
    endian_store_le32(p, (uint32_t)key.len);
    if (key.len != 0) memcpy(p + KEY_LENGTH_BYTES, key.data, key.len);
    if (value.len != 0) memcpy(p + KEY_LENGTH_BYTES + key.len, value.data, value.len);
    return 0;
}

int backend__put(struct backend_tx *tx, enum table t, struct bytes key, struct bytes value,
                 struct errmsg *em)
{
    ASSERT(tx->txn != NULL && !tx->failed);
    ASSERT((unsigned)t < TABLE_COUNT);
    struct stored_key s;
    if (key.len > INT32_MAX || value.len > INT32_MAX) return E_TOOBIG;
    backend__key_store(&s, key);
    MDB_val k = backend__val(s.key), v = backend__val(value);
    tx->bytes += key.len + value.len;
    int rc;
    if (s.is_stand_in) {
        rc = put_stand_in(tx, t, &k, key, value);
    } else if (t == TABLE_KEY) {
        rc = put_revision(tx, &k, &v);
    } else {
        rc = mdb_put(tx->txn, tx->store->dbi[t], &k, &v, 0);
    }
    return rc == 0 ? 0 : op_failed(tx, rc, "backend put", em);
}

int backend__del(struct backend_tx *tx, enum table t, struct bytes key, struct errmsg *em)
{
    ASSERT(tx->txn != NULL && !tx->failed);
    ASSERT((unsigned)t < TABLE_COUNT);
    if (t == TABLE_KEY && tx->append != NULL) {
        mdb_cursor_close(tx->append);
        tx->append = NULL;
    }
    struct stored_key s;
    backend__key_store(&s, key);
    MDB_val k = backend__val(s.key);
    int rc = mdb_del(tx->txn, tx->store->dbi[t], &k, NULL);
    return rc == 0 || rc == MDB_NOTFOUND ? 0 : op_failed(tx, rc, "backend delete", em);
}

int backend__commit(struct backend_tx *tx, struct errmsg *em)
{
    ASSERT(tx->txn != NULL && !tx->failed);
    ASSERT(tx->store->pid == getpid());
    MDB_txn *txn = tx->txn;
    tx->txn = NULL;
    int rc = mdb_txn_commit(txn); /* ends the transaction in any case */
    return rc == 0 ? 0 : write_failed(tx->store, tx->bytes, rc, "backend commit", em);
}

void backend__abort(struct backend_tx *tx)
{
    ASSERT(tx->txn != NULL);
    MDB_txn *txn = tx->txn;
    tx->txn = NULL;
    mdb_txn_abort(txn);
}
