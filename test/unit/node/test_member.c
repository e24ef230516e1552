/* One whole member: first boot, requests, restarts, power cuts at every step, planted bugs. */
#include "member.h"

static struct member_world w; /* large */

static void up(void)
{
    struct errmsg em = {""};
    int rc = member_up(&w, &em);
    if (rc < 0) fail_msg("start: %s %s", err_symbol(rc), em.text);
}

static void assert_entry(size_t i, raft_term term, raft_index index, enum raft_entry_type type,
                         bool empty)
{
    assert_int_equal(w.recs[i].kind, REC_ENTRY);
    assert_int_equal(w.recs[i].e.term, term);
    assert_int_equal(w.recs[i].e.index, index);
    assert_int_equal(w.recs[i].e.type, type);
    assert_int_equal(rcbuf_bytes(w.recs[i].e.data).len == 0, empty);
}

static void assert_state(size_t i, raft_term term, raft_id vote, raft_index commit)
{
    assert_int_equal(w.recs[i].kind, REC_STATE);
    assert_int_equal(w.recs[i].hs.term, term);
    assert_true(w.recs[i].hs.vote == vote);
    assert_int_equal(w.recs[i].hs.commit, commit);
}

/* walkthroughs.md 1, record by record. */
static void first_boot_writes_what_upstream_writes(void **state)
{
    (void)state;
    member_world_init(&w, 1);
    up();
    member_recover(&w);
    member_settle(&w);
    if (w.rec_count != 8) member_dump_log(&w);
    assert_entry(0, 1, 1, RAFT_ENTRY_CONF_CHANGE, false);
    assert_state(1, 1, 0, 1);
    assert_state(2, 2, MEMBER_ID, 1);
    assert_entry(3, 2, 2, RAFT_ENTRY_NORMAL, true);
    assert_entry(4, 2, 3, RAFT_ENTRY_NORMAL, false);
    assert_state(5, 2, MEMBER_ID, 3);
    assert_entry(6, 2, 4, RAFT_ENTRY_NORMAL, false);
    assert_state(7, 2, MEMBER_ID, 4);
    assert_int_equal(w.rec_count, 8);
    assert_int_equal(membership_count(apply_members(node_apply_core(w.apply))), 1);
    struct bytes version = membership_version(apply_members(node_apply_core(w.apply)));
    assert_true(bytes_eq(version, bytes_str("3.7.0")));
    member_stop(&w);
    member_world_deinit(&w);
}

static void a_put_is_answered_once_and_read_back(void **state)
{
    (void)state;
    member_world_init(&w, 2);
    up();
    member_recover(&w);
    struct member_client *c = member_put(&w, 3);
    member_work(&w);
    assert_int_equal(c->state, CLIENT_WAITS); /* not before its sync */
    member_wal_write(&w);
    member_work(&w);
    assert_int_equal(c->state, CLIENT_WAITS);
    member_settle(&w);
    assert_int_equal(c->state, CLIENT_DONE);
    assert_int_equal(c->error, 0);
    assert_int_equal(c->reply_count, 1);
    assert_int_equal(member_get(&w, 3), c->value);
    struct member_client *r = member_read(&w, 3);
    member_settle(&w);
    assert_int_equal(r->state, CLIENT_DONE);
    assert_int_equal(r->error, 0);
    assert_int_equal(w.violations, 0);
    member_stop(&w);
    member_world_deinit(&w);
}

static void requests_of_one_loop_are_one_write(void **state)
{
    (void)state;
    member_world_init(&w, 3);
    up();
    member_recover(&w);
    for (unsigned i = 0; i < 20; i++)
        (void)member_put(&w, i % MEMBER_KEYS);
    member_raft_outputs(&w);
    size_t with_entries = 0;
    for (size_t i = 0; i < w.persist_count; i++)
        with_entries += w.persists[i].entry_count > 0;
    assert_int_equal(with_entries, 1);
    member_settle(&w);
    assert_int_equal(w.violations, 0);
    assert_int_equal(w.errors, 0);
    member_stop(&w);
    member_world_deinit(&w);
}

static void a_restart_finds_everything(void **state)
{
    (void)state;
    member_world_init(&w, 4);
    for (unsigned round = 0; round < 5; round++) {
        up();
        member_recover(&w);
        member_check_values(&w);
        for (unsigned i = 0; i < 10; i++)
            (void)member_put(&w, i % MEMBER_KEYS);
        member_settle(&w);
        assert_false(member_clients_wait(&w));
        if (round % 2 == 0)
            member_stop(&w);
        else
            member_crash(&w, 0);
    }
    assert_int_equal(w.violations, 0);
    member_world_deinit(&w);
}

/* --- the commit rules ---------------------------------------------------------------------------- */

