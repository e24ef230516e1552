/* .snap files and their folder: what is refused, what is durable, what is loaded, what goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "pb/raftpb.h"
#include "simdisk.h"
#include "snap/snap.h"
#include "test_heap.h"

#define DIR "snap"

struct world {
    struct test_heap heap;
    struct simdisk *disk;
    struct snap_opts o;
    struct errmsg em;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    test_heap_init(&w->heap);
    w->disk = simdisk_new();
    w->o = (struct snap_opts){.disk = simdisk_face(w->disk), .alloc = &w->heap.alloc};
    assert_int_equal(w->o.disk->mkdir(w->o.disk->arg, DIR, 0700), 0);
    simdisk_settle(w->disk);
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

static const struct raft_conf_state conf = {
    .voters = {1, 2}, .voter_count = 2, .learners = {3}, .learner_count = 1};

static struct snap_content content(raft_term term, raft_index index)
{
    return (struct snap_content){index, term, &conf, false, bytes_str("{\"json\":1}")};
}

static void write_one(struct world *w, raft_term term, raft_index index)
{
    struct snap_content c = content(term, index);
    int rc = snap_write(&w->o, DIR, &c, &w->em);
    if (rc < 0) fail_msg("%s", w->em.text);
}

static const char *path_of(raft_term term, raft_index index)
{
    static char path[96];
    snprintf(path, sizeof path, DIR "/%016x-%016x.snap", (unsigned)term, (unsigned)index);
    return path;
}

/* ---- one file --------------------------------------------------------------------------------------- */

static void test_write_and_read(void **state)
{
    struct world *w = *state;
    struct snap s;
    write_one(w, 2, 33);
    assert_int_equal(snap_read(&w->o, path_of(2, 33), &s, &w->em), 0);
    assert_int_equal(s.term, 2);
    assert_int_equal(s.index, 33);
    assert_true(bytes_eq(s.data, bytes_str("{\"json\":1}")));
    assert_true(bytes_eq(s.conf, bytes_of("\x08\x01\x08\x02\x10\x03\x28\x00", 8)));
    snap_deinit(&s);
    struct disk_stat st;
    assert_int_equal(w->o.disk->stat(w->o.disk->arg, path_of(2, 33), &st), 0);
    assert_int_equal(st.mode & ~022U, 0644);
}

static void test_bare_conf(void **state)
{
    struct world *w = *state;
    struct snap_content c = content(1, 1);
    struct snap s;
    c.bare_conf = true;
    assert_int_equal(snap_write(&w->o, DIR, &c, &w->em), 0);
    assert_int_equal(snap_read(&w->o, path_of(1, 1), &s, &w->em), 0);
    assert_int_equal(s.conf.len, 6);
    snap_deinit(&s);
}

static void test_durable_when_written(void **state)
{
    struct world *w = *state;
    write_one(w, 2, 33);
    struct simdisk *after = simdisk_crash(w->disk, simdisk_op_count(w->disk), SIMDISK_LOST, 1);
    struct snap_opts o = {.disk = simdisk_face(after), .alloc = &w->heap.alloc};
    struct snap s;
    assert_int_equal(snap_read(&o, path_of(2, 33), &s, &w->em), 0);
    snap_deinit(&s);
    simdisk_free(after);
}

static void test_failed_write_leaves_nothing(void **state)
{
    struct world *w = *state;
    struct snap_content c = content(2, 33);
    for (size_t n = 1; n <= 3; n++) { /* open, write, sync */
        simdisk_set_fault(w->disk, (struct simdisk_fault){.nth = n, .rc = E_NOSPACE, .half = true});
        assert_int_equal(snap_write(&w->o, DIR, &c, &w->em), E_NOSPACE);
        assert_int_equal(simdisk_fault_count(w->disk), 1);
        if (n > 1) assert_false(simdisk_exists(w->disk, path_of(2, 33)));
    }
}

static void expect_refused(struct world *w, int rc, const void *data, size_t len)
{
    struct snap s = SNAP_EMPTY;
    simdisk_put_file(w->disk, DIR "/x.snap", bytes_of(data, len));
    assert_int_equal(snap_read(&w->o, DIR "/x.snap", &s, &w->em), rc);
    assert_non_null(strstr(w->em.text, "x.snap"));
    assert_null(s.file.data);
}

