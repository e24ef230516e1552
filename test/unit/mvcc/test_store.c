/* Behaviour by behaviour: entries, revisions, ranges, runs, compaction, loading. */
#include "kit.h"

#include "test_heap.h"

static int setup(void **state)
{
    struct kit *k = calloc(1, sizeof *k);
    kit_init(k);
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    kit_deinit(*state);
    free(*state);
    return 0;
}

static struct bytes S(const char *text) {
    return bytes_str(text);
}

/* --- entries --- */

static void
an_empty_store_is_at_revision_one(void **state)
{
    struct kit *k = *state;
    assert_int_equal(mvcc_revision(k->m), 1);
    assert_int_equal(mvcc_compacted(k->m), -1);
    assert_int_equal(mvcc_key_count(k->m), 0);
    assert_int_equal(mvcc_applied_index(k->m), 0);
    struct mvcc_hash_answer a;
    assert_int_equal(kit_hash(k, 0, &a), 0);
    assert_int_equal(a.hash_rev, 1);
    assert_int_equal(a.compact_rev, -1);
}

static void a_put_gets_the_next_revision(void **state)
{
    struct kit *k = *state;
    struct mvcc_row row = kit_put(k, "a", "1");
    assert_int_equal(row.mod, 2);
    assert_int_equal(row.create, 2);
    assert_int_equal(row.version, 1);
    assert_int_equal(row.sub, 0);
    row = kit_put(k, "a", "2");
    assert_int_equal(row.mod, 3);
    assert_int_equal(row.create, 2);
    assert_int_equal(row.version, 2);
    assert_int_equal(mvcc_revision(k->m), 3);
}

static void a_deletion_ends_a_life(void **state)
{
    struct kit *k = *state;
    kit_put(k, "a", "1");
    kit_put(k, "a", "2");
    assert_int_equal(kit_del(k, "a"), 1);
    assert_int_equal(kit_del(k, "a"), 0);
    assert_int_equal(mvcc_revision(k->m), 4);
    struct mvcc_row row = kit_put(k, "a", "3");
    assert_int_equal(row.create, 5);
    assert_int_equal(row.version, 1);
    char text[64];
    assert_string_equal(kit_all(k, 3, text, sizeof text), "a=2 ");
    assert_string_equal(kit_all(k, 4, text, sizeof text), "");
    assert_string_equal(kit_all(k, 5, text, sizeof text), "a=3 ");
}

static void one_entry_is_one_revision_with_subs(void **state)
{
    struct kit *k = *state;
    mvcc_entry_begin(k->m);
    assert_int_equal(mvcc_entry_revision(k->m), 1);
    assert_int_equal(kit_write(k, "a", "1").sub, 0);
    assert_int_equal(mvcc_entry_revision(k->m), 2);
    assert_int_equal(kit_write(k, "b", "1").sub, 1);
    assert_int_equal(kit_erase(k, S("a"), S("c")), 2);
    assert_int_equal(kit_write(k, "c", "1").sub, 4);
    assert_int_equal(mvcc_revision(k->m), 1);
    kit_seal(k);
    assert_int_equal(mvcc_revision(k->m), 2);
    char text[64];
    assert_string_equal(kit_all(k, 0, text, sizeof text), "c=1 ");
}

static void an_entry_without_change_keeps_the_revision(void **state)
{
    struct kit *k = *state;
    mvcc_entry_begin(k->m);
    kit_seal(k);
    assert_int_equal(mvcc_revision(k->m), 1);
    assert_int_equal(mvcc_applied_index(k->m), 1);
    assert_true(mvcc_active_is_trivial(k->m));
    kit_commit(k);
    kit_crash(k);
    assert_int_equal(mvcc_applied_index(k->m), 1);
    assert_int_equal(mvcc_applied_term(k->m), 2);
}

static void unsealed_changes_are_unseen(void **state)
{
    struct kit *k = *state;
    kit_put(k, "a", "1");
    mvcc_entry_begin(k->m);
    kit_write(k, "a", "2");
    kit_write(k, "b", "2");
    char text[64];
    assert_string_equal(kit_all(k, 0, text, sizeof text), "a=1 ");
    assert_string_equal(kit_all(k, 3, text, sizeof text), "E_FUTURE_REV");
    struct mvcc_hash_answer a;
    assert_int_equal(kit_hash(k, 3, &a), E_FUTURE_REV);
    struct mvcc_run *run;
    assert_int_equal(mvcc_run_swap(k->m, &run), 0);
    assert_null(run);
    kit_seal(k);
    assert_string_equal(kit_all(k, 0, text, sizeof text), "a=2 b=2 ");
}

