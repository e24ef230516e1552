/* The leader's part: promotion, expiry, renewal, checkpoints; and what a million leases weigh. */
#include "fixture.h"

enum { SCAN = LEASE_EXPIRED_PER_SCAN_MAX };

static size_t expired(struct world *w, lease_id *out)
{
    return lease_expired(w->t, w->now_ns, out, SCAN);
}

static void test_only_a_primary_keeps_time(void **state)
{
    struct world w;
    world_open(&w, 0);
    grant(&w, 1, 5);
    int64_t v;
    lease_id out[SCAN];
    w.now_ns += 100 * S;
    assert_int_equal(expired(&w, out), 0);
    assert_int_equal(lease_renew(w.t, 1, w.now_ns, &v), E_NOT_PRIMARY);
    assert_int_equal(lease_time_to_live(w.t, 1, w.now_ns, &v), E_NOT_PRIMARY);
    assert_int_equal(lease_next_expiry(w.t), LEASE_FOREVER);
    promote(&w, S);
    assert_int_equal(lease_next_expiry(w.t), w.now_ns + 6 * S);
    lease_demote(w.t);
    struct lease_info info;
    assert_true(lease_find(w.t, 1, &info));
    assert_int_equal(info.expiry_ns, LEASE_FOREVER);
    world_close(&w);
}

static void test_promotion_extends_by_what_remains(void **state)
{
    struct world w;
    world_open(&w, 0);
    grant(&w, 1, 50);
    grant(&w, 2, 50);
    assert_true(lease_checkpoint(w.t, 2, 7, w.now_ns));
    assert_false(lease_checkpoint(w.t, 3, 7, w.now_ns));
    promote(&w, 2 * S);
    struct lease_info info;
    assert_true(lease_find(w.t, 1, &info));
    assert_int_equal(info.expiry_ns, w.now_ns + 52 * S);
    assert_true(lease_find(w.t, 2, &info));
    assert_int_equal(info.expiry_ns, w.now_ns + 9 * S);
    grant(&w, 3, 4);
    assert_int_equal(lease_next_expiry(w.t), w.now_ns + 4 * S);
    world_close(&w);
}

static void test_expired_ones_come_soonest_first_and_again(void **state)
{
    struct world w;
    world_open(&w, 0);
    promote(&w, 0);
    grant(&w, 1, 9);
    grant(&w, 2, 5);
    grant(&w, 3, 7);
    lease_id out[SCAN];
    w.now_ns += 5 * S - 1;
    assert_int_equal(expired(&w, out), 0);
    w.now_ns += 2 * S + 1;
    assert_int_equal(expired(&w, out), 2);
    assert_int_equal(out[0], 2);
    assert_int_equal(out[1], 3);
    assert_int_equal(expired(&w, out), 0);
    w.now_ns += 3 * S; /* the retry */
    assert_int_equal(expired(&w, out), 3);
    assert_int_equal(out[0], 1);
    lease_remove(w.t, 1);
    lease_remove(w.t, 2);
    w.now_ns += 3 * S;
    assert_int_equal(expired(&w, out), 1);
    assert_int_equal(out[0], 3);
    world_close(&w);
}

static void test_renewal(void **state)
{
    struct world w;
    world_open(&w, 0);
    promote(&w, 0);
    grant(&w, 1, 5);
    int64_t ttl = 0;
    w.now_ns += 4 * S;
    assert_int_equal(lease_renew(w.t, 1, w.now_ns, &ttl), 0);
    assert_int_equal(ttl, 5);
    assert_int_equal(lease_next_expiry(w.t), w.now_ns + 5 * S);
    w.now_ns += 5 * S;
    assert_int_equal(lease_renew(w.t, 1, w.now_ns, &ttl), E_AGAIN);
    assert_int_equal(lease_renew(w.t, 2, w.now_ns, &ttl), E_LEASE_NOT_FOUND);
    struct lease_stats s;
    lease_get_stats(w.t, &s);
    assert_int_equal(s.renewed_total, 1);
    world_close(&w);
}

static void test_time_to_live_rounds_towards_zero(void **state)
{
    struct world w;
    world_open(&w, 0);
    promote(&w, 0);
    grant(&w, 1, 5);
    const int64_t after[] = {0, 1, S, 5 * S - 1, 5 * S, 6 * S - 1, 6 * S, 8 * S};
    const int64_t left[] = {5, 4, 4, 0, 0, 0, -1, -3};
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        int64_t got = 99;
        assert_int_equal(lease_time_to_live(w.t, 1, w.now_ns + after[i], &got), 0);
        assert_int_equal(got, left[i]);
    }
    int64_t got;
    assert_int_equal(lease_time_to_live(w.t, 9, w.now_ns, &got), E_LEASE_NOT_FOUND);
    world_close(&w);
}

