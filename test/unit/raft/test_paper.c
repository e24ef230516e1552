/* Sentences of the paper and the thesis, one test each. */
#include "net.h"

static struct net n;

static void begin(size_t voters)
{
    net_init(&n, voters, 0, 42);
    n.opts.message_bytes_max = 1 << 20;
    n.opts.inflight_count_max = 64;
    net_start_all(&n);
}

static void step(size_t i, struct raft_message m)
{
    m.to = i + 1;
    (void)raft_step(n.peers[i].r, &m);
    net_drain(&n, i);
}

/* The newest message from `from` in flight; taken out. */
static struct raft_message sent(size_t from, enum raft_message_type type)
{
    for (size_t k = n.queued; k > 0; k--) {
        struct raft_message m = n.queue[k - 1];
        if (m.from != from + 1 || m.type != type) continue;
        n.queued--;
        memmove(&n.queue[k - 1], &n.queue[k], (n.queued - (k - 1)) * sizeof m);
        return m;
    }
    fail_msg("no %s from %zu", raft_message_name(type), from + 1);
    return (struct raft_message){0};
}

static void drop_all(void)
{
    while (n.queued > 0)
        raft_message_deinit(&n.queue[--n.queued], &n.heap.alloc);
}

/* "If a follower receives no communication over a period of time called the election timeout, then it assumes
 * there is no viable leader and begins an election." */
static void a_silent_follower_starts_an_election(void **state)
{
    (void)state;
    begin(3);
    for (int i = 0; i < 20; i++)
        net_tick(&n, 0);
    assert_int_equal(net_status(&n, 0).state, RAFT_CANDIDATE);
    assert_true(net_status(&n, 0).hard_state.term >= 1);
    net_deinit(&n);
}

/* "Each server will vote for at most one candidate in a given term, on a first-come-first-served basis" - and it
 * remembers over a restart. */
static void a_vote_is_given_once_even_across_a_crash(void **state)
{
    (void)state;
    begin(3);
    step(0, (struct raft_message){.type = RAFT_MSG_VOTE, .from = 2, .term = 5});
    assert_int_equal(n.queued, 0); /* not before it is on disk */
    net_write_done(&n, 0);
    struct raft_message m = sent(0, RAFT_MSG_VOTE_RESP);
    assert_false(m.reject);
    net_crash(&n, 0);
    net_start(&n, 0);
    step(0, (struct raft_message){.type = RAFT_MSG_VOTE, .from = 3, .term = 5});
    net_write_done(&n, 0);
    m = sent(0, RAFT_MSG_VOTE_RESP);
    assert_true(m.reject);
    net_deinit(&n);
}

/* "the voter denies its vote if its own log is more up-to-date than that of the candidate." */
static void a_shorter_log_gets_no_vote(void **state)
{
    (void)state;
    begin(3);
    net_elect(&n, 0);
    net_propose(&n, 0);
    net_settle(&n);
    raft_term term = net_status(&n, 1).hard_state.term;
    raft_index last = net_status(&n, 1).last;
    step(1, (struct raft_message){.type = RAFT_MSG_VOTE,
                                  .from = 3,
                                  .term = term + 1,
                                  .index = last - 1,
                                  .log_term = term});
    net_write_done(&n, 1);
    struct raft_message m = sent(1, RAFT_MSG_VOTE_RESP);
    assert_true(m.reject);
    net_deinit(&n);
}

/* "If a candidate or leader discovers that its term is out of date, it immediately reverts to follower state." */
static void a_higher_term_makes_a_follower(void **state)
{
    (void)state;
    begin(3);
    net_elect(&n, 0);
    raft_term term = net_status(&n, 0).hard_state.term;
    step(0, (struct raft_message){.type = RAFT_MSG_HEARTBEAT, .from = 2, .term = term + 3});
    assert_int_equal(net_status(&n, 0).state, RAFT_FOLLOWER);
    assert_int_equal(net_status(&n, 0).hard_state.term, term + 3);
    net_deinit(&n);
}