static void the_writer_sees_its_own_changes(void **state)
{
    struct kit *k = *state;
    kit_put(k, "a", "old");
    kit_commit(k);
    mvcc_entry_begin(k->m);
    struct mvcc_row row;
    struct bytes kv;
    struct pb_kv d;
    assert_int_equal(mvcc_write_get(k->m, S("a"), &row), 0);
    assert_int_equal(mvcc_write_kv(k->m, &row, &kv, &k->em), 0);
    assert_int_equal(pb_kv_decode(kv, &d), 0);
    assert_true(bytes_eq(d.value, S("old")));
    kit_write(k, "a", "new");
    assert_int_equal(mvcc_write_get(k->m, S("a"), &row), 0);
    assert_int_equal(row.version, 2);
    assert_int_equal(mvcc_write_kv(k->m, &row, &kv, &k->em), 0);
    assert_int_equal(pb_kv_decode(kv, &d), 0);
    assert_true(bytes_eq(d.value, S("new")));
    kit_erase(k, S("a"), BYTES_EMPTY);
    assert_int_equal(mvcc_write_get(k->m, S("a"), &row), E_NOTFOUND);
    kit_seal(k);
}

static void a_view_of_the_entry_outlives_it(void **state)
{
    struct kit *k = *state;
    kit_put(k, "a", "1");
    kit_put(k, "b", "1");
    mvcc_entry_begin(k->m);
    kit_write(k, "a", "2");
    struct mvcc_view now, before;
    assert_int_equal(mvcc_view_open_entry(k->m, 0, &now), 0);
    assert_int_equal(mvcc_view_open_entry(k->m, 3, &before), 0);
    struct mvcc_view none;
    assert_int_equal(mvcc_view_open_entry(k->m, 4, &none), E_FUTURE_REV);
    kit_seal(k);
    kit_put(k, "a", "3");
    kit_commit(k);
    kit_compact(k, 5);
    kit_commit(k);
    assert_false(kit_work(k)); /* the pins hold it back */
    struct mvcc_range_opts o = {.key = S("a"), .end = ALL_KEYS};
    char text[64];
    assert_string_equal(kit_text(k, &now, &o, text, sizeof text), "a=2 b=1 ");
    assert_string_equal(kit_text(k, &before, &o, text, sizeof text), "a=1 b=1 ");
    mvcc_view_close(&before);
    mvcc_view_close(&now);
    assert_true(kit_work(k));
    assert_string_equal(kit_all(k, 4, text, sizeof text), "E_COMPACTED");
    assert_string_equal(kit_all(k, 5, text, sizeof text), "a=3 b=1 ");
}

static void count_lease(void *arg, struct bytes key)
{
    (void)key;
    ++*(int *)arg;
}

static void a_delete_names_leased_keys_and_old_rows(void **state)
{
    struct kit *k = *state;
    mvcc_entry_begin(k->m);
    kit_write(k, "a", "1");
    assert_int_equal(mvcc_write_put(k->m, S("b"), S("1"), 7, NULL), 0);
    assert_int_equal(mvcc_write_put(k->m, S("c"), S("1"), 7, NULL), 0);
    kit_write(k, "c", "2"); /* takes the lease off */
    kit_seal(k);
    mvcc_entry_begin(k->m);
    struct mvcc_delete d;
    int leased = 0;
    mvcc_delete_init(&d, k->m, S("a"), S("z"));
    d.on_lease = count_lease;
    d.arg = &leased;
    d.want_prev = true;
    assert_int_equal(mvcc_delete_step(&d, 100), 0);
    assert_int_equal(d.count, 3);
    assert_int_equal(leased, 1);
    assert_int_equal(d.prev_count, 3);
    assert_int_equal(d.prev[2].sub, 3);
    assert_int_equal(d.prev[2].version, 2);
    mvcc_delete_deinit(&d);
    kit_seal(k);
}

/* --- ranges --- */

static void fill_abc(struct kit *k)
{
    kit_put(k, "c", "1");
    kit_put(k, "a", "3");
    kit_put(k, "b", "2");
    kit_put(k, "a", "0");
}

static void check_range(struct kit *k, struct mvcc_range_opts o, const char *want)
{
    struct mvcc_view v;
    char text[128];
    assert_int_equal(mvcc_view_open(k->m, 0, &v), 0);
    assert_string_equal(kit_text(k, &v, &o, text, sizeof text), want);
    mvcc_view_close(&v);
}

