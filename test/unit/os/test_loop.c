/* The event loop: tasks from any thread, sockets, timers. */
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/list.h"
#include "os/heap.h"
#include "os/loop.h"
#include "os/thread.h"
#include "test_heap.h"

struct order {
    struct loop *loop;
    int seen[8];
    unsigned count;
};

struct numbered {
    struct task task;
    struct order *order;
    int number;
};

static void note(struct task *t)
{
    struct numbered *n = LIST_OBJECT(t, struct numbered, task);
    n->order->seen[n->order->count++] = n->number;
}

static struct loop *loop_ok(void)
{
    struct loop *l = NULL;
    assert_int_equal(loop_new(&os_heap, &l, NULL), 0);
    return l;
}

static void tasks_run_in_order(void **state)
{
    (void)state;
    struct order o = {.loop = loop_ok()};
    struct numbered n[3];
    for (int i = 0; i < 3; i++) {
        n[i] = (struct numbered){.task.run = note, .order = &o, .number = i};
        loop_post(o.loop, &n[i].task);
    }
    assert_int_equal(o.count, 0);
    loop_run_once(o.loop);
    assert_int_equal(o.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(o.seen[i], i);
    }
    loop_free(o.loop);
}

static void post_again(struct task *t)
{
    struct numbered *n = LIST_OBJECT(t, struct numbered, task);
    n->order->count++;
    loop_post(n->order->loop, t);
}

static void a_task_posted_by_a_task_waits_for_the_next_round(void **state)
{
    (void)state;
    struct order o = {.loop = loop_ok()};
    struct numbered n = {.task.run = post_again, .order = &o};
    loop_post(o.loop, &n.task);
    for (unsigned i = 1; i <= 3; i++) {
        loop_run_once(o.loop);
        assert_int_equal(o.count, i);
    }
    loop_free(o.loop);
}

static void stop_now(struct task *t)
{
    struct numbered *n = LIST_OBJECT(t, struct numbered, task);
    assert_true(loop_is_current(n->order->loop));
    n->order->count++;
    loop_stop(n->order->loop);
}

static void a_loop_can_be_stopped_and_run_again(void **state)
{
    (void)state;
    struct order o = {.loop = loop_ok()};
    struct numbered n = {.task.run = stop_now, .order = &o};
    for (unsigned i = 1; i <= 2; i++) {
        loop_post(o.loop, &n.task);
        loop_run(o.loop);
        assert_int_equal(o.count, i);
    }
    assert_false(loop_is_current(o.loop));
    loop_stop(o.loop); /* before it runs: it returns at once */
    loop_run(o.loop);
    loop_free(o.loop);
}

enum { POSTS = 2000, THREADS = 3 };

struct counter {
    struct loop *loop;
    struct task tasks[THREADS][POSTS];
    unsigned thread_count;
    unsigned seen;
};

static struct counter counter;

static void count_task(struct task *t)
{
    (void)t;
    counter.seen++;
    if (counter.seen == THREADS * POSTS) loop_stop(counter.loop);
}

static void post_tasks(void *arg)
{
    struct task *tasks = arg;
    for (unsigned i = 0; i < POSTS; i++) {
        tasks[i].run = count_task;
        loop_post(counter.loop, &tasks[i]);
    }
}

static void posts_from_many_threads_all_arrive(void **state)
{
    (void)state;
    struct thread threads[THREADS];
    counter.loop = loop_ok();
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(thread_start(&threads[i], "poster", post_tasks, counter.tasks[i], NULL),
                         0);
    }
    loop_run(counter.loop);
    for (unsigned i = 0; i < THREADS; i++) {
        thread_join(&threads[i]);
    }
    assert_int_equal(counter.seen, THREADS * POSTS);
    loop_free(counter.loop);
}

/* --- sockets ---------------------------------------------------------------------------------- */

struct watched {
    struct loop_watch *watch;
    int fd;
    unsigned events;
    unsigned calls;
    bool close;
};

static void on_events(void *arg, unsigned events)
{
    struct watched *w = arg;
    w->events |= events;
    w->calls++;
    if (w->close) loop_watch_close(w->watch);
}

static void pair(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
}

