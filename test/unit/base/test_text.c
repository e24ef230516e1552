/* Go's text forms. Expected values are what Go 1.26 prints for the same input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/text.h"
#include "test_heap.h"

typedef int (*put_fn)(struct buf *b, struct bytes s);

static void expect_put(put_fn put, struct bytes in, const char *expected)
{
    struct test_heap h;
    struct buf b;
    test_heap_init(&h);
    buf_init(&b, &h.alloc, SIZE_MAX);
    assert_int_equal(buf_put_str(&b, ">"), 0);
    assert_int_equal(put(&b, in), 0);
    assert_int_equal(buf_put_u8(&b, 0), 0);
    assert_string_equal((const char *)b.data + 1, expected);
    buf_deinit(&b);
    test_heap_check_empty(&h);
}

static void expect_refused(put_fn get, const char *in)
{
    struct test_heap h;
    struct buf b;
    test_heap_init(&h);
    buf_init(&b, &h.alloc, SIZE_MAX);
    assert_int_equal(buf_put_str(&b, "before"), 0);
    if (get(&b, bytes_str(in)) != E_INVAL) fail_msg("\"%s\" was taken", in);
    assert_true(bytes_eq(buf_bytes(&b), bytes_str("before")));
    buf_deinit(&b);
}

/* --- hex, base64 ------------------------------------------------------------------------------ */

static void hex_there_and_back(void **state)
{
    (void)state;
    expect_put(text_put_hex, bytes_of("\x00\x1f\xff", 3), "001fff");
    expect_put(text_put_hex, BYTES_EMPTY, "");
    expect_put(text_get_hex, bytes_str("61624A6b"), "abJk");
    expect_refused(text_get_hex, "abc");
    expect_refused(text_get_hex, "61zz");
    expect_refused(text_get_hex, "6g");
}

static void base64_there_and_back(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"", ""},
                                          {"f", "Zg=="},
                                          {"fo", "Zm8="},
                                          {"foo", "Zm9v"},
                                          {"foob", "Zm9vYg=="},
                                          {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"},
                                          {"\xfb\xff\xbf", "+/+/"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect_put(text_put_base64, bytes_str(rows[i][0]), rows[i][1]);
        expect_put(text_get_base64, bytes_str(rows[i][1]), rows[i][0]);
    }
    expect_put(text_get_base64, bytes_str("Zm9v\r\nYmFy\n"), "foobar");
    expect_put(text_get_base64, bytes_str("Zh=="), "f"); /* unused bits are not looked at */
    static const char *const bad[] = {
        "Z", "Zg", "Zg=", "Zg===", "=", "====", "Z===", "Zg==Zg==", "Zm9v!mFy", "Zm=v", "Zm-_"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_refused(text_get_base64, bad[i]);
    }
}

/* --- quoting ---------------------------------------------------------------------------------- */

