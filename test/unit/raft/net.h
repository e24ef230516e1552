/* Several rafts in one process: a network that loses, repeats and reorders, disks that forget what was not synced,
 * and checks of the paper's five safety properties (figure 3) after every step. */
#ifndef TEST_UNIT_RAFT_NET_H
#define TEST_UNIT_RAFT_NET_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants these before it. */
#include <cmocka.h>

#include "base/err.h"
#include "base/prng.h"
#include "raft/raft.h"
#include "test_heap.h"

enum { NET_PEERS_MAX = 7, NET_LOG_MAX = 4096, NET_QUEUE_MAX = 4096, NET_WRITES_MAX = 256 };

struct net_id {
    raft_term term;
    uint64_t value;
};

struct net_write {
    struct raft_persist p;
};

struct net_peer {
    struct raft *r; /* NULL: down */
    raft_id id;
    /* What is on disk. */
    struct raft_hard_state hs;
    struct net_id disk[NET_LOG_MAX]; /* by index */
    raft_index disk_last;
    /* Writes handed out and not done, oldest first. */
    struct net_write writes[NET_WRITES_MAX];
    size_t write_count;
    raft_index applied; /* of the state machine, which is as durable as the log */
    raft_index commit_seen;
    uint64_t reads_done;
    raft_index last_read;
};

struct net {
    struct test_heap heap;
    struct prng prng;
    struct net_peer peers[NET_PEERS_MAX];
    size_t count;
    size_t voters; /* the first so many vote, the others learn */
    struct raft_opts opts;
    struct raft_message queue[NET_QUEUE_MAX];
    size_t queued;
    raft_id leader_of[NET_LOG_MAX];     /* by term */
    struct net_id applied[NET_LOG_MAX]; /* by index: what any member applied first */
    raft_index applied_max;
    uint64_t next_value;
    bool cut[NET_PEERS_MAX][NET_PEERS_MAX]; /* one-way */
};

static inline struct rcbuf *net_value(struct net *n, uint64_t v)
{
    struct rcbuf *b = rcbuf_copy(&n->heap.alloc, bytes_of(&v, sizeof v));
    assert_non_null(b);
    return b;
}

static inline uint64_t net_value_of(const struct raft_entry *e)
{
    uint64_t v = 0;
    if (e->data != NULL && e->data->len == sizeof v) memcpy(&v, e->data->data, sizeof v);
    return v;
}

static inline void net_conf(const struct net *n, struct raft_conf_state *cs)
{
    *cs = (struct raft_conf_state){0};
    for (size_t i = 0; i < n->count; i++) {
        if (i < n->voters)
            cs->voters[cs->voter_count++] = i + 1;
        else
            cs->learners[cs->learner_count++] = i + 1;
    }
}

/* Starts a member from what its disk has. */
static inline void net_start(struct net *n, size_t i)
{
    struct net_peer *p = &n->peers[i];
    assert_null(p->r);
    struct raft_entry *es = calloc(p->disk_last + 1, sizeof *es);
    for (raft_index k = 1; k <= p->disk_last; k++)
        es[k - 1] = (struct raft_entry){
            .term = p->disk[k].term,
            .index = k,
            .data = p->disk[k].value == 0 ? NULL : net_value(n, p->disk[k].value)};
    struct raft_restored in = {.hard_state = p->hs, .entries = es, .entry_count = p->disk_last};
    net_conf(n, &in.snapshot.conf);
    in.applied = p->applied <= p->hs.commit ? p->applied : p->hs.commit;
    p->applied = in.applied;
    struct raft_opts o = n->opts;
    o.id = p->id;
    o.seed = prng_next(&n->prng);
    o.alloc = &n->heap.alloc;
    struct errmsg em = {""};
    int rc = raft_new(&o, &in, &p->r, &em);
    if (rc < 0) fail_msg("raft_new: %s %s", err_symbol(rc), em.text);
    for (raft_index k = 0; k < p->disk_last; k++)
        rcbuf_unref(es[k].data);
    free(es);
    p->commit_seen = p->hs.commit;
}

static inline void net_init(struct net *n, size_t voters, size_t learners, uint64_t seed)
{
    memset(n, 0, sizeof *n);
    test_heap_init(&n->heap);
    prng_init(&n->prng, seed);
    n->voters = voters;
    n->count = voters + learners;
    n->opts = (struct raft_opts){.election_tick = 10,
                                 .heartbeat_tick = 1,
                                 .message_bytes_max = 256,
                                 .inflight_count_max = 4};
    for (size_t i = 0; i < n->count; i++)
        n->peers[i].id = i + 1;
}

