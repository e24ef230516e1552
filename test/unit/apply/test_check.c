/* Requests are refused for their shape, in upstream's order; costs. */
#include "apply/check.h"
#include "base/err.h"
#include "build.h"
#include "test_heap.h"

enum { OPS_MAX = 128 };

struct bench {
    struct test_heap heap;
    struct arena a;
};

static void bench_open(struct bench *b)
{
    test_heap_init(&b->heap);
    arena_init(&b->a, &b->heap.alloc, (size_t)1 << 30);
}

static void bench_close(struct bench *b)
{
    arena_deinit(&b->a);
    test_heap_check_empty(&b->heap);
}

static int check(struct bench *b, const txn_request *t)
{
    return apply_check_txn(t, OPS_MAX, &b->heap.alloc);
}

static void test_range(void **state)
{
    struct bench b;
    bench_open(&b);
    Etcdserverpb__RangeRequest *r = range_of(&b.a, "k", "");
    assert_int_equal(apply_check_range(r), 0);
    r->sort_order = (Etcdserverpb__RangeRequest__SortOrder)3;
    assert_int_equal(apply_check_range(r), E_INVALID_SORT_OPTION);
    r->sort_order = ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__DESCEND;
    assert_int_equal(apply_check_range_stream(r), E_RANGE_STREAM_SORT);
    r->sort_target = (Etcdserverpb__RangeRequest__SortTarget)5;
    assert_int_equal(apply_check_range(r), E_INVALID_SORT_OPTION);
    r->key.len = 0;
    assert_int_equal(apply_check_range_stream(r), E_EMPTY_KEY);
    bench_close(&b);
}

static void test_range_stream(void **state)
{
    struct bench b;
    bench_open(&b);
    Etcdserverpb__RangeRequest *r = range_of(&b.a, "k", "");
    r->sort_order = ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__ASCEND;
    assert_int_equal(apply_check_range_stream(r), 0);
    r->sort_target = ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__MOD;
    assert_int_equal(apply_check_range_stream(r), E_RANGE_STREAM_SORT);
    r->sort_order = ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__NONE;
    assert_int_equal(apply_check_range_stream(r), 0);
    int64_t *filters[] = {&r->min_mod_revision, &r->max_mod_revision, &r->min_create_revision,
                          &r->max_create_revision};
    for (size_t i = 0; i < 4; i++) {
        *filters[i] = 1;
        assert_int_equal(apply_check_range_stream(r), E_RANGE_STREAM_FILTER);
        *filters[i] = 0;
    }
    bench_close(&b);
}

static void test_put_and_delete(void **state)
{
    struct bench b;
    bench_open(&b);
    Etcdserverpb__PutRequest *p = put_of(&b.a, "k", "v");
    p->lease = 1;
    assert_int_equal(apply_check_put(p), 0);
    p->ignore_value = p->ignore_lease = 1;
    assert_int_equal(apply_check_put(p), E_VALUE_PROVIDED);
    p->value.len = 0;
    assert_int_equal(apply_check_put(p), E_LEASE_PROVIDED);
    p->lease = 0;
    assert_int_equal(apply_check_put(p), 0);
    p->key.len = 0;
    assert_int_equal(apply_check_put(p), E_EMPTY_KEY);
    assert_int_equal(apply_check_delete_range(delete_of(&b.a, "", "x")), E_EMPTY_KEY);
    assert_int_equal(apply_check_delete_range(delete_of(&b.a, "k", "a")), 0);
    assert_int_equal(apply_check_size(10, 10), 0);
    assert_int_equal(apply_check_size(11, 10), E_REQUEST_TOO_LARGE);
    bench_close(&b);
}

