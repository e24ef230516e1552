/* The replicated part: grants, rows, keys. */
#include "fixture.h"

static void test_grant_raises_short_ttls(void **state)
{
    struct world w;
    world_open(&w, 0);
    const int64_t asked[] = {INT64_MIN, -1, 0, 1, 2, 3, LEASE_TTL_S_MAX};
    const int64_t got[] = {2, 2, 2, 2, 2, 3, LEASE_TTL_S_MAX};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        int64_t granted = 0;
        assert_int_equal(lease_grant(w.t, (lease_id)i + 1, asked[i], w.now_ns, &granted), 0);
        assert_int_equal(granted, got[i]);
    }
    world_close(&w);
}

static void test_grant_refuses_in_upstreams_order(void **state)
{
    struct world w;
    world_open(&w, 0);
    int64_t granted = 77;
    assert_int_equal(lease_grant(w.t, 0, LEASE_TTL_S_MAX + 1, 0, &granted), E_LEASE_NOT_FOUND);
    grant(&w, 5, 10);
    assert_int_equal(lease_grant(w.t, 5, LEASE_TTL_S_MAX + 1, 0, &granted), E_LEASE_TTL_TOO_LARGE);
    assert_int_equal(lease_grant(w.t, 5, 10, 0, &granted), E_LEASE_EXIST);
    assert_int_equal(granted, 77);
    assert_int_equal(lease_count(w.t), 1);
    world_close(&w);
}

static void test_negative_ids_are_ids(void **state)
{
    struct world w;
    world_open(&w, 0);
    grant(&w, -1, 10);
    grant(&w, INT64_MIN, 20);
    struct lease_info info;
    assert_true(lease_find(w.t, -1, &info));
    assert_int_equal(info.ttl_s, 10);
    assert_true(lease_find(w.t, INT64_MIN, &info));
    assert_int_equal(info.ttl_s, 20);
    assert_int_equal(info.expiry_ns, LEASE_FOREVER);
    assert_false(lease_find(w.t, 1, NULL));
    assert_false(lease_find(w.t, LEASE_NONE, NULL));
    world_close(&w);
}

static void test_rows_are_upstreams(void **state)
{
    struct world w;
    world_open(&w, 0);
    grant(&w, 0x0102030405060708, 60);
    (void)lease_checkpoint(w.t, 0x0102030405060708, 5, w.now_ns);
    uint8_t key[8];
    struct buf value;
    buf_init(&value, &w.heap.alloc, 64);
    assert_int_equal(lease_encode_row(w.t, 0x0102030405060708, key, &value), 0);
    assert_memory_equal(key, "\1\2\3\4\5\6\7\10", 8);
    const uint8_t row[] = {0x08, 0x88, 0x8e, 0x98, 0xa8, 0xc0, 0xe0,
                           0x80, 0x81, 0x01, 0x10, 0x3c, 0x18, 0x05};
    assert_int_equal(value.len, sizeof row);
    assert_memory_equal(value.data, row, sizeof row);
    buf_deinit(&value);
    world_close(&w);
}

static void test_load_takes_rows_back(void **state)
{
    struct world w;
    world_open(&w, 0);
    const uint8_t row[] = {0x08, 0x07, 0x10, 0x01, 0x18, 0x05};
    struct errmsg em = {{0}};
    assert_int_equal(lease_load(w.t, bytes_of(row, sizeof row), &em), 0);
    struct lease_info info;
    assert_true(lease_find(w.t, 7, &info));
    assert_int_equal(info.ttl_s, 2); /* below the minimum counts as the minimum */
    assert_int_equal(info.remaining_s, 5);
    assert_int_equal(lease_load(w.t, bytes_of(row, sizeof row), &em), E_CORRUPT);
    assert_non_null(strstr(em.text, "stored twice"));
    assert_int_equal(lease_load(w.t, bytes_str("\x08"), &em), E_CORRUPT);
    assert_int_equal(lease_load(w.t, BYTES_EMPTY, &em), E_CORRUPT);
    world_close(&w);
}

