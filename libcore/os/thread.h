/* Named threads, and a queue between them that blocks.
 *
 * The wal and backend threads sleep in thread_queue_take(), which hands over all that was put in
 * since: so one sync or one commit serves everyone who waited for it. */
#ifndef OS_THREAD_H
#define OS_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errmsg.h"
#include "base/list.h"

/* --- threads ---------------------------------------------------------------------------------- */

struct thread {
    pthread_t id;
};

enum { THREAD_NAME_BYTES_MAX = 15, THREAD_STACK_BYTES = 512 * 1024 };

/* Starts `run(arg)` under `name` (cut at THREAD_NAME_BYTES_MAX), with every signal blocked but
 * those of faults. thread_join() must follow. Errors: E_BUSY, E_NOMEM. */
int thread_start(struct thread *t, const char *name, void (*run)(void *arg), void *arg,
                 struct errmsg *em);
void thread_join(struct thread *t);

/* --- locks (they abort on misuse instead of returning errors) --------------------------------- */

struct mutex {
    pthread_mutex_t m;
};

struct cond {
    pthread_cond_t c; /* on CLOCK_MONOTONIC */
};

void mutex_init(struct mutex *m);
void mutex_deinit(struct mutex *m);
void mutex_lock(struct mutex *m);
void mutex_unlock(struct mutex *m);

void cond_init(struct cond *c);
void cond_deinit(struct cond *c);
void cond_wait(struct cond *c, struct mutex *m);
/* False when `timeout_ns` went by. Wake-ups may be spurious. */
bool cond_wait_for(struct cond *c, struct mutex *m, uint64_t timeout_ns);
void cond_signal(struct cond *c);
void cond_broadcast(struct cond *c);

/* --- queue ------------------------------------------------------------------------------------ */

struct thread_queue {
    struct mutex mutex;
    struct cond filled;
    struct list items;
    size_t count;
    bool asleep; /* the consumer waits, so a put must signal */
    bool closed;
};

void thread_queue_init(struct thread_queue *q);
void thread_queue_deinit(struct thread_queue *q); /* must be empty */

/* Puts `item` last; the queue borrows it until it is taken. Any thread. False (and nothing done)
 * when closed. */
bool thread_queue_put(struct thread_queue *q, struct list *item);

/* Waits until there is something or the queue is closed, then moves everything, in order, to the
 * end of `out`. Returns how many; 0 only when closed and empty. One consumer. */
size_t thread_queue_take(struct thread_queue *q, struct list *out);

/* The same, waiting `timeout_ns` at most; 0 then too (*closed tells which). 0 does not wait. */
size_t thread_queue_take_for(struct thread_queue *q, uint64_t timeout_ns, struct list *out,
                             bool *closed);

/* Lets no more in; the consumer still takes what is there. Any thread. */
void thread_queue_close(struct thread_queue *q);

/* How many wait now; for metrics. Any thread. */
size_t thread_queue_count(struct thread_queue *q);

#endif
