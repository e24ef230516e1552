/* Quorums, configuration changes and progress against slow and obvious models, with random cases.
 *
 * The models are written from the definitions: a quorum is tried out, a configuration is four sets of bits, a window is
 * a plain list. A failing case prints its seed. */
#include "net.h"

#include <inttypes.h>
#include <string.h>

#include "raft/raft_int.h"

enum { QUORUM_CASES = 40000, CONF_CASES = 30000, PROGRESS_CASES = 30000, IDS = 9 };

#define FOR_CASES(n, p)                                                                            \
    for (uint64_t seed_ = 1; seed_ <= (n); seed_++)                                                \
        for (int once_ = (prng_init((p), seed_), 1); once_ > 0; once_ = 0)

#define HOLDS(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) fail_msg("seed %" PRIu64 ": not so: %s", seed_, #x);                             \
    } while (0)

/* --- quorums ------------------------------------------------------------------------------------- */

struct poll {
    struct raft_conf_state conf;
    uint64_t index[IDS + 1]; /* by id */
    int vote[IDS + 1];
};

static uint32_t draw_ids(struct prng *p, raft_id *ids, bool may_be_empty)
{
    uint32_t n = 0;
    uint64_t bits = prng_below(p, 1u << IDS);
    for (raft_id id = 1; id <= IDS; id++)
        if ((bits >> (id - 1) & 1) != 0) ids[n++] = id;
    if (n == 0 && !may_be_empty) ids[n++] = 1;
    return n;
}

static void draw_poll(struct prng *p, struct poll *q)
{
    *q = (struct poll){0};
    q->conf.voter_count = draw_ids(p, q->conf.voters, true);
    if (prng_below(p, 2) == 0)
        q->conf.voter_outgoing_count = draw_ids(p, q->conf.voters_outgoing, true);
    for (raft_id id = 1; id <= IDS; id++) {
        q->index[id] = prng_below(p, 6);
        q->vote[id] = (int)prng_below(p, 3) - 1;
    }
}

static uint64_t index_of(const void *arg, raft_id id)
{
    return ((const struct poll *)arg)->index[id];
}

static int vote_of(const void *arg, raft_id id)
{
    return ((const struct poll *)arg)->vote[id];
}

static bool half_has(const struct poll *q, const raft_id *ids, uint32_t n, uint64_t index)
{
    uint32_t have = 0;
    for (uint32_t i = 0; i < n; i++)
        have += q->index[ids[i]] >= index;
    return n == 0 || 2 * have > n;
}

/* The largest index that each half has; the largest of all when there are no voters. */
static uint64_t slow_index(const struct poll *q)
{
    const struct raft_conf_state *cs = &q->conf;
    if (cs->voter_count + cs->voter_outgoing_count == 0) return UINT64_MAX;
    uint64_t best = 0;
    for (uint64_t i = 0; i < 6; i++)
        if (half_has(q, cs->voters, cs->voter_count, i) &&
            half_has(q, cs->voters_outgoing, cs->voter_outgoing_count, i))
            best = i;
    return best;
}

static bool half_wins(const struct poll *q, const raft_id *ids, uint32_t n)
{
    uint32_t yes = 0;
    for (uint32_t i = 0; i < n; i++)
        yes += q->vote[ids[i]] == 1;
    return n == 0 || 2 * yes > n;
}

static bool wins_if_missing(struct poll q, int answer)
{
    for (raft_id id = 1; id <= IDS; id++)
        if (q.vote[id] < 0) q.vote[id] = answer;
    return half_wins(&q, q.conf.voters, q.conf.voter_count) &&
           half_wins(&q, q.conf.voters_outgoing, q.conf.voter_outgoing_count);
}

/* Won when even refusals of all who are silent leave it won; lost when not even their grants would win it. */
static enum raft__vote slow_vote(const struct poll *q)
{
    if (wins_if_missing(*q, 0)) return RAFT__VOTE_WON;
    return wins_if_missing(*q, 1) ? RAFT__VOTE_PENDING : RAFT__VOTE_LOST;
}

static void quorums_are_as_defined(void **state)
{
    (void)state;
    struct prng p;
    FOR_CASES(QUORUM_CASES, &p)
    {
        struct poll q;
        draw_poll(&p, &q);
        HOLDS(raft__joint_index(&q.conf, index_of, &q) == slow_index(&q));
        HOLDS(raft__joint_vote(&q.conf, vote_of, &q) == slow_vote(&q));
    }
}

