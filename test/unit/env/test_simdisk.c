/* The simulated disk: it keeps the contract of env/disk.h, and its crash images are what they say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "disk_contract.h"
#include "simdisk.h"

static struct disk_file *open_new(const struct disk *d, const char *path)
{
    struct disk_file *f = NULL;
    assert_int_equal(d->open(d->arg, path, DISK_WRITE | DISK_CREATE, 0600, &f), 0);
    return f;
}

static void expect_file(struct simdisk *d, const char *path, const char *content,
                        size_t content_len)
{
    size_t len = 0;
    uint8_t *data = simdisk_get_file(d, path, &len);
    assert_int_equal(len, content_len);
    assert_memory_equal(data, content, len);
    free(data);
}

/* --- contract --------------------------------------------------------------------------------- */

static void with_disk(void (*check)(const struct disk *d, const char *dir))
{
    struct simdisk *d = simdisk_new();
    const struct disk *face = simdisk_face(d);
    assert_int_equal(face->mkdir(face->arg, "/dir", 0700), 0);
    check(face, "/dir");
    simdisk_free(d);
}

static void keeps_contract_read_write(void **state)
{
    (void)state;
    with_disk(disk_contract_read_write);
}

static void keeps_contract_open_flags(void **state)
{
    (void)state;
    with_disk(disk_contract_open_flags);
}

static void keeps_contract_sizes(void **state)
{
    (void)state;
    with_disk(disk_contract_sizes);
}

static void keeps_contract_locks(void **state)
{
    (void)state;
    with_disk(disk_contract_locks);
}

static void keeps_contract_names(void **state)
{
    (void)state;
    with_disk(disk_contract_names);
}

static void keeps_contract_list(void **state)
{
    (void)state;
    with_disk(disk_contract_list);
}

/* --- crash images ----------------------------------------------------------------------------- */

/* create, sync_dir, write "one", sync, write "two" behind it: trace of five. */
static struct simdisk *two_writes(void)
{
    struct simdisk *d = simdisk_new();
    const struct disk *f = simdisk_face(d);
    struct disk_file *file = open_new(f, "log");
    assert_int_equal(f->sync_dir(f->arg, "."), 0);
    assert_int_equal(f->write(f->arg, file, 0, bytes_str("one")), 0);
    assert_int_equal(f->datasync(f->arg, file), 0);
    assert_int_equal(f->write(f->arg, file, 3, bytes_str("two")), 0);
    f->close(f->arg, file);
    assert_int_equal(simdisk_op_count(d), 5);
    return d;
}

static void a_synced_write_survives_every_crash(void **state)
{
    (void)state;
    struct simdisk *d = two_writes();
    struct simdisk *lost = simdisk_crash(d, 5, SIMDISK_LOST, 0);
    expect_file(lost, "log", "one", 3);
    struct simdisk *kept = simdisk_crash(d, 5, SIMDISK_KEPT, 0);
    expect_file(kept, "log", "onetwo", 6);
    simdisk_free(lost);
    simdisk_free(kept);
    simdisk_free(d);
}

static void a_write_before_its_sync_may_be_lost(void **state)
{
    (void)state;
    struct simdisk *d = two_writes();
    struct simdisk *lost = simdisk_crash(d, 3, SIMDISK_LOST, 0);
    expect_file(lost, "log", "", 0);
    simdisk_free(lost);
    simdisk_free(d);
}

static void a_name_without_a_folder_sync_is_lost(void **state)
{
    (void)state;
    struct simdisk *d = two_writes();
    struct simdisk *lost = simdisk_crash(d, 1, SIMDISK_LOST, 0);
    assert_false(simdisk_exists(lost, "log"));
    struct simdisk *kept = simdisk_crash(d, 1, SIMDISK_KEPT, 0);
    assert_true(simdisk_exists(kept, "log"));
    simdisk_free(lost);
    simdisk_free(kept);
    simdisk_free(d);
}

