/* Logs written by etcd 3.6 and 3.7, whole and damaged, against what upstream's own library says about them. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "base/err.h"
#include "golden.h"
#include "pb/raftpb.h"
#include "shared.h"
#include "simdisk.h"
#include "test_heap.h"
#include "wal/wal.h"
#include "wal/wal_read.h"

#define DIR "data/member/wal"

struct world {
    struct test_heap heap;
    struct simdisk *disk;
    struct wal_opts o;
};

static void world_init(struct world *w, const char *dir)
{
    test_heap_init(&w->heap);
    w->disk = simdisk_new();
    w->o = (struct wal_opts){.disk = simdisk_face(w->disk), .alloc = &w->heap.alloc};
    golden_unpack(w->disk, dir, "/wal/");
}

static void world_deinit(struct world *w)
{
    test_heap_check_empty(&w->heap);
    simdisk_free(w->disk);
}

/* ---- expected values -------------------------------------------------------------------------------- */

static struct json_object *get(struct json_object *o, const char *key)
{
    struct json_object *v = NULL;
    return json_object_object_get_ex(o, key, &v) ? v : NULL;
}

static uint64_t get_u64(struct json_object *o, const char *key)
{
    return json_object_get_uint64(get(o, key));
}

static uint64_t get_hex(struct json_object *o, const char *key)
{
    return strtoull(json_object_get_string(get(o, key)), NULL, 16);
}

static uint64_t pair(struct json_object *o, size_t i)
{
    return json_object_get_uint64(json_object_array_get_idx(o, i));
}

/* The kind of golden/README.md that an error is. */
static const char *kind(int rc)
{
    switch (rc) {
    case 0: return "ok";
    case E_EOF: return "unexpected-eof";
    case E_WAL_CRC: return "crc-mismatch";
    case E_WAL_SNAPSHOT_NOT_FOUND: return "snapshot-not-found";
    case E_WAL_SNAPSHOT_MISMATCH: return "snapshot-mismatch";
    case E_WAL_HOLE: return "slice-out-of-range";
    case E_WAL_METADATA: return "metadata-conflict";
    case E_WAL_FILE_NOT_FOUND: return "file not found which matches";
    case E_WAL_SEQUENCE: return "do not increase continuously";
    default: return err_symbol(rc);
    }
}

/* Kinds that the README has no name for stand in the text behind "other: ". */
static void check_kind(struct json_object *answer, int rc)
{
    struct json_object *e = get(answer, "open_error");
    if (e == NULL) e = get(answer, "error");
    const char *want = json_object_get_string(e);
    if (strncmp(want, "other: ", 7) == 0) {
        if (strstr(want, kind(rc)) == NULL)
            fail_msg("expected \"%s\", seen \"%s\"", want, kind(rc));
    } else {
        assert_string_equal(kind(rc), want);
    }
}

static void check_state(struct json_object *answer, struct raft_hard_state s)
{
    struct json_object *hs = get(answer, "hardstate");
    if (hs == NULL) return;
    assert_int_equal(s.term, get_u64(hs, "term"));
    assert_int_equal(s.commit, get_u64(hs, "commit"));
    assert_int_equal(s.vote, get_hex(hs, "vote"));
}

static void check_contents(struct json_object *answer, int rc, const struct wal_contents *c)
{
    check_kind(answer, rc);
    if (get(answer, "open_error") != NULL) return;
    check_state(answer, c->hard_state);
    assert_int_equal(c->entry_count, get_u64(answer, "entries"));
    if (c->entry_count > 0) {
        assert_int_equal(c->entries[0].index, get_u64(answer, "first"));
        assert_int_equal(c->entries[c->entry_count - 1].index, get_u64(answer, "last"));
    }
    const char *metadata = json_object_get_string(get(answer, "metadata"));
    assert_int_equal(strlen(metadata), 2 * c->metadata_len);
    for (size_t i = 0; i < c->metadata_len; i++) {
        char two[3] = {metadata[2 * i], metadata[2 * i + 1], 0};
        assert_int_equal(strtoul(two, NULL, 16), c->metadata[i]);
    }
}