static inline void net_start_all(struct net *n)
{
    for (size_t i = 0; i < n->count; i++)
        net_start(n, i);
}

static inline void net_drop_write(struct net *n, struct net_write *w)
{
    struct raft_obligation o = {.kind = RAFT_PERSIST, .u.persist = w->p};
    raft_obligation_deinit(&o, &n->heap.alloc);
}

/* Without warning: what is not durable is gone. */
static inline void net_crash(struct net *n, size_t i)
{
    struct net_peer *p = &n->peers[i];
    for (size_t k = 0; k < p->write_count; k++)
        net_drop_write(n, &p->writes[k]);
    p->write_count = 0;
    raft_free(p->r);
    p->r = NULL;
}

static inline void net_deinit(struct net *n)
{
    for (size_t i = 0; i < n->count; i++)
        if (n->peers[i].r != NULL) net_crash(n, i);
    for (size_t i = 0; i < n->queued; i++)
        raft_message_deinit(&n->queue[i], &n->heap.alloc);
    test_heap_check_empty(&n->heap);
}

/* --- checks -------------------------------------------------------------------------------------- */

/* "at most one leader can be elected in a given term". */
static inline void net_check_leader(struct net *n, const struct net_peer *p)
{
    struct raft_status st;
    raft_status(p->r, &st);
    if (st.state != RAFT_LEADER) return;
    raft_term t = st.hard_state.term;
    assert_true(t < NET_LOG_MAX);
    if (n->leader_of[t] != 0) {
        assert_int_equal(n->leader_of[t], p->id);
        return;
    }
    n->leader_of[t] = p->id;
    /* "if a log entry is committed in a given term, then that entry will be present in the logs of the leaders for
     * all higher-numbered terms." */
    for (raft_index i = st.first; i <= n->applied_max; i++)
        assert_int_equal(raft_term_of(p->r, i), n->applied[i].term);
}

/* "if two logs contain an entry with the same index and term, then the logs are identical in all entries up through the
 * given index." */
static inline void net_check_logs(struct net *n)
{
    for (size_t a = 0; a < n->count; a++) {
        for (size_t b = a + 1; b < n->count; b++) {
            const struct net_peer *x = &n->peers[a];
            const struct net_peer *y = &n->peers[b];
            raft_index i = x->disk_last < y->disk_last ? x->disk_last : y->disk_last;
            while (i > 0 && x->disk[i].term != y->disk[i].term)
                i--;
            for (; i > 0; i--) {
                assert_int_equal(x->disk[i].term, y->disk[i].term);
                assert_int_equal(x->disk[i].value, y->disk[i].value);
            }
        }
    }
}

/* "if a server has applied a log entry at a given index to its state machine, no other server will ever apply a
 * different log entry for the same index." And whatever is applied is on a majority of disks. */
static inline void net_check_applied(struct net *n, const struct net_peer *p,
                                     const struct raft_entry *e)
{
    struct net_id id = {e->term, net_value_of(e)};
    if (e->index <= n->applied_max) {
        assert_int_equal(n->applied[e->index].term, id.term);
        assert_int_equal(n->applied[e->index].value, id.value);
    } else {
        assert_int_equal(e->index, n->applied_max + 1);
        size_t have = 0;
        for (size_t i = 0; i < n->voters; i++)
            have += n->peers[i].disk_last >= e->index && n->peers[i].disk[e->index].term == e->term;
        assert_true(have > n->voters / 2);
        n->applied[e->index] = id;
        n->applied_max = e->index;
    }
    /* Applied only when stable here. */
    assert_true(p->disk_last >= e->index);
    assert_int_equal(p->disk[e->index].term, e->term);
}

/* --- obligations --------------------------------------------------------------------------------- */

static inline void net_send(struct net *n, struct raft_message *m)
{
    assert_true(m->to >= 1 && m->to <= n->count);
    if (n->queued == NET_QUEUE_MAX || n->cut[m->from - 1][m->to - 1]) {
        raft_message_deinit(m, &n->heap.alloc);
        return;
    }
    n->queue[n->queued++] = *m;
}

static inline void net_apply(struct net *n, struct net_peer *p, struct raft_apply *a)
{
    for (size_t k = 0; k < a->entry_count; k++) {
        assert_int_equal(a->entries[k].index, p->applied + 1);
        net_check_applied(n, p, &a->entries[k]);
        p->applied++;
    }
    raft_entries_free(&n->heap.alloc, a->entries, a->entry_count);
    assert_int_equal(raft_applied(p->r, p->applied), 0);
}

