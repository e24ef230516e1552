/* Rows of the store whose bytes enter hashes: KeyValue, Lease, AlarmMember, exactly as Go writes them.
 *
 * proto3: fields in ascending number, zero ones left out. Decoding allocates nothing: spans point into the
 * row. Numbers of fields as in proto/mvccpb.proto, leasepb.proto and etcdserverpb.proto. */
#ifndef PB_KV_H
#define PB_KV_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

/* mvccpb.KeyValue; of a deletion's row only the key is set. */
struct pb_kv {
    struct bytes key;
    int64_t create_revision;
    int64_t mod_revision;
    int64_t version;
    struct bytes value;
    int64_t lease; /* 0: none */
};

size_t pb_kv_size(const struct pb_kv *kv);
/* Writes pb_kv_size() bytes; returns the place behind them. */
uint8_t *pb_kv_write(const struct pb_kv *kv, uint8_t *at);
/* Appends; errors as buf_reserve(). */
int pb_kv_put(const struct pb_kv *kv, struct buf *out);
/* E_PROTO when malformed; `*out` is then untouched. Spans live as long as `in`. */
int pb_kv_decode(struct bytes in, struct pb_kv *out);

/* leasepb.Lease. */
struct pb_lease {
    int64_t id;
    int64_t ttl_s;
    int64_t remaining_ttl_s; /* 0: no checkpoint */
};

enum { PB_LEASE_BYTES_MAX = 3 * 11, PB_ALARM_BYTES_MAX = 2 * 11 };

/* Writes at most PB_LEASE_BYTES_MAX bytes; returns the place behind them. */
uint8_t *pb_lease_write(const struct pb_lease *lease, uint8_t *at);
int pb_lease_put(const struct pb_lease *lease, struct buf *out);
int pb_lease_decode(struct bytes in, struct pb_lease *out);

/* etcdserverpb.AlarmMember. */
struct pb_alarm {
    uint64_t member_id;
    int32_t type; /* enum Etcdserverpb__AlarmType; others may come from a newer member */
};

/* Writes at most PB_ALARM_BYTES_MAX bytes; returns the place behind them. */
uint8_t *pb_alarm_write(const struct pb_alarm *alarm, uint8_t *at);
int pb_alarm_put(const struct pb_alarm *alarm, struct buf *out);
int pb_alarm_decode(struct bytes in, struct pb_alarm *out);

#endif
