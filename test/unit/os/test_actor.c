/* Actors on real loops and threads: who runs, when a run ends, and that nothing is lost under load.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "assert_failed.h"
#include "base/list.h"
#include "os/actor.h"
#include "os/clock.h"
#include "os/heap.h"
#include "os/thread.h"

struct item {
    struct actor_input input;
    unsigned poster;
    unsigned number;
};

struct fixture {
    struct loop *loop;
    struct actor actor;
    unsigned handled;
    unsigned flushed;
    uint64_t now_ns; /* of a clock that tests move */
    uint64_t step_ns;
    struct item items[16];
};

static void count_one(void *arg, struct actor_input *input)
{
    struct fixture *f = arg;
    struct item *it = LIST_OBJECT(input, struct item, input);
    assert_int_equal(it->number, f->handled);
    f->handled++;
    f->now_ns += f->step_ns;
}

static void count_flush(void *arg)
{
    ((struct fixture *)arg)->flushed++;
}

static uint64_t fake_now(void *arg)
{
    return ((struct fixture *)arg)->now_ns;
}

static struct clock fake_clock;

static void setup(struct fixture *f, uint32_t inputs_max)
{
    *f = (struct fixture){.now_ns = 1};
    fake_clock = (struct clock){.mono_ns = fake_now, .arg = f};
    assert_int_equal(loop_new(&os_heap, &f->loop, NULL), 0);
    struct actor_opts opts = {.handle = count_one,
                              .flush = count_flush,
                              .arg = f,
                              .loop = f->loop,
                              .clock = &fake_clock,
                              .run_inputs_max = inputs_max};
    actor_init(&f->actor, &opts);
    for (unsigned i = 0; i < 16; i++) {
        f->items[i].number = i;
    }
}

static void teardown(struct fixture *f)
{
    assert_true(actor_idle(&f->actor));
    actor_deinit(&f->actor);
    loop_free(f->loop);
}

static void an_idle_actor_runs_in_the_posters_thread(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 0);
    actor_post(&f.actor, &f.items[0].input, true);
    assert_int_equal(f.handled, 1);
    assert_int_equal(f.flushed, 1);
    teardown(&f);
}

static void without_permission_it_runs_on_its_loop(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 0);
    actor_post(&f.actor, &f.items[0].input, false);
    actor_post(&f.actor, &f.items[1].input, true); /* not idle any more: left to the loop */
    assert_int_equal(f.handled, 0);
    assert_false(actor_idle(&f.actor));
    loop_run_once(f.loop);
    assert_int_equal(f.handled, 2);
    assert_int_equal(f.flushed, 1);
    teardown(&f);
}

static void a_run_ends_after_its_inputs(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 2);
    for (unsigned i = 0; i < 5; i++) {
        actor_post(&f.actor, &f.items[i].input, false);
    }
    for (unsigned i = 1; i <= 2; i++) {
        loop_run_once(f.loop);
        assert_int_equal(f.handled, 2 * i);
        assert_false(actor_idle(&f.actor));
    }
    loop_run_once(f.loop);
    assert_int_equal(f.handled, 5);
    assert_int_equal(f.flushed, 3);
    teardown(&f);
}

static void a_run_ends_after_its_time(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 100);
    f.step_ns = ACTOR_RUN_NS_MAX / 2;
    for (unsigned i = 0; i < 3; i++) {
        actor_post(&f.actor, &f.items[i].input, false);
    }
    loop_run_once(f.loop);
    assert_int_equal(f.handled, 2);
    loop_run_once(f.loop);
    assert_int_equal(f.handled, 3);
    teardown(&f);
}

static void post_next(void *arg, struct actor_input *input)
{
    struct fixture *f = arg;
    unsigned n = LIST_OBJECT(input, struct item, input)->number;
    f->handled++;
    if (n < 9) actor_post(&f->actor, &f->items[n + 1].input, true);
    assert_int_equal(f->handled, n + 1); /* not handled within the handler */
}

static void a_handler_may_post_to_its_own_actor(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 100);
    f.actor.opts.handle = post_next;
    actor_post(&f.actor, &f.items[0].input, true);
    assert_int_equal(f.handled, 10);
    teardown(&f);
}

static void ending_a_busy_actor_is_an_error(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, 0);
    actor_post(&f.actor, &f.items[0].input, false);
    EXPECT_ASSERT(actor_deinit(&f.actor));
    loop_run_once(f.loop);
    teardown(&f);
}

/* --- load ------------------------------------------------------------------------------------- */

enum { LOAD_POSTERS = 4, LOAD_INPUTS = 5000 };

struct load {
    struct loop *loop;
    struct actor actor;
    struct item *items;
    unsigned next[LOAD_POSTERS]; /* plain memory on purpose: the actor alone guards it */
    unsigned handled;
    unsigned mistakes;
};

struct poster {
    struct load *load;
    unsigned number;
    struct thread thread;
};

static void check_order(void *arg, struct actor_input *input)
{
    struct load *l = arg;
    const struct item *it = LIST_OBJECT(input, struct item, input);
    l->mistakes += it->number != l->next[it->poster];
    l->next[it->poster] = it->number + 1;
    l->handled++;
    if (l->handled == LOAD_POSTERS * LOAD_INPUTS) loop_stop(l->loop);
}

static void post_all(void *arg)
{
    struct poster *p = arg;
    for (unsigned i = 0; i < LOAD_INPUTS; i++) {
        struct item *it = &p->load->items[p->number * LOAD_INPUTS + i];
        it->poster = p->number;
        it->number = i;
        actor_post(&p->load->actor, &it->input, i % 3 != 0);
    }
}

static void many_posters_lose_and_reorder_nothing(void **state)
{
    (void)state;
    struct load l = {.items = calloc((size_t)LOAD_POSTERS * LOAD_INPUTS, sizeof(struct item))};
    struct poster posters[LOAD_POSTERS];
    assert_non_null(l.items);
    assert_int_equal(loop_new(&os_heap, &l.loop, NULL), 0);
    struct actor_opts opts = {
        .handle = check_order, .arg = &l, .loop = l.loop, .clock = &os_clock, .run_inputs_max = 7};
    actor_init(&l.actor, &opts);
    for (unsigned i = 0; i < LOAD_POSTERS; i++) {
        posters[i] = (struct poster){.load = &l, .number = i};
        assert_int_equal(thread_start(&posters[i].thread, "poster", post_all, &posters[i], NULL),
                         0);
    }
    loop_run(l.loop);
    for (unsigned i = 0; i < LOAD_POSTERS; i++) {
        thread_join(&posters[i].thread);
    }
    while (!actor_idle(&l.actor)) {
        loop_run_once(l.loop);
    }
    assert_int_equal(l.handled, LOAD_POSTERS * LOAD_INPUTS);
    assert_int_equal(l.mistakes, 0);
    actor_deinit(&l.actor);
    loop_free(l.loop);
    free(l.items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_actor_runs_in_the_posters_thread),
        cmocka_unit_test(without_permission_it_runs_on_its_loop),
        cmocka_unit_test(a_run_ends_after_its_inputs),
        cmocka_unit_test(a_run_ends_after_its_time),
        cmocka_unit_test(a_handler_may_post_to_its_own_actor),
        cmocka_unit_test(ending_a_busy_actor_is_an_error),
        cmocka_unit_test(many_posters_lose_and_reorder_nothing),
    };
    return cmocka_run_group_tests_name("os/actor", tests, NULL, NULL);
}
