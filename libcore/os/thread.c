/* Threads, locks and the blocking queue over pthreads. Lock calls that fail are programmers'
 * errors: asserted. */
#include "os/thread.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/err.h"
#include "os/heap.h"

enum { NS_PER_S = 1000000000 };

/* --- threads ---------------------------------------------------------------------------------- */

struct start {
    void (*run)(void *arg);
    void *arg;
    char name[THREAD_NAME_BYTES_MAX + 1];
};

static void *thread_main(void *arg)
{
    struct start s = *(struct start *)arg;
    alloc_free(&os_heap, arg, sizeof s);
    (void)pthread_setname_np(pthread_self(), s.name);
    s.run(s.arg);
    return NULL;
}

/* A new thread inherits the mask: signals go to the thread that waits for them, faults stay where
 * they happen. */
static void block_signals(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                 SIGABRT, SIGTRAP, SIGSYS, SIGPROF};
    sigset_t all;
    (void)sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        (void)sigdelset(&all, faults[i]);
    }
    int rc = pthread_sigmask(SIG_SETMASK, &all, before);
    ASSERT(rc == 0);
}

int thread_start(struct thread *t, const char *name, void (*run)(void *arg), void *arg,
                 struct errmsg *em)
{
    pthread_attr_t attr;
    sigset_t before;
    struct start *s = alloc_zero(&os_heap, sizeof *s);
    if (s == NULL) return E_NOMEM;
    s->run = run;
    s->arg = arg;
    memcpy(s->name, name, strnlen(name, THREAD_NAME_BYTES_MAX));
    int rc = pthread_attr_init(&attr);
    ASSERT(rc == 0);
    (void)pthread_attr_setstacksize(&attr, THREAD_STACK_BYTES);
    block_signals(&before);
    rc = pthread_create(&t->id, &attr, thread_main, s);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    if (rc == 0) return 0;
    alloc_free(&os_heap, s, sizeof *s);
    errmsg_set(em, "cannot start thread \"%s\": %s", name, strerror(rc));
    return rc == ENOMEM ? E_NOMEM : E_BUSY;
}

void thread_join(struct thread *t)
{
    int rc = pthread_join(t->id, NULL);
    ASSERT(rc == 0);
}

/* --- locks ------------------------------------------------------------------------------------ */

void mutex_init(struct mutex *m)
{
    int rc = pthread_mutex_init(&m->m, NULL);
    ASSERT(rc == 0);
}

void mutex_deinit(struct mutex *m)
{
    int rc = pthread_mutex_destroy(&m->m);
    ASSERT(rc == 0);
}

void mutex_lock(struct mutex *m)
{
    int rc = pthread_mutex_lock(&m->m);
    ASSERT(rc == 0);
}

void mutex_unlock(struct mutex *m)
{
    int rc = pthread_mutex_unlock(&m->m);
    ASSERT(rc == 0);
}

void cond_init(struct cond *c)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);
    ASSERT(rc == 0);
    rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    ASSERT(rc == 0);
    rc = pthread_cond_init(&c->c, &attr);
    ASSERT(rc == 0);
    (void)pthread_condattr_destroy(&attr);
}

void cond_deinit(struct cond *c)
{
    int rc = pthread_cond_destroy(&c->c);
    ASSERT(rc == 0);
}

void cond_wait(struct cond *c, struct mutex *m)
{
    int rc = pthread_cond_wait(&c->c, &m->m);
    ASSERT(rc == 0);
}

static struct timespec deadline(uint64_t timeout_ns)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    uint64_t ns = (uint64_t)ts.tv_nsec + timeout_ns % NS_PER_S;
    ts.tv_sec += (time_t)(timeout_ns / NS_PER_S + ns / NS_PER_S);
    ts.tv_nsec = (long)(ns % NS_PER_S);
    return ts;
}

bool cond_wait_for(struct cond *c, struct mutex *m, uint64_t timeout_ns)
{
    struct timespec until = deadline(timeout_ns);
    int rc = pthread_cond_timedwait(&c->c, &m->m, &until);
    ASSERT(rc == 0 || rc == ETIMEDOUT);
    return rc == 0;
}

void cond_signal(struct cond *c)
{
    int rc = pthread_cond_signal(&c->c);
    ASSERT(rc == 0);
}

void cond_broadcast(struct cond *c)
{
    int rc = pthread_cond_broadcast(&c->c);
    ASSERT(rc == 0);
}

/* --- queue ------------------------------------------------------------------------------------ */

void thread_queue_init(struct thread_queue *q)
{
    *q = (struct thread_queue){.count = 0};
    mutex_init(&q->mutex);
    cond_init(&q->filled);
    list_init(&q->items);
}

void thread_queue_deinit(struct thread_queue *q)
{
    ASSERT(list_empty(&q->items));
    cond_deinit(&q->filled);
    mutex_deinit(&q->mutex);
}

bool thread_queue_put(struct thread_queue *q, struct list *item)
{
    mutex_lock(&q->mutex);
    bool open = !q->closed;
    if (open) {
        list_push_back(&q->items, item);
        q->count++;
    }
    bool wake = open && q->asleep;
    q->asleep = q->asleep && !wake; /* one wake-up serves all puts until the consumer looks */
    mutex_unlock(&q->mutex);
    if (wake) cond_signal(&q->filled);
    return open;
}

static size_t take_locked(struct thread_queue *q, struct list *out)
{
    size_t n = q->count;
    list_splice_back(out, &q->items);
    q->count = 0;
    return n;
}

size_t thread_queue_take(struct thread_queue *q, struct list *out)
{
    mutex_lock(&q->mutex);
    while (q->count == 0 && !q->closed) {
        q->asleep = true;
        cond_wait(&q->filled, &q->mutex);
    }
    q->asleep = false;
    size_t n = take_locked(q, out);
    mutex_unlock(&q->mutex);
    return n;
}

static uint64_t mono_ns(void)
{
    struct timespec ts = deadline(0);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

size_t thread_queue_take_for(struct thread_queue *q, uint64_t timeout_ns, struct list *out,
                             bool *closed)
{
    uint64_t start = timeout_ns == 0 ? 0 : mono_ns();
    uint64_t waited = 0;
    mutex_lock(&q->mutex);
    while (q->count == 0 && !q->closed && waited < timeout_ns) {
        q->asleep = true;
        (void)cond_wait_for(&q->filled, &q->mutex, timeout_ns - waited);
        waited = mono_ns() - start;
    }
    q->asleep = false;
    size_t n = take_locked(q, out);
    *closed = q->closed;
    mutex_unlock(&q->mutex);
    return n;
}

void thread_queue_close(struct thread_queue *q)
{
    mutex_lock(&q->mutex);
    q->closed = true;
    mutex_unlock(&q->mutex);
    cond_broadcast(&q->filled);
}

size_t thread_queue_count(struct thread_queue *q)
{
    mutex_lock(&q->mutex);
    size_t n = q->count;
    mutex_unlock(&q->mutex);
    return n;
}
