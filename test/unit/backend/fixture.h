/* What the tests of this folder share: a store of either kind, short ways to put and get, and a model to compare
 * with. Functions are static; each test file has its own. */
#ifndef TEST_UNIT_BACKEND_FIXTURE_H
#define TEST_UNIT_BACKEND_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "backend/memory.h"
#include "base/endian.h"
#include "base/err.h"
#include "base/prng.h"
#include "realdisk.h"
#include "test_heap.h"

#define UNUSED_FN __attribute__((unused)) static

enum kind { KIND_LMDB, KIND_MEMORY };

struct store {
    struct test_heap heap;
    enum kind kind;
    char folder[REALDISK_PATH_BYTES_MAX];
    char path[REALDISK_PATH_BYTES_MAX + 16];
    uint64_t map_bytes;
    unsigned reader_count_max;
    struct backend_lmdb *lmdb;
    struct backend_memory *memory;
    struct backend face;
    struct errmsg em;
};

UNUSED_FN int store_open(struct store *s)
{
    if (s->kind == KIND_MEMORY) {
        s->memory = backend_memory_new(&s->heap.alloc);
        assert_non_null(s->memory);
        s->face = backend_memory_face(s->memory);
        return 0;
    }
    struct backend_lmdb_opts o = {.alloc = &s->heap.alloc,
                                  .disk = realdisk(),
                                  .path = s->path,
                                  .create = true,
                                  .map_bytes = s->map_bytes,
                                  .reader_count_max = s->reader_count_max};
    int rc = backend_lmdb_open(&o, &s->lmdb, &s->em);
    if (rc == 0) s->face = backend_lmdb_face(s->lmdb);
    return rc;
}

UNUSED_FN void store_prepare(struct store *s, enum kind kind)
{
    memset(s, 0, sizeof *s);
    test_heap_init(&s->heap);
    s->kind = kind;
    s->map_bytes = (uint64_t)64 << 20;
    if (kind == KIND_MEMORY) return;
    realdisk_folder("backend", s->folder);
    (void)snprintf(s->path, sizeof s->path, "%s/db", s->folder);
}

UNUSED_FN void store_init(struct store *s, enum kind kind)
{
    store_prepare(s, kind);
    int rc = store_open(s);
    if (rc != 0) fail_msg("open: %s", s->em.text);
}

UNUSED_FN void store_close(struct store *s)
{
    backend_lmdb_close(s->lmdb);
    s->lmdb = NULL;
    backend_memory_free(s->memory);
    s->memory = NULL;
}

UNUSED_FN void store_deinit(struct store *s)
{
    store_close(s);
    if (s->kind == KIND_LMDB) realdisk_remove(s->folder);
    test_heap_check_empty(&s->heap);
}

/* A new process would find the same. */
UNUSED_FN void store_reopen(struct store *s)
{
    if (s->kind == KIND_MEMORY) {
        backend_memory_crash(s->memory, BACKEND_CRASH_KEEP);
        return;
    }
    store_close(s);
    int rc = store_open(s);
    if (rc != 0) fail_msg("reopen: %s", s->em.text);
}

/* --- short ways -------------------------------------------------------------------------------------- */

UNUSED_FN struct backend_tx *tx_begin(struct store *s)
{
    struct backend_tx *tx = NULL;
    int rc = s->face.begin(s->face.arg, &tx, &s->em);
    if (rc != 0) fail_msg("begin: %s", s->em.text);
    return tx;
}

UNUSED_FN void tx_put(struct store *s, struct backend_tx *tx, enum table t, struct bytes k,
                      struct bytes v)
{
    int rc = s->face.put(tx, t, k, v, &s->em);
    if (rc != 0) fail_msg("put: %s", s->em.text);
}

UNUSED_FN void tx_del(struct store *s, struct backend_tx *tx, enum table t, struct bytes k)
{
    int rc = s->face.del(tx, t, k, &s->em);
    if (rc != 0) fail_msg("del: %s", s->em.text);
}

UNUSED_FN void tx_commit(struct store *s, struct backend_tx *tx)
{
    int rc = s->face.commit(tx, &s->em);
    if (rc != 0) fail_msg("commit: %s", s->em.text);
}

UNUSED_FN void put_one(struct store *s, enum table t, struct bytes k, struct bytes v)
{
    struct backend_tx *tx = tx_begin(s);
    tx_put(s, tx, t, k, v);
    tx_commit(s, tx);
}

UNUSED_FN void put_text(struct store *s, enum table t, const char *k, const char *v)
{
    put_one(s, t, bytes_str(k), bytes_str(v));
}

UNUSED_FN struct backend_read *read_begin(struct store *s)
{
    struct backend_read *r = NULL;
    int rc = s->face.read_begin(s->face.arg, &r, &s->em);
    if (rc != 0) fail_msg("read_begin: %s", s->em.text);
    return r;
}

