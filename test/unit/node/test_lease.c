/* Leases of a whole member: answers from memory, the end of leases, checkpoints, and what must be waited for. */
#include "member.h"

#include "node/node_lease.h"

static struct member_world w; /* large */

enum { LEASES_MAX = 64 };
#define SECOND_NS INT64_C(1000000000)

static void up(void)
{
    struct errmsg em = {""};
    int rc = member_up(&w, &em);
    if (rc < 0) fail_msg("start: %s %s", err_symbol(rc), em.text);
}

static void begin(uint64_t seed)
{
    member_world_init(&w, seed);
    up();
    member_recover(&w);
}

static void end(void)
{
    member_stop(&w);
    member_world_deinit(&w);
}

static struct member_client *propose(Etcdserverpb__InternalRaftRequest *req)
{
    struct member_client *c = client_free(&w);
    assert_non_null(c);
    c->compaction = true; /* its value is not looked at */
    return member_propose(&w, c, member_pack(&w, req, c->waiter.request_id));
}

static struct member_client *grant(lease_id id, int64_t ttl_s)
{
    Etcdserverpb__LeaseGrantRequest msg = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    Etcdserverpb__InternalRaftRequest req = ETCDSERVERPB__INTERNAL_RAFT_REQUEST__INIT;
    msg.id = id;
    msg.ttl = ttl_s;
    req.lease_grant = &msg;
    return propose(&req);
}

static void put_with(lease_id id, const char *key)
{
    Etcdserverpb__PutRequest msg = ETCDSERVERPB__PUT_REQUEST__INIT;
    Etcdserverpb__InternalRaftRequest req = ETCDSERVERPB__INTERNAL_RAFT_REQUEST__INIT;
    msg.key = (ProtobufCBinaryData){strlen(key), (uint8_t *)(uintptr_t)key};
    msg.lease = id;
    req.put = &msg;
    struct member_client *c = propose(&req);
    member_settle(&w);
    assert_int_equal(c->error, 0);
}

static void grant_many(size_t count, int64_t ttl_s)
{
    for (size_t i = 1; i <= count; i++)
        (void)grant((lease_id)i, ttl_s);
    member_settle(&w);
    assert_int_equal(lease_count(w.leases), count);
}

/* Ticks for `ns`, doing whatever comes. */
static void pass(int64_t ns)
{
    for (int64_t t = 0; t < ns; t += MEMBER_TICK_NS) {
        member_tick(&w, MEMBER_TICK_NS);
        member_settle(&w);
    }
}

static bool answered(const struct node_lease_question *q)
{
    struct node_lease_question *a = node_apply_answered(w.apply);
    if (a != NULL) assert_ptr_equal(a, q);
    return a != NULL;
}

static void ask_renewals(struct node_lease_question *q, struct node_renewal *r, size_t count)
{
    *q = (struct node_lease_question){.ask = NODE_LEASE_RENEW, .renewals = r, .count = count};
    node_apply_ask(w.apply, q);
}

static int64_t renew(lease_id id)
{
    struct node_renewal r = {.id = id, .ttl_s = -7};
    struct node_lease_question q;
    ask_renewals(&q, &r, 1);
    member_settle(&w);
    assert_true(answered(&q));
    assert_int_equal(q.error, 0);
    assert_int_equal(q.done, 1);
    return r.ttl_s;
}

static struct node_lease_question ask_left(lease_id id, bool keys)
{
    struct node_lease_question q = {.ask = NODE_LEASE_LEFT, .id = id, .keys = keys};
    buf_init(&q.list, &w.heap.alloc, 1 << 20);
    node_apply_ask(w.apply, &q);
    member_settle(&w);
    struct node_lease_question *a = node_apply_answered(w.apply);
    assert_ptr_equal(a, &q);
    assert_int_equal(q.error, 0);
    return q;
}

static int64_t left_s(lease_id id)
{
    struct node_lease_question q = ask_left(id, false);
    return q.left_s;
}

