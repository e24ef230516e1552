/* Entries of every kind, one by one. */
#include "fixture.h"

/* ---- puts and deletes ------------------------------------------------------------------------ */

static void test_a_put(void **state)
{
    struct world w;
    world_open(&w);
    put(&w, "k", "v");
    struct apply_result *r = w.out.result;
    assert_int_equal(r->request_id, w.request_id);
    assert_int_equal(w.out.request_id, w.request_id);
    assert_int_equal(r->op_count, 1);
    assert_int_equal(r->ops[0].kind, APPLY_OP_PUT);
    assert_int_equal(r->ops[0].revision, 2);
    assert_int_equal(r->revision, 2);
    assert_null(r->ops[0].view);
    assert_int_equal(w.out.published_from, 2);
    assert_int_equal(w.out.published_to, 2);
    assert_int_equal(apply_index(w.apply), 1);
    assert_int_equal(apply_term(w.apply), 1);
    world_close(&w);
}

static void test_nobody_waits(void **state)
{
    struct world w;
    world_open(&w);
    w.nobody_waits = true;
    put(&w, "k", "v");
    assert_null(w.out.result);
    assert_int_equal(w.out.published_to, 2);
    world_close(&w);
}

static void test_prev_kv_outlives_commits(void **state)
{
    struct world w;
    world_open(&w);
    put(&w, "k", "one");
    Etcdserverpb__PutRequest *p = put_of(&w.a, "k", "two");
    p->prev_kv = 1;
    assert_int_equal(feed_put(&w, p), APPLY_DONE);
    struct apply_result *r = w.out.result;
    w.out.result = NULL;
    assert_int_equal(r->ops[0].row_count, 1);
    world_commit(&w);
    struct pb_kv kv = row_of(r, 0, 0);
    assert_span(kv.key, "k");
    assert_span(kv.value, "one");
    assert_int_equal(kv.mod_revision, 2);
    apply_result_free(r);
    Etcdserverpb__PutRequest *q = put_of(&w.a, "new", "");
    q->prev_kv = 1;
    assert_int_equal(feed_put(&w, q), APPLY_DONE);
    assert_int_equal(w.out.result->ops[0].row_count, 0);
    world_close(&w);
}

static void grant(struct world *w, int64_t id, int64_t ttl)
{
    REQUEST(r);
    Etcdserverpb__LeaseGrantRequest g = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    g.id = id;
    g.ttl = ttl;
    r.lease_grant = &g;
    assert_int_equal(feed(w, &r), APPLY_DONE);
}

static void test_ignore_value_and_lease(void **state)
{
    struct world w;
    world_open(&w);
    grant(&w, 7, 60);
    Etcdserverpb__PutRequest *p = put_of(&w.a, "k", "v");
    p->ignore_value = 1;
    assert_int_equal(feed_put(&w, p), APPLY_DONE);
    assert_int_equal(w.out.result->error, E_KEY_NOT_FOUND);
    p->lease = 8;
    assert_int_equal(feed_put(&w, p), APPLY_DONE);
    assert_int_equal(w.out.result->error, E_LEASE_NOT_FOUND);
    assert_int_equal(w.out.result->op_count, 0);
    assert_int_equal(w.out.published_to, 0);
    assert_int_equal(mvcc_revision(w.m), 1);
    p->ignore_value = 0;
    p->lease = 7;
    assert_int_equal(feed_put(&w, p), APPLY_DONE);
    assert_int_equal(lease_of_key(w.leases, bytes_str("k")), 7);
    Etcdserverpb__PutRequest *q = put_of(&w.a, "k", "w");
    q->ignore_lease = 1;
    assert_int_equal(feed_put(&w, q), APPLY_DONE);
    assert_int_equal(lease_of_key(w.leases, bytes_str("k")), 7);
    q = put_of(&w.a, "k", "");
    q->ignore_value = 1;
    q->prev_kv = 1;
    assert_int_equal(feed_put(&w, q), APPLY_DONE);
    assert_int_equal(row_of(w.out.result, 0, 0).lease, 7);
    assert_int_equal(lease_of_key(w.leases, bytes_str("k")), LEASE_NONE);
    q = put_of(&w.a, "k", "x");
    q->prev_kv = 1;
    assert_int_equal(feed_put(&w, q), APPLY_DONE);
    struct pb_kv kv = row_of(w.out.result, 0, 0);
    assert_span(kv.value, "w");
    assert_int_equal(kv.version, 3);
    assert_int_equal(kv.lease, 0);
    world_close(&w);
}

static enum apply_state feed_delete(struct world *w, const char *key, const char *end, bool prev)
{
    REQUEST(r);
    r.delete_range = delete_of(&w->a, key, end);
    r.delete_range->prev_kv = prev;
    return feed(w, &r);
}

static void test_delete_range(void **state)
{
    struct world w;
    world_open(&w);
    put(&w, "a", "1");
    put(&w, "b", "2");
    put(&w, "c", "3");
    assert_int_equal(feed_delete(&w, "x", "0", true), APPLY_DONE);
    assert_int_equal(w.out.result->ops[0].count, 0);
    assert_int_equal(w.out.result->revision, 4);
    assert_int_equal(w.out.published_to, 0);
    assert_int_equal(feed_delete(&w, "a", "c", true), APPLY_DONE);
    struct apply_op *op = w.out.result->ops;
    assert_int_equal(op->count, 2);
    assert_int_equal(op->revision, 5);
    assert_int_equal(op->row_count, 2);
    assert_span(row_of(w.out.result, 0, 0).value, "1");
    assert_span(row_of(w.out.result, 0, 1).value, "2");
    assert_int_equal(feed_delete(&w, "c", "", false), APPLY_DONE);
    assert_int_equal(w.out.result->ops[0].count, 1);
    assert_int_equal(w.out.result->ops[0].row_count, 0);
    world_close(&w);
}

