/* Random writers, compactions and watchers over a plain model.
 *
 * The model is the list of all events in order. Every watcher keeps its place in it; whatever it is sent must be exactly
 * the next ones that its range and filters let through: so a gap, a repeat, a reorder, a split revision, an event before its
 * publication or a wrong previous value is found at once, and said in `fault`. Used with the module as it is and
 * with faults planted into it. */
#ifndef TEST_UNIT_WATCH_MODEL_H
#define TEST_UNIT_WATCH_MODEL_H

#include "../mvcc/kit.h"

#include "base/prng.h"
#include "pb/wire.h"
#include "watch/watch.h"

enum { KEYS = 24, STREAMS = 4, WATCHERS = 40, ROOM_MAX = 12 };

struct event {
    int64_t main;
    int64_t value; /* a number of its own; 0: a deletion */
    int64_t prev;  /* the key's value before; 0: none */
    uint8_t key;
};

struct model_watcher {
    struct watch_watcher w; /* first */
    bool used, overtaken;
    char key[8], end[8];
    size_t at;     /* the next event to be looked at */
    int64_t wants; /* everything from here on that it has not got */
    int64_t got;   /* revision of the last event */
};

struct model_stream {
    struct watch_stream st; /* first */
    int room;               /* responses it takes before it must be woken */
    bool blocked;
    uint32_t owed;
    int64_t asked_at;
};

struct model {
    struct kit k;
    struct prng prng;
    struct watch_shard *shard;
    struct model_stream streams[STREAMS];
    struct model_watcher watchers[WATCHERS];
    struct event *events;
    size_t count, cap;
    int64_t value[KEYS]; /* 0: absent */
    int64_t next_value;
    int64_t told; /* revisions told to the shard */
    size_t sent, overtaken, progress, blocked, prevs;
    bool in_entry;
    size_t sealed; /* events of sealed entries */
    char fault[256];
};

static void fault(struct model *m, const char *what, int64_t a, int64_t b)
{
    if (m->fault[0] == '\0')
        snprintf(m->fault, sizeof m->fault, "%s (%lld, %lld)", what, (long long)a, (long long)b);
}

static uint64_t pick(struct model *m, uint64_t n)
{
    return prng_below(&m->prng, n);
}

/* --- what watchers are sent ----------------------------------------------------------------------- */

static bool covers(const struct model_watcher *w, uint8_t key)
{
    char name[8];
    snprintf(name, sizeof name, "k%02d", key);
    struct bytes k = bytes_str(name);
    if (w->w.end.len == 0) return bytes_eq(k, w->w.key);
    bool from = w->w.end.len == 1 && w->w.end.data[0] == 0;
    return bytes_cmp(k, w->w.key) >= 0 && (from || bytes_cmp(k, w->w.end) < 0);
}

static bool lets_through(const struct model_watcher *w, const struct event *e)
{
    return e->main >= w->wants && covers(w, e->key) &&
           !(e->value == 0 ? w->w.no_delete : w->w.no_put);
}

/* Moves to the next event that must be sent; NULL when there is none up to `until`. */
static const struct event *next_event(struct model *m, struct model_watcher *w, int64_t until)
{
    for (; w->at < m->sealed && m->events[w->at].main <= until; w->at++) {
        if (lets_through(w, &m->events[w->at])) return &m->events[w->at];
    }
    return NULL;
}

struct sent_event {
    bool deletion, has_prev;
    struct pb_kv kv, prev;
};

static bool parse_event(struct bytes piece, struct sent_event *out)
{
    struct pb_reader outer = pb_reader_of(piece);
    struct pb_field f;
    *out = (struct sent_event){0};
    if (pb_next(&outer, &f) != 1 || f.number != WATCH_FIELD_EVENT || outer.at != outer.end)
        return false;
    struct pb_reader r = pb_reader_of(f.data);
    while (pb_next(&r, &f) == 1) {
        if (f.number == 1) out->deletion = f.value == 1;
        if (f.number == 2 && pb_kv_decode(f.data, &out->kv) < 0) return false;
        if (f.number == 3) {
            if (pb_kv_decode(f.data, &out->prev) < 0) return false;
            out->has_prev = true;
        }
    }
    return true;
}

static int64_t number_of(struct bytes text)
{
    int64_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n = n * 10 + (text.data[i] - '0');
    return n;
}