static void test_the_longest_ttl_does_not_overflow(void **state)
{
    struct world w;
    world_open(&w, 0);
    grant(&w, 1, LEASE_TTL_S_MAX);
    promote(&w, 1000 * S);
    struct lease_info info;
    assert_true(lease_find(w.t, 1, &info));
    assert_true(info.expiry_ns > w.now_ns);
    assert_true(info.expiry_ns < LEASE_FOREVER);
    world_close(&w);
}

static void test_checkpoints(void **state)
{
    struct world w;
    world_open(&w, 300 * S);
    grant(&w, 1, 1000);
    grant(&w, 2, 300); /* not above the interval: none */
    promote(&w, 0);
    struct lease_checkpoint c[4];
    int64_t ttl;
    w.now_ns += 300 * S - 1;
    assert_int_equal(lease_checkpoints_due(w.t, w.now_ns, c, 4), 0);
    w.now_ns += 1;
    assert_int_equal(lease_checkpoints_due(w.t, w.now_ns, c, 4), 1);
    assert_int_equal(c[0].id, 1);
    assert_int_equal(c[0].remaining_s, 700);
    assert_int_equal(lease_checkpoints_due(w.t, w.now_ns, c, 4), 0);
    assert_true(lease_checkpoint(w.t, 1, 700, w.now_ns));
    /* A renewal must first have the checkpoint taken back on all members. */
    assert_int_equal(lease_renew(w.t, 1, w.now_ns, &ttl), E_BUSY);
    assert_true(lease_checkpoint(w.t, 1, 0, w.now_ns));
    assert_int_equal(lease_renew(w.t, 1, w.now_ns, &ttl), 0);
    /* Renewed at this moment: nothing remains to be said, but the next one comes. */
    w.now_ns += 300 * S;
    assert_int_equal(lease_renew(w.t, 1, w.now_ns, &ttl), 0);
    assert_int_equal(lease_checkpoints_due(w.t, w.now_ns, c, 4), 0);
    w.now_ns += 300 * S;
    assert_int_equal(lease_checkpoints_due(w.t, w.now_ns, c, 4), 1);
    world_close(&w);
}

static void test_without_checkpoints_renewal_takes_the_full_ttl(void **state)
{
    struct world w;
    world_open(&w, 0);
    grant(&w, 1, 1000);
    (void)lease_checkpoint(w.t, 1, 10, w.now_ns);
    promote(&w, 0);
    int64_t ttl;
    struct lease_checkpoint c[1];
    assert_int_equal(lease_next_expiry(w.t), w.now_ns + 10 * S);
    assert_int_equal(lease_renew(w.t, 1, w.now_ns, &ttl), 0);
    assert_int_equal(lease_next_expiry(w.t), w.now_ns + 1000 * S);
    assert_int_equal(lease_checkpoints_due(w.t, w.now_ns + 500 * S, c, 1), 0);
    world_close(&w);
}

static void test_few_leases_are_not_spread(void **state)
{
    struct world w;
    world_open(&w, 0);
    for (lease_id id = 1; id < LEASE_SPREAD_COUNT_MIN; id++) {
        grant(&w, id, 10);
    }
    promote(&w, S);
    size_t cursor = 0;
    struct lease_info info;
    while (lease_next(w.t, &cursor, &info)) {
        assert_int_equal(info.expiry_ns, w.now_ns + 11 * S);
    }
    world_close(&w);
}

static void test_many_leases_are_spread(void **state)
{
    struct world w;
    world_open(&w, 0);
    enum { N = 7500 };
    for (lease_id id = 1; id <= N; id++) {
        grant(&w, id, 10);
    }
    promote(&w, S);
    static unsigned per_second[64];
    memset(per_second, 0, sizeof per_second);
    size_t cursor = 0;
    struct lease_info info;
    while (lease_next(w.t, &cursor, &info)) {
        int64_t second = (info.expiry_ns - w.now_ns - 11 * S) / S;
        assert_in_range(second, 0, 63);
        per_second[second]++;
    }
    /* Nobody earlier than without the spread, and at most the rate in every second. */
    unsigned sum = 0;
    for (size_t i = 0; i < 64; i++) {
        assert_true(per_second[i] <= 2 * LEASE_SPREAD_PER_SECOND);
        sum += per_second[i];
    }
    assert_int_equal(sum, N);
    assert_true(per_second[0] <= LEASE_SPREAD_PER_SECOND + 1);
    assert_true(per_second[9] > 0);
    /* And the heap is one: they come out in order. */
    lease_id out[SCAN];
    int64_t last = 0;
    w.now_ns += 100 * S;
    for (size_t n = 0; n < N; n += SCAN) {
        assert_int_equal(expired(&w, out), SCAN);
        for (size_t i = 0; i < SCAN; i++) {
            assert_true(lease_find(w.t, out[i], &info));
            assert_true(info.expiry_ns >= last);
            last = info.expiry_ns;
        }
    }
    assert_int_equal(expired(&w, out), 0);
    world_close(&w);
}

