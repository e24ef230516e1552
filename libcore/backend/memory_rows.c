/* Sorted rows in shared leaves; see memory_rows.h. */
#include "backend/memory_rows.h"

#include "base/err.h"

static bool is_mine(atomic_uint *refs)
{
    return atomic_load_explicit(refs, memory_order_acquire) == 1;
}

static void row_unref(const struct alloc *a, struct row *r)
{
    if (memory__unref(&r->refs)) alloc_free(a, r, sizeof *r + r->key_bytes + r->value_bytes);
}

static void leaf_unref(const struct alloc *a, struct leaf *l)
{
    if (!memory__unref(&l->refs)) return;
    for (unsigned i = 0; i < l->count; i++)
        row_unref(a, l->row[i]);
    alloc_free(a, l, sizeof *l);
}

static size_t rows_bytes(size_t cap)
{
    return sizeof(struct rows) + cap * sizeof(struct leaf *);
}

void memory__rows_unref(const struct alloc *a, struct rows *t)
{
    if (t == NULL || !memory__unref(&t->refs)) return;
    for (size_t i = 0; i < t->count; i++)
        leaf_unref(a, t->leaf[i]);
    alloc_free(a, t, rows_bytes(t->cap));
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
        memory__ref(&l->row[i]->refs);
    }
    return l;
}

struct rows *memory__rows_copy(const struct alloc *a, const struct rows *from)
{
    size_t count = from == NULL ? 0 : from->count, cap = count + 1 + count / 2;
    struct rows *t = alloc_new(a, rows_bytes(cap));
    if (t == NULL) return NULL;
    atomic_init(&t->refs, 1);
    t->count = count;
    t->cap = cap;
    for (size_t i = 0; i < count; i++) {
        t->leaf[i] = from->leaf[i];
        memory__ref(&t->leaf[i]->refs);
    }
    return t;
}

/* --- finding ---------------------------------------------------------------------------------------- */

/* The last leaf whose first key is <= `key`; 0 when there is none. */
size_t memory__find_leaf(const struct rows *t, struct bytes key)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (bytes_cmp(memory__row_key(t->leaf[mid]->row[0]), key) <= 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low == 0 ? 0 : low - 1;
}

/* The first row >= `key`; `count` when there is none. */
unsigned memory__find_row(const struct leaf *l, struct bytes key)
{
    unsigned low = 0, high = l->count;
    while (low < high) {
        unsigned mid = low + (high - low) / 2;
        if (bytes_cmp(memory__row_key(l->row[mid]), key) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

const struct row *memory__lookup(const struct rows *t, struct bytes key)
{
    if (t == NULL || t->count == 0) return NULL;
    const struct leaf *l = t->leaf[memory__find_leaf(t, key)];
    unsigned i = memory__find_row(l, key);
    return i < l->count && bytes_eq(memory__row_key(l->row[i]), key) ? l->row[i] : NULL;
}

/* --- changing --------------------------------------------------------------------------------------- */

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
static int place(const struct alloc *a, struct rows **table, struct row *r, uint64_t *weight)
{
    struct bytes key = memory__row_key(r);
    if ((*table)->count == 0) return first_row(a, table, r);
    size_t at = memory__find_leaf(*table, key);
    struct leaf *l = touch_leaf(a, *table, at);
    if (l == NULL) return E_NOMEM;
    unsigned i = memory__find_row(l, key);
    if (i < l->count && bytes_eq(memory__row_key(l->row[i]), key)) {
        *weight -= memory__row_weight(l->row[i]);
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

static void remove_row(const struct alloc *a, struct rows *t, size_t at, unsigned i)
{
    struct leaf *l = t->leaf[at];
    row_unref(a, l->row[i]);
    l->count--;
    memmove(&l->row[i], &l->row[i + 1], (l->count - i) * sizeof l->row[0]);
    if (l->count != 0) return;
    alloc_free(a, l, sizeof *l);
    t->count--;
    memmove(&t->leaf[at], &t->leaf[at + 1], (t->count - at) * sizeof t->leaf[0]);
}

int memory__rows_put(const struct alloc *a, struct rows **table, struct bytes key,
                     struct bytes value, uint64_t *weight)
{
    ASSERT(is_mine(&(*table)->refs));
    struct row *r = row_new(a, key, value);
    if (r == NULL) return E_NOMEM;
    int rc = place(a, table, r, weight);
    if (rc < 0) {
        row_unref(a, r);
        return rc;
    }
    *weight += memory__row_weight(r);
    return 0;
}

int memory__rows_del(const struct alloc *a, struct rows *t, struct bytes key, uint64_t *weight)
{
    ASSERT(is_mine(&t->refs));
    const struct row *r = memory__lookup(t, key);
    if (r == NULL) return 0;
    size_t at = memory__find_leaf(t, key);
    struct leaf *l = touch_leaf(a, t, at);
    if (l == NULL) return E_NOMEM;
    *weight -= memory__row_weight(r);
    remove_row(a, t, at, memory__find_row(l, key));
    return 0;
}