static void check_prev(struct model *m, const struct model_watcher *w, const struct event *e,
                       const struct sent_event *s)
{
    if (!w->w.prev_kv) {
        if (s->has_prev) fault(m, "a previous value nobody asked for", e->main, e->value);
        return;
    }
    m->prevs += s->has_prev;
    if (s->has_prev && number_of(s->prev.value) != e->prev)
        fault(m, "wrong previous value", e->main, number_of(s->prev.value));
    if (!s->has_prev && e->prev != 0 && mvcc_compacted(m->k.m) <= e->main - 1)
        fault(m, "previous value missing", e->main, e->prev);
}

static void check_event(struct model *m, struct model_watcher *w, struct bytes piece)
{
    struct sent_event s;
    if (!parse_event(piece, &s)) {
        fault(m, "no event", 0, 0);
        return;
    }
    int64_t main = s.kv.mod_revision;
    if (main > mvcc_revision(m->k.m)) fault(m, "before its publication", main, 0);
    const struct event *e = next_event(m, w, INT64_MAX);
    if (e == NULL) {
        fault(m, "an event too many", main, w->got);
        return;
    }
    char name[8];
    snprintf(name, sizeof name, "k%02d", e->key);
    bool same = e->main == main && bytes_eq(s.kv.key, bytes_str(name)) &&
                s.deletion == (e->value == 0) && number_of(s.kv.value) == e->value;
    if (!same) fault(m, "not the next event", e->main, main);
    check_prev(m, w, e, &s);
    w->got = main;
    w->at++;
    m->sent++;
}

static bool on_writable(void *arg, struct watch_stream *st)
{
    struct model_stream *s = (struct model_stream *)(void *)st;
    (void)arg;
    if (s->room <= 0) s->blocked = true;
    return s->room > 0;
}

static int on_events(void *arg, struct watch_watcher *watcher, const struct watch_out *out)
{
    struct model *m = arg;
    struct model_watcher *w = (struct model_watcher *)(void *)watcher;
    struct model_stream *s = (struct model_stream *)(void *)watcher->stream;
    if (!w->used || w->overtaken) fault(m, "to one that is no more", w->got, 0);
    if (s->room <= 0) fault(m, "to a stream without room", w->got, 0);
    if (pick(m, 50) == 0) return E_NOMEM;
    s->room--;
    for (size_t i = 0; i < out->count && m->fault[0] == '\0'; i++)
        check_event(m, w, out->pieces[i].bytes);
    if (out->count == 0) fault(m, "an empty response", 0, 0);
    if (out->revision < w->got || out->revision > mvcc_revision(m->k.m))
        fault(m, "wrong header", out->revision, w->got);
    const struct event *rest = next_event(m, w, w->got);
    if (rest != NULL) fault(m, "a revision in two responses", rest->main, w->got);
    return 0;
}

static int on_overtaken(void *arg, struct watch_watcher *watcher, int64_t compacted)
{
    struct model *m = arg;
    struct model_watcher *w = (struct model_watcher *)(void *)watcher;
    struct model_stream *s = (struct model_stream *)(void *)watcher->stream;
    if (s->room <= 0) fault(m, "to a stream without room", compacted, 0);
    s->room--;
    if (w->overtaken) fault(m, "overtaken twice", compacted, 0);
    int64_t wants = w->got >= w->wants ? w->got + 1 : w->wants;
    if (wants >= compacted) fault(m, "overtaken by nothing", wants, compacted);
    w->overtaken = true;
    m->overtaken++;
    return 0;
}

static int on_progress(void *arg, struct watch_stream *st, int64_t rev)
{
    struct model *m = arg;
    struct model_stream *s = (struct model_stream *)(void *)st;
    if (s->owed == 0) fault(m, "progress that nobody asked for", rev, 0);
    if (rev < s->asked_at) fault(m, "progress of the past", rev, s->asked_at);
    s->owed--;
    s->room--;
    for (size_t i = 0; i < WATCHERS; i++) {
        struct model_watcher *w = &m->watchers[i];
        if (!w->used || w->w.stream != st) continue;
        if (w->overtaken) fault(m, "progress beside one overtaken", rev, 0);
        if (w->w.start > rev) fault(m, "progress before a start", rev, w->w.start);
        const struct event *e = next_event(m, w, rev);
        if (e != NULL) fault(m, "progress ahead of events", rev, e->main);
    }
    m->progress++;
    return 0;
}

static void on_failed(void *arg, struct watch_watcher *w, int rc)
{
    (void)w;
    fault(arg, "failed", rc, 0);
}

/* --- writers --------------------------------------------------------------------------------------- */

