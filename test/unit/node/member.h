/* A whole member in one thread over a log and a store in memory, with clients, crashes and checks.
 *
 * The driver does what the outputs of node's halves say, one small step at a time, so that a test or the simulator can
 * stop between any two of them. Violations of the durability rules are counted, not asserted: a test may plant a
 * bug and want them found. */
#ifndef TEST_UNIT_NODE_MEMBER_H
#define TEST_UNIT_NODE_MEMBER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka wants these before it. */
#include <cmocka.h>

#include "alarm/alarm.h"
#include "base/err.h"
#include "base/prng.h"
#include "etcdserverpb.pb-c.h"
#include "fake_backend.h"
#include "lease/lease.h"
#include "node/node_apply.h"
#include "node/node_raft.h"
#include "pb/pack.h"
#include "test_heap.h"

#define MEMBER_ID      UINT64_C(0x8e9e05c52164694d)
#define MEMBER_TICK_NS INT64_C(100000000)

enum { MEMBER_KEYS = 8, MEMBER_RECS_MAX = 8192, MEMBER_QUEUE_MAX = 512, MEMBER_CLIENTS_MAX = 256 };

struct member_rec {
    enum { REC_ENTRY, REC_STATE, REC_SNAPSHOT } kind;
    struct raft_entry e;
    struct raft_hard_state hs;
    raft_index index; /* SNAPSHOT */
    raft_term term;
};

enum client_state { CLIENT_FREE, CLIENT_WAITS, CLIENT_DONE };

struct member_client {
    struct node_waiter waiter; /* first */
    enum client_state state;
    bool read;
    bool compaction;
    int error;
    unsigned key;
    uint64_t value; /* put: what was sent; read: what was acknowledged when it began */
    unsigned reply_count;
};

struct member_world {
    struct test_heap heap;
    struct fake_backend store;
    struct prng prng;
    int64_t now_ns;

    /* The log on disk. */
    struct member_rec recs[MEMBER_RECS_MAX];
    size_t rec_count;
    size_t rec_synced;

    /* Work handed out. */
    struct node_persist persists[MEMBER_QUEUE_MAX];
    size_t persist_count;
    uint64_t written_seq; /* written, perhaps not synced */
    bool sync_due;
    struct mvcc_run *run;
    struct mvcc_portion *portion;
    bool commit_waits;
    struct mvcc_compact *job;
    bool snapshot_waits;
    raft_index snapshot_index;
    raft_term snapshot_term;

    struct node_ids ids;
    struct node_status status;
    struct mvcc *mvcc;
    struct lease_table *leases;
    struct membership *members;
    struct alarms *alarms;
    struct node_raft *raft;
    struct node_apply *apply;
    bool up;

    /* Clients: values of a key only grow. */
    struct member_client clients[MEMBER_CLIENTS_MAX];
    uint64_t sent[MEMBER_KEYS];
    uint64_t acked[MEMBER_KEYS];
    uint64_t value_next;
    uint64_t replies;
    uint64_t errors;

    /* Options. */
    uint64_t snapshot_count;
    uint64_t catchup_entries;
    size_t run_bytes_max;
    int64_t checkpoint_interval_ns; /* of leases */
    bool plant_reply_before_sync;
    bool plant_store_ahead;

    /* What was seen. */
    uint64_t violations;
    bool ready;
    bool stopped;
    char fatal[ERRMSG_BYTES_MAX];
};

static inline void member_no_lock(void *arg)
{
    (void)arg;
}

static const struct rwlock member_lock = {member_no_lock, member_no_lock, member_no_lock,
                                          member_no_lock, NULL};

#define MEMBER_MUST(cond)                                                                          \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond);               \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static inline void member_violation(struct member_world *w, const char *what)
{
    w->violations++;
    if (!w->plant_reply_before_sync && !w->plant_store_ahead)
        (void)fprintf(stderr, "violation: %s\n", what);
}

/* --- the log on disk ----------------------------------------------------------------------------- */

