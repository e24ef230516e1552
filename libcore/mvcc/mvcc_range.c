/* Ranges: server-behaviour.md 2, in slices.
 *
 * A slice takes the index lock, goes to the key where the last one ended, and notes the rows (not their
 * bytes). Everything but a sort by value is decided by what the index knows. Sorting is a bottom-up merge over
 * an array of places, resumable too, and stable: equal rows stay in key order, as they do upstream for short answers.
 *
 * The limit: with keys in ascending order, or with no order asked for, one row more than the limit is read, so that `more` is known; only
 * those are then sorted when a target other than the key is named (upstream's trap). With an explicit order or with a
 * revision filter all rows are read, and the limit cuts at the end. */
#include "mvcc/mvcc_int.h"
#include "pb/kv.h"

static bool range_filters(const struct mvcc_range_opts *o)
{
    return o->mod_min != 0 || o->mod_max != 0 || o->create_min != 0 || o->create_max != 0;
}

static bool range_default_order(const struct mvcc_range_opts *o)
{
    return o->order == MVCC_SORT_NONE ||
           (o->order == MVCC_SORT_ASCEND && o->target == MVCC_SORT_KEY);
}

void mvcc_range_init(struct mvcc_range *r, struct mvcc_view *v, const struct mvcc_range_opts *o)
{
    *r = (struct mvcc_range){.v = v, .o = *o, .state = MVCC_RANGE_WALK, .fetch_max = SIZE_MAX};
    bool cut_early = range_default_order(o) && !range_filters(o);
    if (cut_early && o->limit > 0 && (uint64_t)o->limit < SIZE_MAX)
        r->fetch_max = (size_t)o->limit + 1;
    if (o->count_only) r->fetch_max = 0;
}

void mvcc_range_deinit(struct mvcc_range *r)
{
    const struct alloc *a = r->v->m->alloc;
    if (r->rows != &r->one) alloc_free(a, r->rows, r->row_cap * sizeof *r->rows);
    alloc_free(a, r->values, r->perm_cap * sizeof *r->values);
    alloc_free(a, r->perm, r->perm_cap * sizeof *r->perm);
    alloc_free(a, r->spare, r->perm_cap * sizeof *r->spare);
    alloc_free(a, r->resume, r->resume_cap);
    *r = (struct mvcc_range){.v = r->v, .state = MVCC_RANGE_DONE};
}

/* --- pass one: the walk --- */

/* Room for `more` rows, got before the lock is. */
static int rows_reserve(struct mvcc_range *r, size_t more)
{
    if (more > r->fetch_max - r->fetched) more = r->fetch_max - r->fetched;
    if (r->rows == NULL && more <= 1) {
        r->rows = &r->one;
        r->row_cap = 1;
        return 0;
    }
    if (more <= r->row_cap - r->fetched) return 0;
    const struct alloc *a = r->v->m->alloc;
    size_t cap = r->row_cap + r->row_cap / 2;
    if (cap < r->fetched + more) cap = r->fetched + more;
    bool inlined = r->rows == &r->one;
    struct mvcc_row *old = inlined ? NULL : r->rows;
    struct mvcc_row *rows =
        a->resize(a->arg, old, inlined ? 0 : r->row_cap * sizeof *rows, cap * sizeof *rows);
    if (rows == NULL) return E_NOMEM;
    if (inlined) rows[0] = r->one;
    r->rows = rows;
    r->row_cap = cap;
    return 0;
}

static bool row_passes(const struct mvcc_range_opts *o, const struct mvcc_row *row)
{
    return (o->mod_max == 0 || row->mod <= o->mod_max) &&
           (o->mod_min == 0 || row->mod >= o->mod_min) &&
           (o->create_max == 0 || row->create <= o->create_max) &&
           (o->create_min == 0 || row->create >= o->create_min);
}

static void walk_item(struct mvcc_range *r, const struct mvcc_item *it)
{
    struct mvcc_row row;
    if (!mvcc__item_at(it, r->v->rev, &row)) return;
    r->count++;
    if (r->fetched < r->fetch_max && row_passes(&r->o, &row)) {
        ASSERT(r->fetched < r->row_cap);
        r->rows[r->fetched++] = row;
    }
}

/* Counts a whole leaf at once, when no more rows are wanted, none of its keys is beyond the end, and none has changed
 * since the view's revision. */
