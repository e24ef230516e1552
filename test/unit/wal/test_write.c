/* Writing: creation, what asks for a sync, cuts, locks, release, purge, repair. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "assert_failed.h"
#include "base/err.h"
#include "base/limits.h"
#include "pb/raftpb.h"
#include "simdisk.h"
#include "test_heap.h"
#include "wal/wal.h"
#include "wal/wal_fs.h"
#include "wal/wal_read.h"

#define DIR      "m/wal"
#define SEG0     DIR "/0000000000000000-0000000000000000.wal"
#define METADATA "\x08\x01\x10\x02"

enum { SEGMENT_BYTES = 4096, HEAD_BYTES = 64 };

struct world {
    struct test_heap heap;
    struct simdisk *disk;
    struct wal_opts o;
    struct clock clock;
    struct wal *log;
    struct errmsg em;
    raft_index next;
};

static int64_t wall(void *arg)
{
    (void)arg;
    return INT64_C(1700000000120000000);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    test_heap_init(&w->heap);
    w->disk = simdisk_new();
    w->clock.wall_ns = wall;
    w->next = 1;
    w->o = (struct wal_opts){.disk = simdisk_face(w->disk),
                             .alloc = &w->heap.alloc,
                             .clock = &w->clock,
                             .segment_bytes = SEGMENT_BYTES};
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    wal_abandon(w->log);
    test_heap_check_empty(&w->heap);
    simdisk_free(w->disk);
    free(w);
    return 0;
}

static void create(struct world *w)
{
    int rc = wal_create(&w->o, DIR, bytes_of(METADATA, 4), &w->log, &w->em);
    if (rc < 0) fail_msg("%s", w->em.text);
}

static void open_at(struct world *w, raft_index index, raft_term term)
{
    struct wal_contents c;
    struct wal_snapshot at = {index, term};
    int rc = wal_open(&w->o, DIR, at, &c, &w->log, &w->em);
    if (rc < 0) fail_msg("%s", w->em.text);
    wal_contents_deinit(&c);
}

static void shut(struct world *w)
{
    assert_int_equal(wal_close(w->log, &w->em), 0);
    w->log = NULL;
}

/* Saves one entry of `bytes`. */
static int save(struct world *w, size_t bytes)
{
    struct raft_entry e = {1, w->next++, RAFT_ENTRY_NORMAL, NULL};
    struct raft_hard_state s = {1, 1, e.index};
    e.data = rcbuf_new(&w->heap.alloc, bytes);
    assert_non_null(e.data);
    memset(e.data->data, 7, bytes);
    int rc = wal_save(w->log, &s, &e, 1, &w->em);
    rcbuf_unref(e.data);
    return rc;
}

static void save_synced(struct world *w, size_t bytes)
{
    assert_int_equal(save(w, bytes), 0);
    assert_int_equal(wal_sync(w->log, &w->em), 0);
}

static void save_state(struct world *w, raft_term term, raft_id vote, raft_index commit)
{
    struct raft_hard_state s = {term, vote, commit};
    assert_int_equal(wal_save(w->log, &s, NULL, 0, &w->em), 0);
}

static size_t count_kind(struct world *w, enum simdisk_kind kind, size_t from)
{
    size_t n = 0;
    for (size_t i = from; i < simdisk_op_count(w->disk); i++)
        n += simdisk_op(w->disk, i).kind == kind;
    return n;
}

static uint64_t size_of(struct world *w, const char *path)
{
    struct disk_stat st;
    if (w->o.disk->stat(w->o.disk->arg, path, &st) != 0) fail_msg("no %s", path);
    return st.size_bytes;
}

/* ---- creation --------------------------------------------------------------------------------------- */