static inline void rec_put(struct member_world *w, struct member_rec r)
{
    MEMBER_MUST(w->rec_count < MEMBER_RECS_MAX);
    if (r.kind == REC_ENTRY) (void)rcbuf_ref(r.e.data);
    w->recs[w->rec_count++] = r;
}

static inline void recs_cut(struct member_world *w, size_t keep)
{
    while (w->rec_count > keep) {
        w->rec_count--;
        if (w->recs[w->rec_count].kind == REC_ENTRY) rcbuf_unref(w->recs[w->rec_count].e.data);
    }
}

/* The last index that is in the log for sure, whatever happens now. */
static inline raft_index member_durable_index(const struct member_world *w)
{
    raft_index last = 0;
    for (size_t i = 0; i < w->rec_synced; i++)
        if (w->recs[i].kind == REC_ENTRY) last = w->recs[i].e.index;
    return last;
}

/* Writes all that waits; what needs no sync is done with it. */
static inline void member_wal_write(struct member_world *w)
{
    for (size_t i = 0; i < w->persist_count; i++) {
        struct node_persist *p = &w->persists[i];
        for (size_t k = 0; k < p->entry_count; k++)
            rec_put(w, (struct member_rec){.kind = REC_ENTRY, .e = p->entries[k]});
        if (!raft_hard_state_empty(p->hard_state))
            rec_put(w, (struct member_rec){.kind = REC_STATE, .hs = p->hard_state});
        w->sync_due |= p->must_sync;
        w->written_seq = p->seq;
        node_persist_deinit(p, &w->heap.alloc);
    }
    w->persist_count = 0;
}

static inline void member_wal_sync(struct member_world *w)
{
    if (w->written_seq == 0) return;
    if (w->sync_due && !w->plant_store_ahead) w->rec_synced = w->rec_count;
    w->sync_due = false;
    MEMBER_MUST(node_raft_persisted(w->raft, w->written_seq) == 0);
}

static inline void member_dump_log(const struct member_world *w)
{
    for (size_t i = 0; i < w->rec_count; i++) {
        const struct member_rec *r = &w->recs[i];
        if (r->kind == REC_ENTRY)
            (void)fprintf(stderr, "%zu entry %lu/%lu type %d, %zu bytes\n", i,
                          (unsigned long)r->e.term, (unsigned long)r->e.index, (int)r->e.type,
                          rcbuf_bytes(r->e.data).len);
        if (r->kind == REC_STATE)
            (void)fprintf(stderr, "%zu state %lu %lx %lu\n", i, (unsigned long)r->hs.term,
                          (unsigned long)r->hs.vote, (unsigned long)r->hs.commit);
    }
}

/* --- clients ------------------------------------------------------------------------------------- */

static inline struct member_client *client_free(struct member_world *w)
{
    for (size_t i = 0; i < MEMBER_CLIENTS_MAX; i++) {
        struct member_client *c = &w->clients[i];
        if (c->state == CLIENT_WAITS) continue;
        *c = (struct member_client){.state = CLIENT_WAITS};
        c->waiter.request_id = node_ids_next(&w->ids);
        return c;
    }
    return NULL;
}

static inline struct rcbuf *member_pack(struct member_world *w,
                                        Etcdserverpb__InternalRaftRequest *req, uint64_t id)
{
    Etcdserverpb__RequestHeader h;
    etcdserverpb__request_header__init(&h);
    h.id = id;
    req->header = &h;
    struct buf b;
    buf_init(&b, &w->heap.alloc, 1 << 20);
    MEMBER_MUST(pb_pack(&req->base, &b) == 0);
    struct rcbuf *out = rcbuf_copy(&w->heap.alloc, buf_bytes(&b));
    buf_deinit(&b);
    MEMBER_MUST(out != NULL);
    return out;
}

static inline struct member_client *member_propose(struct member_world *w, struct member_client *c,
                                                   struct rcbuf *data)
{
    const struct node_request req = {.data = data, .waiter = &c->waiter};
    int rc = node_raft_propose(w->raft, &req);
    rcbuf_unref(data);
    if (rc < 0) {
        c->state = CLIENT_DONE;
        c->error = rc;
        w->errors++;
    }
    return c;
}

