/* A thread's part of the Watch service: news in, the shard's steps, timers. */
#include "base/assert.h"
#include "rpc/rpc_watch_int.h"

enum {
    STEPS_PER_TASK = 4, /* then the loop's other work has its turn */
    RETRY_MS = 10,
    NO_LEADER_CHECKS = 3 /* as upstream */
};

static struct watch_call *call_of_timer(const struct heap_item *item)
{
    return LIST_OBJECT(item, struct watch_call, timer);
}

static bool due_before(const struct heap_item *a, const struct heap_item *b)
{
    return call_of_timer(a)->due_ns < call_of_timer(b)->due_ns;
}

static uint64_t now_ns(const struct rpc_watch *rw)
{
    const struct clock *clock = rw->t->member->clock;
    return clock->mono_ns(clock->arg);
}

/* --- steps --------------------------------------------------------------------------------------- */

void rpc__watch_kick(struct rpc_watch *rw)
{
    if (rw->step_posted) return;
    rw->step_posted = true;
    loop_post(rw->t->loop, &rw->step);
}

/* The store could not be read for these: their streams end, outside of the shard. */
static void end_failing(struct rpc_watch *rw)
{
    struct list *at = NULL;
    while ((at = list_pop_front(&rw->failing)) != NULL) {
        struct watch_call *s = LIST_OBJECT(at, struct watch_call, failing);
        if (s->c->call != NULL) rpc__fail(s->c, s->fail_rc);
    }
}

static void run_steps(struct rpc_watch *rw)
{
    int rc = 1;
    rw->header = rpc__header(rw->t, 0);
    for (int i = 0; i < STEPS_PER_TASK && rc > 0; i++)
        rc = watch_shard_step(rw->shard);
    end_failing(rw);
    rpc__watch_count(rw);
    if (rc > 0) rpc__watch_kick(rw);
    if (rc < 0) loop_timer_start(rw->retry, RETRY_MS, 0);
}

static void on_step(struct task *task)
{
    struct rpc_watch *rw = LIST_OBJECT(task, struct rpc_watch, step);
    rw->step_posted = false;
    run_steps(rw);
}

static void on_retry(void *arg)
{
    rpc__watch_kick(arg);
}

/* --- numbers ------------------------------------------------------------------------------------- */

static void set_count(_Atomic uint64_t *to, uint64_t v)
{
    atomic_store_explicit(to, v, memory_order_relaxed);
}

void rpc__watch_count(struct rpc_watch *rw)
{
    set_count(&rw->counts.watchers, watch_shard_watchers(rw->shard));
    set_count(&rw->counts.behind, watch_shard_behind(rw->shard));
}

void rpc_thread_watches(const struct rpc_thread *t, struct rpc_watch_counts *sum)
{
    const struct rpc_watch *rw = t->watch;
    sum->streams += atomic_load_explicit(&rw->counts.streams, memory_order_relaxed);
    sum->watchers += atomic_load_explicit(&rw->counts.watchers, memory_order_relaxed);
    sum->behind += atomic_load_explicit(&rw->counts.behind, memory_order_relaxed);
    sum->events += atomic_load_explicit(&rw->counts.events, memory_order_relaxed);
}

/* --- news ---------------------------------------------------------------------------------------- */

void rpc__watch_feed(struct rpc_watch *rw, int64_t to, struct watch_batch *batch)
{
    struct watch_news *n = batch == NULL ? NULL : alloc_new(rw->t->alloc, sizeof *n);
    if (n != NULL) {
        n->to = to;
        n->batch = batch;
        (void)mpsc_push(&rw->news, &n->link);
    } else {
        watch_batch_unref(batch); /* history has the same */
    }
    atomic_store(&rw->published, to);
    if (!atomic_exchange(&rw->posted, true)) loop_post(rw->t->loop, &rw->arrive);
}

/* The revision is read first: all the batches up to it are then in the queue. */
static void take_news(struct rpc_watch *rw, bool drop)
{
    int64_t published = atomic_load(&rw->published);
    struct mpsc_link *at = mpsc_take(&rw->news);
    while (at != NULL) {
        struct watch_news *n = (struct watch_news *)(void *)at;
        at = at->next;
        if (drop) {
            watch_batch_unref(n->batch);
        } else {
            watch_shard_publish(rw->shard, n->to, n->batch);
        }
        alloc_free(rw->t->alloc, n, sizeof *n);
    }
    if (!drop) watch_shard_publish(rw->shard, published, NULL);
}

static void on_arrive(struct task *task)
{
    struct rpc_watch *rw = LIST_OBJECT(task, struct rpc_watch, arrive);
    atomic_store(&rw->posted, false);
    take_news(rw, false);
    if (!rw->step_posted) run_steps(rw);
}

/* --- timers -------------------------------------------------------------------------------------- */

static void arm(struct rpc_watch *rw)
{
    const struct heap_item *first = heap_first(&rw->timers);
    if (first == NULL || call_of_timer(first)->due_ns == GRPC_NEVER) {
        loop_timer_stop(rw->timer);
        return;
    }
    uint64_t now = now_ns(rw);
    uint64_t due = call_of_timer(first)->due_ns;
    loop_timer_start(rw->timer, due > now ? (due - now) / 1000000 + 1 : 1, 0);
}

