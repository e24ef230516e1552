/* The protocol of an actor, one atomic step at a time.
 *
 * A walk is what one thread does for one reason: it posts an input, or it carries on as the
 * continuation. Each call of actor_step() does at most one access to memory that other walks share
 * and moves the walk to its next step, so an interleaving of walks is a sequence of calls. All
 * accesses are sequentially consistent: the release of the flag must be seen before the second
 * look, and the push before the claim, by all alike.
 *
 *   post:   PUSH -> CLAIM            DONE when it was busy: the runner takes the input along;
 *                                    else owner: TAKE, or SCHEDULE when it may not run
 *   owner:  TAKE -> HANDLE ...       HANDLE again while inputs are left, then TAKE;
 *                                    at a limit SCHEDULE -> DONE
 *           TAKE (empty) -> RELEASE -> LOOK
 *                                    DONE when the queue is empty, else RECLAIM
 *           RECLAIM                  DONE when someone was faster, else TAKE */
#ifndef OS_ACTOR_CORE_H
#define OS_ACTOR_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/list.h"
#include "os/actor.h"

enum actor_step {
    ACTOR_PUSH,     /* put the input in the queue */
    ACTOR_CLAIM,    /* set the flag; go on as the owner if it was clear */
    ACTOR_TAKE,     /* take all that is queued */
    ACTOR_HANDLE,   /* handle one of the taken inputs */
    ACTOR_RELEASE,  /* clear the flag */
    ACTOR_LOOK,     /* look at the queue once more */
    ACTOR_RECLAIM,  /* set the flag again; someone else may have been faster */
    ACTOR_SCHEDULE, /* stay the owner, but let the loop carry on */
    ACTOR_DONE
};

struct actor_walk {
    enum actor_step step;
    bool may_run;
    struct actor_input *input; /* ACTOR_PUSH */
    uint32_t handled;          /* inputs in this run */
    bool unflushed;            /* some of them since the last flush */
    uint64_t started_ns;
};

static inline struct actor_walk actor_walk_post(struct actor_input *input, bool may_run)
{
    return (struct actor_walk){.step = ACTOR_PUSH, .may_run = may_run, .input = input};
}

static inline struct actor_walk actor_walk_continue(void)
{
    return (struct actor_walk){.step = ACTOR_TAKE, .may_run = true};
}

static inline uint64_t actor_now_ns(const struct actor *a)
{
    return a->opts.clock->mono_ns(a->opts.clock->arg);
}

static inline void actor_flush(struct actor *a, struct actor_walk *w)
{
    if (w->unflushed && a->opts.flush != NULL) a->opts.flush(a->opts.arg);
    w->unflushed = false;
}

/* The owner takes the queue, unless a run before it left inputs of its batch. */
static inline enum actor_step actor_take(struct actor *a, struct actor_walk *w)
{
    if (w->handled == 0) w->started_ns = actor_now_ns(a);
    if (a->batch == NULL) a->batch = mpsc_take(&a->queue);
    if (a->batch != NULL) return ACTOR_HANDLE;
    actor_flush(a, w);
    return ACTOR_RELEASE;
}

static inline enum actor_step actor_handle(struct actor *a, struct actor_walk *w)
{
    struct mpsc_link *link = a->batch;
    ASSERT(link != NULL);
    a->batch = link->next; /* the input may be gone once it is handled */
    w->handled++;
    w->unflushed = true;
    a->opts.handle(a->opts.arg, LIST_OBJECT(link, struct actor_input, link));
    bool enough = w->handled >= a->opts.run_inputs_max ||
                  actor_now_ns(a) - w->started_ns >= a->opts.run_ns_max;
    if (!enough) return a->batch != NULL ? ACTOR_HANDLE : ACTOR_TAKE;
    actor_flush(a, w);
    return ACTOR_SCHEDULE;
}

static inline void actor_step(struct actor *a, struct actor_walk *w)
{
    switch (w->step) {
    case ACTOR_PUSH:
        (void)mpsc_push(&a->queue, &w->input->link);
        w->step = ACTOR_CLAIM;
        break;
    case ACTOR_CLAIM:
        if (atomic_exchange(&a->busy, true)) {
            w->step = ACTOR_DONE;
        } else {
            w->step = w->may_run ? ACTOR_TAKE : ACTOR_SCHEDULE;
        }
        break;
    case ACTOR_TAKE: w->step = actor_take(a, w); break;
    case ACTOR_HANDLE: w->step = actor_handle(a, w); break;
    case ACTOR_RELEASE:
        atomic_store(&a->busy, false);
        w->step = ACTOR_LOOK;
        break;
    case ACTOR_LOOK: w->step = mpsc_empty(&a->queue) ? ACTOR_DONE : ACTOR_RECLAIM; break;
    case ACTOR_RECLAIM: w->step = atomic_exchange(&a->busy, true) ? ACTOR_DONE : ACTOR_TAKE; break;
    case ACTOR_SCHEDULE:
        w->step = ACTOR_DONE;
        loop_post(a->opts.loop, &a->continuation);
        break;
    case ACTOR_DONE: break;
    }
}

#endif
