/* Who agrees: majorities, and both majorities of a joint configuration. */
#include "raft/raft_int.h"

static void insert_sorted(uint64_t *v, uint32_t n, uint64_t x)
{
    uint32_t at = n;
    for (; at > 0 && v[at - 1] > x; at--)
        v[at] = v[at - 1];
    v[at] = x;
}

uint64_t raft__majority_index(const raft_id *ids, uint32_t n, raft__index_fn fn, const void *arg)
{
    ASSERT(n <= RAFT_MEMBERS_MAX);
    /* An empty half agrees to everything, so that the other one decides alone. */
    if (n == 0) return UINT64_MAX;
    if (n == 1) return fn(arg, ids[0]);
    uint64_t v[RAFT_MEMBERS_MAX];
    for (uint32_t i = 0; i < n; i++)
        insert_sorted(v, i, fn(arg, ids[i]));
    /* n/2+1 members have at least this. */
    return v[n - (n / 2 + 1)];
}

enum raft__vote raft__majority_vote(const raft_id *ids, uint32_t n, raft__vote_fn fn,
                                    const void *arg)
{
    ASSERT(n <= RAFT_MEMBERS_MAX);
    if (n == 0) return RAFT__VOTE_WON;
    uint32_t granted = 0;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < n; i++) {
        int v = fn(arg, ids[i]);
        granted += v > 0;
        missing += v < 0;
    }
    uint32_t quorum = n / 2 + 1;
    if (granted >= quorum) return RAFT__VOTE_WON;
    return granted + missing >= quorum ? RAFT__VOTE_PENDING : RAFT__VOTE_LOST;
}

uint64_t raft__joint_index(const struct raft_conf_state *cs, raft__index_fn fn, const void *arg)
{
    ASSERT(cs != NULL);
    uint64_t a = raft__majority_index(cs->voters, cs->voter_count, fn, arg);
    uint64_t b = raft__majority_index(cs->voters_outgoing, cs->voter_outgoing_count, fn, arg);
    return a < b ? a : b;
}

enum raft__vote raft__joint_vote(const struct raft_conf_state *cs, raft__vote_fn fn,
                                 const void *arg)
{
    ASSERT(cs != NULL);
    enum raft__vote a = raft__majority_vote(cs->voters, cs->voter_count, fn, arg);
    enum raft__vote b = raft__majority_vote(cs->voters_outgoing, cs->voter_outgoing_count, fn, arg);
    if (a == b) return a;
    if (a == RAFT__VOTE_LOST || b == RAFT__VOTE_LOST) return RAFT__VOTE_LOST;
    return RAFT__VOTE_PENDING;
}
