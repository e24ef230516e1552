/* Power cuts, failing disks and failing memory: whatever happens, the log that is opened afterwards holds every record
 * that a sync had acknowledged, and nothing that was not appended, in order.
 *
 * A short run (creation, saves, snapshots, cuts, an overwritten entry, a restart, release and purge) is driven against a
 * simulated disk. The model is the list of appended records; the log found after a fault must be a prefix of it that is
 * at least as long as what was acknowledged. Segments are 4 KiB here, so that cuts are many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "base/err.h"
#include "pb/raftpb.h"
#include "simdisk.h"
#include "test_heap.h"
#include "wal/wal.h"
#include "wal/wal_fs.h"
#include "wal/wal_read.h"

#define DIR      "data/member/wal"
#define METADATA "\x08\x01\x10\x02"

enum { RECORDS_MAX = 256, SEGMENTS_MAX = 64, SEGMENT_BYTES = 4096, SEEDS = 3, BIG_BYTES = 200000 };

struct record {
    int64_t type;
    uint32_t crc; /* of the data alone */
    size_t len;
    size_t op; /* operations of the disk before it was appended */
};

struct model {
    struct record records[RECORDS_MAX];
    size_t appended;
    size_t acked;
    size_t acked_op[RECORDS_MAX +
                    1]; /* operations after which n records were acknowledged; 0: never alone */
    size_t created_op;  /* operations after which wal_create() had returned */
    size_t first_of[SEGMENTS_MAX]; /* records appended before the segment began */
};

struct run {
    struct test_heap *heap;
    struct simdisk *disk;
    struct disk half; /* fails writes half-way */
    struct wal_opts o;
    struct wal *log;
    struct model m;
    uint64_t seq;
    raft_index next;
    int rc;
};

/* ---- the model -------------------------------------------------------------------------------------- */

static void model_add(struct run *r, int64_t type, struct bytes data)
{
    assert_true(r->m.appended < RECORDS_MAX);
    r->m.records[r->m.appended++] =
        (struct record){type, crc32c(data), data.len, simdisk_op_count(r->disk)};
}

static void model_acked(struct run *r)
{
    r->m.acked = r->m.appended;
    r->m.acked_op[r->m.acked] = 1 + simdisk_op_count(r->disk);
}

static size_t appended_by(const struct model *m, size_t op)
{
    size_t n = 0;
    while (n < m->appended && m->records[n].op <= op)
        n++;
    return n;
}

static size_t acked_by(const struct model *m, size_t op)
{
    size_t n = m->appended;
    while (n > 0 && (m->acked_op[n] == 0 || m->acked_op[n] > op + 1))
        n--;
    return n;
}

/* ---- the run ---------------------------------------------------------------------------------------- */

static void note_cut(struct run *r, size_t before)
{
    if (r->log == NULL || wal_segment_seq(r->log) == r->seq) return;
    r->seq = wal_segment_seq(r->log);
    assert_true(r->seq < SEGMENTS_MAX);
    r->m.first_of[r->seq] = before;
}

static int (*whole_write)(void *arg, struct disk_file *f, uint64_t offset, struct bytes data);

/* A write that fails part of the way: whole sectors have reached the disk. */
static int half_write(void *arg, struct disk_file *f, uint64_t offset, struct bytes data)
{
    int rc = whole_write(arg, f, offset, data);
    uint64_t half_end = (offset + data.len / 2) / SIMDISK_SECTOR_BYTES * SIMDISK_SECTOR_BYTES;
    if (rc < 0 && half_end > offset)
        (void)whole_write(arg, f, offset, bytes_of(data.data, (size_t)(half_end - offset)));
    return rc;
}

static void run_init(struct run *r, struct test_heap *heap, bool half_writes)
{
    *r = (struct run){.heap = heap, .next = 1};
    r->disk = simdisk_new();
    r->o = (struct wal_opts){
        .disk = simdisk_face(r->disk), .alloc = &heap->alloc, .segment_bytes = SEGMENT_BYTES};
    struct errmsg em;
    assert_int_equal(wal_fs_mkdir_all(r->o.disk, "data/member", &em), 0);
    simdisk_settle(r->disk);
    r->half = *r->o.disk;
    whole_write = r->half.write;
    r->half.write = half_write;
    if (half_writes) r->o.disk = &r->half;
}

static void run_deinit(struct run *r)
{
    wal_abandon(r->log);
    simdisk_free(r->disk);
}

static void step_create(struct run *r)
{
    struct errmsg em;
    r->rc = wal_create(&r->o, DIR, bytes_of(METADATA, 4), &r->log, &em);
    if (r->rc == 0) r->m.created_op = simdisk_op_count(r->disk);
}