static bool walk_leaf(struct mvcc_range *r, const struct mvcc_bounds *b, struct mvcc_path *p)
{
    const struct mvcc_leaf *leaf = p->leaf;
    if (p->slot != 0 || r->fetched < r->fetch_max || b->one || leaf->mod_max > r->v->rev)
        return false;
    if (mvcc__beyond(b, mvcc__item_key(leaf->items[leaf->count - 1]))) return false;
    r->count += leaf->live;
    p->slot = leaf->count;
    return true;
}

/* One slice under the lock. Returns 1 while there is more. */
static int walk_locked(struct mvcc_range *r, const struct mvcc_bounds *b, size_t keys_max)
{
    struct mvcc *m = r->v->m;
    if (mvcc__pin_broken(r->v->pin)) return E_INTR;
    struct mvcc_path p;
    mvcc__tree_seek(&m->tree, r->resumed ? bytes_of(r->resume, r->resume_len) : b->key, &p);
    for (;;) {
        struct mvcc_item *it = mvcc__tree_item(&p.leaf, &p.slot);
        if (it == NULL || mvcc__beyond(b, mvcc__item_key(it))) return 0;
        if (r->o.no_count && r->fetched == r->fetch_max) return 0;
        if (keys_max-- == 0) {
            int rc = mvcc__key_copy(m->alloc, mvcc__item_key(it), &r->resume, &r->resume_len,
                                    &r->resume_cap);
            if (rc == 0) r->resumed = true;
            return rc < 0 ? rc : 1;
        }
        if (walk_leaf(r, b, &p)) continue;
        walk_item(r, it);
        if (b->one) return 0;
        p.slot++;
    }
}

static int range_walk(struct mvcc_range *r, size_t keys_max)
{
    struct mvcc_bounds b = mvcc__bounds(r->o.key, r->o.end);
    if (b.one && keys_max > 1) keys_max = 1;
    int rc = rows_reserve(r, keys_max);
    if (rc < 0) return rc;
    size_t fetched = r->fetched;
    uint64_t count = r->count;
    mvcc__read_lock(r->v->m);
    rc = walk_locked(r, &b, keys_max);
    mvcc__read_unlock(r->v->m);
    if (rc < 0) { /* the slice was not done: it may be tried again */
        r->fetched = fetched;
        r->count = count;
    }
    return rc;
}

/* --- pass two: sorting --- */

static enum mvcc_sort_order range_order(const struct mvcc_range_opts *o)
{
    bool implied = o->order == MVCC_SORT_NONE && o->target != MVCC_SORT_KEY;
    return implied ? MVCC_SORT_ASCEND : o->order;
}

static int sort_begin(struct mvcc_range *r)
{
    const struct alloc *a = r->v->m->alloc;
    size_t n = r->fetched;
    if (n > UINT32_MAX) return E_TOOBIG;
    bool by_value = r->o.target == MVCC_SORT_VALUE;
    if (r->perm_cap == 0) {
        uint32_t *perm = alloc_new(a, n * sizeof *perm);
        uint32_t *spare = alloc_new(a, n * sizeof *spare);
        struct bytes *values = by_value ? alloc_new(a, n * sizeof *values) : NULL;
        if (perm == NULL || spare == NULL || (by_value && values == NULL)) {
            alloc_free(a, perm, n * sizeof *perm);
            alloc_free(a, spare, n * sizeof *spare);
            alloc_free(a, values, n * sizeof *values);
            return E_NOMEM;
        }
        r->perm = perm;
        r->spare = spare;
        r->values = values;
        r->perm_cap = n;
    }
    for (size_t i = 0; i < n; i++) {
        r->perm[i] = (uint32_t)i;
    }
    r->width = 1;
    r->at = 0;
    r->state = by_value ? MVCC_RANGE_VALUES : MVCC_RANGE_SORT;
    return 1;
}

static int range_values(struct mvcc_range *r, size_t rows_max, struct errmsg *em)
{
    for (; rows_max > 0 && r->at < r->fetched; rows_max--, r->at++) {
        struct bytes stored;
        struct pb_kv kv;
        int rc = mvcc_view_kv(r->v, &r->rows[r->at], &stored, em);
        if (rc < 0) return rc;
        if (pb_kv_decode(stored, &kv) < 0) {
            errmsg_set(em, "revision %lld,%u holds no KeyValue", (long long)r->rows[r->at].mod,
                       r->rows[r->at].sub);
            return E_CORRUPT;
        }
        r->values[r->at] = kv.value;
    }
    if (r->at == r->fetched) {
        r->state = MVCC_RANGE_SORT;
        r->at = 0;
    }
    return 1;
}

