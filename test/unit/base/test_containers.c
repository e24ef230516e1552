/* list, heap, maps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "assert_failed.h"
#include "base/err.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/prng.h"
#include "test_heap.h"

/* --- list ------------------------------------------------------------------------------------- */

struct node {
    int value;
    struct list link;
};

static void expect_list(const struct list *head, const char *values)
{
    const struct list *l = NULL;
    LIST_EACH(head, l)
    {
        assert_int_equal(LIST_OBJECT(l, struct node, link)->value, *values++);
    }
    assert_int_equal(*values, 0);
}

static void list_keeps_order_through_all_changes(void **state)
{
    (void)state;
    struct list head;
    struct list other;
    struct node n[5] = {
        {.value = 'a'}, {.value = 'b'}, {.value = 'c'}, {.value = 'd'}, {.value = 'e'}};
    list_init(&head);
    list_init(&other);
    assert_null(list_pop_front(&head));
    list_push_back(&head, &n[1].link);
    list_push_front(&head, &n[0].link);
    list_insert_after(&n[1].link, &n[2].link);
    expect_list(&head, "abc");
    list_push_back(&other, &n[3].link);
    list_push_back(&other, &n[4].link);
    list_splice_back(&head, &other);
    assert_true(list_empty(&other));
    list_splice_back(&head, &other);
    expect_list(&head, "abcde");
    list_remove(&n[2].link);
    list_remove(&n[2].link); /* alone: harmless */
    expect_list(&head, "abde");
    assert_ptr_equal(list_pop_front(&head), &n[0].link);
    struct list *l = NULL;
    struct list *spare = NULL;
    LIST_EACH_SAFE(&head, l, spare)
    {
        list_remove(l);
    }
    assert_true(list_empty(&head));
}

/* --- heap ------------------------------------------------------------------------------------- */

struct deadline {
    struct heap_item item;
    uint64_t at;
};

static bool sooner(const struct heap_item *a, const struct heap_item *b)
{
    return LIST_OBJECT(a, const struct deadline, item)->at <
           LIST_OBJECT(b, const struct deadline, item)->at;
}

enum { DEADLINES = 300 };

static void heap_gives_in_order_whatever_moved(void **state)
{
    (void)state;
    struct test_heap memory;
    struct heap h;
    struct prng p;
    static struct deadline d[DEADLINES];
    memset(d, 0, sizeof d);
    prng_init(&p, 1);
    test_heap_init(&memory);
    heap_init(&h, &memory.alloc, sooner);
    assert_null(heap_first(&h));
    assert_null(heap_pop(&h));
    for (size_t i = 0; i < DEADLINES; i++) {
        d[i].at = prng_below(&p, 100);
        assert_int_equal(heap_push(&h, &d[i].item), 0);
    }
    for (size_t i = 0; i < DEADLINES; i += 3) { /* a third gets another time, a third leaves */
        d[i].at = prng_below(&p, 100);
        heap_update(&h, &d[i].item);
        heap_remove(&h, &d[i + 1].item);
        assert_false(heap_item_queued(&d[i + 1].item));
    }
    EXPECT_ASSERT(heap_remove(&h, &d[1].item));
    EXPECT_ASSERT((void)heap_push(&h, &d[0].item));
    uint64_t last = 0;
    size_t count = 0;
    for (struct heap_item *it = heap_pop(&h); it != NULL; it = heap_pop(&h)) {
        const struct deadline *got = LIST_OBJECT(it, struct deadline, item);
        assert_true(got->at >= last);
        assert_false(heap_item_queued(it));
        last = got->at;
        count++;
    }
    assert_int_equal(count, DEADLINES / 3 * 2);
    heap_deinit(&h);
    test_heap_check_empty(&memory);
}