/* An entry whose data is `bytes` long, encoded as the model's record. */
static void model_entry(struct run *r, const struct raft_entry *e)
{
    struct pb_entry p = {(int32_t)e->type, e->term, e->index, rcbuf_bytes(e->data)};
    uint8_t *data = malloc(pb_entry_size(&p));
    assert_non_null(data);
    uint8_t *end = pb_entry_write(&p, data);
    model_add(r, WAL_ENTRY, bytes_of(data, (size_t)(end - data)));
    free(data);
}

/* Saves `n` entries of `bytes` each and a state. */
static void step_save(struct run *r, raft_term term, size_t n, size_t bytes)
{
    struct raft_entry e[8] = {{0}};
    struct errmsg em;
    if (r->rc < 0) return;
    for (size_t i = 0; i < n; i++) {
        e[i] = (struct raft_entry){term, r->next + i, RAFT_ENTRY_NORMAL, NULL};
        if (bytes == 0) continue;
        e[i].data = rcbuf_new(&r->heap->alloc, bytes);
        if (e[i].data == NULL)
            r->rc = E_NOMEM;
        else
            memset(e[i].data->data, (int)(e[i].index % 255) + 1, bytes);
    }
    if (r->rc == 0) {
        struct raft_hard_state s = {term, 1, r->next - 1};
        uint8_t state[PB_HARD_STATE_BYTES_MAX];
        struct pb_hard_state p = {s.term, s.vote, s.commit};
        uint8_t *end = pb_hard_state_write(&p, state);
        for (size_t i = 0; i < n; i++)
            model_entry(r, &e[i]);
        model_add(r, WAL_STATE, bytes_of(state, (size_t)(end - state)));
        r->rc = wal_save(r->log, &s, e, n, &em);
        note_cut(r, r->m.appended);
        r->next += n;
    }
    for (size_t i = 0; i < n; i++)
        rcbuf_unref(e[i].data);
}

static void step_sync(struct run *r)
{
    struct errmsg em;
    if (r->rc < 0) return;
    r->rc = wal_sync(r->log, &em);
    if (r->rc == 0) model_acked(r);
}

static void step_snapshot(struct run *r, raft_term term)
{
    static const uint8_t tail[] = {0x1a, 0x04, 0x08, 0x01, 0x28, 0x00};
    struct raft_conf_state conf = {.voters = {1}, .voter_count = 1};
    struct errmsg em;
    if (r->rc < 0) return;
    uint8_t data[4 + sizeof tail] = {0x08, (uint8_t)(r->next - 1), 0x10, (uint8_t)term};
    assert_true(r->next < 128);
    memcpy(data + 4, tail, sizeof tail);
    size_t before = r->m.appended;
    model_add(r, WAL_SNAPSHOT, bytes_of(data, sizeof data));
    r->rc = wal_save_snapshot(r->log, (struct wal_snapshot){r->next - 1, term}, &conf, &em);
    if (r->rc == E_NOMEM) r->m.appended = before;
    step_sync(r);
}

static void step_prepare(struct run *r)
{
    struct errmsg em;
    if (r->rc < 0) return;
    r->rc = wal_prepare_next(r->log, &em);
    if (r->rc < 0) wal_abandon(r->log); /* unlike a failed save, this one could be lived with */
    if (r->rc < 0) r->log = NULL;
}

static void step_reopen(struct run *r, raft_index index, raft_term term)
{
    struct errmsg em;
    struct wal_contents c = WAL_CONTENTS_EMPTY;
    if (r->rc < 0) return;
    r->rc = wal_close(r->log, &em);
    if (r->rc == 0) model_acked(r);
    r->log = NULL;
    if (r->rc < 0) return;
    r->rc = wal_open(&r->o, DIR, (struct wal_snapshot){index, term}, &c, &r->log, &em);
    if (r->rc < 0) return;
    assert_true(c.start_found);
    wal_contents_deinit(&c);
}

static void step_purge(struct run *r, raft_index index)
{
    struct errmsg em;
    if (r->rc < 0) return;
    wal_release(r->log, index);
    r->rc = wal_purge(&r->o, DIR, 2, NULL, &em);
}

