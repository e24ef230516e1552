/* Random histories against the naive reference: puts, deletes, transactions, compactions, commits, crashes; every revision's
 * rows and HashKV compared. The order of operations is drawn from the seed that a failure prints. */
#include "model.h"

enum { SEEDS = 200, STEPS = 120 };

struct world {
    struct kit k;
    struct model now;
    struct model swapped; /* as the frozen run leaves it */
    struct model durable; /* as a crash leaves it */
    struct mvcc_compact *job;
    struct mvcc_portion *last;
    uint32_t job_hash; /* what the job is to remember, if it does */
    uint64_t seed;     /* 0 when all went well */
    uint64_t rand;
    uint64_t value;
};

static uint64_t draw(struct world *w, uint64_t below)
{
    w->rand ^= w->rand << 13;
    w->rand ^= w->rand >> 7;
    w->rand ^= w->rand << 17;
    return (w->rand >> 11) % below;
}

/* --- comparing --- */

static void check_row(struct world *w, struct mvcc_view *v, const struct mvcc_row *got,
                      const struct model_row *want)
{
    struct bytes stored;
    struct pb_kv kv;
    uint8_t value[32];
    assert_int_equal(got->mod, want->main);
    assert_int_equal(got->sub, want->sub);
    assert_int_equal(got->create, want->create);
    assert_int_equal(got->version, want->version);
    int rc = mvcc_view_kv(v, got, &stored, &w->k.em);
    assert_int_equal(rc, 0);
    assert_int_equal(pb_kv_decode(stored, &kv), 0);
    assert_true(bytes_eq(kv.key, model_key(want->key)));
    assert_true(bytes_eq(kv.value, bytes_of(value, model_value(want->value, value))));
    assert_int_equal(kv.lease, want->lease);
}

/* All keys in [from, to) through `v`, against the model at `rev`. */
static void check_range(struct world *w, struct mvcc_view *v, int64_t rev, int from, int to)
{
    struct mvcc_range_opts o = {.key = model_key(from),
                                .end = to == MODEL_KEYS ? ALL_KEYS : model_key(to)};
    struct mvcc_range r;
    mvcc_range_init(&r, v, &o);
    kit_range_run(&w->k, &r, 1 + draw(w, 8));
    size_t n = 0;
    for (int key = from; key < to; key++) {
        const struct model_row *want = model_at(&w->now, key, rev);
        struct mvcc_row one;
        assert_int_equal(mvcc_view_get(v, model_key(key), &one), want == NULL ? E_NOTFOUND : 0);
        if (want == NULL) continue;
        assert_true(n < r.row_count);
        check_row(w, v, mvcc_range_row(&r, n++), want);
        check_row(w, v, &one, want);
    }
    assert_int_equal(n, r.row_count);
    assert_int_equal(n, r.count);
    mvcc_range_deinit(&r);
    o.limit = 1; /* the count goes on without rows */
    o.count_only = draw(w, 2) == 0;
    mvcc_range_init(&r, v, &o);
    kit_range_run(&w->k, &r, 1 + draw(w, 8));
    assert_int_equal(n, r.count);
    mvcc_range_deinit(&r);
}

static void check_revision(struct world *w, int64_t rev)
{
    struct mvcc_view v;
    int want = rev > w->now.current ? E_FUTURE_REV : rev < w->now.compacted ? E_COMPACTED : 0;
    assert_int_equal(mvcc_view_open(w->k.m, rev, &v), want);
    if (want < 0) return;
    check_range(w, &v, rev, 0, MODEL_KEYS);
    mvcc_view_close(&v);
}

static bool is_remembered(struct world *w, int64_t rev)
{
    struct mvcc_hash_answer kept[MVCC_HASHES_KEPT];
    size_t n = mvcc_hash_remembered(w->k.m, kept);
    for (size_t i = 0; i < n; i++) {
        if (kept[i].hash_rev == rev) return true;
    }
    return false;
}

