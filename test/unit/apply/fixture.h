/* A whole ring 1 over a store in memory: entries go in, outputs and rows are looked at. */
#ifndef TEST_UNIT_APPLY_FIXTURE_H
#define TEST_UNIT_APPLY_FIXTURE_H

#include "build.h"

#include "alarm/alarm.h"
#include "apply/apply.h"
#include "base/err.h"
#include "lease/lease.h"
#include "membership/membership.h"
#include "membershippb.pb-c.h"
#include "pb/pack.h"
#include "test_heap.h"

/* ---- the store: sorted rows, committed as they come ------------------------------------------ */

struct store_row {
    enum table table;
    struct bytes key, value;
};

struct store {
    struct arena a;
    struct store_row *rows;
    size_t count, cap;
    unsigned reads_open;
    struct backend face;
};

static inline bool store_find(const struct store *s, enum table t, struct bytes key, size_t *at)
{
    size_t lo = 0;
    size_t hi = s->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = s->rows[mid].table != t ? (s->rows[mid].table < t ? -1 : 1)
                                        : bytes_cmp(s->rows[mid].key, key);
        if (c == 0) {
            *at = mid;
            return true;
        }
        if (c < 0) lo = mid + 1;
        if (c > 0) hi = mid;
    }
    *at = lo;
    return false;
}

static inline int store_put(struct backend_tx *tx, enum table t, struct bytes key,
                            struct bytes value, struct errmsg *em)
{
    struct store *s = (struct store *)tx;
    size_t at;
    if (!store_find(s, t, key, &at)) {
        if (s->count == s->cap) {
            size_t cap = s->cap == 0 ? 64 : 2 * s->cap;
            struct store_row *rows = arena_new(&s->a, cap * sizeof *rows);
            if (s->count > 0) memcpy(rows, s->rows, s->count * sizeof *rows);
            s->rows = rows;
            s->cap = cap;
        }
        memmove(s->rows + at + 1, s->rows + at, (s->count - at) * sizeof *s->rows);
        s->rows[at] = (struct store_row){.table = t, .key = arena_copy(&s->a, key)};
        s->count++;
    }
    s->rows[at].value = arena_copy(&s->a, value);
    return 0;
}

static inline int store_del(struct backend_tx *tx, enum table t, struct bytes key,
                            struct errmsg *em)
{
    struct store *s = (struct store *)tx;
    size_t at;
    if (!store_find(s, t, key, &at)) return 0;
    s->count--;
    memmove(s->rows + at, s->rows + at + 1, (s->count - at) * sizeof *s->rows);
    return 0;
}

static inline int store_read_begin(void *arg, struct backend_read **out, struct errmsg *em)
{
    struct store *s = arg;
    s->reads_open++;
    *out = (struct backend_read *)s;
    return 0;
}

static inline void store_read_end(struct backend_read *r)
{
    ((struct store *)r)->reads_open--;
}

static inline int store_get(struct backend_read *r, enum table t, struct bytes key,
                            struct bytes *value)
{
    const struct store *s = (const struct store *)r;
    size_t at;
    if (!store_find(s, t, key, &at)) return E_NOTFOUND;
    *value = s->rows[at].value;
    return 0;
}

/* The value of a row, empty span with NULL when absent. */
static inline struct bytes store_value(const struct store *s, enum table t, const char *key)
{
    size_t at;
    return store_find(s, t, bytes_str(key), &at) ? s->rows[at].value : BYTES_EMPTY;
}

/* ---- the world ------------------------------------------------------------------------------- */

#define SELF 0xa1

struct world {
    struct test_heap store_heap; /* of what the test itself holds */
    struct test_heap heap;       /* of the code under test */
    struct arena a;
    struct store store;
    struct mvcc *m;
    struct lease_table *leases;
    struct apply *apply;
    uint64_t index, term, request_id;
    uint32_t budget;
    bool nobody_waits;
    unsigned steps; /* calls of apply_step() for the last entry */
    struct apply_output out;
    struct pb_conf_state conf; /* what raft answers */
    size_t run_bytes_max;
    int64_t quota_bytes;
    uint64_t consistent;
};

static inline void no_lock(void *arg)
{
}

static const struct rwlock fixture_lock = {no_lock, no_lock, no_lock, no_lock, NULL};

static inline bool world_waits(void *arg, uint64_t request_id)
{
    const struct world *w = arg;
    return !w->nobody_waits;
}

static inline void world_init(struct world *w)
{
    *w = (struct world){.budget = UINT32_MAX, .term = 1, .run_bytes_max = (size_t)1 << 30};
    test_heap_init(&w->store_heap);
    test_heap_init(&w->heap);
    arena_init(&w->a, &w->store_heap.alloc, (size_t)1 << 32);
    arena_init(&w->store.a, &w->store_heap.alloc, (size_t)1 << 32);
    w->store.face = (struct backend){.put = store_put,
                                     .del = store_del,
                                     .read_begin = store_read_begin,
                                     .read_end = store_read_end,
                                     .get = store_get,
                                     .arg = &w->store};
}

static inline int world_tables(struct world *w, struct membership **members, struct alarms **alarms)
{
    const struct alloc *alloc = &w->heap.alloc;
    struct mvcc_opts mo = {.alloc = alloc,
                           .index_lock = &fixture_lock,
                           .backend = &w->store.face,
                           .run_bytes_max = w->run_bytes_max};
    struct errmsg em = {{0}};
    int rc = mvcc_load_begin(&mo, &w->m);
    if (rc == 0)
        rc = mvcc_load_end(w->m, &(struct mvcc_meta){.finished_compact_rev = BYTES_EMPTY}, &em);
    struct lease_config lc = {.ttl_s_min = 2, .retry_ns = 1};
    if (rc == 0) rc = lease_new(&lc, alloc, &w->leases);
    struct bytes url = bytes_str("http://self:2380");
    struct member self = {.id = SELF, .peer_urls = &url, .peer_url_count = 1};
    struct membership_content content = {.members = &self, .member_count = 1};
    if (rc == 0) rc = membership_new(alloc, &content, members);
    if (rc == 0) rc = alarm_new(alloc, alarms);
    return rc;
}