static void test_new_log(void **state)
{
    struct world *w = *state;
    static const uint8_t head[HEAD_BYTES] = {
        4, 0, 0, 0, 0, 0, 0, 0x84, 8, 4, 16, 0, 0, 0, 0, 0, /* crc(0) */
    };
    create(w);
    size_t n;
    uint8_t *file = simdisk_get_file(w->disk, SEG0, &n);
    assert_int_equal(n, SEGMENT_BYTES);
    assert_memory_equal(file, head, 16);
    assert_int_equal(wal_offset(w->log) % 8, 0);
    for (size_t i = (size_t)wal_offset(w->log); i < n; i++)
        assert_int_equal(file[i], 0);
    free(file);
    assert_false(simdisk_exists(w->disk, DIR ".tmp"));
    assert_int_equal(wal_last_index(w->log), 0);
    assert_int_equal(wal_segment_seq(w->log), 0);
    assert_false(wal_sync_due(w->log));
}

static void test_default_segment_is_64_million_bytes(void **state)
{
    struct world *w = *state;
    w->o.segment_bytes = 0;
    create(w);
    assert_int_equal(size_of(w, SEG0), 64000000);
}

static void test_creation_over_a_log_is_refused(void **state)
{
    struct world *w = *state;
    struct wal *other;
    create(w);
    shut(w);
    assert_int_equal(wal_create(&w->o, DIR, bytes_of(METADATA, 4), &other, &w->em), E_EXIST);
    assert_non_null(strstr(w->em.text, DIR));
}

static void test_leftovers_give_way_to_a_new_log(void **state)
{
    struct world *w = *state;
    simdisk_put_file(w->disk, DIR ".tmp/0000000000000000-0000000000000000.wal", bytes_str("old"));
    simdisk_put_file(w->disk, DIR "/0.tmp", bytes_str("old"));
    create(w);
    assert_false(simdisk_exists(w->disk, DIR "/0.tmp"));
    shut(w);
    open_at(w, 0, 0);
}

static void test_a_folder_in_the_place_of_the_log_stays(void **state)
{
    struct world *w = *state;
    struct wal *log;
    simdisk_put_file(w->disk, DIR "/mine/file", bytes_str("x"));
    assert_int_equal(wal_create(&w->o, DIR, bytes_of(METADATA, 4), &log, &w->em), E_EXIST);
    assert_true(simdisk_exists(w->disk, DIR "/mine/file"));
    assert_false(simdisk_exists(w->disk, DIR ".tmp"));
}

static void test_a_log_whose_name_is_not_durable_is_set_aside(void **state)
{
    struct world *w = *state;
    struct wal *log;
    struct simdisk_fault f = {.nth = 2, .rc = E_IO, .kinds = 1U << SIMDISK_SYNC_DIR};
    assert_int_equal(wal_fs_mkdir_all(w->o.disk, "m", &w->em), 0);
    simdisk_set_fault(w->disk, f);
    assert_int_equal(wal_create(&w->o, DIR "/", bytes_of(METADATA, 4), &log, &w->em), E_IO);
    assert_false(simdisk_exists(w->disk, DIR));
    assert_true(simdisk_exists(w->disk, DIR ".broken.20231114.221320.12"));
}

static void test_existence(void **state)
{
    struct world *w = *state;
    bool exists = true;
    assert_int_equal(wal_exists(&w->o, DIR, &exists, &w->em), 0);
    assert_false(exists);
    simdisk_put_file(w->disk, DIR "/0.tmp", bytes_str("x"));
    assert_int_equal(wal_exists(&w->o, DIR, &exists, &w->em), 0);
    assert_false(exists);
    simdisk_put_file(w->disk, DIR "/any.wal", bytes_str("x"));
    assert_int_equal(wal_exists(&w->o, DIR, &exists, &w->em), 0);
    assert_true(exists);
}

/* ---- what is synced --------------------------------------------------------------------------------- */