static void range_rules(void **state)
{
    struct kit *k = *state;
    fill_abc(k);
    check_range(k, (struct mvcc_range_opts){.key = S("a")}, "a=0 ");
    check_range(k, (struct mvcc_range_opts){.key = S("aa")}, "");
    check_range(k, (struct mvcc_range_opts){.key = S("a"), .end = S("c")}, "a=0 b=2 ");
    check_range(k, (struct mvcc_range_opts){.key = S("b"), .end = ALL_KEYS}, "b=2 c=1 ");
    check_range(k, (struct mvcc_range_opts){.key = ALL_KEYS, .end = ALL_KEYS}, "a=0 b=2 c=1 ");
    check_range(k, (struct mvcc_range_opts){.key = S("c"), .end = S("a")}, "");
    check_range(k, (struct mvcc_range_opts){.key = S("c"), .end = S("c")}, "");
}

static struct mvcc_range_opts all(enum mvcc_sort_order order, enum mvcc_sort_target target,
                                  int64_t limit)
{
    return (struct mvcc_range_opts){
        .key = ALL_KEYS, .end = ALL_KEYS, .limit = limit, .order = order, .target = target};
}

static void range_sorts(void **state)
{
    struct kit *k = *state;
    fill_abc(k);
    check_range(k, all(MVCC_SORT_ASCEND, MVCC_SORT_KEY, 2), "a=0 b=2 ");
    check_range(k, all(MVCC_SORT_DESCEND, MVCC_SORT_KEY, 0), "c=1 b=2 a=0 ");
    check_range(k, all(MVCC_SORT_DESCEND, MVCC_SORT_KEY, 2), "c=1 b=2 ");
    check_range(k, all(MVCC_SORT_ASCEND, MVCC_SORT_VALUE, 0), "a=0 c=1 b=2 ");
    check_range(k, all(MVCC_SORT_DESCEND, MVCC_SORT_VALUE, 1), "b=2 ");
    check_range(k, all(MVCC_SORT_ASCEND, MVCC_SORT_MOD, 0), "c=1 b=2 a=0 ");
    check_range(k, all(MVCC_SORT_ASCEND, MVCC_SORT_CREATE, 0), "c=1 a=0 b=2 ");
    check_range(k, all(MVCC_SORT_DESCEND, MVCC_SORT_VERSION, 0), "a=0 b=2 c=1 ");
}

static void no_order_with_a_target_sorts_what_the_limit_left(void **state)
{
    struct kit *k = *state;
    fill_abc(k);
    /* limit 1 reads a and b by key, sorts these two by create revision, and cuts. */
    check_range(k, all(MVCC_SORT_NONE, MVCC_SORT_MOD, 1), "b=2 ");
    check_range(k, all(MVCC_SORT_ASCEND, MVCC_SORT_MOD, 1), "c=1 ");
    check_range(k, all(MVCC_SORT_NONE, MVCC_SORT_MOD, 0), "c=1 b=2 a=0 ");
}

static void filters_come_before_the_limit(void **state)
{
    struct kit *k = *state;
    fill_abc(k);
    struct mvcc_range_opts o = all(MVCC_SORT_NONE, MVCC_SORT_KEY, 1);
    o.mod_max = 4;
    check_range(k, o, "b=2 ");
    o = all(MVCC_SORT_NONE, MVCC_SORT_KEY, 0);
    o.mod_min = 5;
    check_range(k, o, "a=0 ");
    o.mod_min = 0;
    o.create_min = 3;
    o.create_max = 3;
    check_range(k, o, "a=0 ");
}

static void counts_ignore_limit_and_filters(void **state)
{
    struct kit *k = *state;
    fill_abc(k);
    struct mvcc_view v;
    assert_int_equal(mvcc_view_open(k->m, 0, &v), 0);
    struct mvcc_range r;
    struct mvcc_range_opts o = all(MVCC_SORT_NONE, MVCC_SORT_KEY, 1);
    mvcc_range_init(&r, &v, &o);
    kit_range_run(k, &r, 1);
    assert_int_equal(r.count, 3);
    assert_int_equal(r.row_count, 1);
    assert_true(r.more);
    mvcc_range_deinit(&r);
    o.limit = 3;
    o.mod_min = 5;
    mvcc_range_init(&r, &v, &o);
    kit_range_run(k, &r, 1);
    assert_int_equal(r.count, 3);
    assert_int_equal(r.row_count, 1);
    assert_false(r.more);
    mvcc_range_deinit(&r);
    o = (struct mvcc_range_opts){.key = ALL_KEYS, .end = ALL_KEYS, .limit = 1, .count_only = true};
    mvcc_range_init(&r, &v, &o);
    kit_range_run(k, &r, 1);
    assert_int_equal(r.count, 3);
    assert_int_equal(r.row_count, 0);
    assert_false(r.more);
    mvcc_range_deinit(&r);
    o.count_only = false;
    o.no_count = true;
    mvcc_range_init(&r, &v, &o);
    kit_range_run(k, &r, 100);
    assert_int_equal(r.count, 2);
    assert_true(r.more);
    mvcc_range_deinit(&r);
    mvcc_view_close(&v);
}