static void test_what_is_refused(void **state)
{
    struct world *w = *state;
    struct snap s;
    assert_int_equal(snap_read(&w->o, DIR "/none", &s, &w->em), E_NOENT);
    expect_refused(w, E_SNAP_EMPTY, "", 0);
    expect_refused(w, E_SNAP_EMPTY, "\x08\x05\x12\x00", 4);
    expect_refused(w, E_SNAP_EMPTY, "\x08\x00\x12\x01x", 5);
    expect_refused(w, E_SNAP_EMPTY, "\x12\x01x", 3);
    expect_refused(w, E_CORRUPT, "\xff\xff", 2);
    expect_refused(w, E_SNAP_CRC, "\x08\x05\x12\x01x", 5);
}

/* A right crc around what is no raftpb.Snapshot. */
static void test_inner_message_that_does_not_parse(void **state)
{
    static const char *const inner[] = {"\x0a\x09", "\x12\x01\xff", "\x12\x03\x0a\x01\xff"};
    static const size_t lens[] = {2, 3, 5};
    struct world *w = *state;
    for (size_t i = 0; i < 3; i++) {
        struct buf file;
        struct pb_snap_file f = {crc32c(bytes_of(inner[i], lens[i])), bytes_of(inner[i], lens[i])};
        buf_init(&file, &w->heap.alloc, 1024);
        assert_int_equal(pb_snap_file_put(&f, &file), 0);
        expect_refused(w, E_CORRUPT, file.data, file.len);
        buf_deinit(&file);
    }
}