static void test_what_asks_for_a_sync(void **state)
{
    struct world *w = *state;
    create(w);
    save_state(w, 0, 0, 0); /* empty: nothing is written */
    assert_int_equal(wal_offset(w->log), HEAD_BYTES);
    assert_false(wal_sync_due(w->log));
    save_state(w, 1, 0, 0);
    assert_true(wal_sync_due(w->log));
    assert_int_equal(wal_sync(w->log, &w->em), 0);
    save_state(w, 1, 0, 5);
    assert_false(wal_sync_due(w->log));
    save_state(w, 1, 3, 5);
    assert_true(wal_sync_due(w->log));
    assert_int_equal(wal_sync(w->log, &w->em), 0);
    assert_int_equal(save(w, 1), 0);
    assert_true(wal_sync_due(w->log));
}

static void test_the_first_state_after_a_restart_asks_for_a_sync(void **state)
{
    struct world *w = *state;
    create(w);
    save_state(w, 1, 1, 1);
    shut(w);
    open_at(w, 0, 0);
    save_state(w, 1, 1, 2);
    assert_true(wal_sync_due(w->log));
}

static void test_one_sync_for_all(void **state)
{
    struct world *w = *state;
    create(w);
    size_t before = simdisk_op_count(w->disk);
    for (int i = 0; i < 20; i++)
        assert_int_equal(save(w, 10), 0);
    assert_int_equal(simdisk_op_count(w->disk), before);
    assert_int_equal(wal_sync(w->log, &w->em), 0);
    assert_int_equal(count_kind(w, SIMDISK_WRITE, before), 1);
    assert_int_equal(count_kind(w, SIMDISK_SYNC, before), 1);
    assert_int_equal(wal_sync(w->log, &w->em), 0); /* nothing new */
    assert_int_equal(simdisk_op_count(w->disk), before + 2);
    assert_false(wal_sync_due(w->log));
}

static void test_unsafe_no_sync(void **state)
{
    struct world *w = *state;
    create(w);
    shut(w);
    w->o.unsafe_no_sync = true;
    open_at(w, 0, 0);
    size_t before = simdisk_op_count(w->disk);
    for (int i = 0; i < 4; i++)
        save_synced(w, 3000);
    assert_true(wal_segment_seq(w->log) > 0);
    assert_int_equal(count_kind(w, SIMDISK_SYNC, before), 0);
    assert_int_equal(count_kind(w, SIMDISK_SYNC_DIR, before), 0);
}

/* An entry larger than the buffer goes to the disk in whole pages before the sync. */
static void test_overflow_is_handed_over_in_pages(void **state)
{
    struct world *w = *state;
    w->o.segment_bytes = 1 << 20;
    create(w);
    assert_int_equal(save(w, 100), 0);
    size_t before = simdisk_op_count(w->disk);
    assert_int_equal(save(w, 300000), 0);
    for (size_t i = before; i < simdisk_op_count(w->disk); i++) {
        struct simdisk_op op = simdisk_op(w->disk, i);
        assert_int_equal(op.kind, SIMDISK_WRITE);
        assert_int_equal((op.offset + op.data.len) % 4096, 0);
    }
    assert_int_equal(count_kind(w, SIMDISK_WRITE, before), 2);
    shut(w);
    open_at(w, 0, 0);
    assert_int_equal(wal_last_index(w->log), 2);
}

static void test_written_bytes_are_counted(void **state)
{
    struct world *w = *state;
    create(w);
    uint64_t head = wal_written_bytes(w->log);
    assert_int_equal(head, wal_offset(w->log));
    assert_int_equal(save(w, 100), 0);
    assert_int_equal(wal_written_bytes(w->log), head);
    assert_int_equal(wal_sync(w->log, &w->em), 0);
    assert_int_equal(wal_written_bytes(w->log), wal_offset(w->log));
}

/* ---- raw records ------------------------------------------------------------------------------------ */

