/* The parts below a connection: the pool, text forms, framing, the queue. */
#include "rig.h"

#include "grpc/grpc_int.h"

struct parts {
    struct test_heap heap;
    struct grpc_pool *pool;
};

static int setup(void **state)
{
    struct parts *p = malloc(sizeof *p);
    test_heap_init(&p->heap);
    p->pool = grpc_pool_new(&p->heap.alloc, 1000);
    *state = p;
    return p->pool == NULL;
}

static int teardown(void **state)
{
    struct parts *p = *state;
    grpc_pool_free(p->pool);
    test_heap_check_empty(&p->heap);
    free(p);
    return 0;
}

static void the_pool_gives_a_block_again(void **state)
{
    struct parts *p = *state;
    void *a = grpc_pool_get(p->pool, 100);
    assert_int_equal(grpc_pool_used_bytes(p->pool), 128);
    grpc_pool_put(p->pool, a, 100);
    assert_int_equal(grpc_pool_used_bytes(p->pool), 0);
    assert_int_equal(grpc_pool_idle_bytes(p->pool), 128);
    assert_ptr_equal(grpc_pool_get(p->pool, 65), a);
    assert_int_equal(grpc_pool_idle_bytes(p->pool), 0);
    grpc_pool_put(p->pool, a, 65);
}

static void the_pool_keeps_no_more_than_its_bound(void **state)
{
    struct parts *p = *state;
    void *blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = grpc_pool_get(p->pool, 512);
    for (int i = 0; i < 4; i++)
        grpc_pool_put(p->pool, blocks[i], 512);
    assert_int_equal(grpc_pool_idle_bytes(p->pool), 512);
    void *large = grpc_pool_get(p->pool, 1000000);
    assert_int_equal(grpc_pool_used_bytes(p->pool), 1000000);
    grpc_pool_put(p->pool, large, 1000000);
    assert_int_equal(grpc_pool_idle_bytes(p->pool), 512);
}

static void the_pool_resizes(void **state)
{
    struct parts *p = *state;
    const struct alloc *a = grpc_pool_alloc(p->pool);
    char *b = a->resize(a->arg, NULL, 0, 10);
    memcpy(b, "123456789", 10);
    assert_ptr_equal(a->resize(a->arg, b, 10, 64), b);
    b = a->resize(a->arg, b, 64, 5000);
    assert_string_equal(b, "123456789");
    nghttp2_mem mem = grpc__pool_mem(p->pool);
    char *c = mem.calloc(3, 7, mem.mem_user_data);
    c = mem.realloc(c, 300, mem.mem_user_data);
    assert_memory_equal(c, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 21);
    assert_null(mem.calloc(SIZE_MAX, 2, mem.mem_user_data));
    mem.free(c, mem.mem_user_data);
    mem.free(NULL, mem.mem_user_data);
    alloc_free(a, b, 5000);
}

static void timeouts_are_read(void **state)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {{"1n", 1},
                {"2u", 2000},
                {"3m", 3000000},
                {"4S", 4000000000},
                {"5M", 300000000000},
                {"6H", 21600000000000},
                {"0S", 0},
                {"99999999n", 99999999},
                {"99999999M", 5999999940000000000},
                {"99999999H", INT64_MAX}};
    static const char *const bad[] = {"", "1", "S", "1x", " 1S", "1.5S", "123456789S", "+1S"};
    struct errmsg em;
    uint64_t ns = 0;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(grpc__timeout_parse(bytes_str(good[i].text), &ns, &em), 0);
        assert_true(ns == good[i].ns);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(grpc__timeout_parse(bytes_str(bad[i]), &ns, &em), E_INVAL);
    }
}

static void timeouts_are_written_rounded_up(void **state)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {{0, "0n"},
                 {99999999, "99999999n"},
                 {100000000, "100000u"},
                 {100000001, "100001u"},
                 {5000000000, "5000000u"},
                 {100000000000, "100000m"},
                 {100000000000001, "100001S"},
                 {INT64_MAX, "2562048H"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[16];
        size_t n = grpc__timeout_format(cases[i].ns, text);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(n, strlen(text));
    }
}