static inline struct member_client *member_put(struct member_world *w, unsigned key)
{
    struct member_client *c = client_free(w);
    if (c == NULL) return NULL;
    c->key = key;
    c->value = ++w->value_next;
    w->sent[key] = c->value;
    Etcdserverpb__PutRequest put;
    etcdserverpb__put_request__init(&put);
    uint8_t k = (uint8_t)('a' + key);
    put.key = (ProtobufCBinaryData){1, &k};
    put.value = (ProtobufCBinaryData){sizeof c->value, (uint8_t *)&c->value};
    Etcdserverpb__InternalRaftRequest req;
    etcdserverpb__internal_raft_request__init(&req);
    req.put = &put;
    return member_propose(w, c, member_pack(w, &req, c->waiter.request_id));
}

static inline struct member_client *member_compaction(struct member_world *w, int64_t rev)
{
    struct member_client *c = client_free(w);
    if (c == NULL) return NULL;
    c->compaction = true;
    Etcdserverpb__CompactionRequest compaction;
    etcdserverpb__compaction_request__init(&compaction);
    compaction.revision = rev;
    compaction.physical = true;
    Etcdserverpb__InternalRaftRequest req;
    etcdserverpb__internal_raft_request__init(&req);
    req.compaction = &compaction;
    return member_propose(w, c, member_pack(w, &req, c->waiter.request_id));
}

/* The value of a key that readers see now; 0: none. */
static inline uint64_t member_get(struct member_world *w, unsigned key)
{
    uint8_t k = (uint8_t)('a' + key);
    struct mvcc_view v;
    struct mvcc_row row;
    struct bytes kv;
    struct errmsg em = {""};
    uint64_t value = 0;
    MEMBER_MUST(mvcc_view_open(w->mvcc, 0, &v) == 0);
    if (mvcc_view_get(&v, bytes_of(&k, 1), &row) == 0) {
        struct pb_kv parsed;
        MEMBER_MUST(mvcc_view_kv(&v, &row, &kv, &em) == 0);
        MEMBER_MUST(pb_kv_decode(kv, &parsed) == 0);
        MEMBER_MUST(parsed.value.len == sizeof value);
        memcpy(&value, parsed.value.data, sizeof value);
    }
    mvcc_view_close(&v);
    return value;
}

static inline struct member_client *member_read(struct member_world *w, unsigned key)
{
    struct member_client *c = client_free(w);
    if (c == NULL) return NULL;
    c->read = true;
    c->key = key;
    c->value = w->acked[key];
    int rc = node_raft_read(w->raft, &c->waiter);
    if (rc < 0) {
        c->state = CLIENT_DONE;
        c->error = rc;
    }
    return c;
}

static inline bool synced_has(const struct member_world *w, uint64_t value)
{
    for (size_t i = 0; i < w->rec_synced; i++) {
        if (w->recs[i].kind != REC_ENTRY || w->recs[i].e.data == NULL) continue;
        struct bytes d = rcbuf_bytes(w->recs[i].e.data);
        for (size_t k = 0; k + sizeof value <= d.len; k++)
            if (memcmp(d.data + k, &value, sizeof value) == 0) return true;
    }
    return false;
}

static inline void member_reply(struct member_world *w, const struct node_reply *r)
{
    struct member_client *c = (struct member_client *)r->waiter;
    MEMBER_MUST(c->state == CLIENT_WAITS);
    c->state = CLIENT_DONE;
    c->error = r->error;
    c->reply_count++;
    w->replies++;
    apply_result_free(r->result);
    if (r->error != 0) {
        w->errors++;
    } else if (c->read) {
        /* A read sees everything that was acknowledged before it began. */
        if (member_get(w, c->key) < c->value) member_violation(w, "stale read");
    } else if (!c->compaction) {
        /* Rule 1: a reply leaves only after the sync that covers it. */
        if (!synced_has(w, c->value)) member_violation(w, "reply before its sync");
        if (member_get(w, c->key) < c->value) member_violation(w, "reply before publication");
        if (c->value > w->acked[c->key]) w->acked[c->key] = c->value;
    }
}

