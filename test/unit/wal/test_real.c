/* The log on a real file system: preallocation, locks between handles, cuts, what is on the disk afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "realdisk.h"
#include "test_heap.h"
#include "wal/wal.h"
#include "wal/wal_fs.h"
#include "wal/wal_read.h"

struct world {
    struct test_heap heap;
    struct wal_opts o;
    char folder[REALDISK_PATH_BYTES_MAX];
    struct wal_path dir;
    struct errmsg em;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    test_heap_init(&w->heap);
    realdisk_folder("wal", w->folder);
    w->o = (struct wal_opts){.disk = realdisk(), .alloc = &w->heap.alloc, .segment_bytes = 1 << 16};
    assert_int_equal(wal_fs_join(w->folder, "log", &w->dir, &w->em), 0);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    assert_int_equal(wal_fs_remove_dir(w->o.disk, w->o.alloc, w->dir.text, &w->em), 0);
    realdisk_remove(w->folder);
    test_heap_check_empty(&w->heap);
    free(w);
    return 0;
}

static void save(struct world *w, struct wal *log, raft_index index, size_t bytes)
{
    struct raft_entry e = {1, index, RAFT_ENTRY_NORMAL, rcbuf_new(&w->heap.alloc, bytes)};
    struct raft_hard_state s = {1, 1, index};
    memset(e.data->data, (int)index + 1, bytes);
    assert_int_equal(wal_save(log, &s, &e, 1, &w->em), 0);
    assert_int_equal(wal_sync(log, &w->em), 0);
    rcbuf_unref(e.data);
}

static void check_entries(struct world *w, size_t count)
{
    struct wal_contents c;
    assert_int_equal(wal_read(&w->o, w->dir.text, (struct wal_snapshot){0, 0}, &c, &w->em), 0);
    assert_int_equal(c.entry_count, count);
    for (size_t i = 0; i < count; i++) {
        struct bytes data = rcbuf_bytes(c.entries[i].data);
        for (size_t k = 0; k < data.len; k++)
            assert_int_equal(data.data[k], (uint8_t)(c.entries[i].index + 1));
    }
    wal_contents_deinit(&c);
}

static void test_write_cut_reopen(void **state)
{
    struct world *w = *state;
    struct wal *log;
    struct wal_contents c;
    struct wal_snapshot zero = {0, 0};
    assert_int_equal(wal_create(&w->o, w->dir.text, bytes_str("\x08\x01"), &log, &w->em), 0);
    for (raft_index i = 1; i <= 40; i++) {
        if (i % 7 == 0) assert_int_equal(wal_prepare_next(log, &w->em), 0);
        save(w, log, i, (size_t)i * 500);
        check_entries(w, (size_t)i); /* a tool may read at any time */
    }
    assert_true(wal_segment_seq(log) >= 4);
    struct wal *other;
    assert_int_equal(wal_open(&w->o, w->dir.text, zero, &c, &other, &w->em), E_LOCKED);
    assert_int_equal(wal_close(log, &w->em), 0);
    assert_int_equal(wal_open(&w->o, w->dir.text, zero, &c, &log, &w->em), 0);
    assert_int_equal(c.entry_count, 40);
    wal_contents_deinit(&c);
    save(w, log, 41, 10);
    wal_abandon(log); /* as a crash would */
    check_entries(w, 41);
}

static void test_modes_and_lengths(void **state)
{
    struct world *w = *state;
    struct wal *log;
    struct disk_stat st;
    struct wal_path segment;
    w->o.segment_bytes = 0;
    assert_int_equal(wal_create(&w->o, w->dir.text, bytes_str("\x08\x01"), &log, &w->em), 0);
    assert_int_equal(w->o.disk->stat(w->o.disk->arg, w->dir.text, &st), 0);
    assert_int_equal(st.mode & 0777, 0700);
    int rc = wal_fs_join(w->dir.text, "0000000000000000-0000000000000000.wal", &segment, &w->em);
    assert_int_equal(rc, 0);
    assert_int_equal(w->o.disk->stat(w->o.disk->arg, segment.text, &st), 0);
    assert_int_equal(st.mode & 0777, 0600);
    assert_int_equal(st.size_bytes, WAL_SEGMENT_BYTES);
    assert_int_equal(wal_close(log, &w->em), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_write_cut_reopen),
        TEST(test_modes_and_lengths),
    };
    return cmocka_run_group_tests_name("wal/real", tests, NULL, NULL);
}