static void run_all(struct run *r)
{
    step_create(r);
    step_save(r, 1, 1, 40);
    step_sync(r);
    step_save(r, 2, 1, 0);
    step_save(r, 2, 2, 700);
    step_sync(r);
    step_prepare(r);
    step_save(r, 2, 3, 1500); /* fills the segment */
    step_sync(r);
    step_save(r, 2, 1, 30); /* is cut here */
    step_sync(r);
    step_save(r, 2, 0, 0); /* a commit index alone: not synced */
    r->next = r->rc == 0 ? r->next - 1 : r->next;
    step_save(r, 3, 2, 900); /* overwrites the last entry */
    step_sync(r);
    raft_index snapshot = r->next - 1;
    step_snapshot(r, 3);
    step_save(r, 3, 1, BIG_BYTES); /* larger than the buffer; cut behind it */
    step_sync(r);
    step_reopen(r, snapshot, 3);
    step_save(r, 4, 2, 2500);
    step_save(r, 4, 1, 100);
    step_sync(r);
    step_save(r, 4, 2, 3000);
    step_sync(r);
    step_purge(r, snapshot);
    step_save(r, 4, 1, 50);
    step_sync(r);
    step_save(r, 4, 3, 600);
}

/* ---- what is found ---------------------------------------------------------------------------------- */

/* The records of a log without heads, compared with the model. Returns how many it holds. */
static size_t check_log(const struct model *m, const struct wal_opts *o)
{
    struct errmsg em = {0};
    struct wal_reader *r;
    assert_int_equal(wal_reader_open_all(o, DIR, &r, &em), 0);
    size_t at = 0;
    size_t place = 0;
    uint64_t seq = UINT64_MAX;
    struct wal_view v;
    int rc;
    while ((rc = wal_reader_next(r, &v, &em)) == 0) {
        if (seq == UINT64_MAX) at = m->first_of[v.seq];
        if (v.seq != seq) place = 0;
        seq = v.seq;
        bool head = place < 2 || (place == 2 && v.type == (seq == 0 ? WAL_SNAPSHOT : WAL_STATE));
        place++;
        if (head) continue;
        assert_true(at < m->appended);
        assert_int_equal(v.type, m->records[at].type);
        assert_int_equal(v.data.len, m->records[at].len);
        assert_int_equal(crc32c(v.data), m->records[at].crc);
        at++;
    }
    if (rc != E_NOTFOUND) fail_msg("after recovery: %s: %s", err_symbol(rc), em.text);
    wal_reader_close(r);
    return at;
}

/* The last usable snapshot record, as a restart looks for it. */
static struct wal_snapshot restart_at(const struct wal_opts *o)
{
    struct wal_snapshot *list = NULL;
    size_t n = 0;
    struct errmsg em = {0};
    int rc = wal_snapshots(o, DIR, &list, &n, &em);
    if (rc < 0) fail_msg("snapshots: %s: %s", err_symbol(rc), em.text);
    struct wal_snapshot last = n == 0 ? (struct wal_snapshot){0, 0} : list[n - 1];
    wal_snapshots_free(o, list, n);
    return last;
}

/* Opens the log as a restart does; checks it; appends to it; reads it again. */
static void check_recovery(const struct model *m, const struct wal_opts *o, size_t acked,
                           size_t appended)
{
    struct errmsg em = {0};
    struct wal_contents c = WAL_CONTENTS_EMPTY;
    struct wal *log = NULL;
    bool repaired;
    int rc = wal_open_repair(o, DIR, restart_at(o), &c, &repaired, &log, &em);
    if (rc < 0) fail_msg("recovery: %s: %s", err_symbol(rc), em.text);
    size_t held = check_log(m, o);
    if (held < acked) fail_msg("%zu records were acknowledged, %zu are left", acked, held);
    if (held > appended) fail_msg("%zu records were appended, %zu are there", appended, held);
    raft_index last = wal_last_index(log);
    struct rcbuf *data =
        rcbuf_new(o->alloc, 1000); /* reaches into what an earlier write may have left */
    memset(data->data, 1, data->len);
    struct raft_entry e = {9, last + 1, RAFT_ENTRY_NORMAL, data};
    struct raft_hard_state s = {9, 1, c.hard_state.commit};
    wal_contents_deinit(&c);
    assert_int_equal(wal_save(log, &s, &e, 1, &em), 0);
    rcbuf_unref(data);
    assert_int_equal(wal_close(log, &em), 0);
    rc = wal_read(o, DIR, restart_at(o), &c, &em);
    if (rc < 0) fail_msg("reading again: %s: %s", err_symbol(rc), em.text);
    assert_int_equal(c.last_index, last + 1);
    assert_int_equal(c.hard_state.term, 9);
    wal_contents_deinit(&c);
}

