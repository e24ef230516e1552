/* What we write is what upstream would have written: golden logs read, written anew, compared byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "golden.h"
#include "pb/raftpb.h"
#include "shared.h"
#include "simdisk.h"
#include "test_heap.h"
#include "wal/wal.h"
#include "wal/wal_conf.h"
#include "wal/wal_int.h"
#include "wal/wal_read.h"

#define DIR "data/member/wal"

struct world {
    struct test_heap heap;
    struct simdisk *golden;
    struct simdisk *ours;
    struct wal_opts from;
    struct wal_opts to;
};

static void world_init(struct world *w, const char *dir)
{
    test_heap_init(&w->heap);
    w->golden = simdisk_new();
    w->ours = simdisk_new();
    w->from = (struct wal_opts){.disk = simdisk_face(w->golden), .alloc = &w->heap.alloc};
    w->to = (struct wal_opts){.disk = simdisk_face(w->ours), .alloc = &w->heap.alloc};
    golden_unpack(w->golden, dir, "/wal/");
}

static void world_deinit(struct world *w)
{
    test_heap_check_empty(&w->heap);
    simdisk_free(w->golden);
    simdisk_free(w->ours);
}

/* The files of both logs, equal up to the end of the records (the rest is zero in ours). */
static void compare(struct world *w)
{
    struct errmsg em = {0};
    struct wal__segments a = {0};
    struct wal__segments b = {0};
    assert_int_equal(wal__segments_list(&w->from, DIR, &a, &em), 0);
    assert_int_equal(wal__segments_list(&w->to, DIR, &b, &em), 0);
    assert_int_equal(a.count, b.count);
    for (size_t i = 0; i < a.count; i++) {
        char path[128];
        size_t n = 0;
        size_t m = 0;
        assert_string_equal(a.v[i].name, b.v[i].name);
        snprintf(path, sizeof path, "%s/%s", DIR, a.v[i].name);
        uint8_t *want = simdisk_get_file(w->golden, path, &n);
        uint8_t *seen = simdisk_get_file(w->ours, path, &m);
        if (i + 1 < a.count) assert_int_equal(n, m);
        assert_memory_equal(want, seen, n < m ? n : m);
        free(want);
        free(seen);
    }
    wal__segments_deinit(&a);
    wal__segments_deinit(&b);
}

static bool same(const struct wal_view *v, int64_t type, const char *data, size_t n)
{
    return v->type == type && v->data.len == n && memcmp(v->data.data, data, n) == 0;
}

/* The head of the first segment, from which the log is created. */
static struct wal *create_from(struct world *w, struct wal_reader *r)
{
    struct errmsg em = {0};
    struct wal_view v;
    struct wal *log = NULL;
    assert_int_equal(wal_reader_next(r, &v, &em), 0);
    assert_int_equal(v.type, WAL_CRC);
    assert_int_equal(wal_reader_next(r, &v, &em), 0);
    assert_int_equal(v.type, WAL_METADATA);
    assert_int_equal(wal_fs_mkdir_all(w->to.disk, "data/member", &em), 0);
    assert_int_equal(wal_create(&w->to, DIR, v.data, &log, &em), 0);
    assert_int_equal(wal_reader_next(r, &v, &em), 0);
    assert_true(same(&v, WAL_SNAPSHOT, "\x08\x00\x10\x00", 4));
    return log;
}

/* ---- record by record, cut where upstream has cut --------------------------------------------------- */

/* Whether the record is part of a later segment's head; `place` counts from its start. */
static bool is_head(const struct wal_view *v, size_t place)
{
    return place == 0 || place == 1 || (place == 2 && v->type == WAL_STATE);
}

static void copy_records(struct wal *log, struct wal_reader *r)
{
    struct errmsg em = {0};
    struct wal_view v;
    uint64_t seq = 0;
    size_t place = 3;
    int rc;
    while ((rc = wal_reader_next(r, &v, &em)) == 0) {
        if (v.seq != seq) {
            seq = v.seq;
            place = 0;
            assert_int_equal(wal__cut(log, &em), 0);
        }
        if (seq == 0 || !is_head(&v, place)) {
            struct wal_record one = {(enum wal_type)v.type, v.data};
            assert_int_equal(wal_append(log, &one, 1, &em), 0);
        }
        bool in_head = seq > 0 && is_head(&v, place++);
        if (!in_head) assert_int_equal(wal_offset(log), v.end_offset);
    }
    assert_int_equal(rc, E_NOTFOUND);
}

static bool starts_at_zero(struct world *w)
{
    return simdisk_exists(w->golden, DIR "/0000000000000000-0000000000000000.wal");
}