void rpc__watch_arm(struct watch_call *s)
{
    struct rpc_watch *rw = s->c->t->watch;
    uint64_t progress = s->progress_count > 0 ? s->progress_due_ns : GRPC_NEVER;
    uint64_t due = progress < s->leader_due_ns ? progress : s->leader_due_ns;
    if (due == s->due_ns) return;
    s->due_ns = due;
    heap_update(&rw->timers, &s->timer);
    arm(rw);
}

/* A notice for each watcher that asked for them, got nothing since the last one, and has everything up to p. */
static void tick_progress(struct watch_call *s)
{
    struct rpc_watch *rw = s->c->t->watch;
    size_t at = 0;
    uint64_t key = 0;
    void *value = NULL;
    rw->header = rpc__header(rw->t, 0);
    while (map_u64_next(&s->ids, &at, &key, &value)) {
        struct rpc_watcher *w = value;
        if (!w->progress) continue;
        if (w->silent && watch_is_current(&w->w) && rpc__watch_room(s)) {
            (void)rpc__watch_say(
                s, &(struct watch_head){.revision = watch_shard_position(rw->shard), .id = w->id});
        }
        w->silent = true;
    }
}

/* True when the stream has ended. */
static bool tick_leader(struct watch_call *s, uint64_t now)
{
    const struct rpc_member *m = s->c->t->member;
    struct rpc_status status;
    m->status(m->arg, &status);
    s->leaderless = status.leader == 0 ? s->leaderless + 1 : 0;
    s->leader_due_ns = now + m->election_ns;
    if (s->leaderless < NO_LEADER_CHECKS) return false;
    rpc__fail(s->c, E_NO_LEADER);
    return true;
}

static void tick(struct watch_call *s, uint64_t now)
{
    if (s->c->call == NULL) { /* the client has gone; its wait is about to come home */
        s->leader_due_ns = GRPC_NEVER;
        s->progress_count = 0;
        rpc__watch_arm(s);
        return;
    }
    if (s->progress_count > 0 && s->progress_due_ns <= now) {
        tick_progress(s);
        s->progress_due_ns = now + s->progress_period_ns;
    }
    if (s->leader_due_ns <= now && tick_leader(s, now)) return;
    rpc__watch_arm(s);
}

static void on_timer(void *arg)
{
    struct rpc_watch *rw = arg;
    uint64_t now = now_ns(rw);
    for (;;) {
        struct heap_item *first = heap_first(&rw->timers);
        if (first == NULL || call_of_timer(first)->due_ns > now) break;
        tick(call_of_timer(first), now);
    }
    arm(rw);
}

/* --- life ---------------------------------------------------------------------------------------- */

static int open_all(struct rpc_watch *rw)
{
    struct rpc_thread *t = rw->t;
    struct watch_opts opts = {.mvcc = t->member->mvcc,
                              .alloc = t->alloc,
                              .sink = rpc__watch_sink(rw),
                              .seed = (uint64_t)(uintptr_t)rw ^ now_ns(rw)};
    int rc = watch_shard_new(&opts, &rw->shard);
    if (rc == 0) rc = loop_timer_open(t->loop, on_timer, rw, &rw->timer);
    if (rc == 0) rc = loop_timer_open(t->loop, on_retry, rw, &rw->retry);
    if (rc == 0 && t->member->hub != NULL) rc = rpc__hub_join(t->member->hub, rw);
    return rc;
}

int rpc__watch_init(struct rpc_thread *t)
{
    struct rpc_watch *rw = alloc_zero(t->alloc, sizeof *rw);
    if (rw == NULL) return E_NOMEM;
    rw->t = t;
    rw->arrive.run = on_arrive;
    rw->step.run = on_step;
    mpsc_init(&rw->news);
    heap_init(&rw->timers, t->alloc, due_before);
    list_init(&rw->calls);
    list_init(&rw->failing);
    t->watch = rw;
    int rc = open_all(rw);
    if (rc < 0) rpc__watch_deinit(t);
    return rc;
}

void rpc__watch_deinit(struct rpc_thread *t)
{
    struct rpc_watch *rw = t->watch;
    if (rw == NULL) return;
    ASSERT(list_empty(&rw->calls));
    if (t->member->hub != NULL) rpc__hub_leave(t->member->hub, rw);
    take_news(rw, true);
    watch_shard_free(rw->shard);
    if (rw->timer != NULL) loop_timer_close(rw->timer);
    if (rw->retry != NULL) loop_timer_close(rw->retry);
    heap_deinit(&rw->timers);
    alloc_free(t->alloc, rw->parts, rw->part_cap * sizeof *rw->parts);
    alloc_free(t->alloc, rw, sizeof *rw);
    t->watch = NULL;
}

/* Clients are told to go on elsewhere, as they would be when the connection closes. */
void rpc__watch_drain(struct rpc_thread *t)
{
    struct list *at = NULL;
    struct list *spare = NULL;
    LIST_EACH_SAFE(&t->watch->calls, at, spare)
    {
        struct watch_call *s = LIST_OBJECT(at, struct watch_call, link);
        if (s->c->call != NULL) rpc__fail(s->c, E_STOPPED);
    }
}
