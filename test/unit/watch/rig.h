/* A shard over a small store, and a sink that writes down what it is given: "7:r4 a b" is a response to watcher 7, header
 * revision 4, with the keys a and b (of a deletion "-a", with a previous value "a<old"). */
#ifndef TEST_UNIT_WATCH_RIG_H
#define TEST_UNIT_WATCH_RIG_H

#include "../mvcc/kit.h"

#include "pb/wire.h"
#include "test_heap.h"
#include "watch/watch.h"

struct rig_watcher {
    struct watch_watcher w; /* first */
    int id;
};

struct rig {
    struct kit k;
    struct watch_shard *shard;
    struct watch_stream st;
    int room;
    int64_t told;
    size_t responses, events;
    bool quiet; /* count only */
    char said[4096];
};

static void say(struct rig *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct rig *r, const char *format, ...)
{
    size_t n = strlen(r->said);
    va_list args;
    va_start(args, format);
    if (!r->quiet) (void)vsnprintf(r->said + n, sizeof r->said - n, format, args);
    va_end(args);
}

UNUSED_FN static bool rig_writable(void *arg, struct watch_stream *st)
{
    (void)st;
    return ((struct rig *)arg)->room > 0;
}

static void say_event(struct rig *r, struct bytes piece)
{
    struct pb_reader outer = pb_reader_of(piece);
    struct pb_field f;
    struct pb_kv kv = {.lease = 0};
    struct pb_kv prev = {.lease = 0};
    bool deletion = false;
    assert_int_equal(pb_next(&outer, &f), 1);
    struct pb_reader in = pb_reader_of(f.data);
    while (pb_next(&in, &f) == 1) {
        if (f.number == 1) deletion = true;
        if (f.number == 2) assert_int_equal(pb_kv_decode(f.data, &kv), 0);
        if (f.number == 3) assert_int_equal(pb_kv_decode(f.data, &prev), 0);
    }
    say(r, " %s%.*s", deletion ? "-" : "", (int)kv.key.len, (const char *)kv.key.data);
    if (prev.key.len > 0) say(r, "<%.*s", (int)prev.value.len, (const char *)prev.value.data);
}

UNUSED_FN static int rig_events(void *arg, struct watch_watcher *w, const struct watch_out *out)
{
    struct rig *r = arg;
    if (r->room <= 0) return E_AGAIN;
    r->room--;
    r->responses++;
    r->events += out->count;
    if (r->quiet) return 0;
    say(r, "%d:r%lld", ((struct rig_watcher *)(void *)w)->id, (long long)out->revision);
    for (size_t i = 0; i < out->count; i++)
        say_event(r, out->pieces[i].bytes);
    say(r, "; ");
    return 0;
}

UNUSED_FN static int rig_overtaken(void *arg, struct watch_watcher *w, int64_t rev)
{
    struct rig *r = arg;
    say(r, "%d:compacted %lld; ", ((struct rig_watcher *)(void *)w)->id, (long long)rev);
    return 0;
}

UNUSED_FN static int rig_progress(void *arg, struct watch_stream *st, int64_t rev)
{
    (void)st;
    say(arg, "progress %lld; ", (long long)rev);
    return 0;
}

UNUSED_FN static void rig_failed(void *arg, struct watch_watcher *w, int rc)
{
    say(arg, "%d:%s; ", ((struct rig_watcher *)(void *)w)->id, err_symbol(rc));
}

/* Errors: E_NOMEM of `alloc`. */
UNUSED_FN static int rig_init(struct rig *r, const struct alloc *alloc)
{
    *r = (struct rig){.room = 1 << 30};
    kit_init(&r->k);
    r->told = mvcc_revision(r->k.m);
    struct watch_opts o = {.mvcc = r->k.m,
                           .alloc = alloc == NULL ? &r->k.alloc : alloc,
                           .seed = 7,
                           .sink = {.arg = r,
                                    .writable = rig_writable,
                                    .events = rig_events,
                                    .overtaken = rig_overtaken,
                                    .progress = rig_progress,
                                    .failed = rig_failed}};
    int rc = watch_shard_new(&o, &r->shard);
    if (rc == 0) watch_stream_open(&r->st, r->shard);
    return rc;
}

UNUSED_FN static void rig_deinit(struct rig *r)
{
    if (r->shard != NULL) watch_stream_close(&r->st);
    watch_shard_free(r->shard);
    kit_deinit(&r->k);
}

/* Tells the shard what was published, with a batch as the apply actor makes it, or without. */
UNUSED_FN static void rig_publish(struct rig *r, const struct alloc *alloc, bool batch)
{
    int64_t now = mvcc_revision(r->k.m);
    if (now == r->told) return;
    struct watch_batch *b =
        batch ? watch_batch_read(r->k.m, alloc == NULL ? &r->k.alloc : alloc, r->told + 1, now, 100)
              : NULL;
    r->told = now;
    watch_shard_publish(r->shard, now, b);
}

UNUSED_FN static void rig_rest(struct rig *r)
{
    for (int i = 0; watch_shard_step(r->shard) != 0; i++)
        assert_true(i < 1000000);
}

/* Publishes, works, and compares what was said since the last time. */
UNUSED_FN static void rig_expect(struct rig *r, const char *want)
{
    rig_publish(r, NULL, true);
    rig_rest(r);
    assert_string_equal(r->said, want);
    r->said[0] = '\0';
}

UNUSED_FN static struct rig_watcher rig_watcher(int id, const char *key, const char *end,
                                                int64_t start)
{
    struct rig_watcher w = {.id = id};
    w.w.key = bytes_str(key);
    w.w.end = end == NULL ? BYTES_EMPTY : *end == '\0' ? ALL_KEYS : bytes_str(end);
    w.w.start = start;
    return w;
}

UNUSED_FN static void rig_add(struct rig *r, struct rig_watcher *w)
{
    int64_t current = 0;
    assert_int_equal(watch_add(&w->w, &r->st, &current), 0);
    assert_int_equal(current, mvcc_revision(r->k.m));
}

#endif
