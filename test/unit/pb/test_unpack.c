/* What comes in must mean what it means to Go, cost what the scan said, and go out as the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "etcdserverpb.pb-c.h"
#include "etcdserverpb_v2.pb-c.h"
#include "grpc_health_v1.pb-c.h"
#include "pb/pack.h"
#include "pb/unpack.h"
#include "pb/wire.h"
#include "raftpb.pb-c.h"
#include "test_heap.h"

#define BYTES(...) bytes_of((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

struct fixture {
    struct test_heap heap;
    struct arena arena;
    struct buf out;
    struct errmsg em;
};

static int set_up(void **state)
{
    static struct fixture f;
    test_heap_init(&f.heap);
    arena_init(&f.arena, &f.heap.alloc, 1 << 26);
    buf_init(&f.out, &f.heap.alloc, 1 << 24);
    f.em.text[0] = 0;
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    arena_deinit(&f->arena);
    buf_deinit(&f->out);
    test_heap_check_empty(&f->heap);
    return 0;
}

/* Unpacks or fails the test. */
static void *unpack(struct fixture *f, const ProtobufCMessageDescriptor *d, struct bytes in)
{
    ProtobufCMessage *msg = NULL;
    int rc = pb_unpack(d, in, &f->arena, &msg, &f->em);
    if (rc != 0) fail_msg("%s: %s", err_symbol(rc), f->em.text);
    assert_ptr_equal(d, msg->descriptor);
    return msg;
}

static void check_packed(struct fixture *f, const ProtobufCMessage *msg, struct bytes want)
{
    buf_reset(&f->out);
    assert_int_equal(0, pb_pack(msg, &f->out));
    assert_int_equal(want.len, f->out.len);
    if (want.len > 0) assert_memory_equal(want.data, f->out.data, want.len);
}

/* ---- meaning ---------------------------------------------------------------------------------------- */

static void test_scalars_strings_and_bytes(void **state)
{
    struct fixture *f = *state;
    struct bytes in = BYTES(0x0a, 1, 'k', 0x12, 2, 'v', 'w', 0x18, 7, 0x20, 1);
    Etcdserverpb__PutRequest *put = unpack(f, &etcdserverpb__put_request__descriptor, in);
    assert_int_equal(1, put->key.len);
    assert_memory_equal("vw", put->value.data, 2);
    assert_true(put->lease == 7 && put->prev_kv == 1 && put->ignore_lease == 0);
    check_packed(f, &put->base, in);
}

static void test_an_absent_string_is_empty(void **state)
{
    struct fixture *f = *state;
    Etcdserverpb__AuthenticateRequest *a =
        unpack(f, &etcdserverpb__authenticate_request__descriptor, BYTES(0x0a, 1, 'n'));
    assert_string_equal("n", a->name);
    assert_string_equal("", a->password);
    check_packed(f, &a->base, BYTES(0x0a, 1, 'n'));
}

static void test_the_last_scalar_wins(void **state)
{
    struct fixture *f = *state;
    struct bytes in = BYTES(0x18, 1, 0x0a, 1, 'a', 0x18, 2, 0x0a, 1, 'b');
    Etcdserverpb__PutRequest *put = unpack(f, &etcdserverpb__put_request__descriptor, in);
    assert_true(put->lease == 2);
    check_packed(f, &put->base, BYTES(0x0a, 1, 'b', 0x18, 2));
}

static void test_occurrences_of_a_message_are_merged(void **state)
{
    struct fixture *f = *state;
    /* put{key "a", lease 1}, put{value "v", lease 2} */
    struct bytes in = BYTES(0x22, 5, 0x0a, 1, 'a', 0x18, 1, 0x22, 5, 0x12, 1, 'v', 0x18, 2);
    Etcdserverpb__InternalRaftRequest *r =
        unpack(f, &etcdserverpb__internal_raft_request__descriptor, in);
    assert_memory_equal("a", r->put->key.data, 1);
    assert_memory_equal("v", r->put->value.data, 1);
    assert_true(r->put->lease == 2);
    check_packed(f, &r->base, BYTES(0x22, 8, 0x0a, 1, 'a', 0x12, 1, 'v', 0x18, 2));
}