static inline void net_write_done(struct net *n, size_t i);

static inline void net_drain(struct net *n, size_t i)
{
    struct net_peer *p = &n->peers[i];
    struct raft_obligation o;
    if (p->r == NULL) return;
    while (raft_has_work(p->r)) {
        while (raft_take(p->r, &o) > 0) {
            switch (o.kind) {
            case RAFT_SEND: net_send(n, &o.u.message); break;
            case RAFT_PERSIST:
                assert_true(p->write_count < NET_WRITES_MAX);
                p->writes[p->write_count++].p = o.u.persist;
                break;
            case RAFT_APPLY: net_apply(n, p, &o.u.apply); break;
            case RAFT_READ_OK:
                p->reads_done++;
                p->last_read = o.u.read.index;
                rcbuf_unref(o.u.read.context);
                break;
            }
        }
        net_check_leader(n, p);
    }
    struct raft_status st;
    raft_status(p->r, &st);
    assert_true(st.hard_state.commit >= p->commit_seen);
    p->commit_seen = st.hard_state.commit;
}

/* The oldest write of a member becomes durable. */
static inline void net_write_done(struct net *n, size_t i)
{
    struct net_peer *p = &n->peers[i];
    if (p->r == NULL || p->write_count == 0) return;
    struct raft_persist w = p->writes[0].p;
    p->write_count--;
    memmove(&p->writes[0], &p->writes[1], p->write_count * sizeof p->writes[0]);
    for (size_t k = 0; k < w.entry_count; k++) {
        const struct raft_entry *e = &w.entries[k];
        assert_true(e->index < NET_LOG_MAX && e->index <= p->disk_last + 1);
        p->disk[e->index] = (struct net_id){e->term, net_value_of(e)};
        p->disk_last = e->index;
    }
    if (!raft_hard_state_empty(w.hard_state)) p->hs = w.hard_state;
    raft_entries_free(&n->heap.alloc, w.entries, w.entry_count);
    assert_int_equal(raft_persisted(p->r, w.acks, w.ack_count), 0);
    net_drain(n, i);
}

/* The k-th message in flight arrives, or is lost when its receiver is down. */
static inline void net_deliver(struct net *n, size_t k)
{
    struct raft_message m = n->queue[k];
    n->queued--;
    memmove(&n->queue[k], &n->queue[k + 1], (n->queued - k) * sizeof n->queue[0]);
    size_t to = (size_t)m.to - 1;
    if (n->peers[to].r != NULL) (void)raft_step(n->peers[to].r, &m);
    raft_message_deinit(&m, &n->heap.alloc);
    net_drain(n, to);
}

static inline void net_propose(struct net *n, size_t i)
{
    if (n->peers[i].r == NULL || n->next_value + 2 >= NET_LOG_MAX) return;
    struct raft_entry e = {.data = net_value(n, ++n->next_value)};
    (void)raft_propose(n->peers[i].r, &e, 1);
    rcbuf_unref(e.data);
    net_drain(n, i);
}

static inline void net_tick(struct net *n, size_t i)
{
    if (n->peers[i].r == NULL) return;
    assert_int_equal(raft_tick(n->peers[i].r), 0);
    net_drain(n, i);
}

/* Everything in flight arrives and every write is done, until nothing happens. */
static inline void net_settle(struct net *n)
{
    bool busy = true;
    for (size_t round = 0; busy && round < 100000; round++) {
        busy = n->queued > 0;
        if (n->queued > 0) net_deliver(n, 0);
        for (size_t i = 0; i < n->count; i++) {
            busy |= n->peers[i].write_count > 0;
            net_write_done(n, i);
        }
    }
    assert_false(busy);
}

static inline struct raft_status net_status(const struct net *n, size_t i)
{
    struct raft_status st;
    raft_status(n->peers[i].r, &st);
    return st;
}

static inline void net_campaign(struct net *n, size_t i)
{
    assert_int_equal(raft_campaign(n->peers[i].r), 0);
    net_drain(n, i);
}

/* Makes member i the leader of a settled cluster. */
static inline void net_elect(struct net *n, size_t i)
{
    net_drain(n, i);
    net_campaign(n, i);
    net_settle(n);
    assert_int_equal(net_status(n, i).state, RAFT_LEADER);
}

static inline void net_isolate(struct net *n, size_t i, bool on)
{
    for (size_t k = 0; k < n->count; k++)
        n->cut[i][k] = n->cut[k][i] = on && k != i;
}

#endif