/* Figure 8: an entry of an old term is not committed by counting, only through one of the own term. */
static void old_terms_are_committed_indirectly_only(void **state)
{
    (void)state;
    begin(3);
    net_elect(&n, 0);
    net_isolate(&n, 0, true);
    net_propose(&n, 0); /* an entry that only member 1 has */
    net_settle(&n);
    raft_index index = net_status(&n, 0).last;
    net_crash(&n, 0);
    memset(n.cut, 0, sizeof n.cut);
    net_start(&n, 0);
    net_campaign(&n, 0);
    while (net_status(&n, 0).state != RAFT_LEADER) {
        for (size_t i = 0; i < 3; i++)
            net_write_done(&n, i);
        if (n.queued > 0) net_deliver(&n, 0);
    }
    drop_all();
    raft_term term = net_status(&n, 0).hard_state.term;
    for (size_t i = 0; i < 3; i++)
        net_write_done(&n, i);
    /* A majority acknowledges the old entry, but not the new term's. */
    struct raft_message ack = {
        .type = RAFT_MSG_APP_RESP, .from = 2, .to = 1, .term = term, .index = index};
    assert_int_equal(raft_step(n.peers[0].r, &ack), 0);
    assert_true(net_status(&n, 0).hard_state.commit < index);
    ack.index = index + 1;
    assert_int_equal(raft_step(n.peers[0].r, &ack), 0);
    assert_int_equal(net_status(&n, 0).hard_state.commit, index + 1);
    net_deinit(&n);
}

/* "If an existing entry conflicts with a new one (same index but different terms), delete the existing entry and
 * all that follow it", and a late answer of the disk about the deleted ones means nothing. */
static void a_late_answer_of_an_overwritten_write_is_harmless(void **state)
{
    (void)state;
    begin(3);
    struct raft_entry old[2] = {{.term = 1, .index = 1, .data = net_value(&n, 1)},
                                {.term = 1, .index = 2, .data = net_value(&n, 2)}};
    struct raft_entry new[1] = {{.term = 2, .index = 1, .data = net_value(&n, 3)}};
    step(0, (struct raft_message){
                .type = RAFT_MSG_APP, .from = 2, .term = 1, .entries = old, .entry_count = 2});
    assert_int_equal(n.peers[0].write_count, 1); /* handed out, not done */
    step(0, (struct raft_message){.type = RAFT_MSG_APP,
                                  .from = 3,
                                  .term = 2,
                                  .entries = new,
                                  .entry_count = 1,
                                  .commit = 1});
    assert_int_equal(net_status(&n, 0).last, 1);
    net_write_done(&n, 0); /* the first write: of entries that are no more */
    assert_int_equal(net_status(&n, 0).stable, 0);
    assert_int_equal(n.peers[0].applied, 0);
    n.applied_max = 1; /* elsewhere it is applied */
    n.applied[1] = (struct net_id){2, 3};
    net_write_done(&n, 0);
    assert_int_equal(net_status(&n, 0).stable, 1);
    assert_int_equal(n.peers[0].applied, 1);
    drop_all();
    rcbuf_unref(old[0].data);
    rcbuf_unref(old[1].data);
    rcbuf_unref(new[0].data);
    net_deinit(&n);
}

/* The same entries again (A, B, A): the first answer must not count for the third write. */
static void an_aba_answer_is_not_believed(void **state)
{
    (void)state;
    begin(3);
    struct raft_entry a = {.term = 1, .index = 1, .data = net_value(&n, 1)};
    struct raft_entry b = {.term = 2, .index = 1, .data = net_value(&n, 2)};
    step(0, (struct raft_message){
                .type = RAFT_MSG_APP, .from = 2, .term = 1, .entries = &a, .entry_count = 1});
    step(0, (struct raft_message){
                .type = RAFT_MSG_APP, .from = 3, .term = 2, .entries = &b, .entry_count = 1});
    step(0, (struct raft_message){
                .type = RAFT_MSG_APP, .from = 2, .term = 3, .entries = &a, .entry_count = 1});
    assert_int_equal(n.peers[0].write_count, 3);
    net_write_done(&n, 0);
    assert_int_equal(net_status(&n, 0).stable, 0); /* B may still overwrite it on disk */
    net_write_done(&n, 0);
    assert_int_equal(net_status(&n, 0).stable, 0);
    net_write_done(&n, 0);
    assert_int_equal(net_status(&n, 0).stable, 1);
    drop_all();
    rcbuf_unref(a.data);
    rcbuf_unref(b.data);
    net_deinit(&n);
}

/* Thesis 6.2: "a leader steps down if an election timeout elapses without a successful round of heartbeats to a
 * majority". */
static void a_leader_without_quorum_steps_down(void **state)
{
    (void)state;
    net_init(&n, 3, 0, 1);
    n.opts.check_quorum = true;
    net_start_all(&n);
    net_elect(&n, 0);
    net_isolate(&n, 0, true);
    for (int i = 0; i < 20; i++)
        net_tick(&n, 0);
    assert_int_equal(net_status(&n, 0).state, RAFT_FOLLOWER);
    net_deinit(&n);
}

