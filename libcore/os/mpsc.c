/* Push by compare-and-swap; take by exchange, then turn the chain around. */
#include "os/mpsc.h"

void mpsc_init(struct mpsc *q)
{
    atomic_init(&q->newest, NULL);
}

bool mpsc_push(struct mpsc *q, struct mpsc_link *link)
{
    struct mpsc_link *older = atomic_load_explicit(&q->newest, memory_order_relaxed);
    do {
        link->next = older;
    } while (!atomic_compare_exchange_weak(&q->newest, &older, link));
    return older == NULL;
}

struct mpsc_link *mpsc_take(struct mpsc *q)
{
    struct mpsc_link *rest = atomic_exchange(&q->newest, NULL);
    struct mpsc_link *oldest = NULL;
    while (rest != NULL) {
        struct mpsc_link *older = rest->next;
        rest->next = oldest;
        oldest = rest;
        rest = older;
    }
    return oldest;
}

bool mpsc_empty(struct mpsc *q)
{
    return atomic_load(&q->newest) == NULL;
}
