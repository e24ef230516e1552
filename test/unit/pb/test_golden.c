/* Rows and log records of upstream's data dirs: what is read and written again must be the same bytes.
 *
 * The listings hold each record's fields, the length of its data and the running checksum of the log, but not the
 * data itself: it is encoded anew here and must have that length and continue the checksum. */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "authpb.pb-c.h"
#include "base/crc32c.h"
#include "base/text.h"
#include "etcdserverpb.pb-c.h"
#include "pb/kv.h"
#include "pb/pack.h"
#include "pb/raftpb.h"
#include "pb/unpack.h"
#include "shared.h"
#include "test_heap.h"

enum { COLUMNS = 6, IDS_MAX = 16 };

struct listing {
    struct test_heap heap;
    struct buf raw; /* hex turned into bytes */
    struct buf out; /* encoded anew */
    struct arena arena;
    char *column[COLUMNS];
    uint32_t crc;
    bool crc_known;
    size_t compared; /* rows */
};

typedef void (*line_fn)(struct listing *l);

static void listing_init(struct listing *l)
{
    memset(l, 0, sizeof *l);
    test_heap_init(&l->heap);
    buf_init(&l->raw, &l->heap.alloc, 1 << 26);
    buf_init(&l->out, &l->heap.alloc, 1 << 26);
    arena_init(&l->arena, &l->heap.alloc, 1 << 28);
}

static void listing_deinit(struct listing *l)
{
    buf_deinit(&l->raw);
    buf_deinit(&l->out);
    arena_deinit(&l->arena);
    test_heap_check_empty(&l->heap);
}

static void each_line(struct listing *l, const char *path, line_fn fn)
{
    size_t len = 0;
    char *text = shared_read(path, &len);
    assert_non_null(text);
    l->crc_known = false;
    for (char *rest = text; rest != NULL && *rest != 0;) {
        char *line = strsep(&rest, "\n");
        for (size_t i = 0; i < COLUMNS; i++) {
            l->column[i] = line == NULL ? text + len : strsep(&line, "\t");
        }
        buf_reset(&l->raw);
        buf_reset(&l->out);
        arena_reset(&l->arena);
        fn(l);
    }
    free(text);
}

/* Calls `fn` for all lines of the files that match; returns the rows it compared. */
static size_t each_file(const char *const patterns[2], line_fn fn)
{
    struct listing l;
    listing_init(&l);
    for (size_t p = 0; p < 2; p++) {
        char pattern[SHARED_PATH_BYTES_MAX];
        const char *root = getenv("SHARED");
        snprintf(pattern, sizeof pattern, "%s/%s", root == NULL ? "../shared" : root, patterns[p]);
        glob_t found;
        if (glob(pattern, 0, NULL, &found) != 0) continue;
        for (size_t i = 0; i < found.gl_pathc; i++) {
            each_line(&l, found.gl_pathv[i], fn);
        }
        globfree(&found);
    }
    size_t compared = l.compared;
    listing_deinit(&l);
    return compared;
}

static struct bytes unhex(struct listing *l, const char *text)
{
    buf_reset(&l->raw);
    assert_int_equal(0, text_get_hex(&l->raw, bytes_str(text)));
    return buf_bytes(&l->raw);
}

static void check_same(struct listing *l, struct bytes want)
{
    if (want.len != l->out.len || memcmp(want.data, l->out.data, want.len) != 0) {
        fail_msg("%s %s %s: other bytes", l->column[0], l->column[1], l->column[2]);
    }
    l->compared++;
}

/* Reads a message and writes it again. */
static void check_message(struct listing *l, const ProtobufCMessageDescriptor *d, struct bytes in)
{
    ProtobufCMessage *msg = NULL;
    struct errmsg em = {{0}};
    if (pb_unpack(d, in, &l->arena, &msg, &em) != 0) fail_msg("%s", em.text);
    assert_int_equal(0, pb_pack(msg, &l->out));
    check_same(l, in);
}

/* ---- tables of the store: table, key, bytes of the value, value ------------------------------------- */

