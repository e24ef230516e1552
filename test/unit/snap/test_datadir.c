/* A data directory at start: made, tested, swept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "simdisk.h"
#include "snap/datadir.h"
#include "test_heap.h"

struct world {
    struct test_heap heap;
    struct simdisk *disk;
    struct snap_opts o;
    struct log log;
    size_t warnings;
    struct datadir d;
    struct errmsg em;
};

static void count_warning(void *arg, const struct log_event *event)
{
    struct world *w = arg;
    w->warnings += event->level == LOG_WARN;
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    test_heap_init(&w->heap);
    w->disk = simdisk_new();
    w->log = (struct log){count_warning, w};
    w->o =
        (struct snap_opts){.disk = simdisk_face(w->disk), .alloc = &w->heap.alloc, .log = &w->log};
    assert_int_equal(datadir_init(&w->d, "a/b/data", NULL), 0);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    test_heap_check_empty(&w->heap);
    simdisk_free(w->disk);
    free(w);
    return 0;
}

static void test_places(void **state)
{
    struct world *w = *state;
    static char big[DATADIR_PATH_BYTES_MAX + 1];
    assert_string_equal(w->d.member, "a/b/data/member");
    assert_string_equal(w->d.snap, "a/b/data/member/snap");
    assert_string_equal(w->d.db, "a/b/data/member/snap/db");
    assert_string_equal(w->d.wal, "a/b/data/member/wal");
    assert_int_equal(datadir_init(&w->d, "x", "/elsewhere"), 0);
    assert_string_equal(w->d.wal, "/elsewhere");
    assert_int_equal(datadir_init(&w->d, "x", ""), 0);
    assert_string_equal(w->d.wal, "x/member/wal");
    memset(big, 'a', sizeof big - 1);
    assert_int_equal(datadir_init(&w->d, big, NULL), E_TOOBIG);
    big[sizeof big - 10] = '\0'; /* the root fits, what is below does not */
    assert_int_equal(datadir_init(&w->d, big, NULL), E_TOOBIG);
}

static void test_a_new_one_is_made(void **state)
{
    struct world *w = *state;
    struct disk_stat st;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(datadir_prepare(&w->d, &w->o, &w->em), 0);
        assert_int_equal(w->o.disk->stat(w->o.disk->arg, w->d.snap, &st), 0);
        assert_true(st.is_dir);
        assert_int_equal(st.mode & 0777, 0700);
    }
    assert_false(simdisk_exists(w->disk, "a/b/data/.touch"));
    assert_int_equal(w->warnings, 0);
}

static void test_another_mode_is_only_warned_about(void **state)
{
    struct world *w = *state;
    const struct disk *d = w->o.disk;
    assert_int_equal(d->mkdir(d->arg, "a", 0755), 0);
    assert_int_equal(d->mkdir(d->arg, "a/b", 0755), 0);
    assert_int_equal(d->mkdir(d->arg, "a/b/data", 0755), 0);
    assert_int_equal(datadir_prepare(&w->d, &w->o, &w->em), 0);
    assert_int_equal(w->warnings, 1);
}

static void test_leftovers_go_and_the_rest_stays(void **state)
{
    struct world *w = *state;
    static const char *const gone[] = {"tmp123", "tmp", "db.tmp.987"};
    static const char *const stay[] = {"db", "0000000000000001.snap.db", "junk", "a.snap.broken"};
    char path[DATADIR_PATH_BYTES_MAX + 64];
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", w->d.snap, gone[i]);
        simdisk_put_file(w->disk, path, bytes_str("x"));
    }
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", w->d.snap, stay[i]);
        simdisk_put_file(w->disk, path, bytes_str("x"));
    }
    assert_int_equal(datadir_prepare(&w->d, &w->o, &w->em), 0);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", w->d.snap, gone[i]);
        assert_false(simdisk_exists(w->disk, path));
    }
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", w->d.snap, stay[i]);
        assert_true(simdisk_exists(w->disk, path));
    }
}

static void test_a_file_in_the_way(void **state)
{
    struct world *w = *state;
    simdisk_put_file(w->disk, "a/b/data", bytes_str("a file"));
    assert_true(datadir_prepare(&w->d, &w->o, &w->em) < 0);
    assert_non_null(strstr(w->em.text, "\"a/b/data\""));
}

/* Nothing may be changed before a folder has shown that it can be written to. */
static void test_a_folder_that_takes_no_file(void **state)
{
    struct world *w = *state;
    char path[DATADIR_PATH_BYTES_MAX + 64];
    snprintf(path, sizeof path, "%s/tmp1", w->d.snap);
    simdisk_put_file(w->disk, path, bytes_str("x"));
    simdisk_set_fault(
        w->disk, (struct simdisk_fault){.nth = 1, .rc = E_ACCES, .kinds = 1U << SIMDISK_CREATE});
    assert_int_equal(datadir_prepare(&w->d, &w->o, &w->em), E_ACCES);
    assert_non_null(strstr(w->em.text, "cannot write to data folder \"a/b/data\""));
    assert_true(simdisk_exists(w->disk, path));
}

static void with_heap(struct test_heap *heap, void *arg)
{
    struct world *w = arg;
    struct snap_opts o = w->o;
    o.alloc = &heap->alloc;
    int rc = datadir_prepare(&w->d, &o, &w->em);
    assert_true(rc == 0 || rc == E_NOMEM);
}

static void test_memory_fails(void **state)
{
    struct world *w = *state;
    char path[DATADIR_PATH_BYTES_MAX + 64];
    snprintf(path, sizeof path, "%s/keep", w->d.snap);
    simdisk_put_file(w->disk, path, bytes_str("x"));
    assert_true(test_heap_every_failure(with_heap, w) > 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_places),
        TEST(test_a_new_one_is_made),
        TEST(test_another_mode_is_only_warned_about),
        TEST(test_leftovers_go_and_the_rest_stays),
        TEST(test_a_file_in_the_way),
        TEST(test_a_folder_that_takes_no_file),
        TEST(test_memory_fails),
    };
    return cmocka_run_group_tests_name("snap/datadir", tests, NULL, NULL);
}