static int cmp_i64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int rows_cmp(const struct mvcc_range *r, uint32_t x, uint32_t y)
{
    const struct mvcc_row *a = &r->rows[x], *b = &r->rows[y];
    switch (r->o.target) {
    case MVCC_SORT_KEY: return cmp_i64(x, y);
    case MVCC_SORT_VERSION: return cmp_i64(a->version, b->version);
    case MVCC_SORT_CREATE: return cmp_i64(a->create, b->create);
    case MVCC_SORT_MOD: return cmp_i64(a->mod, b->mod);
    case MVCC_SORT_VALUE: return bytes_cmp(r->values[x], r->values[y]);
    }
    return 0;
}

/* Whether `y`, which comes later, goes before `x`. */
static bool rows_swap(const struct mvcc_range *r, uint32_t x, uint32_t y)
{
    int c = rows_cmp(r, x, y);
    return range_order(&r->o) == MVCC_SORT_DESCEND ? c < 0 : c > 0;
}

/* Merges the two sorted pieces of `width` that begin at `r->at` into the spare array. */
static void merge_pair(struct mvcc_range *r)
{
    size_t n = r->fetched, lo = r->at;
    size_t mid = n - lo > r->width ? lo + r->width : n;
    size_t hi = n - mid > r->width ? mid + r->width : n;
    size_t i = lo, k = mid;
    for (size_t to = lo; to < hi; to++) {
        bool right = i == mid || (k < hi && rows_swap(r, r->perm[i], r->perm[k]));
        r->spare[to] = right ? r->perm[k++] : r->perm[i++];
    }
    r->at = hi;
}

static int range_sort(struct mvcc_range *r, size_t rows_max)
{
    size_t done = 0;
    while (r->width < r->fetched && done < rows_max) {
        size_t from = r->at;
        merge_pair(r);
        done += r->at - from;
        if (r->at < r->fetched) continue;
        uint32_t *x = r->perm;
        r->perm = r->spare;
        r->spare = x;
        r->at = 0;
        r->width *= 2;
    }
    return r->width < r->fetched;
}

/* --- the end --- */

static int range_finish(struct mvcc_range *r)
{
    r->state = MVCC_RANGE_DONE;
    r->row_count = r->fetched;
    if (r->o.limit > 0 && r->fetched > (uint64_t)r->o.limit) {
        r->row_count = (size_t)r->o.limit;
        r->more = true;
    }
    return 0;
}

/* What follows the walk. */
static int range_walked(struct mvcc_range *r)
{
    enum mvcc_sort_order order = range_order(&r->o);
    bool by_key = r->o.target == MVCC_SORT_KEY;
    if (order == MVCC_SORT_NONE || r->fetched < 2) return range_finish(r);
    if (!by_key) return sort_begin(r);
    r->reversed = order == MVCC_SORT_DESCEND;
    return range_finish(r);
}

int mvcc_range_step(struct mvcc_range *r, size_t keys_max, struct errmsg *em)
{
    ASSERT(keys_max > 0);
    int rc = 0;
    switch (r->state) {
    case MVCC_RANGE_WALK:
        rc = range_walk(r, keys_max);
        if (rc == 0) r->state = MVCC_RANGE_WALKED;
        return rc == 0 ? range_walked(r) : rc;
    case MVCC_RANGE_WALKED: return range_walked(r); /* again, after E_NOMEM */
    case MVCC_RANGE_VALUES: return range_values(r, keys_max, em);
    case MVCC_RANGE_SORT: rc = range_sort(r, keys_max); return rc == 0 ? range_finish(r) : rc;
    case MVCC_RANGE_DONE: return 0;
    }
    return rc;
}

const struct mvcc_row *mvcc_range_row(const struct mvcc_range *r, size_t i)
{
    ASSERT(r->state == MVCC_RANGE_DONE);
    ASSERT(i < r->row_count);
    if (r->reversed) return &r->rows[r->fetched - 1 - i];
    return &r->rows[r->perm == NULL ? i : r->perm[i]];
}