static void a_rename_without_a_folder_sync_leaves_the_old_name(void **state)
{
    (void)state;
    struct simdisk *d = two_writes();
    const struct disk *f = simdisk_face(d);
    assert_int_equal(f->rename(f->arg, "log", "log2"), 0);
    struct simdisk *lost = simdisk_crash(d, 6, SIMDISK_LOST, 0);
    expect_file(lost, "log", "one", 3);
    assert_false(simdisk_exists(lost, "log2"));
    assert_int_equal(f->sync_dir(f->arg, "."), 0);
    struct simdisk *durable = simdisk_crash(d, 7, SIMDISK_LOST, 0);
    expect_file(durable, "log2", "one", 3);
    assert_false(simdisk_exists(durable, "log"));
    simdisk_free(lost);
    simdisk_free(durable);
    simdisk_free(d);
}

static void content_synced_under_an_old_folder_name_survives_with_it(void **state)
{
    (void)state;
    struct simdisk *d = simdisk_new();
    const struct disk *f = simdisk_face(d);
    assert_int_equal(f->mkdir(f->arg, "wal.tmp", 0700), 0);
    assert_int_equal(f->sync_dir(f->arg, "."), 0);
    assert_int_equal(f->rename(f->arg, "wal.tmp", "wal"), 0);
    struct disk_file *file = open_new(f, "wal/0.wal");
    assert_int_equal(f->write(f->arg, file, 0, bytes_str("x")), 0);
    assert_int_equal(f->datasync(f->arg, file), 0);
    assert_int_equal(f->sync_dir(f->arg, "wal"), 0);
    f->close(f->arg, file);
    struct simdisk *lost = simdisk_crash(d, simdisk_op_count(d), SIMDISK_LOST, 0);
    expect_file(lost, "wal.tmp/0.wal", "x", 1);
    simdisk_free(lost);
    simdisk_free(d);
}

static void a_tear_keeps_and_loses_whole_sectors(void **state)
{
    (void)state;
    enum { SECTORS = 16 };
    uint8_t data[SECTORS * SIMDISK_SECTOR_BYTES];
    memset(data, 'n', sizeof data);
    struct simdisk *d = simdisk_new();
    const struct disk *f = simdisk_face(d);
    struct disk_file *file = open_new(f, "f");
    assert_int_equal(f->allocate(f->arg, file, sizeof data), 0);
    assert_int_equal(f->datasync(f->arg, file), 0);
    simdisk_settle(d);
    assert_int_equal(f->write(f->arg, file, 0, bytes_of(data, sizeof data)), 0);
    f->close(f->arg, file);
    unsigned kept = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct simdisk *torn = simdisk_crash(d, 1, SIMDISK_TORN, seed);
        size_t len = 0;
        uint8_t *seen = simdisk_get_file(torn, "f", &len);
        assert_int_equal(len, sizeof data);
        for (size_t s = 0; s < SECTORS; s++) {
            const uint8_t *sector = seen + s * SIMDISK_SECTOR_BYTES;
            assert_true(sector[0] == 0 || sector[0] == 'n');
            for (size_t i = 1; i < SIMDISK_SECTOR_BYTES; i++) {
                assert_int_equal(sector[i], sector[0]);
            }
            kept += sector[0] == 'n';
        }
        free(seen);
        simdisk_free(torn);
    }
    assert_in_range(kept, 8 * SECTORS / 4, 8 * SECTORS * 3 / 4);
    simdisk_free(d);
}

static void images_share_pages_but_not_changes(void **state)
{
    (void)state;
    struct simdisk *d = simdisk_new();
    simdisk_put_file(d, "a/b/f", bytes_str("original"));
    struct simdisk *copy = simdisk_copy(d);
    const struct disk *f = simdisk_face(copy);
    struct disk_file *file = open_new(f, "a/b/f");
    assert_int_equal(f->write(f->arg, file, 0, bytes_str("changed!")), 0);
    f->close(f->arg, file);
    expect_file(d, "/a/b/f", "original", 8);
    expect_file(copy, "./a//b/f", "changed!", 8);
    simdisk_free(d);
    simdisk_free(copy);
}

/* --- faults ----------------------------------------------------------------------------------- */

