/* Giving the events of a batch to the watchers of a group.
 *
 * Events are matched one by one; each watcher that is met gathers runs of neighbouring events. Live watchers get what they
 * gathered at the end of each revision, those of a sweep at the end of the portion, or when they have a thousand
 * revisions: so the events of a revision are always one response, and a history is few. */
#include "watch/watch_int.h"

#include "pb/wire.h"

enum { FIELD_PREV_KV = 3, HITS_FIRST = 64, SHARE_PART = 8, KEPT_BYTES = 64 * 1024 };

/* --- gathering ----------------------------------------------------------------------------------- */

static int grow(const struct alloc *a, void **block, size_t *cap, size_t size)
{
    size_t more = *cap == 0 ? HITS_FIRST : *cap * 2;
    void *grown = a->resize(a->arg, *block, *cap * size, more * size);
    if (grown == NULL) return E_NOMEM;
    *block = grown;
    *cap = more;
    return 0;
}

static void touch(struct watch_shard *s, struct watch_watcher *w)
{
    if (w->touched) return;
    w->touched = true;
    w->touched_next = NULL;
    *s->touched_end = w;
    s->touched_end = &w->touched_next;
}

/* It leaves at the end of the portion, and comes again for what it has gathered and not got. */
static void mark_leaving(struct watch_watcher *w, int rc, int64_t next)
{
    w->leaving = true;
    w->leave_rc = rc;
    w->next = next;
    w->hit_first = 0;
}

static int push_hit(struct watch_shard *s, struct watch_watcher *w, size_t i)
{
    struct watch__hit *last = w->hit_first == 0 ? NULL : &s->hits[w->hit_last - 1];
    if (last != NULL && last->last + 1 == i) {
        last->last = i;
        return 0;
    }
    if (s->hit_count == s->hit_cap) {
        void *v = s->hits;
        if (grow(s->alloc, &v, &s->hit_cap, sizeof *s->hits) < 0) return E_NOMEM;
        s->hits = v;
    }
    s->hits[s->hit_count++] = (struct watch__hit){.first = i, .last = i};
    if (w->hit_first == 0) {
        w->hit_first = s->hit_count;
    } else {
        s->hits[w->hit_last - 1].next = s->hit_count;
    }
    w->hit_last = s->hit_count;
    return 0;
}

/* --- pieces -------------------------------------------------------------------------------------- */

static void prev_close(struct watch_shard *s)
{
    if (s->prev_rev != 0) mvcc_view_close(&s->prev_view);
    s->prev_rev = 0;
}

/* The key's row as of the revision before; E_NOTFOUND when there is none, or compaction took it. */
static int prev_kv(struct watch_shard *s, const struct watch_batch *b, const struct watch_event *e,
                   struct bytes *kv)
{
    struct errmsg em = {""};
    int64_t rev = e->main - 1;
    if (e->creation || rev <= 0) return E_NOTFOUND;
    if (s->prev_rev != rev) {
        prev_close(s);
        int rc = mvcc_view_open(s->mvcc, rev, &s->prev_view);
        if (rc < 0) return rc == E_COMPACTED ? E_NOTFOUND : rc;
        s->prev_rev = rev;
    }
    struct mvcc_row row;
    int rc = mvcc_view_get(&s->prev_view, watch_event_key(b, e), &row);
    return rc < 0 ? rc : mvcc_view_kv(&s->prev_view, &row, kv, &em);
}

/* Appends to scratch the event with its previous value; nothing when it has none. */
static int put_prev(struct watch_shard *s, const struct watch_batch *b, const struct watch_event *e)
{
    struct bytes kv = BYTES_EMPTY;
    int rc = prev_kv(s, b, e, &kv);
    if (rc == E_NOTFOUND) return 0;
    struct bytes piece = watch_event_piece(b, e);
    struct bytes body = bytes_of(piece.data + e->body, piece.len - e->body);
    if (rc == 0)
        rc = pb_put_len(&s->scratch, WATCH_FIELD_EVENT,
                        body.len + pb_len_size(FIELD_PREV_KV, kv.len));
    if (rc == 0) rc = buf_put_bytes(&s->scratch, body);
    return rc == 0 ? pb_put_bytes(&s->scratch, FIELD_PREV_KV, kv) : rc;
}