static void test_a_large_delete_goes_in_slices(void **state)
{
    struct world w;
    world_open(&w);
    w.nobody_waits = true;
    enum { N = 5000 };
    for (int i = 0; i < N; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%06d", i);
        put(&w, key, "v");
    }
    w.nobody_waits = false;
    w.budget = 100;
    assert_int_equal(feed_delete(&w, "0", "1", true), APPLY_DONE);
    assert_int_equal(w.out.result->ops[0].count, N);
    assert_int_equal(w.out.result->ops[0].row_count, N);
    assert_in_range(w.steps, N / 100, N / 100 + 3);
    world_close(&w);
}

/* ---- compaction ------------------------------------------------------------------------------ */

static int compact(struct world *w, int64_t revision)
{
    REQUEST(r);
    Etcdserverpb__CompactionRequest c = ETCDSERVERPB__COMPACTION_REQUEST__INIT;
    c.revision = revision;
    c.physical = 1;
    r.compaction = &c;
    assert_int_equal(feed(w, &r), APPLY_DONE);
    return w->out.result->error;
}

static void test_compaction(void **state)
{
    struct world w;
    world_open(&w);
    assert_int_equal(compact(&w, -1), E_COMPACTED);
    assert_false(w.out.compacted);
    assert_int_equal(compact(&w, 0), 0);
    put(&w, "k", "v");
    assert_int_equal(compact(&w, 3), E_FUTURE_REV);
    assert_int_equal(compact(&w, 2), 0);
    assert_true(w.out.compacted);
    assert_true(w.out.compact_physical);
    assert_int_equal(w.out.compact_revision, 2);
    assert_int_equal(w.out.result->ops[0].kind, APPLY_OP_COMPACTION);
    assert_int_equal(w.out.result->ops[0].revision, 2);
    assert_int_equal(w.out.published_to, 0);
    assert_int_equal(compact(&w, 2), E_COMPACTED);
    world_close(&w);
}

/* ---- leases ---------------------------------------------------------------------------------- */

static enum apply_state revoke(struct world *w, int64_t id)
{
    REQUEST(r);
    Etcdserverpb__LeaseRevokeRequest q = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
    q.id = id;
    r.lease_revoke = &q;
    return feed(w, &r);
}

static void test_lease_grant(void **state)
{
    struct world w;
    world_open(&w);
    grant(&w, -5, 1);
    assert_int_equal(w.out.result->ops[0].lease_id, -5);
    assert_int_equal(w.out.result->ops[0].ttl_s, 2);
    grant(&w, -5, 10);
    assert_int_equal(w.out.result->error, E_LEASE_EXIST);
    grant(&w, 6, LEASE_TTL_S_MAX + 1);
    assert_int_equal(w.out.result->error, E_LEASE_TTL_TOO_LARGE);
    grant(&w, 0, 10);
    assert_int_equal(w.out.result->error, E_LEASE_NOT_FOUND);
    world_commit(&w);
    struct bytes row = store_value(&w.store, TABLE_LEASE, "\xff\xff\xff\xff\xff\xff\xff\xfb");
    struct pb_lease l;
    assert_int_equal(pb_lease_decode(row, &l), 0);
    assert_int_equal(l.id, -5);
    assert_int_equal(l.ttl_s, 2);
    world_close(&w);
}

static void put_leased(struct world *w, const char *key, int64_t lease)
{
    Etcdserverpb__PutRequest *p = put_of(&w->a, key, "v");
    p->lease = lease;
    assert_int_equal(feed_put(w, p), APPLY_DONE);
    assert_int_equal(w->out.result->error, 0);
}

static void test_lease_revoke_deletes_in_byte_order(void **state)
{
    struct world w;
    world_open(&w);
    grant(&w, 9, 60);
    put_leased(&w, "b", 9);
    put_leased(&w, "\xff", 9);
    put_leased(&w, "a", 9);
    put_leased(&w, "gone", 9);
    put(&w, "gone", "no lease any more");
    w.budget = 1;
    assert_int_equal(revoke(&w, 9), APPLY_DONE);
    assert_true(w.steps > 3);
    int64_t rev = w.out.published_to;
    assert_int_equal(w.out.result->revision, rev);
    assert_int_equal(lease_count(w.leases), 0);
    world_commit(&w);
    const char *order[] = {"a", "b", "\xff"};
    for (unsigned i = 0; i < 3; i++) {
        uint8_t key[18] = {0};
        key[7] = (uint8_t)rev;
        key[8] = '_';
        key[16] = (uint8_t)i;
        key[17] = 't';
        size_t at;
        assert_true(store_find(&w.store, TABLE_KEY, bytes_of(key, 18), &at));
        struct pb_kv kv;
        assert_int_equal(pb_kv_decode(w.store.rows[at].value, &kv), 0);
        assert_span(kv.key, order[i]);
    }
    size_t row;
    assert_false(store_find(&w.store, TABLE_LEASE, bytes_of("\0\0\0\0\0\0\0\x09", 8), &row));
    assert_int_equal(revoke(&w, 9), APPLY_DONE);
    assert_int_equal(w.out.result->error, E_LEASE_NOT_FOUND);
    world_close(&w);
}