/* ---- what is asked ---------------------------------------------------------------------------------- */

static void check_scan(struct world *w, struct json_object *wal)
{
    uint64_t types[8] = {0};
    uint64_t records = 0;
    uint64_t last_index = 0;
    size_t snapshots = 0;
    struct json_object *want = get(wal, "snapshot_records");
    struct errmsg em = {0};
    struct wal_reader *r;
    assert_int_equal(wal_reader_open_all(&w->o, DIR, &r, &em), 0);
    struct wal_view v;
    int rc;
    while ((rc = wal_reader_next(r, &v, &em)) == 0) {
        struct pb_entry e;
        struct pb_metadata m;
        records++;
        types[v.type]++;
        if (v.type == WAL_ENTRY) {
            assert_int_equal(pb_entry_decode(v.data, &e), 0);
            last_index = e.index;
        }
        if (v.type == WAL_METADATA) {
            assert_int_equal(pb_metadata_decode(v.data, &m), 0);
            assert_int_equal(m.node_id, get_hex(wal, "node_id"));
            assert_int_equal(m.cluster_id, get_hex(wal, "cluster_id"));
        }
        if (v.type == WAL_SNAPSHOT) {
            struct arena arena;
            arena_init(&arena, &w->heap.alloc, 1 << 20);
            struct pb_wal_snapshot s;
            assert_int_equal(pb_wal_snapshot_decode(v.data, &arena, &s), 0);
            struct json_object *one = json_object_array_get_idx(want, snapshots++);
            assert_int_equal(s.index, pair(one, 0));
            assert_int_equal(s.term, pair(one, 1));
            arena_deinit(&arena);
        }
    }
    assert_int_equal(rc, E_NOTFOUND);
    assert_int_equal(records, get_u64(wal, "records"));
    for (int t = 1; t < 8; t++) {
        char name[16];
        snprintf(name, sizeof name, "%d", t);
        assert_int_equal(types[t], get_u64(get(wal, "record_types"), name));
    }
    assert_int_equal(snapshots, json_object_array_length(want));
    assert_int_equal(last_index, get_u64(wal, "last_index"));
    assert_int_equal(wal_reader_offset(r), get_u64(wal, "end_offset"));
    assert_int_equal(wal_reader_segment_count(r), json_object_array_length(get(wal, "segments")));
    wal_reader_close(r);
}

static void check_snapshots(struct world *w, struct json_object *answer)
{
    struct wal_snapshot *list = NULL;
    size_t n = 0;
    struct errmsg em = {0};
    int rc = wal_snapshots(&w->o, DIR, &list, &n, &em);
    check_kind(answer, rc);
    struct json_object *want = get(answer, "snapshots");
    assert_int_equal(n, want == NULL ? 0 : json_object_array_length(want));
    for (size_t i = 0; i < n; i++) {
        struct json_object *one = json_object_array_get_idx(want, i);
        assert_int_equal(list[i].index, pair(one, 0));
        assert_int_equal(list[i].term, pair(one, 1));
    }
    wal_snapshots_free(&w->o, list, n);
}

static struct wal_snapshot start_of(struct json_object *wal)
{
    struct json_object *start = get(get(wal, "verify"), "start");
    return (struct wal_snapshot){pair(start, 0), pair(start, 1)};
}

static void check_readers(struct world *w, struct json_object *wal)
{
    struct errmsg em = {0};
    struct wal_contents c = WAL_CONTENTS_EMPTY;
    struct raft_hard_state s = {0};
    check_snapshots(w, get(wal, "valid_snapshot_entries"));
    int rc = wal_verify(&w->o, DIR, start_of(wal), &s, &em);
    check_kind(get(wal, "verify"), rc);
    if (rc == 0) check_state(get(wal, "verify"), s);
    rc = wal_read(&w->o, DIR, start_of(wal), &c, &em);
    check_contents(get(wal, "readall_readonly"), rc, &c);
    wal_contents_deinit(&c);
}

