/* Seeded runs of whole clusters under loss, reordering, repetition, partitions and crashes. */
#include <stdlib.h>

#include "net.h"

static void random_fault(struct net *n)
{
    size_t i = (size_t)prng_below(&n->prng, n->count);
    switch (prng_below(&n->prng, 6)) {
    case 0:
        if (n->peers[i].r != NULL) net_crash(n, i);
        break;
    case 1: net_isolate(n, i, true); break;
    case 2: n->cut[i][prng_below(&n->prng, n->count)] = true; break;
    case 3: memset(n->cut, 0, sizeof n->cut); break;
    default:
        if (n->peers[i].r == NULL) {
            net_start(n, i);
            net_drain(n, i);
        }
        break;
    }
}

static void random_message(struct net *n)
{
    if (n->queued == 0) return;
    size_t k = prng_below(&n->prng, 4) == 0 ? (size_t)prng_below(&n->prng, n->queued) : 0;
    struct raft_message *m = &n->queue[k];
    switch (prng_below(&n->prng, 12)) {
    case 0: /* lost */
        raft_message_deinit(m, &n->heap.alloc);
        n->queued--;
        memmove(m, m + 1, (n->queued - k) * sizeof *m);
        return;
    case 1: { /* repeated */
        struct raft_message copy = *m;
        if (m->snapshot != NULL || n->queued == NET_QUEUE_MAX) break;
        assert_int_equal(
            raft_entries_copy(&n->heap.alloc, m->entries, m->entry_count, &copy.entries), 0);
        n->queue[n->queued++] = copy;
        break;
    }
    default: break;
    }
    net_deliver(n, k);
}

static void random_step(struct net *n)
{
    size_t i = (size_t)prng_below(&n->prng, n->count);
    uint64_t dice = prng_below(&n->prng, 1000);
    if (dice < 4) {
        random_fault(n);
    } else if (dice < 100) {
        net_tick(n, i);
    } else if (dice < 140) {
        net_propose(n, i);
    } else if (dice < 145 && n->peers[i].r != NULL) {
        raft_report_unreachable(n->peers[i].r, 1 + prng_below(&n->prng, n->count));
        net_drain(n, i);
    } else if (dice < 500) {
        net_write_done(n, i);
    } else {
        random_message(n);
    }
}

/* Faults end: within a bounded time one leader is there and new entries are applied everywhere. */
static void heal(struct net *n)
{
    memset(n->cut, 0, sizeof n->cut);
    for (size_t i = 0; i < n->count; i++)
        if (n->peers[i].r == NULL) {
            net_start(n, i);
            net_drain(n, i);
        }
    raft_index before = n->applied_max;
    for (int round = 0; round < 400; round++) {
        for (size_t i = 0; i < n->count; i++)
            net_tick(n, i);
        net_settle(n);
        if (n->applied_max < before + 3) net_propose(n, (size_t)round % n->count);
        net_settle(n);
        bool all = n->applied_max >= before + 3;
        for (size_t i = 0; i < n->count; i++)
            all &= n->peers[i].applied == n->applied_max;
        if (all) return;
    }
    fail_msg("no progress after healing: applied %lu before, %lu now", (unsigned long)before,
             (unsigned long)n->applied_max);
}

static void run_seed(uint64_t seed, size_t voters, size_t learners, unsigned steps, bool careful)
{
    static struct net n; /* large */
    net_init(&n, voters, learners, seed);
    n.opts.pre_vote = careful;
    n.opts.check_quorum = careful;
    net_start_all(&n);
    for (unsigned s = 0; s < steps; s++) {
        random_step(&n);
        if (s % 64 == 0) net_check_logs(&n);
    }
    heal(&n);
    net_check_logs(&n);
    net_deinit(&n);
}

static void safe_with_three_voters(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++)
        run_seed(seed, 3, 0, 4000, false);
}

static void safe_with_pre_vote_and_check_quorum(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++)
        run_seed(1000 + seed, 3, 0, 4000, true);
}

static void safe_with_five_voters_and_a_learner(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++)
        run_seed(2000 + seed, 5, 1, 6000, true);
}

static void safe_alone(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++)
        run_seed(3000 + seed, 1, 0, 2000, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safe_with_three_voters),
        cmocka_unit_test(safe_with_pre_vote_and_check_quorum),
        cmocka_unit_test(safe_with_five_voters_and_a_learner),
        cmocka_unit_test(safe_alone),
    };
    return cmocka_run_group_tests_name("raft network", tests, NULL, NULL);
}
