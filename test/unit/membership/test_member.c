/* One member: its JSON as Go writes it, and its id. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "membership/member.h"
#include "test_heap.h"

struct fixture {
    struct test_heap heap;
    struct buf out;
    struct arena arena;
    struct errmsg em;
};

static int set_up(void **state)
{
    static struct fixture f;
    test_heap_init(&f.heap);
    buf_init(&f.out, &f.heap.alloc, 1 << 20);
    arena_init(&f.arena, &f.heap.alloc, 1 << 20);
    f.em.text[0] = 0;
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    buf_deinit(&f->out);
    arena_deinit(&f->arena);
    test_heap_check_empty(&f->heap);
    return 0;
}

static void check_out(struct fixture *f, const char *want)
{
    assert_int_equal(0, buf_put_u8(&f->out, 0));
    assert_string_equal(want, (const char *)f->out.data);
    buf_reset(&f->out);
}

/* ---- writing ---------------------------------------------------------------------------------------- */

static void test_fields_stand_in_upstreams_order(void **state)
{
    struct fixture *f = *state;
    const struct bytes peers[] = {bytes_str("http://a:2380"), bytes_str("http://b:2380")};
    const struct bytes clients[] = {bytes_str("http://a:2379")};
    struct member m = {UINT64_MAX, bytes_str("n1"), peers, 2, clients, 1, true};
    assert_int_equal(0, member_put_json(&m, &f->out));
    check_out(f, "{\"id\":18446744073709551615,\"peerURLs\":[\"http://a:2380\",\"http://b:2380\"],"
                 "\"isLearner\":true,\"name\":\"n1\",\"clientURLs\":[\"http://a:2379\"]}");
}

static void test_what_is_not_set_is_left_out(void **state)
{
    struct fixture *f = *state;
    const struct bytes peers[] = {bytes_str("http://a:2380")};
    struct member m = {.id = 7, .peer_urls = peers, .peer_url_count = 1};
    assert_int_equal(0, member_put_json(&m, &f->out));
    check_out(f, "{\"id\":7,\"peerURLs\":[\"http://a:2380\"]}");
}

static void test_the_context_of_a_promotion(void **state)
{
    struct fixture *f = *state;
    struct member_context c = {.member.id = 7, .is_promote = true};
    assert_int_equal(0, member_put_context(&c, &f->out));
    check_out(f, "{\"id\":7,\"peerURLs\":null,\"isPromote\":true}");
}

static void test_strings_are_escaped_as_go_does(void **state)
{
    struct fixture *f = *state;
    const struct bytes peers[] = {bytes_str("http://a?x=<1>&y")};
    struct member m = {
        .id = 1, .name = bytes_str("q\"\\"), .peer_urls = peers, .peer_url_count = 1};
    assert_int_equal(0, member_put_json(&m, &f->out));
    check_out(f, "{\"id\":1,\"peerURLs\":[\"http://a?x=\\u003c1\\u003e\\u0026y\"],"
                 "\"name\":\"q\\\"\\\\\"}");
}

static void test_a_full_buffer_is_as_before(void **state)
{
    struct fixture *f = *state;
    struct buf small;
    buf_init(&small, &f->heap.alloc, 20);
    assert_int_equal(0, buf_put_str(&small, "x"));
    assert_int_equal(E_TOOBIG, member_put_json(&(struct member){.id = 1}, &small));
    assert_int_equal(1, small.len);
    buf_deinit(&small);
}

/* ---- reading ---------------------------------------------------------------------------------------- */

static struct member_context decode(struct fixture *f, const char *json)
{
    struct member_context c = {0};
    int rc = member_decode(bytes_str(json), &f->arena, &c, &f->em);
    if (rc < 0) fail_msg("%s: %s", json, f->em.text);
    return c;
}

static void test_what_was_written_is_read(void **state)
{
    struct fixture *f = *state;
    static const char full[] =
        "{\"id\":18446744073709551615,\"peerURLs\":[\"http://a\",\"http://b\"],\"isLearner\":true,"
        "\"name\":\"n\\u0026\\\"\",\"clientURLs\":[\"http://c\"]}";
    const char *const texts[] = {
        full,
        "{\"id\":0,\"peerURLs\":null,\"isPromote\":true}",
        "{\"id\":5,\"peerURLs\":[\"http://a\"]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct member_context c = decode(f, texts[i]);
        assert_int_equal(0, member_put_context(&c, &f->out));
        check_out(f, texts[i]);
    }
}

static void test_names_compare_without_case_and_others_are_skipped(void **state)
{
    struct fixture *f = *state;
    struct member_context c = decode(
        f, " { \"ID\" : 9 , \"peerurls\":[\"a\",null], \"extra\":{\"id\":[1,{}]}, \"NAME\":\"x\","
           "\"isLearner\":null, \"clientURLs\":null } ");
    assert_true(c.member.id == 9);
    assert_int_equal(2, c.member.peer_url_count);
    assert_int_equal(0, c.member.peer_urls[1].len);
    assert_true(bytes_eq(bytes_str("x"), c.member.name));
    assert_false(c.member.is_learner);
    assert_int_equal(0, c.member.client_url_count);
}