static void check_kv(struct listing *l)
{
    struct pb_kv kv;
    if (strlen(l->column[3]) != 2 * strtoul(l->column[2], NULL, 10))
        return; /* cut in the listing */
    struct bytes row = unhex(l, l->column[3]);
    assert_int_equal(0, pb_kv_decode(row, &kv));
    assert_int_equal(row.len, pb_kv_size(&kv));
    assert_int_equal(0, pb_kv_put(&kv, &l->out));
    check_same(l, row);
}

static void check_row(struct listing *l)
{
    const char *table = l->column[0];
    if (strcmp(table, "key") == 0) {
        check_kv(l);
    } else if (strcmp(table, "lease") == 0) {
        struct pb_lease lease;
        struct bytes row = unhex(l, l->column[3]);
        assert_int_equal(0, pb_lease_decode(row, &lease));
        assert_int_equal(0, pb_lease_put(&lease, &l->out));
        check_same(l, row);
    } else if (strcmp(table, "alarm") == 0) {
        struct pb_alarm alarm;
        struct bytes row = unhex(l, l->column[1]);
        assert_int_equal(0, pb_alarm_decode(row, &alarm));
        assert_int_equal(0, pb_alarm_put(&alarm, &l->out));
        check_same(l, row);
    } else if (strcmp(table, "authUsers") == 0) {
        check_message(l, &authpb__user__descriptor, unhex(l, l->column[3]));
    } else if (strcmp(table, "authRoles") == 0) {
        check_message(l, &authpb__role__descriptor, unhex(l, l->column[3]));
    }
}

static void test_rows_come_out_as_they_went_in(void **state)
{
    (void)state;
    char path[SHARED_PATH_BYTES_MAX];
    SHARED_OR_SKIP("golden/datadir/v37-basic/db.tsv", path);
    const char *const patterns[2] = {"golden/datadir/v3*/db.tsv", "golden/datadir/v3*/*/db.tsv"};
    size_t rows = each_file(patterns, check_row);
    assert_true(rows > 300);
    print_message("compared %zu rows\n", rows);
}

/* ---- log records: segment, offset, type, running checksum, bytes of data, fields -------------------- */

/* The number behind `name` in the fields. */
static uint64_t field(const struct listing *l, const char *name, int base)
{
    const char *at = strstr(l->column[5], name);
    if (at == NULL) fail_msg("no %s in %s", name, l->column[5]);
    return strtoull(at + strlen(name), NULL, base);
}

/* The ids in brackets behind `name`; moves `room` on. */
static struct pb_ids ids(const struct listing *l, const char *name, uint64_t **room)
{
    struct pb_ids out = {*room, 0};
    const char *at = strstr(l->column[5], name);
    if (at == NULL) return out;
    at += strlen(name);
    while (*at != ']') {
        char *end = NULL;
        *(*room)++ = strtoull(at, &end, 16);
        out.count++;
        at = end + (*end == ' ');
    }
    return out;
}

static void put_snapshot(struct listing *l)
{
    uint64_t room[4 * IDS_MAX];
    uint64_t *at = room;
    struct pb_wal_snapshot s = {.index = field(l, "index=", 10), .term = field(l, "term=", 10)};
    s.has_conf_state = strstr(l->column[5], "voters=") != NULL;
    s.conf_state.voters = ids(l, "voters=[", &at);
    s.conf_state.learners = ids(l, "learners=[", &at);
    s.conf_state.voters_outgoing = ids(l, "outgoing=[", &at);
    s.conf_state.learners_next = ids(l, "learners_next=[", &at);
    assert_int_equal(0, pb_wal_snapshot_put(&s, &l->out));
}

/* False when the listing has cut the data: then only the length can be compared. */
static bool put_entry(struct listing *l)
{
    const char *data = strstr(l->column[5], "data=") + strlen("data=");
    size_t len = field(l, "len=", 10);
    struct pb_entry e = {.type = (int32_t)field(l, "type=", 10),
                         .term = field(l, "term=", 10),
                         .index = field(l, "index=", 10)};
    bool whole = strlen(data) == 2 * len;
    if (!whole) {
        e.data = bytes_of(data, len);
        assert_int_equal(strtoul(l->column[4], NULL, 10), pb_entry_size(&e));
        return false;
    }
    e.data = unhex(l, data);
    assert_int_equal(0, pb_entry_put(&e, &l->out));
    return true;
}

