/* May a path through a txn change a key twice? (server-behaviour.md 4)
 *
 * Refused are, on one path: two puts of a key, and a put inside a deleted range, in these places:
 * both on one level in any order; one on a level and the other in a txn nested there; the deletion
 * in one nested txn and the put in a later sibling. The two branches of one nested txn never meet,
 * so they may touch the same keys.
 *
 * The walk goes depth first and keeps what is active: for each key that any put names (sorted, so a
 * key is a rank) whether it was put, and how many deleted ranges cover it (a Fenwick tree over
 * ranks). Behind the success branch of a nested txn its actions are taken back, and are there again
 * behind the failure branch; a log of actions does that. A level's own deletions come first, then
 * its nested txns, then its own puts. Rejected: sets merged level by level as upstream does, which
 * is quadratic for a request of many small nested txns. */
#include "apply/apply_int.h"
#include "apply/check_int.h"

/* An action that is in the log: a put of one rank, or a deletion of a span of ranks. */
struct action {
    size_t from;
    size_t to; /* one behind the last */
    bool put;
};

/* One branch of one txn. */
struct level {
    Etcdserverpb__RequestOp *const *ops;
    size_t n;
    size_t at;                            /* next op that may be a nested txn */
    const Etcdserverpb__TxnRequest *open; /* the nested txn whose success branch is being walked */
    size_t log_success;                   /* log: where its success branch began, and ended */
    size_t log_failure;
};

struct overlap {
    struct arena arena;
    struct bytes *keys; /* of all puts, sorted, each once */
    size_t key_count;
    int32_t *covers; /* Fenwick tree: differences of the number of covering deletions */
    uint32_t *puts;  /* by rank: how often it is put on paths that may be ours */
    struct action *log;
    size_t log_count;
    size_t put_count; /* puts and deletions anywhere, */
    size_t del_count; /* counted before anything is allocated */
    struct level levels[2 * PB_DEPTH_MAX];
    size_t depth;
};

/* ---- every op once, in any order ------------------------------------------------------------- */

/* Calls `fn` for each op below `ops`. Errors: those of `fn`; E_TOO_MANY_OPS too deep. */
static int each_op(struct overlap *o, Etcdserverpb__RequestOp *const *ops, size_t n,
                   void (*fn)(struct overlap *o, const Etcdserverpb__RequestOp *op))
{
    o->levels[0] = (struct level){.ops = ops, .n = n};
    size_t depth = 1;
    while (depth > 0) {
        struct level *l = &o->levels[depth - 1];
        if (l->at == l->n) {
            depth--;
            continue;
        }
        const Etcdserverpb__RequestOp *op = l->ops[l->at++];
        fn(o, op);
        if (op->request_case != ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN) continue;
        if (depth + 2 > 2 * PB_DEPTH_MAX) return E_TOO_MANY_OPS;
        const Etcdserverpb__TxnRequest *t = op->request_txn;
        o->levels[depth++] = (struct level){.ops = t->success, .n = t->n_success};
        o->levels[depth++] = (struct level){.ops = t->failure, .n = t->n_failure};
    }
    return 0;
}

static void count_op(struct overlap *o, const Etcdserverpb__RequestOp *op)
{
    o->put_count += op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    o->del_count += op->request_case == ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
}

