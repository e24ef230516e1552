/* The n-th allocation fails, for every n: nothing leaks, nothing half-made is ever visible, and what is not inside an entry
 * can be tried again. */
#include "kit.h"

#include "test_heap.h"

/* The heap fails with an answer; the fake backend under it has memory of its own. */
struct rig {
    struct test_heap *heap;
    struct kit k;
    bool in_entry;
};

static int put(struct rig *r, const char *key, const char *value)
{
    int rc = mvcc_write_put(r->k.m, bytes_str(key), bytes_str(value), 0, NULL);
    assert_true(rc == 0 || rc == E_NOMEM);
    return rc;
}

static int fill(struct rig *r)
{
    int rc = 0;
    mvcc_entry_begin(r->k.m);
    r->in_entry = true;
    for (int i = 0; rc == 0 && i < 140; i++) {
        char key[8];
        snprintf(key, sizeof key, "%03d", (i * 37) % 140);
        rc = put(r, key, "1");
    }
    for (int i = 0; rc == 0 && i < 6; i++) {
        rc = put(r, "a", "2");
    }
    if (rc == 0) rc = mvcc_table_put(r->k.m, TABLE_AUTH, bytes_str("x"), bytes_str("y"));
    if (rc == 0) kit_seal(&r->k);
    if (rc == 0) r->in_entry = false;
    return rc;
}

static int erase(struct rig *r)
{
    struct mvcc_delete d;
    mvcc_entry_begin(r->k.m);
    r->in_entry = true;
    mvcc_delete_init(&d, r->k.m, bytes_str("0"), bytes_str("1"));
    d.want_prev = true;
    int rc;
    while ((rc = mvcc_delete_step(&d, 3)) == 1) {}
    mvcc_delete_deinit(&d);
    if (rc == 0) rc = mvcc_write_compact(r->k.m, 2);
    if (rc == 0) kit_seal(&r->k);
    if (rc == 0) r->in_entry = false;
    return rc;
}

/* Does what may be repeated after E_NOMEM once more then. */
#define AGAIN(rc, call)                                                                            \
    do {                                                                                           \
        (rc) = (call);                                                                             \
        if ((rc) == E_NOMEM) (rc) = (call);                                                        \
    } while (0)

static int read_all(struct rig *r)
{
    struct mvcc_view v;
    int rc;
    AGAIN(rc, mvcc_view_open(r->k.m, 0, &v));
    assert_int_equal(rc, 0);
    struct mvcc_range_opts o = {
        .key = ALL_KEYS, .end = ALL_KEYS, .order = MVCC_SORT_DESCEND, .target = MVCC_SORT_VALUE};
    struct mvcc_range range;
    mvcc_range_init(&range, &v, &o);
    do {
        AGAIN(rc, mvcc_range_step(&range, 20, &r->k.em));
    } while (rc == 1);
    assert_int_equal(rc, 0);
    assert_int_equal(range.row_count, 41);
    mvcc_range_deinit(&range);
    mvcc_view_close(&v);
    struct mvcc_hash h;
    AGAIN(rc, mvcc_hash_open(r->k.m, 0, &h));
    assert_int_equal(rc, 0);
    do {
        AGAIN(rc, mvcc_hash_step(&h, 50, &r->k.em));
    } while (rc == 1);
    assert_int_equal(rc, 0);
    mvcc_hash_close(&h);
    return rc;
}

static void commit(struct rig *r)
{
    int rc;
    AGAIN(rc, mvcc_run_swap(r->k.m, &r->k.run));
    assert_int_equal(rc, 0);
    kit_store(&r->k, NULL);
    kit_retire(&r->k);
}

static int work(struct rig *r)
{
    struct mvcc_compact *c;
    int rc;
    AGAIN(rc, mvcc_compact_begin(r->k.m, &c));
    assert_int_equal(rc, 0);
    assert_non_null(c);
    struct mvcc_portion *p = NULL;
    do {
        rc = mvcc_compact_list(c, 70, &p, &r->k.em);
        if (p != NULL) kit_store(&r->k, p);
        mvcc_portion_free(p);
    } while (rc == 1);
    if (rc < 0) { /* the process ends here; the next start resumes */
        mvcc_compact_abandon(c);
        return rc;
    }
    do {
        AGAIN(rc, mvcc_compact_prune(c, 9));
    } while (rc == 1);
    assert_int_equal(rc, 0);
    mvcc_compact_end(c);
    return 0;
}

/* The process ends at a failure inside an entry: what the next one finds was sealed. */
static void check_sealed(struct rig *r)
{
    char text[4096];
    int64_t rev = mvcc_revision(r->k.m);
    kit_all(&r->k, 0, text, sizeof text);
    assert_true(rev != 1 || text[0] == 0);
    assert_true(rev < 2 || strlen(text) > 100);
}

static void life(struct test_heap *heap, void *arg)
{
    (void)arg;
    struct rig r = {.heap = heap};
    kit_prepare(&r.k);
    r.k.opts.alloc = &heap->alloc;
    int rc = mvcc_open(&r.k.opts, &r.k.m, &r.k.em);
    if (rc == 0) {
        rc = fill(&r);
        if (rc == 0) commit(&r);
        if (rc == 0) rc = erase(&r);
        if (rc == 0) rc = read_all(&r);
        if (rc == 0) commit(&r);
        if (rc == 0) rc = work(&r);
        size_t fail_at = heap->fail_at;
        heap->fail_at = 0;
        check_sealed(&r);
        heap->fail_at = fail_at;
        mvcc_free(r.k.m);
    }
    assert_true(rc == 0 || rc == E_NOMEM);
    if (rc == 0) { /* once more from the stored rows */
        rc = mvcc_open(&r.k.opts, &r.k.m, &r.k.em);
        if (rc == 0) mvcc_free(r.k.m);
    }
    fake_backend_deinit(&r.k.backend);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    size_t runs = test_heap_every_failure(life, NULL);
    print_message("%zu runs\n", runs);
    assert_true(runs > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests_name("mvcc memory", tests, NULL, NULL);
}
