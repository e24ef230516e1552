/* The plain disk of the tests keeps the contract of env/disk.h too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "disk_contract.h"
#include "realdisk.h"
#include "tempdir.h"

static void with_folder(void (*check)(const struct disk *d, const char *dir))
{
    struct tempdir dir;
    tempdir_init(&dir);
    check(realdisk(), dir.path);
    tempdir_deinit(&dir);
}

static void keeps_contract_read_write(void **state)
{
    (void)state;
    with_folder(disk_contract_read_write);
}

static void keeps_contract_open_flags(void **state)
{
    (void)state;
    with_folder(disk_contract_open_flags);
}

static void keeps_contract_sizes(void **state)
{
    (void)state;
    with_folder(disk_contract_sizes);
}

static void keeps_contract_locks(void **state)
{
    (void)state;
    with_folder(disk_contract_locks);
}

static void keeps_contract_names(void **state)
{
    (void)state;
    with_folder(disk_contract_names);
}

static void keeps_contract_list(void **state)
{
    (void)state;
    with_folder(disk_contract_list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_contract_read_write), cmocka_unit_test(keeps_contract_open_flags),
        cmocka_unit_test(keeps_contract_sizes),      cmocka_unit_test(keeps_contract_locks),
        cmocka_unit_test(keeps_contract_names),      cmocka_unit_test(keeps_contract_list),
    };
    return cmocka_run_group_tests_name("env/realdisk", tests, NULL, NULL);
}
