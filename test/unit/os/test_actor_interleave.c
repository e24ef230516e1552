/* Every interleaving of several posters and the loop that runs continuations.
 *
 * The world (actor, inputs, walks) is one block of memory whose pointers stay inside it, so a state
 * is saved and restored by copying, and two states are the same when their bytes are. From the
 * start, every walk that can step is stepped with the server's own actor_step(), depth first, each
 * state once: so all orders are covered, not a sample. After each step the invariants are checked;
 * where nothing can step any more, that nothing was lost.
 *
 * Planted bugs (no second look; a claim in two steps) must be caught by the same exploration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "os/loop.h"

static void world_loop_post(struct loop *l, struct task *t);
#define loop_post world_loop_post
#include "os/actor_core.h"
#undef loop_post

enum {
    POSTERS_MAX = 3,
    INPUTS_MAX = 3,
    WALKS = POSTERS_MAX + 1,
    LOOP_WALK = POSTERS_MAX,
    DEPTH_MAX = 256
};

enum bug { BUG_NONE, BUG_NO_SECOND_LOOK, BUG_CLAIM_IN_TWO_STEPS };

struct scenario {
    unsigned posters;
    unsigned inputs;  /* of each poster */
    unsigned may_run; /* a bit per poster */
    uint32_t run_inputs_max;
    enum bug bug;
};

struct message {
    struct actor_input input;
    unsigned poster;
    unsigned number;
};

struct world {
    struct actor actor;
    struct message messages[POSTERS_MAX][INPUTS_MAX];
    struct actor_walk walks[WALKS];
    unsigned next_input[POSTERS_MAX];   /* that the poster will post */
    unsigned next_handled[POSTERS_MAX]; /* that must come next of this poster */
    unsigned continuations;             /* posted to the loop, not yet running */
    bool unflushed;
    bool saw_idle[WALKS]; /* BUG_CLAIM_IN_TWO_STEPS */
    bool read_flag[WALKS];
    const char *breach; /* NULL while all is well */
};

static struct world world; /* in place, because of its pointers */

/* --- what the actor calls --------------------------------------------------------------------- */

static void world_loop_post(struct loop *l, struct task *t)
{
    (void)l;
    if (t != &world.actor.continuation) world.breach = "a foreign task was posted";
    world.continuations++;
}

static void handle(void *arg, struct actor_input *input)
{
    struct world *w = arg;
    struct message *m = LIST_OBJECT(input, struct message, input);
    if (m->number != w->next_handled[m->poster])
        w->breach = "an input was handled twice or out of order";
    w->next_handled[m->poster] = m->number + 1;
    w->unflushed = true;
    input->link.next = NULL; /* equal states get equal bytes */
}

static void flush(void *arg)
{
    struct world *w = arg;
    if (!w->unflushed) w->breach = "a flush with nothing to flush";
    w->unflushed = false;
}

static uint64_t no_time(void *arg)
{
    (void)arg;
    return 0;
}

static const struct clock stopped = {.mono_ns = no_time};

/* --- stepping --------------------------------------------------------------------------------- */

static void world_init(const struct scenario *s)
{
    memset(&world, 0, sizeof world);
    struct actor_opts opts = {.handle = handle,
                              .flush = flush,
                              .arg = &world,
                              .clock = &stopped,
                              .run_inputs_max = s->run_inputs_max,
                              .run_ns_max = 1};
    mpsc_init(&world.actor.queue);
    world.actor.opts = opts;
    for (unsigned p = 0; p < POSTERS_MAX; p++) {
        for (unsigned i = 0; i < INPUTS_MAX; i++) {
            world.messages[p][i].poster = p;
            world.messages[p][i].number = i;
        }
    }
    for (unsigned i = 0; i < WALKS; i++) {
        world.walks[i].step = ACTOR_DONE;
    }
}

/* Gives walk `i` something to do when it has nothing; false when there is nothing for it. */
static bool walk_ready(const struct scenario *s, unsigned i)
{
    struct actor_walk *w = &world.walks[i];
    if (w->step != ACTOR_DONE) return true;
    if (i == LOOP_WALK) {
        if (world.continuations == 0) return false;
        world.continuations--;
        *w = actor_walk_continue();
        return true;
    }
    if (i >= s->posters || world.next_input[i] == s->inputs) return false;
    *w = actor_walk_post(&world.messages[i][world.next_input[i]++].input,
                         (s->may_run >> i & 1) != 0);
    return true;
}