/* --- the driver ---------------------------------------------------------------------------------- */

static inline void member_apply_outputs(struct member_world *w);

static inline void member_raft_outputs(struct member_world *w)
{
    struct node_raft_output o;
    while (node_raft_take(w->raft, &o) > 0) {
        switch (o.kind) {
        case NODE_RAFT_PERSIST:
            MEMBER_MUST(w->persist_count < MEMBER_QUEUE_MAX);
            w->persists[w->persist_count++] = o.u.persist;
            if (w->plant_reply_before_sync)
                MEMBER_MUST(node_raft_persisted(w->raft, o.u.persist.seq) == 0);
            break;
        case NODE_RAFT_SEND: raft_message_deinit(&o.u.message, &w->heap.alloc); break;
        case NODE_RAFT_NOTE: MEMBER_MUST(node_apply_note(w->apply, &o.u.note) == 0); break;
        case NODE_RAFT_REPLY: member_reply(w, &o.u.reply); break;
        case NODE_RAFT_FATAL:
            (void)snprintf(w->fatal, sizeof w->fatal, "%s", o.u.fatal->text);
            break;
        }
    }
}

static inline void member_apply_output(struct member_world *w, struct node_apply_output *o)
{
    switch (o->kind) {
    case NODE_APPLY_REPLY: member_reply(w, &o->u.reply); break;
    case NODE_APPLY_NOTE: MEMBER_MUST(node_raft_note(w->raft, &o->u.note) == 0); break;
    case NODE_APPLY_COMMIT:
        MEMBER_MUST(!w->commit_waits);
        w->run = o->u.commit.run;
        w->portion = o->u.commit.portion;
        w->commit_waits = true;
        break;
    case NODE_APPLY_COMPACT: w->job = o->u.job; break;
    case NODE_APPLY_SNAPSHOT:
        w->snapshot_waits = true;
        w->snapshot_index = o->u.snapshot.index;
        w->snapshot_term = o->u.snapshot.term;
        node_conf_free(o->u.snapshot.conf, &w->heap.alloc);
        membership_unref(o->u.snapshot.members);
        break;
    case NODE_APPLY_MEMBERS: membership_unref(o->u.members); break;
    case NODE_APPLY_ALARMS: alarm_unref(o->u.alarms); break;
    case NODE_APPLY_READY: w->ready = true; break;
    case NODE_APPLY_STOPPED: w->stopped = true; break;
    case NODE_APPLY_PEER:
    case NODE_APPLY_REMOVED: break;
    case NODE_APPLY_FATAL: (void)snprintf(w->fatal, sizeof w->fatal, "%s", o->u.fatal->text); break;
    }
}

static inline void member_apply_outputs(struct member_world *w)
{
    struct node_apply_output o;
    (void)node_apply_run(w->apply, w->now_ns, 64);
    while (node_apply_take(w->apply, &o) > 0)
        member_apply_output(w, &o);
}

/* Both halves, until neither has anything more to say. */
static inline void member_work(struct member_world *w)
{
    for (int i = 0; i < 64; i++) {
        member_raft_outputs(w);
        member_apply_outputs(w);
    }
}

static inline void member_tick(struct member_world *w, int64_t ns)
{
    w->now_ns += ns;
    MEMBER_MUST(node_raft_tick(w->raft, w->now_ns) == 0);
    node_apply_tick(w->apply, w->now_ns);
    member_work(w);
}