/* --- configurations ------------------------------------------------------------------------------ */

/* Sets as bits, bit i - 1 for id i. */
struct sets {
    uint32_t voters;
    uint32_t outgoing;
    uint32_t learners;
    uint32_t next; /* learners to be */
    bool auto_leave;
};

static uint32_t all_of(struct sets s)
{
    return s.voters | s.outgoing | s.learners | s.next;
}

static uint32_t bits_of(const raft_id *ids, uint32_t n)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < n; i++)
        bits |= 1u << (ids[i] - 1);
    return bits;
}

static bool same(struct sets s, const struct raft_conf_state *cs)
{
    return s.voters == bits_of(cs->voters, cs->voter_count) &&
           s.outgoing == bits_of(cs->voters_outgoing, cs->voter_outgoing_count) &&
           s.learners == bits_of(cs->learners, cs->learner_count) &&
           s.next == bits_of(cs->learners_next, cs->learner_next_count) &&
           s.auto_leave == cs->auto_leave;
}

static void model_change(struct sets *s, struct raft_conf_single ch)
{
    if (ch.node_id == 0 || ch.type == RAFT_CONF_UPDATE_NODE) return;
    uint32_t bit = 1u << (ch.node_id - 1);
    if (ch.type == RAFT_CONF_ADD_LEARNER && (s->learners & bit) != 0) return;
    s->voters &= ~bit;
    s->learners &= ~bit;
    s->next &= ~bit;
    if (ch.type == RAFT_CONF_ADD_NODE) s->voters |= bit;
    if (ch.type != RAFT_CONF_ADD_LEARNER) return;
    /* Who still votes in the outgoing half cannot be a learner yet. */
    if ((s->outgoing & bit) != 0)
        s->next |= bit;
    else
        s->learners |= bit;
}

static bool model_simple(struct sets *s, const struct raft_conf_single *ch, uint32_t n)
{
    struct sets t = *s;
    for (uint32_t i = 0; i < n; i++)
        model_change(&t, ch[i]);
    uint32_t changed = t.voters ^ s->voters;
    if (s->outgoing != 0 || t.voters == 0 || (changed & (changed - 1)) != 0) return false;
    *s = t;
    return true;
}

static bool model_enter(struct sets *s, const struct raft_conf_single *ch, uint32_t n,
                        bool auto_leave)
{
    if (s->outgoing != 0 || s->voters == 0) return false;
    struct sets t = *s;
    t.outgoing = s->voters;
    t.auto_leave = auto_leave;
    for (uint32_t i = 0; i < n; i++)
        model_change(&t, ch[i]);
    if (t.voters == 0) return false;
    *s = t;
    return true;
}

static bool model_leave(struct sets *s)
{
    if (s->outgoing == 0) return false;
    s->learners |= s->next;
    s->outgoing = 0;
    s->next = 0;
    s->auto_leave = false;
    return true;
}

static uint32_t draw_changes(struct prng *p, struct raft_conf_single out[4])
{
    uint32_t n = (uint32_t)prng_below(p, 5);
    for (uint32_t i = 0; i < n; i++)
        out[i] = (struct raft_conf_single){(enum raft_conf_change_type)prng_below(p, 4),
                                           prng_below(p, IDS)};
    return n;
}

static int real_change(struct raft__tracker *t, const struct alloc *a, raft_index last, int kind,
                       bool auto_leave, const struct raft_conf_single *ch, uint32_t n)
{
    if (kind == 0) return raft__conf_simple(t, a, last, ch, n, NULL);
    if (kind == 1) return raft__conf_enter_joint(t, a, last, auto_leave, ch, n, NULL);
    return raft__conf_leave_joint(t, a, NULL);
}

/* Marks each member so that it is seen whether its progress survives. */
static void mark(struct raft__tracker *t, raft_index last)
{
    for (uint32_t i = 0; i < t->count; i++) {
        t->prs[i].match = t->prs[i].id;
        t->prs[i].next = last + IDS;
    }
}

static bool progress_follows(const struct raft__tracker *t, struct sets before, struct sets after,
                             raft_index last)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct raft__progress *pr = &t->prs[i];
        uint32_t bit = 1u << (pr->id - 1);
        bool old = (all_of(before) & bit) != 0;
        seen |= bit;
        if (pr->learner != ((after.learners & bit) != 0)) return false;
        /* A member that is removed and added by one change may be a new one. */
        if (old && pr->match != 0 && pr->match != pr->id) return false;
        if (!old && (pr->match != 0 || pr->next != (last > 1 ? last : 1))) return false;
        if (i > 0 && t->prs[i - 1].id >= pr->id) return false;
    }
    return seen == all_of(after);
}