/* A claim that reads the flag in one step and sets it in the next. */
static void claim_in_two_steps(unsigned i)
{
    struct actor_walk *w = &world.walks[i];
    if (!world.read_flag[i]) {
        world.read_flag[i] = true;
        world.saw_idle[i] = !atomic_load(&world.actor.busy);
        return;
    }
    world.read_flag[i] = false;
    if (world.saw_idle[i]) atomic_store(&world.actor.busy, true);
    w->step = !world.saw_idle[i] ? ACTOR_DONE : w->may_run ? ACTOR_TAKE : ACTOR_SCHEDULE;
}

static void step(const struct scenario *s, unsigned i)
{
    struct actor_walk *w = &world.walks[i];
    if (s->bug == BUG_NO_SECOND_LOOK && w->step == ACTOR_LOOK) {
        w->step = ACTOR_DONE;
    } else if (s->bug == BUG_CLAIM_IN_TWO_STEPS && w->step == ACTOR_CLAIM) {
        claim_in_two_steps(i);
    } else {
        actor_step(&world.actor, w);
    }
    if (w->step == ACTOR_DONE) *w = (struct actor_walk){.step = ACTOR_DONE};
}

static bool owns(enum actor_step step)
{
    return step == ACTOR_TAKE || step == ACTOR_HANDLE || step == ACTOR_RELEASE ||
           step == ACTOR_SCHEDULE;
}

static void check_invariants(void)
{
    unsigned owners = world.continuations;
    for (unsigned i = 0; i < WALKS; i++) {
        owners += owns(world.walks[i].step);
    }
    if (owners > 1) world.breach = "two runs at a time";
    if (atomic_load(&world.actor.busy) != (owners == 1) && world.breach == NULL) {
        world.breach = "the flag does not tell whether someone runs";
    }
    if (owners == 0 && world.unflushed) world.breach = "idle with something not flushed";
}

static void check_end(const struct scenario *s)
{
    if (!mpsc_empty(&world.actor.queue) || world.actor.batch != NULL)
        world.breach = "an input was left";
    if (atomic_load(&world.actor.busy)) world.breach = "the flag stayed set";
    for (unsigned p = 0; p < s->posters; p++) {
        if (world.next_handled[p] != s->inputs) world.breach = "an input was lost";
    }
}

/* --- exploring -------------------------------------------------------------------------------- */

struct seen {
    uint64_t *hashes; /* pairs; (0, 0) is free */
    size_t slots;
    size_t count;
};

/* True when the state is new. Two 64-bit hashes stand for its bytes. */
static bool seen_add(struct seen *s, const struct world *w)
{
    struct bytes all = bytes_of(w, sizeof *w);
    uint64_t a = map_hash_bytes(1, all) | 1;
    uint64_t b = map_hash_bytes(2, all);
    size_t at = (size_t)(a >> 8) & (s->slots - 1);
    while (s->hashes[2 * at] != 0) {
        if (s->hashes[2 * at] == a && s->hashes[2 * at + 1] == b) return false;
        at = (at + 1) & (s->slots - 1);
    }
    s->hashes[2 * at] = a;
    s->hashes[2 * at + 1] = b;
    s->count++;
    if (s->count > s->slots / 4 * 3) fail_msg("more states than the table holds");
    return true;
}

struct frame {
    struct world state;
    unsigned next_walk; /* to try from here */
    bool moved;         /* some walk could step */
};

