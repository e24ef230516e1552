/* Events of a span of revisions, read from history and encoded once. */
#include "watch/batch.h"

#include "base/assert.h"
#include "base/err.h"
#include "pb/kv.h"
#include "pb/wire.h"
#include "watch/watch_int.h"

enum {
    FIELD_TYPE = 1,
    FIELD_KV = 2,
    FIELD_KEY = 1,
    FIELD_MOD_REVISION = 3,
    TYPE_DELETE = 1,
    EVENTS_FIRST = 4,
    BYTES_FIRST = 256,
    /* What the apply actor copies at once: a millisecond. */
    BATCH_BYTES_MAX = 4 * 1024 * 1024
};

/* --- life -------------------------------------------------------------------------------------- */

struct watch_batch *watch_batch_ref(struct watch_batch *b)
{
    if (b != NULL) atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void watch_batch_unref(struct watch_batch *b)
{
    if (b == NULL || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1) return;
    const struct alloc *a = b->alloc;
    alloc_free(a, b->events, b->cap * sizeof *b->events);
    rcbuf_unref(b->bytes);
    alloc_free(a, b, sizeof *b);
}

size_t watch_batch_find(const struct watch_batch *b, int64_t rev)
{
    size_t low = 0;
    size_t high = b->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (b->events[mid].main < rev) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

size_t watch_batch_bytes(const struct watch_batch *b)
{
    return sizeof *b + b->cap * sizeof *b->events + (b->bytes == NULL ? 0 : b->bytes->len);
}

/* --- growing ----------------------------------------------------------------------------------- */

static int reserve_event(struct watch_batch *b)
{
    if (b->count < b->cap) return 0;
    size_t cap = b->cap == 0 ? EVENTS_FIRST : b->cap * 2;
    struct watch_event *grown = b->alloc->resize(
        b->alloc->arg, b->events, b->cap * sizeof *b->events, cap * sizeof *b->events);
    if (grown == NULL) return E_NOMEM;
    b->events = grown;
    b->cap = cap;
    return 0;
}

/* The buffer is not shared yet: it may be replaced by a larger one. */
static int reserve_bytes(struct watch_batch *b, size_t more)
{
    size_t cap = b->bytes == NULL ? 0 : b->bytes->len;
    if (cap - b->used >= more) return 0;
    size_t want = cap == 0 ? BYTES_FIRST : cap * 2;
    while (want < b->used + more)
        want *= 2;
    struct rcbuf *grown = rcbuf_new(b->alloc, want);
    if (grown == NULL) return E_NOMEM;
    if (b->used > 0) memcpy(grown->data, b->bytes->data, b->used);
    rcbuf_unref(b->bytes);
    b->bytes = grown;
    return 0;
}

/* A stored deletion names its key only; its event tells the revision too. */
static size_t kv_size(const struct mvcc_change *c)
{
    return c->kv.len + (c->deletion ? pb_uint_size(FIELD_MOD_REVISION, (uint64_t)c->main) : 0);
}

static int add(struct watch_batch *b, const struct mvcc_change *c)
{
    struct pb_kv kv;
    if (pb_kv_decode(c->kv, &kv) < 0) return E_CORRUPT;
    size_t inner = kv_size(c);
    size_t body = (c->deletion ? pb_uint_size(FIELD_TYPE, TYPE_DELETE) : 0) +
                  pb_len_size(FIELD_KV, inner);
    size_t len = pb_len_size(WATCH_FIELD_EVENT, body);
    if (len > UINT32_MAX) return E_CORRUPT;
    int rc = reserve_event(b);
    if (rc == 0) rc = reserve_bytes(b, len);
    if (rc < 0) return rc;
    uint8_t *piece = b->bytes->data + b->used;
    uint8_t *start = pb_write_len(piece, WATCH_FIELD_EVENT, body);
    uint8_t *at = c->deletion ? pb_write_uint(start, FIELD_TYPE, TYPE_DELETE) : start;
    uint8_t *stored = pb_write_len(at, FIELD_KV, inner);
    memcpy(stored, c->kv.data, c->kv.len);
    if (c->deletion) (void)pb_write_uint(stored + c->kv.len, FIELD_MOD_REVISION, (uint64_t)c->main);
    size_t key_at = kv.key.len == 0 ? 0
                                    : (size_t)(stored - piece) + (size_t)(kv.key.data - c->kv.data);
    b->events[b->count++] =
        (struct watch_event){.main = c->main,
                             .at = b->used,
                             .len = (uint32_t)len,
                             .body = (uint32_t)(start - piece),
                             .key_at = (uint32_t)key_at,
                             .key_len = (uint32_t)kv.key.len,
                             .deletion = c->deletion,
                             .creation = !c->deletion && kv.create_revision == kv.mod_revision};
    b->used += len;
    return 0;
}

struct watch_batch *watch__batch_new(const struct alloc *alloc, int64_t from, int64_t to)
{
    struct watch_batch *b = alloc_zero(alloc, sizeof *b);
    if (b == NULL) return NULL;
    atomic_init(&b->refs, 1);
    b->alloc = alloc;
    b->from = from;
    b->to = to;
    return b;
}

int watch__batch_append(struct watch_batch *out, const struct watch_batch *b, int64_t from)
{
    ASSERT(out->to < from && from <= b->to);
    for (size_t i = watch_batch_find(b, from); i < b->count; i++) {
        struct watch_event e = b->events[i];
        int rc = reserve_event(out);
        if (rc == 0) rc = reserve_bytes(out, e.len);
        if (rc < 0) return rc;
        memcpy(out->bytes->data + out->used, b->bytes->data + e.at, e.len);
        e.at = out->used;
        out->used += e.len;
        out->events[out->count++] = e;
    }
    out->to = b->to;
    return 0;
}

/* --- reading history --------------------------------------------------------------------------- */

int watch_builder_open(struct watch_builder *b, struct mvcc *m, const struct alloc *alloc,
                       int64_t from, int64_t to)
{
    ASSERT(b->batch == NULL);
    ASSERT(from > 0 && from <= to);
    struct watch_batch *batch = watch__batch_new(alloc, from, to);
    if (batch == NULL) return E_NOMEM;
    int rc = mvcc_view_open_history(m, from, &b->view);
    if (rc < 0) {
        alloc_free(alloc, batch, sizeof *batch);
        return rc;
    }
    ASSERT(to <= b->view.rev);
    mvcc_history_init(&b->history, &b->view, from, to);
    if (PLANTED(PLANT_EARLY)) b->history.to = to + 1;
    b->batch = batch;
    b->last = 0;
    b->events_max = WATCH_SLICE_EVENTS;
    b->bytes_max = WATCH_SLICE_BYTES;
    b->step_bytes_max = WATCH_STEP_BYTES;
    return 0;
}

static bool is_full(const struct watch_builder *b)
{
    return b->batch->count >= b->events_max || b->batch->used >= b->bytes_max;
}

/* 1: the row is in; 0: the batch is complete. */
static int read_row(struct watch_builder *b, struct errmsg *em)
{
    struct mvcc_change c;
    int rc = mvcc_history_next(&b->history, &c, em);
    if (rc == E_NOTFOUND) return 0;
    if (rc < 0) return rc;
    if (c.main != b->last && is_full(b)) {
        b->batch->to = c.main - 1;
        return 0;
    }
    b->last = c.main;
    rc = add(b->batch, &c);
    return rc < 0 ? rc : 1;
}

int watch_builder_step(struct watch_builder *b, size_t rows_max, struct errmsg *em)
{
    ASSERT(b->batch != NULL);
    int rc = 1;
    size_t used = b->batch->used;
    for (size_t i = 0; i < rows_max && rc == 1; i++) {
        if (b->batch->used - used >= b->step_bytes_max) break;
        rc = read_row(b, em);
    }
    if (rc < 0) watch_builder_close(b);
    return rc;
}

struct watch_batch *watch_builder_take(struct watch_builder *b)
{
    struct watch_batch *batch = b->batch;
    ASSERT(batch != NULL);
    b->batch = NULL;
    mvcc_history_deinit(&b->history);
    mvcc_view_close(&b->view);
    return batch;
}

void watch_builder_close(struct watch_builder *b)
{
    if (b->batch != NULL) watch_batch_unref(watch_builder_take(b));
}

struct watch_batch *watch_batch_read(struct mvcc *m, const struct alloc *alloc, int64_t from,
                                     int64_t to, size_t events_max)
{
    struct watch_builder b = {.batch = NULL};
    struct errmsg em = {""};
    if (watch_builder_open(&b, m, alloc, from, to) < 0) return NULL;
    b.bytes_max = b.step_bytes_max = BATCH_BYTES_MAX;
    int rc = watch_builder_step(&b, events_max, &em);
    if (rc == 0) return watch_builder_take(&b);
    watch_builder_close(&b);
    return NULL;
}