static bool restores(const struct raft_conf_state *cs, const struct alloc *a, raft_index last)
{
    struct raft__tracker t = {0};
    int rc = raft__conf_restore(&t, a, last, cs, NULL);
    bool equal = rc == 0 && raft_conf_state_eq(cs, &t.conf);
    raft__tracker_deinit(&t, a);
    return equal;
}

static void configurations_change_as_sets_do(void **state)
{
    (void)state;
    struct prng p;
    struct test_heap heap;
    test_heap_init(&heap);
    struct raft__tracker t = {0};
    struct sets s = {0};
    raft_index last = 0;
    FOR_CASES(CONF_CASES, &p)
    {
        struct raft_conf_single ch[4];
        uint32_t n = draw_changes(&p, ch);
        int kind = (int)prng_below(&p, 3);
        bool auto_leave = prng_below(&p, 2) == 0;
        struct sets before = s;
        bool allowed = kind == 0   ? model_simple(&s, ch, n)
                       : kind == 1 ? model_enter(&s, ch, n, auto_leave)
                                   : model_leave(&s);
        mark(&t, last);
        int rc = real_change(&t, &heap.alloc, last, kind, auto_leave, ch, n);
        HOLDS((rc == 0) == allowed);
        HOLDS(same(s, &t.conf));
        HOLDS(progress_follows(&t, before, s, last));
        HOLDS(restores(&t.conf, &heap.alloc, last));
        last++;
    }
    raft__tracker_deinit(&t, &heap.alloc);
    test_heap_check_empty(&heap);
}

/* --- progress ------------------------------------------------------------------------------------ */

enum { WINDOW_MAX = 64 };

/* What the leader may know, kept in the plainest way. */
struct model {
    enum raft_progress_state state;
    raft_index match;
    raft_index next;
    raft_index pending;
    bool paused;
    raft_index flying[WINDOW_MAX]; /* last index of each append under way */
    size_t bytes[WINDOW_MAX];
    size_t flying_count;
};

struct pair {
    struct model m;
    struct raft__progress pr;
    struct raft__limits limits;
    const struct alloc *alloc;
    raft_index last;
};

static bool model_full(const struct pair *x)
{
    size_t sum = 0;
    for (size_t i = 0; i < x->m.flying_count; i++)
        sum += x->m.bytes[i];
    return x->m.flying_count >= x->limits.inflight_count_max ||
           (x->limits.inflight_bytes_max > 0 && sum >= x->limits.inflight_bytes_max);
}

static void model_become(struct model *m, enum raft_progress_state state, raft_index next)
{
    m->state = state;
    m->next = next;
    m->pending = 0;
    m->paused = false;
    m->flying_count = 0;
}

static void send_some(struct pair *x, struct prng *p)
{
    if (raft__progress_paused(&x->pr) || raft__progress_full(&x->pr, &x->limits)) return;
    struct model *m = &x->m;
    size_t count = (size_t)prng_below(p, 4);
    if (count > x->last + 1 - m->next) count = (size_t)(x->last + 1 - m->next);
    size_t bytes = count * 10;
    if (raft__progress_reserve(&x->pr, x->alloc) < 0) return;
    raft__progress_sent(&x->pr, &x->limits, count, bytes);
    if (m->state == RAFT_PROBE) {
        /* One append that carries something, then wait. */
        if (count > 0) m->paused = true;
        return;
    }
    if (count > 0) {
        m->next += count;
        m->flying[m->flying_count] = m->next - 1;
        m->bytes[m->flying_count++] = bytes;
    }
    m->paused = model_full(x);
}

static void land(struct model *m, raft_index index)
{
    size_t n = 0;
    while (n < m->flying_count && m->flying[n] <= index)
        n++;
    memmove(m->flying, m->flying + n, (m->flying_count - n) * sizeof *m->flying);
    memmove(m->bytes, m->bytes + n, (m->flying_count - n) * sizeof *m->bytes);
    m->flying_count -= n;
}

