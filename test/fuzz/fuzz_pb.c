/* Protobuf decoding: any bytes are refused or unpack within their bounds, and pack, unpack, pack is the same.
 *
 * The first byte chooses the message type, the rest is the message. What we packed is also given to protobuf-c's
 * own decoder, which must see the same message. Built with PLANT_OVERFLOW it holds a bug to be found. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "authpb.pb-c.h"
#include "base/assert.h"
#include "etcdserverpb.pb-c.h"
#include "etcdserverpb_v2.pb-c.h"
#include "grpc_health_v1.pb-c.h"
#include "leasepb.pb-c.h"
#include "mvccpb.pb-c.h"
#include "os/heap.h"
#include "pb/kv.h"
#include "pb/pack.h"
#include "pb/raftpb.h"
#include "pb/unpack.h"
#include "raftpb.pb-c.h"
#include "v3electionpb.pb-c.h"
#include "walpb.pb-c.h"

static const ProtobufCMessageDescriptor *const types[] = {
    &etcdserverpb__internal_raft_request__descriptor,
    &etcdserverpb__txn_request__descriptor,
    &etcdserverpb__watch_request__descriptor,
    &etcdserverpb__range_response__descriptor,
    &etcdserverpb__member_list_response__descriptor,
    &etcdserverpb__lease_time_to_live_response__descriptor,
    &etcdserverpb__request__descriptor,
    &mvccpb__key_value__descriptor,
    &authpb__role__descriptor,
    &raftpb__message__descriptor,
    &raftpb__conf_state__descriptor,
    &walpb__snapshot__descriptor,
    &leasepb__lease_internal_response__descriptor,
    &v3electionpb__campaign_response__descriptor,
    &grpc__health__v1__health_list_response__descriptor,
};

/* The library's view of bytes that we wrote. */
static void check_library(const ProtobufCMessageDescriptor *type, struct bytes packed)
{
    ProtobufCMessage *msg = protobuf_c_message_unpack(type, NULL, packed.len, packed.data);
    ASSERT(msg != NULL);
    uint8_t *again = malloc(packed.len + 1);
    ASSERT(again != NULL);
    ASSERT(protobuf_c_message_get_packed_size(msg) == packed.len);
    size_t written = protobuf_c_message_pack(msg, again);
    ASSERT(written == packed.len);
    ASSERT(packed.len == 0 || memcmp(again, packed.data, packed.len) == 0);
    free(again);
    protobuf_c_message_free_unpacked(msg, NULL);
}

#ifdef PLANT_OVERFLOW
/* The bug: a key is taken to be short. */
static void planted(const ProtobufCMessage *msg)
{
    if (msg->descriptor != &mvccpb__key_value__descriptor) return;
    const Mvccpb__KeyValue *kv = (const Mvccpb__KeyValue *)msg;
    uint8_t key[16];
    if (kv->key.len > 0) memcpy(key, kv->key.data, kv->key.len);
    ASSERT(kv->key.len == 0 || key[0] == kv->key.data[0]);
}
#else
static void planted(const ProtobufCMessage *msg)
{
    (void)msg;
}
#endif

static void check_message(const ProtobufCMessageDescriptor *type, struct bytes in)
{
    struct arena arena;
    struct buf first;
    struct buf second;
    arena_init(&arena, &os_heap, 1u << 28);
    buf_init(&first, &os_heap, 1u << 28);
    buf_init(&second, &os_heap, 1u << 28);
    ProtobufCMessage *msg = NULL;
    if (pb_unpack(type, in, &arena, &msg, NULL) == 0) {
        planted(msg);
        int rc = pb_pack(msg, &first);
        ASSERT(rc == 0);
        rc = pb_unpack(type, buf_bytes(&first), &arena, &msg, NULL);
        ASSERT(rc == 0);
        rc = pb_pack(msg, &second);
        ASSERT(rc == 0);
        ASSERT(bytes_eq(buf_bytes(&first), buf_bytes(&second)));
        check_library(type, buf_bytes(&first));
    }
    arena_deinit(&arena);
    buf_deinit(&first);
    buf_deinit(&second);
}

/* The decoders written by hand: what they take must come back from what they write. */
static void check_rows(struct bytes in)
{
    struct buf out;
    buf_init(&out, &os_heap, 1u << 24);
    struct pb_kv kv;
    struct pb_kv kv_again;
    if (pb_kv_decode(in, &kv) == 0) {
        int rc = pb_kv_put(&kv, &out);
        ASSERT(rc == 0);
        rc = pb_kv_decode(buf_bytes(&out), &kv_again);
        ASSERT(rc == 0);
        ASSERT(bytes_eq(kv.key, kv_again.key));
        ASSERT(kv.mod_revision == kv_again.mod_revision);
    }
    buf_reset(&out);
    struct pb_entry entry;
    struct pb_entry entry_again;
    if (pb_entry_decode(in, &entry) == 0) {
        int rc = pb_entry_put(&entry, &out);
        ASSERT(rc == 0);
        rc = pb_entry_decode(buf_bytes(&out), &entry_again);
        ASSERT(rc == 0);
        ASSERT(entry.index == entry_again.index && bytes_eq(entry.data, entry_again.data));
    }
    struct arena arena;
    arena_init(&arena, &os_heap, 1u << 24);
    struct pb_snapshot snapshot;
    (void)pb_snapshot_decode(in, &arena, &snapshot);
    struct pb_wal_snapshot record;
    (void)pb_wal_snapshot_decode(in, &arena, &record);
    arena_deinit(&arena);
    buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0) return 0;
    struct bytes in = bytes_of(data + 1, len - 1);
    check_message(types[data[0] % (sizeof types / sizeof *types)], in);
    check_rows(in);
    return 0;
}
