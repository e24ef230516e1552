/* A few threads for what may take long: hashes, lists of what a compaction deletes. */
#ifndef SERVER_WORKER_H
#define SERVER_WORKER_H

#include "base/alloc.h"
#include "base/errmsg.h"
#include "base/list.h"

struct workers;

/* A job; the caller's, borrowed until `run` is called. `run` may free it. */
struct work {
    struct list link;
    void (*run)(struct work *w);
};

/* Starts `count` threads; workers_stop() ends them. Errors: E_NOMEM, E_BUSY. */
int workers_start(const struct alloc *alloc, unsigned count, struct workers **out,
                  struct errmsg *em);

/* Queues a job; jobs start in order. Any thread. */
void workers_put(struct workers *w, struct work *job);

/* Finishes all queued jobs, then ends the threads. NULL is allowed. */
void workers_stop(struct workers *w);

#endif