static void test_txn_op_limit_shrinks_with_depth(void **state)
{
    struct bench b;
    bench_open(&b);
    txn_request *outer = txn_new(&b.a);
    txn_request *inner = txn_new(&b.a);
    for (int i = 0; i < 100; i++) {
        txn_failure(&b.a, outer, op_range(&b.a, range_of(&b.a, "k", "")));
    }
    for (int i = 0; i < 28; i++) {
        txn_compare(&b.a, inner, compare_new(&b.a, "k", ""));
    }
    txn_success(&b.a, outer, op_txn(&b.a, inner));
    assert_int_equal(check(&b, outer), 0);
    txn_success(&b.a, inner, op_txn(&b.a, txn_new(&b.a)));
    assert_int_equal(check(&b, outer), 0); /* nothing is left, and nothing is needed */
    inner->success[0]->request_txn->n_compare = 0;
    txn_compare(&b.a, inner, compare_new(&b.a, "k", ""));
    assert_int_equal(check(&b, outer), E_TOO_MANY_OPS);
    bench_close(&b);
}

static void test_txn_checks_come_in_order(void **state)
{
    struct bench b;
    bench_open(&b);
    txn_request *t = txn_new(&b.a);
    assert_int_equal(check(&b, t), 0); /* an empty txn is fine */
    txn_failure(&b.a, t, op_new(&b.a));
    assert_int_equal(check(&b, t), E_KEY_NOT_FOUND);
    Etcdserverpb__PutRequest *p = put_of(&b.a, "k", "v");
    p->ignore_value = 1;
    txn_success(&b.a, t, op_put(&b.a, p));
    assert_int_equal(check(&b, t), E_VALUE_PROVIDED);
    txn_compare(&b.a, t, compare_new(&b.a, "", ""));
    assert_int_equal(check(&b, t), E_EMPTY_KEY);
    assert_int_equal(apply_check_txn(t, 0, &b.heap.alloc), E_TOO_MANY_OPS);
    bench_close(&b);
}

static void test_a_from_key_delete_covers_a_put(void **state)
{
    struct bench b;
    bench_open(&b);
    txn_request *t = txn_new(&b.a);
    txn_success(&b.a, t, op_put(&b.a, put_of(&b.a, "m", "")));
    txn_success(&b.a, t, op_delete(&b.a, delete_of(&b.a, "n", "0")));
    assert_int_equal(check(&b, t), 0);
    t->success[1] = op_delete(&b.a, delete_of(&b.a, "a", "0"));
    assert_int_equal(check(&b, t), E_DUPLICATE_KEY);
    bench_close(&b);
}

static txn_request *nest(struct bench *b, request_op *success, request_op *failure)
{
    txn_request *t = txn_new(&b->a);
    if (success != NULL) txn_success(&b->a, t, success);
    if (failure != NULL) txn_failure(&b->a, t, failure);
    return t;
}