static void the_nth_operation_fails_once(void **state)
{
    (void)state;
    struct simdisk *d = simdisk_new();
    const struct disk *f = simdisk_face(d);
    struct disk_file *file = open_new(f, "f");
    simdisk_set_fault(d, (struct simdisk_fault){.nth = 2, .rc = E_NOSPACE});
    assert_int_equal(f->write(f->arg, file, 0, bytes_str("a")), 0);
    assert_int_equal(f->write(f->arg, file, 1, bytes_str("b")), E_NOSPACE);
    assert_int_equal(f->write(f->arg, file, 1, bytes_str("c")), 0);
    assert_int_equal(simdisk_fault_count(d), 1);
    f->close(f->arg, file);
    expect_file(d, "f", "ac", 2);
    simdisk_free(d);
}

static void a_fault_can_last_and_pick_its_kind(void **state)
{
    (void)state;
    struct simdisk *d = simdisk_new();
    const struct disk *f = simdisk_face(d);
    struct disk_file *file = open_new(f, "f");
    simdisk_set_fault(d, (struct simdisk_fault){
                             .nth = 1, .rc = E_IO, .forever = true, .kinds = 1U << SIMDISK_SYNC});
    assert_int_equal(f->write(f->arg, file, 0, bytes_str("a")), 0);
    assert_int_equal(f->datasync(f->arg, file), E_IO);
    assert_int_equal(f->datasync(f->arg, file), E_IO);
    assert_int_equal(simdisk_fault_count(d), 2);
    f->close(f->arg, file);
    struct simdisk *lost = simdisk_crash(d, simdisk_op_count(d), SIMDISK_LOST, 0);
    assert_false(simdisk_exists(lost, "f"));
    simdisk_free(lost);
    simdisk_free(d);
}

static void a_failing_write_can_have_written_half(void **state)
{
    (void)state;
    struct simdisk *d = simdisk_new();
    const struct disk *f = simdisk_face(d);
    struct disk_file *file = open_new(f, "f");
    simdisk_set_fault(d, (struct simdisk_fault){.nth = 1, .rc = E_NOSPACE, .half = true});
    assert_int_equal(f->write(f->arg, file, 0, bytes_str("abcd")), E_NOSPACE);
    f->close(f->arg, file);
    expect_file(d, "f", "ab", 2);
    simdisk_free(d);
}

static void the_trace_tells_order_and_marks(void **state)
{
    (void)state;
    struct simdisk *d = two_writes();
    simdisk_mark(d, "reply 1");
    static const char *const kinds[] = {"create", "sync_dir", "write", "sync", "write", "mark"};
    assert_int_equal(simdisk_op_count(d), 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(simdisk_kind_name(simdisk_op(d, i).kind), kinds[i]);
    }
    assert_string_equal(simdisk_op(d, 5).path, "reply 1");
    assert_true(bytes_eq(simdisk_op(d, 4).data, bytes_str("two")));
    assert_int_equal(simdisk_op(d, 4).offset, 3);
    simdisk_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_contract_read_write),
        cmocka_unit_test(keeps_contract_open_flags),
        cmocka_unit_test(keeps_contract_sizes),
        cmocka_unit_test(keeps_contract_locks),
        cmocka_unit_test(keeps_contract_names),
        cmocka_unit_test(keeps_contract_list),
        cmocka_unit_test(a_synced_write_survives_every_crash),
        cmocka_unit_test(a_write_before_its_sync_may_be_lost),
        cmocka_unit_test(a_name_without_a_folder_sync_is_lost),
        cmocka_unit_test(a_rename_without_a_folder_sync_leaves_the_old_name),
        cmocka_unit_test(content_synced_under_an_old_folder_name_survives_with_it),
        cmocka_unit_test(a_tear_keeps_and_loses_whole_sectors),
        cmocka_unit_test(images_share_pages_but_not_changes),
        cmocka_unit_test(the_nth_operation_fails_once),
        cmocka_unit_test(a_fault_can_last_and_pick_its_kind),
        cmocka_unit_test(a_failing_write_can_have_written_half),
        cmocka_unit_test(the_trace_tells_order_and_marks),
    };
    return cmocka_run_group_tests_name("env/simdisk", tests, NULL, NULL);
}
