/* Log lines, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/err.h"
#include "os/disk.h"
#include "os/file_util.h"
#include "os/heap.h"
#include "os/log.h"
#include "tempdir.h"

static struct tempdir dir;
static char path[TEMPDIR_PATH_BYTES_MAX];

static int64_t fixed_wall(void *arg)
{
    return *(int64_t *)arg;
}

static int64_t wall_ns;
static const struct clock fixed = {.wall_ns = fixed_wall, .arg = &wall_ns};

static int setup(void **state)
{
    (void)state;
    (void)setenv("TZ", "UTC", 1);
    tzset();
    wall_ns = 1136214245123450000; /* 2006-01-02T15:04:05.12345 */
    tempdir_init(&dir);
    tempdir_path(&dir, "log", path);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tempdir_deinit(&dir);
    return 0;
}

static struct os_log *log_ok(enum log_level level, bool console)
{
    struct os_log *l = NULL;
    const char *outputs[] = {path};
    struct os_log_opts opts = {
        .level = level, .console = console, .outputs = outputs, .output_count = 1, .clock = &fixed};
    assert_int_equal(os_log_open(&opts, &l, NULL), 0);
    return l;
}

static void expect_log(const char *expected)
{
    struct buf b;
    buf_init(&b, &os_heap, 1 << 20);
    assert_int_equal(file_read_all(os_disk(), path, &b, NULL), 0);
    assert_int_equal(buf_put_u8(&b, 0), 0);
    assert_string_equal((const char *)b.data, expected);
    buf_deinit(&b);
}

/* An event of a fixed place, so that lines do not change with this file. */
static void say(struct os_log *l, enum log_level level, const struct log_field *fields,
                size_t count)
{
    const struct log_event e = {.level = level,
                                .file = "libcore/wal/wal.c",
                                .line = 12,
                                .msg = "a \"message\" <1>",
                                .fields = fields,
                                .field_count = count};
    log_emit(os_log_face(l), &e);
}

static void a_json_line_is_zaps(void **state)
{
    (void)state;
    const struct log_field fields[] = {LOGF_STR("s", "x\ty"),
                                       LOGF_INT("i", -5),
                                       LOGF_UINT("u", UINT64_MAX),
                                       LOGF_BOOL("b", true),
                                       LOGF_HEX("h", 0x8e9e05c52164694d),
                                       LOGF_DURATION("d", 1500000000),
                                       LOGF_JSON("j", "[1,2]"),
                                       LOGF_STR("none", NULL)};
    struct os_log *l = log_ok(LOG_INFO, false);
    say(l, LOG_INFO, fields, 8);
    say(l, LOG_FATAL, NULL, 0);
    os_log_close(l);
    expect_log(
        "{\"level\":\"info\",\"ts\":\"2006-01-02T15:04:05.12345Z\",\"caller\":\"wal/wal.c:12\","
        "\"msg\":\"a \\\"message\\\" "
        "<1>\",\"s\":\"x\\ty\",\"i\":-5,\"u\":18446744073709551615,\"b\":true,"
        "\"h\":\"8e9e05c52164694d\",\"d\":\"1.5s\",\"j\":[1,2],\"none\":\"\"}\n"
        "{\"level\":\"fatal\",\"ts\":\"2006-01-02T15:04:05.12345Z\",\"caller\":\"wal/wal.c:12\","
        "\"msg\":\"a \\\"message\\\" <1>\"}\n");
}

static void a_console_line_is_zaps(void **state)
{
    (void)state;
    const struct log_field fields[] = {LOGF_STR("s", "x"), LOGF_INT("i", 1)};
    struct os_log *l = log_ok(LOG_INFO, true);
    wall_ns = 1136214245000000000; /* no fraction at all */
    say(l, LOG_WARN, fields, 2);
    say(l, LOG_INFO, NULL, 0);
    os_log_close(l);
    expect_log(
        "2006-01-02T15:04:05Z\twarn\twal/wal.c:12\ta \"message\" <1>\t{\"s\": \"x\", \"i\": 1}\n"
        "2006-01-02T15:04:05Z\tinfo\twal/wal.c:12\ta \"message\" <1>\n");
}

