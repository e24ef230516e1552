/* alloc, arena, buf, rcbuf. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "assert_failed.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/rcbuf.h"
#include "test_heap.h"

/* --- arena ------------------------------------------------------------------------------------ */

static void arena_blocks_are_aligned_and_apart(void **state)
{
    (void)state;
    struct test_heap h;
    struct arena a;
    uint8_t *blocks[50];
    test_heap_init(&h);
    arena_init(&a, &h.alloc, SIZE_MAX);
    for (size_t i = 0; i < 50; i++) {
        blocks[i] = arena_new(&a, i * 37);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        memset(blocks[i], (int)i, i * 37);
    }
    for (size_t i = 0; i < 50; i++) {
        for (size_t k = 0; k < i * 37; k++) {
            assert_int_equal(blocks[i][k], i);
        }
    }
    arena_deinit(&a);
    test_heap_check_empty(&h);
}

static void arena_reset_keeps_one_chunk(void **state)
{
    (void)state;
    struct test_heap h;
    struct arena a;
    test_heap_init(&h);
    arena_init(&a, &h.alloc, SIZE_MAX);
    for (unsigned i = 0; i < 100; i++) {
        assert_non_null(arena_new(&a, 1000));
    }
    assert_true(h.live_blocks > 1);
    arena_reset(&a);
    assert_int_equal(h.live_blocks, 1);
    assert_int_equal(a.used_bytes, 0);
    size_t before = h.allocation_count;
    assert_non_null(arena_new(&a, 1000));
    assert_int_equal(h.allocation_count, before);
    arena_deinit(&a);
    test_heap_check_empty(&h);
}

static void arena_bound_is_exact(void **state)
{
    (void)state;
    struct test_heap h;
    struct arena a;
    test_heap_init(&h);
    arena_init(&a, &h.alloc, 40);
    assert_non_null(arena_new(&a, 32));
    assert_null(arena_new(&a, 9));
    assert_non_null(arena_new(&a, 8));
    assert_null(arena_new(&a, 1));
    assert_null(arena_new(&a, SIZE_MAX));
    arena_reset(&a);
    assert_non_null(arena_new(&a, 40));
    arena_deinit(&a);
}

static void arena_copies_end_in_zero(void **state)
{
    (void)state;
    struct test_heap h;
    struct arena a;
    test_heap_init(&h);
    arena_init(&a, &h.alloc, SIZE_MAX);
    struct bytes copy = arena_copy(&a, bytes_of("abc", 2));
    assert_int_equal(copy.len, 2);
    assert_string_equal((const char *)copy.data, "ab");
    struct bytes none = arena_copy(&a, BYTES_EMPTY);
    assert_non_null(none.data);
    assert_int_equal(none.data[0], 0);
    arena_deinit(&a);
}

static void arena_serves_as_an_allocator(void **state)
{
    (void)state;
    struct test_heap h;
    struct arena a;
    struct buf b;
    test_heap_init(&h);
    arena_init(&a, &h.alloc, SIZE_MAX);
    struct alloc inner = arena_alloc(&a);
    buf_init(&b, &inner, SIZE_MAX);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(buf_printf(&b, "%u,", i), 0);
    }
    assert_memory_equal(b.data, "0,1,2,3,", 8);
    buf_deinit(&b);
    arena_deinit(&a);
    test_heap_check_empty(&h);
}

static void use_arena(struct test_heap *h, void *arg)
{
    (void)arg;
    struct arena a;
    arena_init(&a, &h->alloc, SIZE_MAX);
    for (unsigned i = 0; i < 20; i++) {
        size_t used = a.used_bytes;
        if (arena_zero(&a, 3000) == NULL) assert_int_equal(a.used_bytes, used);
    }
    arena_deinit(&a);
}

static void arena_survives_every_failing_allocation(void **state)
{
    (void)state;
    assert_true(test_heap_every_failure(use_arena, NULL) > 3);
    assert_true(test_heap_every_failure_on(use_arena, NULL) > 3);
}

/* --- buf -------------------------------------------------------------------------------------- */

static void buf_appends_and_consumes(void **state)
{
    (void)state;
    struct test_heap h;
    struct buf b;
    test_heap_init(&h);
    buf_init(&b, &h.alloc, SIZE_MAX);
    assert_int_equal(buf_put_str(&b, "ab"), 0);
    assert_int_equal(buf_put_u8(&b, 'c'), 0);
    assert_int_equal(buf_put_bytes(&b, bytes_str("de")), 0);
    assert_int_equal(buf_put(&b, NULL, 0), 0);
    assert_int_equal(buf_printf(&b, "%d-%s", 42, "f"), 0);
    assert_true(bytes_eq(buf_bytes(&b), bytes_str("abcde42-f")));
    buf_consume(&b, 5);
    assert_true(bytes_eq(buf_bytes(&b), bytes_str("42-f")));
    EXPECT_ASSERT(buf_consume(&b, 5));
    buf_consume(&b, 4);
    assert_int_equal(b.len, 0);
    buf_deinit(&b);
    buf_deinit(&b);
    test_heap_check_empty(&h);
}