static void check_writer(struct world *w, struct json_object *wal, const char *key)
{
    struct errmsg em = {0};
    struct wal_contents c = WAL_CONTENTS_EMPTY;
    struct wal *log = NULL;
    int rc = wal_open(&w->o, DIR, start_of(wal), &c, &log, &em);
    check_contents(get(wal, key), rc, &c);
    wal_contents_deinit(&c);
    assert_int_equal(wal_close(log, &em), 0);
}

/* ---- whole logs ------------------------------------------------------------------------------------- */

static void test_datadir(void **state)
{
    struct world w;
    world_init(&w, *state);
    struct json_object *expected = golden_expected(*state);
    struct json_object *wal = get(expected, "wal");
    check_scan(&w, wal);
    check_readers(&w, wal);
    check_writer(&w, wal, "readall_write");
    check_scan(&w, wal);
    json_object_put(expected);
    world_deinit(&w);
}

/* ---- damaged logs ----------------------------------------------------------------------------------- */

static uint64_t size_of(struct world *w, const char *name)
{
    char path[128];
    struct disk_stat st = {0};
    snprintf(path, sizeof path, "%s/%s", DIR, name);
    if (w->o.disk->stat(w->o.disk->arg, path, &st) != 0) fail_msg("%s is missing", path);
    return st.size_bytes;
}

/* Segments and .broken copies. An empty last segment is the one place where we write what upstream does not: a head,
 * so that it can be read without the segment before. */
static void check_sizes(struct world *w, struct json_object *sizes)
{
    json_object_object_foreach(sizes, name, size)
    {
        if (strstr(name, ".wal") == NULL) continue;
        uint64_t want = json_object_get_uint64(size);
        if (want == 0)
            assert_true(size_of(w, name) > 0);
        else
            assert_int_equal(size_of(w, name), want);
    }
}

static void check_repair(struct world *w, struct json_object *library)
{
    struct errmsg em = {0};
    bool repaired = false;
    int rc = wal_repair(&w->o, DIR, &repaired, &em);
    assert_int_equal(rc == 0, json_object_get_boolean(get(library, "repair")));
    const char *before = json_object_get_string(get(get(library, "readall_write"), "error"));
    if (before != NULL) assert_int_equal(repaired, strcmp(before, "unexpected-eof") == 0);
    check_sizes(w, get(library, "sizes_after_repair"));
}

static void test_damaged(void **state)
{
    struct world w;
    world_init(&w, *state);
    struct json_object *expected = golden_expected(*state);
    struct json_object *library = get(expected, "library");
    check_readers(&w, library);
    check_writer(&w, library, "readall_write");
    check_sizes(&w, get(library, "sizes_before_repair"));
    check_repair(&w, library);
    check_writer(&w, library, "readall_write_after_repair");
    json_object_put(expected);
    world_deinit(&w);
}

/* ---- one test a folder ------------------------------------------------------------------------------ */

static void test_absent(void **state)
{
    char path[SHARED_PATH_BYTES_MAX];
    SHARED_OR_SKIP("golden/datadir", path);
    fail_msg("no golden folder was found");
}

static struct golden_dirs found[3];

int main(void)
{
    static const char *const under[] = {"datadir", "restore", "damaged"};
    static struct CMUnitTest tests[3 * GOLDEN_DIRS_MAX];
    size_t n = 0;
    for (size_t k = 0; k < 3; k++) {
        golden_find(&found[k], under[k]);
        for (size_t i = 0; i < found[k].count; i++) {
            tests[n].name = found[k].path[i];
            tests[n].test_func = k == 2 ? test_damaged : test_datadir;
            tests[n++].initial_state = found[k].path[i];
        }
    }
    if (n == 0) tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_absent);
    return _cmocka_run_group_tests("wal/golden", tests, n, NULL, NULL);
}
