/* One voter: the exact order of what it hands out, at first boot, in use and after a restart. */
#include "net.h"

static struct net n;

static void begin(void)
{
    net_init(&n, 1, 0, 1);
    n.opts.pre_vote = true;
    n.opts.check_quorum = true;
    n.opts.message_bytes_max = 1 << 20;
    net_start(&n, 0);
}

static void boot(void)
{
    struct raft_entry e = {
        .term = 1, .index = 1, .type = RAFT_ENTRY_CONF_CHANGE, .data = net_value(&n, 77)};
    assert_int_equal(raft_bootstrap(n.peers[0].r, &e, 1), 0);
    rcbuf_unref(e.data);
}

static struct raft_obligation batch[8];
static size_t batch_count;

/* The next obligation; whole batches are taken, as a driver does. */
static struct raft_obligation next(void)
{
    struct raft *r = n.peers[0].r;
    while (batch_count == 0) {
        assert_true(raft_has_work(r));
        while (raft_take(r, &batch[batch_count]) > 0)
            batch_count++;
    }
    struct raft_obligation o = batch[0];
    memmove(&batch[0], &batch[1], --batch_count * sizeof o);
    return o;
}

/* It must be a write, and is done; returns what it asked for. */
static struct raft_persist take_write(void)
{
    struct raft_obligation o = next();
    assert_int_equal(o.kind, RAFT_PERSIST);
    assert_int_equal(raft_persisted(n.peers[0].r, o.u.persist.acks, o.u.persist.ack_count), 0);
    struct raft_persist seen = o.u.persist;
    raft_entries_free(&n.heap.alloc, o.u.persist.entries, o.u.persist.entry_count);
    seen.entries = NULL;
    return seen;
}

static void assert_write(const struct raft_persist *w, size_t entries, raft_term term, raft_id vote,
                         raft_index commit, bool sync)
{
    assert_int_equal(w->entry_count, entries);
    assert_int_equal(w->hard_state.term, term);
    assert_int_equal(w->hard_state.vote, vote);
    assert_int_equal(w->hard_state.commit, commit);
    assert_int_equal(w->must_sync, sync);
}

static raft_index take_span(void)
{
    struct raft_obligation o = next();
    assert_int_equal(o.kind, RAFT_APPLY);
    raft_index last = o.u.apply.entries[o.u.apply.entry_count - 1].index;
    raft_entries_free(&n.heap.alloc, o.u.apply.entries, o.u.apply.entry_count);
    assert_int_equal(raft_applied(n.peers[0].r, last), 0);
    return last;
}

/* walkthroughs.md 1. */
static void first_boot_in_upstreams_order(void **state)
{
    (void)state;
    begin();
    boot();
    struct raft_persist w = take_write();
    assert_write(&w, 1, 1, 0, 1, true); /* entry 1, state (1,0,1) */
    assert_int_equal(take_span(), 1);
    assert_int_equal(raft_campaign(n.peers[0].r), 0);
    w = take_write(); /* the pre-vote for ourselves: nothing to write */
    assert_write(&w, 0, 0, 0, 0, false);
    w = take_write();
    assert_write(&w, 0, 2, 1, 1, true); /* state (2,self,1) */
    w = take_write();
    assert_write(&w, 1, 0, 0, 0, true); /* entry 2: no state */
    w = take_write();
    assert_write(&w, 0, 2, 1, 2, false); /* commit alone: written, not synced */
    assert_int_equal(take_span(), 2);
    assert_int_equal(net_status(&n, 0).state, RAFT_LEADER);
    assert_true(raft_reads_alone(n.peers[0].r));
    net_deinit(&n);
}

/* A conf change clears the flag when it is appended, before it is sent or written. */
static void reads_need_a_round_while_a_conf_change_is_pending(void **state)
{
    (void)state;
    begin();
    net_elect(&n, 0);
    assert_true(raft_reads_alone(n.peers[0].r));
    static const uint8_t add_two[] = {0x10, 0x00, 0x18, 0x02};
    struct raft_entry e = {.type = RAFT_ENTRY_CONF_CHANGE,
                           .data = rcbuf_copy(&n.heap.alloc, bytes_of(add_two, sizeof add_two))};
    assert_int_equal(raft_propose(n.peers[0].r, &e, 1), 0);
    assert_false(raft_reads_alone(n.peers[0].r));
    rcbuf_unref(e.data);
    net_deinit(&n);
}