static void test_records(void **state)
{
    struct world w;
    struct errmsg em = {0};
    world_init(&w, *state);
    if (starts_at_zero(&w)) {
        struct wal_reader *r;
        assert_int_equal(wal_reader_open_all(&w.from, DIR, &r, &em), 0);
        struct wal *log = create_from(&w, r);
        copy_records(log, r);
        wal_reader_close(r);
        assert_int_equal(wal_close(log, &em), 0);
        compare(&w);
    }
    world_deinit(&w);
}

/* ---- as a server saves, cut by size ----------------------------------------------------------------- */

struct batch {
    struct raft_entry entries[64];
    size_t count;
};

static void save(struct wal *log, struct batch *b, const struct raft_hard_state *state)
{
    struct errmsg em = {0};
    assert_int_equal(wal_save(log, state, b->entries, b->count, &em), 0);
    if (wal_sync_due(log)) assert_int_equal(wal_sync(log, &em), 0);
    for (size_t i = 0; i < b->count; i++)
        rcbuf_unref(b->entries[i].data);
    b->count = 0;
}

static void take_entry(struct world *w, struct batch *b, struct bytes data)
{
    struct pb_entry e;
    assert_int_equal(pb_entry_decode(data, &e), 0);
    assert_true(b->count < 64);
    struct raft_entry *to = &b->entries[b->count++];
    *to = (struct raft_entry){e.term, e.index, (enum raft_entry_type)e.type, NULL};
    if (e.data.len > 0) to->data = rcbuf_copy(&w->heap.alloc, e.data);
}

static void save_snapshot(struct world *w, struct wal *log, struct bytes data)
{
    struct errmsg em = {0};
    struct arena arena;
    struct pb_wal_snapshot s;
    struct raft_conf_state conf;
    arena_init(&arena, &w->heap.alloc, 1 << 16);
    assert_int_equal(pb_wal_snapshot_decode(data, &arena, &s), 0);
    assert_int_equal(wal_conf_from(&s.conf_state, &conf), 0);
    assert_int_equal(wal_save_snapshot(log, (struct wal_snapshot){s.index, s.term}, &conf, &em), 0);
    assert_true(wal_sync_due(log));
    assert_int_equal(wal_sync(log, &em), 0);
    arena_deinit(&arena);
}

/* A sole member saves its entries first; the commit index follows in a batch of its own. */
static void save_all(struct world *w, struct wal *log, struct wal_reader *r)
{
    struct errmsg em = {0};
    struct batch b = {.count = 0};
    struct wal_view v;
    uint64_t seq = 0;
    size_t place = 3;
    while (wal_reader_next(r, &v, &em) == 0) {
        if (v.seq != seq) place = 0;
        seq = v.seq;
        struct pb_hard_state s;
        bool head = seq > 0 && is_head(&v, place++);
        if (head) continue;
        if (v.type == WAL_ENTRY) take_entry(w, &b, v.data);
        if (v.type == WAL_SNAPSHOT) save_snapshot(w, log, v.data);
        if (v.type == WAL_STATE) {
            assert_int_equal(pb_hard_state_decode(v.data, &s), 0);
            struct raft_hard_state hs = {s.term, s.vote, s.commit};
            if (b.count > 0) save(log, &b, NULL);
            save(log, &b, &hs);
        }
        assert_true(wal_segment_seq(log) >= seq);
    }
    if (b.count > 0) save(log, &b, NULL);
}

static void as_server(const char *dir, uint64_t segment_bytes)
{
    struct world w;
    struct errmsg em = {0};
    char path[SHARED_PATH_BYTES_MAX];
    SHARED_OR_SKIP(dir, path);
    world_init(&w, dir);
    w.to.segment_bytes = segment_bytes;
    struct wal_reader *r;
    assert_int_equal(wal_reader_open_all(&w.from, DIR, &r, &em), 0);
    struct wal *log = create_from(&w, r);
    save_all(&w, log, r);
    wal_reader_close(r);
    assert_int_equal(wal_close(log, &em), 0);
    assert_false(simdisk_exists(w.ours, DIR "/0.tmp"));
    compare(&w);
    world_deinit(&w);
}

static void test_saves_basic(void **state)
{
    as_server("golden/datadir/v37-basic", 0);
}

static void test_saves_snapcount(void **state)
{
    as_server("golden/datadir/v37-snapcount", 0);
}

static void test_saves_two_real_cuts(void **state)
{
    as_server("golden/datadir/v37-walcut", 0);
}

static struct golden_dirs found;

int main(void)
{
    static struct CMUnitTest tests[GOLDEN_DIRS_MAX + 3];
    size_t n = 0;
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_saves_basic);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_saves_snapcount);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_saves_two_real_cuts);
    golden_find(&found, "datadir");
    for (size_t i = 0; i < found.count; i++) {
        tests[n].name = found.path[i];
        tests[n].test_func = test_records;
        tests[n++].initial_state = found.path[i];
    }
    return _cmocka_run_group_tests("wal/rewrite", tests, n, NULL, NULL);
}
