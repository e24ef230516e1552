/* The in-memory store.
 *
 * Idea: nothing that a reader can see is ever changed. A committed state is ten tables; a table is an array of
 * leaves; a leaf is a short sorted array of rows; all are reference-counted and shared between states. The write
 * transaction copies a table's array when it first touches the table, and a leaf when it first changes it: one
 * whose only holder is the transaction's own array can be seen by nobody else and is changed in place. So
 * a snapshot costs one reference, and a crash is going back to a state that is still held.
 *
 * Rejected: a persistent balanced tree (copies less per commit, but is several times the code), versions per row
 * (readers and writer would share a structure that changes). */
#include "backend/memory.h"

#include <pthread.h>

#include "backend/memory_rows.h"
#include "base/assert.h"
#include "base/err.h"

enum {
    PAGE_BYTES = 4096,
    PAGES_FIRST = 2 /* an empty store's: both meta pages */
};

struct state {
    atomic_uint refs;
    struct rows *table[TABLE_COUNT]; /* NULL: empty */
    uint64_t row_bytes;              /* of all rows */
    uint64_t pages_used;             /* the most there ever were, as a file does not shrink */
    uint64_t commit_count;
};

struct backend_read {
    struct backend_memory *store;
    struct state *state;
    unsigned cursor_count;
};

struct backend_cursor {
    struct backend_read *read;
    const struct rows *rows; /* NULL: none */
    size_t leaf;
    unsigned row;
};

struct backend_tx {
    struct backend_memory *store;
    struct rows *table[TABLE_COUNT]; /* this transaction's copies; NULL: not touched */
    uint64_t row_bytes;
    bool open, failed;
};

struct backend_memory {
    struct alloc alloc;
    pthread_mutex_t lock; /* over taking a reference to `now`, which may be replaced meanwhile */
    struct state *now;    /* the newest committed state */
    struct state *before; /* the one before it; NULL when there is none to go back to */
    struct backend_tx tx;
    backend_memory_fault_fn fault;
    void *fault_arg;
    uint64_t bytes_max;
};

/* --- states -------------------------------------------------------------------------------- */

static void state_unref(const struct alloc *a, struct state *s)
{
    if (s == NULL || !memory__unref(&s->refs)) return;
    for (unsigned t = 0; t < TABLE_COUNT; t++)
        memory__rows_unref(a, s->table[t]);
    alloc_free(a, s, sizeof *s);
}

static struct state *state_new(const struct alloc *a)
{
    struct state *s = alloc_zero(a, sizeof *s);
    if (s == NULL) return NULL;
    atomic_init(&s->refs, 1);
    s->pages_used = PAGES_FIRST;
    return s;
}

/* The transaction's copy of a table. */
static struct rows *touch(struct backend_tx *tx, enum table t)
{
    if (tx->table[t] == NULL) {
        tx->table[t] = memory__rows_copy(&tx->store->alloc, tx->store->now->table[t]);
    }
    return tx->table[t];
}

/* --- the write side ---------------------------------------------------------------------------------- */

static int ask_fault(struct backend_memory *m, enum backend_memory_op op, struct errmsg *em)
{
    int rc = m->fault == NULL ? 0 : m->fault(m->fault_arg, op);
    if (rc < 0) errmsg_set(em, "backend: %s", err_text(rc));
    return rc;
}

static int memory_begin(void *arg, struct backend_tx **out, struct errmsg *em)
{
    struct backend_memory *m = arg;
    (void)em;
    ASSERT(!m->tx.open);
    m->tx = (struct backend_tx){.store = m, .open = true, .row_bytes = m->now->row_bytes};
    *out = &m->tx;
    return 0;
}

static void tx_end(struct backend_tx *tx)
{
    ASSERT(tx->open);
    tx->open = false;
    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        memory__rows_unref(&tx->store->alloc, tx->table[t]);
        tx->table[t] = NULL;
    }
}

static int failed(struct backend_tx *tx, int rc, struct errmsg *em)
{
    tx->failed = true;
    errmsg_set(em, "backend put: %s", err_text(rc));
    return rc;
}

