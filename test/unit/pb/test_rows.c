/* Bytes of rows and log records, written by hand, against the format pages and protobuf-c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "etcdserverpb.pb-c.h"
#include "leasepb.pb-c.h"
#include "mvccpb.pb-c.h"
#include "pb/kv.h"
#include "pb/pack.h"
#include "pb/raftpb.h"
#include "test_heap.h"

#define BYTES(...) bytes_of((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

struct fixture {
    struct test_heap heap;
    struct buf out;
    struct arena arena;
};

static int set_up(void **state)
{
    static struct fixture f;
    test_heap_init(&f.heap);
    buf_init(&f.out, &f.heap.alloc, 1 << 20);
    arena_init(&f.arena, &f.heap.alloc, 1 << 20);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    buf_deinit(&f->out);
    arena_deinit(&f->arena);
    test_heap_check_empty(&f->heap);
    return 0;
}

static void check_out(struct fixture *f, struct bytes want)
{
    assert_int_equal(want.len, f->out.len);
    if (want.len > 0) assert_memory_equal(want.data, f->out.data, want.len);
}

/* ---- rows of the store ------------------------------------------------------------------------------ */

static void test_kv_leaves_zeros_out(void **state)
{
    struct fixture *f = *state;
    struct pb_kv kv = {.key = bytes_str("k")};
    assert_int_equal(0, pb_kv_put(&kv, &f->out));
    check_out(f, BYTES(0x0a, 1, 'k'));
    buf_reset(&f->out);
    assert_int_equal(0, pb_kv_put(&(struct pb_kv){0}, &f->out));
    check_out(f, BYTES_EMPTY);
}

static void test_kv_is_what_protobuf_c_writes(void **state)
{
    struct fixture *f = *state;
    struct pb_kv kv = {bytes_str("key"), 3, 300, 2, bytes_str("value"), -5};
    uint8_t key[] = "key";
    uint8_t value[] = "value";
    Mvccpb__KeyValue msg = MVCCPB__KEY_VALUE__INIT;
    msg.key = (ProtobufCBinaryData){3, key};
    msg.create_revision = 3;
    msg.mod_revision = 300;
    msg.version = 2;
    msg.value = (ProtobufCBinaryData){5, value};
    msg.lease = -5;
    struct buf want;
    buf_init(&want, &f->heap.alloc, 1000);
    assert_int_equal(0, pb_pack(&msg.base, &want));
    assert_int_equal(0, pb_kv_put(&kv, &f->out));
    check_out(f, buf_bytes(&want));
    buf_deinit(&want);
}

static void test_kv_comes_back_without_copies(void **state)
{
    struct fixture *f = *state;
    struct pb_kv kv = {bytes_str("key"), 3, 300, 2, bytes_str("value"), INT64_MIN};
    struct pb_kv back;
    assert_int_equal(0, pb_kv_put(&kv, &f->out));
    assert_int_equal(0, pb_kv_decode(buf_bytes(&f->out), &back));
    assert_true(bytes_eq(kv.key, back.key) && bytes_eq(kv.value, back.value));
    assert_true(back.key.data > f->out.data && back.key.data < f->out.data + f->out.len);
    assert_true(back.create_revision == 3 && back.mod_revision == 300 && back.version == 2);
    assert_true(back.lease == INT64_MIN);
}

static void test_kv_takes_the_last_value_and_skips_the_unknown(void **state)
{
    (void)state;
    struct pb_kv kv;
    struct bytes in = BYTES(0x10, 1, 0x10, 2, 0x78, 9, 0x08, 7, 0x0a, 1, 'a', 0x0a, 1, 'b');
    assert_int_equal(0, pb_kv_decode(in, &kv));
    assert_true(kv.create_revision == 2);
    assert_true(bytes_eq(bytes_str("b"), kv.key));
}

static void test_a_bad_row_leaves_the_output_alone(void **state)
{
    (void)state;
    struct pb_kv kv = {.version = 77};
    struct pb_lease lease = {.id = 77};
    struct pb_alarm alarm = {.member_id = 77};
    struct bytes bad = BYTES(0x08, 1, 0x10, 2, 0x0a, 9, 'a');
    assert_int_equal(E_PROTO, pb_kv_decode(bad, &kv));
    assert_int_equal(E_PROTO, pb_lease_decode(bad, &lease));
    assert_int_equal(E_PROTO, pb_alarm_decode(bad, &alarm));
    assert_true(kv.version == 77 && lease.id == 77 && alarm.member_id == 77);
}