static void test_what_is_no_member_is_refused(void **state)
{
    struct fixture *f = *state;
    const char *const bad[] = {
        "",
        "[]",
        "7",
        "{\"id\":\"7\"}",
        "{\"id\":-1}",
        "{\"id\":1.5}",
        "{\"id\":18446744073709551616}",
        "{\"peerURLs\":\"a\"}",
        "{\"peerURLs\":[1]}",
        "{\"peerURLs\":[[\"a\"]]}",
        "{\"name\":1}",
        "{\"isLearner\":1}",
        "{\"id\":1}x",
        "{\"id\":1",
        "{\"clientURLs\":{}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct member_context c = {.member.id = 77};
        assert_int_equal(E_INVAL, member_decode(bytes_str(bad[i]), &f->arena, &c, &f->em));
        assert_true(c.member.id == 77);
    }
    assert_int_equal(E_INVAL, member_decode(bytes_str("{\"id\":x}"), &f->arena,
                                            &(struct member_context){0}, &f->em));
    assert_string_equal("not a member as JSON at byte 6", f->em.text);
}

static void decode_once(struct test_heap *h, void *arg)
{
    struct arena arena;
    struct member_context c = {0};
    arena_init(&arena, &h->alloc, 1 << 20);
    int rc = member_decode(bytes_str(arg), &arena, &c, NULL);
    assert_int_equal(h->failure_count > 0 ? E_NOMEM : 0, rc);
    arena_deinit(&arena);
}

static void test_every_failing_allocation_is_an_answer(void **state)
{
    (void)state;
    static char text[20000];
    memset(text, 'a', sizeof text - 1);
    memcpy(text, "{\"name\":\"", 9);
    memcpy(text + 9000, "\",\"peerURLs\":[\"", 15);
    memcpy(text + sizeof text - 4, "\"]}", 3);
    assert_true(test_heap_every_failure(decode_once, text) > 2);
}

/* ---- ids -------------------------------------------------------------------------------------------- */

static void test_bootstrap_ids_are_those_of_the_format_page(void **state)
{
    (void)state;
    const struct {
        const char *url;
        uint64_t id;
    } cases[] = {
        {"http://127.0.0.1:22201", 7135781855441868016u},
        {"http://127.0.0.1:22203", 11427897810101880175u},
        {"http://127.0.0.1:22205", 7562143637537945398u},
    };
    for (size_t i = 0; i < 3; i++) {
        struct bytes url = bytes_str(cases[i].url);
        assert_true(member_id(&url, 1, bytes_str("golden3"), -1) == cases[i].id);
    }
}

static void test_ids_do_not_depend_on_the_order_of_urls(void **state)
{
    (void)state;
    const struct bytes urls[] = {bytes_str("c"), bytes_str("a"), bytes_str("b"), bytes_str("a")};
    const struct bytes sorted[] = {bytes_str("a"), bytes_str("a"), bytes_str("b"), bytes_str("c")};
    const struct bytes joined = bytes_str("aabct");
    uint64_t id = member_id(urls, 4, bytes_str("t"), -1);
    assert_true(id == member_id(sorted, 4, bytes_str("t"), -1));
    assert_true(id == member_id(&joined, 1, BYTES_EMPTY, -1));
}

static void test_ids_of_added_members_end_in_the_time(void **state)
{
    (void)state;
    const struct bytes url = bytes_str("http://a");
    const struct bytes joined = bytes_str("http://a1700000000");
    const struct bytes zero = bytes_str("http://a0");
    assert_true(member_id(&url, 1, BYTES_EMPTY, 1700000000) ==
                member_id(&joined, 1, BYTES_EMPTY, -1));
    assert_true(member_id(&url, 1, BYTES_EMPTY, 0) == member_id(&zero, 1, BYTES_EMPTY, -1));
}

static void test_ids_as_text_have_no_leading_zeros(void **state)
{
    (void)state;
    const struct {
        uint64_t id;
        const char *text;
    } cases[] = {{0, "0"},
                 {1, "1"},
                 {0x64ddc4c337d46b7, "64ddc4c337d46b7"},
                 {UINT64_MAX, "ffffffffffffffff"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[MEMBER_ID_TEXT_BYTES];
        uint64_t back = 7;
        assert_int_equal(strlen(cases[i].text), member_id_text(cases[i].id, text));
        assert_string_equal(cases[i].text, text);
        assert_int_equal(0, member_id_parse(bytes_str(text), &back));
        assert_true(back == cases[i].id);
    }
}

static void test_texts_that_are_no_ids_are_refused(void **state)
{
    (void)state;
    const char *const bad[] = {"", "g", "-1", "0x1", "1 ", "10000000000000000", "_1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t id = 7;
        assert_int_equal(E_INVAL, member_id_parse(bytes_str(bad[i]), &id));
        assert_true(id == 7);
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_fields_stand_in_upstreams_order),
        CASE(test_what_is_not_set_is_left_out),
        CASE(test_the_context_of_a_promotion),
        CASE(test_strings_are_escaped_as_go_does),
        CASE(test_a_full_buffer_is_as_before),
        CASE(test_what_was_written_is_read),
        CASE(test_names_compare_without_case_and_others_are_skipped),
        CASE(test_what_is_no_member_is_refused),
        CASE(test_every_failing_allocation_is_an_answer),
        CASE(test_bootstrap_ids_are_those_of_the_format_page),
        CASE(test_ids_do_not_depend_on_the_order_of_urls),
        CASE(test_ids_of_added_members_end_in_the_time),
        CASE(test_ids_as_text_have_no_leading_zeros),
        CASE(test_texts_that_are_no_ids_are_refused),
    };
    return cmocka_run_group_tests_name("membership: member", tests, NULL, NULL);
}