static void collect_key(struct overlap *o, const Etcdserverpb__RequestOp *op)
{
    if (op->request_case != ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT) return;
    ASSERT(o->key_count < o->put_count);
    o->keys[o->key_count++] = apply__bytes(op->request_put->key);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void sift_down(struct bytes *keys, size_t i, size_t n)
{
    for (size_t c = 2 * i + 1; c < n; c = 2 * i + 1) {
        if (c + 1 < n && bytes_cmp(keys[c], keys[c + 1]) < 0) c++;
        if (bytes_cmp(keys[i], keys[c]) >= 0) return;
        struct bytes t = keys[i];
        keys[i] = keys[c];
        keys[c] = t;
        i = c;
    }
}

/* Heap sort: qsort() may allocate. */
static void sort_in_place(struct bytes *keys, size_t n)
{
    for (size_t i = n / 2; i-- > 0;) {
        sift_down(keys, i, n);
    }
    for (size_t end = n; end-- > 1;) {
        struct bytes t = keys[0];
        keys[0] = keys[end];
        keys[end] = t;
        sift_down(keys, 0, end);
    }
}

static void keys_sort(struct overlap *o)
{
    sort_in_place(o->keys, o->key_count);
    size_t n = 0;
    for (size_t i = 0; i < o->key_count; i++) {
        if (n == 0 || !bytes_eq(o->keys[n - 1], o->keys[i])) o->keys[n++] = o->keys[i];
    }
    o->key_count = n;
}

/* Rank of the first key that is not below `key`. */
static size_t rank_of(const struct overlap *o, struct bytes key)
{
    size_t lo = 0;
    size_t hi = o->key_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (bytes_cmp(o->keys[mid], key) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

/* The ranks that a deletion covers; empty when range_end <= key. */
static struct action deletion(const struct overlap *o, const Etcdserverpb__DeleteRangeRequest *r)
{
    struct bytes key = apply__bytes(r->key);
    struct bytes end = apply__bytes(r->range_end);
    struct action a = {.from = rank_of(o, key)};
    if (end.len == 0) {
        a.to = a.from < o->key_count && bytes_eq(o->keys[a.from], key) ? a.from + 1 : a.from;
    } else if (end.len == 1 && end.data[0] == 0) {
        a.to = o->key_count;
    } else {
        a.to = rank_of(o, end);
    }
    if (a.to < a.from) a.to = a.from;
    return a;
}

/* ---- what is active -------------------------------------------------------------------------- */

static void covers_add(struct overlap *o, size_t rank, int32_t by)
{
    for (size_t i = rank + 1; i <= o->key_count + 1; i += i & -i) {
        o->covers[i] += by;
    }
}

static bool is_covered(const struct overlap *o, size_t rank)
{
    int32_t n = 0;
    for (size_t i = rank + 1; i > 0; i -= i & -i) {
        n += o->covers[i];
    }
    ASSERT(n >= 0);
    return n > 0;
}

static void action_do(struct overlap *o, const struct action *a, int32_t by)
{
    if (a->put) {
        o->puts[a->from] += (uint32_t)by;
    } else if (a->to > a->from) {
        covers_add(o, a->from, by);
        covers_add(o, a->to, -by);
    }
}

static void action_log(struct overlap *o, const struct action *a)
{
    ASSERT(o->log_count < o->put_count + o->del_count);
    o->log[o->log_count++] = *a;
    action_do(o, a, 1);
}

/* Takes back, or does again, what stands in the log from `from` to `to`. */
static void log_replay(struct overlap *o, size_t from, size_t to, int32_t by)
{
    for (size_t i = from; i < to; i++) {
        action_do(o, &o->log[i], by);
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

static int level_enter(struct overlap *o, Etcdserverpb__RequestOp *const *ops, size_t n)
{
    if (o->depth == sizeof o->levels / sizeof *o->levels) return E_TOO_MANY_OPS;
    o->levels[o->depth++] = (struct level){.ops = ops, .n = n};
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->request_case != ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE) {
            continue;
        }
        struct action a = deletion(o, ops[i]->request_delete_range);
        action_log(o, &a);
    }
    return 0;
}

/* The puts of the level itself, behind all that is nested in it. */
static int level_leave(struct overlap *o, const struct level *l)
{
    o->depth--;
    for (size_t i = 0; i < l->n; i++) {
        if (l->ops[i]->request_case != ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT) continue;
        size_t rank = rank_of(o, apply__bytes(l->ops[i]->request_put->key));
        if (o->puts[rank] > 0 || is_covered(o, rank)) return E_DUPLICATE_KEY;
        action_log(o, &(struct action){.from = rank, .put = true});
    }
    return 0;
}

/* One move of the innermost level: into a branch of its next nested txn, between two, or out. */
static int level_step(struct overlap *o, struct level *l)
{
    if (l->open != NULL && l->log_failure == SIZE_MAX) {
        const Etcdserverpb__TxnRequest *t = l->open;
        l->log_failure = o->log_count;
        log_replay(o, l->log_success, l->log_failure, -1);
        return level_enter(o, t->failure, t->n_failure);
    }
    if (l->open != NULL) {
        log_replay(o, l->log_success, l->log_failure, 1);
        l->open = NULL;
    }
    while (l->at < l->n) {
        const Etcdserverpb__RequestOp *op = l->ops[l->at++];
        if (op->request_case != ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_TXN) continue;
        l->open = op->request_txn;
        l->log_success = o->log_count;
        l->log_failure = SIZE_MAX;
        return level_enter(o, l->open->success, l->open->n_success);
    }
    return level_leave(o, l);
}

static int overlap_prepare(struct overlap *o, Etcdserverpb__RequestOp *const *ops, size_t n)
{
    o->keys = arena_zero(&o->arena, (o->put_count + 1) * sizeof *o->keys);
    o->covers = arena_zero(&o->arena, (o->put_count + 2) * sizeof *o->covers);
    o->puts = arena_zero(&o->arena, (o->put_count + 1) * sizeof *o->puts);
    o->log = arena_zero(&o->arena, (o->put_count + o->del_count + 1) * sizeof *o->log);
    if (o->keys == NULL || o->covers == NULL || o->puts == NULL || o->log == NULL) return E_NOMEM;
    int rc = each_op(o, ops, n, collect_key);
    if (rc == 0) keys_sort(o);
    return rc;
}

int apply__check_overlap(Etcdserverpb__RequestOp *const *ops, size_t n, const struct alloc *alloc)
{
    struct overlap *o = alloc_zero(alloc, sizeof *o);
    if (o == NULL) return E_NOMEM;
    arena_init(&o->arena, alloc, APPLY_ARENA_BYTES_MAX);
    int rc = each_op(o, ops, n, count_op);
    if (rc == 0 && o->put_count > 0) rc = overlap_prepare(o, ops, n);
    if (rc == 0 && o->put_count > 0) rc = level_enter(o, ops, n);
    while (rc == 0 && o->depth > 0) {
        rc = level_step(o, &o->levels[o->depth - 1]);
    }
    arena_deinit(&o->arena);
    alloc_free(alloc, o, sizeof *o);
    return rc;
}