static void fill_heap(struct test_heap *memory, void *arg)
{
    (void)arg;
    struct heap h;
    static struct deadline d[DEADLINES];
    memset(d, 0, sizeof d);
    heap_init(&h, &memory->alloc, sooner);
    for (size_t i = 0; i < DEADLINES; i++) {
        int rc = heap_push(&h, &d[i].item);
        assert_true(rc == 0 || rc == E_NOMEM);
        assert_int_equal(heap_item_queued(&d[i].item), rc == 0);
    }
    heap_deinit(&h);
}

static void heap_survives_every_failing_allocation(void **state)
{
    (void)state;
    assert_true(test_heap_every_failure(fill_heap, NULL) > 3);
    assert_true(test_heap_every_failure_on(fill_heap, NULL) > 3);
}

static void heap_reserve_makes_pushes_sure(void **state)
{
    (void)state;
    struct test_heap memory;
    struct heap h;
    static struct deadline d[DEADLINES];
    memset(d, 0, sizeof d);
    test_heap_init(&memory);
    heap_init(&h, &memory.alloc, sooner);
    assert_int_equal(heap_reserve(&h, DEADLINES), 0);
    memory.fail_at = memory.allocation_count + 1;
    for (size_t i = 0; i < DEADLINES; i++) {
        assert_int_equal(heap_push(&h, &d[i].item), 0);
    }
    heap_deinit(&h);
}

/* --- maps ------------------------------------------------------------------------------------- */

enum { KEYS = 512, STEPS = 20000 };

/* A plain array is the model; the map must agree with it after each of many random changes. */
static void map_u64_agrees_with_a_model(void **state)
{
    (void)state;
    struct test_heap memory;
    struct map_u64 m;
    struct prng p;
    static char values[KEYS];
    bool model[KEYS] = {false};
    size_t count = 0;
    prng_init(&p, 2);
    test_heap_init(&memory);
    map_u64_init(&m, &memory.alloc, 77);
    assert_null(map_u64_get(&m, 0));
    assert_null(map_u64_remove(&m, 0));
    for (unsigned i = 0; i < STEPS; i++) {
        size_t k = (size_t)prng_below(&p, KEYS);
        uint64_t key = (uint64_t)k << 56 | k;
        if (prng_below(&p, 5) < 2 + (i / 4000) % 2) {
            assert_int_equal(map_u64_put(&m, key, &values[k]), 0);
            count += !model[k];
            model[k] = true;
        } else {
            assert_ptr_equal(map_u64_remove(&m, key), model[k] ? &values[k] : NULL);
            count -= model[k];
            model[k] = false;
        }
        assert_int_equal(m.count, count);
        size_t other = (size_t)prng_below(&p, KEYS);
        assert_ptr_equal(map_u64_get(&m, (uint64_t)other << 56 | other),
                         model[other] ? &values[other] : NULL);
    }
    size_t at = 0;
    size_t walked = 0;
    uint64_t key = 0;
    void *value = NULL;
    while (map_u64_next(&m, &at, &key, &value)) {
        assert_ptr_equal(value, &values[key & 0xFFFF]);
        walked++;
    }
    assert_int_equal(walked, count);
    map_u64_deinit(&m);
    test_heap_check_empty(&memory);
}

struct named {
    char name[16];
    size_t len;
};

static struct bytes name_of(const struct named *n)
{
    return bytes_of(n->name, n->len);
}