static void test_revoke_without_keys_keeps_the_revision(void **state)
{
    struct world w;
    world_open(&w);
    grant(&w, 9, 60);
    assert_int_equal(revoke(&w, 9), APPLY_DONE);
    assert_int_equal(w.out.published_to, 0);
    assert_int_equal(w.out.result->ops[0].revision, 1);
    world_close(&w);
}

static void set_version(struct world *w, const char *version)
{
    REQUEST(r);
    Membershippb__ClusterVersionSetRequest v;
    membershippb__cluster_version_set_request__init(&v);
    union {
        const char *shown;
        char *own;
    } u = {.shown = version};
    v.ver = u.own;
    r.cluster_version_set = &v;
    (void)feed(w, &r);
}

static void checkpoint(struct world *w, int64_t id, int64_t remaining)
{
    REQUEST(r);
    Etcdserverpb__LeaseCheckpoint one = ETCDSERVERPB__LEASE_CHECKPOINT__INIT;
    Etcdserverpb__LeaseCheckpoint unknown = ETCDSERVERPB__LEASE_CHECKPOINT__INIT;
    Etcdserverpb__LeaseCheckpoint *list[] = {&unknown, &one};
    one.id = id;
    one.remaining_ttl = remaining;
    unknown.id = 12345;
    Etcdserverpb__LeaseCheckpointRequest c = ETCDSERVERPB__LEASE_CHECKPOINT_REQUEST__INIT;
    c.n_checkpoints = 2;
    c.checkpoints = list;
    r.lease_checkpoint = &c;
    assert_int_equal(feed(w, &r), APPLY_DONE);
    assert_int_equal(w->out.result->error, 0);
}

static int64_t stored_remaining(struct world *w)
{
    world_commit(w);
    struct pb_lease l = {0};
    size_t at;
    assert_true(store_find(&w->store, TABLE_LEASE, bytes_of("\0\0\0\0\0\0\0\x09", 8), &at));
    assert_int_equal(pb_lease_decode(w->store.rows[at].value, &l), 0);
    return l.remaining_ttl_s;
}

static void test_checkpoints_persist_from_3_6_on(void **state)
{
    struct world w;
    world_open(&w);
    grant(&w, 9, 60);
    checkpoint(&w, 9, 20);
    assert_int_equal(stored_remaining(&w), 0); /* the version is unknown */
    set_version(&w, "3.5.0");
    checkpoint(&w, 9, 21);
    assert_int_equal(stored_remaining(&w), 0);
    set_version(&w, "3.6.0");
    checkpoint(&w, 9, 22);
    assert_int_equal(stored_remaining(&w), 22);
    struct lease_info info;
    assert_true(lease_find(w.leases, 9, &info));
    assert_int_equal(info.remaining_s, 22);
    world_close(&w);
}

/* ---- alarms and quota ------------------------------------------------------------------------ */

static void alarm(struct world *w, int action, uint64_t member, int type)
{
    REQUEST(r);
    Etcdserverpb__AlarmRequest q = ETCDSERVERPB__ALARM_REQUEST__INIT;
    q.action = (Etcdserverpb__AlarmRequest__AlarmAction)action;
    q.memberid = member;
    q.alarm = (Etcdserverpb__AlarmType)type;
    r.alarm = &q;
    assert_int_equal(feed(w, &r), APPLY_DONE);
    assert_int_equal(w->out.result->error, 0);
}

enum { GET, ACTIVATE, DEACTIVATE };

static void test_alarms(void **state)
{
    struct world w;
    world_open(&w);
    alarm(&w, ACTIVATE, 5, ALARM_NONE);
    assert_int_equal(w.out.result->alarm_count, 0);
    alarm(&w, DEACTIVATE, 5, ALARM_NOSPACE);
    assert_int_equal(w.out.result->alarm_count, 0);
    alarm(&w, ACTIVATE, 5, ALARM_NOSPACE);
    assert_true(w.out.alarms_changed);
    alarm(&w, ACTIVATE, 5, ALARM_NOSPACE);
    assert_false(w.out.alarms_changed);
    assert_int_equal(w.out.result->alarm_count, 1); /* the one that is there */
    assert_int_equal(w.out.result->alarms[0].member_id, 5);
    alarm(&w, ACTIVATE, 6, ALARM_CORRUPT);
    alarm(&w, GET, 0, ALARM_NONE);
    assert_int_equal(w.out.result->alarm_count, 2);
    alarm(&w, GET, 0, ALARM_CORRUPT);
    assert_int_equal(w.out.result->alarm_count, 1);
    assert_int_equal(w.out.result->alarms[0].type, ALARM_CORRUPT);
    alarm(&w, 77, 6, ALARM_CORRUPT);
    assert_int_equal(w.out.result->alarm_count, 0);
    world_commit(&w);
    assert_non_null(store_value(&w.store, TABLE_ALARM, "\x08\x05\x10\x01").data);
    alarm(&w, DEACTIVATE, 5, ALARM_NOSPACE);
    assert_int_equal(w.out.result->alarm_count, 1);
    world_commit(&w);
    assert_null(store_value(&w.store, TABLE_ALARM, "\x08\x05\x10\x01").data);
    world_close(&w);
}

