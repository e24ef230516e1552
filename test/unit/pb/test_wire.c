/* Varints, fields, groups, UTF-8. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/limits.h"
#include "pb/wire.h"
#include "test_heap.h"

#define BYTES(...) bytes_of((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void test_varints_have_seven_bits_a_byte(void **state)
{
    (void)state;
    const struct {
        uint64_t value;
        size_t size;
    } cases[] = {
        {0, 1},           {1, 1},           {127, 1},          {128, 2},
        {16383, 2},       {16384, 3},       {UINT32_MAX, 5},   {1ull << 62, 9},
        {1ull << 63, 10}, {UINT64_MAX, 10}, {(1ull << 35), 6}, {(1ull << 56), 9},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t text[PB_VARINT_BYTES_MAX];
        size_t len = (size_t)(pb_write_varint(text, cases[i].value) - text);
        assert_int_equal(cases[i].size, len);
        assert_int_equal(cases[i].size, pb_varint_size(cases[i].value));
        struct pb_reader r = pb_reader_of(bytes_of(text, len));
        uint64_t back = 0;
        assert_int_equal(0, pb_read_varint(&r, &back));
        assert_true(back == cases[i].value);
        assert_ptr_equal(r.end, r.at);
    }
}

static void test_every_size_of_varint_is_known(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        uint8_t text[PB_VARINT_BYTES_MAX];
        uint64_t v = 1ull << bit;
        assert_int_equal(pb_write_varint(text, v) - text, pb_varint_size(v));
        assert_int_equal(pb_write_varint(text, v - 1) - text, pb_varint_size(v - 1));
    }
}

static void test_a_cut_or_overlong_varint_is_refused(void **state)
{
    (void)state;
    const struct bytes bad[] = {
        BYTES(0x80),
        BYTES(0xff, 0xff),
        BYTES(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02),
        BYTES(0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pb_reader r = pb_reader_of(bad[i]);
        uint64_t v = 7;
        assert_int_equal(E_PROTO, pb_read_varint(&r, &v));
        assert_true(v == 7);
        assert_ptr_equal(bad[i].data, r.at);
    }
}

static void test_fields_come_one_by_one(void **state)
{
    (void)state;
    struct bytes in = BYTES(0x08, 0x96, 0x01, 0x12, 0x02, 'h', 'i', 0x19, 1, 0, 0, 0, 0, 0, 0, 0,
                            0x25, 2, 0, 0, 0);
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    assert_int_equal(1, pb_next(&r, &f));
    assert_int_equal(1, f.number);
    assert_int_equal(PB_WIRE_VARINT, f.wire);
    assert_true(f.value == 150);
    assert_int_equal(1, pb_next(&r, &f));
    assert_int_equal(2, f.number);
    assert_true(bytes_eq(bytes_str("hi"), f.data));
    assert_int_equal(1, pb_next(&r, &f));
    assert_int_equal(PB_WIRE_FIXED64, f.wire);
    assert_true(f.value == 1);
    assert_int_equal(1, pb_next(&r, &f));
    assert_int_equal(PB_WIRE_FIXED32, f.wire);
    assert_true(f.value == 2);
    assert_int_equal(0, pb_next(&r, &f));
}

static void test_an_empty_message_has_no_fields(void **state)
{
    (void)state;
    struct pb_reader r = pb_reader_of(BYTES_EMPTY);
    struct pb_field f;
    assert_int_equal(0, pb_next(&r, &f));
}

static void test_malformed_fields_are_refused(void **state)
{
    (void)state;
    const struct bytes bad[] = {
        BYTES(0x00, 0x01),           /* number 0 */
        BYTES(0x0e, 0x01),           /* wire type 6 */
        BYTES(0x0f, 0x01),           /* wire type 7 */
        BYTES(0x08),                 /* no value */
        BYTES(0x12, 0x03, 'h', 'i'), /* shorter than it says */
        BYTES(0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
              0x01),                               /* 2^64 - 1 bytes */
        BYTES(0x19, 1, 2, 3, 4, 5, 6, 7),          /* 7 of 8 bytes */
        BYTES(0x25, 1, 2, 3),                      /* 3 of 4 bytes */
        BYTES(0x0c),                               /* the end of no group */
        BYTES(0x0b, 0x10, 0x01),                   /* a group without end */
        BYTES(0x0b, 0x14),                         /* a group with the end of another */
        BYTES(0x80, 0x80, 0x80, 0x80, 0x10, 0x00), /* number 2^29 */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pb_reader r = pb_reader_of(bad[i]);
        struct pb_field f;
        assert_int_equal(E_PROTO, pb_next(&r, &f));
    }
}

static void test_a_group_is_one_field(void **state)
{
    (void)state;
    struct bytes in = BYTES(0x0b, 0x10, 0x05, 0x1b, 0x1c, 0x0c, 0x20, 0x01);
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    assert_int_equal(1, pb_next(&r, &f));
    assert_int_equal(PB_WIRE_GROUP, f.wire);
    assert_int_equal(1, f.number);
    assert_int_equal(4, f.data.len);
    assert_int_equal(1, pb_next(&r, &f));
    assert_int_equal(4, f.number);
    assert_int_equal(0, pb_next(&r, &f));
}