/* --- answers ----------------------------------------------------------------------------------------- */

static void renewals_are_answered_in_order_and_leave_no_entry(void **state)
{
    (void)state;
    struct node_renewal r[] = {{.id = 2}, {.id = 99, .ttl_s = -7}, {.id = 1}, {.id = 2}};
    struct node_lease_question q;
    begin(1);
    (void)grant(1, 10);
    (void)grant(2, 20);
    member_settle(&w);
    pass(5 * SECOND_NS);
    assert_int_equal(left_s(1), 5);
    size_t records = w.rec_count;
    ask_renewals(&q, r, 4);
    member_work(&w);
    assert_true(answered(&q));
    assert_int_equal(q.done, 4);
    assert_int_equal(r[0].ttl_s, 20);
    assert_int_equal(r[1].ttl_s, 0); /* nobody's */
    assert_int_equal(r[2].ttl_s, 10);
    assert_int_equal(r[3].ttl_s, 20);
    member_settle(&w);
    assert_int_equal(w.rec_count, records);
    assert_int_equal(left_s(1), 10);
    end();
}

static void a_grant_that_is_committed_is_known(void **state)
{
    (void)state;
    struct node_renewal r = {.id = 5};
    struct node_lease_question q;
    begin(2);
    (void)grant(5, 30);
    member_work(&w);
    member_wal_write(&w);
    member_wal_sync(&w);
    member_raft_outputs(&w);
    assert_false(lease_find(w.leases, 5, NULL)); /* committed, not applied */
    ask_renewals(&q, &r, 1);
    member_settle(&w);
    assert_true(answered(&q));
    assert_int_equal(r.ttl_s, 30);
    end();
}

static void time_to_live_has_whole_seconds_and_keys(void **state)
{
    (void)state;
    begin(3);
    (void)grant(7, 60);
    member_settle(&w);
    put_with(7, "b");
    put_with(7, "a");
    pass(SECOND_NS / 2);
    struct node_lease_question q = ask_left(7, true);
    assert_int_equal(q.left_s, 59);
    assert_int_equal(q.granted_s, 60);
    static const uint8_t KEYS[] = {0x2a, 1, 'a', 0x2a, 1, 'b'};
    assert_int_equal(q.list.len, sizeof KEYS);
    assert_memory_equal(q.list.data, KEYS, sizeof KEYS);
    buf_deinit(&q.list);
    q = ask_left(8, true);
    assert_int_equal(q.left_s, -1);
    assert_int_equal(q.granted_s, 0);
    assert_int_equal(q.list.len, 0);
    buf_deinit(&q.list);
    end();
}

static void many_keys_are_listed_in_slices(void **state)
{
    (void)state;
    char key[8];
    begin(4);
    (void)grant(7, 600);
    member_settle(&w);
    for (int i = 0; i < 700; i++) {
        (void)snprintf(key, sizeof key, "%05d", i);
        put_with(7, key);
    }
    struct node_lease_question q = ask_left(7, true);
    assert_int_equal(q.list.len, 700 * 7);
    for (int i = 0; i < 700; i++) {
        (void)snprintf(key, sizeof key, "%05d", i);
        assert_memory_equal(q.list.data + 7 * i + 2, key, 5);
    }
    buf_deinit(&q.list);
    end();
}

static void the_list_has_every_lease_and_needs_no_leader(void **state)
{
    (void)state;
    struct node_lease_question q = {.ask = NODE_LEASE_LIST};
    begin(5);
    grant_many(LEASES_MAX, 100);
    lease_demote(w.leases);
    buf_init(&q.list, &w.heap.alloc, 1 << 20);
    node_apply_ask(w.apply, &q);
    member_work(&w);
    assert_true(answered(&q));
    assert_int_equal(q.list.len, LEASES_MAX * sizeof(struct node_lease_item));
    buf_deinit(&q.list);
    end();
}