/* `d` is a disk as found; what it holds must do for a restart. Frees it. */
static void check_found(const struct model *m, struct test_heap *heap, struct simdisk *d, size_t op)
{
    struct wal_opts o = {
        .disk = simdisk_face(d), .alloc = &heap->alloc, .segment_bytes = SEGMENT_BYTES};
    struct errmsg em = {0};
    bool exists = false;
    assert_int_equal(wal_exists(&o, DIR, &exists, &em), 0);
    if (exists) {
        check_recovery(m, &o, acked_by(m, op), appended_by(m, op));
    } else {
        struct wal *log = NULL;
        assert_true(m->created_op == 0 || m->created_op > op);
        assert_int_equal(wal_create(&o, DIR, bytes_of(METADATA, 4), &log, &em), 0);
        assert_int_equal(wal_close(log, &em), 0);
    }
    simdisk_free(d);
}

/* ---- tests ------------------------------------------------------------------------------------------ */

static void test_run_is_as_meant(void **state)
{
    struct test_heap heap;
    struct run r;
    test_heap_init(&heap);
    run_init(&r, &heap, false);
    run_all(&r);
    assert_int_equal(r.rc, 0);
    assert_int_equal(r.seq, 3);
    assert_true(simdisk_exists(r.disk, DIR "/0.tmp") == simdisk_exists(r.disk, DIR "/1.tmp"));
    assert_false(simdisk_exists(r.disk, DIR "/0000000000000000-0000000000000000.wal"));
    run_deinit(&r);
    test_heap_check_empty(&heap);
}

static void power_cuts(enum simdisk_loss loss, uint64_t seeds)
{
    struct test_heap heap;
    struct run r;
    test_heap_init(&heap);
    run_init(&r, &heap, false);
    run_all(&r);
    assert_int_equal(r.rc, 0);
    size_t ops = simdisk_op_count(r.disk);
    for (size_t op = 0; op <= ops; op++)
        for (uint64_t seed = 1; seed <= seeds; seed++)
            check_found(&r.m, &heap, simdisk_crash(r.disk, op, loss, seed * 7919 + op), op);
    run_deinit(&r);
    test_heap_check_empty(&heap);
}

static void test_power_cut_all_kept(void **state)
{
    power_cuts(SIMDISK_KEPT, 1);
}

static void test_power_cut_unsynced_lost(void **state)
{
    power_cuts(SIMDISK_LOST, 1);
}

static void test_power_cut_unsynced_torn(void **state)
{
    power_cuts(SIMDISK_TORN, SEEDS);
}

/* Goes on with a log found after a power cut: the model starts with what it held. */
static void run_again(struct run *r, const struct run *before, struct simdisk *found)
{
    struct errmsg em;
    struct wal_contents c = WAL_CONTENTS_EMPTY;
    *r = (struct run){.heap = before->heap, .disk = found, .o = before->o, .m = before->m};
    r->o.disk = simdisk_face(found);
    assert_int_equal(wal_open_repair(&r->o, DIR, restart_at(&r->o), &c, NULL, &r->log, &em), 0);
    wal_contents_deinit(&c);
    r->seq = wal_segment_seq(r->log);
    r->next = wal_last_index(r->log) + 1;
    r->m.appended = check_log(&r->m, &r->o);
    r->m.acked = r->m.appended;
    memset(r->m.acked_op, 0, sizeof r->m.acked_op);
    r->m.acked_op[r->m.acked] = 1;
    r->m.created_op = 1;
    for (size_t i = 0; i < r->m.appended; i++)
        r->m.records[i].op = 0;
    step_save(r, 5, 1, 1000);
    step_save(r, 5, 1, 10);
    step_sync(r);
    step_save(r, 5, 1, 2000);
    assert_int_equal(r->rc, 0);
}

/* A second power cut while the first one is being recovered from, and in the writes that follow. */
static void test_power_cut_after_power_cut(void **state)
{
    struct test_heap heap;
    struct run r;
    test_heap_init(&heap);
    run_init(&r, &heap, false);
    run_all(&r);
    size_t ops = simdisk_op_count(r.disk);
    for (size_t op = r.m.created_op; op <= ops; op++) {
        struct run second;
        run_again(&second, &r, simdisk_crash(r.disk, op, SIMDISK_TORN, op));
        size_t steps = simdisk_op_count(second.disk);
        for (size_t i = 0; i <= steps; i++) {
            check_found(&second.m, &heap, simdisk_crash(second.disk, i, SIMDISK_LOST, 1), i);
            for (uint64_t seed = 1; seed <= 2 * SEEDS; seed++)
                check_found(&second.m, &heap, simdisk_crash(second.disk, i, SIMDISK_TORN, seed), i);
        }
        run_deinit(&second);
    }
    run_deinit(&r);
    test_heap_check_empty(&heap);
}