/* But for bits of the crc's varint beyond 32, which protobuf drops. */
static void test_each_flipped_bit_is_refused(void **state)
{
    size_t accepted = 0;
    struct world *w = *state;
    struct buf file;
    struct snap s;
    buf_init(&file, &w->heap.alloc, 1024);
    struct snap_content c = content(2, 33);
    assert_int_equal(snap_encode(&c, &file), 0);
    assert_int_equal(snap_decode(buf_bytes(&file), &s, &w->em), 0);
    for (size_t i = 0; i < file.len * 8; i++) {
        file.data[i / 8] ^= (uint8_t)(1 << i % 8);
        if (snap_decode(buf_bytes(&file), &s, &w->em) == 0) {
            accepted++;
            assert_true(bytes_eq(s.data, bytes_str("{\"json\":1}")));
        }
        file.data[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    assert_true(accepted <= 3);
    for (size_t n = 0; n < file.len; n++)
        assert_true(snap_decode(bytes_of(file.data, n), &s, &w->em) < 0);
    buf_deinit(&file);
}

/* ---- the folder ------------------------------------------------------------------------------------- */

static void test_list_is_newest_first(void **state)
{
    struct world *w = *state;
    struct snap_list l;
    write_one(w, 2, 100);
    write_one(w, 3, 5);
    write_one(w, 2, 20);
    simdisk_put_file(w->disk, DIR "/db", bytes_str("x"));
    simdisk_put_file(w->disk, DIR "/0000000000000009-0000000000000009.snap.broken", bytes_str("x"));
    simdisk_put_file(w->disk, DIR "/0000000000000009.snap.db", bytes_str("x"));
    assert_int_equal(snap_list(&w->o, DIR, &l, &w->em), 0);
    assert_int_equal(l.count, 3);
    assert_int_equal(l.names[0].term, 3);
    assert_int_equal(l.names[1].index, 100);
    assert_int_equal(l.names[2].index, 20);
    assert_string_equal(l.names[0].text, "0000000000000003-0000000000000005.snap");
    snap_list_deinit(&l);
}

static void load(struct world *w, bool rename_broken, int rc, raft_index index)
{
    static const struct wal_snapshot wanted[] = {{0, 0}, {20, 2}, {100, 2}};
    struct snap s = SNAP_EMPTY;
    assert_int_equal(snap_load_newest(&w->o, DIR, wanted, 3, rename_broken, &s, &w->em), rc);
    assert_int_equal(s.index, index);
    snap_deinit(&s);
}

static void test_newest_that_the_log_knows_is_loaded(void **state)
{
    struct world *w = *state;
    load(w, true, E_SNAP_NONE, 0);
    write_one(w, 2, 20);
    write_one(w, 2, 100);
    write_one(w, 2, 101); /* an orphan: not in the log */
    write_one(w, 3, 100); /* of another term */
    load(w, true, 0, 100);
    simdisk_put_file(w->disk, path_of(2, 100), bytes_str("junk"));
    load(w, false, 0, 20);
    assert_true(simdisk_exists(w->disk, path_of(2, 100)));
    load(w, true, 0, 20);
    assert_false(simdisk_exists(w->disk, path_of(2, 100)));
    assert_true(simdisk_exists(w->disk, DIR "/0000000000000002-0000000000000064.snap.broken"));
}

static void test_a_disk_error_is_no_verdict_on_the_file(void **state)
{
    struct world *w = *state;
    static const struct wal_snapshot wanted = {20, 2};
    struct snap s = SNAP_EMPTY;
    assert_int_equal(snap_load_newest(&w->o, "none", &wanted, 1, true, &s, &w->em), E_NOENT);
}

static void test_purge_keeps_the_newest(void **state)
{
    struct world *w = *state;
    size_t removed;
    for (raft_index i = 1; i <= 7; i++)
        write_one(w, 2, i);
    simdisk_put_file(w->disk, DIR "/0000000000000001.snap.db", bytes_str("x"));
    simdisk_put_file(w->disk, DIR "/0000000000000002.snap.db", bytes_str("x"));
    assert_int_equal(snap_purge(&w->o, DIR, ".snap", 0, &removed, &w->em), 0);
    assert_int_equal(removed, 0);
    assert_int_equal(snap_purge(&w->o, DIR, ".snap", 5, &removed, &w->em), 0);
    assert_int_equal(removed, 2);
    assert_false(simdisk_exists(w->disk, path_of(2, 2)));
    assert_true(simdisk_exists(w->disk, path_of(2, 3)));
    assert_int_equal(snap_purge(&w->o, DIR, ".snap.db", 1, NULL, &w->em), 0);
    assert_false(simdisk_exists(w->disk, DIR "/0000000000000001.snap.db"));
    assert_true(simdisk_exists(w->disk, DIR "/0000000000000002.snap.db"));
}

/* ---- received stores -------------------------------------------------------------------------------- */

static int count_one(void *arg, raft_index index, const char *name)
{
    (void)index;
    (void)name;
    ++*(size_t *)arg;
    return 0;
}

static void test_received_stores(void **state)
{
    struct world *w = *state;
    char path[64];
    size_t count = 0;
    static const raft_index indexes[] = {5, 0xa1, 0xa2};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(snap_db_path(DIR, indexes[i], path, sizeof path), 0);
        simdisk_put_file(w->disk, path, bytes_str("x"));
    }
    assert_string_equal(path, DIR "/00000000000000a2.snap.db");
    assert_int_equal(snap_db_path(DIR, 1, path, 10), E_TOOBIG);
    simdisk_put_file(w->disk, DIR "/1.snap.db", bytes_str("x"));
    assert_int_equal(snap_db_each(&w->o, DIR, count_one, &count), 0);
    assert_int_equal(count, 3);
    assert_int_equal(snap_db_release(&w->o, DIR, 0xa2, &w->em), 0);
    count = 0;
    assert_int_equal(snap_db_each(&w->o, DIR, count_one, &count), 0);
    assert_int_equal(count, 1);
    assert_true(simdisk_exists(w->disk, DIR "/00000000000000a2.snap.db"));
    assert_true(simdisk_exists(w->disk, DIR "/1.snap.db"));
}

/* ---- failing memory --------------------------------------------------------------------------------- */

static void with_heap(struct test_heap *heap, void *arg)
{
    struct world *w = arg;
    struct snap_opts o = {.disk = w->o.disk, .alloc = &heap->alloc};
    static const struct wal_snapshot wanted = {20, 2};
    struct snap s = SNAP_EMPTY;
    struct snap_content c = content(2, 20);
    int rc = snap_write(&o, DIR, &c, &w->em);
    assert_true(rc == 0 || rc == E_NOMEM);
    if (rc < 0) return;
    rc = snap_load_newest(&o, DIR, &wanted, 1, true, &s, &w->em);
    assert_true(rc == 0 || rc == E_NOMEM);
    snap_deinit(&s);
    rc = snap_db_release(&o, DIR, 0xa2, &w->em);
    assert_true(rc == 0 || rc == E_NOMEM);
}

static void test_memory_fails(void **state)
{
    struct world *w = *state;
    simdisk_put_file(w->disk, DIR "/0000000000000001.snap.db", bytes_str("x"));
    assert_true(test_heap_every_failure(with_heap, w) > 5);
    assert_true(simdisk_exists(w->disk, path_of(2, 20)));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_write_and_read),
        TEST(test_bare_conf),
        TEST(test_durable_when_written),
        TEST(test_failed_write_leaves_nothing),
        TEST(test_what_is_refused),
        TEST(test_inner_message_that_does_not_parse),
        TEST(test_each_flipped_bit_is_refused),
        TEST(test_list_is_newest_first),
        TEST(test_newest_that_the_log_knows_is_loaded),
        TEST(test_a_disk_error_is_no_verdict_on_the_file),
        TEST(test_purge_keeps_the_newest),
        TEST(test_received_stores),
        TEST(test_memory_fails),
    };
    return cmocka_run_group_tests_name("snap/snap", tests, NULL, NULL);
}
