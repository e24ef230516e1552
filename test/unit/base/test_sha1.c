/* SHA-1 against the examples of FIPS 180 and of the id rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/sha1.h"

static void check(struct bytes in, const char *want)
{
    /* Whole, and cut at every place near a block's end. */
    for (size_t cut = 0; cut <= in.len && cut < 130; cut++) {
        struct sha1 h;
        uint8_t out[SHA1_BYTES];
        char text[2 * SHA1_BYTES + 1];
        sha1_init(&h);
        sha1_update(&h, bytes_of(in.data, cut));
        sha1_update(&h, bytes_of(in.data + cut, in.len - cut));
        sha1_final(&h, out);
        for (size_t i = 0; i < SHA1_BYTES; i++) {
            snprintf(text + 2 * i, 3, "%02x", out[i]);
        }
        assert_string_equal(want, text);
    }
}

static void test_known_hashes(void **state)
{
    (void)state;
    check(bytes_str("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
    check(bytes_str("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
          "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    check(bytes_str("The quick brown fox jumps over the lazy dog"),
          "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12");
    struct sha1 h;
    uint8_t out[SHA1_BYTES];
    sha1_init(&h);
    sha1_final(&h, out);
    assert_int_equal(0xda, out[0]);
    assert_int_equal(0x09, out[19]);
}

static void test_a_million_letters(void **state)
{
    (void)state;
    uint8_t letters[1000];
    memset(letters, 'a', sizeof letters);
    struct sha1 h;
    sha1_init(&h);
    for (int i = 0; i < 1000; i++) {
        sha1_update(&h, bytes_of(letters, sizeof letters));
    }
    uint8_t out[SHA1_BYTES];
    sha1_final(&h, out);
    const uint8_t want[4] = {0x34, 0xaa, 0x97, 0x3c};
    assert_memory_equal(want, out, sizeof want);
}

static void test_every_length_around_a_block(void **state)
{
    (void)state;
    uint8_t in[200] = {0};
    /* Padding goes into the same block up to 55 bytes, into one more from 56 on. */
    check(bytes_of(in, 55), "8e8832c642a6a38c74c17fc92ccedc266c108e6c");
    check(bytes_of(in, 56), "9438e360f578e12c0e0e8ed28e2c125c1cefee16");
    check(bytes_of(in, 64), "c8d7d0ef0eedfa82d2ea1aa592845b9a6d4b02b7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_hashes),
        cmocka_unit_test(test_a_million_letters),
        cmocka_unit_test(test_every_length_around_a_block),
    };
    return cmocka_run_group_tests_name("base: sha1", tests, NULL, NULL);
}