static void quoting_is_strconvs(void **state)
{
    (void)state;
    expect_put(text_put_quoted, bytes_str(""), "\"\"");
    expect_put(text_put_quoted, bytes_of("\a\b\f\n\r\t\v\\\"'\0\x1f\x7f", 13),
               "\"\\a\\b\\f\\n\\r\\t\\v\\\\\\\"'\\x00\\x1f\\x7f\"");
    expect_put(text_put_quoted, bytes_str("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
               "\"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
    expect_put(text_put_quoted, bytes_str("\xff\xc3\xa9\xc3"), "\"\\xff\xc3\xa9\\xc3\"");
    expect_put(text_put_quoted, bytes_str("\xc2\xa0\xe2\x80\xa8\xef\xbb\xbf"),
               "\"\\u00a0\\u2028\\ufeff\"");
    expect_put(text_put_quoted, bytes_str("\xf3\xa0\x80\x81"), "\"\\U000e0001\"");
    expect_put(text_put_quoted, bytes_str("\xef\xbf\xbd"), "\"\xef\xbf\xbd\""); /* a real U+FFFD */
    expect_put(text_put_quoted, bytes_str("\xed\xa0\x80\xc0\x80\xf5"),
               "\"\\xed\\xa0\\x80\\xc0\\x80\\xf5\""); /* surrogate, overlong, too large */
    expect_put(text_put_quoted, bytes_str("\xf0\x9f\x98"), "\"\\xf0\\x9f\\x98\"");
}

static void json_is_gos_encoder(void **state)
{
    (void)state;
    expect_put(text_put_json, bytes_of("a\"\\/\b\f\n\r\t\x01\0\x7f", 12),
               "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u0000\x7f\"");
    expect_put(text_put_json, bytes_str("<a href='&'>"), "\"\\u003ca href='\\u0026'\\u003e\"");
    expect_put(text_put_json, bytes_str("\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa"),
               "\"\\u2028\\u2029\xe2\x80\xaa\"");
    expect_put(text_put_json, bytes_str("\xff\xc3"), "\"\\ufffd\\ufffd\"");
    expect_put(text_put_json, bytes_str("\xef\xbf\xbd"), "\"\xef\xbf\xbd\"");
}

static void plain_json_is_zaps(void **state)
{
    (void)state;
    expect_put(text_put_json_plain, bytes_str("<&>\b\f\n\xe2\x80\xa8\xff"),
               "\"<&>\\u0008\\u000c\\n\xe2\x80\xa8\\ufffd\"");
}

static void quote_many(struct test_heap *h, void *arg)
{
    (void)arg;
    static const put_fn puts[] = {text_put_quoted, text_put_json, text_put_json_plain, text_put_hex,
                                  text_put_base64};
    uint8_t all[256];
    for (size_t i = 0; i < sizeof all; i++) {
        all[i] = (uint8_t)i;
    }
    for (size_t i = 0; i < sizeof puts / sizeof *puts; i++) {
        struct buf b;
        buf_init(&b, &h->alloc, SIZE_MAX);
        int rc = puts[i](&b, bytes_of(all, sizeof all));
        assert_true(rc == 0 || rc == E_NOMEM);
        assert_int_equal(b.len > 0, rc == 0); /* all or nothing */
        buf_deinit(&b);
    }
}

static void writers_survive_every_failing_allocation(void **state)
{
    (void)state;
    assert_true(test_heap_every_failure(quote_many, NULL) > 10);
    assert_true(test_heap_every_failure_on(quote_many, NULL) > 10);
}

/* --- numbers ---------------------------------------------------------------------------------- */

static void expect_int(const char *text, unsigned base, int64_t expected)
{
    int64_t got = 12345;
    struct errmsg em = {""};
    if (text_parse_int(bytes_str(text), base, &got, &em) < 0) fail_msg("%s: %s", text, em.text);
    if (got != expected)
        fail_msg("%s: expected %lld, seen %lld", text, (long long)expected, (long long)got);
}

static void expect_no_int(const char *text, unsigned base, const char *why)
{
    int64_t got = 12345;
    struct errmsg em = {""};
    assert_int_equal(text_parse_int(bytes_str(text), base, &got, &em), E_INVAL);
    assert_int_equal(got, 12345);
    assert_string_equal(em.text, why);
}

static void ints_parse_as_strconv_does(void **state)
{
    (void)state;
    expect_int("0", 0, 0);
    expect_int("-0", 10, 0);
    expect_int("+7", 10, 7);
    expect_int("0x1F", 0, 31);
    expect_int("-0X1f", 0, -31);
    expect_int("0o17", 0, 15);
    expect_int("017", 0, 15);
    expect_int("0b101", 0, 5);
    expect_int("1_000", 0, 1000);
    expect_int("0x_ff", 0, 255);
    expect_int("0_7", 0, 7);
    expect_int("ff", 16, 255);
    expect_int("-8000000000000000", 16, INT64_MIN);
    expect_int("9223372036854775807", 10, INT64_MAX);
    expect_int("-9223372036854775808", 0, INT64_MIN);
    expect_int("zz", 36, 1295);
}

static void bad_ints_get_gos_words(void **state)
{
    (void)state;
    static const char *const syntax[] = {"",     "-",  "+",  "abc",  "1 ",  "0x",  "08",
                                         "1__0", "_1", "1_", "0x1_", "--1", "1.5", "0_x1"};
    for (size_t i = 0; i < sizeof syntax / sizeof *syntax; i++) {
        char why[128];
        (void)snprintf(why, sizeof why, "strconv.ParseInt: parsing \"%s\": invalid syntax",
                       syntax[i]);
        expect_no_int(syntax[i], 0, why);
    }
    expect_no_int("1_0", 10, "strconv.ParseInt: parsing \"1_0\": invalid syntax");
    expect_no_int("9223372036854775808", 10,
                  "strconv.ParseInt: parsing \"9223372036854775808\": value out of range");
    expect_no_int("-9223372036854775809", 0,
                  "strconv.ParseInt: parsing \"-9223372036854775809\": value out of range");
    expect_no_int("99999999999999999999x", 10,
                  "strconv.ParseInt: parsing \"99999999999999999999x\": value out of range");
    expect_no_int("a\n", 16, "strconv.ParseInt: parsing \"a\\n\": invalid syntax");
}

static void uints_take_no_sign(void **state)
{
    (void)state;
    uint64_t got = 0;
    struct errmsg em = {""};
    assert_int_equal(text_parse_uint(bytes_str("ffffffffffffffff"), 16, &got, &em), 0);
    assert_true(got == UINT64_MAX);
    assert_int_equal(text_parse_uint(bytes_str("18446744073709551616"), 10, &got, &em), E_INVAL);
    assert_string_equal(em.text,
                        "strconv.ParseUint: parsing \"18446744073709551616\": value out of range");
    assert_int_equal(text_parse_uint(bytes_str("-1"), 10, &got, &em), E_INVAL);
    assert_string_equal(em.text, "strconv.ParseUint: parsing \"-1\": invalid syntax");
    assert_int_equal(text_parse_uint(bytes_str("+1"), 0, &got, NULL), E_INVAL);
}

static void a_text_too_long_to_quote_still_gives_an_error(void **state)
{
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text);
    int64_t got = 0;
    struct errmsg em = {""};
    assert_int_equal(text_parse_int(bytes_of(text, sizeof text), 10, &got, &em), E_INVAL);
    assert_string_equal(em.text, "strconv.ParseInt: parsing \"...\": invalid syntax");
    assert_int_equal(text_parse_duration(bytes_of(text, sizeof text), &got, &em), E_INVAL);
    assert_memory_equal(em.text, "time: invalid duration \"xxx", 27);
}

static void bools_parse_as_strconv_does(void **state)
{
    (void)state;
    static const char *const words[] = {"0", "f", "F", "FALSE", "false", "False",
                                        "1", "t", "T", "TRUE",  "true",  "True"};
    bool got = false;
    struct errmsg em = {""};
    for (size_t i = 0; i < 12; i++) {
        assert_int_equal(text_parse_bool(bytes_str(words[i]), &got, &em), 0);
        assert_int_equal(got, i >= 6);
    }
    assert_int_equal(text_parse_bool(bytes_str("tRUE"), &got, &em), E_INVAL);
    assert_string_equal(em.text, "strconv.ParseBool: parsing \"tRUE\": invalid syntax");
}

/* --- durations -------------------------------------------------------------------------------- */

static void durations_print_as_gos(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        const char *text;
    } rows[] = {
        {0, "0s"},
        {1, "1ns"},
        {1100, "1.1\xc2\xb5s"},
        {2200000, "2.2ms"},
        {3300000000, "3.3s"},
        {245000000000, "4m5s"},
        {245001000000, "4m5.001s"},
        {18367001000000, "5h6m7.001s"},
        {480000000001, "8m0.000000001s"},
        {INT64_MAX, "2562047h47m16.854775807s"},
        {INT64_MIN, "-2562047h47m16.854775808s"},
        {-1, "-1ns"},
        {3600000000000, "1h0m0s"},
        {60000000000, "1m0s"},
        {999999999, "999.999999ms"},
        {999999, "999.999\xc2\xb5s"},
        {100000000, "100ms"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[TEXT_DURATION_BYTES_MAX];
        assert_int_equal(text_duration(rows[i].ns, out), strlen(rows[i].text));
        assert_string_equal(out, rows[i].text);
        int64_t back = 0;
        assert_int_equal(text_parse_duration(bytes_str(rows[i].text), &back, NULL), 0);
        assert_true(back == rows[i].ns);
    }
}

static void durations_parse_as_gos(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } rows[] = {
        {"0", 0},
        {"+0", 0},
        {"-0", 0},
        {"5s", 5000000000},
        {"-5s", -5000000000},
        {"+5s", 5000000000},
        {"5.0s", 5000000000},
        {"5.s", 5000000000},
        {".5s", 500000000},
        {"1.004s", 1004000000},
        {"100.00100s", 100001000000},
        {"10ns", 10},
        {"12\xce\xbcs", 12000},
        {"12us", 12000},
        {"3h30m", 12600000000000},
        {"39h9m14.425s", 140954425000000},
        {"0.3333333333333333333h", 1200000000000},
        {"0.830103483285477580700h", 2988372539827},
        {"9007199254740993ns", 9007199254740993},
        {"0.100000000000000000000h", 360000000000},
        {"1.5m1s1m", 151000000000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t got = -1;
        struct errmsg em = {""};
        if (text_parse_duration(bytes_str(rows[i].text), &got, &em) < 0)
            fail_msg("%s: %s", rows[i].text, em.text);
        if (got != rows[i].ns) {
            fail_msg("%s: expected %lld, seen %lld", rows[i].text, (long long)rows[i].ns,
                     (long long)got);
        }
    }
}

static void bad_durations_get_gos_words(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "time: invalid duration \"\""},
        {"-", "time: invalid duration \"-\""},
        {"s", "time: invalid duration \"s\""},
        {".s", "time: invalid duration \".s\""},
        {"+.s", "time: invalid duration \"+.s\""},
        {"3", "time: missing unit in duration \"3\""},
        {"1s2", "time: missing unit in duration \"1s2\""},
        {"1x", "time: unknown unit \"x\" in duration \"1x\""},
        {"1 s", "time: unknown unit \" s\" in duration \"1 s\""},
        {"5d", "time: unknown unit \"d\" in duration \"5d\""},
        {"3000000h", "time: invalid duration \"3000000h\""},
        {"9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""},
        {"9223372036854775.808us", "time: invalid duration \"9223372036854775.808us\""},
        {"\"\\\x85\xff\n", "time: invalid duration \"\\\"\\\\\\x85\\xff\\x0a\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t got = 77;
        struct errmsg em = {""};
        assert_int_equal(text_parse_duration(bytes_str(rows[i][0]), &got, &em), E_INVAL);
        assert_string_equal(em.text, rows[i][1]);
        assert_int_equal(got, 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hex_there_and_back),
        cmocka_unit_test(base64_there_and_back),
        cmocka_unit_test(quoting_is_strconvs),
        cmocka_unit_test(json_is_gos_encoder),
        cmocka_unit_test(plain_json_is_zaps),
        cmocka_unit_test(writers_survive_every_failing_allocation),
        cmocka_unit_test(ints_parse_as_strconv_does),
        cmocka_unit_test(bad_ints_get_gos_words),
        cmocka_unit_test(uints_take_no_sign),
        cmocka_unit_test(a_text_too_long_to_quote_still_gives_an_error),
        cmocka_unit_test(bools_parse_as_strconv_does),
        cmocka_unit_test(durations_print_as_gos),
        cmocka_unit_test(durations_parse_as_gos),
        cmocka_unit_test(bad_durations_get_gos_words),
    };
    return cmocka_run_group_tests_name("base/text", tests, NULL, NULL);
}
