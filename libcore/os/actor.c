/* Actors of the programs: walks that are stepped to their end at once. */
#include "os/actor.h"

#include "base/list.h"
#include "os/actor_core.h"

static void walk_to_end(struct actor *a, struct actor_walk w)
{
    while (w.step != ACTOR_DONE) {
        actor_step(a, &w);
    }
}

static void carry_on(struct task *t)
{
    walk_to_end(LIST_OBJECT(t, struct actor, continuation), actor_walk_continue());
}

void actor_init(struct actor *a, const struct actor_opts *opts)
{
    ASSERT(opts->handle != NULL);
    ASSERT(opts->loop != NULL);
    ASSERT(opts->clock != NULL);
    *a = (struct actor){.continuation.run = carry_on, .opts = *opts};
    mpsc_init(&a->queue);
    atomic_init(&a->busy, false);
    if (opts->run_inputs_max == 0) a->opts.run_inputs_max = ACTOR_RUN_INPUTS_MAX;
    if (opts->run_ns_max == 0) a->opts.run_ns_max = ACTOR_RUN_NS_MAX;
}

void actor_deinit(struct actor *a)
{
    ASSERT(!atomic_load(&a->busy));
    ASSERT(mpsc_empty(&a->queue));
    ASSERT(a->batch == NULL);
}

void actor_post(struct actor *a, struct actor_input *input, bool may_run)
{
    walk_to_end(a, actor_walk_post(input, may_run));
}

/* Order matters: whoever takes the last input has set the flag before. */
bool actor_idle(struct actor *a)
{
    return mpsc_empty(&a->queue) && !atomic_load(&a->busy);
}