static void test_lease_is_what_protobuf_c_writes(void **state)
{
    struct fixture *f = *state;
    struct pb_lease lease = {.id = 0x4d2, .ttl_s = 3600, .remaining_ttl_s = 17};
    Leasepb__Lease msg = LEASEPB__LEASE__INIT;
    msg.id = lease.id;
    msg.ttl = lease.ttl_s;
    msg.remainingttl = lease.remaining_ttl_s;
    struct buf want;
    buf_init(&want, &f->heap.alloc, 1000);
    assert_int_equal(0, pb_pack(&msg.base, &want));
    assert_int_equal(0, pb_lease_put(&lease, &f->out));
    check_out(f, buf_bytes(&want));
    struct pb_lease back;
    assert_int_equal(0, pb_lease_decode(buf_bytes(&want), &back));
    assert_memory_equal(&lease, &back, sizeof lease);
    buf_deinit(&want);
}

static void test_alarm_takes_any_number(void **state)
{
    struct fixture *f = *state;
    const struct pb_alarm cases[] = {{0, 0}, {1, 1}, {UINT64_MAX, 2}, {5, INT32_MAX}, {5, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf_reset(&f->out);
        assert_int_equal(0, pb_alarm_put(&cases[i], &f->out));
        assert_true(f->out.len <= PB_ALARM_BYTES_MAX);
        struct pb_alarm back;
        assert_int_equal(0, pb_alarm_decode(buf_bytes(&f->out), &back));
        assert_true(back.member_id == cases[i].member_id && back.type == cases[i].type);
        Etcdserverpb__AlarmMember msg = ETCDSERVERPB__ALARM_MEMBER__INIT;
        msg.memberid = cases[i].member_id;
        msg.alarm = (Etcdserverpb__AlarmType)cases[i].type;
        assert_int_equal(f->out.len, pb_packed_size(&msg.base));
    }
}

/* ---- the log ---------------------------------------------------------------------------------------- */

static void test_entries_as_in_the_table_of_the_format_page(void **state)
{
    struct fixture *f = *state;
    struct pb_entry normal = {.term = 2, .index = 5, .data = bytes_str("x")};
    assert_int_equal(0, pb_entry_put(&normal, &f->out));
    check_out(f, BYTES(0x10, 2, 0x18, 5, 0x22, 1, 'x'));
    buf_reset(&f->out);
    struct pb_entry empty = {.term = 2, .index = 2};
    assert_int_equal(0, pb_entry_put(&empty, &f->out));
    check_out(f, BYTES(0x10, 2, 0x18, 2));
    buf_reset(&f->out);
    struct pb_entry conf = {PB_ENTRY_CONF_CHANGE, 1, 1, bytes_str("c")};
    assert_int_equal(0, pb_entry_put(&conf, &f->out));
    check_out(f, BYTES(0x08, 1, 0x10, 1, 0x18, 1, 0x22, 1, 'c'));
}

static void test_entries_of_both_versions_read_alike(void **state)
{
    (void)state;
    struct pb_entry old;
    struct pb_entry new;
    assert_int_equal(0, pb_entry_decode(BYTES(0x08, 0, 0x10, 2, 0x18, 5, 0x22, 1, 'x'), &old));
    assert_int_equal(0, pb_entry_decode(BYTES(0x10, 2, 0x18, 5, 0x22, 1, 'x'), &new));
    assert_true(old.type == new.type &&old.term == new.term &&old.index == new.index);
    assert_true(bytes_eq(old.data, new.data));
    assert_true(new.type == PB_ENTRY_NORMAL &&new.term == 2 && new.index == 5);
}

static void test_hard_state_writes_zeros(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(0, pb_hard_state_put(&(struct pb_hard_state){1, 0, 1}, &f->out));
    check_out(f, BYTES(0x08, 1, 0x10, 0, 0x18, 1));
    struct pb_hard_state s;
    assert_int_equal(0, pb_hard_state_decode(BYTES(0x08, 1, 0x18, 3), &s));
    assert_true(s.term == 1 && s.vote == 0 && s.commit == 3);
}

static void test_conf_changes_as_in_the_table_of_the_format_page(void **state)
{
    struct fixture *f = *state;
    struct pb_conf_change first = {.node_id = 7, .context = bytes_str("{}")};
    assert_int_equal(0, pb_conf_change_put(&first, &f->out));
    check_out(f, BYTES(0x10, 0, 0x18, 7, 0x22, 2, '{', '}'));
    buf_reset(&f->out);
    struct pb_conf_change removal = {.id = 9, .type = PB_REMOVE_NODE, .node_id = 7};
    assert_int_equal(0, pb_conf_change_put(&removal, &f->out));
    check_out(f, BYTES(0x08, 9, 0x10, 1, 0x18, 7));
    struct pb_conf_change back;
    assert_int_equal(0, pb_conf_change_decode(buf_bytes(&f->out), &back));
    assert_true(back.id == 9 && back.type == PB_REMOVE_NODE && back.node_id == 7);
    assert_int_equal(0, back.context.len);
}

static void test_conf_state_is_not_packed_and_ends_in_auto_leave(void **state)
{
    struct fixture *f = *state;
    const uint64_t voters[] = {1, 300};
    const uint64_t learners[] = {4};
    struct pb_conf_state cs = {.voters = {voters, 2}, .learners = {learners, 1}};
    assert_int_equal(0, pb_conf_state_put(&cs, &f->out));
    check_out(f, BYTES(0x08, 1, 0x08, 0xac, 0x02, 0x10, 4, 0x28, 0));
    buf_reset(&f->out);
    cs.auto_leave_unset = true;
    assert_int_equal(0, pb_conf_state_put(&cs, &f->out));
    check_out(f, BYTES(0x08, 1, 0x08, 0xac, 0x02, 0x10, 4));
}

static void test_conf_state_reads_packed_lists_too(void **state)
{
    struct fixture *f = *state;
    struct pb_conf_state cs;
    struct bytes in = BYTES(0x08, 1, 0x0a, 2, 2, 3, 0x08, 4, 0x22, 1, 9, 0x28, 1);
    assert_int_equal(0, pb_conf_state_decode(in, &f->arena, &cs));
    assert_int_equal(4, cs.voters.count);
    for (size_t i = 0; i < 4; i++) {
        assert_true(cs.voters.data[i] == i + 1);
    }
    assert_int_equal(1, cs.learners_next.count);
    assert_int_equal(0, cs.learners.count);
    assert_true(cs.auto_leave && !cs.auto_leave_unset);
    assert_int_equal(E_PROTO, pb_conf_state_decode(BYTES(0x0a, 1, 0x80), &f->arena, &cs));
    assert_int_equal(4, cs.voters.count);
    assert_int_equal(0, pb_conf_state_decode(BYTES_EMPTY, &f->arena, &cs));
    assert_true(cs.auto_leave_unset);
}

static void test_wal_snapshot_of_a_new_log_has_no_conf_state(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(0, pb_wal_snapshot_put(&(struct pb_wal_snapshot){0}, &f->out));
    check_out(f, BYTES(0x08, 0, 0x10, 0));
    buf_reset(&f->out);
    const uint64_t voters[] = {5};
    struct pb_wal_snapshot s = {11, 2, true, {.voters = {voters, 1}}};
    assert_int_equal(0, pb_wal_snapshot_put(&s, &f->out));
    check_out(f, BYTES(0x08, 11, 0x10, 2, 0x1a, 4, 0x08, 5, 0x28, 0));
    struct pb_wal_snapshot back;
    assert_int_equal(0, pb_wal_snapshot_decode(buf_bytes(&f->out), &f->arena, &back));
    assert_true(back.index == 11 && back.term == 2 && back.has_conf_state);
    assert_true(back.conf_state.voters.count == 1 && back.conf_state.voters.data[0] == 5);
}

static void test_snapshot_holds_data_then_metadata(void **state)
{
    struct fixture *f = *state;
    const uint64_t voters[] = {5};
    struct pb_snapshot s = {bytes_str("{}"), {.voters = {voters, 1}}, 11, 2};
    assert_int_equal(0, pb_snapshot_put(&s, &f->out));
    check_out(f, BYTES(0x0a, 2, '{', '}', 0x12, 10, 0x0a, 4, 0x08, 5, 0x28, 0, 0x10, 11, 0x18, 2));
    struct pb_snapshot back;
    assert_int_equal(0, pb_snapshot_decode(buf_bytes(&f->out), &f->arena, &back));
    assert_true(bytes_eq(s.data, back.data) && back.index == 11 && back.term == 2);
    assert_int_equal(1, back.conf_state.voters.count);
    assert_int_equal(E_PROTO, pb_snapshot_decode(BYTES(0x12, 2, 0x0a, 9), &f->arena, &back));
}

static void test_wal_record_head_and_data_make_the_record(void **state)
{
    struct fixture *f = *state;
    struct pb_wal_record crc = {.type = PB_WAL_CRC};
    assert_int_equal(0, pb_wal_record_put(&crc, &f->out));
    check_out(f, BYTES(0x08, 4, 0x10, 0));
    buf_reset(&f->out);
    struct pb_wal_record r = {PB_WAL_ENTRY, UINT32_MAX, bytes_str("data")};
    assert_int_equal(0, pb_wal_record_put(&r, &f->out));
    uint8_t head[PB_WAL_RECORD_HEAD_BYTES_MAX];
    size_t head_len = (size_t)(pb_wal_record_write_head(&r, head) - head);
    assert_int_equal(f->out.len, head_len + r.data.len);
    assert_memory_equal(head, f->out.data, head_len);
    struct pb_wal_record back;
    assert_int_equal(0, pb_wal_record_decode(buf_bytes(&f->out), &back));
    assert_true(back.type == PB_WAL_ENTRY && back.crc == UINT32_MAX);
    assert_true(bytes_eq(r.data, back.data));
}

static void test_snap_file_and_metadata_write_all(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(0, pb_snap_file_put(&(struct pb_snap_file){7, bytes_str("d")}, &f->out));
    check_out(f, BYTES(0x08, 7, 0x12, 1, 'd'));
    struct pb_snap_file file;
    assert_int_equal(0, pb_snap_file_decode(buf_bytes(&f->out), &file));
    assert_true(file.crc == 7 && bytes_eq(bytes_str("d"), file.data));
    buf_reset(&f->out);
    assert_int_equal(0, pb_metadata_put(&(struct pb_metadata){3, 0}, &f->out));
    check_out(f, BYTES(0x08, 3, 0x10, 0));
    struct pb_metadata m;
    assert_int_equal(0, pb_metadata_decode(buf_bytes(&f->out), &m));
    assert_true(m.node_id == 3 && m.cluster_id == 0);
}

/* ---- failures --------------------------------------------------------------------------------------- */

static void decode_snapshot(struct test_heap *h, void *arg)
{
    const struct bytes *in = arg;
    struct arena arena;
    arena_init(&arena, &h->alloc, 1 << 20);
    struct pb_snapshot s = {.index = 77};
    int rc = pb_snapshot_decode(*in, &arena, &s);
    assert_int_equal(h->failure_count > 0 ? E_NOMEM : 0, rc);
    if (rc < 0) assert_true(s.index == 77);
    arena_deinit(&arena);
}

static void test_every_failing_allocation_is_an_answer(void **state)
{
    (void)state;
    struct bytes in = BYTES(0x12, 8, 0x0a, 4, 0x08, 5, 0x10, 6, 0x10, 11);
    assert_int_equal(2, test_heap_every_failure(decode_snapshot, &in));
}

static void test_a_full_buffer_is_an_answer(void **state)
{
    struct fixture *f = *state;
    struct buf small;
    buf_init(&small, &f->heap.alloc, 3);
    struct pb_kv kv = {.key = bytes_str("key")};
    assert_int_equal(E_TOOBIG, pb_kv_put(&kv, &small));
    assert_int_equal(E_TOOBIG, pb_entry_put(&(struct pb_entry){0}, &small));
    assert_int_equal(E_TOOBIG, pb_hard_state_put(&(struct pb_hard_state){0}, &small));
    assert_int_equal(E_TOOBIG, pb_conf_change_put(&(struct pb_conf_change){0}, &small));
    assert_int_equal(E_TOOBIG, pb_snapshot_put(&(struct pb_snapshot){0}, &small));
    assert_int_equal(E_TOOBIG, pb_wal_record_put(&(struct pb_wal_record){0}, &small));
    assert_int_equal(E_TOOBIG, pb_wal_snapshot_put(&(struct pb_wal_snapshot){0}, &small));
    assert_int_equal(E_TOOBIG, pb_snap_file_put(&(struct pb_snap_file){0}, &small));
    assert_int_equal(0, small.len);
    buf_deinit(&small);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_kv_leaves_zeros_out),
        CASE(test_kv_is_what_protobuf_c_writes),
        CASE(test_kv_comes_back_without_copies),
        CASE(test_kv_takes_the_last_value_and_skips_the_unknown),
        CASE(test_a_bad_row_leaves_the_output_alone),
        CASE(test_lease_is_what_protobuf_c_writes),
        CASE(test_alarm_takes_any_number),
        CASE(test_entries_as_in_the_table_of_the_format_page),
        CASE(test_entries_of_both_versions_read_alike),
        CASE(test_hard_state_writes_zeros),
        CASE(test_conf_changes_as_in_the_table_of_the_format_page),
        CASE(test_conf_state_is_not_packed_and_ends_in_auto_leave),
        CASE(test_conf_state_reads_packed_lists_too),
        CASE(test_wal_snapshot_of_a_new_log_has_no_conf_state),
        CASE(test_snapshot_holds_data_then_metadata),
        CASE(test_wal_record_head_and_data_make_the_record),
        CASE(test_snap_file_and_metadata_write_all),
        CASE(test_every_failing_allocation_is_an_answer),
        CASE(test_a_full_buffer_is_an_answer),
    };
    return cmocka_run_group_tests_name("pb: rows", tests, NULL, NULL);
}
