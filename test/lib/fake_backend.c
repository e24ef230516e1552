/* Versions are copies of arrays of pointers: simple, and fast enough for some million rows. */
#include "fake_backend.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/err.h"

struct fake_row {
    struct fake_row *next;
    struct bytes key;
    struct bytes value;
    uint8_t data[];
};

struct fake_table {
    const struct fake_row **rows;
    size_t count, cap;
};

struct fake_version {
    unsigned refs; /* guarded by the mutex */
    struct fake_table tables[TABLE_COUNT];
};

struct backend_tx {
    struct fake_backend *b;
    struct fake_version *v;
};

struct backend_read {
    struct fake_backend *b;
    struct fake_version *v;
};

struct backend_cursor {
    const struct fake_table *t;
    size_t at;
};

static void *must(void *p)
{
    if (p == NULL) abort();
    return p;
}

static void version_drop(struct fake_version *v)
{
    if (--v->refs > 0) return;
    for (int t = 0; t < TABLE_COUNT; t++) {
        free(v->tables[t].rows);
    }
    free(v);
}

static struct fake_version *version_copy(const struct fake_version *old)
{
    struct fake_version *v = must(calloc(1, sizeof *v));
    v->refs = 1;
    for (int t = 0; t < TABLE_COUNT; t++) {
        const struct fake_table *o = &old->tables[t];
        struct fake_table *n = &v->tables[t];
        n->count = o->count;
        n->cap = o->count + 16;
        n->rows = must(malloc(n->cap * sizeof *n->rows));
        if (o->count > 0) memcpy(n->rows, o->rows, o->count * sizeof *n->rows);
    }
    return v;
}