static void test_merging_many_occurrences_stays_linear(void **state)
{
    struct fixture *f = *state;
    enum { TIMES = 20000 };
    /* txn{success: [{}]} over and over: one txn with TIMES steps. */
    for (int i = 0; i < TIMES; i++) {
        assert_int_equal(0, pb_put_bytes(&f->out, 6, BYTES(0x12, 0)));
    }
    struct buf in = f->out;
    Etcdserverpb__InternalRaftRequest *r =
        unpack(f, &etcdserverpb__internal_raft_request__descriptor, buf_bytes(&in));
    assert_int_equal(TIMES, r->txn->n_success);
    assert_true(f->arena.used_bytes < (size_t)TIMES * 200);
}

static void test_of_a_oneof_the_last_member_wins(void **state)
{
    struct fixture *f = *state;
    /* a put, then a delete_range, then a put again: nothing of the first put is left. */
    struct bytes in = BYTES(0x12, 2, 0x18, 9, 0x1a, 0, 0x12, 3, 0x0a, 1, 'k');
    Etcdserverpb__RequestOp *op = unpack(f, &etcdserverpb__request_op__descriptor, in);
    assert_int_equal(ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT, op->request_case);
    assert_true(op->request_put->lease == 0);
    check_packed(f, &op->base, BYTES(0x12, 3, 0x0a, 1, 'k'));
}

static void test_a_oneof_member_merges_with_itself(void **state)
{
    struct fixture *f = *state;
    struct bytes in = BYTES(0x12, 2, 0x18, 9, 0x12, 3, 0x0a, 1, 'k');
    Etcdserverpb__RequestOp *op = unpack(f, &etcdserverpb__request_op__descriptor, in);
    assert_true(op->request_put->lease == 9);
    assert_memory_equal("k", op->request_put->key.data, 1);
}

static void test_oneof_scalars_replace_each_other(void **state)
{
    struct fixture *f = *state;
    /* value "x", then version 0: written even though it is zero. */
    Etcdserverpb__Compare *c =
        unpack(f, &etcdserverpb__compare__descriptor, BYTES(0x3a, 1, 'x', 0x20, 0));
    assert_int_equal(ETCDSERVERPB__COMPARE__TARGET_UNION_VERSION, c->target_union_case);
    assert_true(c->version == 0);
    check_packed(f, &c->base, BYTES(0x20, 0));
    c = unpack(f, &etcdserverpb__compare__descriptor, BYTES(0x20, 5, 0x3a, 0));
    assert_int_equal(ETCDSERVERPB__COMPARE__TARGET_UNION_VALUE, c->target_union_case);
    assert_int_equal(0, c->value.len);
    check_packed(f, &c->base, BYTES(0x3a, 0));
}

static void test_an_empty_message_is_present(void **state)
{
    struct fixture *f = *state;
    struct bytes in = BYTES(0xc2, 0x3e, 0);
    Etcdserverpb__InternalRaftRequest *r =
        unpack(f, &etcdserverpb__internal_raft_request__descriptor, in);
    assert_non_null(r->auth_enable);
    assert_null(r->put);
    check_packed(f, &r->base, in);
}

static void test_repeated_numbers_come_packed_or_not(void **state)
{
    struct fixture *f = *state;
    struct bytes in = BYTES(0x28, 0, 0x2a, 2, 1, 0, 0x28, 1);
    Etcdserverpb__WatchCreateRequest *w =
        unpack(f, &etcdserverpb__watch_create_request__descriptor, in);
    assert_int_equal(4, w->n_filters);
    assert_int_equal(1, w->filters[1]);
    assert_int_equal(1, w->filters[3]);
    check_packed(f, &w->base, BYTES(0x2a, 4, 0, 1, 0, 1));
    Raftpb__ConfState *cs = unpack(f, &raftpb__conf_state__descriptor, BYTES(0x0a, 2, 5, 6));
    assert_int_equal(2, cs->n_voters);
    check_packed(f, &cs->base, BYTES(0x08, 5, 0x08, 6));
}

static void test_unknown_fields_and_wire_types_are_skipped(void **state)
{
    struct fixture *f = *state;
    /* 99: varint; key as varint; lease as bytes; a group; 98: fixed 32; then the lease. */
    struct bytes in = BYTES(0x98, 0x06, 1, 0x08, 1, 0x1a, 1, 'x', 0x7b, 0x08, 1, 0x7c, 0x95, 0x06,
                            1, 2, 3, 4, 0x18, 5);
    Etcdserverpb__PutRequest *put = unpack(f, &etcdserverpb__put_request__descriptor, in);
    assert_true(put->lease == 5 && put->key.len == 0);
    assert_int_equal(0, put->base.n_unknown_fields);
}