static void check_record(struct listing *l)
{
    if (strcmp(l->column[2], "end") == 0 || strcmp(l->column[2], "4") == 0) {
        if (strcmp(l->column[2], "4") == 0) l->crc = (uint32_t)strtoul(l->column[3], NULL, 16);
        l->crc_known = true;
        return;
    }
    bool whole = true;
    switch (strtol(l->column[2], NULL, 10)) {
    case PB_WAL_METADATA: {
        struct pb_metadata m;
        assert_int_equal(0, pb_metadata_decode(unhex(l, l->column[5]), &m));
        assert_int_equal(0, pb_metadata_put(&m, &l->out));
        break;
    }
    case PB_WAL_ENTRY: whole = put_entry(l); break;
    case PB_WAL_STATE: {
        struct pb_hard_state s = {field(l, "term=", 10), field(l, "vote=", 16),
                                  field(l, "commit=", 10)};
        assert_int_equal(0, pb_hard_state_put(&s, &l->out));
        break;
    }
    case PB_WAL_SNAPSHOT: put_snapshot(l); break;
    default: fail_msg("a record of type %s", l->column[2]);
    }
    uint32_t want = (uint32_t)strtoul(l->column[3], NULL, 16);
    if (whole && l->crc_known) {
        assert_int_equal(strtoul(l->column[4], NULL, 10), l->out.len);
        assert_int_equal(want, crc32c_update(l->crc, l->out.data, l->out.len));
        l->compared++;
    }
    l->crc = want;
}

static void test_log_records_are_encoded_as_upstream_does(void **state)
{
    (void)state;
    char path[SHARED_PATH_BYTES_MAX];
    SHARED_OR_SKIP("golden/datadir/v37-basic/wal-records.tsv", path);
    const char *const patterns[2] = {"golden/datadir/v37-*/wal-records.tsv",
                                     "golden/datadir/v37-*/*/wal-records.tsv"};
    size_t rows = each_file(patterns, check_record);
    assert_true(rows > 1000);
    print_message("compared %zu records\n", rows);
}

static void check_request(struct listing *l)
{
    if (strcmp(l->column[2], "2") != 0) return;
    const char *data = strstr(l->column[5], "data=") + strlen("data=");
    size_t len = field(l, "len=", 10);
    if (len == 0 || strlen(data) != 2 * len) return;
    struct bytes in = unhex(l, data);
    if (field(l, "type=", 10) == PB_ENTRY_NORMAL) {
        check_message(l, &etcdserverpb__internal_raft_request__descriptor, in);
        return;
    }
    struct pb_conf_change cc;
    assert_int_equal(0, pb_conf_change_decode(in, &cc));
    assert_int_equal(0, pb_conf_change_put(&cc, &l->out));
    /* 3.6 writes an id of zero as well. */
    if (in.data[0] == 0x08 && in.data[1] == 0) in = bytes_of(in.data + 2, in.len - 2);
    check_same(l, in);
}

static void test_requests_in_entries_come_out_as_they_went_in(void **state)
{
    (void)state;
    char path[SHARED_PATH_BYTES_MAX];
    SHARED_OR_SKIP("golden/datadir/v37-basic/wal-records.tsv", path);
    const char *const patterns[2] = {"golden/datadir/v3*/wal-records.tsv",
                                     "golden/datadir/v3*/*/wal-records.tsv"};
    size_t rows = each_file(patterns, check_request);
    assert_true(rows > 500);
    print_message("compared %zu requests\n", rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_come_out_as_they_went_in),
        cmocka_unit_test(test_log_records_are_encoded_as_upstream_does),
        cmocka_unit_test(test_requests_in_entries_come_out_as_they_went_in),
    };
    return cmocka_run_group_tests_name("pb: golden", tests, NULL, NULL);
}