static void test_overlap_examples(void **state)
{
    struct bench b;
    bench_open(&b);
    request_op *put = op_put(&b.a, put_of(&b.a, "m", ""));
    request_op *del = op_delete(&b.a, delete_of(&b.a, "a", "z"));
    request_op *put_in = op_txn(&b.a, nest(&b, put, NULL));
    request_op *del_in = op_txn(&b.a, nest(&b, NULL, del));
    request_op *both_in = op_txn(&b.a, nest(&b, put, put));
    const struct {
        request_op *first, *second;
        int rc;
    } cases[] = {
        {put, put, E_DUPLICATE_KEY},
        {put, del, E_DUPLICATE_KEY},
        {del, put, E_DUPLICATE_KEY},
        {del, del, 0},
        {put, put_in, E_DUPLICATE_KEY},
        {put_in, put, E_DUPLICATE_KEY},
        {del, put_in, E_DUPLICATE_KEY},
        {put_in, del, E_DUPLICATE_KEY},
        {del_in, put, E_DUPLICATE_KEY},
        {put, del_in, E_DUPLICATE_KEY},
        {both_in, del_in, 0},
        {put_in, both_in, E_DUPLICATE_KEY},
        {put_in, del_in, 0},
        {del_in, put_in, E_DUPLICATE_KEY},
        {both_in, del, E_DUPLICATE_KEY},
        {del_in, del_in, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        txn_request *t = nest(&b, cases[i].first, NULL);
        txn_success(&b.a, t, cases[i].second);
        assert_int_equal(check(&b, t), cases[i].rc);
        txn_request *other = txn_new(&b.a);
        other->failure = t->success;
        other->n_failure = t->n_success;
        assert_int_equal(check(&b, other), cases[i].rc);
    }
    bench_close(&b);
}

/* ---- overlaps against a model: sets of eight keys as bits ------------------------------------ */

struct sets {
    unsigned puts, dels;
    bool dup;
};

static struct sets model_of(request_op **ops, size_t n);

static unsigned mask_of(const Etcdserverpb__DeleteRangeRequest *d)
{
    unsigned m = 0;
    for (unsigned i = 0; i < 8; i++) {
        char key[2] = {(char)('a' + (int)i), 0};
        struct bytes k = bytes_str(key);
        struct bytes from = bytes_of(d->key.data, d->key.len);
        struct bytes end = bytes_of(d->range_end.data, d->range_end.len);
        bool in = bytes_cmp(k, from) >= 0;
        if (end.len == 0) in = bytes_eq(k, from);
        if (end.len > 0 && end.data[0] != 0) in = in && bytes_cmp(k, end) < 0;
        m |= (unsigned)in << i;
    }
    return m;
}

static void model_nested(struct sets *s, const txn_request *t)
{
    struct sets yes = model_of(t->success, t->n_success);
    struct sets no = model_of(t->failure, t->n_failure);
    s->dup |= yes.dup || no.dup;
    s->dup |= (yes.puts & s->puts) != 0 || (yes.puts & s->dels) != 0;
    s->dup |= (no.puts & s->puts) != 0 || (no.puts & s->dels) != 0;
    s->puts |= yes.puts | no.puts;
    s->dels |= yes.dels | no.dels;
}

static struct sets model_of(request_op **ops, size_t n)
{
    struct sets s = {0, 0, false};
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->request_case == OP_CASE(DELETE_RANGE)) {
            s.dels |= mask_of(ops[i]->request_delete_range);
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->request_case == OP_CASE(TXN)) model_nested(&s, ops[i]->request_txn);
    }
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->request_case != OP_CASE(PUT)) continue;
        unsigned m = 1u << (ops[i]->request_put->key.data[0] - 'a');
        s.dup |= (m & s.puts) != 0 || (m & s.dels) != 0;
        s.puts |= m;
    }
    return s;
}

static request_op *random_op(struct bench *b, struct prng *p, unsigned depth);

static void random_txn(struct bench *b, struct prng *p, unsigned depth, txn_request *t)
{
    for (uint64_t n = prng_below(p, 4); n > 0; n--) {
        txn_success(&b->a, t, random_op(b, p, depth));
    }
    for (uint64_t n = prng_below(p, 3); n > 0; n--) {
        txn_failure(&b->a, t, random_op(b, p, depth));
    }
}

static request_op *random_op(struct bench *b, struct prng *p, unsigned depth)
{
    char key[2] = {(char)('a' + (int)prng_below(p, 8)), 0};
    char end[2] = {(char)('a' + (int)prng_below(p, 9)), 0};
    uint64_t what = prng_below(p, depth > 0 ? 10 : 6);
    if (what >= 6) {
        txn_request *t = txn_new(&b->a);
        random_txn(b, p, depth - 1, t);
        return op_txn(&b->a, t);
    }
    if (what < 4) return op_put(&b->a, put_of(&b->a, key, "v"));
    if (prng_below(p, 4) == 0) end[0] = 0;
    if (prng_below(p, 8) == 0) end[0] = '0';
    return op_delete(&b->a, delete_of(&b->a, key, end));
}

static void test_overlaps_match_the_model(void **state)
{
    struct prng p;
    prng_init(&p, 7);
    unsigned refused = 0;
    for (int round = 0; round < 20000; round++) {
        struct bench b;
        bench_open(&b);
        txn_request *t = txn_new(&b.a);
        random_txn(&b, &p, (unsigned)prng_below(&p, 4), t);
        bool dup = model_of(t->success, t->n_success).dup || model_of(t->failure, t->n_failure).dup;
        assert_int_equal(check(&b, t), dup ? E_DUPLICATE_KEY : 0);
        refused += dup;
        bench_close(&b);
    }
    assert_in_range(refused, 4000, 16000);
}