static int push_piece(struct watch_shard *s, struct bytes bytes, struct rcbuf *shared)
{
    if (s->piece_count == s->piece_cap) {
        void *v = s->pieces;
        if (grow(s->alloc, &v, &s->piece_cap, sizeof *s->pieces) < 0) return E_NOMEM;
        s->pieces = v;
    }
    s->pieces[s->piece_count++] = (struct watch_piece){bytes, shared};
    return 0;
}

/* A piece of scratch is known by its length first: the buffer may still move. */
static int add_piece(struct watch_shard *s, const struct watch_watcher *w,
                     const struct watch_batch *b, const struct watch_event *e)
{
    size_t before = s->scratch.len;
    int rc = w->prev_kv ? put_prev(s, b, e) : 0;
    if (rc < 0) return rc;
    if (s->scratch.len > before)
        return push_piece(s, bytes_of(NULL, s->scratch.len - before), NULL);
    return push_piece(s, watch_event_piece(b, e), b->bytes);
}

static void settle_scratch(struct watch_shard *s)
{
    size_t at = 0;
    for (size_t i = 0; i < s->piece_count; i++) {
        if (s->pieces[i].bytes.data != NULL) continue;
        s->pieces[i].bytes.data = s->scratch.data + at;
        at += s->pieces[i].bytes.len;
    }
}

/* A slow stream must not keep a large batch alive for a small part of it: such a part is copied. */
static void share_or_copy(struct watch_shard *s, const struct watch_batch *b)
{
    size_t shared = 0;
    for (size_t i = 0; i < s->piece_count; i++)
        shared += s->pieces[i].shared != NULL ? s->pieces[i].bytes.len : 0;
    if (shared * SHARE_PART >= watch_batch_bytes(b)) return;
    for (size_t i = 0; i < s->piece_count; i++)
        s->pieces[i].shared = NULL;
}

static int make_pieces(struct watch_shard *s, const struct watch_watcher *w,
                       const struct watch_batch *b)
{
    s->piece_count = 0;
    buf_reset(&s->scratch);
    for (size_t at = w->hit_first; at != 0; at = s->hits[at - 1].next) {
        const struct watch__hit h = s->hits[at - 1];
        for (size_t i = h.first; i <= h.last; i++) {
            int rc = add_piece(s, w, b, &b->events[i]);
            if (rc < 0) return rc;
        }
    }
    settle_scratch(s);
    share_or_copy(s, b);
    return 0;
}

/* --- giving -------------------------------------------------------------------------------------- */

static void give_one(struct watch_shard *s, struct watch_group *g, struct watch_watcher *w)
{
    if (w->hit_first == 0 || w->leaving) return;
    const struct watch_sink *sink = &s->opts.sink;
    const struct watch_batch *b = g->batch;
    int64_t first = b->events[s->hits[w->hit_first - 1].first].main;
    int64_t last = b->events[s->hits[w->hit_last - 1].last].main;
    int rc = sink->writable(sink->arg, w->stream) ? make_pieces(s, w, b) : E_AGAIN;
    if (rc == 0) {
        struct watch_out out = {.revision = g->live ? last : mvcc_revision(s->mvcc),
                                .pieces = s->pieces,
                                .count = s->piece_count};
        rc = sink->events(sink->arg, w, &out);
    }
    if (rc == E_INTR) rc = E_NOMEM; /* a view was too old: once more */
    if (rc < 0) {
        mark_leaving(w, rc, PLANTED(PLANT_GAP_AT_PARK) ? first + 1 : first);
        return;
    }
    w->next = last + 1;
    w->hit_first = 0;
}