static void index_and_term_alone_start_no_timer(void **state)
{
    (void)state;
    member_world_init(&w, 5);
    up();
    member_recover(&w);
    for (int i = 0; i < 5; i++) {
        member_tick(&w, MEMBER_TICK_NS);
        member_settle(&w);
    }
    assert_true(node_apply_deadline(w.apply) == INT64_MAX);
    (void)member_put(&w, 0);
    for (int i = 0; i < 3; i++) {
        member_work(&w);
        member_wal_write(&w);
        member_wal_sync(&w);
    }
    member_work(&w);
    assert_false(w.commit_waits); /* never once per WAL sync */
    assert_true(node_apply_deadline(w.apply) == w.now_ns + MEMBER_TICK_NS);
    member_tick(&w, MEMBER_TICK_NS);
    assert_true(w.commit_waits);
    member_settle(&w);
    assert_int_equal(node_apply_durable(w.apply), atomic_load(&w.status.applied));
    member_stop(&w);
    member_world_deinit(&w);
}

static void flush_commits_now(void **state)
{
    (void)state;
    member_world_init(&w, 6);
    up();
    member_recover(&w);
    (void)member_put(&w, 0);
    member_settle(&w);
    node_apply_flush(w.apply);
    member_settle(&w);
    assert_int_equal(node_apply_durable(w.apply), atomic_load(&w.status.applied));
    member_stop(&w);
    member_world_deinit(&w);
}

static void full_runs_pause_entries_and_nothing_else(void **state)
{
    (void)state;
    member_world_init(&w, 7);
    w.run_bytes_max = 256;
    up();
    member_recover(&w);
    struct member_client *last = NULL;
    for (unsigned i = 0; i < 40; i++)
        last = member_put(&w, i % MEMBER_KEYS);
    for (int i = 0; i < 10; i++) { /* the backend is stuck */
        member_work(&w);
        member_wal_write(&w);
        member_wal_sync(&w);
    }
    assert_int_equal(last->state, CLIENT_WAITS);
    assert_true(w.commit_waits);
    struct member_client *r = member_read(&w, 0);
    member_tick(&w, MEMBER_TICK_NS);
    assert_int_equal(r->state, CLIENT_WAITS); /* its index is not applied */
    for (int i = 0; i < 20; i++)
        member_settle(&w);
    assert_int_equal(last->state, CLIENT_DONE);
    assert_int_equal(r->state, CLIENT_DONE);
    assert_int_equal(w.violations, 0);
    member_stop(&w);
    member_world_deinit(&w);
}

static void a_physical_compaction_answers_when_it_has_run(void **state)
{
    (void)state;
    member_world_init(&w, 8);
    up();
    member_recover(&w);
    for (unsigned i = 0; i < 30; i++)
        (void)member_put(&w, 0);
    member_settle(&w);
    struct member_client *c = member_compaction(&w, mvcc_revision(w.mvcc));
    for (int i = 0; i < 3; i++) {
        member_work(&w);
        member_wal_write(&w);
        member_wal_sync(&w);
    }
    member_work(&w);
    assert_int_equal(c->state, CLIENT_WAITS);
    assert_true(w.commit_waits); /* the mark is committed first */
    for (int i = 0; i < 20; i++)
        member_settle(&w);
    assert_int_equal(c->state, CLIENT_DONE);
    assert_int_equal(c->error, 0);
    assert_int_equal(fake_backend_count(&w.store, TABLE_KEY), 1);
    member_stop(&w);
    member_world_deinit(&w);
}

/* --- snapshots ----------------------------------------------------------------------------------- */

static void snapshots_come_by_count_and_after_the_store(void **state)
{
    (void)state;
    member_world_init(&w, 9);
    w.snapshot_count = 20;
    w.catchup_entries = 5;
    up();
    member_recover(&w);
    for (unsigned i = 0; i < 200; i++) {
        (void)member_put(&w, i % MEMBER_KEYS);
        member_settle(&w);
        if (w.snapshot_waits) assert_true(node_apply_durable(w.apply) >= w.snapshot_index);
    }
    size_t snapshots = 0;
    for (size_t i = 0; i < w.rec_count; i++)
        snapshots += w.recs[i].kind == REC_SNAPSHOT;
    assert_true(snapshots >= 5);
    struct raft_status st;
    raft_status(node_raft_core(w.raft), &st);
    assert_true(st.first > 90); /* the log in memory was cut */
    member_crash(&w, 0);
    up();
    member_recover(&w);
    member_check_values(&w);
    assert_int_equal(w.violations, 0);
    member_stop(&w);
    member_world_deinit(&w);
}