static void ten_thousand_rows_sort_in_slices(void **state)
{
    struct kit *k = *state;
    enum { N = 10000 };
    mvcc_entry_begin(k->m);
    for (int i = 0; i < N; i++) {
        char key[16], value[16];
        snprintf(key, sizeof key, "k%05d", i);
        snprintf(value, sizeof value, "%05d", (i * 7919) % N);
        kit_write(k, key, value);
    }
    kit_seal(k);
    struct mvcc_view v;
    assert_int_equal(mvcc_view_open(k->m, 0, &v), 0);
    struct mvcc_range_opts o = all(MVCC_SORT_DESCEND, MVCC_SORT_VALUE, 0);
    struct mvcc_range r;
    mvcc_range_init(&r, &v, &o);
    kit_range_run(k, &r, MVCC_SLICE_KEYS);
    assert_int_equal(r.row_count, N);
    for (int i = 0; i < N; i++) {
        struct bytes kv;
        struct pb_kv d;
        char want[16];
        snprintf(want, sizeof want, "%05d", N - 1 - i);
        assert_int_equal(mvcc_view_kv(&v, mvcc_range_row(&r, (size_t)i), &kv, &k->em), 0);
        assert_int_equal(pb_kv_decode(kv, &d), 0);
        assert_true(bytes_eq(d.value, S(want)));
    }
    mvcc_range_deinit(&r);
    mvcc_view_close(&v);
}

static void keys_only_strips_value_and_lease(void **state)
{
    struct kit *k = *state;
    mvcc_entry_begin(k->m);
    struct mvcc_row row;
    assert_int_equal(mvcc_write_put(k->m, S("key"), S("value"), 300, &row), 0);
    struct bytes kv, head, lease;
    assert_int_equal(mvcc_write_kv(k->m, &row, &kv, &k->em), 0);
    assert_int_equal(mvcc_kv_strip(kv, &head, &lease), 0);
    struct pb_kv d;
    assert_int_equal(pb_kv_decode(head, &d), 0);
    assert_true(bytes_eq(d.key, S("key")));
    assert_int_equal(d.mod_revision, 2);
    assert_int_equal(d.value.len, 0);
    assert_int_equal(d.lease, 0);
    assert_int_equal(pb_kv_decode(lease, &d), 0);
    assert_int_equal(d.lease, 300);
    assert_int_equal(mvcc_kv_strip(bytes_of("\x0a", 1), &head, &lease), E_CORRUPT);
    kit_seal(k);
}

/* --- runs and views --- */

static void a_run_moves_to_the_backend(void **state)
{
    struct kit *k = *state;
    kit_put(k, "a", "1");
    mvcc_entry_begin(k->m);
    assert_int_equal(mvcc_table_put(k->m, TABLE_CLUSTER, S("clusterVersion"), S("3.7.0")), 0);
    assert_int_equal(mvcc_table_put(k->m, TABLE_ALARM, S("x"), BYTES_EMPTY), 0);
    assert_int_equal(mvcc_table_del(k->m, TABLE_ALARM, S("x")), 0);
    kit_seal(k);
    size_t bytes = mvcc_run_bytes(k->m);
    assert_true(bytes > 0);
    assert_int_equal(mvcc_active_bytes(k->m), bytes);
    kit_swap(k);
    assert_int_equal(mvcc_run_index(k->run), 2);
    assert_int_equal(mvcc_run_term(k->run), 2);
    assert_false(mvcc_run_is_trivial(k->run));
    struct mvcc_run *second;
    kit_put(k, "b", "1");
    assert_int_equal(mvcc_run_swap(k->m, &second), 0);
    assert_null(second); /* the first is not retired yet */
    kit_store(k, NULL);
    kit_retire(k);
    assert_int_equal(fake_backend_count(&k->backend, TABLE_KEY), 1);
    assert_int_equal(fake_backend_count(&k->backend, TABLE_ALARM), 0);
    assert_int_equal(fake_backend_count(&k->backend, TABLE_CLUSTER), 1);
    assert_int_equal(mvcc_run_bytes(k->m), mvcc_active_bytes(k->m));
    char text[64];
    assert_string_equal(kit_all(k, 0, text, sizeof text), "a=1 b=1 ");
    kit_crash(k);
    assert_string_equal(kit_all(k, 0, text, sizeof text), "a=1 ");
    assert_int_equal(mvcc_applied_index(k->m), 2);
}

static void a_held_run_outlives_its_retirement(void **state)
{
    struct kit *k = *state;
    kit_put(k, "a", "1");
    kit_swap(k);
    struct mvcc_run *run = k->run;
    mvcc_run_hold(run);
    kit_store(k, NULL);
    kit_retire(k);
    assert_int_equal(mvcc_run_index(run), 1);
    mvcc_run_release(run);
}