static void note_event(struct model *m, uint8_t key, int64_t value)
{
    if (m->count == m->cap) {
        m->cap = m->cap == 0 ? 4096 : m->cap * 2;
        m->events = realloc(m->events, m->cap * sizeof *m->events);
        assert_non_null(m->events);
    }
    int64_t main = mvcc_revision(m->k.m) + 1;
    m->events[m->count++] = (struct event){main, value, m->value[key], key};
    m->value[key] = value;
}

static void put(struct model *m, uint8_t key)
{
    char name[8];
    char value[24];
    int64_t v = ++m->next_value;
    snprintf(name, sizeof name, "k%02d", key);
    snprintf(value, sizeof value, "%lld", (long long)v);
    kit_write(&m->k, name, value);
    note_event(m, key, v);
}

static void delete_range(struct model *m, uint8_t from, uint8_t to)
{
    char a[8];
    char b[8];
    snprintf(a, sizeof a, "k%02d", from);
    snprintf(b, sizeof b, "k%02d", to);
    (void)kit_erase(&m->k, bytes_str(a), bytes_str(b));
    for (uint8_t k = from; k < to; k++) {
        if (m->value[k] != 0) note_event(m, k, 0);
    }
}

static void begin_entry(struct model *m)
{
    mvcc_entry_begin(m->k.m);
    m->in_entry = true;
    if (pick(m, 8) == 0) {
        uint8_t from = (uint8_t)pick(m, KEYS);
        delete_range(m, from, (uint8_t)(from + 1 + pick(m, 4)) % (KEYS + 1));
        return;
    }
    uint8_t key = (uint8_t)pick(m, KEYS);
    for (uint64_t n = 1 + pick(m, 3); n > 0 && key < KEYS; n--, key++)
        put(m, key);
}

static void end_entry(struct model *m)
{
    if (!m->in_entry) return;
    kit_seal(&m->k);
    m->in_entry = false;
    m->sealed = m->count;
}

static void compact(struct model *m)
{
    int64_t now = mvcc_revision(m->k.m);
    end_entry(m);
    int64_t rev = now - (int64_t)pick(m, 400);
    if (rev > 1) (void)kit_compact(&m->k, rev);
}

static void store(struct model *m)
{
    end_entry(m);
    kit_commit(&m->k);
    (void)kit_work(&m->k);
}

/* --- the server's part ------------------------------------------------------------------------------ */

static void publish(struct model *m)
{
    int64_t now = mvcc_revision(m->k.m);
    if (now == m->told) return;
    struct watch_batch *b = NULL;
    if (pick(m, 6) != 0) b = watch_batch_read(m->k.m, &m->k.alloc, m->told + 1, now, 64);
    m->told = now;
    watch_shard_publish(m->shard, now, b);
}

static void step(struct model *m)
{
    for (uint64_t n = 1 + pick(m, 4); n > 0 && m->fault[0] == '\0'; n--)
        (void)watch_shard_step(m->shard);
}

static void wake(struct model *m)
{
    struct model_stream *s = &m->streams[pick(m, STREAMS)];
    s->room += (int)pick(m, ROOM_MAX);
    if (s->room <= 0 || !s->blocked) return;
    s->blocked = false;
    m->blocked++;
    watch_stream_wake(&s->st);
}

static void ask(struct model *m)
{
    struct model_stream *s = &m->streams[pick(m, STREAMS)];
    if (s->st.watcher_count > 0) s->owed++;
    s->asked_at = mvcc_revision(m->k.m);
    watch_stream_progress(&s->st);
}

/* --- watchers come and go ----------------------------------------------------------------------------- */

static void name_range(struct model *m, struct model_watcher *w)
{
    uint64_t from = pick(m, KEYS);
    snprintf(w->key, sizeof w->key, "k%02d", (int)from);
    w->w.key = bytes_str(w->key);
    w->w.end = BYTES_EMPTY;
    if (pick(m, 3) == 0) return;
    snprintf(w->end, sizeof w->end, "k%02d", (int)(from + 1 + pick(m, KEYS)));
    w->w.end = pick(m, 5) == 0 ? ALL_KEYS : bytes_str(w->end);
}

static int64_t pick_start(struct model *m, int64_t now)
{
    switch (pick(m, 4)) {
    case 0: return 0;
    case 1: return now + 1 - (int64_t)pick(m, 20) > 0 ? now + 1 - (int64_t)pick(m, 20) : 1;
    case 2: return 1 + (int64_t)pick(m, (uint64_t)now + 1);
    default: return now + (int64_t)pick(m, 30);
    }
}

