/* Actors instead of threads: a queue and a flag.
 *
 * Who has input puts it in. If the actor is idle, the poster runs it at once when it may; else a
 * continuation is posted to the actor's loop. If the actor is not idle, the poster leaves, and who
 * runs it takes the input along. So an actor's handler never runs twice at a time, never waits for
 * a lock, and usually runs in the thread that has the input in its cache.
 *
 * A run ends after a number of inputs or a span of time, and then posts its continuation, so that
 * one busy actor does not starve a loop. Before it leaves the actor idle it clears the flag and
 * looks at the queue once more: an input whose poster saw the flag still set, just before it was
 * cleared, is found by that look.
 *
 * The protocol is a machine of single atomic steps in actor_core.h; the test that walks through
 * every interleaving of several posters calls the very same step function as the server. */
#ifndef OS_ACTOR_H
#define OS_ACTOR_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "env/clock.h"
#include "os/loop.h"

/* Part of the caller's own message. */
struct actor_input {
    struct mpsc_link link; /* first; the queue's */
};

struct actor_opts {
    /* Handles one input, never two at a time for one actor; the input is the handler's again.
     * Called by whichever thread runs the actor; must not block. */
    void (*handle)(void *arg, struct actor_input *input);
    /* Called at the end of each run in which something was handled, still within the run: the place
     * to hand over outputs gathered over a batch. May be NULL. */
    void (*flush)(void *arg);
    void *arg;
    struct loop *loop;         /* where continuations run; outlives the actor */
    const struct clock *clock; /* for the end of a run */
    uint32_t run_inputs_max;   /* 0: ACTOR_RUN_INPUTS_MAX */
    uint64_t run_ns_max;       /* 0: ACTOR_RUN_NS_MAX */
};

enum { ACTOR_RUN_INPUTS_MAX = 256, ACTOR_RUN_NS_MAX = 200 * 1000 };

struct actor {
    struct mpsc queue;
    atomic_bool busy;        /* someone runs it, or its continuation is posted */
    struct mpsc_link *batch; /* taken from the queue, not yet handled; of whoever set `busy` */
    struct task continuation;
    struct actor_opts opts;
};

/* Prepares an idle actor in the caller's storage; it must not move from then on. Borrows what
 * `opts` points to. */
void actor_init(struct actor *a, const struct actor_opts *opts);

/* Asserts that the actor is idle and its queue empty. The owner must know that no thread is or will
 * be in actor_post(): a poster that has just made the actor idle still looks at its queue. */
void actor_deinit(struct actor *a);

/* Puts `input` in; never fails. With `may_run`, an idle actor runs now, in this thread, before this
 * returns; so the caller must hold nothing that the handler may want. Borrows `input` until it is
 * handled. Any thread. */
void actor_post(struct actor *a, struct actor_input *input, bool may_run);

/* Whether nothing runs or waits at this moment. Any thread; for drains and metrics. */
bool actor_idle(struct actor *a);

#endif
