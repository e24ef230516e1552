/* Txns against the model: what they show, what they leave, however they are sliced. */
#include "apply/check.h"
#include "apply/txn.h"
#include "model.h"

/* ---- random requests ------------------------------------------------------------------------- */

struct gen {
    struct arena *a;
    struct prng p;
    int64_t revision; /* about the present one */
    bool deletes;     /* with deletions; else with puts that keep a value */
    bool reads_only;
};

static bool one_in(struct gen *g, uint64_t n)
{
    return prng_below(&g->p, n) == 0;
}

static const char *any_key(struct gen *g)
{
    static const char *const keys[KEYS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    return keys[prng_below(&g->p, KEYS)];
}

static const char *any_end(struct gen *g)
{
    static const char *const ends[] = {"", "", "0", "c", "e", "g", "z", "a"};
    return ends[prng_below(&g->p, 8)];
}

static int64_t any_revision(struct gen *g)
{
    return (int64_t)prng_below(&g->p, (uint64_t)g->revision + 2);
}

static compare_request *any_compare(struct gen *g)
{
    compare_request *c = compare_new(g->a, any_key(g), one_in(g, 3) ? any_end(g) : "");
    c->result = (Etcdserverpb__Compare__CompareResult)prng_below(&g->p, 5);
    c->target = (Etcdserverpb__Compare__CompareTarget)prng_below(&g->p, 6);
    if (one_in(g, 6)) return c; /* without an operand */
    switch (prng_below(&g->p, 5)) {
    case 0:
        c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION;
        c->version = (int64_t)prng_below(&g->p, 4);
        break;
    case 1:
        c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
        c->create_revision = one_in(g, 2) ? 0 : any_revision(g);
        break;
    case 2:
        c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
        c->mod_revision = any_revision(g);
        break;
    case 3:
        c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE;
        c->value = bin(g->a, one_in(g, 2) ? "v1" : "v2");
        break;
    default:
        c->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_LEASE;
        c->lease = (int64_t)prng_below(&g->p, 3);
        break;
    }
    return c;
}

static Etcdserverpb__RangeRequest *any_range(struct gen *g)
{
    Etcdserverpb__RangeRequest *r = range_of(g->a, any_key(g), any_end(g));
    r->limit = one_in(g, 2) ? (int64_t)prng_below(&g->p, 5) - 1 : 0;
    if (one_in(g, 4)) r->revision = any_revision(g);
    if (one_in(g, 12)) r->revision = -(int64_t)prng_below(&g->p, 3);
    r->sort_order = (Etcdserverpb__RangeRequest__SortOrder)prng_below(&g->p, 3);
    r->sort_target = (Etcdserverpb__RangeRequest__SortTarget)prng_below(&g->p, 5);
    r->count_only = one_in(g, 8);
    if (one_in(g, 6)) r->min_mod_revision = any_revision(g);
    if (one_in(g, 6)) r->max_mod_revision = any_revision(g);
    if (one_in(g, 6)) r->min_create_revision = any_revision(g);
    if (one_in(g, 6)) r->max_create_revision = any_revision(g);
    return r;
}

static Etcdserverpb__PutRequest *any_put(struct gen *g)
{
    char value[3] = {'v', (char)('0' + (int)prng_below(&g->p, 4)), 0};
    Etcdserverpb__PutRequest *p = put_of(g->a, any_key(g), value);
    p->prev_kv = one_in(g, 2);
    if (one_in(g, 4)) p->lease = 1 + (int64_t)prng_below(&g->p, 2);
    if (one_in(g, 40)) p->lease = 3; /* there is none */
    if (!g->deletes && one_in(g, 5)) p->ignore_value = 1;
    if (!g->deletes && p->lease == 0 && one_in(g, 5)) p->ignore_lease = 1;
    return p;
}

static txn_request *any_txn(struct gen *g, unsigned depth);

static request_op *any_op(struct gen *g, unsigned depth)
{
    if (g->reads_only) return op_range(g->a, any_range(g));
    switch (prng_below(&g->p, 10)) {
    case 0:
    case 1:
    case 2:
    case 3: return op_put(g->a, any_put(g));
    case 4:
    case 5:
        if (!g->deletes) return op_put(g->a, any_put(g));
        Etcdserverpb__DeleteRangeRequest *d = delete_of(g->a, any_key(g), any_end(g));
        d->prev_kv = one_in(g, 2);
        return op_delete(g->a, d);
    case 6:
        if (one_in(g, 10)) return op_new(g->a);
        if (depth > 0) return op_txn(g->a, any_txn(g, depth - 1));
        return op_range(g->a, any_range(g));
    default: return op_range(g->a, any_range(g));
    }
}

static txn_request *any_txn(struct gen *g, unsigned depth)
{
    txn_request *t = txn_new(g->a);
    for (uint64_t n = prng_below(&g->p, 3); n > 0; n--) {
        txn_compare(g->a, t, any_compare(g));
    }
    for (uint64_t n = prng_below(&g->p, 5); n > 0; n--) {
        txn_success(g->a, t, any_op(g, depth));
    }
    for (uint64_t n = prng_below(&g->p, 4); n > 0; n--) {
        txn_failure(g->a, t, any_op(g, depth));
    }
    return t;
}

/* ---- three members: at once, key by key, and where nobody waits ------------------------------ */

enum { MEMBERS = 3 };

struct cluster {
    struct world w[MEMBERS];
    struct model m;
};

static void grant(struct world *w, int64_t id)
{
    REQUEST(r);
    Etcdserverpb__LeaseGrantRequest g = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    g.id = id;
    g.ttl = 60;
    r.lease_grant = &g;
    assert_int_equal(feed(w, &r), APPLY_DONE);
}

static void cluster_open(struct cluster *c)
{
    memset(&c->m, 0, sizeof c->m);
    c->m.revision = 1;
    c->m.compacted = -1;
    for (int i = 0; i < MEMBERS; i++) {
        world_open(&c->w[i]);
        grant(&c->w[i], 1);
        grant(&c->w[i], 2);
    }
    c->w[1].budget = 1;
    c->w[2].nobody_waits = true;
}

static void cluster_txn(struct cluster *c, txn_request *t)
{
    int error = model_txn(&c->m, t);
    for (int i = 0; i < MEMBERS; i++) {
        assert_int_equal(feed_txn(&c->w[i], t), APPLY_DONE);
        assert_int_equal(mvcc_revision(c->w[i].m), c->m.revision);
        assert_int_equal(c->w[i].out.published_to, c->m.changed ? c->m.revision : 0);
    }
    assert_null(c->w[2].out.result);
    compare_result(c->w[0].out.result, &c->m, error);
    compare_result(c->w[1].out.result, &c->m, error);
}

static void cluster_compact(struct cluster *c, int64_t revision)
{
    for (int i = 0; i < MEMBERS; i++) {
        REQUEST(r);
        Etcdserverpb__CompactionRequest q = ETCDSERVERPB__COMPACTION_REQUEST__INIT;
        q.revision = revision;
        r.compaction = &q;
        assert_int_equal(feed(&c->w[i], &r), APPLY_DONE);
    }
    if (revision > c->m.compacted) c->m.compacted = revision;
}

/* Leases and stored rows are equal everywhere. */
static void cluster_close(struct cluster *c)
{
    for (unsigned k = 0; k < KEYS; k++) {
        char key[2] = {(char)('a' + (int)k), 0};
        const struct model_row *r = &c->m.at[c->m.revision].rows[k];
        for (int i = 0; i < MEMBERS; i++) {
            assert_int_equal(lease_of_key(c->w[i].leases, bytes_str(key)), r->live ? r->lease : 0);
        }
    }
    for (int i = 0; i < MEMBERS; i++) {
        world_commit(&c->w[i]);
        const struct store *s = &c->w[i].store;
        const struct store *first = &c->w[0].store;
        assert_int_equal(s->count, first->count);
        for (size_t n = 0; n < s->count; n++) {
            assert_true(bytes_eq(s->rows[n].key, first->rows[n].key));
            assert_true(bytes_eq(s->rows[n].value, first->rows[n].value));
        }
    }
    for (int i = 0; i < MEMBERS; i++) {
        world_close(&c->w[i]);
    }
}

static void read_txn(struct cluster *c, const txn_request *t)
{
    struct world *w = &c->w[0];
    int error = model_txn(&c->m, t);
    struct apply_read *r = NULL;
    assert_int_equal(apply_read_new(&w->heap.alloc, w->m, t, &r), 0);
    struct errmsg em = {{0}};
    int rc;
    do {
        uint32_t budget = 1;
        rc = apply_read_step(r, &budget, &em);
    } while (rc == 1);
    assert_int_equal(rc, error);
    if (rc == 0) {
        struct apply_result *result = apply_read_take(r);
        compare_result(result, &c->m, 0);
        assert_int_equal(result->revision, c->m.revision);
        apply_result_free(result);
    }
    apply_read_free(r);
}

static void random_txns(uint64_t seed, int rounds)
{
    static struct cluster c;
    struct arena a;
    struct test_heap heap;
    test_heap_init(&heap);
    arena_init(&a, &heap.alloc, (size_t)1 << 30);
    cluster_open(&c);
    struct gen g = {.a = &a};
    prng_init(&g.p, seed);
    for (int i = 0; i < rounds; i++) {
        g.revision = c.m.revision;
        g.deletes = one_in(&g, 2);
        g.reads_only = one_in(&g, 5);
        txn_request *t = any_txn(&g, 3);
        if (g.reads_only) read_txn(&c, t);
        cluster_txn(&c, t);
        if (one_in(&g, 25))
            cluster_compact(&c, (int64_t)prng_below(&g.p, (uint64_t)g.revision + 1));
        for (int k = 0; k < MEMBERS; k++) {
            if (one_in(&g, 10)) world_commit(&c.w[k]);
        }
        arena_reset(&a);
    }
    cluster_close(&c);
    arena_deinit(&a);
    test_heap_check_empty(&heap);
}

static void test_random_txns_match_the_model(void **state)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        random_txns(seed, 400);
    }
}