static void buf_stops_at_its_bound(void **state)
{
    (void)state;
    struct test_heap h;
    struct buf b;
    char text[500];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    test_heap_init(&h);
    buf_init(&b, &h.alloc, 100);
    assert_int_equal(buf_put(&b, text, 99), 0);
    assert_int_equal(buf_put(&b, text, 2), E_TOOBIG);
    assert_int_equal(b.len, 99);
    assert_int_equal(buf_printf(&b, "ab"), E_TOOBIG);
    assert_int_equal(buf_printf(&b, "%s", text), E_TOOBIG);
    assert_int_equal(buf_printf(&b, "a"), 0);
    assert_int_equal(b.len, 100);
    assert_true(b.cap <= 100);
    buf_deinit(&b);
}

static void buf_prints_long_texts(void **state)
{
    (void)state;
    struct test_heap h;
    struct buf b;
    test_heap_init(&h);
    buf_init(&b, &h.alloc, SIZE_MAX);
    assert_int_equal(buf_printf(&b, "%0*d|", 1000, 7), 0);
    assert_int_equal(b.len, 1001);
    assert_memory_equal(b.data + 998, "07|", 3);
    buf_deinit(&b);
}

static void use_buf(struct test_heap *h, void *arg)
{
    (void)arg;
    struct buf b;
    buf_init(&b, &h->alloc, SIZE_MAX);
    for (unsigned i = 0; i < 2000; i++) {
        size_t len = b.len;
        int rc = buf_put(&b, "0123456789", 10);
        assert_true(rc == 0 || rc == E_NOMEM);
        assert_int_equal(b.len, rc == 0 ? len + 10 : len);
    }
    buf_deinit(&b);
}

static void buf_survives_every_failing_allocation(void **state)
{
    (void)state;
    assert_true(test_heap_every_failure(use_buf, NULL) > 5);
    assert_true(test_heap_every_failure_on(use_buf, NULL) > 5);
}

/* --- rcbuf ------------------------------------------------------------------------------------ */

static void rcbuf_lives_until_the_last_reference(void **state)
{
    (void)state;
    struct test_heap h;
    test_heap_init(&h);
    struct rcbuf *b = rcbuf_copy(&h.alloc, bytes_str("entry"));
    assert_ptr_equal(rcbuf_ref(b), b);
    rcbuf_unref(b);
    assert_true(bytes_eq(rcbuf_bytes(b), bytes_str("entry")));
    rcbuf_unref(b);
    test_heap_check_empty(&h);
    assert_null(rcbuf_ref(NULL));
    rcbuf_unref(NULL);
    assert_int_equal(rcbuf_bytes(NULL).len, 0);
}

static void rcbuf_without_memory_is_null(void **state)
{
    (void)state;
    struct test_heap h;
    test_heap_init(&h);
    h.fail_at = 1;
    assert_null(rcbuf_copy(&h.alloc, bytes_str("x")));
    assert_null(rcbuf_new(&h.alloc, SIZE_MAX));
    test_heap_check_empty(&h);
}

static void bytes_order_as_keys_do(void **state)
{
    (void)state;
    static const char *const rising[] = {"",     "a",    "a\x01", "ab",      "b",
                                         "\x7f", "\x80", "\xff",  "\xff\xff"};
    for (size_t i = 0; i < 9; i++) {
        for (size_t k = 0; k < 9; k++) {
            int c = bytes_cmp(bytes_str(rising[i]), bytes_str(rising[k]));
            assert_int_equal((c > 0) - (c < 0), (i > k) - (i < k));
            assert_int_equal(bytes_eq(bytes_str(rising[i]), bytes_str(rising[k])), i == k);
        }
    }
    assert_int_equal(bytes_cmp(BYTES_EMPTY, BYTES_EMPTY), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_blocks_are_aligned_and_apart),
        cmocka_unit_test(arena_reset_keeps_one_chunk),
        cmocka_unit_test(arena_bound_is_exact),
        cmocka_unit_test(arena_copies_end_in_zero),
        cmocka_unit_test(arena_serves_as_an_allocator),
        cmocka_unit_test(arena_survives_every_failing_allocation),
        cmocka_unit_test(buf_appends_and_consumes),
        cmocka_unit_test(buf_stops_at_its_bound),
        cmocka_unit_test(buf_prints_long_texts),
        cmocka_unit_test(buf_survives_every_failing_allocation),
        cmocka_unit_test(rcbuf_lives_until_the_last_reference),
        cmocka_unit_test(rcbuf_without_memory_is_null),
        cmocka_unit_test(bytes_order_as_keys_do),
    };
    return cmocka_run_group_tests_name("base/memory", tests, NULL, NULL);
}
