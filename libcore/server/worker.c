#include "server/worker.h"

#include "base/err.h"
#include "os/thread.h"

enum { WORKERS_MAX = 16 };

struct workers {
    const struct alloc *alloc;
    struct mutex mutex;
    struct cond filled;
    struct list jobs;
    bool stopping;
    unsigned count;
    struct thread threads[WORKERS_MAX];
};

static struct work *next_job(struct workers *w)
{
    mutex_lock(&w->mutex);
    while (list_empty(&w->jobs) && !w->stopping)
        cond_wait(&w->filled, &w->mutex);
    struct list *at = list_empty(&w->jobs) ? NULL : list_pop_front(&w->jobs);
    mutex_unlock(&w->mutex);
    return at == NULL ? NULL : (struct work *)(void *)((char *)at - offsetof(struct work, link));
}

static void run(void *arg)
{
    struct workers *w = arg;
    for (struct work *job = next_job(w); job != NULL; job = next_job(w))
        job->run(job);
}

int workers_start(const struct alloc *alloc, unsigned count, struct workers **out,
                  struct errmsg *em)
{
    struct workers *w = alloc_zero(alloc, sizeof *w);
    if (w == NULL) return E_NOMEM;
    w->alloc = alloc;
    mutex_init(&w->mutex);
    cond_init(&w->filled);
    list_init(&w->jobs);
    while (w->count < count && w->count < WORKERS_MAX) {
        int rc = thread_start(&w->threads[w->count], "worker", run, w, em);
        if (rc < 0) {
            workers_stop(w);
            return rc;
        }
        w->count++;
    }
    *out = w;
    return 0;
}

void workers_put(struct workers *w, struct work *job)
{
    mutex_lock(&w->mutex);
    list_push_back(&w->jobs, &job->link);
    cond_signal(&w->filled);
    mutex_unlock(&w->mutex);
}

void workers_stop(struct workers *w)
{
    if (w == NULL) return;
    mutex_lock(&w->mutex);
    w->stopping = true;
    cond_broadcast(&w->filled);
    mutex_unlock(&w->mutex);
    for (unsigned i = 0; i < w->count; i++)
        thread_join(&w->threads[i]);
    cond_deinit(&w->filled);
    mutex_deinit(&w->mutex);
    alloc_free(w->alloc, w, sizeof *w);
}