static void test_keys_come_in_byte_order(void **state)
{
    struct world w;
    world_open(&w, 0);
    grant(&w, 1, 10);
    const char *keys[] = {"b", "a", "\xff", "ab", "", "b\x01"};
    const char *sorted[] = {"", "a", "ab", "b", "b\x01", "\xff"};
    for (size_t i = 0; i < 6; i++) {
        attach(&w, 1, keys[i]);
    }
    struct bytes k;
    bool more = lease_key_first(w.t, 1, &k);
    for (size_t i = 0; i < 6; i++) {
        assert_true(more);
        assert_true(bytes_eq(k, bytes_str(sorted[i])));
        more = lease_key_after(w.t, 1, k, &k);
    }
    assert_false(more);
    world_close(&w);
}

static void test_attach_moves_a_key(void **state)
{
    struct world w;
    world_open(&w, 0);
    grant(&w, 1, 10);
    grant(&w, 2, 10);
    attach(&w, 1, "k");
    attach(&w, 1, "k");
    assert_int_equal(lease_of_key(w.t, bytes_str("k")), 1);
    attach(&w, 2, "k");
    struct lease_info info;
    assert_int_equal(lease_of_key(w.t, bytes_str("k")), 2);
    assert_true(lease_find(w.t, 1, &info));
    assert_int_equal(info.key_count, 0);
    assert_true(lease_find(w.t, 2, &info));
    assert_int_equal(info.key_count, 1);
    assert_int_equal(lease_attach(w.t, 3, bytes_str("k")), E_LEASE_NOT_FOUND);
    lease_detach(w.t, bytes_str("k"));
    lease_detach(w.t, bytes_str("k"));
    assert_int_equal(lease_of_key(w.t, bytes_str("k")), LEASE_NONE);
    world_close(&w);
}

static void test_remove_wants_an_empty_lease(void **state)
{
    struct world w;
    world_open(&w, 0);
    grant(&w, 1, 10);
    attach(&w, 1, "k");
    EXPECT_ASSERT(lease_remove(w.t, 1));
    EXPECT_ASSERT(lease_remove(w.t, 2));
    lease_detach(w.t, bytes_str("k"));
    lease_remove(w.t, 1);
    assert_int_equal(lease_count(w.t), 0);
    grant(&w, 1, 10); /* the id is free again */
    world_close(&w);
}

static void test_next_meets_each_lease_once(void **state)
{
    struct world w;
    world_open(&w, 0);
    for (lease_id id = 1; id <= 1000; id++) {
        grant(&w, id, id);
    }
    for (lease_id id = 3; id <= 1000; id += 3) {
        lease_remove(w.t, id);
    }
    bool seen[1001] = {false};
    size_t cursor = 0;
    size_t n = 0;
    struct lease_info info;
    for (; lease_next(w.t, &cursor, &info); n++) {
        assert_false(seen[info.id]);
        seen[info.id] = true;
        assert_int_not_equal(info.id % 3, 0);
    }
    assert_int_equal(n, lease_count(w.t));
    world_close(&w);
}

static void test_reset_empties(void **state)
{
    struct world w;
    world_open(&w, 0);
    for (lease_id id = 1; id <= 300; id++) {
        grant(&w, id, 10);
    }
    attach(&w, 1, "k");
    promote(&w, S);
    lease_reset(w.t);
    assert_int_equal(lease_count(w.t), 0);
    assert_false(lease_is_primary(w.t));
    assert_int_equal(lease_of_key(w.t, bytes_str("k")), LEASE_NONE);
    grant(&w, 1, 10);
    attach(&w, 1, "k");
    world_close(&w);
}

/* ---- every allocation fails once ------------------------------------------------------------- */

static void fill_until_failure(struct test_heap *h, void *arg)
{
    struct lease_config c = world_config(300 * S);
    struct lease_table *t = NULL;
    if (lease_new(&c, &h->alloc, &t) < 0) return;
    int rc = 0;
    lease_id id = 1;
    for (; rc == 0 && id <= 600; id++) {
        int64_t granted;
        size_t before = lease_count(t);
        rc = lease_grant(t, id, 400, 0, &granted);
        assert_int_equal(lease_count(t), before + (rc == 0));
        assert_int_equal(lease_find(t, id, NULL), rc == 0);
        if (rc < 0) continue;
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", (int)(id % 100));
        rc = lease_attach(t, id, bytes_str(key));
        if (rc == 0) assert_int_equal(lease_of_key(t, bytes_str(key)), id);
        if (rc < 0) assert_int_not_equal(lease_of_key(t, bytes_str(key)), id);
    }
    assert_true(rc == 0 || rc == E_NOMEM);
    lease_free(t);
}

