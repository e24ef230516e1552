/* The JSON reader: tokens, structure, strictness, strings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/json.h"
#include "test_heap.h"

/* All kinds of tokens as letters; "!" ends what is no JSON, "^" what is too deep. */
static const char *kinds(const char *text)
{
    static const char letters[] = ".nb0s[]{}k";
    static char out[1024];
    struct json_reader r;
    json_init(&r, bytes_str(text));
    for (size_t i = 0; i + 1 < sizeof out; i++) {
        struct json_token t;
        int rc = json_next(&r, &t);
        out[i] = rc == E_TOOBIG ? '^' : rc < 0 ? '!' : letters[t.kind];
        out[i + 1] = 0;
        if (rc < 0 || t.kind == JSON_END) break;
    }
    return out;
}

static void test_values_come_as_tokens(void **state)
{
    (void)state;
    assert_string_equal("n.", kinds("null"));
    assert_string_equal("b.", kinds(" true "));
    assert_string_equal("0.", kinds("-12.5e+7"));
    assert_string_equal("s.", kinds("\"a\\\"b\""));
    assert_string_equal("[].", kinds("[ ]"));
    assert_string_equal("{}.", kinds("{}"));
    assert_string_equal("[0[s]{}].", kinds("[1,[\"x\"],{}]"));
    assert_string_equal("{k0k[b]k{kn}}.", kinds("{\"a\":1, \"b\" : [false],\"c\":{\"d\":null}}"));
}

static void test_what_is_no_json_is_refused(void **state)
{
    (void)state;
    const char *const bad[] = {
        "",          " ",     "{",       "[",           "nul",        "tru e",  "1 2",       "[1,]",
        "{,}",       "[1 2]", "{\"a\"}", "{\"a\":}",    "{\"a\":1,}", "{a:1}",  "{1:1}",     "]",
        "}",         "[}",    "{]",      "01",          "-",          "1.",     "1e",        ".5",
        "+1",        "\"a",   "\"\\x\"", "\"\\u12g4\"", "\"\\",       "\"\n\"", "\"\\u12\"", "[1]x",
        "{\"a\" 1}", "'a'",   "1e+",     "nullx",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *seen = kinds(bad[i]);
        if (seen[strlen(seen) - 1] != '!') fail_msg("taken: %s as %s", bad[i], seen);
    }
}

static void test_depth_is_bounded(void **state)
{
    (void)state;
    char text[JSON_DEPTH_MAX + 2];
    memset(text, '[', sizeof text);
    text[JSON_DEPTH_MAX + 1] = 0;
    const char *seen = kinds(text);
    assert_int_equal(JSON_DEPTH_MAX + 1, strlen(seen));
    assert_int_equal('^', seen[JSON_DEPTH_MAX]);
}

static void check_string(const char *text, const char *want)
{
    struct test_heap heap;
    struct buf out;
    test_heap_init(&heap);
    buf_init(&out, &heap.alloc, 1000);
    struct json_reader r;
    struct json_token t;
    json_init(&r, bytes_str(text));
    assert_int_equal(0, json_next(&r, &t));
    assert_int_equal(JSON_STRING, t.kind);
    assert_int_equal(0, json_unquote(t.text, &out));
    assert_int_equal(0, buf_put_u8(&out, 0));
    assert_string_equal(want, (const char *)out.data);
    buf_deinit(&out);
    test_heap_check_empty(&heap);
}

static void test_strings_are_resolved_as_go_does(void **state)
{
    (void)state;
    check_string("\"\"", "");
    check_string("\"a\\n\\t\\r\\b\\f\\\"\\\\\\/\"", "a\n\t\r\b\f\"\\/");
    check_string("\"\\u003c\\u0026\\u00fc\\u20ac\"", "<&\xc3\xbc\xe2\x82\xac");
    check_string("\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80");
    check_string("\"\\ud83dx\"", "\xef\xbf\xbdx");
    check_string("\"\\ude00\"", "\xef\xbf\xbd");
    check_string("\"\\ud83d\\u0041\"", "\xef\xbf\xbd"
                                       "A");
    check_string("\"a\xff"
                 "b\"",
                 "a\xef\xbf\xbd"
                 "b");
    check_string("\"\xc3\xbc\"", "\xc3\xbc");
}

static void test_numbers_keep_64_bits(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int rc;
        uint64_t value;
    } cases[] = {
        {"0", 0, 0},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", E_INVAL, 7},
        {"-1", E_INVAL, 7},
        {"1.5", E_INVAL, 7},
        {"1e3", E_INVAL, 7},
        {"\"1\"", E_INVAL, 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json_reader r;
        struct json_token t;
        uint64_t v = 7;
        json_init(&r, bytes_str(cases[i].text));
        assert_int_equal(0, json_next(&r, &t));
        assert_int_equal(cases[i].rc, json_uint(&t, &v));
        assert_true(v == cases[i].value);
    }
}

static void test_a_value_can_be_skipped(void **state)
{
    (void)state;
    struct json_reader r;
    struct json_token t;
    json_init(&r, bytes_str("{\"a\":[1,{\"b\":[]}],\"c\":5}"));
    assert_int_equal(0, json_next(&r, &t));
    assert_int_equal(0, json_next(&r, &t));
    assert_true(json_key_is(&t, "A"));
    assert_false(json_key_is(&t, "b"));
    assert_false(json_key_is(&t, "ab"));
    assert_int_equal(0, json_next(&r, &t));
    assert_int_equal(JSON_ARRAY, t.kind);
    assert_int_equal(0, json_skip(&r, &t));
    assert_int_equal(0, json_next(&r, &t));
    assert_true(json_key_is(&t, "c"));
    assert_int_equal(0, json_next(&r, &t));
    assert_int_equal(0, json_skip(&r, &t));
    assert_int_equal(0, json_next(&r, &t));
    assert_int_equal(JSON_OBJECT_END, t.kind);
    assert_int_equal(24, json_offset(&r));
}

static void test_skipping_a_broken_value_is_refused(void **state)
{
    (void)state;
    struct json_reader r;
    struct json_token t;
    json_init(&r, bytes_str("[1,[2,}"));
    assert_int_equal(0, json_next(&r, &t));
    assert_int_equal(E_INVAL, json_skip(&r, &t));
}

static void test_a_full_buffer_is_as_before(void **state)
{
    (void)state;
    struct test_heap heap;
    struct buf out;
    test_heap_init(&heap);
    buf_init(&out, &heap.alloc, 4);
    assert_int_equal(0, buf_put_str(&out, "x"));
    assert_int_equal(E_TOOBIG, json_unquote(bytes_str("abcd"), &out));
    assert_int_equal(1, out.len);
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_come_as_tokens),
        cmocka_unit_test(test_what_is_no_json_is_refused),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_strings_are_resolved_as_go_does),
        cmocka_unit_test(test_numbers_keep_64_bits),
        cmocka_unit_test(test_a_value_can_be_skipped),
        cmocka_unit_test(test_skipping_a_broken_value_is_refused),
        cmocka_unit_test(test_a_full_buffer_is_as_before),
    };
    return cmocka_run_group_tests_name("base: json", tests, NULL, NULL);
}
