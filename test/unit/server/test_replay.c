/* Logs of etcd 3.6 and 3.7, applied from their first entry on: the store must come out as
 * upstream's did.
 *
 * HashKV covers every stored revision, Hash every bucket (members, leases, alarms, compaction
 * marks, conf state too). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "alarm/alarm.h"
#include "apply/apply.h"
#include "backend/memory.h"
#include "base/err.h"
#include "golden.h"
#include "lease/lease.h"
#include "membership/membership.h"
#include "mvcc/compact.h"
#include "os/heap.h"
#include "wal/wal_read.h"

enum { NODES_MAX = 16 };

struct node_set {
    uint64_t ids[NODES_MAX];
    size_t count;
};

struct world {
    const struct alloc *alloc;
    struct backend_memory *memory;
    struct backend face;
    struct mvcc *m;
    struct lease_table *leases;
    struct apply *apply;
    struct node_set voters, learners;
    struct wal_contents log;
};

static void no_lock(void *arg)
{
}

static const struct rwlock lock = {no_lock, no_lock, no_lock, no_lock, NULL};

static void world_open(struct world *w)
{
    *w = (struct world){.alloc = &os_heap, .log = WAL_CONTENTS_EMPTY};
    w->memory = backend_memory_new(w->alloc);
    assert_non_null(w->memory);
    w->face = backend_memory_face(w->memory);
    struct errmsg em = {{0}};
    struct mvcc_opts mo = {
        .alloc = w->alloc, .index_lock = &lock, .backend = &w->face, .run_bytes_max = 1 << 30};
    assert_int_equal(mvcc_open(&mo, &w->m, &em), 0);
    struct lease_config lc = {.ttl_s_min = 2, .retry_ns = 1};
    assert_int_equal(lease_new(&lc, w->alloc, &w->leases), 0);
    struct apply_start start = {.consistent_index = 0};
    struct membership_content nobody = {.member_count = 0};
    assert_int_equal(membership_new(w->alloc, &nobody, &start.members), 0);
    assert_int_equal(alarm_new(w->alloc, &start.alarms), 0);
    struct apply_config c = {.mvcc = w->m,
                             .leases = w->leases,
                             .quota_bytes = -1,
                             .learners_max = 1,
                             .server_version = "3.7.0",
                             .alloc = w->alloc};
    assert_int_equal(apply_new(&c, &start, &w->apply, &em), 0);
    membership_unref(start.members);
    alarm_unref(start.alarms);
}

static void world_close(struct world *w)
{
    apply_free(w->apply);
    lease_free(w->leases);
    mvcc_free(w->m);
    wal_contents_deinit(&w->log);
    backend_memory_free(w->memory);
}

/* ---- raft's part: the configuration ---------------------------------------------------------- */

static void set_drop(struct node_set *s, uint64_t id)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->ids[i] != id) s->ids[n++] = s->ids[i];
    }
    s->count = n;
}

static void set_add(struct node_set *s, uint64_t id)
{
    set_drop(s, id);
    assert_true(s->count < NODES_MAX);
    size_t at = s->count++;
    for (; at > 0 && s->ids[at - 1] > id; at--) {
        s->ids[at] = s->ids[at - 1];
    }
    s->ids[at] = id;
}

static void switch_conf(struct world *w, const struct pb_conf_change *cc)
{
    if (cc->node_id != 0 && cc->type != PB_UPDATE_NODE) {
        set_drop(&w->voters, cc->node_id);
        set_drop(&w->learners, cc->node_id);
        if (cc->type == PB_ADD_NODE) set_add(&w->voters, cc->node_id);
        if (cc->type == PB_ADD_LEARNER_NODE) set_add(&w->learners, cc->node_id);
    }
    struct pb_conf_state now = {.voters = {w->voters.ids, w->voters.count},
                                .learners = {w->learners.ids, w->learners.count}};
    apply_conf_done(w->apply, &now);
}

