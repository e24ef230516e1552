/* The n-th allocation fails: the entry ends the process and nothing of it is sealed. */
#include "fixture.h"

enum { ENTRIES_MAX = 16 };

struct script {
    struct apply_entry entries[ENTRIES_MAX];
    size_t count;
    int64_t revisions[ENTRIES_MAX + 1]; /* of the store behind each entry, without failures */
};

static void script_add(struct world *w, struct script *s, Etcdserverpb__InternalRaftRequest *r)
{
    s->entries[s->count++] = (struct apply_entry){.data = pack_request(w, r)};
}

static void script_txn(struct world *w, struct script *s)
{
    txn_request *t = txn_new(&w->a);
    txn_compare(&w->a, t, compare_new(&w->a, "key", "kez"));
    Etcdserverpb__DeleteRangeRequest *d = delete_of(&w->a, "key2", "key4");
    d->prev_kv = 1;
    txn_request *in = txn_new(&w->a);
    txn_success(&w->a, in, op_range(&w->a, range_of(&w->a, "a", "0")));
    txn_failure(&w->a, t, op_range(&w->a, range_of(&w->a, "key0", "0")));
    txn_failure(&w->a, t, op_put(&w->a, put_of(&w->a, "new", "x")));
    txn_failure(&w->a, t, op_delete(&w->a, d));
    txn_failure(&w->a, t, op_txn(&w->a, in));
    REQUEST(r);
    r.txn = t;
    script_add(w, s, &r);
}

static void script_leases(struct world *w, struct script *s)
{
    REQUEST(grant);
    Etcdserverpb__LeaseGrantRequest g = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    g.id = 7;
    g.ttl = 60;
    grant.lease_grant = &g;
    script_add(w, s, &grant);
    REQUEST(put);
    put.put = put_of(&w->a, "leased", "v");
    put.put->lease = 7;
    put.put->prev_kv = 1;
    script_add(w, s, &put);
    script_add(w, s, &put);
    REQUEST(revoke);
    Etcdserverpb__LeaseRevokeRequest q = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
    q.id = 7;
    revoke.lease_revoke = &q;
    script_add(w, s, &revoke);
}

static void script_conf(struct world *w, struct script *s)
{
    struct pb_conf_change cc = {
        .id = 5,
        .type = PB_ADD_NODE,
        .node_id = 0xb2,
        .context = bytes_str("{\"id\":178,\"peerURLs\":[\"http://b:2380\"]}")};
    struct buf out;
    buf_init(&out, &w->store_heap.alloc, 4096);
    assert_int_equal(pb_conf_change_put(&cc, &out), 0);
    s->entries[s->count++] = (struct apply_entry){.type = PB_ENTRY_CONF_CHANGE,
                                                  .data = arena_copy(&w->a, buf_bytes(&out))};
    buf_deinit(&out);
}

/* One entry at least of each kind that allocates. */
static void script_write(struct world *w, struct script *s)
{
    for (int i = 0; i < 6; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "key%d", i);
        REQUEST(r);
        r.put = put_of(&w->a, key, "a value of some length");
        script_add(w, s, &r);
    }
    script_leases(w, s);
    script_txn(w, s);
    REQUEST(r);
    Etcdserverpb__AlarmRequest a = ETCDSERVERPB__ALARM_REQUEST__INIT;
    a.action = ETCDSERVERPB__ALARM_REQUEST__ALARM_ACTION__ACTIVATE;
    a.memberid = 5;
    a.alarm = ETCDSERVERPB__ALARM_TYPE__NOSPACE;
    r.alarm = &a;
    script_add(w, s, &r);
    script_conf(w, s);
}

/* Feeds the script until it is over or broken. */
static enum apply_state script_run(struct world *w, const struct script *s)
{
    static const uint64_t both[] = {SELF, 0xb2};
    w->conf = (struct pb_conf_state){.voters = {both, 2}};
    enum apply_state state = APPLY_DONE;
    for (size_t i = 0; state == APPLY_DONE && i < s->count; i++) {
        state = feed_typed(w, s->entries[i].type, s->entries[i].data);
    }
    return state;
}

static void script_prepare(struct world *w, struct script *s)
{
    world_open(w);
    script_write(w, s);
    s->revisions[0] = mvcc_revision(w->m);
    for (size_t i = 0; i < s->count; i++) {
        struct script one = {.entries = {s->entries[i]}, .count = 1};
        assert_int_equal(script_run(w, &one), APPLY_DONE);
        if (w->out.result != NULL) assert_int_equal(w->out.result->error, 0);
        s->revisions[i + 1] = mvcc_revision(w->m);
    }
}

static bool check_one(const struct script *s, size_t fail_at)
{
    struct world w;
    world_open(&w);
    w.budget = 3;
    w.heap.fail_at = w.heap.allocation_count + fail_at;
    enum apply_state state = script_run(&w, s);
    bool failed = w.heap.failure_count > 0;
    uint64_t sealed = failed ? w.index - 1 : w.index;
    w.heap.fail_at = 0;
    assert_int_equal(state, failed ? APPLY_FATAL : APPLY_DONE);
    assert_int_equal(mvcc_applied_index(w.m), sealed);
    assert_int_equal(apply_index(w.apply), sealed);
    assert_int_equal(mvcc_revision(w.m), s->revisions[sealed]);
    if (failed) assert_null(w.out.result);
    world_close(&w);
    return failed;
}

static void test_no_failed_allocation_refuses_an_entry(void **state)
{
    struct world clean;
    struct script s = {.count = 0};
    script_prepare(&clean, &s);
    size_t n = 0;
    while (check_one(&s, n + 1)) {
        n++;
    }
    print_message("allocations failed one after the other: %zu\n", n);
    assert_true(n > 40);
    world_close(&clean);
}

static void start_with_failures(struct test_heap *h, void *arg)
{
    struct apply *a = NULL;
    struct errmsg em = {{0}};
    struct apply_config c = {.server_version = "3.7.0", .alloc = &h->alloc};
    struct apply_start start = {
        .conf_state_json = bytes_str("{\"voters\":[1],\"auto_leave\":false}")};
    int rc = apply_new(&c, &start, &a, &em);
    assert_true(rc == 0 || rc == E_NOMEM);
    if (rc == 0) apply_free(a);
}

static void test_birth_without_memory(void **state)
{
    assert_true(test_heap_every_failure(start_with_failures, NULL) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_failed_allocation_refuses_an_entry),
        cmocka_unit_test(test_birth_without_memory),
    };
    return cmocka_run_group_tests_name("apply: faults", tests, NULL, NULL);
}