/* Thesis 9.6: a member that returns from a partition does not disturb, and its term has not grown. */
static void pre_vote_keeps_terms_still(void **state)
{
    (void)state;
    net_init(&n, 3, 0, 1);
    n.opts.check_quorum = true;
    n.opts.pre_vote = true;
    net_start_all(&n);
    net_elect(&n, 0);
    raft_term term = net_status(&n, 0).hard_state.term;
    net_isolate(&n, 2, true);
    for (int i = 0; i < 200; i++) {
        for (size_t k = 0; k < 3; k++)
            net_tick(&n, k);
        net_settle(&n);
    }
    net_isolate(&n, 2, false);
    for (int i = 0; i < 50; i++) {
        for (size_t k = 0; k < 3; k++)
            net_tick(&n, k);
        net_settle(&n);
    }
    assert_int_equal(net_status(&n, 0).state, RAFT_LEADER);
    assert_int_equal(net_status(&n, 2).hard_state.term, term);
    assert_int_equal(net_status(&n, 2).lead, 1);
    net_deinit(&n);
}

/* Thesis 3.10. */
static void leadership_is_handed_over(void **state)
{
    (void)state;
    begin(3);
    net_elect(&n, 0);
    net_propose(&n, 0);
    net_settle(&n);
    assert_int_equal(raft_transfer_leader(n.peers[0].r, 2), 0);
    struct raft_entry e = {0};
    assert_int_equal(raft_propose(n.peers[0].r, &e, 1), E_AGAIN);
    net_drain(&n, 0);
    net_settle(&n);
    assert_int_equal(net_status(&n, 1).state, RAFT_LEADER);
    assert_int_equal(net_status(&n, 0).lead, 2);
    net_deinit(&n);
}

/* Thesis 6.4: a read is answered only after a quorum has answered heartbeats sent after it. */
static void a_read_needs_a_quorum_of_echoes(void **state)
{
    (void)state;
    begin(3);
    net_elect(&n, 0);
    struct rcbuf *context = net_value(&n, 9);
    net_isolate(&n, 0, true);
    assert_int_equal(raft_read_index(n.peers[0].r, context), 0);
    net_drain(&n, 0);
    net_settle(&n);
    assert_int_equal(n.peers[0].reads_done, 0);
    net_isolate(&n, 0, false);
    net_tick(&n, 0);
    net_settle(&n);
    assert_int_equal(n.peers[0].reads_done, 1);
    assert_int_equal(raft_read_index(n.peers[1].r, context), 0); /* a follower asks the leader */
    net_drain(&n, 1);
    net_settle(&n);
    assert_int_equal(n.peers[1].reads_done, 1);
    rcbuf_unref(context);
    net_deinit(&n);
}

/* Paper 7: who is too far behind gets a snapshot. */
static void a_lagging_member_is_sent_a_snapshot(void **state)
{
    (void)state;
    begin(3);
    net_elect(&n, 0);
    net_isolate(&n, 2, true);
    for (int i = 0; i < 30; i++)
        net_propose(&n, 0);
    net_settle(&n);
    struct raft_conf_state cs;
    net_conf(&n, &cs);
    raft_index applied = net_status(&n, 0).applied;
    assert_int_equal(raft_set_snapshot(n.peers[0].r, applied, &cs, NULL), 0);
    raft_compact(n.peers[0].r, applied);
    net_isolate(&n, 2, false);
    net_tick(&n, 0);
    for (int i = 0; i < 200 && net_status(&n, 0).state == RAFT_LEADER; i++) {
        for (size_t k = 0; k < n.queued; k++)
            if (n.queue[k].type == RAFT_MSG_SNAP) goto found;
        if (n.queued > 0) net_deliver(&n, 0);
        for (size_t k = 0; k < 3; k++)
            net_write_done(&n, k);
        if (n.queued == 0) net_tick(&n, 0);
    }
    fail_msg("no snapshot was sent");
found:;
    struct raft_message m = sent(0, RAFT_MSG_SNAP);
    assert_int_equal(m.snapshot->meta.index, applied);
    assert_int_equal(raft_step(n.peers[2].r, &m), 0);
    struct raft_obligation o;
    bool given = false;
    while (raft_has_work(n.peers[2].r)) {
        while (raft_take(n.peers[2].r, &o) > 0) {
            if (o.kind == RAFT_PERSIST) {
                given |= o.u.persist.snapshot != NULL;
                assert_int_equal(
                    raft_persisted(n.peers[2].r, o.u.persist.acks, o.u.persist.ack_count), 0);
                o.u.persist.acks = NULL;
                o.u.persist.ack_count = 0;
            }
            raft_obligation_deinit(&o, &n.heap.alloc);
        }
    }
    assert_true(given);
    assert_int_equal(net_status(&n, 2).applied, applied);
    assert_int_equal(net_status(&n, 2).first, applied + 1);
    /* One of its own that it was making meanwhile comes too late. */
    assert_int_equal(raft_set_snapshot(n.peers[2].r, applied - 1, &cs, NULL), E_NOTFOUND);
    raft_message_deinit(&m, &n.heap.alloc);
    drop_all();
    net_deinit(&n);
}