static int memory_put(struct backend_tx *tx, enum table t, struct bytes key, struct bytes value,
                      struct errmsg *em)
{
    ASSERT(tx->open && !tx->failed);
    ASSERT((unsigned)t < TABLE_COUNT);
    struct backend_memory *m = tx->store;
    int rc = ask_fault(m, BACKEND_MEMORY_PUT, em);
    if (rc < 0) return failed(tx, rc, em);
    if (touch(tx, t) == NULL) return failed(tx, E_NOMEM, em);
    const struct row *old = memory__lookup(tx->table[t], key);
    uint64_t weight = ROW_COST_BYTES + key.len + value.len;
    uint64_t old_weight = old == NULL ? 0 : memory__row_weight(old);
    bool larger = weight > old_weight;
    if (m->bytes_max != 0 && larger && tx->row_bytes - old_weight + weight > m->bytes_max) {
        return failed(tx, E_NOSPACE, em);
    }
    rc = memory__rows_put(&m->alloc, &tx->table[t], key, value, &tx->row_bytes);
    return rc < 0 ? failed(tx, rc, em) : 0;
}

static int memory_del(struct backend_tx *tx, enum table t, struct bytes key, struct errmsg *em)
{
    ASSERT(tx->open && !tx->failed);
    ASSERT((unsigned)t < TABLE_COUNT);
    struct rows *rows = touch(tx, t);
    if (rows == NULL) return failed(tx, E_NOMEM, em);
    int rc = memory__rows_del(&tx->store->alloc, rows, key, &tx->row_bytes);
    return rc < 0 ? failed(tx, rc, em) : 0;
}

static uint64_t pages_for(uint64_t row_bytes)
{
    return PAGES_FIRST + (row_bytes + PAGE_BYTES - 1) / PAGE_BYTES;
}

/* The state that the transaction makes; takes its tables. */
static struct state *seal(struct backend_tx *tx)
{
    struct backend_memory *m = tx->store;
    struct state *s = state_new(&m->alloc);
    if (s == NULL) return NULL;
    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        s->table[t] = tx->table[t] != NULL ? tx->table[t] : m->now->table[t];
        if (tx->table[t] == NULL && s->table[t] != NULL) memory__ref(&s->table[t]->refs);
        tx->table[t] = NULL;
    }
    uint64_t pages = pages_for(tx->row_bytes);
    s->row_bytes = tx->row_bytes;
    s->pages_used = pages > m->now->pages_used ? pages : m->now->pages_used;
    s->commit_count = m->now->commit_count + 1;
    return s;
}

static int memory_commit(struct backend_tx *tx, struct errmsg *em)
{
    ASSERT(tx->open && !tx->failed);
    struct backend_memory *m = tx->store;
    int rc = ask_fault(m, BACKEND_MEMORY_COMMIT, em);
    struct state *s = rc < 0 ? NULL : seal(tx);
    if (rc == 0 && s == NULL) rc = E_NOMEM;
    tx_end(tx);
    if (rc < 0) return rc;
    struct state *forgotten = m->before;
    (void)pthread_mutex_lock(&m->lock);
    m->before = m->now;
    m->now = s;
    (void)pthread_mutex_unlock(&m->lock);
    state_unref(&m->alloc, forgotten);
    return 0;
}

static void memory_abort(struct backend_tx *tx)
{
    tx_end(tx);
}

/* --- the read side ----------------------------------------------------------------------------------- */

static struct state *state_ref(struct backend_memory *m)
{
    (void)pthread_mutex_lock(&m->lock);
    struct state *s = m->now;
    memory__ref(&s->refs);
    (void)pthread_mutex_unlock(&m->lock);
    return s;
}

static int memory_read_begin(void *arg, struct backend_read **out, struct errmsg *em)
{
    struct backend_memory *m = arg;
    struct backend_read *r = alloc_zero(&m->alloc, sizeof *r);
    if (r == NULL) {
        errmsg_set(em, "backend read: %s", err_text(E_NOMEM));
        return E_NOMEM;
    }
    r->store = m;
    r->state = state_ref(m);
    *out = r;
    return 0;
}

static void memory_read_end(struct backend_read *r)
{
    ASSERT(r->cursor_count == 0);
    state_unref(&r->store->alloc, r->state);
    alloc_free(&r->store->alloc, r, sizeof *r);
}

static int memory_get(struct backend_read *r, enum table t, struct bytes key, struct bytes *value)
{
    ASSERT((unsigned)t < TABLE_COUNT);
    const struct row *row = memory__lookup(r->state->table[t], key);
    if (row == NULL) return E_NOTFOUND;
    *value = memory__row_value(row);
    return 0;
}