/* The store also writes rows that are no COMMIT of ours. */
static void no_space_raises_an_alarm_with_no_commit_open(void **state)
{
    (void)state;
    member_world_init(&w, 21);
    up();
    member_recover(&w);
    member_settle(&w);
    assert_false(alarm_has(apply_alarms(node_apply_core(w.apply)), ALARM_NOSPACE));
    node_apply_no_space(w.apply);
    member_settle(&w);
    member_tick(&w, 100000000);
    member_settle(&w);
    assert_true(alarm_has(apply_alarms(node_apply_core(w.apply)), ALARM_NOSPACE));
    assert_int_equal(w.violations, 0);
    member_stop(&w);
    member_world_deinit(&w);
}

static void a_log_shorter_than_the_store_is_refused(void **state)
{
    (void)state;
    member_world_init(&w, 10);
    up();
    member_recover(&w);
    for (unsigned i = 0; i < 10; i++)
        (void)member_put(&w, 0);
    member_settle(&w);
    member_stop(&w);
    recs_cut(&w, w.rec_count - 8);
    w.rec_synced = w.rec_count;
    struct errmsg em = {""};
    assert_int_equal(member_up(&w, &em), E_CORRUPT);
    assert_non_null(strstr(em.text, "ends at index"));
    assert_non_null(strstr(em.text, "has applied index"));
    member_down(&w);
    member_world_deinit(&w);
}

/* --- waiting and errors -------------------------------------------------------------------------- */

static void without_progress_requests_end_after_t(void **state)
{
    (void)state;
    member_world_init(&w, 11);
    up();
    member_recover(&w);
    member_tick(&w, 25 * MEMBER_TICK_NS);        /* the election is long ago */
    struct member_client *c = member_put(&w, 0); /* the disk hangs */
    for (int i = 0; i < 69; i++)
        member_tick(&w, MEMBER_TICK_NS);
    assert_int_equal(c->state, CLIENT_WAITS);
    for (int i = 0; i < 3; i++)
        member_tick(&w, MEMBER_TICK_NS); /* T = 5 s + 2 E = 7 s */
    assert_int_equal(c->state, CLIENT_DONE);
    assert_int_equal(c->error, E_TIMEOUT);
    w.acked[0] = 0;
    member_settle(&w);
    member_stop(&w);
    member_world_deinit(&w);
}

static void without_leader_requests_end_with_deadline_exceeded(void **state)
{
    (void)state;
    member_world_init(&w, 12);
    up();
    member_raft_outputs(&w); /* nothing is ever written: no election */
    struct member_client *c = member_put(&w, 0);
    for (int i = 0; i < 72; i++)
        member_tick(&w, MEMBER_TICK_NS);
    assert_int_equal(c->state, CLIENT_DONE);
    assert_int_equal(c->error, E_DEADLINE_EXCEEDED);
    member_world_deinit(&w);
}

static void cancels_end_each_kind_of_wait(void **state)
{
    (void)state;
    member_world_init(&w, 13);
    up();
    member_raft_outputs(&w);
    struct member_client *queued = member_put(&w, 0);
    struct member_client *read = member_read(&w, 0);
    assert_int_equal(node_raft_cancel(w.raft, queued->waiter.request_id, E_CANCELED), 0);
    assert_int_equal(node_raft_cancel(w.raft, read->waiter.request_id, E_CANCELED), 0);
    member_work(&w);
    assert_int_equal(queued->error, E_CANCELED);
    assert_int_equal(read->error, E_CANCELED);
    member_recover(&w);
    struct member_client *proposed = member_put(&w, 0);
    member_work(&w);
    assert_int_equal(node_raft_cancel(w.raft, proposed->waiter.request_id, E_CANCELED), 0);
    assert_int_equal(node_raft_cancel(w.raft, 999, E_CANCELED), 0); /* nobody's */
    member_work(&w);
    assert_int_equal(proposed->state, CLIENT_DONE);
    assert_int_equal(proposed->error, E_CANCELED);
    member_settle(&w); /* its entry is applied all the same */
    assert_int_equal(member_get(&w, 0), proposed->value);
    member_stop(&w);
    member_world_deinit(&w);
}

static void a_stop_answers_everybody(void **state)
{
    (void)state;
    member_world_init(&w, 14);
    up();
    member_recover(&w);
    struct member_client *c = member_put(&w, 0);
    struct member_client *r = member_read(&w, 0);
    member_raft_outputs(&w);
    member_stop(&w);
    assert_int_equal(c->state, CLIENT_DONE);
    assert_int_equal(r->state, CLIENT_DONE);
    member_world_deinit(&w);
}