static size_t lower(const struct fake_table *t, struct bytes key)
{
    size_t lo = 0, hi = t->count;
    if (hi > 0 && bytes_cmp(t->rows[hi - 1]->key, key) < 0) return hi;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (bytes_cmp(t->rows[mid]->key, key) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static bool is_at(const struct fake_table *t, size_t i, struct bytes key)
{
    return i < t->count && bytes_eq(t->rows[i]->key, key);
}

static int fake_begin(void *arg, struct backend_tx **out, struct errmsg *em)
{
    struct fake_backend *b = arg;
    struct backend_tx *tx = must(malloc(sizeof *tx));
    *tx = (struct backend_tx){b, version_copy(b->now)};
    *out = tx;
    return 0;
}

static const struct fake_row *row_new(struct fake_backend *b, struct bytes key, struct bytes value)
{
    struct fake_row *row = must(malloc(sizeof *row + key.len + value.len));
    if (key.len > 0) memcpy(row->data, key.data, key.len);
    if (value.len > 0) memcpy(row->data + key.len, value.data, value.len);
    row->key = bytes_of(row->data, key.len);
    row->value = bytes_of(row->data + key.len, value.len);
    row->next = b->all;
    b->all = row;
    return row;
}

static int fake_put(struct backend_tx *tx, enum table which, struct bytes key, struct bytes value,
                    struct errmsg *em)
{
    struct fake_table *t = &tx->v->tables[which];
    size_t i = lower(t, key);
    const struct fake_row *row = row_new(tx->b, key, value);
    if (is_at(t, i, key)) {
        t->rows[i] = row;
        return 0;
    }
    if (t->count == t->cap) {
        t->cap *= 2;
        t->rows = must(realloc(t->rows, t->cap * sizeof *t->rows));
    }
    memmove(t->rows + i + 1, t->rows + i, (t->count - i) * sizeof *t->rows);
    t->rows[i] = row;
    t->count++;
    return 0;
}

static int fake_del(struct backend_tx *tx, enum table which, struct bytes key, struct errmsg *em)
{
    struct fake_table *t = &tx->v->tables[which];
    size_t i = lower(t, key);
    if (!is_at(t, i, key)) return 0;
    memmove(t->rows + i, t->rows + i + 1, (t->count - i - 1) * sizeof *t->rows);
    t->count--;
    return 0;
}

static int fake_commit(struct backend_tx *tx, struct errmsg *em)
{
    struct fake_backend *b = tx->b;
    pthread_mutex_lock(&b->mutex);
    version_drop(b->now);
    b->now = tx->v;
    pthread_mutex_unlock(&b->mutex);
    free(tx);
    return 0;
}

static void fake_abort(struct backend_tx *tx)
{
    version_drop(tx->v);
    free(tx);
}

static int fake_read_begin(void *arg, struct backend_read **out, struct errmsg *em)
{
    struct fake_backend *b = arg;
    pthread_mutex_lock(&b->mutex);
    int rc = b->fail_begin;
    b->fail_begin = 0;
    struct fake_version *v = b->now;
    if (rc == 0) {
        v->refs++;
        b->open_reads++;
    }
    pthread_mutex_unlock(&b->mutex);
    if (rc < 0) return rc;
    *out = must(malloc(sizeof **out));
    **out = (struct backend_read){b, v};
    return 0;
}

static void fake_read_end(struct backend_read *r)
{
    pthread_mutex_lock(&r->b->mutex);
    version_drop(r->v);
    r->b->open_reads--;
    pthread_mutex_unlock(&r->b->mutex);
    free(r);
}

static int fake_get(struct backend_read *r, enum table which, struct bytes key, struct bytes *value)
{
    const struct fake_table *t = &r->v->tables[which];
    size_t i = lower(t, key);
    if (!is_at(t, i, key)) return E_NOTFOUND;
    *value = t->rows[i]->value;
    return 0;
}

static int fake_cursor_open(struct backend_read *r, enum table which, struct backend_cursor **out)
{
    *out = must(malloc(sizeof **out));
    **out = (struct backend_cursor){&r->v->tables[which], 0};
    return 0;
}

static void fake_cursor_close(struct backend_cursor *c)
{
    free(c);
}

static int cursor_row(const struct backend_cursor *c, struct bytes *k, struct bytes *v)
{
    if (c->at >= c->t->count) return E_NOTFOUND;
    if (k != NULL) *k = c->t->rows[c->at]->key;
    if (v != NULL) *v = c->t->rows[c->at]->value;
    return 0;
}

static int fake_seek(struct backend_cursor *c, struct bytes key, struct bytes *k, struct bytes *v)
{
    c->at = lower(c->t, key);
    return cursor_row(c, k, v);
}

static int fake_next(struct backend_cursor *c, struct bytes *k, struct bytes *v)
{
    if (c->at < c->t->count) c->at++;
    return cursor_row(c, k, v);
}

static int fake_size(void *arg, struct backend_size *out)
{
    *out = (struct backend_size){0};
    return 0;
}

void fake_backend_init(struct fake_backend *b)
{
    *b = (struct fake_backend){
        .face = {.begin = fake_begin,
                 .put = fake_put,
                 .del = fake_del,
                 .commit = fake_commit,
                 .abort = fake_abort,
                 .read_begin = fake_read_begin,
                 .read_end = fake_read_end,
                 .get = fake_get,
                 .cursor_open = fake_cursor_open,
                 .cursor_close = fake_cursor_close,
                 .seek = fake_seek,
                 .next = fake_next,
                 .size = fake_size,
                 .arg = b},
    };
    pthread_mutex_init(&b->mutex, NULL);
    b->now = must(calloc(1, sizeof *b->now));
    b->now->refs = 1;
}

void fake_backend_deinit(struct fake_backend *b)
{
    ASSERT(b->open_reads == 0);
    version_drop(b->now);
    while (b->all != NULL) {
        struct fake_row *row = b->all;
        b->all = row->next;
        free(row);
    }
    pthread_mutex_destroy(&b->mutex);
}

void fake_backend_set(struct fake_backend *b, enum table t, struct bytes key, struct bytes value)
{
    struct backend_tx *tx;
    fake_begin(b, &tx, NULL);
    fake_put(tx, t, key, value, NULL);
    fake_commit(tx, NULL);
}

size_t fake_backend_count(const struct fake_backend *b, enum table t)
{
    return b->now->tables[t].count;
}
