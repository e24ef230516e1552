/* Groups on their way: reading history, compactions that overtake, joining.
 *
 * Live watchers and sweeps advance in the same way: take the batch that has the next revision from the ring, or
 * read a slice of history; give it. The one difference is that a sweep goes no further than where the live ones are, and
 * there its watchers join them. */
#include "watch/watch_int.h"

/* --- what cannot be read ------------------------------------------------------------------------- */

static int64_t wants(const struct watch_group *g, const struct watch_watcher *w)
{
    return w->next > g->pos ? w->next : g->pos;
}

/* A compaction has passed the group: who still wanted something below it is overtaken, the others go on from there. */
static void overtake(struct watch_shard *s, struct watch_group *g, int64_t compacted)
{
    struct list *at = NULL;
    struct list *spare = NULL;
    LIST_EACH_SAFE(&g->watchers, at, spare)
    {
        struct watch_watcher *w = LIST_OBJECT(at, struct watch_watcher, link);
        if (wants(g, w) >= compacted) continue;
        watch__group_drop(w);
        watch__set_place(w, WATCH_OVERTAKEN);
        watch__tell_overtaken(w);
    }
    if (g->pos < compacted) g->pos = compacted;
    (void)s;
}

static void fail_all(struct watch_group *g, int rc)
{
    while (!list_empty(&g->watchers)) {
        struct watch_watcher *w = LIST_OBJECT(g->watchers.next, struct watch_watcher, link);
        w->leaving = true;
        w->leave_rc = rc;
        watch__leave(w);
    }
}

/* Memory and broken pins pass; what cannot be read at all ends the watchers. */
static int refused(struct watch_shard *s, struct watch_group *g, int rc)
{
    if (rc == E_NOMEM) {
        s->starved = true;
    } else if (rc == E_COMPACTED) {
        overtake(s, g, mvcc_compacted(s->mvcc));
    } else if (rc != E_INTR && rc != E_BUSY) {
        fail_all(g, rc);
    }
    return 1;
}

/* --- one step of a group ------------------------------------------------------------------------- */

static void take_batch(struct watch_group *g, struct watch_batch *b)
{
    ASSERT(b->from <= g->pos && g->pos <= b->to);
    g->batch = b;
    g->at = watch_batch_find(b, g->pos);
}

static int open_slice(struct watch_shard *s, struct watch_group *g, int64_t until)
{
    struct watch_batch *b = watch__ring_take(s, g->pos, g->live ? g->pos : until);
    if (b != NULL) {
        take_batch(g, b);
        return 1;
    }
    int rc = watch_builder_open(&g->builder, s->mvcc, s->alloc, g->pos, until);
    return rc < 0 ? refused(s, g, rc) : 1;
}

static int read_slice(struct watch_shard *s, struct watch_group *g)
{
    struct errmsg em = {""};
    int rc = watch_builder_step(&g->builder, WATCH_STEP_ROWS, &em);
    if (rc < 0) return refused(s, g, rc);
    if (rc == 0) take_batch(g, watch_builder_take(&g->builder));
    return 1;
}

int watch__advance(struct watch_shard *s, struct watch_group *g, int64_t until)
{
    if (g->builder.batch != NULL) return read_slice(s, g);
    if (g->batch != NULL) {
        if (watch__give(s, g, until) > 0) return 1;
        watch_batch_unref(g->batch);
        g->batch = NULL;
        return g->pos <= until;
    }
    if (g->pos > until) return 0;
    return open_slice(s, g, until);
}

/* --- sweeps -------------------------------------------------------------------------------------- */

void watch__sweep_free(struct watch_shard *s, struct watch_group *g)
{
    list_remove(&g->link);
    watch__group_deinit(g);
    alloc_free(s->alloc, g, sizeof *g);
    s->sweep_count--;
    list_splice_back(&s->pending, &s->waiting);
}

static struct watch_group *sweep_new(struct watch_shard *s, int64_t pos)
{
    struct watch_group *g = alloc_new(s->alloc, sizeof *g);
    if (g == NULL) return NULL;
    watch__group_init(g, s, false);
    g->pos = pos;
    list_push_back(&s->sweeps, &g->link);
    s->sweep_count++;
    return g;
}

/* The nearest sweep that has not passed what the watcher wants. */
static struct watch_group *sweep_for(struct watch_shard *s, const struct watch_watcher *w)
{
    struct watch_group *best = NULL;
    struct list *at = NULL;
    LIST_EACH(&s->sweeps, at)
    {
        struct watch_group *g = LIST_OBJECT(at, struct watch_group, link);
        if (g->pos > w->next || w->next - g->pos > WATCH_SWEEP_AHEAD_MAX) continue;
        if (best == NULL || g->pos > best->pos) best = g;
    }
    if (best == NULL && s->sweep_count < WATCH_SWEEPS_MAX) best = sweep_new(s, w->next);
    return best;
}

static void place_one(struct watch_shard *s, struct watch_watcher *w)
{
    if (w->place == WATCH_OVERTAKEN) { /* memory was short when it was to be told */
        watch__tell_overtaken(w);
        return;
    }
    if (w->next >= s->live.pos) {
        int rc = watch__group_add(&s->live, w);
        ASSERT(rc == 0); /* the live index has room for all watchers */
        return;
    }
    bool full = s->sweep_count == WATCH_SWEEPS_MAX;
    struct watch_group *g = sweep_for(s, w);
    if (g == NULL && full) {
        list_push_back(&s->waiting, &w->link);
    } else if (g == NULL || watch__group_add(g, w) < 0) {
        s->starved = true;
        list_push_back(&s->pending, &w->link);
    }
}

void watch__place_pending(struct watch_shard *s)
{
    for (int i = 0; i < WATCH_STEP_WATCHERS && !list_empty(&s->pending) && !s->starved; i++)
        place_one(s, LIST_OBJECT(list_pop_front(&s->pending), struct watch_watcher, link));
}

/* The sweep stands where the live watchers stand: what it has given ends exactly where they go on. */
static void join(struct watch_shard *s, struct watch_group *g)
{
    ASSERT(g->pos >= s->live.pos);
    for (int i = 0; i < WATCH_STEP_WATCHERS && !list_empty(&g->watchers); i++) {
        struct watch_watcher *w = LIST_OBJECT(g->watchers.next, struct watch_watcher, link);
        watch__group_drop(w);
        if (PLANTED(PLANT_GAP_AT_JOIN)) w->next++;
        if (PLANTED(PLANT_REPEAT_AT_JOIN)) w->next = 0;
        int rc = watch__group_add(&s->live, w);
        ASSERT(rc == 0);
    }
}

static int64_t sweep_until(const struct watch_shard *s)
{
    return PLANTED(PLANT_REPEAT_AT_JOIN) ? s->published : s->live.pos - 1;
}

void watch__sweep_step(struct watch_shard *s)
{
    struct list *first = list_pop_front(&s->sweeps);
    if (first == NULL) return;
    list_push_back(&s->sweeps, first);
    struct watch_group *g = LIST_OBJECT(first, struct watch_group, link);
    int64_t compacted = mvcc_compacted(s->mvcc);
    bool idle = g->builder.batch == NULL && g->batch == NULL;
    if (idle && g->pos < compacted && watch__ring_find(s, g->pos) == NULL)
        overtake(s, g, compacted);
    if (g->count > 0 && watch__advance(s, g, sweep_until(s)) == 0) join(s, g);
    if (g->count == 0) watch__sweep_free(s, g);
}