/* --- the end of leases ---------------------------------------------------------------------------------- */

static void what_runs_out_is_revoked_with_its_keys(void **state)
{
    (void)state;
    begin(6);
    (void)grant(1, 2);
    (void)grant(2, 100);
    member_settle(&w);
    put_with(1, "x");
    pass(SECOND_NS);
    assert_true(lease_find(w.leases, 1, NULL));
    pass(2 * SECOND_NS);
    assert_false(lease_find(w.leases, 1, NULL));
    assert_true(lease_find(w.leases, 2, NULL));
    assert_true(lease_of_key(w.leases, bytes_str("x")) == LEASE_NONE);
    assert_int_equal(renew(1), 0);
    end();
}

static void a_lease_that_is_renewed_lives(void **state)
{
    (void)state;
    begin(7);
    (void)grant(1, 2);
    member_settle(&w);
    for (int i = 0; i < 20; i++) {
        pass(SECOND_NS);
        assert_int_equal(renew(1), 2);
    }
    pass(3 * SECOND_NS);
    assert_int_equal(renew(1), 0);
    end();
}

static void at_most_sixteen_revocations_are_under_way(void **state)
{
    (void)state;
    begin(8);
    grant_many(LEASES_MAX, 1);
    w.now_ns += 2 * SECOND_NS;
    member_tick(&w, 0); /* it has not ticked for long: it asks first */
    size_t before = w.rec_count;
    for (int i = 0; i < 6; i++)
        member_tick(&w, MEMBER_TICK_NS);
    size_t proposed = 0;
    for (size_t i = 0; i < w.persist_count; i++)
        proposed += w.persists[i].entry_count;
    assert_int_equal(w.rec_count, before);
    assert_int_equal(proposed, 16);
    member_settle(&w);
    assert_int_equal(lease_count(w.leases), 0);
    assert_int_equal(node_apply_leases_expired(w.apply), LEASES_MAX);
    end();
}

static void a_renewal_of_what_has_run_out_waits_for_its_end(void **state)
{
    (void)state;
    struct node_renewal r[] = {{.id = 2}, {.id = 1, .ttl_s = -7}, {.id = 2}};
    struct node_lease_question q;
    begin(9);
    (void)grant(1, 2);
    (void)grant(2, 50);
    member_settle(&w);
    for (int i = 0; i < 21; i++)
        member_tick(&w, MEMBER_TICK_NS); /* no write of the log: the revocation hangs */
    ask_renewals(&q, r, 3);
    member_work(&w);
    assert_true(answered(&q));
    assert_int_equal(q.done, 1); /* the second one has to wait, so the first is answered alone */
    ask_renewals(&q, r + 1, 2);
    for (int i = 0; i < 6; i++)
        member_tick(&w, MEMBER_TICK_NS);
    assert_false(answered(&q));
    member_settle(&w);
    assert_true(answered(&q));
    assert_int_equal(q.done, 2);
    assert_int_equal(r[1].ttl_s, 0);
    assert_int_equal(r[2].ttl_s, 50);
    end();
}

/* --- leadership ------------------------------------------------------------------------------------------- */

static void a_stalled_leader_asks_before_it_renews(void **state)
{
    (void)state;
    struct node_renewal r = {.id = 1};
    struct node_lease_question q;
    begin(10);
    (void)grant(1, 100);
    member_settle(&w);
    w.now_ns += SECOND_NS;
    ask_renewals(&q, &r, 1);
    (void)node_apply_run(w.apply, w.now_ns, 64);
    assert_false(answered(&q));
    member_work(&w); /* the round of a sole voter needs nobody else */
    assert_true(answered(&q));
    assert_int_equal(r.ttl_s, 100);
    end();
}

