/* What a watcher gets, case by case (server-behaviour.md 5). */
#include "rig.h"

/* Keys a, b, c at revisions 2, 3, 4. */
static void three_puts(struct rig *r)
{
    (void)kit_put(&r->k, "a", "1");
    (void)kit_put(&r->k, "b", "2");
    (void)kit_put(&r->k, "c", "3");
}

static void test_from_now(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    three_puts(&r);
    struct rig_watcher w = rig_watcher(1, "a", NULL, 0);
    rig_add(&r, &w);
    rig_expect(&r, "");
    (void)kit_put(&r.k, "a", "4");
    (void)kit_put(&r.k, "b", "5");
    (void)kit_del(&r.k, "a");
    rig_expect(&r, "1:r5 a; 1:r7 -a; ");
    watch_remove(&w.w);
    (void)kit_put(&r.k, "a", "4");
    rig_expect(&r, "");
    rig_deinit(&r);
}

/* What is published but not yet told to the shard is before "now" all the same. */
static void test_now_is_what_is_published(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    struct rig_watcher first = rig_watcher(1, "a", "", 0);
    struct rig_watcher second = rig_watcher(2, "a", "", 0);
    rig_add(&r, &first);
    three_puts(&r);
    rig_add(&r, &second);
    rig_expect(&r, "1:r2 a; 1:r3 b; 1:r4 c; ");
    (void)kit_put(&r.k, "d", "4");
    rig_expect(&r, "1:r5 d; 2:r5 d; ");
    watch_remove(&first.w);
    watch_remove(&second.w);
    rig_deinit(&r);
}

/* A history is one response with the current revision in its header. */
static void test_from_the_past(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    three_puts(&r);
    struct rig_watcher w = rig_watcher(1, "a", "", 3);
    rig_add(&r, &w);
    rig_expect(&r, "1:r4 b c; ");
    (void)kit_put(&r.k, "d", "4");
    rig_expect(&r, "1:r5 d; ");
    watch_remove(&w.w);
    rig_deinit(&r);
}

/* The same when a neighbour keeps the ring full of small batches. */
static void test_from_the_ring(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    struct rig_watcher near = rig_watcher(9, "zz", NULL, 0);
    rig_add(&r, &near);
    (void)kit_put(&r.k, "a", "1");
    rig_expect(&r, "");
    (void)kit_put(&r.k, "b", "1");
    rig_expect(&r, "");
    (void)kit_put(&r.k, "c", "1");
    rig_expect(&r, "");
    struct rig_watcher w = rig_watcher(1, "a", "", 2);
    rig_add(&r, &w);
    rig_expect(&r, "1:r4 a b c; ");
    watch_remove(&w.w);
    watch_remove(&near.w);
    rig_deinit(&r);
}

static void test_from_the_future(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    three_puts(&r);
    struct rig_watcher w = rig_watcher(1, "a", NULL, 6);
    rig_add(&r, &w);
    watch_stream_progress(&r.st);
    (void)kit_put(&r.k, "a", "4");
    rig_expect(&r, "");
    assert_false(watch_is_current(&w.w));
    (void)kit_put(&r.k, "a", "5");
    rig_expect(&r, "1:r6 a; progress 6; ");
    assert_true(watch_is_current(&w.w));
    watch_remove(&w.w);
    rig_deinit(&r);
}

/* All events of a revision are one response, in the order of the transaction. */
static void test_one_revision_one_response(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    struct rig_watcher w = rig_watcher(1, "a", "", 0);
    struct rig_watcher odd = rig_watcher(2, "b", NULL, 0);
    rig_add(&r, &w);
    rig_add(&r, &odd);
    mvcc_entry_begin(r.k.m);
    (void)kit_write(&r.k, "c", "1");
    (void)kit_write(&r.k, "b", "2");
    (void)kit_write(&r.k, "a", "3");
    kit_seal(&r.k);
    rig_expect(&r, "1:r2 c b a; 2:r2 b; ");
    watch_remove(&w.w);
    watch_remove(&odd.w);
    rig_deinit(&r);
}