static inline void member_commit(struct member_world *w)
{
    if (!w->commit_waits) return;
    struct errmsg em = {""};
    struct backend_tx *tx;
    const struct backend *b = &w->store.face;
    /* Rule 3: the store is never ahead of the log. */
    if (w->run != NULL && mvcc_run_index(w->run) > member_durable_index(w))
        member_violation(w, "store ahead of the log");
    MEMBER_MUST(b->begin(b->arg, &tx, &em) == 0);
    if (w->run != NULL) MEMBER_MUST(mvcc_run_write(w->run, b, tx, &em) == 0);
    if (w->portion != NULL) MEMBER_MUST(mvcc_portion_write(w->portion, b, tx, &em) == 0);
    MEMBER_MUST(b->commit(tx, &em) == 0);
    w->commit_waits = false;
    node_apply_committed(w->apply, w->run, w->portion, 4096);
    w->run = NULL;
    w->portion = NULL;
}

static inline void member_compact(struct member_world *w)
{
    if (w->job == NULL) return;
    struct mvcc_compact *job = w->job;
    struct mvcc_portion *portion = NULL;
    struct errmsg em = {""};
    w->job = NULL;
    while (portion == NULL)
        MEMBER_MUST(mvcc_compact_list(job, 16, &portion, &em) >= 0);
    node_apply_portion(w->apply, portion);
}

static inline void member_snapshot(struct member_world *w)
{
    if (!w->snapshot_waits) return;
    /* Its WAL record is written and synced at once. */
    rec_put(w, (struct member_rec){
                   .kind = REC_SNAPSHOT, .index = w->snapshot_index, .term = w->snapshot_term});
    w->rec_synced = w->rec_count;
    w->snapshot_waits = false;
    node_apply_snapshot_done(w->apply, w->snapshot_index, true);
}

/* --- birth and crash ----------------------------------------------------------------------------- */

static inline void member_world_init(struct member_world *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    test_heap_init(&w->heap);
    fake_backend_init(&w->store);
    prng_init(&w->prng, seed);
    w->now_ns = 1;
    w->snapshot_count = 10000;
    w->catchup_entries = 5000;
    node_ids_init(&w->ids, MEMBER_ID, 1);
}

static inline struct bytes meta_row(struct backend_read *r, const struct backend *b,
                                    const char *key)
{
    struct bytes v;
    return b->get(r, TABLE_META, bytes_str(key), &v) == 0 ? v : BYTES_EMPTY;
}

static inline int member_open_store(struct member_world *w, struct apply_start *start,
                                    struct backend_read *r, struct errmsg *em)
{
    const struct alloc *a = &w->heap.alloc;
    const struct backend *b = &w->store.face;
    const struct mvcc_opts mo = {
        .alloc = a, .index_lock = &member_lock, .backend = b, .run_bytes_max = w->run_bytes_max};
    const struct lease_config lc = {.ttl_s_min = 1,
                                    .retry_ns = 1000000000,
                                    .checkpoint_interval_ns = w->checkpoint_interval_ns};
    int rc = mvcc_open(&mo, &w->mvcc, em);
    if (rc == 0) rc = lease_new(&lc, a, &w->leases);
    if (rc == 0) rc = membership_load(a, b, r, &w->members, em);
    if (rc == 0) rc = alarm_load(a, b, r, &w->alarms, em);
    if (rc < 0) return rc;
    *start = (struct apply_start){.consistent_index = mvcc_applied_index(w->mvcc),
                                  .consistent_term = mvcc_applied_term(w->mvcc),
                                  .conf_state_json = meta_row(r, b, "confState"),
                                  .members = w->members,
                                  .alarms = w->alarms};
    return 0;
}

/* What the log says: entries (later ones replace), the last state, the last usable snapshot record. */
static inline size_t member_read_log(struct member_world *w, struct node_disk_state *d,
                                     struct raft_entry *es)
{
    raft_index last = 0;
    for (size_t i = 0; i < w->rec_count; i++) {
        const struct member_rec *r = &w->recs[i];
        if (r->kind == REC_STATE) d->hard_state = r->hs;
        if (r->kind == REC_SNAPSHOT && r->index <= d->hard_state.commit) {
            d->snapshot_index = r->index;
            d->snapshot_term = r->term;
        }
        if (r->kind == REC_ENTRY) {
            es[r->e.index] = r->e;
            last = r->e.index;
        }
    }
    d->entries = es + d->snapshot_index + 1;
    d->entry_count = last > d->snapshot_index ? last - d->snapshot_index : 0;
    return last;
}

