/* libuv's loop with one async handle as the door for other threads.
 *
 * Tasks posted while others run wait for the next round, so sockets and timers get their turn. Who
 * pushes onto an empty queue rings; later pushers know that a ring is on its way. */
#include "os/loop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "base/assert.h"
#include "base/err.h"
#include "base/list.h"

struct loop {
    const struct alloc *alloc;
    uv_loop_t uv;
    uv_async_t door;
    struct mpsc tasks;
    atomic_bool stop;
    _Atomic pthread_t runner; /* valid while `running` */
    atomic_bool running;
    size_t open_count; /* watches and timers whose memory is not yet freed */
};

struct loop_watch {
    struct loop *loop;
    uv_poll_t poll;
    loop_watch_fn fn;
    void *arg;
    unsigned events;
};

struct loop_timer {
    struct loop *loop;
    uv_timer_t timer;
    loop_timer_fn fn;
    void *arg;
};

static int from_uv(int uv_rc)
{
    return uv_rc >= 0 ? 0 : err_from_errno(-uv_rc);
}

/* --- life ------------------------------------------------------------------------------------- */

static void run_tasks(struct loop *l)
{
    struct mpsc_link *link = mpsc_take(&l->tasks);
    while (link != NULL) {
        struct mpsc_link *next = link->next; /* the task is free once it is called */
        struct task *t = LIST_OBJECT(link, struct task, link);
        t->run(t);
        link = next;
    }
}

static void on_door(uv_async_t *door)
{
    struct loop *l = door->data;
    run_tasks(l);
    if (atomic_load(&l->stop)) uv_stop(&l->uv);
}

int loop_new(const struct alloc *alloc, struct loop **out, struct errmsg *em)
{
    struct loop *l = alloc_zero(alloc, sizeof *l);
    if (l == NULL) return E_NOMEM;
    l->alloc = alloc;
    mpsc_init(&l->tasks);
    int uv_rc = uv_loop_init(&l->uv);
    if (uv_rc == 0) {
        uv_rc = uv_async_init(&l->uv, &l->door, on_door);
        if (uv_rc < 0) (void)uv_loop_close(&l->uv);
    }
    if (uv_rc < 0) {
        errmsg_set(em, "cannot make an event loop: %s", uv_strerror(uv_rc));
        alloc_free(alloc, l, sizeof *l);
        return from_uv(uv_rc);
    }
    l->door.data = l;
    *out = l;
    return 0;
}

void loop_free(struct loop *l)
{
    if (l == NULL) return;
    uv_close((uv_handle_t *)&l->door, NULL);
    (void)uv_run(&l->uv, UV_RUN_DEFAULT); /* lets what was closed call back */
    ASSERT(l->open_count == 0);
    int uv_rc = uv_loop_close(&l->uv);
    ASSERT(uv_rc == 0);
    alloc_free(l->alloc, l, sizeof *l);
}

static void run(struct loop *l, uv_run_mode mode)
{
    atomic_store(&l->runner, pthread_self());
    atomic_store(&l->running, true);
    (void)uv_run(&l->uv, mode);
    atomic_store(&l->running, false);
}

void loop_run(struct loop *l)
{
    run(l, UV_RUN_DEFAULT);
    atomic_store(&l->stop, false);
}

void loop_run_once(struct loop *l)
{
    run(l, UV_RUN_NOWAIT);
}

void loop_stop(struct loop *l)
{
    atomic_store(&l->stop, true);
    (void)uv_async_send(&l->door);
}

uint64_t loop_now_ns(const struct loop *l)
{
    return uv_now(&l->uv) * 1000000;
}

bool loop_is_current(const struct loop *l)
{
    return atomic_load(&l->running) && pthread_equal(atomic_load(&l->runner), pthread_self()) != 0;
}

void loop_post(struct loop *l, struct task *t)
{
    if (mpsc_push(&l->tasks, &t->link)) (void)uv_async_send(&l->door);
}

/* --- sockets ---------------------------------------------------------------------------------- */

static void on_poll(uv_poll_t *poll, int status, int uv_events)
{
    struct loop_watch *w = poll->data;
    unsigned events = 0;
    if (status < 0) {
        events = w->events; /* the caller's next read or write meets the error */
        w->events = 0;      /* libuv has stopped the handle */
    } else {
        if ((uv_events & UV_READABLE) != 0) events |= LOOP_READABLE;
        if ((uv_events & UV_WRITABLE) != 0) events |= LOOP_WRITABLE;
        if ((uv_events & UV_DISCONNECT) != 0) events |= LOOP_HANGUP;
    }
    if (events != 0) w->fn(w->arg, events);
}

int loop_watch_open(struct loop *l, int fd, loop_watch_fn fn, void *arg, struct loop_watch **out)
{
    struct loop_watch *w = alloc_zero(l->alloc, sizeof *w);
    if (w == NULL) return E_NOMEM;
    *w = (struct loop_watch){.loop = l, .fn = fn, .arg = arg};
    int uv_rc = uv_poll_init(&l->uv, &w->poll, fd);
    if (uv_rc < 0) {
        alloc_free(l->alloc, w, sizeof *w);
        return from_uv(uv_rc);
    }
    w->poll.data = w;
    l->open_count++;
    *out = w;
    return 0;
}

void loop_watch_set(struct loop_watch *w, unsigned events)
{
    if (events == w->events) return;
    w->events = events;
    int uv_events = 0;
    if ((events & LOOP_READABLE) != 0) uv_events |= UV_READABLE;
    if ((events & LOOP_WRITABLE) != 0) uv_events |= UV_WRITABLE;
    if ((events & LOOP_HANGUP) != 0) uv_events |= UV_DISCONNECT;
    int uv_rc = uv_events == 0 ? uv_poll_stop(&w->poll)
                               : uv_poll_start(&w->poll, uv_events, on_poll);
    ASSERT(uv_rc == 0);
}

static void on_watch_closed(uv_handle_t *handle)
{
    struct loop_watch *w = handle->data;
    w->loop->open_count--;
    alloc_free(w->loop->alloc, w, sizeof *w);
}

void loop_watch_close(struct loop_watch *w)
{
    if (w == NULL) return;
    uv_close((uv_handle_t *)&w->poll, on_watch_closed);
}

/* --- timers ----------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    struct loop_timer *t = timer->data;
    t->fn(t->arg);
}

int loop_timer_open(struct loop *l, loop_timer_fn fn, void *arg, struct loop_timer **out)
{
    struct loop_timer *t = alloc_zero(l->alloc, sizeof *t);
    if (t == NULL) return E_NOMEM;
    *t = (struct loop_timer){.loop = l, .fn = fn, .arg = arg};
    int uv_rc = uv_timer_init(&l->uv, &t->timer);
    ASSERT(uv_rc == 0);
    t->timer.data = t;
    l->open_count++;
    *out = t;
    return 0;
}

void loop_timer_start(struct loop_timer *t, uint64_t delay_ms, uint64_t repeat_ms)
{
    int uv_rc = uv_timer_start(&t->timer, on_timer, delay_ms, repeat_ms);
    ASSERT(uv_rc == 0);
}

void loop_timer_stop(struct loop_timer *t)
{
    (void)uv_timer_stop(&t->timer);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct loop_timer *t = handle->data;
    t->loop->open_count--;
    alloc_free(t->loop->alloc, t, sizeof *t);
}

void loop_timer_close(struct loop_timer *t)
{
    if (t == NULL) return;
    uv_close((uv_handle_t *)&t->timer, on_timer_closed);
}