static int memory_cursor_open(struct backend_read *r, enum table t, struct backend_cursor **out)
{
    ASSERT((unsigned)t < TABLE_COUNT);
    struct backend_cursor *c = alloc_zero(&r->store->alloc, sizeof *c);
    if (c == NULL) return E_NOMEM;
    c->read = r;
    c->rows = r->state->table[t];
    r->cursor_count++;
    *out = c;
    return 0;
}

static void memory_cursor_close(struct backend_cursor *c)
{
    ASSERT(c->read->cursor_count > 0);
    c->read->cursor_count--;
    alloc_free(&c->read->store->alloc, c, sizeof *c);
}

/* Gives the row the cursor stands at, or the first of the next leaf. */
static int give(struct backend_cursor *c, struct bytes *k, struct bytes *v)
{
    if (c->rows == NULL || c->leaf >= c->rows->count) return E_NOTFOUND;
    if (c->row >= c->rows->leaf[c->leaf]->count) {
        c->leaf++;
        c->row = 0;
        if (c->leaf == c->rows->count) return E_NOTFOUND;
    }
    const struct row *r = c->rows->leaf[c->leaf]->row[c->row];
    if (k != NULL) *k = memory__row_key(r);
    if (v != NULL) *v = memory__row_value(r);
    return 0;
}

static int memory_seek(struct backend_cursor *c, struct bytes key, struct bytes *k, struct bytes *v)
{
    if (c->rows == NULL || c->rows->count == 0) return E_NOTFOUND;
    c->leaf = memory__find_leaf(c->rows, key);
    c->row = memory__find_row(c->rows->leaf[c->leaf], key);
    return give(c, k, v);
}

static int memory_next(struct backend_cursor *c, struct bytes *k, struct bytes *v)
{
    if (c->rows == NULL || c->leaf >= c->rows->count) return E_NOTFOUND;
    c->row++;
    return give(c, k, v);
}

static int memory_size(void *arg, struct backend_size *out)
{
    struct backend_memory *m = arg;
    struct state *s = state_ref(m);
    out->total_bytes = s->pages_used * PAGE_BYTES;
    out->in_use_bytes = pages_for(s->row_bytes) * PAGE_BYTES;
    state_unref(&m->alloc, s);
    return 0;
}

/* --- the handle -------------------------------------------------------------------------------------- */

struct backend_memory *backend_memory_new(const struct alloc *alloc)
{
    struct backend_memory *m = alloc_zero(alloc, sizeof *m);
    if (m == NULL) return NULL;
    m->alloc = *alloc;
    m->now = state_new(alloc);
    if (m->now == NULL || pthread_mutex_init(&m->lock, NULL) != 0) {
        state_unref(alloc, m->now);
        alloc_free(alloc, m, sizeof *m);
        return NULL;
    }
    return m;
}

void backend_memory_free(struct backend_memory *m)
{
    if (m == NULL) return;
    ASSERT(!m->tx.open);
    struct alloc a = m->alloc;
    state_unref(&a, m->now);
    state_unref(&a, m->before);
    (void)pthread_mutex_destroy(&m->lock);
    alloc_free(&a, m, sizeof *m);
}

struct backend backend_memory_face(struct backend_memory *m)
{
    ASSERT(m != NULL);
    return (struct backend){
        .begin = memory_begin,
        .put = memory_put,
        .del = memory_del,
        .commit = memory_commit,
        .abort = memory_abort,
        .read_begin = memory_read_begin,
        .read_end = memory_read_end,
        .get = memory_get,
        .cursor_open = memory_cursor_open,
        .cursor_close = memory_cursor_close,
        .seek = memory_seek,
        .next = memory_next,
        .size = memory_size,
        .arg = m,
    };
}

void backend_memory_crash(struct backend_memory *m, enum backend_crash how)
{
    if (m->tx.open) tx_end(&m->tx);
    if (how == BACKEND_CRASH_KEEP || m->before == NULL) return;
    (void)pthread_mutex_lock(&m->lock);
    struct state *lost = m->now;
    m->now = m->before;
    m->before = NULL;
    (void)pthread_mutex_unlock(&m->lock);
    state_unref(&m->alloc, lost);
}

uint64_t backend_memory_commit_count(const struct backend_memory *m)
{
    return m->now->commit_count;
}

void backend_memory_set_fault(struct backend_memory *m, backend_memory_fault_fn fn, void *arg)
{
    m->fault = fn;
    m->fault_arg = arg;
}

void backend_memory_set_bytes_max(struct backend_memory *m, uint64_t bytes_max)
{
    m->bytes_max = bytes_max;
}