/* Explores all; NULL, or the first breach found. `*states` says how many there were. */
static const char *explore(const struct scenario *s, size_t *states)
{
    struct seen seen = {.slots = (size_t)1 << 22};
    seen.hashes = calloc(seen.slots, 2 * sizeof *seen.hashes);
    struct frame *stack = calloc(DEPTH_MAX, sizeof *stack);
    assert_non_null(seen.hashes);
    assert_non_null(stack);
    const char *breach = NULL;
    unsigned depth = 1;
    world_init(s);
    stack[0].state = world;
    while (depth > 0 && breach == NULL) {
        struct frame *f = &stack[depth - 1];
        if (f->next_walk == WALKS) {
            memcpy(&world, &f->state, sizeof world);
            if (!f->moved) check_end(s);
            breach = world.breach;
            depth--;
            continue;
        }
        memcpy(&world, &f->state, sizeof world);
        unsigned i = f->next_walk++;
        if (!walk_ready(s, i)) continue;
        f->moved = true;
        step(s, i);
        check_invariants();
        breach = world.breach;
        if (breach == NULL && seen_add(&seen, &world)) {
            assert_true(depth < DEPTH_MAX);
            memcpy(&stack[depth].state, &world, sizeof world);
            stack[depth].next_walk = 0;
            stack[depth++].moved = false;
        }
    }
    *states = seen.count;
    free(seen.hashes);
    free(stack);
    return breach;
}

static void expect_sound(const struct scenario *s)
{
    size_t states = 0;
    const char *breach = explore(s, &states);
    print_message("%u posters x %u inputs, limit %u: %zu states\n", s->posters, s->inputs,
                  s->run_inputs_max, states);
    if (breach != NULL) fail_msg("expected no breach, seen: %s", breach);
    assert_true(states > 50);
}

static void expect_breach(const struct scenario *s, const char *expected)
{
    size_t states = 0;
    const char *breach = explore(s, &states);
    if (breach == NULL) fail_msg("the planted bug was not caught in %zu states", states);
    assert_string_equal(breach, expected);
}

/* --- cases ------------------------------------------------------------------------------------ */

static void two_posters_who_may_run(void **state)
{
    (void)state;
    expect_sound(
        &(struct scenario){.posters = 2, .inputs = 2, .may_run = 3, .run_inputs_max = 100});
    expect_sound(
        &(struct scenario){.posters = 2, .inputs = 3, .may_run = 3, .run_inputs_max = 100});
}

static void two_posters_who_may_not_run(void **state)
{
    (void)state;
    expect_sound(
        &(struct scenario){.posters = 2, .inputs = 3, .may_run = 0, .run_inputs_max = 100});
}

static void three_posters(void **state)
{
    (void)state;
    expect_sound(
        &(struct scenario){.posters = 3, .inputs = 2, .may_run = 7, .run_inputs_max = 100});
    expect_sound(
        &(struct scenario){.posters = 3, .inputs = 2, .may_run = 3, .run_inputs_max = 100});
}

static void runs_that_end_early_and_continue(void **state)
{
    (void)state;
    expect_sound(&(struct scenario){.posters = 2, .inputs = 3, .may_run = 3, .run_inputs_max = 1});
    expect_sound(&(struct scenario){.posters = 3, .inputs = 2, .may_run = 5, .run_inputs_max = 1});
    expect_sound(&(struct scenario){.posters = 3, .inputs = 2, .may_run = 7, .run_inputs_max = 2});
}

static void a_missing_second_look_is_caught(void **state)
{
    (void)state;
    expect_breach(&(struct scenario){.posters = 2,
                                     .inputs = 1,
                                     .may_run = 3,
                                     .run_inputs_max = 100,
                                     .bug = BUG_NO_SECOND_LOOK},
                  "an input was lost");
}

static void a_claim_in_two_steps_is_caught(void **state)
{
    (void)state;
    expect_breach(&(struct scenario){.posters = 2,
                                     .inputs = 1,
                                     .may_run = 3,
                                     .run_inputs_max = 100,
                                     .bug = BUG_CLAIM_IN_TWO_STEPS},
                  "two runs at a time");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_posters_who_may_run),
        cmocka_unit_test(two_posters_who_may_not_run),
        cmocka_unit_test(three_posters),
        cmocka_unit_test(runs_that_end_early_and_continue),
        cmocka_unit_test(a_missing_second_look_is_caught),
        cmocka_unit_test(a_claim_in_two_steps_is_caught),
    };
    return cmocka_run_group_tests_name("os/actor_interleave", tests, NULL, NULL);
}
