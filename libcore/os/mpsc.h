/* An intrusive queue of many producers and one consumer who always takes all there is.
 *
 * It is one atomic pointer to the newest link. A push is complete with one compare-and-swap, so
 * there is no moment in which a link is in the queue but cannot be reached, and the consumer never
 * waits for a producer. (Vyukov's queue, which pops singly, has such a moment.) Taking all at once
 * makes the reuse of links harmless. Nothing is allocated. */
#ifndef OS_MPSC_H
#define OS_MPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct mpsc_link {
    struct mpsc_link *next; /* older in the queue; newer in a taken chain */
};

struct mpsc {
    _Atomic(struct mpsc_link *) newest;
};

void mpsc_init(struct mpsc *q);

/* Puts `link` in; it is the queue's until it is taken. True when the queue was empty, that is when
 * the consumer may have to be woken. Any thread; sequentially consistent. */
bool mpsc_push(struct mpsc *q, struct mpsc_link *link);

/* Takes all: the oldest link, from which `next` leads to newer ones and at last to NULL. One
 * consumer at a time. */
struct mpsc_link *mpsc_take(struct mpsc *q);

/* Any thread; sequentially consistent. */
bool mpsc_empty(struct mpsc *q);

#endif