static void test_every_failed_allocation_changes_nothing(void **state)
{
    size_t runs = test_heap_every_failure(fill_until_failure, NULL);
    assert_true(runs > 100);
}

/* ---- against a model ------------------------------------------------------------------------- */

enum { MODEL_IDS = 40, MODEL_KEYS = 120 };

struct model {
    int64_t ttl[MODEL_IDS];  /* 0: no such lease */
    lease_id of[MODEL_KEYS]; /* the lease of a key */
};

static struct bytes model_key(char text[8], size_t k)
{
    (void)snprintf(text, 8, "%c%zu", (char)('a' + (int)(k * 7 % 26)), k);
    return bytes_str(text);
}

static void model_step(struct world *w, struct model *m, struct prng *p)
{
    size_t i = (size_t)prng_below(p, MODEL_IDS);
    lease_id id = (lease_id)i + 1;
    char text[8];
    size_t k = (size_t)prng_below(p, MODEL_KEYS);
    int64_t granted;
    int rc;
    switch (prng_below(p, 5)) {
    case 0:
        rc = lease_grant(w->t, id, (int64_t)k + 2, w->now_ns, &granted);
        assert_int_equal(rc, m->ttl[i] != 0 ? E_LEASE_EXIST : 0);
        if (rc == 0) m->ttl[i] = (int64_t)k + 2;
        break;
    case 1:
        if (m->ttl[i] == 0) break;
        for (struct bytes key; lease_key_first(w->t, id, &key);) {
            lease_detach(w->t, key);
        }
        lease_remove(w->t, id);
        m->ttl[i] = 0;
        for (k = 0; k < MODEL_KEYS; k++) {
            if (m->of[k] == id) m->of[k] = LEASE_NONE;
        }
        break;
    case 2:
        lease_detach(w->t, model_key(text, k));
        m->of[k] = LEASE_NONE;
        break;
    default:
        rc = lease_attach(w->t, id, model_key(text, k));
        assert_int_equal(rc, m->ttl[i] == 0 ? E_LEASE_NOT_FOUND : 0);
        if (rc == 0) m->of[k] = id;
        break;
    }
}

static void model_compare(const struct world *w, const struct model *m)
{
    for (size_t i = 0; i < MODEL_IDS; i++) {
        lease_id id = (lease_id)i + 1;
        struct lease_info info = {0};
        assert_int_equal(lease_find(w->t, id, &info), m->ttl[i] != 0);
        assert_int_equal(info.ttl_s, m->ttl[i]);
        size_t n = 0;
        for (size_t k = 0; k < MODEL_KEYS; k++) {
            n += m->of[k] == id;
        }
        assert_int_equal(info.key_count, n);
        struct bytes key;
        struct bytes next;
        bool more = lease_key_first(w->t, id, &key);
        for (; more; n--) {
            more = lease_key_after(w->t, id, key, &next);
            if (more) assert_true(bytes_cmp(key, next) < 0);
            key = next;
        }
        assert_int_equal(n, 0);
    }
    for (size_t k = 0; k < MODEL_KEYS; k++) {
        char text[8];
        assert_int_equal(lease_of_key(w->t, model_key(text, k)), m->of[k]);
    }
}

static void test_random_steps_match_a_model(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world w;
        struct model m = {{0}, {0}};
        struct prng p;
        prng_init(&p, seed);
        world_open(&w, 0);
        if (seed % 2 == 0) promote(&w, 0);
        for (int i = 0; i < 2000; i++) {
            model_step(&w, &m, &p);
            if (i % 97 == 0) model_compare(&w, &m);
        }
        model_compare(&w, &m);
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grant_raises_short_ttls),
        cmocka_unit_test(test_grant_refuses_in_upstreams_order),
        cmocka_unit_test(test_negative_ids_are_ids),
        cmocka_unit_test(test_rows_are_upstreams),
        cmocka_unit_test(test_load_takes_rows_back),
        cmocka_unit_test(test_keys_come_in_byte_order),
        cmocka_unit_test(test_attach_moves_a_key),
        cmocka_unit_test(test_remove_wants_an_empty_lease),
        cmocka_unit_test(test_next_meets_each_lease_once),
        cmocka_unit_test(test_reset_empties),
        cmocka_unit_test(test_every_failed_allocation_changes_nothing),
        cmocka_unit_test(test_random_steps_match_a_model),
    };
    return cmocka_run_group_tests_name("lease: table", tests, NULL, NULL);
}