static void entries_are_applied_only_when_stable(void **state)
{
    (void)state;
    begin();
    net_elect(&n, 0);
    raft_index before = n.peers[0].applied;
    net_propose(&n, 0);
    assert_int_equal(n.peers[0].applied, before);
    net_write_done(&n, 0);
    assert_int_equal(n.peers[0].applied, before + 1);
    net_settle(&n);
    net_deinit(&n);
}

/* Commit is not synced, so an older one may be found; a read before the first own commit would be stale. */
static void a_read_waits_for_the_first_commit_of_the_term(void **state)
{
    (void)state;
    begin();
    net_elect(&n, 0);
    for (int i = 0; i < 5; i++)
        net_propose(&n, 0);
    net_settle(&n);
    n.peers[0].hs.commit = 1;
    raft_index last = n.peers[0].disk_last;
    net_crash(&n, 0);
    net_start(&n, 0);
    net_drain(&n, 0);
    net_campaign(&n, 0);
    while (net_status(&n, 0).state != RAFT_LEADER)
        net_write_done(&n, 0);
    struct rcbuf *context = net_value(&n, 5);
    assert_int_equal(raft_read_index(n.peers[0].r, context), 0);
    rcbuf_unref(context);
    net_drain(&n, 0);
    assert_int_equal(n.peers[0].reads_done, 0);
    net_settle(&n);
    assert_int_equal(n.peers[0].reads_done, 1);
    assert_true(n.peers[0].last_read >= last);
    net_deinit(&n);
}

static void restored_contradictions_are_refused(void **state)
{
    (void)state;
    net_init(&n, 1, 0, 1);
    struct raft_opts o = n.opts;
    o.id = 1;
    o.alloc = &n.heap.alloc;
    struct raft *r = NULL;
    struct errmsg em = {""};
    struct raft_entry gap[2] = {{.term = 1, .index = 1}, {.term = 1, .index = 3}};
    struct raft_restored in = {.entries = gap, .entry_count = 2};
    net_conf(&n, &in.snapshot.conf);
    assert_int_equal(raft_new(&o, &in, &r, &em), E_CORRUPT);
    in.entry_count = 1;
    in.hard_state = (struct raft_hard_state){1, 0, 2};
    assert_int_equal(raft_new(&o, &in, &r, &em), E_CORRUPT);
    assert_non_null(strstr(em.text, "commit index 2"));
    in.hard_state.commit = 1;
    in.applied = 2;
    assert_int_equal(raft_new(&o, &in, &r, &em), E_CORRUPT);
    in.applied = 1;
    in.snapshot.conf.voters[0] = 0;
    assert_int_equal(raft_new(&o, &in, &r, &em), E_CORRUPT);
    test_heap_check_empty(&n.heap);
}

static void the_log_in_memory_is_cut(void **state)
{
    (void)state;
    begin();
    net_elect(&n, 0);
    for (int i = 0; i < 200; i++)
        net_propose(&n, 0);
    net_settle(&n);
    struct raft_status st = net_status(&n, 0);
    raft_compact(n.peers[0].r, st.applied - 10);
    assert_int_equal(net_status(&n, 0).first, st.applied - 9);
    assert_int_equal(raft_term_of(n.peers[0].r, st.applied - 10), st.hard_state.term);
    assert_int_equal(raft_term_of(n.peers[0].r, st.applied - 11), 0);
    assert_null(raft_entries(n.peers[0].r, 1, 3));
    assert_non_null(raft_entries(n.peers[0].r, st.applied - 9, st.applied + 1));
    for (int i = 0; i < 200; i++)
        net_propose(&n, 0);
    net_settle(&n);
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_boot_in_upstreams_order),
        cmocka_unit_test(reads_need_a_round_while_a_conf_change_is_pending),
        cmocka_unit_test(entries_are_applied_only_when_stable),
        cmocka_unit_test(a_read_waits_for_the_first_commit_of_the_term),
        cmocka_unit_test(restored_contradictions_are_refused),
        cmocka_unit_test(the_log_in_memory_is_cut),
    };
    return cmocka_run_group_tests_name("raft sole voter", tests, NULL, NULL);
}