static void test_thousand_revisions(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    for (int i = 0; i < 2500; i++)
        (void)kit_put(&r.k, "a", "1");
    r.quiet = true;
    struct rig_watcher w = rig_watcher(1, "a", NULL, 1);
    rig_add(&r, &w);
    rig_publish(&r, NULL, false);
    rig_rest(&r);
    assert_int_equal(r.events, 2500);
    assert_int_equal(r.responses, 3);
    watch_remove(&w.w);
    rig_deinit(&r);
}

static void test_filters(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    struct rig_watcher puts = rig_watcher(1, "a", NULL, 0);
    struct rig_watcher dels = rig_watcher(2, "a", NULL, 0);
    struct rig_watcher none = rig_watcher(3, "a", NULL, 0);
    puts.w.no_delete = true;
    dels.w.no_put = true;
    none.w.no_put = none.w.no_delete = true;
    rig_add(&r, &puts);
    rig_add(&r, &dels);
    rig_add(&r, &none);
    (void)kit_put(&r.k, "a", "1");
    (void)kit_del(&r.k, "a");
    rig_expect(&r, "1:r2 a; 2:r3 -a; ");
    watch_remove(&none.w);
    watch_remove(&dels.w);
    watch_remove(&puts.w);
    rig_deinit(&r);
}

static void test_previous_values(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    struct rig_watcher w = rig_watcher(1, "a", "", 0);
    w.w.prev_kv = true;
    rig_add(&r, &w);
    (void)kit_put(&r.k, "a", "one");
    (void)kit_put(&r.k, "a", "two");
    (void)kit_del(&r.k, "a");
    (void)kit_put(&r.k, "a", "three");
    rig_expect(&r, "1:r2 a; 1:r3 a<one; 1:r4 -a<two; 1:r5 a; ");
    watch_remove(&w.w);
    rig_deinit(&r);
}

/* A previous value that compaction has taken is left out without a word. */
static void test_previous_value_compacted(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    (void)kit_put(&r.k, "a", "one");
    (void)kit_put(&r.k, "a", "two");
    (void)kit_put(&r.k, "a", "three");
    assert_int_equal(kit_compact(&r.k, 3), 0);
    struct rig_watcher w = rig_watcher(1, "a", "", 3);
    w.w.prev_kv = true;
    rig_add(&r, &w);
    rig_expect(&r, "1:r4 a a<two; ");
    watch_remove(&w.w);
    rig_deinit(&r);
}

static void test_compacted_start(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    three_puts(&r);
    assert_int_equal(kit_compact(&r.k, 3), 0);
    struct rig_watcher late = rig_watcher(1, "a", "", 2);
    struct rig_watcher just = rig_watcher(2, "a", "", 3);
    rig_add(&r, &late);
    rig_add(&r, &just);
    watch_stream_progress(&r.st);
    rig_expect(&r, "1:compacted 3; 2:r4 b c; ");
    (void)kit_put(&r.k, "d", "4");
    rig_expect(&r, "2:r5 d; ");
    watch_remove(&late.w); /* until now it has held the progress answer back */
    rig_expect(&r, "progress 5; ");
    watch_remove(&just.w);
    rig_deinit(&r);
}

/* The compaction of what a live watcher is about to get takes nothing from it when a batch has it. */
static void test_compaction_right_behind(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    struct rig_watcher w = rig_watcher(1, "a", "", 0);
    rig_add(&r, &w);
    (void)kit_put(&r.k, "a", "1");
    (void)kit_put(&r.k, "a", "2");
    rig_publish(&r, NULL, true);
    assert_int_equal(kit_compact(&r.k, 3), 0);
    rig_expect(&r, "1:r2 a; 1:r3 a; ");
    watch_remove(&w.w);
    rig_deinit(&r);
}

static void test_progress(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    watch_stream_progress(&r.st);
    rig_expect(&r, ""); /* no watcher: no answer, not even later */
    struct rig_watcher w = rig_watcher(1, "a", "", 1);
    three_puts(&r);
    rig_add(&r, &w);
    watch_stream_progress(&r.st);
    watch_stream_progress(&r.st);
    rig_expect(&r, "1:r4 a b c; progress 4; progress 4; ");
    (void)kit_put(&r.k, "zz", "1");
    watch_stream_progress(&r.st); /* published, but not told yet: the answer waits for it */
    rig_rest(&r);
    assert_string_equal(r.said, "");
    rig_expect(&r, "1:r5 zz; progress 5; ");
    watch_remove(&w.w);
    rig_deinit(&r);
}