static void test_numbers_are_cut_to_their_width(void **state)
{
    struct fixture *f = *state;
    struct bytes in = BYTES(0x10, 0x81, 0x80, 0x80, 0x80, 0x10); /* hash = 2^32 + 1 */
    Etcdserverpb__HashResponse *h = unpack(f, &etcdserverpb__hash_response__descriptor, in);
    assert_int_equal(1, h->hash);
    Etcdserverpb__PutRequest *put = unpack(f, &etcdserverpb__put_request__descriptor,
                                           BYTES(0x20, 0x80, 0x80, 0x80, 0x80, 0x20));
    assert_int_equal(1, put->prev_kv);
    struct bytes negative = BYTES(0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1);
    Etcdserverpb__RangeRequest *r = unpack(f, &etcdserverpb__range_request__descriptor, negative);
    assert_int_equal(-1, (int)r->sort_order);
    check_packed(f, &r->base, negative);
}

static void test_proto2_presence_is_kept(void **state)
{
    struct fixture *f = *state;
    Raftpb__HardState *s = unpack(f, &raftpb__hard_state__descriptor, BYTES(0x08, 1, 0x10, 0));
    assert_true(s->has_term && s->has_vote && !s->has_commit);
    check_packed(f, &s->base, BYTES(0x08, 1, 0x10, 0));
}

static void test_maps_are_lists_of_entries(void **state)
{
    struct fixture *f = *state;
    struct bytes in = BYTES(0x0a, 7, 0x0a, 1, 'a', 0x12, 2, 0x08, 1);
    Grpc__Health__V1__HealthListResponse *r =
        unpack(f, &grpc__health__v1__health_list_response__descriptor, in);
    assert_int_equal(1, r->n_statuses);
    assert_string_equal("a", r->statuses[0]->key);
    assert_int_equal(1, r->statuses[0]->value->status);
}

static void test_alias_points_into_the_input(void **state)
{
    struct fixture *f = *state;
    struct bytes in = BYTES(0x0a, 1, 'k', 0x12, 2, 'v', 'w');
    ProtobufCMessage *msg = NULL;
    const struct pb_unpack_opts opts = {.alias = true};
    assert_int_equal(0, pb_unpack_opts(&etcdserverpb__put_request__descriptor, in, &opts, &f->arena,
                                       &msg, &f->em));
    Etcdserverpb__PutRequest *put = (Etcdserverpb__PutRequest *)msg;
    assert_ptr_equal(in.data + 2, put->key.data);
    assert_ptr_equal(in.data + 5, put->value.data);
}

static void test_long_lists_keep_their_order(void **state)
{
    struct fixture *f = *state;
    for (uint8_t i = 0; i < 100; i++) {
        assert_int_equal(0, pb_put_bytes(&f->out, 5, bytes_of(&i, 1)));
    }
    Etcdserverpb__LeaseTimeToLiveResponse *r =
        unpack(f, &etcdserverpb__lease_time_to_live_response__descriptor, buf_bytes(&f->out));
    assert_int_equal(100, r->n_keys);
    for (uint8_t i = 0; i < 100; i++) {
        assert_int_equal(i, r->keys[i].data[0]);
    }
}

/* ---- refusals --------------------------------------------------------------------------------------- */

static void test_invalid_utf8_in_a_string_is_refused(void **state)
{
    struct fixture *f = *state;
    ProtobufCMessage *msg = NULL;
    struct bytes in = BYTES(0x0a, 2, 0xc3, 0x28);
    assert_int_equal(E_PROTO, pb_unpack(&etcdserverpb__authenticate_request__descriptor, in,
                                        &f->arena, &msg, &f->em));
    assert_string_equal("etcdserverpb.AuthenticateRequest: a string contains invalid UTF-8",
                        f->em.text);
    assert_null(msg);
    /* proto2 does not look (Method of a v2 request). */
    (void)unpack(f, &etcdserverpb__request__descriptor, BYTES(0x12, 2, 0xc3, 0x28));
}

