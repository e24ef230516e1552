/* The n-th allocation fails, for every n: inputs either did nothing or everything, and nothing leaks. */
#include "net.h"

/* Tries until it works: only one allocation fails, so a few times are enough. */
#define INSIST(call)                                                                               \
    for (int tries_ = 0; (call) < 0; tries_++) {                                                   \
        if (tries_ > 5) fail_msg("never succeeds: %s", #call);                                     \
    }

static int drain(struct raft *r, const struct alloc *alloc, raft_index *applied)
{
    struct raft_obligation o;
    while (raft_has_work(r)) {
        int rc;
        while ((rc = raft_take(r, &o)) > 0) {
            if (o.kind == RAFT_PERSIST) {
                /* A driver keeps the acknowledgements until raft takes them. */
                INSIST(raft_persisted(r, o.u.persist.acks, o.u.persist.ack_count))
                o.u.persist.acks = NULL;
                o.u.persist.ack_count = 0;
            }
            if (o.kind == RAFT_APPLY) {
                *applied = o.u.apply.entries[o.u.apply.entry_count - 1].index;
                INSIST(raft_applied(r, *applied))
            }
            raft_obligation_deinit(&o, alloc);
        }
        if (rc < 0) return rc;
    }
    return 0;
}

static void sole_voter(struct test_heap *heap, void *arg)
{
    (void)arg;
    const struct raft_opts o = {.id = 1,
                                .election_tick = 10,
                                .heartbeat_tick = 1,
                                .pre_vote = true,
                                .inflight_count_max = 4,
                                .alloc = &heap->alloc};
    struct raft_restored in = {.snapshot.conf = {.voters = {1}, .voter_count = 1}};
    struct raft *r = NULL;
    struct errmsg em = {""};
    raft_index applied = 0;
    if (raft_new(&o, &in, &r, &em) < 0) return;
    INSIST(raft_campaign(r))
    INSIST(drain(r, &heap->alloc, &applied))
    struct rcbuf *data = NULL;
    while ((data = rcbuf_new(&heap->alloc, 8)) == NULL) {}
    struct raft_entry e = {.data = data};
    for (int i = 0; i < 10; i++) {
        INSIST(raft_propose(r, &e, 1))
        INSIST(drain(r, &heap->alloc, &applied))
    }
    INSIST(raft_read_index(r, data))
    INSIST(drain(r, &heap->alloc, &applied))
    rcbuf_unref(data);
    assert_int_equal(applied, 11);
    raft_free(r);
}

static void a_sole_voter_survives_every_failure(void **state)
{
    (void)state;
    assert_true(test_heap_every_failure(sole_voter, NULL) > 20);
}

/* A leader of three: messages for which there is no memory are as good as lost. */
static void leader(struct test_heap *heap, void *arg)
{
    (void)arg;
    const struct raft_opts o = {.id = 1,
                                .election_tick = 10,
                                .heartbeat_tick = 1,
                                .check_quorum = true,
                                .inflight_count_max = 4,
                                .message_bytes_max = 100,
                                .alloc = &heap->alloc};
    struct raft_restored in = {.snapshot.conf = {.voters = {1, 2, 3}, .voter_count = 3}};
    struct raft *r = NULL;
    struct errmsg em = {""};
    raft_index applied = 0;
    if (raft_new(&o, &in, &r, &em) < 0) return;
    INSIST(raft_campaign(r))
    INSIST(drain(r, &heap->alloc, &applied))
    const struct raft_message vote = {.type = RAFT_MSG_VOTE_RESP, .from = 2, .to = 1, .term = 1};
    INSIST(raft_step(r, &vote))
    struct raft_entry e = {0};
    for (int i = 0; i < 5; i++) {
        INSIST(raft_propose(r, &e, 1))
        INSIST(raft_tick(r))
        INSIST(drain(r, &heap->alloc, &applied))
    }
    struct raft_message ack = {
        .type = RAFT_MSG_APP_RESP, .from = 3, .to = 1, .term = 1, .index = 6};
    INSIST(raft_step(r, &ack))
    INSIST(drain(r, &heap->alloc, &applied))
    assert_int_equal(applied, 6);
    raft_free(r);
}

static void a_leader_survives_every_failure(void **state)
{
    (void)state;
    assert_true(test_heap_every_failure(leader, NULL) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sole_voter_survives_every_failure),
        cmocka_unit_test(a_leader_survives_every_failure),
    };
    return cmocka_run_group_tests_name("raft memory", tests, NULL, NULL);
}
