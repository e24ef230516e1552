/* Cursors of the LMDB store.
 *
 * A cursor mostly gives LMDB's rows as they are. Two kinds of key are stored elsewhere than they sort (see
 * backend_key.h): the empty key is looked for first and skipped where it lies; and keys that share their first
 * KEY_HEAD_BYTES form a group, in which stand-ins sort by hash. A group is given in order by looking through it
 * for the next larger key each time: quadratic, without memory, and groups of more than one key are not seen in
 * practice (two user names equal in 479 bytes). */
#include "backend/backend_int.h"
#include "backend/backend_key.h"
#include "base/assert.h"
#include "base/err.h"

static void give(struct bytes key, struct bytes value, struct bytes *k, struct bytes *v)
{
    if (k != NULL) *k = key;
    if (v != NULL) *v = value;
}

int backend__cursor_open(struct backend_read *r, enum table t, struct backend_cursor **out)
{
    ASSERT((unsigned)t < TABLE_COUNT);
    struct backend_cursor *c = r->spare[t];
    int rc;
    if (c != NULL) {
        rc = mdb_cursor_renew(r->txn, c->mdb);
        if (rc != 0) return backend__error(rc, "backend cursor", NULL);
        r->spare[t] = NULL;
    } else {
        c = alloc_zero(&r->store->alloc, sizeof *c);
        if (c == NULL) return E_NOMEM;
        rc = mdb_cursor_open(r->txn, r->store->dbi[t], &c->mdb);
        if (rc != 0) {
            alloc_free(&r->store->alloc, c, sizeof *c);
            return backend__error(rc, "backend cursor", NULL);
        }
    }
    c->read = r;
    c->table = t;
    c->at = AT_START;
    r->cursor_count++;
    *out = c;
    return 0;
}

void backend__cursor_close(struct backend_cursor *c)
{
    struct backend_read *r = c->read;
    ASSERT(r->cursor_count > 0);
    r->cursor_count--;
    if (r->spare[c->table] == NULL) {
        r->spare[c->table] = c;
        return;
    }
    mdb_cursor_close(c->mdb);
    alloc_free(&r->store->alloc, c, sizeof *c);
}

static int end(struct backend_cursor *c, int mdb_rc)
{
    c->at = AT_END;
    return backend__error(mdb_rc, "backend cursor", NULL);
}

static bool in_group(const MDB_val *k, const uint8_t *head)
{
    return k->mv_size >= KEY_HEAD_BYTES && memcmp(k->mv_data, head, KEY_HEAD_BYTES) == 0;
}

/* Looks through the group of `head` for its least key >= `least`, or > `least` if `beyond`. E_NOTFOUND: none;
 * the LMDB cursor, `sk` and `sv` then stand behind the group, `*mdb_rc` says whether there is a row. */
static int group_pick(struct backend_cursor *c, const uint8_t *head, struct bytes least,
                      bool beyond, struct bytes *key, struct bytes *value, MDB_val *sk, MDB_val *sv,
                      int *mdb_rc)
{
    bool found = false;
    *sk = backend__val(bytes_of(head, KEY_HEAD_BYTES));
    *mdb_rc = mdb_cursor_get(c->mdb, sk, sv, MDB_SET_RANGE);
    for (; *mdb_rc == 0 && in_group(sk, head); *mdb_rc = mdb_cursor_get(c->mdb, sk, sv, MDB_NEXT)) {
        struct bytes k, v;
        int rc = backend__key_load(backend__bytes(sk), backend__bytes(sv), &k, &v);
        if (rc < 0) return rc;
        int order = bytes_cmp(k, least);
        if (k.len == 0 || order < 0 || (beyond && order == 0)) continue;
        if (found && bytes_cmp(k, *key) > 0) continue;
        *key = k;
        *value = v;
        found = true;
    }
    return found ? 0 : E_NOTFOUND;
}

/* Gives the row that the LMDB cursor reached, or what comes in its place. */
static int settle(struct backend_cursor *c, MDB_val *sk, MDB_val *sv, int mdb_rc,
                  struct bytes least, bool beyond, struct bytes *k, struct bytes *v)
{
    while (mdb_rc == 0) {
        if (sk->mv_size < KEY_HEAD_BYTES) {
            c->at = AT_ROW;
            give(backend__bytes(sk), backend__bytes(sv), k, v);
            return 0;
        }
        struct bytes key = BYTES_EMPTY, value = BYTES_EMPTY;
        const uint8_t *head = sk->mv_data;
        int rc = group_pick(c, head, least, beyond, &key, &value, sk, sv, &mdb_rc);
        if (rc == 0) {
            c->at = AT_GROUP;
            c->group_head = head;
            c->group_key = key;
            give(key, value, k, v);
            return 0;
        }
        if (rc != E_NOTFOUND) {
            c->at = AT_END;
            return rc;
        }
    }
    return end(c, mdb_rc);
}

static int seek_first(struct backend_cursor *c, struct bytes *k, struct bytes *v)
{
    struct bytes value;
    int rc = backend__get(c->read, c->table, BYTES_EMPTY, &value);
    if (rc == 0) {
        c->at = AT_EMPTY_KEY;
        give(BYTES_EMPTY, value, k, v);
        return 0;
    }
    if (rc != E_NOTFOUND) return rc;
    MDB_val sk, sv;
    rc = mdb_cursor_get(c->mdb, &sk, &sv, MDB_FIRST);
    return settle(c, &sk, &sv, rc, BYTES_EMPTY, false, k, v);
}

int backend__seek(struct backend_cursor *c, struct bytes key, struct bytes *k, struct bytes *v)
{
    ASSERT(c->read->cursor_count > 0);
    if (key.len == 0) return seek_first(c, k, v);
    struct bytes from = key; /* of a key that may lie in a group: the group's start */
    if (from.len > KEY_HEAD_BYTES) from.len = KEY_HEAD_BYTES;
    MDB_val sk = backend__val(from), sv;
    int rc = mdb_cursor_get(c->mdb, &sk, &sv, MDB_SET_RANGE);
    return settle(c, &sk, &sv, rc, key, false, k, v);
}

int backend__next(struct backend_cursor *c, struct bytes *k, struct bytes *v)
{
    ASSERT(c->at != AT_START);
    MDB_val sk, sv;
    int rc;
    switch (c->at) {
    case AT_START:
    case AT_END: return E_NOTFOUND;
    case AT_EMPTY_KEY:
        rc = mdb_cursor_get(c->mdb, &sk, &sv, MDB_FIRST);
        return settle(c, &sk, &sv, rc, BYTES_EMPTY, false, k, v);
    case AT_ROW:
        rc = mdb_cursor_get(c->mdb, &sk, &sv, MDB_NEXT);
        return settle(c, &sk, &sv, rc, BYTES_EMPTY, false, k, v);
    case AT_GROUP:
        sk = backend__val(bytes_of(c->group_head, KEY_HEAD_BYTES));
        sv = (MDB_val){0};
        return settle(c, &sk, &sv, 0, c->group_key, true, k, v);
    }
    return E_NOTFOUND;
}
