/* The v2 store's JSON beyond what golden files show: empty stores, escapes, the ring of events, many members. The shape is
 * checked with json-c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "base/err.h"
#include "snap/snap_v2.h"
#include "test_heap.h"

enum { MANY = 1200 };

struct world {
    struct test_heap heap;
    struct buf out;
    struct json_object *root;
    struct snap_v2_store s;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    test_heap_init(&w->heap);
    buf_init(&w->out, &w->heap.alloc, 1 << 24);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    json_object_put(w->root);
    buf_deinit(&w->out);
    test_heap_check_empty(&w->heap);
    free(w);
    return 0;
}

static void encode(struct world *w)
{
    assert_int_equal(snap_v2_encode(&w->s, &w->out), 0);
    struct json_tokener *t = json_tokener_new_ex(64);
    w->root = json_tokener_parse_ex(t, (const char *)w->out.data, (int)w->out.len);
    assert_int_equal(json_tokener_get_parse_end(t), w->out.len);
    json_tokener_free(t);
    assert_non_null(w->root);
}

static struct json_object *get(struct json_object *o, const char *key)
{
    struct json_object *v = NULL;
    if (!json_object_object_get_ex(o, key, &v)) fail_msg("no %s", key);
    return v;
}

static struct json_object *children(struct world *w)
{
    return get(get(get(get(w->root, "Root"), "Children"), "0"), "Children");
}

static struct json_object *queue(struct world *w)
{
    return get(get(get(w->root, "WatcherHub"), "EventHistory"), "Queue");
}

static int64_t num(struct json_object *o, const char *key)
{
    return json_object_get_int64(get(o, key));
}

static void test_empty_store(void **state)
{
    struct world *w = *state;
    encode(w);
    assert_int_equal(json_object_object_length(children(w)), 0);
    assert_int_equal(num(w->root, "CurrentIndex"), 0);
    assert_int_equal(num(queue(w), "Size"), 0);
    assert_int_equal(json_object_array_length(get(queue(w), "Events")), 1000);
    assert_int_equal(num(get(get(w->root, "WatcherHub"), "EventHistory"), "StartIndex"), 0);
}

static void test_text_is_escaped_twice_inside_values(void **state)
{
    struct world *w = *state;
    struct bytes peer[] = {bytes_str("http://h:1/?a&b"), bytes_str("http://\"q\"")};
    struct member m = {.id = 0xab, .peer_urls = peer, .peer_url_count = 2, .is_learner = true};
    w->s = (struct snap_v2_store){.members = &m, .member_count = 1};
    encode(w);
    assert_int_equal(buf_put_u8(&w->out, 0), 0);
    assert_non_null(strstr((char *)w->out.data,
                           "\"Value\":\"{\\\"peerURLs\\\":[\\\"http://h:1/?a\\\\u0026b\\\","
                           "\\\"http://\\\\\\\"q\\\\\\\"\\\"],\\\"isLearner\\\":true}\""));
    struct json_object *node = get(get(children(w), "members"), "Children");
    assert_int_equal(json_object_object_length(get(get(node, "ab"), "Children")), 1);
}

static void test_a_member_without_urls_or_name(void **state)
{
    struct world *w = *state;
    struct bytes client = bytes_str("c");
    struct member m = {.id = 1, .client_urls = &client, .client_url_count = 1};
    w->s = (struct snap_v2_store){.members = &m, .member_count = 1};
    encode(w);
    struct json_object *node =
        get(get(get(get(children(w), "members"), "Children"), "1"), "Children");
    assert_string_equal(json_object_get_string(get(get(node, "raftAttributes"), "Value")),
                        "{\"peerURLs\":null}");
    assert_string_equal(json_object_get_string(get(get(node, "attributes"), "Value")),
                        "{\"clientURLs\":[\"c\"]}");
    assert_int_equal(num(get(node, "attributes"), "CreatedIndex"), 2);
    assert_int_equal(num(get(w->root, "Stats"), "setsSuccess"), 1);
    assert_int_equal(num(get(w->root, "Stats"), "createSuccess"), 1);
}

/* Keys are sorted as text, steps go by the order given. */
static void test_keys_are_sorted_as_text(void **state)
{
    struct world *w = *state;
    struct member m[] = {{.id = 0x9}, {.id = 0x10}, {.id = 0xfff}};
    uint64_t removed[] = {0x20, 0x3};
    w->s = (struct snap_v2_store){m, 3, removed, 2, bytes_str("3.7.0")};
    encode(w);
    static const char *const want[] = {"10", "9", "fff"};
    static const int64_t steps[] = {2, 1, 3};
    size_t i = 0;
    struct json_object *nodes = get(get(children(w), "members"), "Children");
    json_object_object_foreach(nodes, key, node)
    {
        assert_string_equal(key, want[i]);
        assert_int_equal(num(node, "CreatedIndex"), steps[i]);
        i++;
    }
    assert_int_equal(num(get(children(w), "removed_members"), "CreatedIndex"), 4);
    assert_int_equal(num(get(children(w), "version"), "CreatedIndex"), 6);
}