/* The handle takes nothing more after it has failed, and does not even try. */
static void check_refuses(struct run *r)
{
    struct errmsg em = {0};
    struct raft_entry e = {9, r->next + 100, RAFT_ENTRY_NORMAL, NULL};
    if (r->log == NULL) return;
    size_t ops = simdisk_op_count(r->disk);
    assert_int_equal(wal_save(r->log, NULL, &e, 1, &em), E_IO);
    assert_int_equal(wal_sync(r->log, &em), E_IO);
    assert_int_equal(wal_prepare_next(r->log, &em), E_IO);
    assert_int_equal(simdisk_op_count(r->disk), ops);
    assert_string_not_equal(em.text, "");
}

/* The n-th changing operation fails. Returns false when the run met no failure. */
static bool fail_at(struct test_heap *heap, struct simdisk_fault fault, bool half_writes)
{
    struct run r;
    run_init(&r, heap, half_writes);
    simdisk_set_fault(r.disk, fault);
    run_all(&r);
    bool struck = simdisk_fault_count(r.disk) > 0;
    if (r.rc < 0) {
        assert_int_equal(r.rc, fault.rc);
        bool opening = r.log == NULL;
        if (!opening && r.m.appended > r.m.acked) check_refuses(&r);
    }
    wal_abandon(r.log);
    r.log = NULL;
    simdisk_set_fault(r.disk, (struct simdisk_fault){0});
    size_t op = simdisk_op_count(r.disk);
    check_found(&r.m, heap, simdisk_crash(r.disk, op, SIMDISK_KEPT, 1), op);
    check_found(&r.m, heap, simdisk_crash(r.disk, op, SIMDISK_LOST, 1), op);
    check_found(&r.m, heap, simdisk_crash(r.disk, op, SIMDISK_TORN, op), op);
    run_deinit(&r);
    test_heap_check_empty(heap);
    return struck;
}

static size_t disk_failures(struct simdisk_fault fault, bool half_writes)
{
    struct test_heap heap;
    test_heap_init(&heap);
    fault.nth = 1;
    while (fail_at(&heap, fault, half_writes))
        fault.nth++;
    return fault.nth;
}

static void test_io_error_at_each_operation(void **state)
{
    assert_true(disk_failures((struct simdisk_fault){.rc = E_IO}, false) > 50);
}

static void test_io_error_of_a_half_done_operation(void **state)
{
    struct simdisk_fault f = {.rc = E_IO, .half = true, .forever = true};
    f.kinds = ~(1U << SIMDISK_WRITE);
    assert_true(disk_failures(f, false) > 40);
}

static void test_io_error_of_a_half_done_write(void **state)
{
    struct simdisk_fault f = {.rc = E_IO, .kinds = 1U << SIMDISK_WRITE};
    assert_true(disk_failures(f, true) > 10);
}

static void test_full_disk_at_each_operation(void **state)
{
    assert_true(disk_failures((struct simdisk_fault){.rc = E_NOSPACE, .forever = true}, true) > 30);
}

static void test_disk_that_is_full_once(void **state)
{
    assert_true(disk_failures((struct simdisk_fault){.rc = E_NOSPACE}, true) > 50);
}

static void with_heap(struct test_heap *heap, void *arg)
{
    struct run r;
    (void)arg;
    size_t fail_at_allocation = heap->fail_at;
    run_init(&r, heap, false);
    run_all(&r);
    if (r.rc < 0) assert_int_equal(r.rc, E_NOMEM);
    wal_abandon(r.log);
    r.log = NULL;
    heap->fail_at = 0;
    size_t op = simdisk_op_count(r.disk);
    check_found(&r.m, heap, simdisk_crash(r.disk, op, SIMDISK_LOST, 1), op);
    heap->fail_at = fail_at_allocation;
    run_deinit(&r);
}

static void test_memory_fails_at_each_allocation(void **state)
{
    assert_true(test_heap_every_failure(with_heap, NULL) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_is_as_meant),
        cmocka_unit_test(test_power_cut_all_kept),
        cmocka_unit_test(test_power_cut_unsynced_lost),
        cmocka_unit_test(test_power_cut_unsynced_torn),
        cmocka_unit_test(test_power_cut_after_power_cut),
        cmocka_unit_test(test_io_error_at_each_operation),
        cmocka_unit_test(test_io_error_of_a_half_done_operation),
        cmocka_unit_test(test_io_error_of_a_half_done_write),
        cmocka_unit_test(test_full_disk_at_each_operation),
        cmocka_unit_test(test_disk_that_is_full_once),
        cmocka_unit_test(test_memory_fails_at_each_allocation),
    };
    return cmocka_run_group_tests_name("wal/crash", tests, NULL, NULL);
}
