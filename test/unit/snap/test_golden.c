/* .snap files written by etcd 3.6 and 3.7: read to what upstream says they hold, and made anew byte by byte. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "base/arena.h"
#include "base/err.h"
#include "golden.h"
#include "pb/raftpb.h"
#include "shared.h"
#include "simdisk.h"
#include "snap/snap.h"
#include "snap/snap_v2.h"
#include "test_heap.h"
#include "wal/wal_conf.h"
#include "wal/wal_read.h"

#define SNAP_DIR "data/member/snap"
#define WAL_DIR  "data/member/wal"

enum { MEMBERS_MAX = 16, URLS_MAX = 4, TEXT_BYTES_MAX = 1 << 16 };

struct world {
    struct test_heap heap;
    struct simdisk *disk;
    struct snap_opts o;
    struct wal_opts wal;
};

static void world_init(struct world *w, const char *dir)
{
    test_heap_init(&w->heap);
    w->disk = simdisk_new();
    w->o = (struct snap_opts){.disk = simdisk_face(w->disk), .alloc = &w->heap.alloc};
    w->wal = (struct wal_opts){.disk = simdisk_face(w->disk), .alloc = &w->heap.alloc};
    golden_unpack(w->disk, dir, "/member/");
}

static void world_deinit(struct world *w)
{
    test_heap_check_empty(&w->heap);
    simdisk_free(w->disk);
}

static struct json_object *get(struct json_object *o, const char *key)
{
    struct json_object *v = NULL;
    return json_object_object_get_ex(o, key, &v) ? v : NULL;
}

static const char *get_text(struct json_object *o, const char *key)
{
    return json_object_get_string(get(o, key));
}

/* ---- what a file holds ------------------------------------------------------------------------------- */

static void check_ids(struct json_object *want, const raft_id *ids, size_t n)
{
    assert_int_equal(n, json_object_array_length(want));
    for (size_t i = 0; i < n; i++) {
        const char *hex = json_object_get_string(json_object_array_get_idx(want, i));
        assert_int_equal(ids[i], strtoull(hex, NULL, 16));
    }
}

static void read_conf(struct world *w, const struct snap *s, struct raft_conf_state *out)
{
    struct arena arena;
    struct pb_conf_state cs;
    arena_init(&arena, &w->heap.alloc, TEXT_BYTES_MAX);
    assert_int_equal(pb_conf_state_decode(s->conf, &arena, &cs), 0);
    assert_int_equal(wal_conf_from(&cs, out), 0);
    arena_deinit(&arena);
}

/* ---- the v2 store, taken apart with json-c and put together again ------------------------------------- */

struct parts {
    struct member members[MEMBERS_MAX];
    struct bytes urls[MEMBERS_MAX][2][URLS_MAX];
    uint64_t removed[MEMBERS_MAX];
    struct snap_v2_store store;
    struct json_object *keep[MEMBERS_MAX * 2]; /* parsed values; strings point into them */
    size_t keep_count;
};

static struct bytes text_of(struct json_object *o)
{
    return o == NULL ? BYTES_EMPTY : bytes_str(json_object_get_string(o));
}

static size_t take_urls(struct json_object *list, struct bytes out[URLS_MAX])
{
    size_t n = list == NULL ? 0 : json_object_array_length(list);
    assert_true(n <= URLS_MAX);
    for (size_t i = 0; i < n; i++)
        out[i] = text_of(json_object_array_get_idx(list, i));
    return n;
}

static struct json_object *take_value(struct parts *p, struct json_object *node)
{
    struct json_object *v = json_tokener_parse(get_text(node, "value"));
    assert_non_null(v);
    return p->keep[p->keep_count++] = v;
}

static void take_event(struct parts *p, struct json_object *node)
{
    const char *key = get_text(node, "key");
    size_t n = p->store.member_count;
    if (strncmp(key, "/0/removed_members/", 19) == 0)
        p->removed[p->store.removed_count++] = strtoull(key + 19, NULL, 16);
    if (strcmp(key, "/0/version") == 0) p->store.version = text_of(get(node, "value"));
    if (strncmp(key, "/0/members/", 11) != 0) return;
    struct json_object *v = take_value(p, node);
    if (strstr(key, "/raftAttributes") != NULL) {
        struct member *m = &p->members[n];
        m->id = strtoull(key + 11, NULL, 16);
        m->peer_urls = p->urls[n][0];
        m->peer_url_count = take_urls(get(v, "peerURLs"), p->urls[n][0]);
        m->is_learner = json_object_get_boolean(get(v, "isLearner"));
        p->store.member_count++;
    } else {
        struct member *m = &p->members[n - 1];
        m->name = text_of(get(v, "name"));
        m->client_urls = p->urls[n - 1][1];
        m->client_url_count = take_urls(get(v, "clientURLs"), p->urls[n - 1][1]);
    }
}

static struct json_object *take_apart(struct bytes json, struct parts *p)
{
    struct json_tokener *t = json_tokener_new();
    struct json_object *root = json_tokener_parse_ex(t, (const char *)json.data, (int)json.len);
    json_tokener_free(t);
    assert_non_null(root);
    struct json_object *queue = get(get(get(root, "WatcherHub"), "EventHistory"), "Queue");
    struct json_object *events = get(queue, "Events");
    p->store.members = p->members;
    p->store.removed = p->removed;
    for (size_t i = 0; i < json_object_array_length(events); i++) {
        struct json_object *e = json_object_array_get_idx(events, i);
        if (e != NULL) take_event(p, get(e, "node"));
    }
    return root;
}