static void accept(struct pair *x, struct prng *p)
{
    struct model *m = &x->m;
    raft_index index = prng_below(p, x->last + 1);
    bool news = raft__progress_update(&x->pr, index);
    if (news != (index > m->match)) fail_msg("news of %" PRIu64, index);
    if (!news) return;
    m->match = index;
    if (m->next <= index) m->next = index + 1;
    m->paused = false;
    if (m->state == RAFT_REPLICATE) {
        raft__progress_free_to(&x->pr, index);
        land(m, index);
    } else if (m->state == RAFT_PROBE) {
        raft__progress_replicate(&x->pr);
        model_become(m, RAFT_REPLICATE, m->match + 1);
    }
}

static void reject(struct pair *x, struct prng *p)
{
    struct model *m = &x->m;
    if (m->state == RAFT_SNAPSHOT) return;
    bool probe = prng_below(p, 2) == 0;
    raft_index index = probe ? m->next - 1 : prng_below(p, x->last + 1);
    raft_index hint = prng_below(p, index + 1);
    bool moved = raft__progress_decrease(&x->pr, index, hint);
    bool stale = m->state == RAFT_REPLICATE ? index <= m->match : index != m->next - 1;
    if (moved == stale) fail_msg("rejection of %" PRIu64, index);
    if (stale) return;
    if (m->state == RAFT_REPLICATE) {
        m->next = m->match + 1;
        raft__progress_probe(&x->pr);
        model_become(m, RAFT_PROBE, m->match + 1);
        return;
    }
    raft_index next = hint + 1 < index ? hint + 1 : index;
    m->next = next > m->match + 1 ? next : m->match + 1;
    m->paused = false;
}

static void snapshot(struct pair *x, struct prng *p)
{
    struct model *m = &x->m;
    if (m->state == RAFT_SNAPSHOT) {
        bool failed = prng_below(p, 2) == 0;
        if (failed) x->pr.pending_snapshot = 0;
        raft__progress_probe(&x->pr);
        raft_index from = failed || m->pending < m->match ? m->match : m->pending;
        model_become(m, RAFT_PROBE, from + 1);
        return;
    }
    if (x->last == m->match || prng_below(p, 4) > 0) return;
    raft_index index = m->match + 1 + prng_below(p, x->last - m->match);
    raft__progress_snapshot(&x->pr, index);
    model_become(m, RAFT_SNAPSHOT, index + 1);
    m->pending = index;
}

static bool agree(const struct pair *x)
{
    const struct model *m = &x->m;
    const struct raft__progress *pr = &x->pr;
    bool paused = m->state == RAFT_SNAPSHOT || m->paused;
    return pr->state == m->state && pr->match == m->match && pr->next == m->next &&
           pr->pending_snapshot == m->pending && raft__progress_paused(pr) == paused &&
           pr->inflight_count == m->flying_count &&
           raft__progress_full(pr, &x->limits) == model_full(x) && pr->match < pr->next &&
           pr->inflight_count <= x->limits.inflight_count_max &&
           (m->state == RAFT_REPLICATE || pr->inflight_count == 0);
}

static void begin(struct pair *x, struct prng *p, const struct alloc *alloc)
{
    *x = (struct pair){.alloc = alloc, .last = 1 + prng_below(p, 20), .pr = {.id = 2}};
    x->limits.inflight_count_max = 1 + (uint32_t)prng_below(p, WINDOW_MAX - 1);
    x->limits.inflight_bytes_max = (size_t)prng_below(p, 3) * 40;
    raft__progress_reset(&x->pr, x->last, false);
    x->m = (struct model){.state = RAFT_PROBE, .next = x->last + 1};
}

static void progress_is_as_a_list_would_have_it(void **state)
{
    (void)state;
    static void (*const events[])(struct pair *, struct prng *) = {send_some, send_some, accept,
                                                                   reject, snapshot};
    struct prng p;
    struct test_heap heap;
    test_heap_init(&heap);
    FOR_CASES(PROGRESS_CASES, &p)
    {
        struct pair x;
        begin(&x, &p, &heap.alloc);
        for (int i = 0; i < 30; i++) {
            x.last += prng_below(&p, 3);
            events[prng_below(&p, sizeof events / sizeof *events)](&x, &p);
            HOLDS(agree(&x));
        }
        raft__progress_deinit(&x.pr, &heap.alloc);
    }
    test_heap_check_empty(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quorums_are_as_defined),
        cmocka_unit_test(configurations_change_as_sets_do),
        cmocka_unit_test(progress_is_as_a_list_would_have_it),
    };
    return cmocka_run_group_tests_name("raft model", tests, NULL, NULL);
}