static void test_records_that_are_refused(void **state)
{
    struct world *w = *state;
    static const uint8_t byte = 0xff;
    create(w);
    uint64_t offset = wal_offset(w->log);
    struct wal_record bad[] = {{WAL_STATE, bytes_of("\x08\x01\x10\x00\x18\x01", 6)},
                               {WAL_ENTRY, bytes_of(&byte, 1)}};
    assert_int_equal(wal_append(w->log, bad, 2, &w->em), E_CORRUPT);
    bad[1] = (struct wal_record){WAL_ENTRY, bytes_of(&byte, (size_t)WAL_RECORD_BYTES_MAX + 1)};
    assert_int_equal(wal_append(w->log, bad, 2, &w->em), E_TOOBIG);
    assert_int_equal(wal_offset(w->log), offset);
    assert_int_equal(wal_append(w->log, bad, 1, &w->em), 0);
    struct wal_record crc = {WAL_CRC, BYTES_EMPTY};
    EXPECT_ASSERT(wal_append(w->log, &crc, 1, &w->em));
}

static void test_raw_records_move_the_last_index(void **state)
{
    struct world *w = *state;
    struct wal_record r[] = {{WAL_ENTRY, bytes_of("\x10\x01\x18\x07", 4)},
                             {WAL_SNAPSHOT, bytes_of("\x08\x09\x10\x01", 4)},
                             {WAL_SNAPSHOT, bytes_of("\x08\x02\x10\x01", 4)}};
    create(w);
    assert_int_equal(wal_append(w->log, r, 1, &w->em), 0);
    assert_int_equal(wal_last_index(w->log), 7);
    assert_int_equal(wal_append(w->log, r + 1, 2, &w->em), 0);
    assert_int_equal(wal_last_index(w->log), 9);
}

/* ---- cuts ------------------------------------------------------------------------------------------- */

static void fill_segment(struct world *w)
{
    uint64_t seq = wal_segment_seq(w->log);
    while (wal_segment_seq(w->log) == seq)
        save_synced(w, 1000);
}

static void test_cut(void **state)
{
    struct world *w = *state;
    create(w);
    fill_segment(w);
    char name[64];
    snprintf(name, sizeof name, DIR "/0000000000000001-%016x.wal", (unsigned)w->next);
    assert_int_equal(size_of(w, name), SEGMENT_BYTES);
    assert_true(size_of(w, SEG0) > SEGMENT_BYTES);
    assert_false(wal_sync_due(w->log));
    save_synced(w, 5);
    shut(w);
    open_at(w, 0, 0);
    assert_int_equal(wal_last_index(w->log), w->next - 1);
    assert_int_equal(wal_segment_seq(w->log), 1);
}

static void test_next_segments_take_turns(void **state)
{
    struct world *w = *state;
    create(w);
    for (int i = 0; i < 4; i++) {
        const char *name = i % 2 == 0 ? DIR "/0.tmp" : DIR "/1.tmp";
        assert_int_equal(wal_prepare_next(w->log, &w->em), 0);
        assert_int_equal(wal_prepare_next(w->log, &w->em), 0); /* nothing to do */
        assert_int_equal(size_of(w, name), SEGMENT_BYTES);
        fill_segment(w);
        assert_false(simdisk_exists(w->disk, name));
    }
    assert_int_equal(wal_prepare_next(w->log, &w->em), 0);
    shut(w);
    assert_false(simdisk_exists(w->disk, DIR "/0.tmp"));
}

static void test_leftover_next_segment_is_zeroed(void **state)
{
    struct world *w = *state;
    uint8_t junk[5000];
    create(w);
    memset(junk, 0xee, sizeof junk);
    simdisk_put_file(w->disk, DIR "/0.tmp", bytes_of(junk, sizeof junk));
    fill_segment(w);
    shut(w);
    open_at(w, 0, 0);
    assert_int_equal(wal_segment_seq(w->log), 1);
}