static void map_bytes_agrees_with_a_model(void **state)
{
    (void)state;
    struct test_heap memory;
    struct map_bytes m;
    struct prng p;
    static struct named names[KEYS];
    bool model[KEYS] = {false};
    prng_init(&p, 3);
    test_heap_init(&memory);
    map_bytes_init(&m, &memory.alloc, 5);
    for (size_t i = 0; i < KEYS; i++) { /* lengths 0 to 15, many sharing a prefix */
        names[i].len = i % 16;
        memset(names[i].name, 'k', 16);
        if (names[i].len > 1) memcpy(names[i].name + names[i].len - 2, &i, 2);
        if (i > 0 && names[i].len <= 1) names[i].len = 0; /* all the same key, the empty one */
    }
    for (unsigned i = 0; i < STEPS; i++) {
        size_t k = (size_t)prng_below(&p, KEYS);
        if (names[k].len == 0) k = 0;
        if (prng_below(&p, 2) == 0) {
            assert_int_equal(map_bytes_put(&m, name_of(&names[k]), &names[k]), 0);
            model[k] = true;
        } else {
            assert_ptr_equal(map_bytes_remove(&m, name_of(&names[k])), model[k] ? &names[k] : NULL);
            model[k] = false;
        }
        assert_ptr_equal(map_bytes_get(&m, name_of(&names[k])), model[k] ? &names[k] : NULL);
    }
    size_t at = 0;
    size_t walked = 0;
    struct bytes key;
    void *value = NULL;
    while (map_bytes_next(&m, &at, &key, &value)) {
        assert_true(bytes_eq(key, name_of(value)));
        walked++;
    }
    assert_int_equal(walked, m.count);
    map_bytes_deinit(&m);
    test_heap_check_empty(&memory);
}

static void map_put_replaces_key_and_value(void **state)
{
    (void)state;
    struct test_heap memory;
    struct map_bytes m;
    char first[] = "key";
    char second[] = "key";
    test_heap_init(&memory);
    map_bytes_init(&m, &memory.alloc, 0);
    assert_int_equal(map_bytes_put(&m, bytes_str(first), first), 0);
    assert_int_equal(map_bytes_put(&m, bytes_str(second), second), 0);
    first[0] = 'x'; /* no longer looked at */
    assert_ptr_equal(map_bytes_get(&m, bytes_str("key")), second);
    assert_int_equal(m.count, 1);
    map_bytes_deinit(&m);
}

static void fill_maps(struct test_heap *memory, void *arg)
{
    (void)arg;
    struct map_u64 a;
    struct map_bytes b;
    static struct named names[100];
    map_u64_init(&a, &memory->alloc, 0);
    map_bytes_init(&b, &memory->alloc, 0);
    for (size_t i = 0; i < 100; i++) {
        memcpy(names[i].name, &i, sizeof i);
        names[i].len = sizeof i;
        size_t before = a.count;
        if (map_u64_put(&a, i, &names[i]) < 0) assert_int_equal(a.count, before);
        if (map_bytes_put(&b, name_of(&names[i]), &names[i]) < 0) {
            assert_null(map_bytes_get(&b, name_of(&names[i])));
        }
    }
    map_u64_deinit(&a);
    map_bytes_deinit(&b);
}

static void maps_survive_every_failing_allocation(void **state)
{
    (void)state;
    assert_true(test_heap_every_failure(fill_maps, NULL) > 6);
    assert_true(test_heap_every_failure_on(fill_maps, NULL) > 6);
}

static void map_reserve_makes_puts_sure(void **state)
{
    (void)state;
    struct test_heap memory;
    struct map_u64 m;
    test_heap_init(&memory);
    map_u64_init(&m, &memory.alloc, 0);
    assert_int_equal(map_u64_reserve(&m, 1000), 0);
    memory.fail_at = memory.allocation_count + 1;
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(map_u64_put(&m, i, &m), 0);
    }
    assert_int_equal(map_u64_reserve(&m, SIZE_MAX), E_NOMEM);
    map_u64_deinit(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_keeps_order_through_all_changes),
        cmocka_unit_test(heap_gives_in_order_whatever_moved),
        cmocka_unit_test(heap_survives_every_failing_allocation),
        cmocka_unit_test(heap_reserve_makes_pushes_sure),
        cmocka_unit_test(map_u64_agrees_with_a_model),
        cmocka_unit_test(map_bytes_agrees_with_a_model),
        cmocka_unit_test(map_put_replaces_key_and_value),
        cmocka_unit_test(maps_survive_every_failing_allocation),
        cmocka_unit_test(map_reserve_makes_puts_sure),
    };
    return cmocka_run_group_tests_name("base/containers", tests, NULL, NULL);
}