static inline int member_make_raft(struct member_world *w, struct node_disk_state *d, bool fresh,
                                   struct errmsg *em)
{
    struct raft_restored restored = {0};
    struct raft_entry *first = NULL;
    size_t first_count = 0;
    int rc = 0;
    if (fresh) {
        struct bytes url = bytes_str("http://localhost:2380");
        const struct member m = {
            .id = MEMBER_ID, .name = bytes_str("default"), .peer_urls = &url, .peer_url_count = 1};
        rc = node_first_entries(&w->heap.alloc, &m, 1, &first);
        first_count = 1;
        restored.snapshot.conf.voters[0] = MEMBER_ID;
        restored.snapshot.conf.voter_count = 1;
    } else {
        rc = node_restore(d, &restored, em);
    }
    if (rc < 0) return rc;
    const struct node_raft_opts ro = {.id = MEMBER_ID,
                                      .election_ticks = 10,
                                      .tick_ns = MEMBER_TICK_NS,
                                      .pre_vote = true,
                                      .seed = 7,
                                      .ids = &w->ids,
                                      .status = &w->status,
                                      .alloc = &w->heap.alloc};
    rc = node_raft_new(&ro, &restored, first, first_count, &w->raft, em);
    raft_entries_free(&w->heap.alloc, first, rc < 0 && first == NULL ? 0 : first_count);
    return rc;
}

static inline int member_make_apply(struct member_world *w, const struct apply_start *start,
                                    raft_index replay, struct errmsg *em)
{
    static struct bytes url;
    url = bytes_str("http://localhost:2379");
    const struct node_apply_opts ao = {
        .apply = {.member_id = MEMBER_ID,
                  .mvcc = w->mvcc,
                  .leases = w->leases,
                  .learners_max = 1,
                  .server_version = "3.7.0",
                  .alloc = &w->heap.alloc},
        .tick_ns = MEMBER_TICK_NS,
        .election_ticks = 10,
        .commit_interval_ns = MEMBER_TICK_NS,
        .run_bytes_max = w->run_bytes_max,
        .snapshot_count = w->snapshot_count,
        .catchup_entries = w->catchup_entries,
        .snapshot_index = replay,
        .replay_index = replay,
        .name = bytes_str("default"),
        .client_urls = &url,
        .client_url_count = 1,
        .ids = &w->ids,
        .status = &w->status,
    };
    return node_apply_new(&ao, start, &w->apply, em);
}

/* Starts from what is on disk. On an error everything made is still to be taken down by member_down(). */
static inline int member_up(struct member_world *w, struct errmsg *em)
{
    struct node_disk_state d = {0};
    struct raft_entry *es = calloc(MEMBER_RECS_MAX + 1, sizeof *es);
    MEMBER_MUST(es != NULL);
    struct backend_read *r;
    MEMBER_MUST(w->store.face.read_begin(w->store.face.arg, &r, em) == 0);
    struct apply_start start;
    struct raft_conf_state conf;
    bool fresh = w->rec_count == 0;
    memset(&w->status, 0, sizeof w->status);
    w->up = true;
    int rc = member_open_store(w, &start, r, em);
    if (rc == 0) rc = node_conf_of_members(w->members, &conf);
    if (rc == 0) {
        (void)member_read_log(w, &d, es);
        d.consistent_index = start.consistent_index;
        d.conf = &conf;
        rc = member_make_raft(w, &d, fresh, em);
    }
    if (rc == 0) rc = member_make_apply(w, &start, d.snapshot_index, em);
    w->store.face.read_end(r);
    free(es);
    return rc;
}

