/* What the tests of mvcc share: a store over the fake backend, steps of the server around it, and small words. */
#ifndef TEST_UNIT_MVCC_KIT_H
#define TEST_UNIT_MVCC_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/endian.h"
#include "base/err.h"
#include "fake_backend.h"
#include "mvcc/compact.h"
#include "mvcc/mvcc.h"
#include "mvcc/view.h"
#include "pb/kv.h"

#define UNUSED_FN __attribute__((unused))

struct kit {
    struct fake_backend backend;
    struct mvcc *m;
    struct mvcc_opts opts;
    struct rwlock lock;
    struct alloc alloc;
    uint64_t index;
    struct mvcc_run *run; /* swapped, not retired */
    struct errmsg em;
};

static void *plain_resize(void *arg, void *old, size_t old_bytes, size_t new_bytes)
{
    (void)arg;
    (void)old_bytes;
    if (new_bytes == 0) {
        free(old);
        return NULL;
    }
    return realloc(old, new_bytes);
}

static void no_lock(void *arg)
{
    (void)arg;
}

UNUSED_FN static void kit_open(struct kit *k)
{
    int rc = mvcc_open(&k->opts, &k->m, &k->em);
    if (rc < 0) print_error("mvcc_open: %s: %s\n", err_symbol(rc), k->em.text);
    assert_int_equal(rc, 0);
    k->index = mvcc_applied_index(k->m);
    k->run = NULL;
}

UNUSED_FN static void kit_prepare(struct kit *k)
{
    *k = (struct kit){.alloc = {.resize = plain_resize}};
    fake_backend_init(&k->backend);
    k->lock = (struct rwlock){no_lock, no_lock, no_lock, no_lock, k};
    k->opts = (struct mvcc_opts){
        .alloc = &k->alloc, .index_lock = &k->lock, .backend = &k->backend.face, .seed = 0x5eed};
}

UNUSED_FN static void kit_init(struct kit *k)
{
    kit_prepare(k);
    kit_open(k);
}

UNUSED_FN static void kit_deinit(struct kit *k)
{
    mvcc_free(k->m);
    fake_backend_deinit(&k->backend);
}

UNUSED_FN static void kit_seal(struct kit *k)
{
    mvcc_entry_seal(k->m, ++k->index, 2);
}

UNUSED_FN static struct mvcc_row kit_write(struct kit *k, const char *key, const char *value)
{
    struct mvcc_row row;
    assert_int_equal(mvcc_write_put(k->m, bytes_str(key), bytes_str(value), 0, &row), 0);
    return row;
}

/* An entry with one put. */
UNUSED_FN static struct mvcc_row kit_put(struct kit *k, const char *key, const char *value)
{
    mvcc_entry_begin(k->m);
    struct mvcc_row row = kit_write(k, key, value);
    kit_seal(k);
    return row;
}

UNUSED_FN static uint64_t kit_erase(struct kit *k, struct bytes key, struct bytes end)
{
    struct mvcc_delete d;
    mvcc_delete_init(&d, k->m, key, end);
    int rc;
    while ((rc = mvcc_delete_step(&d, 2)) == 1) {}
    assert_int_equal(rc, 0);
    uint64_t n = d.count;
    mvcc_delete_deinit(&d);
    return n;
}

/* An entry that deletes one key. */
UNUSED_FN static uint64_t kit_del(struct kit *k, const char *key)
{
    mvcc_entry_begin(k->m);
    uint64_t n = kit_erase(k, bytes_str(key), BYTES_EMPTY);
    kit_seal(k);
    return n;
}

UNUSED_FN static int kit_compact(struct kit *k, int64_t rev)
{
    mvcc_entry_begin(k->m);
    int rc = mvcc_write_compact(k->m, rev);
    kit_seal(k);
    return rc;
}

UNUSED_FN static void kit_swap(struct kit *k)
{
    assert_null(k->run);
    assert_int_equal(mvcc_run_swap(k->m, &k->run), 0);
}