static int txn_error(struct world *w, request_op *op)
{
    txn_request *t = txn_new(&w->a);
    if (op != NULL) txn_success(&w->a, t, op);
    assert_int_equal(feed_txn(w, t), APPLY_DONE);
    return w->out.result->error;
}

static void test_what_nospace_refuses(void **state)
{
    struct world w;
    world_open(&w);
    put(&w, "k", "v");
    alarm(&w, ACTIVATE, 5, ALARM_NOSPACE);
    assert_int_equal(feed_put(&w, put_of(&w.a, "k", "v")), APPLY_DONE);
    assert_int_equal(w.out.result->error, E_QUOTA);
    assert_false(w.out.raise_nospace);
    grant(&w, 1, 10);
    assert_int_equal(w.out.result->error, E_QUOTA);
    assert_int_equal(txn_error(&w, op_put(&w.a, put_of(&w.a, "k", ""))), E_QUOTA);
    assert_int_equal(txn_error(&w, op_range(&w.a, range_of(&w.a, "k", ""))), 0);
    assert_int_equal(txn_error(&w, op_delete(&w.a, delete_of(&w.a, "k", ""))), 0);
    assert_int_equal(feed_delete(&w, "k", "", false), APPLY_DONE);
    assert_int_equal(w.out.result->error, 0);
    assert_int_equal(compact(&w, 2), 0);
    assert_int_equal(mvcc_revision(w.m), 3);
    world_close(&w);
}

static void test_what_corrupt_refuses(void **state)
{
    struct world w;
    world_open(&w);
    grant(&w, 1, 10);
    alarm(&w, ACTIVATE, 5, ALARM_NOSPACE);
    alarm(&w, ACTIVATE, 5, ALARM_CORRUPT);
    assert_int_equal(feed_put(&w, put_of(&w.a, "k", "v")), APPLY_DONE);
    assert_int_equal(w.out.result->error, E_CLUSTER_CORRUPT);
    assert_int_equal(feed_delete(&w, "k", "", false), APPLY_DONE);
    assert_int_equal(w.out.result->error, E_CLUSTER_CORRUPT);
    assert_int_equal(txn_error(&w, NULL), E_CLUSTER_CORRUPT);
    assert_int_equal(compact(&w, 1), E_CLUSTER_CORRUPT);
    grant(&w, 1, 10);
    assert_int_equal(w.out.result->error, E_CLUSTER_CORRUPT);
    assert_int_equal(revoke(&w, 1), APPLY_DONE);
    assert_int_equal(w.out.result->error, E_CLUSTER_CORRUPT);
    checkpoint(&w, 1, 5); /* goes on */
    world_close(&w);
}

static void test_over_the_quota_takes_effect_all_the_same(void **state)
{
    struct world w;
    world_init(&w);
    w.quota_bytes = 10000;
    assert_int_equal(world_start(&w), 0);
    apply_set_store_bytes(w.apply, 9000);
    put(&w, "k", "v");
    assert_true(apply_quota_has_room(w.apply, 0));
    apply_set_store_bytes(w.apply, 9900);
    assert_false(apply_quota_has_room(w.apply, 258));
    assert_int_equal(feed_put(&w, put_of(&w.a, "k", "w")), APPLY_DONE);
    assert_int_equal(w.out.result->error, E_QUOTA);
    assert_true(w.out.raise_nospace);
    assert_int_equal(w.out.published_to, 3);
    grant(&w, 4, 10);
    assert_int_equal(w.out.result->error, E_QUOTA);
    assert_true(lease_find(w.leases, 4, NULL));
    assert_int_equal(txn_error(&w, op_put(&w.a, put_of(&w.a, "l", ""))), E_QUOTA);
    assert_int_equal(w.out.published_to, 4);
    assert_int_equal(txn_error(&w, op_delete(&w.a, delete_of(&w.a, "l", ""))), 0);
    Etcdserverpb__PutRequest *p = put_of(&w.a, "none", "");
    p->ignore_value = 1;
    assert_int_equal(feed_put(&w, p), APPLY_DONE);
    assert_int_equal(w.out.result->error, E_KEY_NOT_FOUND); /* its own error comes first */
    assert_false(w.out.raise_nospace);
    world_close(&w);
}

static void test_without_quota_nothing_is_refused(void **state)
{
    struct world w;
    world_init(&w);
    w.quota_bytes = -1;
    assert_int_equal(world_start(&w), 0);
    apply_set_store_bytes(w.apply, UINT64_MAX / 2);
    put(&w, "k", "v");
    world_close(&w);
}

/* ---- the cluster ----------------------------------------------------------------------------- */

static void test_cluster_version(void **state)
{
    struct world w;
    world_open(&w);
    set_version(&w, "3.7.0");
    assert_true(w.out.members_changed);
    assert_false(w.out.force_snapshot);
    assert_int_equal(w.out.result->ops[0].kind, APPLY_OP_OTHER);
    assert_span(membership_version(apply_members(w.apply)), "3.7.0");
    set_version(&w, "3.6.0");
    assert_true(w.out.force_snapshot);
    set_version(&w, "3.6.0");
    assert_false(w.out.force_snapshot);
    world_commit(&w);
    assert_span(store_value(&w.store, TABLE_CLUSTER, "clusterVersion"), "3.6.0");
    set_version(&w, "3.8.0");
    assert_non_null(strstr(w.out.fatal, "3.8.0"));
    assert_int_equal(mvcc_applied_index(w.m), 3);
    world_close(&w);
}

