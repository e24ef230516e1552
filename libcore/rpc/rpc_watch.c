/* Watch: one stream, many watchers (server-behaviour.md 5).
 *
 * Requests are answered at once, in the handler; events come from the thread's shard. The answer to a create is queued before
 * the shard can give that watcher anything, so it always comes first. */
#include "base/assert.h"
#include "rpc/rpc_watch_int.h"

enum { INVALID_ID = -1 };

#define PROGRESS_PERIOD_DEFAULT_NS (600 * UINT64_C(1000000000))
#define PROGRESS_PERIOD_MIN_NS     (100 * UINT64_C(1000000))

/* --- a stream ------------------------------------------------------------------------------------ */

/* The period, drawn once for a stream: up to a tenth longer, so that streams do not tick together. */
static uint64_t draw_period(const struct rpc_call *c, uint64_t now)
{
    uint64_t period = (uint64_t)c->t->member->watch_progress_ns;
    if (period == 0) period = PROGRESS_PERIOD_DEFAULT_NS;
    if (period < PROGRESS_PERIOD_MIN_NS) period = PROGRESS_PERIOD_MIN_NS;
    return period + map_hash_u64(now, (uint64_t)(uintptr_t)c) % (period / 10);
}

static struct watch_call *stream_new(struct rpc_call *c)
{
    struct rpc_watch *rw = c->t->watch;
    const struct clock *clock = c->t->member->clock;
    uint64_t now = clock->mono_ns(clock->arg);
    struct watch_call *s = grpc_pool_get(c->t->pool, sizeof *s);
    if (s == NULL) return NULL;
    *s = (struct watch_call){.c = c, .due_ns = GRPC_NEVER, .leader_due_ns = GRPC_NEVER};
    if (heap_push(&rw->timers, &s->timer) < 0) {
        grpc_pool_put(c->t->pool, s, sizeof *s);
        return NULL;
    }
    watch_stream_open(&s->stream, rw->shard);
    map_u64_init(&s->ids, c->t->alloc, now);
    list_init(&s->failing);
    list_init(&s->rests);
    list_push_back(&rw->calls, &s->link);
    s->progress_period_ns = draw_period(c, now);
    s->progress_due_ns = now + s->progress_period_ns;
    if (c->wants_leader && c->t->member->election_ns > 0)
        s->leader_due_ns = now + c->t->member->election_ns;
    c->state = s;
    atomic_fetch_add_explicit(&rw->counts.streams, 1, memory_order_relaxed);
    rpc__watch_arm(s);
    return s;
}

static void watcher_free(struct watch_call *s, struct rpc_watcher *w)
{
    if (w->progress) s->progress_count--;
    watch_remove(&w->w);
    alloc_free(s->c->t->alloc, w, w->bytes);
    struct rpc_watch *rw = s->c->t->watch;
    if (watch_shard_watchers(rw->shard) == 0) atomic_store(&rw->active, false);
}

void rpc__watch_drop(struct rpc_call *c)
{
    struct watch_call *s = c->state;
    if (s == NULL) return;
    size_t at = 0;
    uint64_t key = 0;
    void *value = NULL;
    while (map_u64_next(&s->ids, &at, &key, &value))
        watcher_free(s, value);
    map_u64_deinit(&s->ids);
    rpc__watch_drop_rests(s);
    watch_stream_close(&s->stream);
    atomic_fetch_sub_explicit(&c->t->watch->counts.streams, 1, memory_order_relaxed);
    rpc__watch_count(c->t->watch);
    heap_remove(&c->t->watch->timers, &s->timer);
    list_remove(&s->link);
    list_remove(&s->failing);
    grpc_pool_put(c->t->pool, s, sizeof *s);
}

/* --- create -------------------------------------------------------------------------------------- */

/* A block with copies of key and end. An empty key is the least key. */
static struct rpc_watcher *watcher_new(const struct rpc_thread *t,
                                       const Etcdserverpb__WatchCreateRequest *q)
{
    static const uint8_t LEAST[1] = {0};
    struct bytes key = bytes_of(q->key.data, q->key.len);
    struct bytes end = bytes_of(q->range_end.data, q->range_end.len);
    if (key.len == 0) key = bytes_of(LEAST, 1);
    size_t bytes = sizeof(struct rpc_watcher) + key.len + end.len;
    struct rpc_watcher *w = alloc_zero(t->alloc, bytes);
    if (w == NULL) return NULL;
    uint8_t *at = (uint8_t *)(w + 1);
    memcpy(at, key.data, key.len);
    if (end.len > 0) memcpy(at + key.len, end.data, end.len);
    w->bytes = bytes;
    w->w.key = bytes_of(at, key.len);
    w->w.end = bytes_of(at + key.len, end.len);
    w->w.start = q->start_revision;
    w->w.prev_kv = q->prev_kv;
    w->progress = q->progress_notify;
    w->fragment = q->fragment;
    w->silent = true;
    for (size_t i = 0; i < q->n_filters; i++) {
        if (q->filters[i] == ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NOPUT)
            w->w.no_put = true;
        if (q->filters[i] == ETCDSERVERPB__WATCH_CREATE_REQUEST__FILTER_TYPE__NODELETE)
            w->w.no_delete = true;
    }
    return w;
}

