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
#include <stdatomic.h>

#include "base/assert.h"
#include "base/err.h"

enum {
    LEAF_ROWS_MAX = 64,
    ROW_COST_BYTES =
        16, /* what a row weighs beside key and value: pointer and node in LMDB, rounded up */
    PAGE_BYTES = 4096,
    PAGES_FIRST = 2 /* an empty store's: both meta pages */
};

struct row {
    atomic_uint refs;
    size_t key_bytes, value_bytes;
    uint8_t data[]; /* key, value */
};

struct leaf {
    atomic_uint refs;
    unsigned count; /* > 0 in a table */
    struct row *row[LEAF_ROWS_MAX];
};

struct rows { /* a table's content */
    atomic_uint refs;
    size_t count, cap;
    struct leaf *leaf[];
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

/* --- references ------------------------------------------------------------------------------------- */

static void ref(atomic_uint *refs)
{
    unsigned before = atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
    ASSERT(before > 0);
}

static bool unref(atomic_uint *refs)
{
    unsigned before = atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel);
    ASSERT(before > 0);
    return before == 1;
}

static bool is_mine(atomic_uint *refs)
{
    return atomic_load_explicit(refs, memory_order_acquire) == 1;
}

static void row_unref(const struct alloc *a, struct row *r)
{
    if (unref(&r->refs)) alloc_free(a, r, sizeof *r + r->key_bytes + r->value_bytes);
}

static void leaf_unref(const struct alloc *a, struct leaf *l)
{
    if (!unref(&l->refs)) return;
    for (unsigned i = 0; i < l->count; i++)
        row_unref(a, l->row[i]);
    alloc_free(a, l, sizeof *l);
}

static size_t rows_bytes(size_t cap)
{
    return sizeof(struct rows) + cap * sizeof(struct leaf *);
}

static void rows_unref(const struct alloc *a, struct rows *t)
{
    if (t == NULL || !unref(&t->refs)) return;
    for (size_t i = 0; i < t->count; i++)
        leaf_unref(a, t->leaf[i]);
    alloc_free(a, t, rows_bytes(t->cap));
}

static void state_unref(const struct alloc *a, struct state *s)
{
    if (s == NULL || !unref(&s->refs)) return;
    for (unsigned t = 0; t < TABLE_COUNT; t++)
        rows_unref(a, s->table[t]);
    alloc_free(a, s, sizeof *s);
}

/* --- making ----------------------------------------------------------------------------------------- */

static struct row *row_new(const struct alloc *a, struct bytes key, struct bytes value)
{
    struct row *r = alloc_new(a, sizeof *r + key.len + value.len);
    if (r == NULL) return NULL;
    atomic_init(&r->refs, 1);
    r->key_bytes = key.len;
    r->value_bytes = value.len;
    if (key.len != 0) memcpy(r->data, key.data, key.len);
    if (value.len != 0) memcpy(r->data + key.len, value.data, value.len);
    return r;
}

static struct bytes row_key(const struct row *r)
{
    return bytes_of(r->data, r->key_bytes);
}

static struct bytes row_value(const struct row *r)
{
    return bytes_of(r->data + r->key_bytes, r->value_bytes);
}

static uint64_t row_weight(const struct row *r)
{
    return ROW_COST_BYTES + r->key_bytes + r->value_bytes;
}

static struct leaf *leaf_new(const struct alloc *a)
{
    struct leaf *l = alloc_zero(a, sizeof *l);
    if (l != NULL) atomic_init(&l->refs, 1);
    return l;
}

static struct leaf *leaf_copy(const struct alloc *a, const struct leaf *from)
{
    struct leaf *l = leaf_new(a);
    if (l == NULL) return NULL;
    l->count = from->count;
    for (unsigned i = 0; i < l->count; i++) {
        l->row[i] = from->row[i];
        ref(&l->row[i]->refs);
    }
    return l;
}