static void status_texts_are_encoded_as_upstream(void **state)
{
    struct parts *p = *state;
    static const char *const cases[][2] = {
        {"plain ~", "plain ~"},  {"%", "%25"},
        {"a\nb", "a%0Ab"},       {"\xe2\x82\xac", "%E2%82%AC"},
        {"\xff.", "%EF%BF%BD."}, {"\xed\xa0\x80", "%EF%BF%BD%EF%BF%BD%EF%BF%BD"},
        {"\xc3", "%EF%BF%BD"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b;
        buf_init(&b, grpc_pool_alloc(p->pool), 1000);
        assert_int_equal(grpc__message_encode(&b, bytes_str(cases[i][0])), 0);
        assert_true(bytes_eq(buf_bytes(&b), bytes_str(cases[i][1])));
        buf_deinit(&b);
    }
}

static void status_texts_are_decoded_leniently(void **state)
{
    struct parts *p = *state;
    static const char *const cases[][2] = {
        {"%41%zz%4", "A%zz%4"}, {"100%", "100%"}, {"%E2%82%AC", "\xe2\x82\xac"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b;
        buf_init(&b, grpc_pool_alloc(p->pool), 1000);
        assert_int_equal(grpc__message_decode(&b, bytes_str(cases[i][0])), 0);
        assert_true(bytes_eq(buf_bytes(&b), bytes_str(cases[i][1])));
        buf_deinit(&b);
    }
}

static void gzip_comes_back_from_gunzip(void **state)
{
    struct parts *p = *state;
    static uint8_t zeros[100000];
    const struct grpc_part parts[] = {{bytes_str("head"), NULL},
                                      {bytes_of(zeros, sizeof zeros), NULL}};
    struct buf zipped, plain;
    buf_init(&zipped, grpc_pool_alloc(p->pool), SIZE_MAX);
    buf_init(&plain, grpc_pool_alloc(p->pool), SIZE_MAX);
    assert_int_equal(grpc__gzip(p->pool, parts, 2, &zipped), 0);
    assert_true(zipped.len < 1000);
    assert_int_equal(grpc__gunzip(p->pool, buf_bytes(&zipped), 100004, &plain), 0);
    assert_int_equal(plain.len, 100004);
    buf_reset(&plain);
    assert_int_equal(grpc__gunzip(p->pool, buf_bytes(&zipped), 100003, &plain), E_TOOBIG);
    assert_true(plain.len <= 100004);
    buf_reset(&plain);
    struct bytes cut = bytes_of(zipped.data, zipped.len - 1);
    assert_int_equal(grpc__gunzip(p->pool, cut, 200000, &plain), E_CORRUPT);
    buf_deinit(&zipped);
    buf_deinit(&plain);
}

static void content_types_are_told_apart(void **state)
{
    struct bytes suffix;
    assert_true(grpc__content_type(bytes_str("application/grpc"), &suffix));
    assert_int_equal(suffix.len, 0);
    assert_true(grpc__content_type(bytes_str("application/grpc+json"), &suffix));
    assert_true(rig_is(suffix, "json"));
    assert_true(grpc__content_type(bytes_str("application/grpc;a=b"), &suffix));
    assert_false(grpc__content_type(bytes_str("application/grpc-web"), &suffix));
    assert_false(grpc__content_type(bytes_str("application/grp"), &suffix));
    assert_false(grpc__content_type(BYTES_EMPTY, &suffix));
}

#define PART_TEST(name)                                                                            \
    {                                                                                              \
#name, name, setup, teardown, NULL                                                         \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        PART_TEST(the_pool_gives_a_block_again),
        PART_TEST(the_pool_keeps_no_more_than_its_bound),
        PART_TEST(the_pool_resizes),
        PART_TEST(timeouts_are_read),
        PART_TEST(timeouts_are_written_rounded_up),
        PART_TEST(status_texts_are_encoded_as_upstream),
        PART_TEST(status_texts_are_decoded_leniently),
        PART_TEST(gzip_comes_back_from_gunzip),
        PART_TEST(content_types_are_told_apart),
    };
    return cmocka_run_group_tests_name("grpc parts", tests, NULL, NULL);
}