static void without_leader_questions_end_after_t(void **state)
{
    (void)state;
    struct node_renewal r = {.id = 1};
    struct node_lease_question q;
    member_world_init(&w, 11);
    up();
    member_work(&w);
    ask_renewals(&q, &r, 1);
    for (int i = 0; i < 68; i++)
        member_tick(&w, MEMBER_TICK_NS);
    assert_false(answered(&q));
    for (int i = 0; i < 5; i++)
        member_tick(&w, MEMBER_TICK_NS);
    assert_true(answered(&q));
    assert_int_equal(q.error, E_NO_LEADER);
    assert_int_equal(q.done, 0);
    member_world_deinit(&w);
}

static void a_stop_answers_questions(void **state)
{
    (void)state;
    struct node_renewal r = {.id = 1};
    struct node_lease_question q;
    member_world_init(&w, 12);
    up();
    member_work(&w);
    ask_renewals(&q, &r, 1);
    member_work(&w);
    assert_false(answered(&q));
    assert_int_equal(node_raft_stop(w.raft), 0);
    member_settle(&w);
    assert_true(answered(&q));
    assert_int_equal(q.error, E_STOPPED);
    ask_renewals(&q, &r, 1);
    member_settle(&w);
    assert_true(answered(&q));
    assert_int_equal(q.error, E_STOPPED);
    member_world_deinit(&w);
}

/* --- checkpoints -------------------------------------------------------------------------------------------- */

static int64_t remaining_s(lease_id id)
{
    struct lease_info info = {.remaining_s = -1};
    assert_true(lease_find(w.leases, id, &info));
    return info.remaining_s;
}

static void checkpoints_are_replicated_and_a_renewal_takes_them_back(void **state)
{
    (void)state;
    struct node_renewal r[] = {{.id = 1}, {.id = 2}};
    struct node_lease_question q;
    member_world_init(&w, 13);
    w.checkpoint_interval_ns = 10 * SECOND_NS;
    up();
    member_recover(&w);
    (void)grant(1, 100);
    (void)grant(2, 200);
    (void)grant(3, 5);
    member_settle(&w);
    pass(4 * SECOND_NS);
    assert_int_equal(renew(3), 5);
    pass(4 * SECOND_NS);
    assert_int_equal(remaining_s(1), 0);
    pass(3 * SECOND_NS);
    assert_in_range(remaining_s(1), 89, 91);
    assert_in_range(remaining_s(2), 189, 191);
    size_t records = w.rec_count;
    ask_renewals(&q, r, 2);
    member_work(&w);
    assert_false(answered(&q)); /* 0 has to be replicated first */
    member_settle(&w);
    assert_true(answered(&q));
    assert_int_equal(q.done, 2);
    assert_int_equal(r[0].ttl_s, 100);
    assert_int_equal(r[1].ttl_s, 200);
    assert_int_equal(remaining_s(1), 0);
    size_t entries = 0;
    for (size_t i = records; i < w.rec_count; i++)
        entries += w.recs[i].kind == REC_ENTRY;
    assert_int_equal(entries, 1); /* one for both */
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renewals_are_answered_in_order_and_leave_no_entry),
        cmocka_unit_test(a_grant_that_is_committed_is_known),
        cmocka_unit_test(time_to_live_has_whole_seconds_and_keys),
        cmocka_unit_test(many_keys_are_listed_in_slices),
        cmocka_unit_test(the_list_has_every_lease_and_needs_no_leader),
        cmocka_unit_test(what_runs_out_is_revoked_with_its_keys),
        cmocka_unit_test(a_lease_that_is_renewed_lives),
        cmocka_unit_test(at_most_sixteen_revocations_are_under_way),
        cmocka_unit_test(a_renewal_of_what_has_run_out_waits_for_its_end),
        cmocka_unit_test(a_stalled_leader_asks_before_it_renews),
        cmocka_unit_test(without_leader_questions_end_after_t),
        cmocka_unit_test(a_stop_answers_questions),
        cmocka_unit_test(checkpoints_are_replicated_and_a_renewal_takes_them_back),
    };
    return cmocka_run_group_tests_name("node/lease", tests, NULL, NULL);
}