static enum apply_state set_attributes(struct world *w, uint64_t id)
{
    REQUEST(r);
    Membershippb__ClusterMemberAttrSetRequest q;
    membershippb__cluster_member_attr_set_request__init(&q);
    Membershippb__Attributes attr;
    membershippb__attributes__init(&attr);
    char name[] = "n1";
    char url[] = "http://c:2379";
    char *urls[] = {url};
    attr.name = name;
    attr.n_client_urls = 1;
    attr.client_urls = urls;
    q.member_id = id;
    q.member_attributes = &attr;
    r.cluster_member_attr_set = &q;
    return feed(w, &r);
}

static void test_attributes(void **state)
{
    struct world w;
    world_open(&w);
    assert_int_equal(set_attributes(&w, SELF), APPLY_DONE);
    assert_span(membership_find(apply_members(w.apply), SELF)->name, "n1");
    world_commit(&w);
    assert_span(store_value(&w.store, TABLE_MEMBERS, "a1"),
                "{\"id\":161,\"peerURLs\":[\"http://self:2380\"],\"name\":\"n1\","
                "\"clientURLs\":[\"http://c:2379\"]}");
    assert_int_equal(set_attributes(&w, 0xbad), APPLY_FATAL);
    assert_non_null(strstr(w.out.fatal, "bad"));
    world_close(&w);
}

static void test_downgrade_info(void **state)
{
    struct world w;
    world_open(&w);
    REQUEST(r);
    Membershippb__DowngradeInfoSetRequest q;
    membershippb__downgrade_info_set_request__init(&q);
    char target[] = "3.6.0";
    q.enabled = 1;
    q.ver = target;
    r.downgrade_info_set = &q;
    assert_int_equal(feed(&w, &r), APPLY_DONE);
    assert_true(membership_downgrade(apply_members(w.apply)).enabled);
    q.enabled = 0;
    assert_int_equal(feed(&w, &r), APPLY_DONE);
    world_commit(&w);
    assert_span(store_value(&w.store, TABLE_CLUSTER, "downgrade"),
                "{\"target-version\":\"\",\"enabled\":false}");
    world_close(&w);
}

static void test_version_test_does_nothing(void **state)
{
    struct world w;
    world_open(&w);
    REQUEST(r);
    Etcdserverpb__DowngradeVersionTestRequest q;
    etcdserverpb__downgrade_version_test_request__init(&q);
    r.downgrade_version_test = &q;
    assert_int_equal(feed(&w, &r), APPLY_DONE);
    assert_int_equal(mvcc_applied_index(w.m), 1);
    world_close(&w);
}

/* ---- conf changes ---------------------------------------------------------------------------- */

static enum apply_state conf(struct world *w, int type, uint64_t node, const char *context)
{
    struct pb_conf_change cc = {
        .id = ++w->request_id, .type = type, .node_id = node, .context = bytes_str(context)};
    struct buf out;
    buf_init(&out, &w->store_heap.alloc, 4096);
    assert_int_equal(pb_conf_change_put(&cc, &out), 0);
    struct bytes data = arena_copy(&w->a, buf_bytes(&out));
    buf_deinit(&out);
    return feed_typed(w, PB_ENTRY_CONF_CHANGE, data);
}

#define B_JSON "{\"id\":178,\"peerURLs\":[\"http://b:2380\"]}"

static void test_a_member_is_added_and_removed(void **state)
{
    struct world w;
    world_open(&w);
    uint64_t both[] = {SELF, 0xb2};
    w.conf = (struct pb_conf_state){.voters = {both, 2}};
    assert_int_equal(conf(&w, PB_ADD_NODE, 0xb2, B_JSON), APPLY_DONE);
    assert_int_equal(w.out.result->error, 0);
    assert_int_equal(w.out.result->ops[0].kind, APPLY_OP_CONF_CHANGE);
    assert_int_equal(membership_count(w.out.result->members), 2);
    assert_int_equal(w.out.peer_action, APPLY_PEER_ADD);
    assert_int_equal(w.out.peer_id, 0xb2);
    world_commit(&w);
    assert_span(store_value(&w.store, TABLE_MEMBERS, "b2"), B_JSON);
    assert_span(store_value(&w.store, TABLE_META, "confState"),
                "{\"voters\":[161,178],\"auto_leave\":false}");
    w.conf.voters.count = 1;
    assert_int_equal(conf(&w, PB_REMOVE_NODE, 0xb2, ""), APPLY_DONE);
    assert_int_equal(w.out.peer_action, APPLY_PEER_REMOVE);
    assert_false(w.out.removed_self);
    world_commit(&w);
    assert_null(store_value(&w.store, TABLE_MEMBERS, "b2").data);
    assert_span(store_value(&w.store, TABLE_MEMBERS_REMOVED, "b2"), "removed");
    assert_int_equal(conf(&w, PB_REMOVE_NODE, SELF, ""), APPLY_DONE);
    assert_true(w.out.removed_self);
    assert_int_equal(w.out.peer_action, APPLY_PEER_NONE);
    world_close(&w);
}