static void times_bear_their_zone(void **state)
{
    (void)state;
    (void)setenv("TZ", "IST-5:30", 1);
    tzset();
    struct os_log *l = log_ok(LOG_INFO, true);
    wall_ns = 1136214245000001999;
    say(l, LOG_INFO, NULL, 0);
    os_log_close(l);
    expect_log("2006-01-02T20:34:05.000001+0530\tinfo\twal/wal.c:12\ta \"message\" <1>\n");
}

static void levels_filter_and_can_be_changed(void **state)
{
    (void)state;
    struct os_log *l = log_ok(LOG_WARN, true);
    say(l, LOG_INFO, NULL, 0);
    expect_log("");
    assert_true(os_log_enabled(l, LOG_ERROR));
    os_log_set_level(l, LOG_DEBUG);
    assert_int_equal(os_log_level(l), LOG_DEBUG);
    say(l, LOG_DEBUG, NULL, 0);
    os_log_close(l);
    expect_log("2006-01-02T15:04:05.12345Z\tdebug\twal/wal.c:12\ta \"message\" <1>\n");
}

static void a_line_too_long_loses_its_fields_only(void **state)
{
    (void)state;
    char *big = calloc(1, 100000);
    assert_non_null(big);
    memset(big, 'x', 99999);
    const struct log_field fields[] = {LOGF_STR("big", big)};
    struct os_log *l = log_ok(LOG_INFO, true);
    say(l, LOG_INFO, fields, 1);
    os_log_close(l);
    free(big);
    expect_log("2006-01-02T15:04:05.12345Z\tinfo\twal/wal.c:12\ta \"message\" "
               "<1>\t{\"fields-too-long\": true}\n");
}

static void a_log_is_appended_to(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct os_log *l = log_ok(LOG_INFO, true);
        say(l, LOG_INFO, NULL, 0);
        os_log_close(l);
    }
    expect_log("2006-01-02T15:04:05.12345Z\tinfo\twal/wal.c:12\ta \"message\" <1>\n"
               "2006-01-02T15:04:05.12345Z\tinfo\twal/wal.c:12\ta \"message\" <1>\n");
}

static void outputs_that_cannot_be_opened_are_named(void **state)
{
    (void)state;
    struct os_log *l = NULL;
    struct errmsg em = {""};
    const char *outputs[] = {"stdout", "/nonexistent/log"};
    struct os_log_opts opts = {.outputs = outputs, .output_count = 2};
    assert_int_equal(os_log_open(&opts, &l, &em), E_NOENT);
    assert_string_equal(em.text,
                        "cannot open log output \"/nonexistent/log\": no such file or directory");
    opts.output_count = OS_LOG_OUTPUTS_MAX + 1;
    assert_int_equal(os_log_open(&opts, &l, &em), E_INVAL);
}

static void level_words_are_known(void **state)
{
    (void)state;
    enum log_level level = LOG_DEBUG;
    assert_int_equal(os_log_level_parse("warn", &level), 0);
    assert_int_equal(level, LOG_WARN);
    assert_int_equal(os_log_level_parse("dpanic", &level), 0);
    assert_int_equal(level, LOG_FATAL);
    assert_int_equal(os_log_level_parse("WARN", &level), E_INVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_json_line_is_zaps, setup, teardown),
        cmocka_unit_test_setup_teardown(a_console_line_is_zaps, setup, teardown),
        cmocka_unit_test_setup_teardown(times_bear_their_zone, setup, teardown),
        cmocka_unit_test_setup_teardown(levels_filter_and_can_be_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_line_too_long_loses_its_fields_only, setup, teardown),
        cmocka_unit_test_setup_teardown(a_log_is_appended_to, setup, teardown),
        cmocka_unit_test(outputs_that_cannot_be_opened_are_named),
        cmocka_unit_test(level_words_are_known),
    };
    return cmocka_run_group_tests_name("os/log", tests, NULL, NULL);
}
