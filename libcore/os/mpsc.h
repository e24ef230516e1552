/* An intrusive queue with many producers and one consumer (Vyukov): a push is one exchange and one store, wait-free;
 * nothing is allocated.
 *
 * A push that was overtaken between its two steps hides the links behind it for that moment: a pop then says
 * MPSC_BUSY, and the consumer comes again, because that producer will signal after its push. */
#ifndef OS_MPSC_H
#define OS_MPSC_H

#include <stdatomic.h>
#include <stdbool.h>

struct mpsc_link {
    _Atomic(struct mpsc_link *) next;
};

struct mpsc {
    _Atomic(struct mpsc_link *) newest; /* producers exchange it */
    struct mpsc_link *oldest;           /* the consumer's */
    struct mpsc_link stub;
};

enum mpsc_pop { MPSC_EMPTY, MPSC_GOT, MPSC_BUSY };

void mpsc_init(struct mpsc *q);

/* Any thread. `link` is the queue's until it is popped. */
void mpsc_push(struct mpsc *q, struct mpsc_link *link);

/* One consumer at a time. */
enum mpsc_pop mpsc_pop(struct mpsc *q, struct mpsc_link **out);

/* False while anything was pushed and not yet popped. One consumer at a time. */
bool mpsc_empty(struct mpsc *q);

#endif