/* ---- examples -------------------------------------------------------------------------------- */

static void test_header_revisions(void **state)
{
    struct world w;
    world_open(&w);
    put(&w, "a", "1");
    txn_request *t = txn_new(&w.a);
    txn_request *in = txn_new(&w.a);
    txn_success(&w.a, t, op_range(&w.a, range_of(&w.a, "a", "")));
    txn_success(&w.a, in, op_range(&w.a, range_of(&w.a, "a", "")));
    txn_success(&w.a, in, op_put(&w.a, put_of(&w.a, "b", "2")));
    txn_success(&w.a, t, op_txn(&w.a, in));
    txn_success(&w.a, t, op_range(&w.a, range_of(&w.a, "b", "")));
    txn_success(&w.a, t, op_delete(&w.a, delete_of(&w.a, "x", "")));
    assert_int_equal(feed_txn(&w, t), APPLY_DONE);
    const int64_t want[] = {3, 2, 0, 2, 3, 3, 3};
    assert_int_equal(w.out.result->op_count, 7);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(w.out.result->ops[i].revision, want[i]);
    }
    assert_int_equal(w.out.result->revision, 3);
    assert_int_equal(w.out.result->ops[0].op_count, 6);
    assert_int_equal(w.out.result->ops[2].op_count, 2);
    assert_span(row_of(w.out.result, 5, 0).value, "2");
    world_close(&w);
}

