/* Where watchers stand: groups, lists of those that wait, the ring of recent batches. */
#include "watch/watch_int.h"

/* --- groups -------------------------------------------------------------------------------------- */

void watch__group_init(struct watch_group *g, const struct watch_shard *s, bool live)
{
    *g = (struct watch_group){.live = live};
    watch__index_init(&g->index, s->alloc, s->opts.seed);
    list_init(&g->watchers);
    list_init(&g->link);
}

void watch__group_deinit(struct watch_group *g)
{
    ASSERT(g->count == 0);
    watch_builder_close(&g->builder);
    watch_batch_unref(g->batch);
    watch__index_deinit(&g->index);
}

int watch__group_add(struct watch_group *g, struct watch_watcher *w)
{
    ASSERT(w->group == NULL);
    int rc = watch__index_add(&g->index, w);
    if (rc < 0) return rc;
    w->group = g;
    list_remove(&w->link);
    list_push_back(&g->watchers, &w->link);
    g->count++;
    watch__set_place(w, g->live ? WATCH_LIVE : WATCH_SWEEP);
    return 0;
}

void watch__group_drop(struct watch_watcher *w)
{
    struct watch_group *g = w->group;
    ASSERT(g != NULL && g->count > 0);
    watch__index_remove(&g->index, w);
    list_remove(&w->link);
    g->count--;
    w->group = NULL;
    /* What the group has passed need not be looked at again. */
    if (w->next < g->pos && !w->leaving) w->next = g->pos;
}

/* --- places -------------------------------------------------------------------------------------- */

static bool is_behind(enum watch_place place)
{
    return place != WATCH_LIVE && place != WATCH_NEW;
}

void watch__set_place(struct watch_watcher *w, enum watch_place place)
{
    struct watch_stream *st = w->stream;
    bool was = is_behind((enum watch_place)w->place);
    bool now = is_behind(place);
    if (was && !now) {
        ASSERT(st->behind_count > 0);
        st->behind_count--;
        st->shard->behind_count--;
    } else if (now && !was) {
        st->behind_count++;
        st->shard->behind_count++;
    }
    w->place = (uint8_t)place;
}

void watch__tell_overtaken(struct watch_watcher *w)
{
    struct watch_shard *s = w->stream->shard;
    const struct watch_sink *sink = &s->opts.sink;
    ASSERT(w->place == WATCH_OVERTAKEN && w->told == 0);
    int rc = sink->writable(sink->arg, w->stream)
                 ? sink->overtaken(sink->arg, w, mvcc_compacted(s->mvcc))
                 : E_AGAIN;
    if (rc == 0) {
        w->told = 1;
    } else if (rc == E_AGAIN) {
        list_push_back(&w->stream->parked, &w->link);
    } else {
        s->starved = true;
        list_push_back(&s->pending, &w->link);
    }
}

void watch__leave(struct watch_watcher *w)
{
    struct watch_shard *s = w->stream->shard;
    const struct watch_sink *sink = &s->opts.sink;
    ASSERT(w->leaving);
    watch__group_drop(w);
    w->leaving = false;
    if (w->leave_rc == E_AGAIN) {
        watch__set_place(w, WATCH_PARKED);
        list_push_back(&w->stream->parked, &w->link);
    } else if (w->leave_rc == E_NOMEM) {
        s->starved = true;
        watch__set_place(w, WATCH_PENDING);
        list_push_back(&s->pending, &w->link);
    } else {
        watch__set_place(w, WATCH_OVERTAKEN);
        w->told = 1;
        sink->failed(sink->arg, w, w->leave_rc);
    }
}

/* --- the ring ------------------------------------------------------------------------------------ */

static struct watch_batch *ring_at(const struct watch_shard *s, size_t i)
{
    return s->ring.batches[(s->ring.first + i) % WATCH_RING_BATCHES];
}

static void ring_drop_first(struct watch_shard *s)
{
    struct watch_batch *b = ring_at(s, 0);
    s->ring.bytes -= watch_batch_bytes(b);
    s->ring.first = (s->ring.first + 1) % WATCH_RING_BATCHES;
    s->ring.count--;
    watch_batch_unref(b);
}

void watch__ring_clear(struct watch_shard *s)
{
    while (s->ring.count > 0)
        ring_drop_first(s);
}

struct watch_batch *watch__ring_find(const struct watch_shard *s, int64_t rev)
{
    size_t low = 0;
    size_t high = s->ring.count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        struct watch_batch *b = ring_at(s, mid);
        if (b->to < rev) {
            low = mid + 1;
        } else if (b->from > rev) {
            high = mid;
        } else {
            return b;
        }
    }
    return NULL;
}

/* A sweep gives what it has of a slice as one response, so it takes several batches as one. */
static int join_batches(const struct watch_shard *s, int64_t until, struct watch_batch *out)
{
    while (out->to < until && out->count < WATCH_SLICE_EVENTS && out->used < WATCH_SLICE_BYTES) {
        const struct watch_batch *b = watch__ring_find(s, out->to + 1);
        if (b == NULL) return 0;
        int rc = watch__batch_append(out, b, out->to + 1);
        if (rc < 0) return rc;
    }
    return 0;
}

struct watch_batch *watch__ring_take(const struct watch_shard *s, int64_t rev, int64_t until)
{
    struct watch_batch *first = watch__ring_find(s, rev);
    if (first == NULL || first->to >= until) return watch_batch_ref(first);
    struct watch_batch *out = watch__batch_new(s->alloc, rev, rev - 1);
    if (out == NULL) return watch_batch_ref(first);
    if (join_batches(s, until, out) == 0) return out;
    watch_batch_unref(out);
    return watch_batch_ref(first);
}

void watch__ring_put(struct watch_shard *s, struct watch_batch *b)
{
    size_t max = s->opts.ring_bytes_max;
    if (s->ring.count > 0 && ring_at(s, s->ring.count - 1)->to + 1 != b->from) watch__ring_clear(s);
    s->ring.bytes += watch_batch_bytes(b);
    while (s->ring.count > 0 && (s->ring.bytes > max || s->ring.count == WATCH_RING_BATCHES))
        ring_drop_first(s);
    s->ring.batches[(s->ring.first + s->ring.count) % WATCH_RING_BATCHES] = b;
    s->ring.count++;
}