static void add_watcher(struct model *m, struct model_watcher *w)
{
    struct model_stream *s = &m->streams[pick(m, STREAMS)];
    int64_t now = mvcc_revision(m->k.m);
    *w = (struct model_watcher){.used = true};
    name_range(m, w);
    w->w.start = pick_start(m, now);
    w->w.no_put = pick(m, 8) == 0;
    w->w.no_delete = pick(m, 8) == 0;
    w->w.prev_kv = pick(m, 3) == 0;
    int64_t current = 0;
    assert_int_equal(watch_add(&w->w, &s->st, &current), 0);
    if (current != now) fault(m, "wrong current revision", current, now);
    w->wants = w->w.start > 0 ? w->w.start : now + 1;
}

static void drop_watcher(struct model *m, struct model_watcher *w)
{
    struct model_stream *s = (struct model_stream *)(void *)w->w.stream;
    watch_remove(&w->w);
    w->used = false;
    if (s->st.watcher_count == 0) s->owed = 0;
}

static void come_or_go(struct model *m)
{
    struct model_watcher *w = &m->watchers[pick(m, WATCHERS)];
    if (!w->used) {
        add_watcher(m, w);
    } else if (pick(m, 3) == 0 || w->overtaken) {
        drop_watcher(m, w);
    }
}

/* --- a run ------------------------------------------------------------------------------------------- */

static void act(struct model *m)
{
    uint64_t what = pick(m, 1000);
    if (what < 400) {
        end_entry(m);
        begin_entry(m);
        if (pick(m, 4) != 0) end_entry(m);
    } else if (what < 600) {
        publish(m);
    } else if (what < 850) {
        step(m);
    } else if (what < 950) {
        wake(m);
    } else if (what < 975) {
        come_or_go(m);
    } else if (what < 990) {
        ask(m);
    } else if (what < 993) {
        compact(m);
    } else if (what < 995) {
        store(m);
    }
}

static void settle(struct model *m)
{
    end_entry(m);
    publish(m);
    for (int i = 0; i < 100000 && m->fault[0] == '\0'; i++) {
        for (size_t k = 0; k < STREAMS; k++) {
            m->streams[k].room = 1000;
            m->streams[k].blocked = false;
            watch_stream_wake(&m->streams[k].st);
        }
        if (watch_shard_step(m->shard) == 0) return;
    }
    fault(m, "it does not come to rest", 0, 0);
}

static void check_all(struct model *m)
{
    for (size_t i = 0; i < WATCHERS && m->fault[0] == '\0'; i++) {
        struct model_watcher *w = &m->watchers[i];
        if (!w->used || w->overtaken) continue;
        const struct event *e = next_event(m, w, INT64_MAX);
        if (e != NULL) fault(m, "never sent", e->main, w->got);
    }
    if (watch_shard_position(m->shard) != mvcc_revision(m->k.m))
        fault(m, "the position lags at rest", watch_shard_position(m->shard), 0);
}

static void model_init(struct model *m, uint64_t seed)
{
    *m = (struct model){.next_value = 0};
    kit_init(&m->k);
    prng_init(&m->prng, seed);
    struct watch_opts o = {.mvcc = m->k.m,
                           .alloc = &m->k.alloc,
                           .ring_bytes_max = 4096 << (seed % 4),
                           .seed = seed,
                           .sink = {.arg = m,
                                    .writable = on_writable,
                                    .events = on_events,
                                    .overtaken = on_overtaken,
                                    .progress = on_progress,
                                    .failed = on_failed}};
    assert_int_equal(watch_shard_new(&o, &m->shard), 0);
    m->told = mvcc_revision(m->k.m);
    for (size_t i = 0; i < STREAMS; i++)
        watch_stream_open(&m->streams[i].st, m->shard);
}

static void model_deinit(struct model *m)
{
    end_entry(m);
    for (size_t i = 0; i < WATCHERS; i++) {
        if (m->watchers[i].used) drop_watcher(m, &m->watchers[i]);
    }
    for (size_t i = 0; i < STREAMS; i++)
        watch_stream_close(&m->streams[i].st);
    watch_shard_free(m->shard);
    free(m->events);
    kit_deinit(&m->k);
}

/* Until `events` events are written; the fault is in m->fault. */
static void model_run(struct model *m, size_t events)
{
    size_t checked = 0;
    while (m->count < events && m->fault[0] == '\0') {
        act(m);
        if (m->count < checked + 5000) continue;
        checked = m->count;
        settle(m);
        check_all(m);
    }
    if (m->fault[0] == '\0') settle(m);
    if (m->fault[0] == '\0') check_all(m);
}

#endif