/* A stream without room costs itself only; later it gets the same in fewer responses. */
static void test_slow_stream(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    struct rig_watcher w = rig_watcher(1, "a", "", 0);
    rig_add(&r, &w);
    r.room = 1;
    three_puts(&r);
    rig_expect(&r, "1:r2 a; ");
    watch_stream_progress(&r.st);
    rig_expect(&r, "");
    assert_int_equal(watch_shard_behind(r.shard), 1);
    assert_int_equal(watch_shard_position(r.shard), 4);
    r.room = 100;
    watch_stream_wake(&r.st);
    rig_expect(&r, "1:r4 b c; progress 4; ");
    assert_int_equal(watch_shard_behind(r.shard), 0);
    watch_remove(&w.w);
    rig_deinit(&r);
}

static void test_empty_range(void **state)
{
    struct rig r;
    int64_t current = 0;
    (void)state;
    rig_init(&r, NULL);
    struct rig_watcher same = rig_watcher(1, "b", "b", 0);
    struct rig_watcher back = rig_watcher(1, "b", "a", 0);
    assert_int_equal(watch_add(&same.w, &r.st, &current), E_INVAL);
    assert_int_equal(watch_add(&back.w, &r.st, &current), E_INVAL);
    rig_deinit(&r);
}

/* --- batches --- */

static void test_batch_of_limited_size(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    three_puts(&r);
    assert_null(watch_batch_read(r.k.m, &r.k.alloc, 2, 4, 2));
    struct watch_batch *b = watch_batch_read(r.k.m, &r.k.alloc, 2, 4, 4);
    assert_non_null(b);
    assert_int_equal(b->count, 3);
    assert_int_equal(watch_batch_find(b, 3), 1);
    assert_int_equal(watch_batch_find(b, 5), 3);
    assert_true(bytes_eq(watch_event_key(b, &b->events[1]), bytes_str("b")));
    watch_batch_unref(b);
    rig_deinit(&r);
}

/* The bytes of events: put whole, deletion with key and revision only. */
static void test_event_bytes(void **state)
{
    static const uint8_t PUT[] = {0x5a, 14,   0x12, 12,   0x0a, 1,    'a', 0x10,
                                  2,    0x18, 2,    0x20, 1,    0x2a, 1,   '1'};
    static const uint8_t DELETION[] = {0x5a, 9, 0x08, 1, 0x12, 5, 0x0a, 1, 'a', 0x18, 3};
    struct rig r;
    (void)state;
    rig_init(&r, NULL);
    (void)kit_put(&r.k, "a", "1");
    (void)kit_del(&r.k, "a");
    struct watch_batch *b = watch_batch_read(r.k.m, &r.k.alloc, 2, 3, 10);
    assert_non_null(b);
    assert_true(bytes_eq(watch_event_piece(b, &b->events[0]), bytes_of(PUT, sizeof PUT)));
    assert_true(bytes_eq(watch_event_piece(b, &b->events[1]), bytes_of(DELETION, sizeof DELETION)));
    assert_true(b->events[0].creation && b->events[1].deletion);
    watch_batch_unref(b);
    rig_deinit(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_now),           cmocka_unit_test(test_now_is_what_is_published),
        cmocka_unit_test(test_from_the_past),      cmocka_unit_test(test_from_the_ring),
        cmocka_unit_test(test_from_the_future),    cmocka_unit_test(test_one_revision_one_response),
        cmocka_unit_test(test_thousand_revisions), cmocka_unit_test(test_filters),
        cmocka_unit_test(test_previous_values),    cmocka_unit_test(test_previous_value_compacted),
        cmocka_unit_test(test_compacted_start),    cmocka_unit_test(test_compaction_right_behind),
        cmocka_unit_test(test_progress),           cmocka_unit_test(test_slow_stream),
        cmocka_unit_test(test_empty_range),        cmocka_unit_test(test_batch_of_limited_size),
        cmocka_unit_test(test_event_bytes),
    };
    return cmocka_run_group_tests_name("watch shard", tests, NULL, NULL);
}