static void refuse(struct watch_call *s, const char *reason)
{
    const struct rpc_member *m = s->c->t->member;
    (void)rpc__watch_say(s, &(struct watch_head){.revision = mvcc_revision(m->mvcc),
                                                 .id = INVALID_ID,
                                                 .created = true,
                                                 .canceled = true,
                                                 .reason = reason});
}

static bool range_is_empty(const struct rpc_watcher *w)
{
    struct bytes end = w->w.end;
    if (end.len == 0 || (end.len == 1 && end.data[0] == 0)) return false;
    return bytes_cmp(w->w.key, end) >= 0;
}

/* The id asked for, or the next free one; false when it is in use. */
static bool choose_id(struct watch_call *s, int64_t wanted, int64_t *id)
{
    if (wanted != 0) {
        *id = wanted;
        return map_u64_get(&s->ids, (uint64_t)wanted) == NULL;
    }
    while (map_u64_get(&s->ids, (uint64_t)s->next_id) != NULL)
        s->next_id++;
    *id = s->next_id++;
    return true;
}

static int add(struct watch_call *s, struct rpc_watcher *w)
{
    struct rpc_watch *rw = s->c->t->watch;
    int rc = map_u64_reserve(&s->ids, 1);
    if (rc < 0) return rc;
    /* Before the revision is read: what is published from here on is told to this thread. */
    atomic_store(&rw->active, true);
    int64_t current = 0;
    rc = watch_add(&w->w, &s->stream, &current);
    if (rc < 0) return rc;
    (void)map_u64_put(&s->ids, (uint64_t)w->id, w);
    if (w->progress) s->progress_count++;
    rpc__watch_arm(s);
    rpc__watch_kick(rw);
    return rpc__watch_say(s,
                          &(struct watch_head){.revision = current, .id = w->id, .created = true});
}

/* Refusals in upstream's order: negative start, right, empty range, id in use. */
static int create(struct watch_call *s, const Etcdserverpb__WatchCreateRequest *q)
{
    const struct rpc_thread *t = s->c->t;
    if (q->start_revision < 0) {
        refuse(s, err_text(E_COMPACTED));
        return 0;
    }
    struct rpc_watcher *w = watcher_new(t, q);
    if (w == NULL) return E_NOMEM;
    const char *reason = NULL;
    if (range_is_empty(w)) {
        reason = "mvcc: watcher range is empty";
    } else if (!choose_id(s, q->watch_id, &w->id)) {
        reason = "mvcc: duplicate watch ID provided on the WatchStream";
    }
    int rc = reason != NULL ? 0 : add(s, w);
    if (reason != NULL) refuse(s, reason);
    bool added = w->w.stream != NULL;
    if (!added) alloc_free(t->alloc, w, w->bytes);
    return rc;
}

/* --- cancel, progress ------------------------------------------------------------------------------ */

static int cancel(struct watch_call *s, int64_t id)
{
    struct rpc_watcher *w = map_u64_remove(&s->ids, (uint64_t)id);
    if (w == NULL) return 0;
    watcher_free(s, w);
    rpc__watch_kick(s->c->t->watch); /* a progress answer may have waited for this one */
    return rpc__watch_say(s, &(struct watch_head){.revision = mvcc_revision(s->c->t->member->mvcc),
                                                  .id = id,
                                                  .canceled = true});
}

static int progress(struct watch_call *s)
{
    watch_stream_progress(&s->stream);
    rpc__watch_kick(s->c->t->watch);
    return 0;
}

void rpc__watch(struct rpc_call *c, struct bytes msg)
{
    Etcdserverpb__WatchRequest *q = rpc__unpack(c, &etcdserverpb__watch_request__descriptor, msg);
    if (q == NULL) return;
    struct watch_call *s = c->state != NULL ? c->state : stream_new(c);
    if (s == NULL) {
        rpc__fail(c, E_NOMEM);
        return;
    }
    int rc = 0;
    c->t->watch->header = rpc__header(c->t, 0);
    switch (q->request_union_case) {
    case ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST:
        rc = create(s, q->create_request);
        break;
    case ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST:
        rc = cancel(s, q->cancel_request->watch_id);
        break;
    case ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST: rc = progress(s); break;
    case ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION__NOT_SET:
    case _ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION__CASE_IS_INT_SIZE: break;
    }
    if (rc < 0) rpc__fail(c, rc);
}