static void test_a_zero_byte_in_a_string_is_refused(void **state)
{
    struct fixture *f = *state;
    ProtobufCMessage *msg = NULL;
    struct bytes in = BYTES(0x0a, 6, 'r', 'o', 'o', 't', 0, 'x');
    assert_int_equal(E_PROTO, pb_unpack(&etcdserverpb__authenticate_request__descriptor, in,
                                        &f->arena, &msg, &f->em));
    assert_string_equal("etcdserverpb.AuthenticateRequest: a string contains a zero byte",
                        f->em.text);
    /* Bytes may hold any. */
    (void)unpack(f, &etcdserverpb__put_request__descriptor, BYTES(0x0a, 2, 0, 0));
}

static void test_every_cut_of_a_message_is_refused_or_a_message(void **state)
{
    struct fixture *f = *state;
    struct bytes in = BYTES(0x32, 12, 0x12, 10, 0x12, 8, 0x0a, 1, 'k', 0x12, 3, 'a', 'b', 'c');
    for (size_t len = 1; len < in.len; len++) {
        ProtobufCMessage *msg = NULL;
        assert_int_equal(E_PROTO, pb_unpack(&etcdserverpb__internal_raft_request__descriptor,
                                            bytes_of(in.data, len), &f->arena, &msg, NULL));
    }
    assert_int_equal(0, f->arena.used_bytes);
}

/* RequestOp{txn{success: RequestOp{txn{...}}}}, `levels` messages deep. */
static struct bytes nested(uint8_t *room, size_t bytes, size_t levels)
{
    uint8_t *at = room + bytes;
    size_t len = 0;
    for (size_t i = 1; i < levels; i++) {
        /* The innermost is level `levels`; fields alternate: request_txn (4), success (2). */
        uint32_t number = (levels - i) % 2 == 1 ? 4 : 2;
        size_t head = pb_len_size(number, len) - len;
        at -= head;
        (void)pb_write_len(at, number, len);
        len += head;
    }
    return bytes_of(at, len);
}

static void test_depth_is_bounded(void **state)
{
    struct fixture *f = *state;
    uint8_t room[2048];
    struct pb_cost cost;
    const ProtobufCMessageDescriptor *d = &etcdserverpb__request_op__descriptor;
    struct bytes in = nested(room, sizeof room, PB_REQUEST_DEPTH_MAX);
    assert_int_equal(0, pb_scan(d, in, &pb_bounds_default, &cost, &f->em));
    assert_int_equal(PB_REQUEST_DEPTH_MAX, cost.depth);
    (void)unpack(f, d, in);
    in = nested(room, sizeof room, PB_REQUEST_DEPTH_MAX + 1);
    assert_int_equal(E_TOOBIG, pb_scan(d, in, &pb_bounds_default, &cost, &f->em));
    assert_string_equal("etcdserverpb.RequestOp has too deep nesting", f->em.text);
    assert_int_equal(0, pb_scan(d, in, &pb_bounds_own, &cost, &f->em));
    in = nested(room, sizeof room, PB_DEPTH_MAX + 1);
    assert_int_equal(E_TOOBIG, pb_scan(d, in, &pb_bounds_own, &cost, &f->em));
}

static void test_a_request_at_the_bound_can_be_read_as_an_entry(void **state)
{
    struct fixture *f = *state;
    uint8_t room[2048];
    struct pb_cost cost;
    struct bytes op = nested(room, sizeof room, PB_REQUEST_DEPTH_MAX - 1);
    struct bytes txn;
    assert_int_equal(0, pb_put_bytes(&f->out, 2, op));
    txn = buf_bytes(&f->out);
    assert_int_equal(
        0, pb_scan(&etcdserverpb__txn_request__descriptor, txn, &pb_bounds_default, &cost, &f->em));
    assert_int_equal(PB_REQUEST_DEPTH_MAX, cost.depth);
    struct buf entry;
    buf_init(&entry, &f->heap.alloc, 4096);
    assert_int_equal(0, pb_put_bytes(&entry, 6, txn));
    assert_int_equal(0, pb_scan(&etcdserverpb__internal_raft_request__descriptor, buf_bytes(&entry),
                                &pb_bounds_own, &cost, &f->em));
    buf_deinit(&entry);
}