static void test_cut_is_put_off_without_space(void **state)
{
    struct world *w = *state;
    struct simdisk_fault f = {
        .nth = 1, .rc = E_NOSPACE, .forever = true, .kinds = 1U << SIMDISK_ALLOCATE};
    create(w);
    simdisk_set_fault(w->disk, f);
    assert_int_equal(wal_prepare_next(w->log, &w->em), E_NOSPACE);
    assert_false(simdisk_exists(w->disk, DIR "/0.tmp"));
    for (int i = 0; i < 10; i++)
        save_synced(w, 1000);
    assert_int_equal(wal_segment_seq(w->log), 0);
    simdisk_set_fault(w->disk, (struct simdisk_fault){0});
    save_synced(w, 10);
    assert_int_equal(wal_segment_seq(w->log), 1);
    shut(w);
    open_at(w, 0, 0);
    assert_int_equal(wal_last_index(w->log), w->next - 1);
}

/* ---- opening ---------------------------------------------------------------------------------------- */

static void test_what_hides_behind_the_end_is_zeroed(void **state)
{
    struct world *w = *state;
    create(w);
    save_synced(w, 100);
    uint64_t end = wal_offset(w->log);
    shut(w);
    size_t n;
    uint8_t *file = simdisk_get_file(w->disk, SEG0, &n);
    memset(file + end + 8, 0x55, 1000);
    simdisk_put_file(w->disk, SEG0, bytes_of(file, n));
    free(file);
    open_at(w, 0, 0);
    assert_int_equal(wal_offset(w->log), end);
    save_synced(w, 500);
    shut(w);
    open_at(w, 0, 0);
    assert_int_equal(wal_last_index(w->log), 2);
    assert_int_equal(size_of(w, SEG0), SEGMENT_BYTES);
}

/* Without the segment before it, an empty one could not be read once something is in it: it gets its head. */
static void test_empty_last_segment_gets_its_head(void **state)
{
    struct world *w = *state;
    create(w);
    fill_segment(w);
    char name[64];
    snprintf(name, sizeof name, DIR "/0000000000000001-%016x.wal", (unsigned)w->next);
    raft_index cut_at = w->next;
    shut(w);
    simdisk_put_file(w->disk, name, BYTES_EMPTY);
    open_at(w, 0, 0);
    save_synced(w, 10);
    shut(w);
    assert_int_equal(w->o.disk->unlink(w->o.disk->arg, SEG0), 0);
    open_at(w, cut_at, 1);
    assert_int_equal(wal_last_index(w->log), cut_at);
}

static void test_locks(void **state)
{
    struct world *w = *state;
    struct wal_contents c;
    struct wal *other;
    struct wal_snapshot zero = {0, 0};
    create(w);
    assert_int_equal(wal_open(&w->o, DIR, zero, &c, &other, &w->em), E_LOCKED);
    assert_int_equal(wal_repair(&w->o, DIR, NULL, &w->em), E_LOCKED);
    assert_int_equal(wal_read(&w->o, DIR, zero, &c, &w->em), 0); /* tools take no lock */
    wal_contents_deinit(&c);
    wal_abandon(w->log);
    w->log = NULL;
    open_at(w, 0, 0);
}

/* ---- release and purge ------------------------------------------------------------------------------ */

static size_t purge(struct world *w, size_t keep)
{
    size_t removed = 99;
    assert_int_equal(wal_purge(&w->o, DIR, keep, &removed, &w->em), 0);
    return removed;
}

static void test_purge_stops_at_a_lock(void **state)
{
    struct world *w = *state;
    create(w);
    raft_index starts[5] = {0};
    for (size_t i = 1; i < 5; i++) {
        fill_segment(w);
        starts[i] = w->next;
    }
    assert_int_equal(purge(w, 0), 0); /* off */
    assert_int_equal(purge(w, 2), 0); /* all are held */
    wal_release(w->log, starts[1] - 1);
    assert_int_equal(purge(w, 2), 0); /* one from before stays */
    wal_release(w->log, starts[3]);
    assert_int_equal(purge(w, 4), 1); /* as many as asked for */
    assert_int_equal(purge(w, 1), 1); /* 0 and 1 were free, 2 is held */
    wal_release(w->log, UINT64_MAX);
    assert_int_equal(purge(w, 1), 2);
    save_synced(w, 10);
    shut(w);
    open_at(w, starts[4], 1);
}