/* The ring: slot (step - 1) mod 1000 holds the last such step. */
static void check_ring(struct world *w, size_t removed, bool version)
{
    static uint64_t ids[MANY * 2];
    for (size_t i = 0; i < removed; i++)
        ids[i] = i + 1;
    w->s = (struct snap_v2_store){.removed = ids, .removed_count = removed};
    if (version) w->s.version = bytes_str("3.7.0");
    encode(w);
    size_t steps = removed + version;
    struct json_object *events = get(queue(w), "Events");
    for (size_t slot = 0; slot < 1000; slot++) {
        struct json_object *e = json_object_array_get_idx(events, slot);
        if (slot >= steps) {
            assert_null(e);
            continue;
        }
        size_t step = slot + 1 + (steps - slot - 1) / 1000 * 1000;
        assert_int_equal(num(get(e, "node"), "modifiedIndex"), step);
        char key[64];
        if (version && step == steps)
            snprintf(key, sizeof key, "/0/version");
        else
            snprintf(key, sizeof key, "/0/removed_members/%zx", step);
        assert_string_equal(json_object_get_string(get(get(e, "node"), "key")), key);
    }
    struct json_object *history = get(get(w->root, "WatcherHub"), "EventHistory");
    assert_int_equal(num(queue(w), "Size"), steps < 1000 ? steps : 1000);
    assert_int_equal(num(queue(w), "Back"), steps % 1000);
    assert_int_equal(num(queue(w), "Front"), steps < 1000 ? 0 : steps % 1000);
    assert_int_equal(num(history, "StartIndex"), steps <= 1000 ? 1 : steps - 999);
    assert_int_equal(num(history, "LastIndex"), steps);
}

static void test_ring_below_its_size(void **state)
{
    check_ring(*state, 998, true);
}

static void test_ring_just_full(void **state)
{
    check_ring(*state, 1000, false);
}

static void test_ring_wraps(void **state)
{
    check_ring(*state, MANY, true);
}

static void test_ring_wraps_to_the_start(void **state)
{
    check_ring(*state, 2000, false);
}

static void test_ring_wraps_twice(void **state)
{
    check_ring(*state, 2003, true);
}

static void with_heap(struct test_heap *heap, void *arg)
{
    struct bytes url = bytes_str("http://h:1");
    struct member m = {1, bytes_str("n"), &url, 1, &url, 1, false};
    uint64_t removed = 2;
    struct snap_v2_store s = {&m, 1, &removed, 1, bytes_str("3.7.0")};
    struct buf out;
    (void)arg;
    buf_init(&out, &heap->alloc, 1 << 20);
    int rc = buf_put_str(&out, "before");
    if (rc == 0) {
        rc = snap_v2_encode(&s, &out);
        assert_true(rc == 0 || out.len == 6);
    }
    assert_true(rc == 0 || rc == E_NOMEM);
    buf_deinit(&out);
}

static void test_memory_fails(void **state)
{
    assert_true(test_heap_every_failure(with_heap, *state) > 5);
}

static void test_bound_of_the_buffer(void **state)
{
    struct world *w = *state;
    w->out.bytes_max = 100;
    assert_int_equal(snap_v2_encode(&w->s, &w->out), E_TOOBIG);
    assert_int_equal(w->out.len, 0);
}

/* Of the member table: the same as member by member. */
static void test_of_a_membership(void **state)
{
    struct world *w = *state;
    struct bytes url = bytes_str("http://h:1");
    struct member m[] = {{.id = 5, .peer_urls = &url, .peer_url_count = 1},
                         {.id = 3, .peer_urls = &url, .peer_url_count = 1, .is_learner = true}};
    uint64_t removed[] = {9};
    struct membership_content c = {m, 2, removed, 1, bytes_str("3.7.0"), {0}};
    struct membership *table;
    struct buf seen;
    assert_int_equal(membership_new(&w->heap.alloc, &c, &table), 0);
    buf_init(&seen, &w->heap.alloc, 1 << 20);
    assert_int_equal(snap_v2_encode_membership(table, &seen), 0);
    struct member sorted[] = {m[1], m[0]};
    w->s = (struct snap_v2_store){sorted, 2, removed, 1, bytes_str("3.7.0")};
    encode(w);
    assert_true(bytes_eq(buf_bytes(&seen), buf_bytes(&w->out)));
    buf_deinit(&seen);
    membership_unref(table);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_empty_store),
        TEST(test_text_is_escaped_twice_inside_values),
        TEST(test_a_member_without_urls_or_name),
        TEST(test_keys_are_sorted_as_text),
        TEST(test_ring_below_its_size),
        TEST(test_ring_just_full),
        TEST(test_ring_wraps),
        TEST(test_ring_wraps_to_the_start),
        TEST(test_ring_wraps_twice),
        TEST(test_memory_fails),
        TEST(test_bound_of_the_buffer),
        TEST(test_of_a_membership),
    };
    return cmocka_run_group_tests_name("snap/v2", tests, NULL, NULL);
}