static void check_with_failures(struct test_heap *h, void *arg)
{
    const txn_request *t = arg;
    int rc = apply_check_txn(t, OPS_MAX, &h->alloc);
    assert_true(rc == 0 || rc == E_NOMEM);
}

static void test_overlap_without_memory(void **state)
{
    struct bench b;
    bench_open(&b);
    txn_request *t =
        nest(&b, op_put(&b.a, put_of(&b.a, "a", "")), op_delete(&b.a, delete_of(&b.a, "a", "z")));
    assert_true(test_heap_every_failure(check_with_failures, t) > 1);
    bench_close(&b);
}

static void test_a_large_nested_txn_is_judged_fast(void **state)
{
    struct bench b;
    bench_open(&b);
    txn_request *t = txn_new(&b.a);
    for (int i = 0; i < 60; i++) {
        txn_request *mid = txn_new(&b.a);
        for (int k = 0; k < 50; k++) {
            char key[32];
            (void)snprintf(key, sizeof key, "%03d-%03d", i, k);
            txn_success(&b.a, mid,
                        op_txn(&b.a, nest(&b, op_put(&b.a, put_of(&b.a, key, "")),
                                          op_delete(&b.a, delete_of(&b.a, key, "~")))));
        }
        txn_success(&b.a, t, op_txn(&b.a, mid));
    }
    assert_int_equal(check(&b, t), E_DUPLICATE_KEY);
    bench_close(&b);
}

/* ---- what a txn is, and costs ---------------------------------------------------------------- */

static void test_readonly_and_serializable(void **state)
{
    struct bench b;
    bench_open(&b);
    txn_request *t = txn_new(&b.a);
    assert_true(apply_txn_is_readonly(t));
    assert_true(apply_txn_is_serializable(t));
    Etcdserverpb__RangeRequest *r = range_of(&b.a, "k", "");
    txn_success(&b.a, t, op_range(&b.a, r));
    assert_true(apply_txn_is_readonly(t));
    assert_false(apply_txn_is_serializable(t));
    r->serializable = 1;
    assert_true(apply_txn_is_serializable(t));
    txn_failure(&b.a, t, op_txn(&b.a, txn_new(&b.a)));
    assert_false(apply_txn_is_readonly(t));
    bench_close(&b);
}

static void test_costs(void **state)
{
    struct bench b;
    bench_open(&b);
    assert_int_equal(apply_cost_put(3, 5), 264);
    txn_request *t = txn_new(&b.a);
    assert_int_equal(apply_cost_txn(t), 0);
    txn_success(&b.a, t, op_delete(&b.a, delete_of(&b.a, "a", "z")));
    txn_success(&b.a, t, op_range(&b.a, range_of(&b.a, "a", "z")));
    assert_int_equal(apply_cost_txn(t), 0);
    txn_success(&b.a, t, op_put(&b.a, put_of(&b.a, "ab", "cd")));
    txn_request *in = nest(&b, NULL, op_put(&b.a, put_of(&b.a, "k", "")));
    txn_failure(&b.a, in, op_put(&b.a, put_of(&b.a, "l", "")));
    txn_failure(&b.a, t, op_txn(&b.a, in));
    assert_int_equal(apply_cost_txn(t), 2 * 257); /* the failure branch is the dearer one */
    txn_success(&b.a, t, op_txn(&b.a, in));
    assert_int_equal(apply_cost_txn(t), 260 + 2 * 257);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_range_stream),
        cmocka_unit_test(test_put_and_delete),
        cmocka_unit_test(test_txn_op_limit_shrinks_with_depth),
        cmocka_unit_test(test_txn_checks_come_in_order),
        cmocka_unit_test(test_a_from_key_delete_covers_a_put),
        cmocka_unit_test(test_overlap_examples),
        cmocka_unit_test(test_overlaps_match_the_model),
        cmocka_unit_test(test_overlap_without_memory),
        cmocka_unit_test(test_a_large_nested_txn_is_judged_fast),
        cmocka_unit_test(test_readonly_and_serializable),
        cmocka_unit_test(test_costs),
    };
    return cmocka_run_group_tests_name("apply: checks", tests, NULL, NULL);
}