static void check_hashes(struct world *w)
{
    struct mvcc_hash_answer a;
    for (int64_t rev = 1; rev <= w->now.current + 1; rev++) {
        if (is_remembered(w, rev)) continue; /* checked when it was made */
        int want = rev > w->now.current ? E_FUTURE_REV : rev < w->now.compacted ? E_COMPACTED : 0;
        assert_int_equal(kit_hash(&w->k, rev, &a), want);
        if (want < 0) continue;
        assert_int_equal(a.hash, model_hash(&w->now, rev, w->now.compacted, false));
        assert_int_equal(a.compact_rev, w->now.compacted);
    }
    assert_int_equal(kit_hash(&w->k, 0, &a), 0);
    assert_int_equal(a.hash, model_hash(&w->now, w->now.current, w->now.compacted, false));
    assert_int_equal(kit_hash(&w->k, -5, &a), 0);
    assert_int_equal(a.hash, crc32c(bytes_str("key")));
}

static void check_all(struct world *w)
{
    assert_int_equal(mvcc_revision(w->k.m), w->now.current);
    assert_int_equal(mvcc_compacted(w->k.m), w->now.compacted);
    assert_int_equal(mvcc_applied_index(w->k.m), w->now.index);
    for (int64_t rev = 1; rev <= w->now.current + 1; rev++) {
        check_revision(w, rev);
    }
    check_hashes(w);
}

/* --- acting --- */

/* A key is changed once in an entry, as the checks before raft see to. */
static bool touched(const struct world *w, int from, int to)
{
    for (size_t i = w->now.count; i-- > 0 && w->now.rows[i].main == w->now.main;) {
        if (w->now.rows[i].key >= from && w->now.rows[i].key < to) return true;
    }
    return false;
}

static void act_put(struct world *w)
{
    int key = (int)draw(w, MODEL_KEYS);
    if (touched(w, key, key + 1)) return;
    int64_t lease = draw(w, 4) == 0 ? 77 : 0;
    uint8_t value[32];
    size_t n = model_value(++w->value, value);
    assert_int_equal(mvcc_write_put(w->k.m, model_key(key), bytes_of(value, n), lease, NULL), 0);
    model_put(&w->now, key, w->value, lease);
}

static void act_delete(struct world *w)
{
    int from = (int)draw(w, MODEL_KEYS), to = from + 1 + (int)draw(w, 4);
    if (to > MODEL_KEYS) to = MODEL_KEYS;
    if (touched(w, from, to)) return;
    struct bytes end = to == MODEL_KEYS ? ALL_KEYS : to == from + 1 ? BYTES_EMPTY : model_key(to);
    uint64_t want = model_delete(&w->now, from, to);
    assert_int_equal(kit_erase(&w->k, model_key(from), end), want);
}

static void act_entry(struct world *w)
{
    mvcc_entry_begin(w->k.m);
    model_begin(&w->now);
    for (uint64_t ops = 1 + draw(w, 4); ops > 0; ops--) {
        size_t before = w->now.count;
        if (draw(w, 3) == 0) {
            act_delete(w);
        } else {
            act_put(w);
        }
        if (w->now.count == before || draw(w, 3) > 0) continue;
        struct mvcc_view v;
        assert_int_equal(mvcc_view_open_entry(w->k.m, 0, &v), 0);
        check_range(w, &v, w->now.main, 0, MODEL_KEYS);
        mvcc_view_close(&v);
    }
    kit_seal(&w->k);
    model_seal(&w->now);
}

static void act_mark(struct world *w)
{
    int64_t rev = (int64_t)draw(w, (uint64_t)w->now.current + 2);
    int want = rev > w->now.current ? E_FUTURE_REV : rev <= w->now.compacted ? E_COMPACTED : 0;
    if (rev > w->now.current && rev <= w->now.compacted) want = E_COMPACTED;
    assert_int_equal(kit_compact(&w->k, rev), want);
    w->now.index++;
    if (want == 0) w->now.compacted = rev;
}