/* What raft is shown, and the answer to the caller. */
static void refused(struct world *w, int type, uint64_t node, const char *context, int error)
{
    struct pb_conf_change cc = {
        .id = 99, .type = type, .node_id = node, .context = bytes_str(context)};
    struct buf out;
    buf_init(&out, &w->store_heap.alloc, 4096);
    assert_int_equal(pb_conf_change_put(&cc, &out), 0);
    struct apply_entry e = {
        .index = ++w->index, .term = 1, .type = PB_ENTRY_CONF_CHANGE, .data = buf_bytes(&out)};
    apply_result_free(w->out.result);
    apply_begin(w->apply, &e);
    uint32_t budget = 10;
    assert_int_equal(apply_step(w->apply, 0, &budget, &w->out), APPLY_CONF);
    assert_int_equal(w->out.conf.node_id, 0);
    apply_conf_done(w->apply, &w->conf);
    assert_int_equal(apply_step(w->apply, 0, &budget, &w->out), APPLY_DONE);
    assert_int_equal(w->out.request_id, 99);
    assert_int_equal(w->out.result->error, error);
    assert_null(w->out.result->members);
    assert_int_equal(w->out.peer_action, APPLY_PEER_NONE);
    apply_result_free(w->out.result);
    w->out.result = NULL;
    buf_deinit(&out);
}

static void test_invalid_changes_are_refused_in_order(void **state)
{
    struct world w;
    world_open(&w);
    uint64_t self[] = {SELF};
    w.conf = (struct pb_conf_state){.voters = {self, 1}};
    refused(&w, PB_ADD_NODE, SELF, "{\"id\":161,\"peerURLs\":[\"http://self:2380\"]}",
            E_MEMBER_EXIST);
    refused(&w, PB_ADD_NODE, 0xb2, "{\"id\":178,\"peerURLs\":[\"http://self:2380\"]}",
            E_PEER_URL_EXIST);
    refused(&w, PB_ADD_NODE, 0xb2, "{\"id\":178,\"peerURLs\":null,\"isPromote\":true}",
            E_MEMBER_NOT_FOUND);
    refused(&w, PB_ADD_NODE, SELF, "{\"id\":161,\"peerURLs\":null,\"isPromote\":true}",
            E_MEMBER_NOT_LEARNER);
    refused(&w, PB_REMOVE_NODE, 0xb2, "", E_MEMBER_NOT_FOUND);
    refused(&w, PB_UPDATE_NODE, 0xb2, B_JSON, E_MEMBER_NOT_FOUND);
    assert_int_equal(mvcc_applied_index(w.m), 6); /* each moved the index all the same */
    assert_int_equal(conf(&w, PB_ADD_LEARNER_NODE, 0xb2,
                          "{\"id\":178,\"peerURLs\":[\"http://b\"],\"isLearner\":true}"),
                     APPLY_DONE);
    assert_int_equal(w.out.result->error, 0);
    refused(&w, PB_ADD_LEARNER_NODE, 0xc3,
            "{\"id\":195,\"peerURLs\":[\"http://c\"],\"isLearner\":true}", E_TOO_MANY_LEARNERS);
    assert_int_equal(
        conf(&w, PB_ADD_NODE, 0xb2, "{\"id\":178,\"peerURLs\":null,\"isPromote\":true}"),
        APPLY_DONE);
    assert_int_equal(w.out.peer_action, APPLY_PEER_NONE); /* it is a peer already */
    world_close(&w);
}

static void test_conf_state_is_written_when_it_changes(void **state)
{
    struct world w;
    world_open(&w);
    uint64_t self[] = {SELF};
    w.conf = (struct pb_conf_state){.voters = {self, 1}};
    refused(&w, PB_REMOVE_NODE, 0xb2, "", E_MEMBER_NOT_FOUND);
    world_commit(&w);
    assert_span(store_value(&w.store, TABLE_META, "confState"),
                "{\"voters\":[161],\"auto_leave\":false}");
    w.store.count = 0;
    refused(&w, PB_REMOVE_NODE, 0xb2, "", E_MEMBER_NOT_FOUND);
    world_commit(&w);
    assert_null(store_value(&w.store, TABLE_META, "confState").data);
    world_close(&w);
}

static void test_an_impossible_conf_change_is_fatal(void **state)
{
    const struct {
        int type;
        const char *context;
    } cases[] = {{PB_ADD_NODE, "{"}, {PB_ADD_NODE, "{\"id\":1,\"peerURLs\":[]}"}, {9, ""}};
    for (size_t i = 0; i < 3; i++) {
        struct world w;
        world_open(&w);
        assert_int_equal(conf(&w, cases[i].type, 0xb2, cases[i].context), APPLY_FATAL);
        assert_non_null(strstr(w.out.fatal, "cannot apply entry 1 of term 1"));
        assert_int_equal(mvcc_applied_index(w.m), 0);
        world_close(&w);
    }
}

/* ---- what ends the process ------------------------------------------------------------------- */

static void fatal(struct bytes data, int32_t type, const char *says)
{
    struct world w;
    world_open(&w);
    assert_int_equal(feed_typed(&w, type, data), APPLY_FATAL);
    if (strstr(w.out.fatal, says) == NULL) fail_msg("\"%s\" lacks \"%s\"", w.out.fatal, says);
    assert_null(w.out.result);
    assert_int_equal(mvcc_applied_index(w.m), 0);
    assert_int_equal(apply_index(w.apply), 0);
    assert_int_equal(world_finish(&w), APPLY_FATAL); /* and stays so */
    world_close(&w);
}