static void apply_pauses_when_both_runs_are_full(void **state)
{
    struct kit *k = *state;
    mvcc_free(k->m);
    k->opts.run_bytes_max = 200;
    kit_open(k);
    for (int i = 0; i < 10; i++) {
        kit_put(k, "a", "12345678");
    }
    assert_false(mvcc_run_full(k->m));
    kit_swap(k);
    assert_false(mvcc_run_full(k->m));
    while (!mvcc_run_full(k->m)) {
        kit_put(k, "a", "12345678");
    }
    kit_store(k, NULL);
    kit_retire(k);
    assert_false(mvcc_run_full(k->m));
    kit_commit(k);
}

static void a_view_survives_suspension(void **state)
{
    struct kit *k = *state;
    kit_put(k, "a", "1");
    struct mvcc_view v;
    assert_int_equal(mvcc_view_open(k->m, 0, &v), 0);
    mvcc_view_suspend(&v);
    kit_put(k, "a", "2");
    kit_commit(k);
    assert_int_equal(mvcc_view_resume(&v), 0);
    struct mvcc_range_opts o = {.key = S("a")};
    char text[64];
    assert_string_equal(kit_text(k, &v, &o, text, sizeof text), "a=1 ");
    struct mvcc_row row;
    assert_int_equal(mvcc_view_get(&v, S("a"), &row), 0);
    assert_int_equal(row.mod, 2);
    assert_int_equal(mvcc_view_get(&v, S("b"), &row), E_NOTFOUND);
    mvcc_view_close(&v);
}

static void a_pin_that_is_too_old_is_broken(void **state)
{
    struct kit *k = *state;
    kit_put(k, "a", "1");
    kit_put(k, "a", "2");
    kit_commit(k);
    struct mvcc_view v, waiting;
    assert_int_equal(mvcc_view_open(k->m, 2, &v), 0);
    assert_int_equal(mvcc_view_open(k->m, 2, &waiting), 0);
    mvcc_view_suspend(&waiting);
    kit_compact(k, 3);
    kit_commit(k);
    assert_false(kit_work(k));
    mvcc_tick(k->m, 60001);
    assert_true(kit_work(k));
    struct mvcc_row row = {.mod = 2};
    struct bytes kv;
    assert_int_equal(mvcc_view_get(&v, S("a"), &row), E_INTR);
    row = (struct mvcc_row){.mod = 2};
    assert_int_equal(mvcc_view_kv(&v, &row, &kv, &k->em), E_INTR);
    assert_int_equal(mvcc_view_resume(&waiting), E_INTR);
    mvcc_view_close(&v);
    mvcc_view_close(&waiting);
}

static void many_views_pin_at_once(void **state)
{
    struct kit *k = *state;
    enum { N = 200 };
    static struct mvcc_view v[N];
    for (int i = 0; i < N; i++) {
        kit_put(k, "a", "1");
        assert_int_equal(mvcc_view_open(k->m, 0, &v[i]), 0);
    }
    kit_compact(k, N);
    kit_commit(k);
    for (int i = 0; i < N; i++) {
        if (i < N - 2) assert_false(kit_work(k));
        mvcc_view_close(&v[i]);
    }
    assert_true(kit_work(k));
}

/* --- history --- */

static void history_joins_backend_and_runs(void **state)
{
    struct kit *k = *state;
    for (int i = 0; i < 4; i++) {
        kit_put(k, "a", "1");
    }
    kit_commit(k);
    kit_del(k, "a");
    kit_put(k, "a", "1");
    kit_swap(k);
    kit_put(k, "b", "1");
    struct mvcc_view v;
    assert_int_equal(mvcc_view_open_history(k->m, 3, &v), 0);
    kit_store(k, NULL); /* the backend now has what the frozen run has too */
    kit_put(k, "b", "2");
    struct mvcc_history h;
    mvcc_history_init(&h, &v, 3, v.rev);
    struct mvcc_change c;
    for (int64_t want = 3; want <= 8; want++) {
        assert_int_equal(mvcc_history_next(&h, &c, &k->em), 0);
        assert_int_equal(c.main, want);
        assert_int_equal(c.sub, 0);
        assert_int_equal(c.deletion, want == 6);
    }
    assert_int_equal(mvcc_history_next(&h, &c, &k->em), E_NOTFOUND);
    mvcc_history_deinit(&h);
    mvcc_view_close(&v);
    kit_retire(k);
}

/* --- compaction --- */