/* The configuration that the first entries found: they are committed by fiat, all of them voters at
 * once. */
static void first_conf(struct world *w)
{
    for (size_t i = 0; i < w->log.entry_count; i++) {
        const struct raft_entry *e = &w->log.entries[i];
        struct pb_conf_change cc;
        if (e->term != 1 || e->type != RAFT_ENTRY_CONF_CHANGE) return;
        assert_int_equal(pb_conf_change_decode(rcbuf_bytes(e->data), &cc), 0);
        set_add(&w->voters, cc.node_id);
    }
}

/* ---- the log --------------------------------------------------------------------------------- */

static enum apply_state apply_one(struct world *w, const struct raft_entry *e,
                                  struct apply_output *out)
{
    struct apply_entry entry = {
        .index = e->index, .term = e->term, .type = (int32_t)e->type, .data = rcbuf_bytes(e->data)};
    apply_begin(w->apply, &entry);
    enum apply_state s;
    do {
        uint32_t budget = 5;
        s = apply_step(w->apply, 0, &budget, out);
        if (s == APPLY_CONF) switch_conf(w, &out->conf);
    } while (s == APPLY_MORE || s == APPLY_CONF);
    apply_result_free(out->result);
    return s;
}

static void commit(struct world *w, struct mvcc_portion *portion)
{
    struct errmsg em = {{0}};
    struct mvcc_run *run = NULL;
    assert_int_equal(mvcc_run_swap(w->m, &run), 0);
    struct backend_tx *tx = NULL;
    assert_int_equal(w->face.begin(w->face.arg, &tx, &em), 0);
    if (run != NULL) assert_int_equal(mvcc_run_write(run, &w->face, tx, &em), 0);
    if (portion != NULL) assert_int_equal(mvcc_portion_write(portion, &w->face, tx, &em), 0);
    assert_int_equal(w->face.commit(tx, &em), 0);
    if (run != NULL) mvcc_run_retire(w->m, run);
    mvcc_portion_free(portion);
}

/* Upstream compacts in the background; the golden servers had the time to finish each. */
static void compact(struct world *w)
{
    struct errmsg em = {{0}};
    struct mvcc_compact *c = NULL;
    commit(w, NULL);
    assert_int_equal(mvcc_compact_begin(w->m, &c), 0);
    if (c == NULL) return;
    for (int more = 1; more == 1;) {
        struct mvcc_portion *portion = NULL;
        more = mvcc_compact_list(c, 1000, &portion, &em);
        assert_true(more >= 0);
        if (portion != NULL) commit(w, portion);
    }
    while (mvcc_compact_prune(c, 1000) == 1) {}
    mvcc_compact_end(c);
}

/* Applies what is committed; true at the end, false when an entry with users or roles stopped it.
 */
static bool apply_log(struct world *w)
{
    for (size_t i = 0; i < w->log.entry_count; i++) {
        const struct raft_entry *e = &w->log.entries[i];
        if (e->index > w->log.hard_state.commit) break;
        struct apply_output out;
        enum apply_state s = apply_one(w, e, &out);
        if (s == APPLY_FATAL && strstr(out.fatal, "does not support authentication") != NULL) {
            return false;
        }
        if (s != APPLY_DONE) fail_msg("%s", out.fatal);
        if (out.compacted) compact(w);
    }
    commit(w, NULL);
    return true;
}

static struct json_object *get(struct json_object *o, const char *key)
{
    struct json_object *v = NULL;
    return json_object_object_get_ex(o, key, &v) ? v : NULL;
}

static int64_t get_int(struct json_object *o, const char *key)
{
    return json_object_get_int64(get(o, key));
}