static void a_backlog_over_5000_is_refused(void **state)
{
    (void)state;
    member_world_init(&w, 15);
    up();
    member_recover(&w);
    /* Committed but not applied: the apply half is not run. */
    for (unsigned i = 0; i < 5100; i++) {
        struct member_client *c = client_free(&w);
        struct rcbuf *b = rcbuf_copy(&w.heap.alloc, bytes_str("x"));
        struct node_request req = {.data = b, .waiter = &c->waiter};
        int rc = node_raft_propose(w.raft, &req);
        rcbuf_unref(b);
        if (rc == E_TOO_MANY_REQUESTS) break;
        assert_int_equal(rc, 0);
        struct node_raft_output o;
        while (node_raft_take(w.raft, &o) > 0) {
            if (o.kind == NODE_RAFT_PERSIST) {
                uint64_t seq = o.u.persist.seq;
                node_persist_deinit(&o.u.persist, &w.heap.alloc);
                assert_int_equal(node_raft_persisted(w.raft, seq), 0);
            } else if (o.kind == NODE_RAFT_NOTE) {
                node_to_apply_deinit(&o.u.note, &w.heap.alloc);
            }
        }
        c->state = CLIENT_DONE;
    }
    struct raft_status st;
    raft_status(node_raft_core(w.raft), &st);
    assert_int_equal(st.hard_state.commit - st.applied, 5001);
    member_crash(&w, 0);
    member_world_deinit(&w);
}

/* --- power cuts ---------------------------------------------------------------------------------- */

/* One of the steps of a run with puts, reads, a compaction and snapshots. */
static void scripted_step(unsigned s)
{
    if (s % 9 == 0) (void)member_put(&w, (s / 9) % MEMBER_KEYS);
    if (s % 31 == 5) (void)member_read(&w, (s / 31) % MEMBER_KEYS);
    if (s % 150 == 100) (void)member_compaction(&w, mvcc_revision(w.mvcc) / 2 + 1);
    switch (s % 7) {
    case 0: member_raft_outputs(&w); break;
    case 1: member_apply_outputs(&w); break;
    case 2: member_wal_write(&w); break;
    case 3: member_wal_sync(&w); break;
    case 4: member_commit(&w); break;
    case 5: member_compact(&w); break;
    default: member_snapshot(&w); break;
    }
    if (s % 13 == 0) member_tick(&w, MEMBER_TICK_NS);
}

static void crash_at(unsigned step, size_t keep)
{
    member_world_init(&w, 100 + step);
    w.snapshot_count = 7;
    w.catchup_entries = 3;
    up();
    for (unsigned s = 0; s < step; s++)
        scripted_step(s);
    member_crash(&w, keep);
    up();
    member_recover(&w);
    member_check_values(&w);
    if (w.violations > 0) fail_msg("crash at step %u, %zu kept", step, keep);
    member_world_deinit(&w);
}

static void nothing_is_lost_wherever_the_power_goes(void **state)
{
    (void)state;
    for (unsigned step = 0; step < 300; step++) {
        crash_at(step, 0);
        crash_at(step, 1);
        crash_at(step, SIZE_MAX);
    }
}

/* --- planted bugs -------------------------------------------------------------------------------- */

static void a_reply_before_its_sync_is_found(void **state)
{
    (void)state;
    member_world_init(&w, 16);
    w.plant_reply_before_sync = true;
    up();
    for (unsigned s = 0; s < 300; s++)
        scripted_step(s);
    assert_true(w.violations > 0);
    member_world_deinit(&w);
}

static void a_store_ahead_of_the_log_is_found(void **state)
{
    (void)state;
    member_world_init(&w, 17);
    w.plant_store_ahead = true;
    up();
    for (unsigned s = 0; s < 300; s++)
        scripted_step(s);
    assert_true(w.violations > 0);
    member_world_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_boot_writes_what_upstream_writes),
        cmocka_unit_test(a_put_is_answered_once_and_read_back),
        cmocka_unit_test(requests_of_one_loop_are_one_write),
        cmocka_unit_test(a_restart_finds_everything),
        cmocka_unit_test(index_and_term_alone_start_no_timer),
        cmocka_unit_test(flush_commits_now),
        cmocka_unit_test(full_runs_pause_entries_and_nothing_else),
        cmocka_unit_test(a_physical_compaction_answers_when_it_has_run),
        cmocka_unit_test(snapshots_come_by_count_and_after_the_store),
        cmocka_unit_test(no_space_raises_an_alarm_with_no_commit_open),
        cmocka_unit_test(a_log_shorter_than_the_store_is_refused),
        cmocka_unit_test(without_progress_requests_end_after_t),
        cmocka_unit_test(without_leader_requests_end_with_deadline_exceeded),
        cmocka_unit_test(cancels_end_each_kind_of_wait),
        cmocka_unit_test(a_stop_answers_everybody),
        cmocka_unit_test(a_backlog_over_5000_is_refused),
        cmocka_unit_test(nothing_is_lost_wherever_the_power_goes),
        cmocka_unit_test(a_reply_before_its_sync_is_found),
        cmocka_unit_test(a_store_ahead_of_the_log_is_found),
    };
    return cmocka_run_group_tests_name("node member", tests, NULL, NULL);
}
