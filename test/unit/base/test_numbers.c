/* crc32c, byte order, the seeded generator. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "base/endian.h"
#include "base/prng.h"

/* --- crc32c ----------------------------------------------------------------------------------- */

/* The definition: bit by bit, reflected. */
static uint32_t crc_by_bits(uint32_t crc, const uint8_t *data, size_t len)
{
    uint32_t c = ~crc;
    for (size_t i = 0; i < len; i++) {
        c ^= data[i];
        for (unsigned bit = 0; bit < 8; bit++) {
            c = c >> 1 ^ ((c & 1) != 0 ? 0x82F63B78U : 0);
        }
    }
    return ~c;
}

static void crc_knows_its_check_value(void **state)
{
    (void)state;
    assert_int_equal(crc32c(bytes_str("123456789")), 0xE3069283U);
    assert_int_equal(crc32c_update_table(0, "123456789", 9), 0xE3069283U);
    assert_int_equal(crc32c(BYTES_EMPTY), 0);
    assert_int_equal(crc32c_update(0x1234, NULL, 0), 0x1234);
}

static void crc_of_every_length_and_alignment(void **state)
{
    (void)state;
    uint8_t data[300];
    struct prng p;
    prng_init(&p, 4);
    prng_fill(&p, data, sizeof data);
    for (size_t start = 0; start < 9; start++) {
        for (size_t len = 0; len + start <= sizeof data; len++) {
            uint32_t seed = (uint32_t)prng_next(&p);
            uint32_t expected = crc_by_bits(seed, data + start, len);
            assert_int_equal(crc32c_update(seed, data + start, len), expected);
            assert_int_equal(crc32c_update_table(seed, data + start, len), expected);
        }
    }
}

static void crc_continues_where_it_stopped(void **state)
{
    (void)state;
    struct bytes all = bytes_str("the quick brown fox jumps over the lazy dog");
    for (size_t cut = 0; cut <= all.len; cut++) {
        uint32_t c = crc32c_update(0, all.data, cut);
        assert_int_equal(crc32c_update(c, all.data + cut, all.len - cut), crc32c(all));
    }
}

/* --- byte order ------------------------------------------------------------------------------- */

static void loads_and_stores_have_a_fixed_order(void **state)
{
    (void)state;
    uint8_t b[9] = {0};
    endian_store_le16(b + 1, 0x0102);
    assert_memory_equal(b + 1, "\x02\x01", 2);
    endian_store_be16(b + 1, 0x0102);
    assert_memory_equal(b + 1, "\x01\x02", 2);
    endian_store_le32(b + 1, 0x01020304);
    assert_memory_equal(b + 1, "\x04\x03\x02\x01", 4);
    assert_int_equal(endian_load_be32(b + 1), 0x04030201);
    endian_store_be64(b + 1, 0x0102030405060708);
    assert_memory_equal(b + 1, "\x01\x02\x03\x04\x05\x06\x07\x08", 8);
    assert_int_equal(endian_load_le64(b + 1), 0x0807060504030201);
    assert_int_equal(endian_load_be64(b + 1), 0x0102030405060708);
    assert_int_equal(endian_load_le16(b + 1), 0x0201);
    assert_int_equal(endian_load_be16(b + 1), 0x0102);
    assert_int_equal(endian_load_le32(b + 1), 0x04030201);
}

/* --- prng ------------------------------------------------------------------------------------- */

static void prng_is_xoshiro256_starstar(void **state)
{
    (void)state;
    struct prng p = {
        .s = {1, 2, 3, 4}}; /* the reference implementation's first outputs from this state */
    static const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(prng_next(&p), expected[i]);
    }
}

static void equal_seeds_give_equal_sequences(void **state)
{
    (void)state;
    struct prng a;
    struct prng b;
    struct prng c;
    prng_init(&a, 42);
    prng_init(&b, 42);
    prng_init(&c, 43);
    unsigned same = 0;
    for (unsigned i = 0; i < 100; i++) {
        uint64_t x = prng_next(&a);
        assert_int_equal(x, prng_next(&b));
        same += x == prng_next(&c);
    }
    assert_int_equal(same, 0);
}

static void numbers_stay_in_their_range(void **state)
{
    (void)state;
    struct prng p;
    unsigned seen[6] = {0};
    prng_init(&p, 9);
    for (unsigned i = 0; i < 6000; i++) {
        uint64_t x = prng_below(&p, 6);
        assert_true(x < 6);
        seen[x]++;
        int64_t y = prng_between(&p, -2, 2);
        assert_true(y >= -2 && y <= 2);
    }
    for (unsigned i = 0; i < 6; i++) {
        assert_in_range(seen[i], 800, 1200);
    }
    assert_int_equal(prng_below(&p, 1), 0);
    assert_int_equal(prng_between(&p, INT64_MIN, INT64_MIN), INT64_MIN);
    (void)prng_between(&p, INT64_MIN, INT64_MAX);
}

static void fill_covers_any_length(void **state)
{
    (void)state;
    struct prng p;
    uint8_t data[32];
    for (size_t len = 0; len < 20; len++) {
        memset(data, 0xAA, sizeof data);
        prng_init(&p, len);
        prng_fill(&p, data, len);
        for (size_t i = len; i < sizeof data; i++) {
            assert_int_equal(data[i], 0xAA);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc_knows_its_check_value),
        cmocka_unit_test(crc_of_every_length_and_alignment),
        cmocka_unit_test(crc_continues_where_it_stopped),
        cmocka_unit_test(loads_and_stores_have_a_fixed_order),
        cmocka_unit_test(prng_is_xoshiro256_starstar),
        cmocka_unit_test(equal_seeds_give_equal_sequences),
        cmocka_unit_test(numbers_stay_in_their_range),
        cmocka_unit_test(fill_covers_any_length),
    };
    return cmocka_run_group_tests_name("base/numbers", tests, NULL, NULL);
}