/* A thousand revisions are a response, whether or not filters left any of their events. */
static void count_revision(struct watch_shard *s, struct watch_group *g, struct watch_watcher *w,
                           int64_t rev)
{
    if (w->touched && w->revs > 0 && w->rev_last == rev) return;
    if (!w->touched) w->revs = 0;
    if (w->revs == WATCH_RESPONSE_REVISIONS) {
        give_one(s, g, w);
        w->revs = 0;
    }
    w->revs++;
    w->rev_last = rev;
}

static void meet(struct watch_shard *s, struct watch_group *g, struct watch_watcher *w, size_t i)
{
    const struct watch_event *e = &g->batch->events[i];
    if (e->main < w->next || w->leaving) return;
    if (!g->live) count_revision(s, g, w, e->main);
    touch(s, w);
    if (w->leaving || (e->deletion ? w->no_delete : w->no_put)) return;
    if (push_hit(s, w, i) == 0) return;
    int64_t first = w->hit_first == 0 ? e->main
                                      : g->batch->events[s->hits[w->hit_first - 1].first].main;
    mark_leaving(w, E_NOMEM, first);
}

/* Everybody who was met gets what he gathered, and who must leave leaves. */
static void give_touched(struct watch_shard *s, struct watch_group *g)
{
    struct watch_watcher *w = s->touched;
    while (w != NULL) {
        struct watch_watcher *next = w->touched_next;
        give_one(s, g, w);
        w->touched = false;
        w->hit_first = 0;
        w->revs = 0;
        if (w->leaving) watch__leave(w);
        w = next;
    }
    s->touched = NULL;
    s->touched_end = &s->touched;
    s->hit_count = 0;
}

static size_t meet_all(struct watch_shard *s, struct watch_group *g, size_t i)
{
    struct watch__cover c;
    size_t met = 0;
    struct bytes key = watch_event_key(g->batch, &g->batch->events[i]);
    struct watch_watcher *first = watch__cover_first(&g->index, key, &c);
    for (; first != NULL; first = watch__cover_next(&g->index, &c)) {
        for (struct watch_watcher *w = first; w != NULL; w = w->same_next) {
            meet(s, g, w, i);
            met++;
        }
    }
    return met;
}

static void shrink(struct watch_shard *s)
{
    prev_close(s);
    if (s->hit_cap * sizeof *s->hits > KEPT_BYTES) {
        alloc_free(s->alloc, s->hits, s->hit_cap * sizeof *s->hits);
        s->hits = NULL;
        s->hit_cap = 0;
    }
    if (s->piece_cap * sizeof *s->pieces > KEPT_BYTES) {
        alloc_free(s->alloc, s->pieces, s->piece_cap * sizeof *s->pieces);
        s->pieces = NULL;
        s->piece_cap = 0;
    }
    if (s->scratch.cap > KEPT_BYTES) {
        buf_deinit(&s->scratch);
        buf_init(&s->scratch, s->alloc, INT32_MAX);
    }
}

static bool is_enough(const struct watch_group *g, size_t met, size_t events)
{
    if (!g->live) return met >= WATCH_SWEEP_HITS;
    return met >= WATCH_STEP_HITS || events >= WATCH_STEP_EVENTS;
}

int watch__give(struct watch_shard *s, struct watch_group *g, int64_t until)
{
    struct watch_batch *b = g->batch;
    ASSERT(b != NULL && s->touched == NULL);
    size_t start = g->at;
    size_t met = 0;
    while (g->at < b->count && b->events[g->at].main <= until) {
        bool border = g->at > start && b->events[g->at].main != b->events[g->at - 1].main;
        if (border && g->live) give_touched(s, g);
        if (border) g->pos = b->events[g->at].main;
        if (border && is_enough(g, met, g->at - start)) break;
        if (g->count > 0) met += meet_all(s, g, g->at);
        g->at++;
    }
    give_touched(s, g);
    bool cut = g->at < b->count && b->events[g->at].main <= until;
    if (!cut) g->pos = (b->to < until ? b->to : until) + 1;
    shrink(s);
    return cut ? 1 : 0;
}