static struct rows *rows_copy(const struct alloc *a, const struct rows *from)
{
    size_t count = from == NULL ? 0 : from->count, cap = count + 1 + count / 2;
    struct rows *t = alloc_new(a, rows_bytes(cap));
    if (t == NULL) return NULL;
    atomic_init(&t->refs, 1);
    t->count = count;
    t->cap = cap;
    for (size_t i = 0; i < count; i++) {
        t->leaf[i] = from->leaf[i];
        ref(&t->leaf[i]->refs);
    }
    return t;
}

static struct state *state_new(const struct alloc *a)
{
    struct state *s = alloc_zero(a, sizeof *s);
    if (s == NULL) return NULL;
    atomic_init(&s->refs, 1);
    s->pages_used = PAGES_FIRST;
    return s;
}

/* --- finding ---------------------------------------------------------------------------------------- */

/* The last leaf whose first key is <= `key`; 0 when there is none. */
static size_t find_leaf(const struct rows *t, struct bytes key)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (bytes_cmp(row_key(t->leaf[mid]->row[0]), key) <= 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low == 0 ? 0 : low - 1;
}

/* The first row >= `key`; `count` when there is none. */
static unsigned find_row(const struct leaf *l, struct bytes key)
{
    unsigned low = 0, high = l->count;
    while (low < high) {
        unsigned mid = low + (high - low) / 2;
        if (bytes_cmp(row_key(l->row[mid]), key) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static const struct row *lookup(const struct rows *t, struct bytes key)
{
    if (t == NULL || t->count == 0) return NULL;
    const struct leaf *l = t->leaf[find_leaf(t, key)];
    unsigned i = find_row(l, key);
    return i < l->count && bytes_eq(row_key(l->row[i]), key) ? l->row[i] : NULL;
}

/* --- changing --------------------------------------------------------------------------------------- */

/* The transaction's copy of a table. */
static struct rows *touch(struct backend_tx *tx, enum table t)
{
    if (tx->table[t] == NULL) {
        tx->table[t] = rows_copy(&tx->store->alloc, tx->store->now->table[t]);
    }
    return tx->table[t];
}

static struct leaf *touch_leaf(const struct alloc *a, struct rows *t, size_t i)
{
    struct leaf *old = t->leaf[i];
    if (is_mine(&old->refs)) return old;
    struct leaf *l = leaf_copy(a, old);
    if (l == NULL) return NULL;
    t->leaf[i] = l;
    leaf_unref(a, old);
    return l;
}

/* Puts `l` into the array at `at`, growing it when it is full. */
static int insert_leaf(const struct alloc *a, struct rows **table, size_t at, struct leaf *l)
{
    struct rows *t = *table;
    if (t->count == t->cap) {
        size_t cap = t->cap * 2;
        struct rows *grown = a->resize(a->arg, t, rows_bytes(t->cap), rows_bytes(cap));
        if (grown == NULL) return E_NOMEM;
        grown->cap = cap;
        *table = t = grown;
    }
    ASSERT(at <= t->count);
    memmove(&t->leaf[at + 1], &t->leaf[at], (t->count - at) * sizeof t->leaf[0]);
    t->leaf[at] = l;
    t->count++;
    return 0;
}

/* Moves the upper half of a full leaf to a new one behind it; none of it when rows only grow. */
static int split(const struct alloc *a, struct rows **table, size_t at, unsigned from)
{
    struct leaf *l = (*table)->leaf[at], *upper = leaf_new(a);
    if (upper == NULL) return E_NOMEM;
    int rc = insert_leaf(a, table, at + 1, upper);
    if (rc < 0) {
        alloc_free(a, upper, sizeof *upper);
        return rc;
    }
    upper->count = l->count - from;
    memcpy(upper->row, &l->row[from], upper->count * sizeof upper->row[0]);
    l->count = from;
    return 0;
}

static void insert_row(struct leaf *l, unsigned at, struct row *r)
{
    ASSERT(l->count < LEAF_ROWS_MAX && at <= l->count);
    memmove(&l->row[at + 1], &l->row[at], (l->count - at) * sizeof l->row[0]);
    l->row[at] = r;
    l->count++;
}

static int first_row(const struct alloc *a, struct rows **table, struct row *r)
{
    struct leaf *l = leaf_new(a);
    if (l == NULL) return E_NOMEM;
    int rc = insert_leaf(a, table, 0, l);
    if (rc < 0) {
        alloc_free(a, l, sizeof *l);
        return rc;
    }
    insert_row(l, 0, r);
    return 0;
}

/* Takes `r` if it returns 0. */
static int place(struct backend_tx *tx, struct rows **table, struct row *r)
{
    const struct alloc *a = &tx->store->alloc;
    struct bytes key = row_key(r);
    if ((*table)->count == 0) return first_row(a, table, r);
    size_t at = find_leaf(*table, key);
    struct leaf *l = touch_leaf(a, *table, at);
    if (l == NULL) return E_NOMEM;
    unsigned i = find_row(l, key);
    if (i < l->count && bytes_eq(row_key(l->row[i]), key)) {
        tx->row_bytes -= row_weight(l->row[i]);
        row_unref(a, l->row[i]);
        l->row[i] = r;
        return 0;
    }
    if (l->count == LEAF_ROWS_MAX) {
        unsigned from = i == l->count ? l->count - 1 : l->count / 2;
        int rc = split(a, table, at, from);
        if (rc < 0) return rc;
        if (i > from) {
            l = (*table)->leaf[at + 1];
            i -= from;
        }
    }
    insert_row(l, i, r);
    return 0;
}

static void remove_row(struct backend_tx *tx, struct rows *t, size_t at, struct leaf *l, unsigned i)
{
    const struct alloc *a = &tx->store->alloc;
    tx->row_bytes -= row_weight(l->row[i]);
    row_unref(a, l->row[i]);
    l->count--;
    memmove(&l->row[i], &l->row[i + 1], (l->count - i) * sizeof l->row[0]);
    if (l->count != 0) return;
    alloc_free(a, l, sizeof *l);
    t->count--;
    memmove(&t->leaf[at], &t->leaf[at + 1], (t->count - at) * sizeof t->leaf[0]);
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
        rows_unref(&tx->store->alloc, tx->table[t]);
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
    const struct row *old = lookup(tx->table[t], key);
    uint64_t weight = ROW_COST_BYTES + key.len + value.len;
    uint64_t old_weight = old == NULL ? 0 : row_weight(old);
    bool larger = weight > old_weight;
    if (m->bytes_max != 0 && larger && tx->row_bytes - old_weight + weight > m->bytes_max) {
        return failed(tx, E_NOSPACE, em);
    }
    struct row *r = row_new(&m->alloc, key, value);
    if (r == NULL) return failed(tx, E_NOMEM, em);
    rc = place(tx, &tx->table[t], r);
    if (rc < 0) {
        row_unref(&m->alloc, r);
        return failed(tx, rc, em);
    }
    tx->row_bytes += weight;
    return 0;
}

static int memory_del(struct backend_tx *tx, enum table t, struct bytes key, struct errmsg *em)
{
    ASSERT(tx->open && !tx->failed);
    ASSERT((unsigned)t < TABLE_COUNT);
    struct rows *rows = touch(tx, t);
    if (rows == NULL) return failed(tx, E_NOMEM, em);
    if (lookup(rows, key) == NULL) return 0;
    size_t at = find_leaf(rows, key);
    struct leaf *l = touch_leaf(&tx->store->alloc, rows, at);
    if (l == NULL) return failed(tx, E_NOMEM, em);
    remove_row(tx, rows, at, l, find_row(l, key));
    return 0;
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
        if (tx->table[t] == NULL && s->table[t] != NULL) ref(&s->table[t]->refs);
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
    ref(&s->refs);
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
    const struct row *row = lookup(r->state->table[t], key);
    if (row == NULL) return E_NOTFOUND;
    *value = row_value(row);
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
    if (k != NULL) *k = row_key(r);
    if (v != NULL) *v = row_value(r);
    return 0;
}

static int memory_seek(struct backend_cursor *c, struct bytes key, struct bytes *k, struct bytes *v)
{
    if (c->rows == NULL || c->rows->count == 0) return E_NOTFOUND;
    c->leaf = find_leaf(c->rows, key);
    c->row = find_row(c->rows->leaf[c->leaf], key);
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