static void test_a_failed_txn_keeps_the_revision(void **state)
{
    struct world w;
    world_open(&w);
    put(&w, "a", "1");
    txn_request *t = txn_new(&w.a);
    Etcdserverpb__RangeRequest *r = range_of(&w.a, "a", "");
    r->revision = 3; /* the txn itself would make it */
    txn_success(&w.a, t, op_put(&w.a, put_of(&w.a, "b", "")));
    txn_success(&w.a, t, op_range(&w.a, r));
    assert_int_equal(feed_txn(&w, t), APPLY_DONE);
    assert_int_equal(w.out.result->error, E_FUTURE_REV);
    assert_int_equal(w.out.result->revision, 2);
    assert_int_equal(w.out.published_to, 0);
    txn_request *empty = txn_new(&w.a);
    assert_int_equal(feed_txn(&w, empty), APPLY_DONE);
    assert_true(w.out.result->ops[0].succeeded);
    assert_int_equal(w.out.result->ops[0].revision, 2);
    world_close(&w);
}

static void test_negative_revisions_in_a_txn(void **state)
{
    struct world w;
    world_open(&w);
    put(&w, "a", "1");
    txn_request *t = txn_new(&w.a);
    Etcdserverpb__RangeRequest *r = range_of(&w.a, "a", "");
    txn_success(&w.a, t, op_range(&w.a, r));
    r->revision = -1;
    assert_int_equal(feed_txn(&w, t), APPLY_DONE);
    assert_int_equal(w.out.result->error, 0);
    r->revision = -2;
    assert_int_equal(feed_txn(&w, t), APPLY_DONE);
    assert_int_equal(w.out.result->error, E_COMPACTED);
    REQUEST(q);
    Etcdserverpb__CompactionRequest c = ETCDSERVERPB__COMPACTION_REQUEST__INIT;
    q.compaction = &c;
    assert_int_equal(feed(&w, &q), APPLY_DONE);
    r->revision = -1;
    assert_int_equal(feed_txn(&w, t), APPLY_DONE);
    assert_int_equal(w.out.result->error, E_COMPACTED);
    world_close(&w);
}