static void compaction_answers(void **state)
{
    struct kit *k = *state;
    assert_int_equal(kit_compact(k, 0), 0); /* the marker starts at -1 */
    assert_int_equal(kit_compact(k, 0), E_COMPACTED);
    kit_put(k, "a", "1");
    assert_int_equal(kit_compact(k, 3), E_FUTURE_REV);
    assert_int_equal(kit_compact(k, 2), 0);
    assert_int_equal(kit_compact(k, 2), E_COMPACTED);
    assert_int_equal(kit_compact(k, 1), E_COMPACTED);
    assert_int_equal(mvcc_compacted(k->m), 2);
    char text[64];
    assert_string_equal(kit_all(k, 1, text, sizeof text), "E_COMPACTED");
    assert_string_equal(kit_all(k, 2, text, sizeof text), "a=1 ");
}

static void compaction_waits_for_its_mark(void **state)
{
    struct kit *k = *state;
    kit_put(k, "a", "1");
    kit_put(k, "a", "2");
    kit_compact(k, 3);
    assert_true(mvcc_compact_pending(k->m));
    assert_false(kit_work(k));
    kit_swap(k);
    assert_false(kit_work(k));
    kit_store(k, NULL);
    kit_retire(k);
    assert_true(kit_work(k));
    assert_false(mvcc_compact_pending(k->m));
    assert_int_equal(fake_backend_count(&k->backend, TABLE_KEY), 1);
}

static void compaction_keeps_a_tombstone_at_its_revision_only(void **state)
{
    struct kit *k = *state;
    kit_put(k, "a", "1");
    kit_del(k, "a");
    kit_put(k, "b", "1");
    kit_compact(k, 3);
    kit_commit(k);
    assert_true(kit_work(k));
    assert_int_equal(fake_backend_count(&k->backend, TABLE_KEY), 2);
    assert_int_equal(mvcc_key_count(k->m), 2);
    kit_compact(k, 4);
    kit_commit(k);
    assert_true(kit_work(k));
    assert_int_equal(fake_backend_count(&k->backend, TABLE_KEY), 1);
    assert_int_equal(mvcc_key_count(k->m), 1);
}

static void a_put_behind_a_delete_of_the_same_txn_survives(void **state)
{
    struct kit *k = *state;
    kit_put(k, "a", "old");
    mvcc_entry_begin(k->m);
    kit_erase(k, S("a"), S("z"));
    kit_write(k, "a", "new");
    kit_seal(k);
    kit_compact(k, 3);
    kit_commit(k);
    assert_true(kit_work(k));
    char text[64];
    assert_string_equal(kit_all(k, 3, text, sizeof text), "a=new ");
    kit_crash(k);
    assert_string_equal(kit_all(k, 3, text, sizeof text), "a=new ");
    kit_put(k, "b", "1");
    kit_compact(k, 4);
    kit_commit(k);
    assert_true(kit_work(k));
    assert_string_equal(kit_all(k, 0, text, sizeof text), "a=new b=1 ");
    assert_int_equal(fake_backend_count(&k->backend, TABLE_KEY), 2);
}

static void an_interrupted_compaction_is_resumed(void **state)
{
    struct kit *k = *state;
    kit_put(k, "a", "1");
    kit_put(k, "a", "2");
    kit_compact(k, 3);
    kit_commit(k);
    kit_crash(k);
    assert_int_equal(mvcc_compacted(k->m), 3);
    char text[64];
    assert_string_equal(kit_all(k, 2, text, sizeof text), "E_COMPACTED");
    assert_true(kit_work(k));
    struct mvcc_hash_answer kept[MVCC_HASHES_KEPT];
    assert_int_equal(mvcc_hash_remembered(k->m, kept), 0);
    assert_int_equal(fake_backend_count(&k->backend, TABLE_KEY), 1);
    kit_crash(k);
    assert_false(mvcc_compact_pending(k->m));
    assert_int_equal(mvcc_compacted(k->m), 3);
}

static void a_compaction_hash_is_remembered(void **state)
{
    struct kit *k = *state;
    struct mvcc_hash_answer before, after, fresh, kept[MVCC_HASHES_KEPT];
    kit_put(k, "a", "1");
    kit_put(k, "a", "2");
    assert_int_equal(kit_hash(k, 3, &before), 0);
    assert_int_equal(before.compact_rev, -1);
    kit_compact(k, 3);
    kit_commit(k);
    assert_true(kit_work(k));
    assert_int_equal(kit_hash(k, 3, &after), 0);
    assert_int_equal(after.hash, before.hash);
    assert_int_equal(after.compact_rev, -1);
    assert_int_equal(kit_hash(k, 0, &fresh), 0);
    assert_int_equal(fresh.compact_rev, 3);
    assert_int_equal(mvcc_hash_remembered(k->m, kept), 1);
    for (int i = 0; i < 12; i++) {
        kit_put(k, "a", "3");
        kit_compact(k, mvcc_revision(k->m));
        kit_commit(k);
        assert_true(kit_work(k));
    }
    assert_int_equal(mvcc_hash_remembered(k->m, kept), MVCC_HASHES_KEPT);
    assert_int_equal(kept[0].hash_rev, 15);
    assert_int_equal(kept[0].compact_rev, 14);
    assert_int_equal(kept[9].hash_rev, 6);
}