/* Returns how many of the expected hashes could be asked for. */
static unsigned compare_hashkv(struct world *w, struct json_object *expected)
{
    unsigned compared = 0;
    struct json_object *list = get(get(expected, "db"), "hashkv");
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        if (get(one, "error") != NULL) continue;
        /* A killed server's db may be older than its log, and compacted less. */
        if (get_int(one, "compactRevision") != mvcc_compacted(w->m)) continue;
        /* The remembered hash of the compaction itself has an older compact revision. */
        if (get_int(one, "hashRevision") == mvcc_compacted(w->m)) continue;
        struct mvcc_hash h;
        struct errmsg em = {{0}};
        assert_int_equal(mvcc_hash_open(w->m, get_int(one, "hashRevision"), &h), 0);
        int rc = 1;
        while (rc == 1) {
            rc = mvcc_hash_step(&h, 100, &em);
        }
        assert_int_equal(rc, 0);
        assert_int_equal(h.answer.hash, get_int(one, "hash"));
        mvcc_hash_close(&h);
        compared++;
    }
    return compared;
}

static uint32_t hash_of_all(struct world *w)
{
    struct errmsg em = {{0}};
    struct backend_tx *tx = NULL;
    /* What a first boot writes beside the log. */
    assert_int_equal(w->face.begin(w->face.arg, &tx, &em), 0);
    assert_int_equal(w->face.put(tx, TABLE_AUTH, bytes_str("authRevision"),
                                 bytes_of("\0\0\0\0\0\0\0\1", 8), &em),
                     0);
    assert_int_equal(w->face.commit(tx, &em), 0);
    struct backend_read *read = NULL;
    assert_int_equal(w->face.read_begin(w->face.arg, &read, &em), 0);
    uint32_t hash = 0;
    assert_int_equal(mvcc_hash_all(&w->face, read, &hash), 0);
    w->face.read_end(read);
    return hash;
}

struct tally {
    unsigned dirs, hashes, whole, with_users;
};

static void replay(const char *dir, struct tally *t)
{
    struct simdisk *disk = simdisk_new();
    golden_unpack(disk, dir, "/wal/");
    struct world w;
    world_open(&w);
    struct wal_opts o = {.disk = simdisk_face(disk), .alloc = w.alloc};
    struct errmsg em = {{0}};
    int rc = wal_read(&o, "data/member/wal", (struct wal_snapshot){.index = 0}, &w.log, &em);
    if (rc == 0 && w.log.entry_count > 0 && w.log.entries[0].index == 1) {
        struct json_object *expected = golden_expected(dir);
        first_conf(&w);
        t->dirs++;
        bool whole = apply_log(&w);
        t->with_users += !whole;
        unsigned n = whole ? compare_hashkv(&w, expected) : 0;
        t->hashes += n;
        int64_t want = get_int(get(expected, "db"), "dump_db_hash");
        bool same = whole && hash_of_all(&w) == want;
        t->whole += same;
        print_message("%s: %zu entries, %u hashes%s%s\n", dir, w.log.entry_count, n,
                      same ? ", every bucket" : "", whole ? "" : ", stops at users");
        json_object_put(expected);
    }
    world_close(&w);
    simdisk_free(disk);
}

static void test_golden_logs_make_upstreams_stores(void **state)
{
    struct golden_dirs g;
    golden_find(&g, "datadir");
    if (g.count == 0) {
        print_message("SKIP: no ../shared/golden here\n");
        skip();
    }
    struct tally t = {0, 0, 0, 0};
    for (size_t i = 0; i < g.count; i++) {
        replay(g.path[i], &t);
    }
    print_message("%u logs, %u hashes, %u equal in every bucket, %u with users\n", t.dirs, t.hashes,
                  t.whole, t.with_users);
    assert_true(t.dirs >= 30);
    assert_true(t.hashes >= 284);
    assert_true(t.whole >= 24); /* the others were killed: their dbs are older than their logs */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_logs_make_upstreams_stores),
    };
    return cmocka_run_group_tests_name("server: replay of golden logs", tests, NULL, NULL);
}