/* Logs of upstream hold it, because its check took a from-key range for an empty one. */
static void test_a_put_inside_a_deleted_range_applies(void **state)
{
    struct world w;
    world_open(&w);
    put(&w, "m", "old");
    txn_request *t = txn_new(&w.a);
    txn_success(&w.a, t, op_delete(&w.a, delete_of(&w.a, "a", "0")));
    txn_success(&w.a, t, op_put(&w.a, put_of(&w.a, "m", "new")));
    assert_int_equal(apply_check_txn(t, 128, &w.heap.alloc), E_DUPLICATE_KEY);
    assert_int_equal(feed_txn(&w, t), APPLY_DONE);
    assert_int_equal(w.out.result->ops[1].count, 1);
    t = txn_new(&w.a);
    txn_success(&w.a, t, op_range(&w.a, range_of(&w.a, "m", "")));
    assert_int_equal(feed_txn(&w, t), APPLY_DONE);
    struct pb_kv kv = row_of(w.out.result, 1, 0);
    assert_span(kv.value, "new");
    assert_int_equal(kv.create_revision, 3);
    assert_int_equal(kv.version, 1);
    world_close(&w);
}

static void test_keeping_a_value_that_the_txn_deleted_is_fatal(void **state)
{
    struct world w;
    world_open(&w);
    put(&w, "m", "old");
    txn_request *t = txn_new(&w.a);
    Etcdserverpb__PutRequest *p = put_of(&w.a, "m", "");
    p->ignore_value = 1;
    txn_success(&w.a, t, op_delete(&w.a, delete_of(&w.a, "a", "0")));
    txn_success(&w.a, t, op_put(&w.a, p));
    assert_int_equal(feed_txn(&w, t), APPLY_FATAL);
    assert_non_null(strstr(w.out.fatal, "deleted"));
    assert_int_equal(mvcc_revision(w.m), 2);
    world_close(&w);
}

static void test_deep_nesting(void **state)
{
    struct world w;
    world_open(&w);
    txn_request *t = txn_new(&w.a);
    txn_success(&w.a, t, op_put(&w.a, put_of(&w.a, "k", "deep")));
    enum { DEPTH = 48 }; /* two messages each */
    for (int i = 0; i < DEPTH; i++) {
        txn_request *outer = txn_new(&w.a);
        txn_success(&w.a, outer, op_txn(&w.a, t));
        t = outer;
    }
    assert_int_equal(feed_txn(&w, t), APPLY_DONE);
    assert_int_equal(w.out.result->error, 0);
    assert_int_equal(w.out.result->op_count, DEPTH + 2);
    assert_int_equal(mvcc_revision(w.m), 2);
    world_close(&w);
}

static void test_a_result_outlives_a_compaction(void **state)
{
    struct world w;
    world_open(&w);
    put(&w, "k", "one");
    put(&w, "k", "two");
    txn_request *t = txn_new(&w.a);
    Etcdserverpb__RangeRequest *old = range_of(&w.a, "k", "");
    old->revision = 2;
    txn_success(&w.a, t, op_range(&w.a, old));
    txn_success(&w.a, t, op_put(&w.a, put_of(&w.a, "k", "three")));
    txn_success(&w.a, t, op_range(&w.a, range_of(&w.a, "k", "")));
    assert_int_equal(feed_txn(&w, t), APPLY_DONE);
    struct apply_result *r = w.out.result;
    w.out.result = NULL;
    REQUEST(q);
    Etcdserverpb__CompactionRequest c = ETCDSERVERPB__COMPACTION_REQUEST__INIT;
    c.revision = 4;
    q.compaction = &c;
    put(&w, "k", "four");
    assert_int_equal(feed(&w, &q), APPLY_DONE);
    world_commit(&w);
    assert_span(row_of(r, 1, 0).value, "one");
    assert_span(row_of(r, 3, 0).value, "three");
    apply_result_free(r);
    world_close(&w);
}

static void test_keys_only_says_what_to_leave_out(void **state)
{
    struct world w;
    world_open(&w);
    put(&w, "k", "v");
    txn_request *t = txn_new(&w.a);
    Etcdserverpb__RangeRequest *r = range_of(&w.a, "k", "");
    r->keys_only = 1;
    txn_success(&w.a, t, op_range(&w.a, r));
    assert_int_equal(feed_txn(&w, t), APPLY_DONE);
    assert_true(w.out.result->ops[1].keys_only);
    assert_false(w.out.result->ops[1].keep_lease);
    r->sort_target = ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__VALUE;
    assert_int_equal(feed_txn(&w, t), APPLY_DONE);
    assert_true(w.out.result->ops[1].keep_lease);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_txns_match_the_model),
        cmocka_unit_test(test_header_revisions),
        cmocka_unit_test(test_a_failed_txn_keeps_the_revision),
        cmocka_unit_test(test_negative_revisions_in_a_txn),
        cmocka_unit_test(test_a_put_inside_a_deleted_range_applies),
        cmocka_unit_test(test_keeping_a_value_that_the_txn_deleted_is_fatal),
        cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_a_result_outlives_a_compaction),
        cmocka_unit_test(test_keys_only_says_what_to_leave_out),
    };
    return cmocka_run_group_tests_name("apply: txn", tests, NULL, NULL);
}