static void a_hash_holds_back_compaction(void **state)
{
    struct kit *k = *state;
    kit_put(k, "a", "1");
    kit_put(k, "a", "2");
    struct mvcc_hash h;
    assert_int_equal(mvcc_hash_open(k->m, 0, &h), 0);
    kit_compact(k, 3);
    kit_commit(k);
    assert_false(kit_work(k));
    mvcc_hash_close(&h);
    assert_true(kit_work(k));
}

static void marks_queue_up(void **state)
{
    struct kit *k = *state;
    for (int i = 0; i < 40; i++) {
        kit_put(k, "a", "1");
        assert_int_equal(kit_compact(k, i + 2), 0);
    }
    kit_commit(k);
    int jobs = 0;
    while (kit_work(k)) {
        jobs++;
    }
    assert_int_equal(jobs, 16);
    assert_false(mvcc_compact_pending(k->m));
    assert_int_equal(fake_backend_count(&k->backend, TABLE_KEY), 1);
    kit_crash(k);
    assert_int_equal(mvcc_compacted(k->m), 41);
}

/* --- loading --- */

static void load(struct mvcc *m, int64_t main, int64_t sub, bool tomb, struct pb_kv kv, int want)
{
    uint8_t key[18], data[128];
    endian_store_be64(key, (uint64_t)main);
    key[8] = '_';
    endian_store_be64(key + 9, (uint64_t)sub);
    key[17] = 't';
    uint8_t *end = pb_kv_write(&kv, data);
    struct errmsg em;
    int rc =
        mvcc_load_row(m, bytes_of(key, tomb ? 18 : 17), bytes_of(data, (size_t)(end - data)), &em);
    assert_int_equal(rc, want);
}

static void note_lease(void *arg, struct bytes key, int64_t lease)
{
    char *out = arg;
    size_t n = strlen(out);
    snprintf(out + n, 64 - n, "%.*s:%d ", (int)key.len, (const char *)key.data, (int)lease);
}

static void loading_follows_the_rules_of_rebuilding(void **state)
{
    struct kit *k = *state;
    char leases[64] = "";
    mvcc_free(k->m);
    k->opts.on_lease = note_lease;
    k->opts.arg = leases;
    assert_int_equal(mvcc_load_begin(&k->opts, &k->m), 0);
    load(k->m, 5, 0, true, (struct pb_kv){.key = S("t")}, 0);
    load(k->m, 6, 0, false, (struct pb_kv){S("a"), 3, 6, 4, S("v"), 9}, 0);
    load(k->m, 6, 0, false, (struct pb_kv){S("a"), 3, 6, 4, S("v"), 9}, E_CORRUPT);
    load(k->m, 7, 0, false, (struct pb_kv){S("a"), 3, 7, 5, S("v"), 8}, 0);
    load(k->m, 8, 0, false, (struct pb_kv){S("b"), 8, 8, 1, S("v"), 8}, 0);
    load(k->m, 9, 0, false, (struct pb_kv){S("t"), 9, 9, 1, S("v"), 0}, 0);
    load(k->m, 9, 1, true, (struct pb_kv){.key = S("b")}, 0);
    load(k->m, 9, 2, true, (struct pb_kv){.key = S("b")}, 0);
    struct mvcc_meta meta = {.term = bytes_of("\0\0\0\0\0\0\0\7", 8)};
    assert_int_equal(mvcc_load_end(k->m, &meta, &k->em), 0);
    assert_string_equal(leases, "a:8 ");
    assert_int_equal(mvcc_revision(k->m), 9);
    assert_int_equal(mvcc_applied_term(k->m), 7);
    struct mvcc_view v;
    struct mvcc_row row;
    assert_int_equal(mvcc_view_open(k->m, 6, &v), 0);
    assert_int_equal(mvcc_view_get(&v, S("a"), &row), 0);
    assert_int_equal(row.create, 3);
    assert_int_equal(row.version, 4);
    assert_int_equal(mvcc_view_get(&v, S("t"), &row), E_NOTFOUND);
    mvcc_view_close(&v);
    assert_int_equal(mvcc_view_open(k->m, 9, &v), 0);
    assert_int_equal(mvcc_view_get(&v, S("a"), &row), 0);
    assert_int_equal(row.version, 5);
    assert_int_equal(mvcc_view_get(&v, S("b"), &row), E_NOTFOUND);
    assert_int_equal(mvcc_view_get(&v, S("t"), &row), 0);
    assert_int_equal(row.version, 1);
    mvcc_view_close(&v);
}

