/* The error table, error messages and log events. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/errmsg.h"
#include "base/log.h"
#include "shared.h"

static void every_row_can_be_looked_up(void **state)
{
    (void)state;
    for (int rc = -1; rc > -(int)ERR_ORDINAL_END; rc--) {
        assert_true(strncmp(err_symbol(rc), "E_", 2) == 0);
        assert_true(strlen(err_text(rc)) > 0);
        assert_true(err_exit_code(rc) > 0);
        assert_true(err_grpc_code(rc) > GRPC_OK && err_grpc_code(rc) <= GRPC_UNAUTHENTICATED);
    }
    assert_string_equal(err_symbol(E_QUOTA), "E_QUOTA");
    assert_string_equal(err_text(E_QUOTA), "etcdserver: mvcc: database space exceeded");
    assert_int_equal(err_grpc_code(E_QUOTA), GRPC_RESOURCE_EXHAUSTED);
}

static void zero_is_no_error_and_strangers_are_unknown(void **state)
{
    (void)state;
    assert_int_equal(err_exit_code(0), 0);
    assert_int_equal(err_grpc_code(0), GRPC_OK);
    assert_string_equal(err_text(1), "unknown error");
    assert_string_equal(err_text(-(int)ERR_ORDINAL_END), "unknown error");
    assert_string_equal(err_text(INT32_MIN), "unknown error");
    assert_int_equal(err_exit_code(7), 1);
}

static void errno_values_are_mapped(void **state)
{
    (void)state;
    assert_int_equal(err_from_errno(ENOSPC), E_NOSPACE);
    assert_int_equal(err_from_errno(EDQUOT), E_NOSPACE);
    assert_int_equal(err_from_errno(ENOENT), E_NOENT);
    assert_int_equal(err_from_errno(EADDRINUSE), E_BUSY);
    assert_int_equal(err_from_errno(EAGAIN), E_AGAIN);
    assert_int_equal(err_from_errno(EIO), E_IO);
    assert_int_equal(err_from_errno(123456), E_IO);
}

/* Rows of spec/errors.tsv whose text stands in our table must carry the same code. */
static void codes_agree_with_the_shared_table(void **state)
{
    (void)state;
    char path[SHARED_PATH_BYTES_MAX];
    SHARED_OR_SKIP("spec/errors.tsv", path);
    size_t len = 0;
    char *table = shared_read(path, &len);
    assert_non_null(table);
    unsigned found = 0;
    for (int rc = -1; rc > -(int)ERR_ORDINAL_END; rc--) {
        const char *text = err_text(rc);
        if (strncmp(text, "etcdserver: ", 12) != 0) continue;
        found += strstr(table, text) != NULL;
    }
    free(table);
    assert_true(found >= 50);
}

/* --- errmsg ----------------------------------------------------------------------------------- */

static void messages_are_set_prefixed_and_cut(void **state)
{
    (void)state;
    struct errmsg em = {""};
    errmsg_set(&em, "open \"%s\": %s", "wal", "gone");
    errmsg_prefix(&em, "start %d", 1);
    assert_string_equal(em.text, "start 1: open \"wal\": gone");
    errmsg_set(&em, "again: %s", em.text); /* its own text as an argument */
    assert_string_equal(em.text, "again: start 1: open \"wal\": gone");
    char big[2 * ERRMSG_BYTES_MAX];
    memset(big, 'y', sizeof big - 1);
    big[sizeof big - 1] = 0;
    errmsg_set(&em, "%s", big);
    assert_int_equal(strlen(em.text), ERRMSG_BYTES_MAX - 1);
    errmsg_prefix(&em, "p");
    assert_memory_equal(em.text, "p: yyy", 6);
    assert_int_equal(strlen(em.text), ERRMSG_BYTES_MAX - 1);
    errmsg_prefix(&em, "%s", big);
    assert_int_equal(strlen(em.text), ERRMSG_BYTES_MAX - 1);
    errmsg_set(NULL, "nobody listens");
    errmsg_prefix(NULL, "nobody listens");
}

/* --- log -------------------------------------------------------------------------------------- */

static void check_event(void *arg, const struct log_event *e)
{
    assert_int_equal(e->level, LOG_WARN);
    assert_string_equal(e->msg, "text");
    assert_int_equal(e->field_count, *(size_t *)arg);
    if (e->field_count == 2) {
        assert_string_equal(e->fields[0].name, "n");
        assert_int_equal(e->fields[0].v.u, 7);
        assert_int_equal(e->fields[1].kind, LOG_BOOL);
    }
    *(size_t *)arg = 99;
}

static void events_reach_the_sink_with_their_fields(void **state)
{
    (void)state;
    size_t fields = 2;
    struct log l = {.emit = check_event, .arg = &fields};
    LOG(&l, LOG_WARN, "text", LOGF_UINT("n", 7), LOGF_BOOL("b", true));
    assert_int_equal(fields, 99);
    fields = 0;
    LOG(&l, LOG_WARN, "text");
    assert_int_equal(fields, 99);
    LOG((const struct log *)NULL, LOG_WARN, "unheard");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_can_be_looked_up),
        cmocka_unit_test(zero_is_no_error_and_strangers_are_unknown),
        cmocka_unit_test(errno_values_are_mapped),
        cmocka_unit_test(codes_agree_with_the_shared_table),
        cmocka_unit_test(messages_are_set_prefixed_and_cut),
        cmocka_unit_test(events_reach_the_sink_with_their_fields),
    };
    return cmocka_run_group_tests_name("base/err", tests, NULL, NULL);
}