static inline void member_down(struct member_world *w)
{
    for (size_t i = 0; i < w->persist_count; i++)
        node_persist_deinit(&w->persists[i], &w->heap.alloc);
    w->persist_count = 0;
    node_raft_free(w->raft);
    node_apply_free(w->apply);
    if (w->run != NULL) mvcc_run_retire(w->mvcc, w->run);
    mvcc_free(w->mvcc);
    lease_free(w->leases);
    membership_unref(w->members);
    alarm_unref(w->alarms);
    w->raft = NULL;
    w->apply = NULL;
    w->run = NULL;
    w->portion = NULL;
    w->mvcc = NULL;
    w->leases = NULL;
    w->members = NULL;
    w->alarms = NULL;
    w->commit_waits = w->snapshot_waits = w->ready = w->stopped = w->up = false;
    w->job = NULL;
    w->written_seq = 0;
    w->sync_due = false;
}

static inline bool member_clients_wait(const struct member_world *w)
{
    for (size_t i = 0; i < MEMBER_CLIENTS_MAX; i++)
        if (w->clients[i].state == CLIENT_WAITS) return true;
    return false;
}

/* Everything handed out is done until nothing is left: no tick, so only what needs no time. */
static inline void member_settle(struct member_world *w)
{
    for (int i = 0; i < 40; i++) {
        member_work(w);
        member_wal_write(w);
        member_wal_sync(w);
        member_commit(w);
        member_compact(w);
        member_snapshot(w);
    }
}

/* A clean end: everybody is answered. */
static inline void member_stop(struct member_world *w)
{
    MEMBER_MUST(node_raft_stop(w->raft) == 0);
    for (int i = 0; i < 200 && !w->stopped; i++)
        member_settle(w);
    MEMBER_MUST(w->stopped);
    MEMBER_MUST(!member_clients_wait(w));
    member_down(w);
}

/* A power cut: of what was not synced `keep` records survive. Clients never hear. */
static inline void member_crash(struct member_world *w, size_t keep)
{
    size_t unsynced = w->rec_count - w->rec_synced;
    if (w->up) {
        MEMBER_MUST(node_raft_stop(w->raft) == 0);
        /* Only to get the waiters back: nothing that is answered now counts. */
        uint64_t acked[MEMBER_KEYS];
        memcpy(acked, w->acked, sizeof acked);
        uint64_t violations = w->violations;
        member_work(w);
        memcpy(w->acked, acked, sizeof acked);
        w->violations = violations;
        if (w->portion != NULL) mvcc_portion_free(w->portion);
        member_down(w);
    }
    recs_cut(w, w->rec_synced + (keep < unsynced ? keep : unsynced));
    w->rec_synced = w->rec_count;
    for (size_t i = 0; i < MEMBER_CLIENTS_MAX; i++)
        w->clients[i].state = CLIENT_DONE;
}

static inline void member_world_deinit(struct member_world *w)
{
    if (w->up) member_crash(w, 0);
    recs_cut(w, 0);
    fake_backend_deinit(&w->store);
    test_heap_check_empty(&w->heap);
}

/* After a restart: whatever was acknowledged is there, and nothing that was never sent. */
static inline void member_check_values(struct member_world *w)
{
    for (unsigned k = 0; k < MEMBER_KEYS; k++) {
        uint64_t v = member_get(w, k);
        if (v < w->acked[k]) member_violation(w, "an acknowledged write is lost");
        if (v > w->sent[k]) member_violation(w, "a value that nobody sent");
    }
}

/* Ticks until the member leads and has applied its log. */
static inline void member_recover(struct member_world *w)
{
    for (int i = 0; i < 100; i++) {
        member_settle(w);
        if (w->ready && atomic_load(&w->status.reads_alone)) return;
        member_tick(w, MEMBER_TICK_NS);
    }
    (void)fprintf(stderr, "not ready: leader %d applied %lu commit %lu fatal '%s'\n",
                  (int)atomic_load(&w->status.leader),
                  (unsigned long)atomic_load(&w->status.applied),
                  (unsigned long)atomic_load(&w->status.commit), w->fatal);
    abort();
}

#endif