static void a_bumped_store_starts_compacted(void **state)
{
    struct kit *k = *state;
    uint8_t rev[17] = {[7] = 100, [8] = '_'};
    kit_put(k, "a", "1");
    kit_commit(k);
    fake_backend_set(&k->backend, TABLE_KEY, bytes_of(rev, 17), BYTES_EMPTY);
    fake_backend_set(&k->backend, TABLE_META, S("scheduledCompactRev"), bytes_of(rev, 17));
    kit_crash(k);
    assert_int_equal(mvcc_revision(k->m), 100);
    assert_int_equal(mvcc_compacted(k->m), 100);
    assert_true(kit_work(k));
    assert_int_equal(kit_put(k, "a", "2").mod, 101);
    char text[64];
    assert_string_equal(kit_all(k, 100, text, sizeof text), "a=1 ");
}

static void loading_refuses_what_is_no_row(void **state)
{
    struct kit *k = *state;
    struct errmsg em;
    struct mvcc *m;
    assert_int_equal(mvcc_load_begin(&k->opts, &m), 0);
    assert_int_equal(mvcc_load_row(m, S("x"), BYTES_EMPTY, &em), E_CORRUPT);
    assert_int_equal(
        mvcc_load_row(m, bytes_of("\0\0\0\0\0\0\0\1-\0\0\0\0\0\0\0\0", 17), BYTES_EMPTY, &em),
        E_CORRUPT);
    assert_int_equal(
        mvcc_load_row(m, bytes_of("\0\0\0\0\0\0\0\2_\0\0\0\0\0\0\0\0", 17), S("\xff"), &em),
        E_CORRUPT);
    struct mvcc_meta meta = {.term = S("7")};
    assert_int_equal(mvcc_load_end(m, &meta, &em), E_CORRUPT);
    meta = (struct mvcc_meta){.finished_compact_rev = S("7")};
    assert_int_equal(mvcc_load_end(m, &meta, &em), E_CORRUPT);
    mvcc_free(m);
}

static void the_hash_of_all_tables_leaves_out_what_may_differ(void **state)
{
    struct kit *k = *state;
    const struct backend *b = &k->backend.face;
    uint32_t sum[3];
    for (int i = 0; i < 3; i++) {
        if (i == 1) fake_backend_set(&k->backend, TABLE_META, S("term"), S("12345678"));
        if (i == 2) fake_backend_set(&k->backend, TABLE_META, S("confState"), S("{}"));
        struct backend_read *r;
        assert_int_equal(b->read_begin(b->arg, &r, &k->em), 0);
        assert_int_equal(mvcc_hash_all(b, r, &sum[i]), 0);
        b->read_end(r);
    }
    assert_int_equal(sum[0], sum[1]);
    assert_int_not_equal(sum[1], sum[2]);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(an_empty_store_is_at_revision_one),
        T(a_put_gets_the_next_revision),
        T(a_deletion_ends_a_life),
        T(one_entry_is_one_revision_with_subs),
        T(an_entry_without_change_keeps_the_revision),
        T(unsealed_changes_are_unseen),
        T(the_writer_sees_its_own_changes),
        T(a_view_of_the_entry_outlives_it),
        T(a_delete_names_leased_keys_and_old_rows),
        T(range_rules),
        T(range_sorts),
        T(no_order_with_a_target_sorts_what_the_limit_left),
        T(filters_come_before_the_limit),
        T(counts_ignore_limit_and_filters),
        T(ten_thousand_rows_sort_in_slices),
        T(keys_only_strips_value_and_lease),
        T(a_run_moves_to_the_backend),
        T(a_held_run_outlives_its_retirement),
        T(apply_pauses_when_both_runs_are_full),
        T(a_view_survives_suspension),
        T(a_pin_that_is_too_old_is_broken),
        T(many_views_pin_at_once),
        T(history_joins_backend_and_runs),
        T(compaction_answers),
        T(compaction_waits_for_its_mark),
        T(compaction_keeps_a_tombstone_at_its_revision_only),
        T(a_put_behind_a_delete_of_the_same_txn_survives),
        T(an_interrupted_compaction_is_resumed),
        T(a_compaction_hash_is_remembered),
        T(a_hash_holds_back_compaction),
        T(marks_queue_up),
        T(loading_follows_the_rules_of_rebuilding),
        T(a_bumped_store_starts_compacted),
        T(loading_refuses_what_is_no_row),
        T(the_hash_of_all_tables_leaves_out_what_may_differ),
    };
    return cmocka_run_group_tests_name("mvcc store", tests, NULL, NULL);
}