/* What a peer may send wrongly is ignored. */
static void nonsense_is_refused(void **state)
{
    (void)state;
    begin(3);
    net_elect(&n, 0);
    raft_term term = net_status(&n, 0).hard_state.term;
    struct raft_entry gap[2] = {{.term = term, .index = 5}, {.term = term, .index = 7}};
    const struct raft_message bad[] = {
        {.type = RAFT_MSG_HUP, .from = 2},
        {.type = RAFT_MSG_BEAT, .from = 2},
        {.type = RAFT_MSG_STORAGE_APPEND_RESP, .from = 2, .term = term, .index = 9},
        {.type = RAFT_MSG_APP,
         .from = 2,
         .term = term + 1,
         .index = 4,
         .log_term = term,
         .entries = gap,
         .entry_count = 2},
        {.type = RAFT_MSG_APP, .from = 2},
        {.type = RAFT_MSG_HEARTBEAT, .from = 2, .term = term}, /* two leaders of one term */
        {.type = RAFT_MSG_SNAP, .from = 2, .term = term + 1},
        {.type = RAFT_MSG_PROP, .from = 2},
        {.type = RAFT_MSG_VOTE, .from = 0, .term = term + 1},
        {.type = (enum raft_message_type)99, .from = 2, .term = term},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct raft_message m = bad[i];
        m.to = 1;
        assert_int_equal(raft_step(n.peers[0].r, &m), E_INVAL);
    }
    struct raft_message stranger = {.type = RAFT_MSG_APP_RESP, .from = 9, .to = 1, .term = term};
    assert_int_equal(raft_step(n.peers[0].r, &stranger), E_NOTFOUND);
    struct rcbuf *context = rcbuf_new(&n.heap.alloc, 1);
    struct raft_entry e = {.data = context};
    struct raft_message read = stranger;
    read.type = RAFT_MSG_READ_INDEX_RESP;
    read.entries = &e;
    read.entry_count = 1;
    assert_int_equal(raft_step(n.peers[0].r, &read), E_NOTFOUND);
    rcbuf_unref(context);
    assert_int_equal(net_status(&n, 0).state, RAFT_LEADER);
    net_deinit(&n);
}

/* A follower forwards to whom it thinks leads, which may by then be the one who asked. */
static void what_comes_back_to_its_sender_is_taken(void **state)
{
    (void)state;
    begin(3);
    net_elect(&n, 0);
    net_settle(&n);
    struct raft_entry e = {.type = RAFT_ENTRY_NORMAL};
    struct raft_message prop = {
        .type = RAFT_MSG_PROP, .from = 1, .to = 1, .entries = &e, .entry_count = 1};
    raft_index last = net_status(&n, 0).last;
    assert_int_equal(raft_step(n.peers[0].r, &prop), 0);
    assert_int_equal(net_status(&n, 0).last, last + 1);
    struct raft_message transfer = {.type = RAFT_MSG_TRANSFER_LEADER,
                                    .from = 1,
                                    .to = 1,
                                    .term = net_status(&n, 0).hard_state.term};
    assert_int_equal(raft_step(n.peers[0].r, &transfer), 0);
    assert_int_equal(net_status(&n, 0).transferee, 0);
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_follower_starts_an_election),
        cmocka_unit_test(a_vote_is_given_once_even_across_a_crash),
        cmocka_unit_test(a_shorter_log_gets_no_vote),
        cmocka_unit_test(a_higher_term_makes_a_follower),
        cmocka_unit_test(old_terms_are_committed_indirectly_only),
        cmocka_unit_test(a_late_answer_of_an_overwritten_write_is_harmless),
        cmocka_unit_test(an_aba_answer_is_not_believed),
        cmocka_unit_test(a_leader_without_quorum_steps_down),
        cmocka_unit_test(pre_vote_keeps_terms_still),
        cmocka_unit_test(leadership_is_handed_over),
        cmocka_unit_test(a_read_needs_a_quorum_of_echoes),
        cmocka_unit_test(a_lagging_member_is_sent_a_snapshot),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(what_comes_back_to_its_sender_is_taken),
    };
    return cmocka_run_group_tests_name("raft paper", tests, NULL, NULL);
}
