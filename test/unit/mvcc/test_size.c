/* A million keys: they are built into an index that holds them all in order, and what that costs is printed. */
#include <malloc.h>
#include <time.h>

#include "kit.h"

enum { KEYS = 1000000 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* others use the machine too */
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t live_bytes(void)
{
    struct mallinfo2 i = mallinfo2();
    return i.uordblks + i.hblkhd;
}

/* Keys of 8 bytes in no order: a permutation of [0, 2^20), counted in hex. */
static size_t key_at(uint32_t i, char out[24], bool long_keys)
{
    uint32_t x = (i * 0x9e3779b1u) & 0xfffff;
    return (size_t)snprintf(out, 24, long_keys ? "/registry/pods/%08x" : "%08x", x);
}

static void load_rows(struct mvcc *m, bool long_keys)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        uint8_t rev[17], kv[64];
        char key[24];
        endian_store_be64(rev, i + 2);
        rev[8] = '_';
        endian_store_be64(rev + 9, 0);
        struct pb_kv d = {.key = bytes_of(key, key_at(i, key, long_keys)),
                          .create_revision = i + 2,
                          .mod_revision = i + 2,
                          .version = 1,
                          .value = bytes_of("0123456789", 10)};
        uint8_t *end = pb_kv_write(&d, kv);
        if (mvcc_load_row(m, bytes_of(rev, 17), bytes_of(kv, (size_t)(end - kv)), NULL) < 0) fail();
    }
}

/* All keys at once, in order, and each of some by itself. */
static void check_order(struct kit *k, bool long_keys)
{
    struct mvcc_view v;
    struct mvcc_range r;
    struct mvcc_range_opts o = {.key = ALL_KEYS, .end = ALL_KEYS, .count_only = true};
    assert_int_equal(mvcc_view_open(k->m, 0, &v), 0);
    double t = seconds();
    mvcc_range_init(&r, &v, &o);
    kit_range_run(k, &r, MVCC_SLICE_KEYS);
    print_message("  count of all: %.1f ms\n", (seconds() - t) * 1e3);
    assert_int_equal(r.count, KEYS);
    mvcc_range_deinit(&r);
    t = seconds();
    for (uint32_t i = 0; i < KEYS; i++) {
        struct mvcc_row row;
        char key[24];
        if (mvcc_view_get(&v, bytes_of(key, key_at(i, key, long_keys)), &row) < 0) fail();
        if (row.mod != (int64_t)i + 2) fail();
    }
    print_message("  get by key: %.2f us\n", (seconds() - t) * 1e6 / KEYS);
    mvcc_view_close(&v);
}

static void load(bool long_keys)
{
    struct kit k;
    kit_prepare(&k);
    size_t before = live_bytes();
    double t = seconds();
    assert_int_equal(mvcc_load_begin(&k.opts, &k.m), 0);
    load_rows(k.m, long_keys);
    double rows = seconds() - t;
    struct mvcc_meta meta = {0};
    assert_int_equal(mvcc_load_end(k.m, &meta, &k.em), 0);
    print_message("%d keys: rows %.0f ms, sort and build %.0f ms, %.1f bytes a key\n", KEYS,
                  rows * 1e3, (seconds() - t - rows) * 1e3, (double)(live_bytes() - before) / KEYS);
    check_order(&k, long_keys);
    kit_deinit(&k);
}

static void a_million_short_keys(void **state)
{
    (void)state;
    load(false);
}

static void a_million_keys_with_one_prefix(void **state)
{
    (void)state;
    load(true);
}

static void a_million_puts(void **state)
{
    (void)state;
    struct kit k;
    kit_init(&k);
    double t = seconds();
    for (uint32_t i = 0; i < KEYS; i++) {
        char key[24];
        mvcc_entry_begin(k.m);
        int rc =
            mvcc_write_put(k.m, bytes_of(key, key_at(i, key, false)), bytes_of(key, 8), 0, NULL);
        if (rc < 0) fail();
        kit_seal(&k);
    }
    print_message("put: %.2f us\n", (seconds() - t) * 1e6 / KEYS);
    t = seconds();
    mvcc_entry_begin(k.m);
    struct mvcc_delete d;
    mvcc_delete_init(&d, k.m, ALL_KEYS, ALL_KEYS);
    double longest = 0;
    int rc = 1;
    while (rc == 1) {
        double from = seconds();
        rc = mvcc_delete_step(&d, 500);
        double took = seconds() - from;
        if (took > longest) longest = took;
    }
    assert_int_equal(d.count, KEYS);
    mvcc_delete_deinit(&d);
    kit_seal(&k);
    print_message("delete: %.2f us a key, longest slice of 500 %.0f us\n",
                  (seconds() - t) * 1e6 / KEYS, longest * 1e6);
    kit_deinit(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_short_keys),
        cmocka_unit_test(a_million_keys_with_one_prefix),
        cmocka_unit_test(a_million_puts),
    };
    return cmocka_run_group_tests_name("mvcc size", tests, NULL, NULL);
}