/* The JSON from its parts, then the whole file from JSON, conf state, index and term. */
static void check_remade(struct world *w, const struct snap *s, const struct raft_conf_state *conf)
{
    static struct parts p;
    p = (struct parts){.keep_count = 0};
    struct json_object *root = take_apart(s->data, &p);
    struct buf json;
    struct buf file;
    buf_init(&json, &w->heap.alloc, 1 << 24);
    buf_init(&file, &w->heap.alloc, 1 << 24);
    assert_int_equal(snap_v2_encode(&p.store, &json), 0);
    assert_int_equal(json.len, s->data.len);
    assert_memory_equal(json.data, s->data.data, json.len);
    struct snap_content c = {s->index, s->term, conf, false, buf_bytes(&json)};
    c.bare_conf = s->conf.data[s->conf.len - 2] != 0x28;
    assert_int_equal(snap_encode(&c, &file), 0);
    assert_int_equal(file.len, s->file.len);
    assert_memory_equal(file.data, s->file.data, file.len);
    buf_deinit(&json);
    buf_deinit(&file);
    for (size_t i = 0; i < p.keep_count; i++)
        json_object_put(p.keep[i]);
    json_object_put(root);
}

static void check_file(struct world *w, const char *name, struct json_object *want)
{
    char path[256];
    struct snap s;
    struct raft_conf_state conf;
    struct errmsg em = {0};
    snprintf(path, sizeof path, "%s/%s", SNAP_DIR, name);
    int rc = snap_read(&w->o, path, &s, &em);
    if (rc < 0) fail_msg("%s: %s", err_symbol(rc), em.text);
    assert_int_equal(s.index, json_object_get_uint64(get(want, "index")));
    assert_int_equal(s.term, json_object_get_uint64(get(want, "term")));
    read_conf(w, &s, &conf);
    check_ids(get(want, "voters"), conf.voters, conf.voter_count);
    check_ids(get(want, "learners"), conf.learners, conf.learner_count);
    check_remade(w, &s, &conf);
    snap_deinit(&s);
}

/* ---- which one is loaded ------------------------------------------------------------------------------ */

static void check_newest(struct world *w, struct json_object *answer)
{
    struct wal_snapshot *wanted = NULL;
    size_t n = 0;
    struct snap s = SNAP_EMPTY;
    struct errmsg em = {0};
    int rc = wal_snapshots(&w->wal, WAL_DIR, &wanted, &n, &em);
    if (rc < 0) return;
    rc = snap_load_newest(&w->o, SNAP_DIR, wanted, n, true, &s, &em);
    const char *want = get_text(answer, "load_newest");
    assert_int_equal(rc, strcmp(want, "ok") == 0 ? 0 : E_SNAP_NONE);
    if (rc == 0) {
        struct json_object *loaded = get(answer, "loaded");
        assert_int_equal(s.index, json_object_get_uint64(json_object_array_get_idx(loaded, 0)));
        assert_int_equal(s.term, json_object_get_uint64(json_object_array_get_idx(loaded, 1)));
        snap_deinit(&s);
    }
    wal_snapshots_free(&w->wal, wanted, n);
}

static void test_datadir(void **state)
{
    struct world w;
    struct snap_list l = {0};
    struct errmsg em = {0};
    world_init(&w, *state);
    struct json_object *expected = golden_expected(*state);
    struct json_object *files = get(expected, "snap_files");
    json_object_object_foreach(files, name, want)
    {
        check_file(&w, name, want);
    }
    int rc = snap_list(&w.o, SNAP_DIR, &l, &em);
    assert_int_equal(rc, 0);
    assert_int_equal(l.count, json_object_object_length(files));
    snap_list_deinit(&l);
    check_newest(&w, get(get(expected, "wal"), "valid_snapshot_entries"));
    json_object_put(expected);
    world_deinit(&w);
}

static void test_damaged(void **state)
{
    struct world w;
    struct errmsg em = {0};
    world_init(&w, *state);
    struct json_object *expected = golden_expected(*state);
    check_newest(&w, get(get(expected, "library"), "valid_snapshot_entries"));
    bool broken = simdisk_exists(w.disk, SNAP_DIR "/0000000000000002-0000000000000021.snap.broken");
    bool damaged = strstr(*state, "newest-corrupt") != NULL ||
                   strstr(*state, "newest-empty") != NULL;
    assert_int_equal(broken, damaged);
    (void)em;
    json_object_put(expected);
    world_deinit(&w);
}

static void test_absent(void **state)
{
    char path[SHARED_PATH_BYTES_MAX];
    SHARED_OR_SKIP("golden/datadir", path);
    fail_msg("no golden folder was found");
}

static struct golden_dirs found[3];

/* Folders without a .snap file have nothing to say here, and unpacking takes time. */
static bool concerns_snap(const char *path, size_t kind)
{
    if (kind == 2) return strstr(path, "snap-") != NULL || strstr(path, "leftover") != NULL;
    struct json_object *expected = golden_expected(path);
    bool any = json_object_object_length(get(expected, "snap_files")) > 0;
    json_object_put(expected);
    return any;
}

int main(void)
{
    static const char *const under[] = {"datadir", "restore", "damaged"};
    static struct CMUnitTest tests[3 * GOLDEN_DIRS_MAX];
    size_t n = 0;
    for (size_t k = 0; k < 3; k++) {
        golden_find(&found[k], under[k]);
        for (size_t i = 0; i < found[k].count; i++) {
            if (!concerns_snap(found[k].path[i], k)) continue;
            tests[n].name = found[k].path[i];
            tests[n].test_func = k == 2 ? test_damaged : test_datadir;
            tests[n++].initial_state = found[k].path[i];
        }
    }
    if (n == 0) tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_absent);
    return _cmocka_run_group_tests("snap/golden", tests, n, NULL, NULL);
}
