/* Threads, the blocking queue between them, and the reader-writer lock. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "os/rwlock.h"
#include "os/thread.h"

static void tell_name(void *arg)
{
    (void)pthread_getname_np(pthread_self(), arg, THREAD_NAME_BYTES_MAX + 1);
}

static void a_thread_bears_its_name(void **state)
{
    (void)state;
    char name[THREAD_NAME_BYTES_MAX + 1] = "";
    struct thread t;
    assert_int_equal(thread_start(&t, "a-name-that-is-too-long", tell_name, name, NULL), 0);
    thread_join(&t);
    assert_string_equal(name, "a-name-that-is-");
}

/* --- queue ------------------------------------------------------------------------------------ */

static void take_gives_all_in_order(void **state)
{
    (void)state;
    struct thread_queue q;
    struct list items[3];
    struct list out;
    thread_queue_init(&q);
    list_init(&out);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(thread_queue_put(&q, &items[i]));
    }
    assert_int_equal(thread_queue_count(&q), 3);
    assert_int_equal(thread_queue_take(&q, &out), 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_ptr_equal(list_pop_front(&out), &items[i]);
    }
    assert_true(list_empty(&out));
    thread_queue_deinit(&q);
}

static void a_closed_queue_gives_what_it_has_and_takes_no_more(void **state)
{
    (void)state;
    struct thread_queue q;
    struct list items[2];
    struct list out;
    bool closed = true;
    thread_queue_init(&q);
    list_init(&out);
    assert_int_equal(thread_queue_take_for(&q, 0, &out, &closed), 0);
    assert_false(closed);
    assert_int_equal(thread_queue_take_for(&q, 1000, &out, &closed), 0);
    assert_false(closed);
    assert_true(thread_queue_put(&q, &items[0]));
    thread_queue_close(&q);
    assert_false(thread_queue_put(&q, &items[1]));
    assert_int_equal(thread_queue_take_for(&q, UINT64_MAX / 4, &out, &closed), 1);
    assert_true(closed);
    assert_int_equal(thread_queue_take(&q, &out), 0);
    thread_queue_deinit(&q);
}

enum { PRODUCERS = 3, ITEMS = 3000 };

struct item {
    struct list link;
    unsigned producer;
    unsigned number;
};

struct production {
    struct thread_queue queue;
    struct item items[PRODUCERS][ITEMS];
};

static struct production production;

static void produce(void *arg)
{
    struct item *items = arg;
    for (unsigned i = 0; i < ITEMS; i++) {
        items[i].number = i;
        assert_true(thread_queue_put(&production.queue, &items[i].link));
    }
}

static void consume(void *arg)
{
    unsigned *next = arg; /* of each producer */
    struct list batch;
    list_init(&batch);
    while (thread_queue_take(&production.queue, &batch) > 0) {
        for (struct list *l = list_pop_front(&batch); l != NULL; l = list_pop_front(&batch)) {
            const struct item *it = LIST_OBJECT(l, struct item, link);
            if (it->number == next[it->producer]) next[it->producer]++;
        }
    }
}

static void producers_and_a_consumer_lose_nothing(void **state)
{
    (void)state;
    struct thread producers[PRODUCERS];
    struct thread consumer;
    unsigned next[PRODUCERS] = {0};
    thread_queue_init(&production.queue);
    assert_int_equal(thread_start(&consumer, "consumer", consume, next, NULL), 0);
    for (unsigned p = 0; p < PRODUCERS; p++) {
        for (unsigned i = 0; i < ITEMS; i++) {
            production.items[p][i].producer = p;
        }
        assert_int_equal(
            thread_start(&producers[p], "producer", produce, production.items[p], NULL), 0);
    }
    for (unsigned p = 0; p < PRODUCERS; p++) {
        thread_join(&producers[p]);
    }
    thread_queue_close(&production.queue);
    thread_join(&consumer);
    for (unsigned p = 0; p < PRODUCERS; p++) {
        assert_int_equal(next[p], ITEMS);
    }
    thread_queue_deinit(&production.queue);
}

/* --- rwlock ----------------------------------------------------------------------------------- */

enum { ROUNDS = 2000 };

struct guarded {
    struct os_rwlock lock;
    unsigned a; /* always equal under the lock */
    unsigned b;
    atomic_uint differences;
};

static void write_rounds(void *arg)
{
    struct guarded *g = arg;
    const struct rwlock *l = &g->lock.face;
    for (unsigned i = 0; i < ROUNDS; i++) {
        l->write(l->arg);
        g->a++;
        g->b++;
        l->write_done(l->arg);
    }
}

static void read_rounds(void *arg)
{
    struct guarded *g = arg;
    const struct rwlock *l = &g->lock.face;
    for (unsigned i = 0; i < ROUNDS; i++) {
        l->read(l->arg);
        if (g->a != g->b) atomic_fetch_add(&g->differences, 1);
        l->read_done(l->arg);
    }
}

static void readers_never_see_half_a_write(void **state)
{
    (void)state;
    struct guarded g = {.a = 0};
    struct thread t[3];
    os_rwlock_init(&g.lock);
    assert_int_equal(thread_start(&t[0], "writer", write_rounds, &g, NULL), 0);
    assert_int_equal(thread_start(&t[1], "reader", read_rounds, &g, NULL), 0);
    assert_int_equal(thread_start(&t[2], "reader", read_rounds, &g, NULL), 0);
    for (unsigned i = 0; i < 3; i++) {
        thread_join(&t[i]);
    }
    assert_int_equal(g.a, ROUNDS);
    assert_int_equal(atomic_load(&g.differences), 0);
    os_rwlock_deinit(&g.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_bears_its_name),
        cmocka_unit_test(take_gives_all_in_order),
        cmocka_unit_test(a_closed_queue_gives_what_it_has_and_takes_no_more),
        cmocka_unit_test(producers_and_a_consumer_lose_nothing),
        cmocka_unit_test(readers_never_see_half_a_write),
    };
    return cmocka_run_group_tests_name("os/thread", tests, NULL, NULL);
}