static void test_fatal_entries(void **state)
{
    fatal(bytes_of("\x22\x05", 2), PB_ENTRY_NORMAL, "cannot apply entry 1 of term 1");
    fatal(bytes_of("\x22\x00", 2), PB_ENTRY_NORMAL, "neither an id nor a header");
    fatal(bytes_of("\x08\x01", 2), PB_ENTRY_NORMAL, "does not know");
    fatal(bytes_of("\x12\x00\x08\x01", 4), PB_ENTRY_NORMAL, "v2 API");
    fatal(bytes_of("\x08\x01\xc2\x3e\x00", 5), PB_ENTRY_NORMAL, "auth_enable");
    fatal(bytes_of("\x08\x01\xe2\x44\x00", 5), PB_ENTRY_NORMAL, "auth_user_add");
    fatal(bytes_of("\x08\x01", 2), PB_ENTRY_CONF_CHANGE_V2, "type 2 is unknown");
    fatal(bytes_of("\x08\x01", 2), 7, "type 7 is unknown");
    fatal(bytes_of("\x08", 1), PB_ENTRY_CONF_CHANGE, "does not parse");
}

static void test_reads_of_users_leave_no_trace(void **state)
{
    struct world w;
    world_open(&w);
    struct bytes auth_status = bytes_of("\x08\x01\xaa\x3f\x00", 5);
    assert_int_equal(feed_bytes(&w, auth_status), APPLY_DONE);
    assert_int_equal(w.out.result->error, E_UNSUPPORTED);
    w.nobody_waits = true;
    assert_int_equal(feed_bytes(&w, auth_status), APPLY_DONE);
    assert_int_equal(mvcc_applied_index(w.m), 2);
    world_close(&w);
}

static void test_a_store_with_users_is_refused(void **state)
{
    struct world w;
    world_open(&w);
    struct apply_config c = {.mvcc = w.m,
                             .leases = w.leases,
                             .server_version = "3.7.0",
                             .auth_enabled = true,
                             .alloc = &w.heap.alloc};
    struct apply *a = NULL;
    struct errmsg em = {{0}};
    assert_int_equal(
        apply_new(&c, &(struct apply_start){.members = apply_members(w.apply)}, &a, &em),
        E_UNSUPPORTED);
    assert_non_null(strstr(em.text, "authentication"));
    world_close(&w);
}

/* ---- the life of entries --------------------------------------------------------------------- */

static void test_an_empty_entry(void **state)
{
    struct world w;
    world_open(&w);
    w.term = 9;
    assert_int_equal(feed_bytes(&w, BYTES_EMPTY), APPLY_DONE);
    assert_true(w.out.empty);
    assert_null(w.out.result);
    assert_int_equal(mvcc_applied_index(w.m), 1);
    assert_int_equal(mvcc_applied_term(w.m), 9);
    world_close(&w);
}

static void test_pauses_while_the_runs_are_full(void **state)
{
    struct world w;
    world_init(&w);
    w.run_bytes_max = 200;
    assert_int_equal(world_start(&w), 0);
    struct mvcc_run *run = NULL;
    struct errmsg em = {{0}};
    put(&w, "k", "v");
    assert_int_equal(mvcc_run_swap(w.m, &run), 0);
    assert_non_null(run);
    char big[400];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    put(&w, "big", big); /* the entry in progress may exceed the limit */
    assert_int_equal(feed_put(&w, put_of(&w.a, "l", "w")), APPLY_PAUSED);
    assert_int_equal(world_finish(&w), APPLY_PAUSED);
    assert_int_equal(mvcc_revision(w.m), 3);
    assert_int_equal(mvcc_run_write(run, &w.store.face, (struct backend_tx *)&w.store, &em), 0);
    mvcc_run_retire(w.m, run);
    world_commit(&w);
    assert_int_equal(world_finish(&w), APPLY_DONE);
    assert_int_equal(mvcc_revision(w.m), 4);
    world_close(&w);
}

static void test_replay_repeats_only_what_lives_in_memory(void **state)
{
    struct world w;
    world_init(&w);
    w.consistent = 8;
    assert_int_equal(world_start(&w), 0);
    w.index = 2; /* from a snapshot on */
    put(&w, "k", "v");
    assert_true(w.out.replayed);
    assert_null(w.out.result);
    assert_int_equal(mvcc_revision(w.m), 1);
    assert_int_equal(apply_index(w.apply), 8);
    assert_int_equal(feed_bytes(&w, BYTES_EMPTY), APPLY_DONE);
    assert_true(w.out.empty);
    assert_int_equal(conf(&w, PB_ADD_NODE, SELF, "no JSON: not even looked at"), APPLY_DONE);
    assert_int_equal(w.out.peer_action, APPLY_PEER_NONE);
    struct bytes auth_enable = bytes_of("\x08\x01\xc2\x3e\x00", 5);
    assert_int_equal(feed_bytes(&w, auth_enable), APPLY_DONE);
    assert_int_equal(feed_bytes(&w, bytes_of("\x08\x01", 2)), APPLY_DONE); /* an unknown request */
    assert_int_equal(set_attributes(&w, SELF), APPLY_DONE);
    assert_true(w.out.replayed);
    w.index = 8;
    world_close(&w);
}