UNUSED_FN void expect_row(struct store *s, struct backend_read *r, enum table t, struct bytes k,
                          struct bytes v)
{
    struct bytes got = BYTES_EMPTY;
    assert_int_equal(s->face.get(r, t, k, &got), 0);
    assert_int_equal(got.len, v.len);
    assert_true(bytes_eq(got, v));
}

UNUSED_FN void expect_text(struct store *s, enum table t, const char *k, const char *v)
{
    struct backend_read *r = read_begin(s);
    expect_row(s, r, t, bytes_str(k), bytes_str(v));
    s->face.read_end(r);
}

UNUSED_FN void expect_none(struct store *s, enum table t, struct bytes k)
{
    struct backend_read *r = read_begin(s);
    struct bytes got = BYTES_EMPTY;
    assert_int_equal(s->face.get(r, t, k, &got), E_NOTFOUND);
    s->face.read_end(r);
}

UNUSED_FN struct bytes revision(uint8_t out[17], uint64_t main, uint64_t sub)
{
    endian_store_be64(out, main);
    out[8] = '_';
    endian_store_be64(out + 9, sub);
    return bytes_of(out, 17);
}

/* --- a model ----------------------------------------------------------------------------------------- */

enum { MODEL_ROWS_MAX = 600, MODEL_KEY_BYTES_MAX = 700, MODEL_VALUE_BYTES_MAX = 9000 };

struct model_row {
    enum table table;
    size_t key_bytes, value_bytes;
    uint8_t key[MODEL_KEY_BYTES_MAX];
    uint8_t value[MODEL_VALUE_BYTES_MAX];
};

struct model {
    size_t count;
    struct model_row *row[MODEL_ROWS_MAX]; /* in order of table and key */
};

UNUSED_FN int model_cmp(const struct model_row *r, enum table t, struct bytes key)
{
    if (r->table != t) return r->table < t ? -1 : 1;
    return bytes_cmp(bytes_of(r->key, r->key_bytes), key);
}

UNUSED_FN size_t model_find(const struct model *m, enum table t, struct bytes key)
{
    size_t i = 0;
    while (i < m->count && model_cmp(m->row[i], t, key) < 0)
        i++;
    return i;
}

UNUSED_FN void model_del(struct model *m, enum table t, struct bytes key)
{
    size_t i = model_find(m, t, key);
    if (i == m->count || model_cmp(m->row[i], t, key) != 0) return;
    free(m->row[i]);
    m->count--;
    memmove(&m->row[i], &m->row[i + 1], (m->count - i) * sizeof m->row[0]);
}

UNUSED_FN void model_put(struct model *m, enum table t, struct bytes key, struct bytes value)
{
    model_del(m, t, key);
    assert_true(m->count < MODEL_ROWS_MAX);
    struct model_row *r = malloc(sizeof *r);
    assert_non_null(r);
    r->table = t;
    r->key_bytes = key.len;
    r->value_bytes = value.len;
    if (key.len != 0) memcpy(r->key, key.data, key.len);
    if (value.len != 0) memcpy(r->value, value.data, value.len);
    size_t i = model_find(m, t, key);
    memmove(&m->row[i + 1], &m->row[i], (m->count - i) * sizeof m->row[0]);
    m->row[i] = r;
    m->count++;
}

UNUSED_FN void model_copy(struct model *to, const struct model *from)
{
    to->count = from->count;
    for (size_t i = 0; i < from->count; i++) {
        to->row[i] = malloc(sizeof *to->row[i]);
        assert_non_null(to->row[i]);
        memcpy(to->row[i], from->row[i], sizeof *to->row[i]);
    }
}

UNUSED_FN void model_clear(struct model *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->row[i]);
    m->count = 0;
}

/* What a cursor over each table gives is the model, in its order. */
UNUSED_FN bool model_equals(const struct model *m, struct store *s, struct backend_read *r)
{
    size_t at = 0;
    bool equal = true;
    for (unsigned t = 0; t < TABLE_COUNT && equal; t++) {
        struct backend_cursor *c = NULL;
        struct bytes k, v;
        assert_int_equal(s->face.cursor_open(r, (enum table)t, &c), 0);
        int rc = s->face.seek(c, BYTES_EMPTY, &k, &v);
        for (; rc == 0 && equal; rc = s->face.next(c, &k, &v), at++) {
            equal = at < m->count && model_cmp(m->row[at], (enum table)t, k) == 0 &&
                    bytes_eq(v, bytes_of(m->row[at]->value, m->row[at]->value_bytes));
        }
        s->face.cursor_close(c);
    }
    return equal && at == m->count;
}

#endif
