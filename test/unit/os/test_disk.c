/* The real disk keeps the contract of env/disk.h. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "disk_contract.h"
#include "os/disk.h"
#include "shared.h"
#include "simdisk.h"
#include "tempdir.h"

static struct tempdir dir;

static int setup(void **state)
{
    (void)state;
    tempdir_init(&dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tempdir_deinit(&dir);
    return 0;
}

static void keeps_contract_read_write(void **state)
{
    (void)state;
    disk_contract_read_write(os_disk(), dir.path);
}

static void keeps_contract_open_flags(void **state)
{
    (void)state;
    disk_contract_open_flags(os_disk(), dir.path);
}

static void keeps_contract_sizes(void **state)
{
    (void)state;
    disk_contract_sizes(os_disk(), dir.path);
}

static void keeps_contract_locks(void **state)
{
    (void)state;
    disk_contract_locks(os_disk(), dir.path);
}

static void keeps_contract_names(void **state)
{
    (void)state;
    disk_contract_names(os_disk(), dir.path);
}

static void keeps_contract_list(void **state)
{
    (void)state;
    disk_contract_list(os_disk(), dir.path);
}

static void descriptors_are_not_inherited(void **state)
{
    (void)state;
    char path[TEMPDIR_PATH_BYTES_MAX];
    const struct disk *d = os_disk();
    struct disk_file *f = NULL;
    tempdir_path(&dir, "f", path);
    assert_int_equal(d->open(d->arg, path, DISK_WRITE | DISK_CREATE, 0600, &f), 0);
    assert_true((fcntl(os_disk_fd(f), F_GETFD) & FD_CLOEXEC) != 0);
    d->close(d->arg, f);
}

static void a_full_device_is_no_space(void **state)
{
    (void)state;
    const struct disk *d = os_disk();
    struct disk_file *f = NULL;
    if (access("/dev/full", W_OK) != 0) {
        print_message("SKIP: no /dev/full here\n");
        skip();
    }
    assert_int_equal(d->open(d->arg, "/dev/full", DISK_WRITE, 0, &f), 0);
    assert_int_equal(d->write(d->arg, f, 0, bytes_str("x")), E_NOSPACE);
    d->close(d->arg, f);
}

static void allocating_reserves_blocks(void **state)
{
    (void)state;
    char path[TEMPDIR_PATH_BYTES_MAX];
    const struct disk *d = os_disk();
    struct disk_file *f = NULL;
    struct disk_stat st;
    tempdir_path(&dir, "f", path);
    assert_int_equal(d->open(d->arg, path, DISK_WRITE | DISK_CREATE, 0600, &f), 0);
    assert_int_equal(d->allocate(d->arg, f, 1 << 20), 0);
    assert_int_equal(d->file_stat(d->arg, f, &st), 0);
    assert_int_equal(st.size_bytes, 1 << 20);
    d->close(d->arg, f);
}

/* The two disks together: a golden data folder loaded into the simulated one is the same byte by
 * byte. */
static void a_golden_folder_loads_into_the_simulated_disk(void **state)
{
    (void)state;
    char archive[SHARED_PATH_BYTES_MAX];
    char from[TEMPDIR_PATH_BYTES_MAX];
    char file[TEMPDIR_PATH_BYTES_MAX];
    SHARED_OR_SKIP("golden/datadir/v37-fresh/data.tar.xz", archive);
    tempdir_untar(&dir, archive);
    struct simdisk *sim = simdisk_new();
    simdisk_load(sim, tempdir_path(&dir, "data", from), "data");
    const struct disk *d = simdisk_face(sim);
    struct disk_stat real;
    struct disk_stat simulated;
    static const char wal[] = "data/member/wal/0000000000000000-0000000000000000.wal";
    assert_int_equal(os_disk()->stat(NULL, tempdir_path(&dir, wal, file), &real), 0);
    assert_int_equal(d->stat(d->arg, wal, &simulated), 0);
    assert_int_equal(simulated.size_bytes, real.size_bytes);
    assert_int_equal(simdisk_op_count(sim), 0);
    simdisk_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keeps_contract_read_write, setup, teardown),
        cmocka_unit_test_setup_teardown(keeps_contract_open_flags, setup, teardown),
        cmocka_unit_test_setup_teardown(keeps_contract_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(keeps_contract_locks, setup, teardown),
        cmocka_unit_test_setup_teardown(keeps_contract_names, setup, teardown),
        cmocka_unit_test_setup_teardown(keeps_contract_list, setup, teardown),
        cmocka_unit_test_setup_teardown(descriptors_are_not_inherited, setup, teardown),
        cmocka_unit_test(a_full_device_is_no_space),
        cmocka_unit_test_setup_teardown(allocating_reserves_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(a_golden_folder_loads_into_the_simulated_disk, setup,
                                        teardown),
    };
    return cmocka_run_group_tests_name("os/disk", tests, NULL, NULL);
}