static void test_groups_nest_up_to_the_bound(void **state)
{
    (void)state;
    uint8_t in[2 * (PB_DEPTH_MAX + 1)];
    for (size_t depth = PB_DEPTH_MAX; depth <= PB_DEPTH_MAX + 1; depth++) {
        memset(in, 0x0b, depth);
        memset(in + depth, 0x0c, depth);
        struct pb_reader r = pb_reader_of(bytes_of(in, 2 * depth));
        struct pb_field f;
        assert_int_equal(depth > PB_DEPTH_MAX ? E_PROTO : 1, pb_next(&r, &f));
    }
}

static void test_utf8_is_what_go_takes(void **state)
{
    (void)state;
    assert_true(pb_utf8_valid(BYTES_EMPTY));
    assert_true(pb_utf8_valid(bytes_str("plain text, longer than eight")));
    assert_true(pb_utf8_valid(bytes_str("z\xc3\xbc"
                                        "rich \xe2\x82\xac \xf0\x9f\x98\x80")));
    assert_true(pb_utf8_valid(BYTES(0xed, 0x9f, 0xbf)));       /* U+D7FF */
    assert_true(pb_utf8_valid(BYTES(0xf4, 0x8f, 0xbf, 0xbf))); /* U+10FFFF */
    assert_true(pb_utf8_valid(BYTES(0)));
    assert_false(pb_utf8_valid(BYTES(0x80)));
    assert_false(pb_utf8_valid(BYTES(0xc0, 0x80))); /* a long zero */
    assert_false(pb_utf8_valid(BYTES(0xc1, 0xbf)));
    assert_false(pb_utf8_valid(BYTES(0xe0, 0x9f, 0xbf)));
    assert_false(pb_utf8_valid(BYTES(0xed, 0xa0, 0x80))); /* a surrogate */
    assert_false(pb_utf8_valid(BYTES(0xf0, 0x8f, 0xbf, 0xbf)));
    assert_false(pb_utf8_valid(BYTES(0xf4, 0x90, 0x80, 0x80))); /* U+110000 */
    assert_false(pb_utf8_valid(BYTES(0xf5, 0x80, 0x80, 0x80)));
    assert_false(pb_utf8_valid(BYTES(0xe2, 0x82))); /* cut */
    assert_false(pb_utf8_valid(BYTES('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 0xff)));
}

static void test_puts_append_what_writers_write(void **state)
{
    (void)state;
    struct test_heap heap;
    test_heap_init(&heap);
    struct buf b;
    buf_init(&b, &heap.alloc, 1000);
    assert_int_equal(0, pb_put_varint(&b, 300));
    assert_int_equal(0, pb_put_uint(&b, 2, 0));
    assert_int_equal(0, pb_put_len(&b, 16, 3));
    assert_int_equal(0, pb_put_bytes(&b, 1, bytes_str("hi")));
    struct bytes want = BYTES(0xac, 0x02, 0x10, 0x00, 0x82, 0x01, 0x03, 0x0a, 0x02, 'h', 'i');
    assert_memory_equal(want.data, b.data, want.len);
    assert_int_equal(want.len, b.len);
    assert_int_equal(4, pb_len_size(1, 2));
    assert_int_equal(3, pb_uint_size(16, 0));
    buf_deinit(&b);
    test_heap_check_empty(&heap);
}

static void test_a_full_buffer_keeps_its_content(void **state)
{
    (void)state;
    struct test_heap heap;
    test_heap_init(&heap);
    struct buf b;
    buf_init(&b, &heap.alloc, 3);
    assert_int_equal(0, pb_put_uint(&b, 1, 1));
    assert_int_equal(E_TOOBIG, pb_put_bytes(&b, 1, bytes_str("hi")));
    assert_int_equal(E_TOOBIG, pb_put_uint(&b, 1, 1));
    assert_int_equal(2, b.len);
    buf_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_varints_have_seven_bits_a_byte),
        cmocka_unit_test(test_every_size_of_varint_is_known),
        cmocka_unit_test(test_a_cut_or_overlong_varint_is_refused),
        cmocka_unit_test(test_fields_come_one_by_one),
        cmocka_unit_test(test_an_empty_message_has_no_fields),
        cmocka_unit_test(test_malformed_fields_are_refused),
        cmocka_unit_test(test_a_group_is_one_field),
        cmocka_unit_test(test_groups_nest_up_to_the_bound),
        cmocka_unit_test(test_utf8_is_what_go_takes),
        cmocka_unit_test(test_puts_append_what_writers_write),
        cmocka_unit_test(test_a_full_buffer_keeps_its_content),
    };
    return cmocka_run_group_tests_name("pb: wire", tests, NULL, NULL);
}
