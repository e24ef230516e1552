/* Memory: the n-th allocation failing loses no event, and what many watchers cost. */
#include "rig.h"

static void add_anyway(struct rig *r, struct rig_watcher *w)
{
    int64_t current = 0;
    int rc = watch_add(&w->w, &r->st, &current);
    if (rc == E_NOMEM) rc = watch_add(&w->w, &r->st, &current);
    assert_int_equal(rc, 0);
}

static void rest_anyway(struct rig *r)
{
    for (int i = 0; watch_shard_step(r->shard) != 0; i++)
        assert_true(i < 1000);
}

/* Live ones, one from the past, one with previous values, a slow stream: all get everything in the end. */
static void run(struct test_heap *h, void *arg)
{
    struct rig r;
    (void)arg;
    if (rig_init(&r, &h->alloc) < 0) {
        rig_deinit(&r);
        return;
    }
    r.quiet = true;
    (void)kit_put(&r.k, "a", "1");
    struct rig_watcher live = rig_watcher(1, "a", NULL, 0);
    struct rig_watcher past = rig_watcher(2, "a", "", 1);
    struct rig_watcher prev = rig_watcher(3, "a", "b", 0);
    prev.w.prev_kv = true;
    add_anyway(&r, &live);
    add_anyway(&r, &past);
    add_anyway(&r, &prev);
    for (int i = 0; i < 6; i++) {
        r.room = i == 3 ? 0 : 100;
        (void)kit_put(&r.k, "a", "2");
        rig_publish(&r, &h->alloc, i % 2 == 0);
        rest_anyway(&r);
    }
    watch_stream_wake(&r.st);
    rest_anyway(&r);
    assert_int_equal(r.events, 3 * 6 + 1);
    watch_remove(&live.w);
    watch_remove(&past.w);
    watch_remove(&prev.w);
    rig_deinit(&r);
}

static void test_every_allocation_fails(void **state)
{
    (void)state;
    assert_true(test_heap_every_failure(run, NULL) > 20);
}

enum { ONE_KEY = 10000, MANY_KEYS = 100000 };

static struct rig_watcher *make(struct rig *r, size_t count, char (*names)[8], bool same)
{
    struct rig_watcher *w = calloc(count, sizeof *w);
    assert_non_null(w);
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], 8, "%06d", same ? 7 : (int)i);
        w[i] = rig_watcher((int)i, names[i], NULL, 0);
        rig_add(r, &w[i]);
    }
    return w;
}

static void many(size_t count, bool same, size_t want)
{
    struct rig r;
    struct test_heap h;
    char(*names)[8] = calloc(count, sizeof *names);
    assert_non_null(names);
    test_heap_init(&h);
    rig_init(&r, &h.alloc);
    r.quiet = true;
    size_t before = h.live_bytes;
    struct rig_watcher *w = make(&r, count, names, same);
    print_message("%zu watchers of %s: %zu bytes each, and %zu for each in tables\n", count,
                  same ? "one key" : "as many keys", sizeof w->w, (h.live_bytes - before) / count);
    for (int i = 0; i < 10; i++)
        (void)kit_put(&r.k, "000007", "x");
    rig_publish(&r, &h.alloc, true);
    rig_rest(&r);
    assert_int_equal(r.events, want);
    for (size_t i = 0; i < count; i++)
        watch_remove(&w[i].w);
    rig_deinit(&r);
    test_heap_check_empty(&h);
    free(w);
    free(names);
}

static void test_many_of_one_key(void **state)
{
    (void)state;
    many(ONE_KEY, true, ONE_KEY * 10);
}

static void test_many_keys(void **state)
{
    (void)state;
    many(MANY_KEYS, false, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails),
        cmocka_unit_test(test_many_of_one_key),
        cmocka_unit_test(test_many_keys),
    };
    return cmocka_run_group_tests_name("watch memory", tests, NULL, NULL);
}