static void test_replay_still_refuses_what_cannot_be(void **state)
{
    struct world w;
    world_init(&w);
    w.consistent = 8;
    assert_int_equal(world_start(&w), 0);
    assert_int_equal(set_attributes(&w, 0xbad), APPLY_FATAL);
    world_close(&w);
    world_init(&w);
    w.consistent = 8;
    assert_int_equal(world_start(&w), 0);
    set_version(&w, "4.0.0");
    assert_non_null(w.out.fatal);
    world_close(&w);
}

static void test_a_removed_member_stops_again_on_replay(void **state)
{
    struct world w;
    world_open(&w);
    assert_int_equal(conf(&w, PB_REMOVE_NODE, SELF, ""), APPLY_DONE);
    assert_true(w.out.removed_self);
    struct apply_start start = {.consistent_index = 5,
                                .consistent_term = 1,
                                .members = apply_members(w.apply),
                                .alarms = apply_alarms(w.apply)};
    assert_int_equal(apply_restart(w.apply, &start), 0);
    assert_int_equal(apply_index(w.apply), 5);
    assert_int_equal(conf(&w, PB_REMOVE_NODE, SELF, ""), APPLY_DONE);
    assert_true(w.out.replayed);
    assert_true(w.out.removed_self);
    world_close(&w);
}

/* A field that nobody knows sends a put the long way round: the outcome is the same. */
static void test_both_ways_to_decode_a_put_agree(void **state)
{
    struct world w[2];
    struct prng p;
    prng_init(&p, 3);
    world_open(&w[0]);
    world_open(&w[1]);
    for (int i = 0; i < 500; i++) {
        char key[4];
        (void)snprintf(key, sizeof key, "k%d", (int)prng_below(&p, 20));
        Etcdserverpb__PutRequest *q = put_of(&w[0].a, key, "value");
        q->prev_kv = (int)prng_below(&p, 2);
        q->ignore_value = prng_below(&p, 4) == 0;
        q->ignore_lease = prng_below(&p, 4) == 0;
        q->lease = prng_below(&p, 5) == 0 ? (int64_t)prng_next(&p) : 0;
        REQUEST(r);
        r.put = q;
        struct bytes data = pack_request(&w[0], &r);
        char more[4096];
        memcpy(more, data.data, data.len);
        memcpy(more + data.len, "\xc2\xf4\x03\x01x", 5); /* field 8008 */
        (void)feed_bytes(&w[0], data);
        (void)feed_bytes(&w[1], bytes_of(more, data.len + 5));
        assert_int_equal(w[0].out.request_id, w[1].out.request_id);
        assert_int_equal(w[0].out.result->error, w[1].out.result->error);
        assert_int_equal(w[0].out.result->op_count, w[1].out.result->op_count);
        if (w[0].out.result->error != 0) continue;
        assert_int_equal(w[0].out.result->ops[0].row_count, w[1].out.result->ops[0].row_count);
    }
    for (int i = 0; i < 2; i++) {
        world_commit(&w[i]);
    }
    assert_int_equal(w[0].store.count, w[1].store.count);
    for (size_t i = 0; i < w[0].store.count; i++) {
        assert_true(bytes_eq(w[0].store.rows[i].key, w[1].store.rows[i].key));
        assert_true(bytes_eq(w[0].store.rows[i].value, w[1].store.rows[i].value));
    }
    world_close(&w[1]);
    world_close(&w[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_put),
        cmocka_unit_test(test_nobody_waits),
        cmocka_unit_test(test_prev_kv_outlives_commits),
        cmocka_unit_test(test_ignore_value_and_lease),
        cmocka_unit_test(test_delete_range),
        cmocka_unit_test(test_a_large_delete_goes_in_slices),
        cmocka_unit_test(test_compaction),
        cmocka_unit_test(test_lease_grant),
        cmocka_unit_test(test_lease_revoke_deletes_in_byte_order),
        cmocka_unit_test(test_revoke_without_keys_keeps_the_revision),
        cmocka_unit_test(test_checkpoints_persist_from_3_6_on),
        cmocka_unit_test(test_alarms),
        cmocka_unit_test(test_what_nospace_refuses),
        cmocka_unit_test(test_what_corrupt_refuses),
        cmocka_unit_test(test_over_the_quota_takes_effect_all_the_same),
        cmocka_unit_test(test_without_quota_nothing_is_refused),
        cmocka_unit_test(test_cluster_version),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_downgrade_info),
        cmocka_unit_test(test_version_test_does_nothing),
        cmocka_unit_test(test_a_member_is_added_and_removed),
        cmocka_unit_test(test_invalid_changes_are_refused_in_order),
        cmocka_unit_test(test_conf_state_is_written_when_it_changes),
        cmocka_unit_test(test_an_impossible_conf_change_is_fatal),
        cmocka_unit_test(test_fatal_entries),
        cmocka_unit_test(test_reads_of_users_leave_no_trace),
        cmocka_unit_test(test_a_store_with_users_is_refused),
        cmocka_unit_test(test_an_empty_entry),
        cmocka_unit_test(test_pauses_while_the_runs_are_full),
        cmocka_unit_test(test_replay_repeats_only_what_lives_in_memory),
        cmocka_unit_test(test_replay_still_refuses_what_cannot_be),
        cmocka_unit_test(test_a_removed_member_stops_again_on_replay),
        cmocka_unit_test(test_both_ways_to_decode_a_put_agree),
    };
    return cmocka_run_group_tests_name("apply: entries", tests, NULL, NULL);
}