static void test_counts_and_memory_are_bounded(void **state)
{
    struct fixture *f = *state;
    const ProtobufCMessageDescriptor *d = &etcdserverpb__txn_request__descriptor;
    struct bytes in =
        BYTES(0x12, 0, 0x12, 0, 0x12, 0); /* three steps: 1 + 3 messages, 3 elements */
    struct pb_bounds bounds = {.depth_max = 2, .count_max = 7, .memory_max = 10000};
    struct pb_cost cost;
    assert_int_equal(0, pb_scan(d, in, &bounds, &cost, &f->em));
    assert_int_equal(7, cost.count);
    bounds.memory_max = cost.memory_bytes;
    assert_int_equal(0, pb_scan(d, in, &bounds, &cost, &f->em));
    bounds.memory_max--;
    assert_int_equal(E_TOOBIG, pb_scan(d, in, &bounds, &cost, &f->em));
    assert_string_equal("etcdserverpb.TxnRequest has too much data", f->em.text);
    bounds.memory_max++;
    bounds.count_max = 6;
    assert_int_equal(E_TOOBIG, pb_scan(d, in, &bounds, &cost, &f->em));
    assert_string_equal("etcdserverpb.TxnRequest has too many elements", f->em.text);
    assert_int_equal(7, cost.count);
}

static void test_a_small_arena_is_an_answer(void **state)
{
    struct fixture *f = *state;
    struct arena small;
    arena_init(&small, &f->heap.alloc, 64);
    ProtobufCMessage *msg = NULL;
    struct bytes in = BYTES(0x12, 0);
    assert_int_equal(E_NOMEM,
                     pb_unpack(&etcdserverpb__txn_request__descriptor, in, &small, &msg, &f->em));
    assert_string_equal("etcdserverpb.TxnRequest takes more memory than there is", f->em.text);
    assert_null(msg);
    arena_deinit(&small);
}

/* ---- failures --------------------------------------------------------------------------------------- */

static void unpack_and_pack(struct test_heap *h, void *arg)
{
    const struct bytes *in = arg;
    struct arena arena;
    struct buf out;
    arena_init(&arena, &h->alloc, 1 << 20);
    buf_init(&out, &h->alloc, 1 << 20);
    ProtobufCMessage *msg = NULL;
    int rc = pb_unpack(&etcdserverpb__internal_raft_request__descriptor, *in, &arena, &msg, NULL);
    if (rc == 0) rc = pb_pack(msg, &out);
    assert_int_equal(h->failure_count > 0 ? E_NOMEM : 0, rc);
    arena_deinit(&arena);
    buf_deinit(&out);
}

static void test_every_failing_allocation_is_an_answer(void **state)
{
    struct fixture *f = *state;
    static const uint8_t value[20000];
    for (int i = 0; i < 20; i++) {
        assert_int_equal(0, pb_put_len(&f->out, 4, pb_len_size(2, sizeof value)));
        assert_int_equal(0, pb_put_bytes(&f->out, 2, bytes_of(value, sizeof value)));
    }
    struct bytes in = buf_bytes(&f->out);
    assert_true(test_heap_every_failure(unpack_and_pack, &in) > 3);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_scalars_strings_and_bytes),
        CASE(test_an_absent_string_is_empty),
        CASE(test_the_last_scalar_wins),
        CASE(test_occurrences_of_a_message_are_merged),
        CASE(test_merging_many_occurrences_stays_linear),
        CASE(test_of_a_oneof_the_last_member_wins),
        CASE(test_a_oneof_member_merges_with_itself),
        CASE(test_oneof_scalars_replace_each_other),
        CASE(test_an_empty_message_is_present),
        CASE(test_repeated_numbers_come_packed_or_not),
        CASE(test_unknown_fields_and_wire_types_are_skipped),
        CASE(test_numbers_are_cut_to_their_width),
        CASE(test_proto2_presence_is_kept),
        CASE(test_maps_are_lists_of_entries),
        CASE(test_alias_points_into_the_input),
        CASE(test_long_lists_keep_their_order),
        CASE(test_invalid_utf8_in_a_string_is_refused),
        CASE(test_a_zero_byte_in_a_string_is_refused),
        CASE(test_every_cut_of_a_message_is_refused_or_a_message),
        CASE(test_depth_is_bounded),
        CASE(test_a_request_at_the_bound_can_be_read_as_an_entry),
        CASE(test_counts_and_memory_are_bounded),
        CASE(test_a_small_arena_is_an_answer),
        CASE(test_every_failing_allocation_is_an_answer),
    };
    return cmocka_run_group_tests_name("pb: unpack", tests, NULL, NULL);
}