/* What world_close() takes down again, also after a failure midway. */
static inline int world_start(struct world *w)
{
    struct membership *members = NULL;
    struct alarms *alarms = NULL;
    int rc = world_tables(w, &members, &alarms);
    struct apply_config c = {.member_id = SELF,
                             .mvcc = w->m,
                             .leases = w->leases,
                             .quota_bytes = w->quota_bytes,
                             .learners_max = 1,
                             .server_version = "3.7.0",
                             .waits = world_waits,
                             .waits_arg = w,
                             .alloc = &w->heap.alloc};
    struct apply_start start = {.consistent_index = w->consistent,
                                .consistent_term = w->consistent == 0 ? 0 : 1,
                                .members = members,
                                .alarms = alarms};
    struct errmsg em = {{0}};
    if (rc == 0) rc = apply_new(&c, &start, &w->apply, &em);
    membership_unref(members);
    alarm_unref(alarms);
    return rc;
}

static inline void world_open(struct world *w)
{
    world_init(w);
    assert_int_equal(world_start(w), 0);
}

static inline void world_stop(struct world *w)
{
    apply_result_free(w->out.result);
    w->out.result = NULL;
    apply_free(w->apply);
    lease_free(w->leases);
    mvcc_free(w->m);
    w->apply = NULL;
    w->leases = NULL;
    w->m = NULL;
}

static inline void world_close(struct world *w)
{
    world_stop(w);
    test_heap_check_empty(&w->heap);
    assert_int_equal(w->store.reads_open, 0);
    arena_deinit(&w->a);
    arena_deinit(&w->store.a);
    test_heap_check_empty(&w->store_heap);
}

/* All that is sealed into the store. */
static inline void world_commit(struct world *w)
{
    struct mvcc_run *run = NULL;
    struct errmsg em = {{0}};
    assert_int_equal(mvcc_run_swap(w->m, &run), 0);
    if (run == NULL) return;
    assert_int_equal(mvcc_run_write(run, &w->store.face, (struct backend_tx *)&w->store, &em), 0);
    mvcc_run_retire(w->m, run);
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Steps the entry to its end; answers conf changes with w->conf. */
static inline enum apply_state world_finish(struct world *w)
{
    enum apply_state s;
    apply_result_free(w->out.result);
    w->out.result = NULL;
    w->steps = 0;
    do {
        uint32_t budget = w->budget;
        s = apply_step(w->apply, 0, &budget, &w->out);
        w->steps++;
        if (s == APPLY_CONF) apply_conf_done(w->apply, &w->conf);
    } while (s == APPLY_MORE || s == APPLY_CONF);
    return s;
}

static inline enum apply_state feed_typed(struct world *w, int32_t type, struct bytes data)
{
    struct apply_entry e = {.index = ++w->index, .term = w->term, .type = type, .data = data};
    apply_begin(w->apply, &e);
    return world_finish(w);
}

static inline enum apply_state feed_bytes(struct world *w, struct bytes data)
{
    return feed_typed(w, PB_ENTRY_NORMAL, data);
}

/* The bytes of a request, with a header and the next id. */
static inline struct bytes pack_request(struct world *w, Etcdserverpb__InternalRaftRequest *r)
{
    Etcdserverpb__RequestHeader h;
    etcdserverpb__request_header__init(&h);
    h.id = ++w->request_id;
    r->header = &h;
    struct buf out;
    buf_init(&out, &w->store_heap.alloc, (size_t)1 << 30);
    assert_int_equal(pb_pack(&r->base, &out), 0);
    struct bytes data = arena_copy(&w->a, buf_bytes(&out));
    buf_deinit(&out);
    return data;
}

static inline enum apply_state feed(struct world *w, Etcdserverpb__InternalRaftRequest *r)
{
    return feed_bytes(w, pack_request(w, r));
}

#define REQUEST(name)                                                                              \
    Etcdserverpb__InternalRaftRequest name = ETCDSERVERPB__INTERNAL_RAFT_REQUEST__INIT

static inline enum apply_state feed_put(struct world *w, Etcdserverpb__PutRequest *p)
{
    REQUEST(r);
    r.put = p;
    return feed(w, &r);
}

static inline enum apply_state feed_txn(struct world *w, txn_request *t)
{
    REQUEST(r);
    r.txn = t;
    return feed(w, &r);
}

/* A put that must succeed. */
static inline void put(struct world *w, const char *key, const char *value)
{
    assert_int_equal(feed_put(w, put_of(&w->a, key, value)), APPLY_DONE);
    if (w->out.result != NULL) assert_int_equal(w->out.result->error, 0);
}

/* The row `k` of the op `i` of the last result. */
static inline struct pb_kv row_of(struct apply_result *r, size_t i, size_t k)
{
    struct bytes raw;
    struct pb_kv kv;
    struct errmsg em = {{0}};
    assert_true(k < r->ops[i].row_count);
    assert_int_equal(mvcc_view_kv(r->ops[i].view, &r->ops[i].rows[k], &raw, &em), 0);
    assert_int_equal(pb_kv_decode(raw, &kv), 0);
    return kv;
}

static inline void assert_span(struct bytes got, const char *want)
{
    if (!bytes_eq(got, bytes_str(want))) {
        fail_msg("expected \"%s\", got \"%.*s\"", want, (int)got.len, (const char *)got.data);
    }
}

#endif