static void test_promotion_may_start_anew(void **state)
{
    struct world w;
    world_open(&w, 300 * S);
    for (lease_id id = 1; id <= 2000; id++) {
        grant(&w, id, 1000 + id % 7);
    }
    for (size_t steps = 1; steps < 12000; steps = steps * 2 + 1) {
        lease_promote(w.t, S, w.now_ns);
        (void)lease_promote_step(w.t, steps);
        if (steps % 4 == 3) lease_demote(w.t);
    }
    promote(&w, S);
    for (lease_id id = 1; id <= 2000; id++) {
        struct lease_info info;
        assert_true(lease_find(w.t, id, &info));
        assert_true(info.expiry_ns >= w.now_ns + (1001 + id % 7) * S);
        lease_remove(w.t, id);
    }
    assert_int_equal(lease_next_expiry(w.t), LEASE_FOREVER);
    world_close(&w);
}

/* ---- against a model of times ---------------------------------------------------------------- */

enum { IDS = 64 };

struct times {
    int64_t ttl[IDS], expiry[IDS], wake[IDS];
};

static void times_scan(struct world *w, struct times *m)
{
    lease_id out[SCAN];
    size_t n = expired(w, out);
    bool got[IDS] = {false};
    for (size_t i = 0; i < n; i++) {
        got[out[i] - 1] = true;
    }
    for (size_t i = 0; i < IDS; i++) {
        bool due = m->ttl[i] != 0 && m->wake[i] <= w->now_ns;
        assert_int_equal(got[i], due);
        if (due) m->wake[i] = w->now_ns + 3 * S;
    }
}

static void times_step(struct world *w, struct times *m, struct prng *p)
{
    size_t i = (size_t)prng_below(p, IDS);
    lease_id id = (lease_id)i + 1;
    int64_t ttl = 2 + (int64_t)prng_below(p, 20);
    w->now_ns += (int64_t)prng_below(p, S);
    switch (prng_below(p, 5)) {
    case 0:
        if (m->ttl[i] != 0) break;
        grant(w, id, ttl);
        m->ttl[i] = ttl;
        m->expiry[i] = m->wake[i] = w->now_ns + ttl * S;
        break;
    case 1:
        if (m->ttl[i] != 0) lease_remove(w->t, id);
        m->ttl[i] = 0;
        break;
    case 2: times_scan(w, m); break;
    default: {
        int64_t got;
        int rc = lease_renew(w->t, id, w->now_ns, &got);
        bool alive = m->ttl[i] != 0 && m->expiry[i] > w->now_ns;
        assert_int_equal(rc, alive ? 0 : m->ttl[i] == 0 ? E_LEASE_NOT_FOUND : E_AGAIN);
        if (alive) m->expiry[i] = m->wake[i] = w->now_ns + m->ttl[i] * S;
        break;
    }
    }
}

static void test_random_times_match_a_model(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world w;
        struct times m = {{0}, {0}, {0}};
        struct prng p;
        prng_init(&p, seed);
        world_open(&w, seed % 2 == 0 ? 5 * S : 0);
        promote(&w, 0);
        for (int i = 0; i < 3000; i++) {
            times_step(&w, &m, &p);
        }
        world_close(&w);
    }
}

/* ---- size ------------------------------------------------------------------------------------ */

static void test_a_million_leases_fit(void **state)
{
    struct world w;
    world_open(&w, 300 * S);
    enum { N = 1000000 };
    for (lease_id id = 1; id <= N; id++) {
        grant(&w, id * 0x9e3779b1, 600);
    }
    promote(&w, S);
    size_t each = w.heap.live_bytes / N;
    print_message("a million leases: %zu MiB, %zu bytes each\n", w.heap.live_bytes >> 20, each);
    assert_true(each <= 120);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_a_primary_keeps_time),
        cmocka_unit_test(test_promotion_extends_by_what_remains),
        cmocka_unit_test(test_expired_ones_come_soonest_first_and_again),
        cmocka_unit_test(test_renewal),
        cmocka_unit_test(test_time_to_live_rounds_towards_zero),
        cmocka_unit_test(test_the_longest_ttl_does_not_overflow),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_without_checkpoints_renewal_takes_the_full_ttl),
        cmocka_unit_test(test_few_leases_are_not_spread),
        cmocka_unit_test(test_many_leases_are_spread),
        cmocka_unit_test(test_promotion_may_start_anew),
        cmocka_unit_test(test_random_times_match_a_model),
        cmocka_unit_test(test_a_million_leases_fit),
    };
    return cmocka_run_group_tests_name("lease: expiry", tests, NULL, NULL);
}
