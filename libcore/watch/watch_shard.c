/* The shard: streams and watchers come and go, publications arrive, steps are made. */
#include "watch/watch_int.h"

static bool starts_before(const struct heap_item *a, const struct heap_item *b)
{
    return LIST_OBJECT(a, const struct watch_watcher, timer)->start <
           LIST_OBJECT(b, const struct watch_watcher, timer)->start;
}

int watch_shard_new(const struct watch_opts *opts, struct watch_shard **out)
{
    struct watch_shard *s = alloc_zero(opts->alloc, sizeof *s);
    if (s == NULL) return E_NOMEM;
    s->opts = *opts;
    if (s->opts.ring_bytes_max == 0) s->opts.ring_bytes_max = WATCH_RING_BYTES_MAX;
    s->alloc = opts->alloc;
    s->mvcc = opts->mvcc;
    watch__group_init(&s->live, s, true);
    list_init(&s->sweeps);
    list_init(&s->pending);
    list_init(&s->waiting);
    list_init(&s->asking);
    heap_init(&s->future, s->alloc, starts_before);
    buf_init(&s->scratch, s->alloc, INT32_MAX);
    s->touched_end = &s->touched;
    s->published = mvcc_revision(s->mvcc);
    s->live.pos = s->published + 1;
    *out = s;
    return 0;
}

void watch_shard_free(struct watch_shard *s)
{
    if (s == NULL) return;
    ASSERT(s->watcher_count == 0 && list_empty(&s->asking));
    while (!list_empty(&s->sweeps))
        watch__sweep_free(s, LIST_OBJECT(s->sweeps.next, struct watch_group, link));
    watch__group_deinit(&s->live);
    watch__ring_clear(s);
    heap_deinit(&s->future);
    buf_deinit(&s->scratch);
    alloc_free(s->alloc, s->hits, s->hit_cap * sizeof *s->hits);
    alloc_free(s->alloc, s->pieces, s->piece_cap * sizeof *s->pieces);
    alloc_free(s->alloc, s, sizeof *s);
}

int64_t watch_shard_position(const struct watch_shard *s)
{
    return s->live.pos - 1;
}

size_t watch_shard_watchers(const struct watch_shard *s)
{
    return s->watcher_count;
}

size_t watch_shard_behind(const struct watch_shard *s)
{
    return s->behind_count;
}

/* --- publications -------------------------------------------------------------------------------- */

void watch_shard_publish(struct watch_shard *s, int64_t to, struct watch_batch *batch)
{
    if (batch != NULL && batch->to >= s->live.pos && batch->to > s->published) {
        watch__ring_put(s, batch);
    } else {
        watch_batch_unref(batch);
    }
    if (to > s->published) s->published = to;
    ASSERT(s->published <= mvcc_revision(s->mvcc));
}

/* --- progress ------------------------------------------------------------------------------------ */

static bool holds(const struct watch_stream *st)
{
    return st->behind_count == 0 && st->future_count == 0 &&
           watch_shard_position(st->shard) >= st->asked_rev;
}

static void pass_starts(struct watch_shard *s)
{
    for (;;) {
        struct heap_item *first = heap_first(&s->future);
        if (first == NULL) return;
        struct watch_watcher *w = LIST_OBJECT(first, struct watch_watcher, timer);
        if (w->start >= s->live.pos) return;
        heap_remove(&s->future, first);
        w->stream->future_count--;
    }
}

static void answer_one(struct watch_shard *s, struct watch_stream *st)
{
    const struct watch_sink *sink = &s->opts.sink;
    while (st->asked > 0) {
        int rc = sink->writable(sink->arg, st)
                     ? sink->progress(sink->arg, st, watch_shard_position(s))
                     : E_AGAIN;
        if (rc == E_NOMEM) s->starved = true;
        if (rc < 0) return;
        st->asked--;
    }
    list_remove(&st->asking);
}

static void answer_progress(struct watch_shard *s)
{
    struct list *at = NULL;
    struct list *spare = NULL;
    LIST_EACH_SAFE(&s->asking, at, spare)
    {
        struct watch_stream *st = LIST_OBJECT(at, struct watch_stream, asking);
        if (holds(st)) answer_one(s, st);
    }
}

void watch_stream_progress(struct watch_stream *st)
{
    struct watch_shard *s = st->shard;
    if (st->watcher_count == 0) return;
    int64_t now = mvcc_revision(s->mvcc);
    if (st->asked < UINT32_MAX) st->asked++;
    st->asked_rev = now;
    list_remove(&st->asking);
    list_push_back(&s->asking, &st->asking);
}

/* --- work ---------------------------------------------------------------------------------------- */

/* Without live watchers there is nobody to give to: the position just follows. */
static void follow(struct watch_shard *s)
{
    struct watch_group *g = &s->live;
    watch_builder_close(&g->builder);
    watch_batch_unref(g->batch);
    g->batch = NULL;
    if (g->pos <= s->published) g->pos = s->published + 1;
}