static void act_swap(struct world *w)
{
    if (w->k.run != NULL) return;
    kit_swap(&w->k);
    w->swapped = w->now;
}

static void portion_stored(struct world *w)
{
    int64_t rev = mvcc_compact_rev(w->job);
    model_compact(&w->now, rev);
    model_compact(&w->durable, rev);
    if (w->k.run != NULL) model_compact(&w->swapped, rev);
}

static void act_commit(struct world *w)
{
    if (w->k.run == NULL && w->last == NULL) return;
    kit_store(&w->k, w->last);
    if (w->k.run != NULL) {
        int64_t finished = w->durable.finished;
        w->durable = w->swapped;
        w->durable.finished = finished;
    }
    if (w->last != NULL) portion_stored(w);
    mvcc_portion_free(w->last);
    w->last = NULL;
    kit_retire(&w->k);
}

static void act_list(struct world *w)
{
    if (w->job != NULL) return;
    assert_int_equal(mvcc_compact_begin(w->k.m, &w->job), 0);
    if (w->job == NULL) return;
    w->job_hash = model_hash(&w->now, mvcc_compact_rev(w->job), w->now.finished, true);
    int rc = 1;
    while (rc == 1) {
        rc = mvcc_compact_list(w->job, 1 + draw(w, 50), &w->last, &w->k.em);
        assert_true(rc >= 0);
        if (rc == 1) assert_null(w->last);
    }
    assert_true(mvcc_portion_is_last(w->last));
}

static void act_finish(struct world *w)
{
    if (w->job == NULL || w->last != NULL) return;
    int rc;
    while ((rc = mvcc_compact_prune(w->job, 1 + draw(w, 5))) == 1) {}
    assert_int_equal(rc, 0);
    int64_t rev = mvcc_compact_rev(w->job);
    mvcc_compact_end(w->job);
    w->job = NULL;
    struct mvcc_hash_answer a;
    if (rev < 1 || !is_remembered(w, rev)) return;
    assert_int_equal(kit_hash(&w->k, rev, &a), 0);
    assert_int_equal(a.hash, w->job_hash);
}

static void act_crash(struct world *w)
{
    mvcc_portion_free(w->last);
    mvcc_compact_abandon(w->job);
    w->last = NULL;
    w->job = NULL;
    kit_crash(&w->k);
    w->now = w->durable;
    w->k.run = NULL;
}

static void act(struct world *w)
{
    uint64_t x = draw(w, 100);
    if (x < 70) {
        act_entry(w);
    } else if (x < 76) {
        act_mark(w);
    } else if (x < 82) {
        act_swap(w);
    } else if (x < 88) {
        act_commit(w);
    } else if (x < 92) {
        act_list(w);
    } else if (x < 96) {
        act_finish(w);
    } else if (x < 97) {
        act_crash(w);
    } else {
        check_all(w);
    }
}

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct world));
    return *state == NULL;
}

static int teardown(void **state)
{
    struct world *w = *state;
    if (w->seed != 0) print_message("it was seed %d\n", (int)w->seed);
    free(w);
    return 0;
}

static void histories_agree_with_the_reference(void **state)
{
    struct world *w = *state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        memset(w, 0, sizeof *w);
        kit_init(&w->k);
        model_init(&w->now);
        model_init(&w->durable);
        w->seed = seed;
        w->rand = seed * 0x9e3779b97f4a7c15u;
        for (int step = 0; step < STEPS; step++) {
            act(w);
        }
        check_all(w);
        act_crash(w);
        check_all(w);
        kit_deinit(&w->k);
    }
    w->seed = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(histories_agree_with_the_reference, setup, teardown)};
    return cmocka_run_group_tests_name("mvcc model", tests, NULL, NULL);
}