/* ---- repair ----------------------------------------------------------------------------------------- */

static void tear(struct world *w)
{
    size_t n;
    uint8_t *file = simdisk_get_file(w->disk, SEG0, &n);
    simdisk_put_file(w->disk, SEG0, bytes_of(file, n - SEGMENT_BYTES + HEAD_BYTES + 60));
    free(file);
}

static void test_repair_keeps_a_copy(void **state)
{
    struct world *w = *state;
    struct wal_contents c;
    bool repaired = true;
    create(w);
    save_synced(w, 100);
    shut(w);
    assert_int_equal(wal_repair(&w->o, DIR, &repaired, &w->em), 0);
    assert_false(repaired);
    tear(w);
    simdisk_put_file(w->disk, SEG0 ".broken",
                     bytes_str("of another time, and longer than the new one: "
                               "-----------------------------------------"
                               "-----------------------------------------"));
    int rc =
        wal_open_repair(&w->o, DIR, (struct wal_snapshot){0, 0}, &c, &repaired, &w->log, &w->em);
    assert_int_equal(rc, 0);
    assert_true(repaired);
    assert_int_equal(c.entry_count, 0);
    wal_contents_deinit(&c);
    assert_int_equal(size_of(w, SEG0 ".broken"), HEAD_BYTES + 60);
    assert_int_equal(size_of(w, SEG0), HEAD_BYTES);
    w->next = 1;
    save_synced(w, 10); /* it simply grows */
    shut(w);
    open_at(w, 0, 0);
}

static void test_repair_without_a_log(void **state)
{
    struct world *w = *state;
    assert_int_equal(wal_repair(&w->o, DIR, NULL, &w->em), E_NOENT);
    simdisk_put_file(w->disk, DIR "/junk", bytes_str("x"));
    assert_int_equal(wal_repair(&w->o, DIR, NULL, &w->em), E_WAL_FILE_NOT_FOUND);
}

static void test_repair_that_fails_changes_nothing(void **state)
{
    struct world *w = *state;
    create(w);
    save_synced(w, 100);
    shut(w);
    tear(w);
    for (size_t n = 1; n <= 6; n++) {
        simdisk_set_fault(w->disk,
                          (struct simdisk_fault){.nth = n, .rc = E_NOSPACE, .forever = true});
        int rc = wal_repair(&w->o, DIR, NULL, &w->em);
        assert_int_equal(rc, E_NOSPACE);
        if (n <= 5) assert_int_equal(size_of(w, SEG0), HEAD_BYTES + 60);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_new_log),
        TEST(test_default_segment_is_64_million_bytes),
        TEST(test_creation_over_a_log_is_refused),
        TEST(test_leftovers_give_way_to_a_new_log),
        TEST(test_a_folder_in_the_place_of_the_log_stays),
        TEST(test_a_log_whose_name_is_not_durable_is_set_aside),
        TEST(test_existence),
        TEST(test_what_asks_for_a_sync),
        TEST(test_the_first_state_after_a_restart_asks_for_a_sync),
        TEST(test_one_sync_for_all),
        TEST(test_unsafe_no_sync),
        TEST(test_overflow_is_handed_over_in_pages),
        TEST(test_written_bytes_are_counted),
        TEST(test_records_that_are_refused),
        TEST(test_raw_records_move_the_last_index),
        TEST(test_cut),
        TEST(test_next_segments_take_turns),
        TEST(test_leftover_next_segment_is_zeroed),
        TEST(test_cut_is_put_off_without_space),
        TEST(test_what_hides_behind_the_end_is_zeroed),
        TEST(test_empty_last_segment_gets_its_head),
        TEST(test_locks),
        TEST(test_purge_stops_at_a_lock),
        TEST(test_repair_keeps_a_copy),
        TEST(test_repair_without_a_log),
        TEST(test_repair_that_fails_changes_nothing),
    };
    return cmocka_run_group_tests_name("wal/write", tests, NULL, NULL);
}