/* The backend thread's part. */
UNUSED_FN static void kit_store(struct kit *k, const struct mvcc_portion *p)
{
    const struct backend *b = &k->backend.face;
    struct backend_tx *tx;
    assert_int_equal(b->begin(b->arg, &tx, &k->em), 0);
    if (k->run != NULL) assert_int_equal(mvcc_run_write(k->run, b, tx, &k->em), 0);
    if (p != NULL) assert_int_equal(mvcc_portion_write(p, b, tx, &k->em), 0);
    assert_int_equal(b->commit(tx, &k->em), 0);
}

UNUSED_FN static void kit_retire(struct kit *k)
{
    if (k->run != NULL) mvcc_run_retire(k->m, k->run);
    k->run = NULL;
}

UNUSED_FN static void kit_commit(struct kit *k)
{
    if (k->run == NULL) kit_swap(k);
    kit_store(k, NULL);
    kit_retire(k);
}

/* A whole compaction job, if one may begin; true when it did. */
UNUSED_FN static bool kit_work(struct kit *k)
{
    struct mvcc_compact *c;
    assert_int_equal(mvcc_compact_begin(k->m, &c), 0);
    if (c == NULL) return false;
    int rc = 1;
    while (rc == 1) {
        struct mvcc_portion *p;
        rc = mvcc_compact_list(c, 3, &p, &k->em);
        assert_true(rc >= 0);
        if (p == NULL) continue;
        kit_store(k, p);
        mvcc_portion_free(p);
    }
    kit_retire(k);
    while ((rc = mvcc_compact_prune(c, 2)) == 1) {}
    assert_int_equal(rc, 0);
    mvcc_compact_end(c);
    return true;
}

/* What is not committed is gone. */
UNUSED_FN static void kit_crash(struct kit *k)
{
    mvcc_free(k->m);
    kit_open(k);
}

UNUSED_FN static int kit_hash(struct kit *k, int64_t rev, struct mvcc_hash_answer *out)
{
    struct mvcc_hash h;
    int rc = mvcc_hash_open(k->m, rev, &h);
    if (rc < 0) return rc;
    while ((rc = mvcc_hash_step(&h, 5, &k->em)) == 1) {}
    *out = h.answer;
    mvcc_hash_close(&h);
    return rc;
}

UNUSED_FN static void kit_range_run(struct kit *k, struct mvcc_range *r, size_t slice)
{
    int rc;
    while ((rc = mvcc_range_step(r, slice, &k->em)) == 1) {}
    assert_int_equal(rc, 0);
}

/* The keys of [key, end) at `rev` with their values, "a=1 b=2 ", read through a view. */
UNUSED_FN static const char *kit_text(struct kit *k, struct mvcc_view *v,
                                      const struct mvcc_range_opts *o, char *out, size_t cap)
{
    struct mvcc_range r;
    mvcc_range_init(&r, v, o);
    kit_range_run(k, &r, 2);
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; i < r.row_count && n < cap; i++) {
        struct bytes stored;
        struct pb_kv kv;
        int rc = mvcc_view_kv(v, mvcc_range_row(&r, i), &stored, &k->em);
        if (rc < 0) {
            n += (size_t)snprintf(out + n, cap - n, "%s ", err_symbol(rc));
            continue;
        }
        assert_int_equal(pb_kv_decode(stored, &kv), 0);
        n += (size_t)snprintf(out + n, cap - n, "%.*s=%.*s ", (int)kv.key.len,
                              (const char *)kv.key.data, (int)kv.value.len,
                              (const char *)kv.value.data);
    }
    mvcc_range_deinit(&r);
    return out;
}

#define ALL_KEYS bytes_of("\0", 1)

/* The same for everything at `rev`; the error's name when the view cannot be opened. */
UNUSED_FN static const char *kit_all(struct kit *k, int64_t rev, char *out, size_t cap)
{
    struct mvcc_view v;
    int rc = mvcc_view_open(k->m, rev, &v);
    if (rc < 0) return err_symbol(rc);
    struct mvcc_range_opts o = {.key = ALL_KEYS, .end = ALL_KEYS};
    kit_text(k, &v, &o, out, cap);
    mvcc_view_close(&v);
    return out;
}

#endif