static void a_watch_tells_what_a_socket_can_do(void **state)
{
    (void)state;
    int fds[2];
    struct watched w = {0};
    struct loop *l = loop_ok();
    pair(fds);
    assert_int_equal(loop_watch_open(l, fds[0], on_events, &w, &w.watch), 0);
    loop_run_once(l);
    assert_int_equal(w.calls, 0); /* nothing was asked for */
    loop_watch_set(w.watch, LOOP_READABLE);
    loop_run_once(l);
    assert_int_equal(w.calls, 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    loop_run_once(l);
    loop_run_once(l);
    assert_int_equal(w.calls, 2); /* level-triggered */
    assert_int_equal(w.events, LOOP_READABLE);
    loop_watch_set(w.watch, LOOP_WRITABLE);
    w.events = 0;
    loop_run_once(l);
    assert_int_equal(w.events, LOOP_WRITABLE);
    loop_watch_set(w.watch, 0);
    w.calls = 0;
    loop_run_once(l);
    assert_int_equal(w.calls, 0);
    loop_watch_close(w.watch);
    (void)close(fds[0]);
    (void)close(fds[1]);
    loop_free(l);
}

static void a_watch_sees_the_other_side_close(void **state)
{
    (void)state;
    int fds[2];
    struct watched w = {0};
    struct loop *l = loop_ok();
    pair(fds);
    assert_int_equal(loop_watch_open(l, fds[0], on_events, &w, &w.watch), 0);
    loop_watch_set(w.watch, LOOP_READABLE | LOOP_HANGUP);
    (void)close(fds[1]);
    loop_run_once(l);
    assert_int_equal(w.events, LOOP_READABLE | LOOP_HANGUP);
    loop_watch_close(w.watch);
    (void)close(fds[0]);
    loop_free(l);
}

static void a_watch_may_be_closed_in_its_own_call(void **state)
{
    (void)state;
    int fds[2];
    struct watched w = {.close = true};
    struct loop *l = loop_ok();
    pair(fds);
    assert_int_equal(loop_watch_open(l, fds[0], on_events, &w, &w.watch), 0);
    loop_watch_set(w.watch, LOOP_WRITABLE);
    loop_run_once(l);
    loop_run_once(l);
    assert_int_equal(w.calls, 1);
    (void)close(fds[0]);
    (void)close(fds[1]);
    loop_free(l);
}

/* --- timers ----------------------------------------------------------------------------------- */

struct ticking {
    struct loop *loop;
    struct loop_timer *timer;
    unsigned ticks;
    unsigned stop_at;
};

static void on_tick(void *arg)
{
    struct ticking *t = arg;
    t->ticks++;
    if (t->ticks == t->stop_at) loop_stop(t->loop);
}

static void a_timer_ticks_until_stopped(void **state)
{
    (void)state;
    struct ticking t = {.loop = loop_ok(), .stop_at = 3};
    assert_int_equal(loop_timer_open(t.loop, on_tick, &t, &t.timer), 0);
    uint64_t before = loop_now_ns(t.loop);
    loop_timer_start(t.timer, 1, 2);
    loop_run(t.loop);
    assert_int_equal(t.ticks, 3);
    assert_true(loop_now_ns(t.loop) - before >= 4000000);
    loop_timer_stop(t.timer);
    loop_run_once(t.loop);
    assert_int_equal(t.ticks, 3);
    loop_timer_close(t.timer);
    loop_free(t.loop);
}

static void set_up_and_down(struct test_heap *h, void *arg)
{
    (void)arg;
    struct loop *l = NULL;
    struct loop_timer *timer = NULL;
    struct loop_watch *watch = NULL;
    struct ticking t = {0};
    int fds[2];
    pair(fds);
    if (loop_new(&h->alloc, &l, NULL) == 0) {
        if (loop_timer_open(l, on_tick, &t, &timer) == 0) loop_timer_close(timer);
        if (loop_watch_open(l, fds[0], on_events, NULL, &watch) == 0) loop_watch_close(watch);
        loop_free(l);
    }
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void every_failing_allocation_is_answered(void **state)
{
    (void)state;
    assert_true(test_heap_every_failure(set_up_and_down, NULL) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_run_in_order),
        cmocka_unit_test(a_task_posted_by_a_task_waits_for_the_next_round),
        cmocka_unit_test(a_loop_can_be_stopped_and_run_again),
        cmocka_unit_test(posts_from_many_threads_all_arrive),
        cmocka_unit_test(a_watch_tells_what_a_socket_can_do),
        cmocka_unit_test(a_watch_sees_the_other_side_close),
        cmocka_unit_test(a_watch_may_be_closed_in_its_own_call),
        cmocka_unit_test(a_timer_ticks_until_stopped),
        cmocka_unit_test(every_failing_allocation_is_answered),
    };
    return cmocka_run_group_tests_name("os/loop", tests, NULL, NULL);
}