static bool has_work(const struct watch_shard *s)
{
    const struct watch_group *g = &s->live;
    if (g->count > 0 && (g->pos <= s->published || g->batch != NULL || g->builder.batch != NULL))
        return true;
    return !list_empty(&s->sweeps) || !list_empty(&s->pending);
}

int watch_shard_step(struct watch_shard *s)
{
    s->starved = false;
    if (s->live.count == 0) {
        follow(s);
    } else {
        (void)watch__advance(s, &s->live, s->published);
    }
    pass_starts(s);
    watch__place_pending(s);
    /* Those who come together are to be swept together; but a steady stream of newcomers must not hold up the others. */
    if (list_empty(&s->pending) || s->starved || ++s->turn % 4 == 0) watch__sweep_step(s);
    answer_progress(s);
    if (s->watcher_count == 0) watch__ring_clear(s);
    if (s->starved) return E_NOMEM;
    return has_work(s) ? 1 : 0;
}

/* --- streams ------------------------------------------------------------------------------------- */

void watch_stream_open(struct watch_stream *st, struct watch_shard *s)
{
    *st = (struct watch_stream){.shard = s};
    list_init(&st->parked);
    list_init(&st->asking);
}

void watch_stream_close(struct watch_stream *st)
{
    ASSERT(st->watcher_count == 0 && st->behind_count == 0 && st->future_count == 0);
    list_remove(&st->asking);
}

void watch_stream_wake(struct watch_stream *st)
{
    struct list *at = NULL;
    LIST_EACH(&st->parked, at)
    {
        struct watch_watcher *w = LIST_OBJECT(at, struct watch_watcher, link);
        if (w->place == WATCH_PARKED) watch__set_place(w, WATCH_PENDING);
    }
    list_splice_back(&st->shard->pending, &st->parked);
}

/* --- watchers ------------------------------------------------------------------------------------ */

static bool range_is_empty(const struct watch_watcher *w)
{
    if (w->end.len == 0 || (w->end.len == 1 && w->end.data[0] == 0)) return false;
    return bytes_cmp(w->key, w->end) >= 0;
}

static void reset(struct watch_watcher *w, struct watch_stream *st)
{
    w->touched = w->leaving = false;
    w->place = WATCH_NEW;
    w->told = 0;
    w->stream = st;
    w->group = NULL;
    w->timer.place = 0;
    w->same_next = w->same_prev = NULL;
    w->left = w->right = w->parent = w->furthest = NULL;
    w->revs = 0;
    w->hit_first = w->hit_last = 0;
    list_init(&w->link);
}

/* Room for everything that joining later must not fail for. */
static int reserve(struct watch_shard *s)
{
    size_t outside = s->watcher_count - s->live.count + 1;
    int rc = watch__index_reserve(&s->live.index, outside);
    return rc < 0 ? rc : heap_reserve(&s->future, 1);
}

int watch_add(struct watch_watcher *w, struct watch_stream *st, int64_t *current)
{
    struct watch_shard *s = st->shard;
    ASSERT(w->key.len > 0);
    if (range_is_empty(w)) return E_INVAL;
    int rc = reserve(s);
    if (rc < 0) return rc;
    reset(w, st);
    int64_t now = mvcc_revision(s->mvcc);
    if (s->watcher_count == 0) { /* nobody followed until now */
        if (now > s->published) s->published = now;
        follow(s);
    }
    s->watcher_count++;
    st->watcher_count++;
    w->next = w->start > 0 ? w->start : now + 1;
    *current = now;
    if (w->next >= s->live.pos) {
        rc = watch__group_add(&s->live, w);
        ASSERT(rc == 0);
        if (w->start >= s->live.pos) {
            rc = heap_push(&s->future, &w->timer);
            ASSERT(rc == 0);
            st->future_count++;
        }
    } else {
        watch__set_place(w, WATCH_PENDING);
        list_push_back(&s->pending, &w->link);
    }
    return 0;
}

void watch_remove(struct watch_watcher *w)
{
    struct watch_stream *st = w->stream;
    struct watch_shard *s = st->shard;
    ASSERT(!w->touched);
    if (w->group != NULL) {
        watch__group_drop(w);
    } else {
        list_remove(&w->link);
    }
    if (heap_item_queued(&w->timer)) {
        heap_remove(&s->future, &w->timer);
        st->future_count--;
    }
    watch__set_place(w, WATCH_NEW);
    s->watcher_count--;
    st->watcher_count--;
    if (st->watcher_count > 0) return;
    list_remove(&st->asking); /* nobody is left that the answer would be about */
    st->asked = 0;
}

bool watch_is_current(const struct watch_watcher *w)
{
    return w->place == WATCH_LIVE && !heap_item_queued(&w->timer);
}
