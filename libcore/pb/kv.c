/* KeyValue, Lease and AlarmMember by hand. */
#include "pb/kv.h"

#include "base/err.h"
#include "pb/pb_int.h"
#include "pb/wire.h"

/* ---- the rules of proto3: a zero is left out ------------------------------------------------------- */

static size_t int_size(uint32_t number, uint64_t v)
{
    return v == 0 ? 0 : pb_uint_size(number, v);
}

static size_t bytes_size(uint32_t number, struct bytes s)
{
    return s.len == 0 ? 0 : pb_len_size(number, s.len);
}

static uint8_t *write_int(uint8_t *at, uint32_t number, uint64_t v)
{
    return v == 0 ? at : pb_write_uint(at, number, v);
}

static uint8_t *write_bytes(uint8_t *at, uint32_t number, struct bytes s)
{
    return s.len == 0 ? at : pb_write_bytes(at, number, s);
}

/* ---- mvccpb.KeyValue ---------------------------------------------------------------------------- */

size_t pb_kv_size(const struct pb_kv *kv)
{
    return bytes_size(1, kv->key) + int_size(2, (uint64_t)kv->create_revision) +
           int_size(3, (uint64_t)kv->mod_revision) + int_size(4, (uint64_t)kv->version) +
           bytes_size(5, kv->value) + int_size(6, (uint64_t)kv->lease);
}

uint8_t *pb_kv_write(const struct pb_kv *kv, uint8_t *at)
{
    at = write_bytes(at, 1, kv->key);
    at = write_int(at, 2, (uint64_t)kv->create_revision);
    at = write_int(at, 3, (uint64_t)kv->mod_revision);
    at = write_int(at, 4, (uint64_t)kv->version);
    at = write_bytes(at, 5, kv->value);
    return write_int(at, 6, (uint64_t)kv->lease);
}

int pb_kv_put(const struct pb_kv *kv, struct buf *out)
{
    size_t size = pb_kv_size(kv);
    int rc = buf_reserve(out, size);
    if (rc < 0 || size == 0) return rc;
    pb__put_done(out, pb_kv_write(kv, out->data + out->len), size);
    return 0;
}

static void kv_field(struct pb_kv *kv, const struct pb_field *f)
{
    if (f->wire == PB_WIRE_LEN) {
        if (f->number == 1) kv->key = f->data;
        if (f->number == 5) kv->value = f->data;
    } else if (f->wire == PB_WIRE_VARINT) {
        if (f->number == 2) kv->create_revision = (int64_t)f->value;
        if (f->number == 3) kv->mod_revision = (int64_t)f->value;
        if (f->number == 4) kv->version = (int64_t)f->value;
        if (f->number == 6) kv->lease = (int64_t)f->value;
    }
}

int pb_kv_decode(struct bytes in, struct pb_kv *out)
{
    struct pb_kv kv = {0};
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&r, &f)) > 0) {
        kv_field(&kv, &f);
    }
    if (rc == 0) *out = kv;
    return rc;
}

/* ---- leasepb.Lease ------------------------------------------------------------------------------ */

uint8_t *pb_lease_write(const struct pb_lease *lease, uint8_t *at)
{
    at = write_int(at, 1, (uint64_t)lease->id);
    at = write_int(at, 2, (uint64_t)lease->ttl_s);
    return write_int(at, 3, (uint64_t)lease->remaining_ttl_s);
}

int pb_lease_put(const struct pb_lease *lease, struct buf *out)
{
    uint8_t row[PB_LEASE_BYTES_MAX];
    return buf_put(out, row, (size_t)(pb_lease_write(lease, row) - row));
}

int pb_lease_decode(struct bytes in, struct pb_lease *out)
{
    struct pb_lease lease = {0};
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&r, &f)) > 0) {
        if (f.wire != PB_WIRE_VARINT) continue;
        if (f.number == 1) lease.id = (int64_t)f.value;
        if (f.number == 2) lease.ttl_s = (int64_t)f.value;
        if (f.number == 3) lease.remaining_ttl_s = (int64_t)f.value;
    }
    if (rc == 0) *out = lease;
    return rc;
}

/* ---- etcdserverpb.AlarmMember ------------------------------------------------------------------- */

uint8_t *pb_alarm_write(const struct pb_alarm *alarm, uint8_t *at)
{
    at = write_int(at, 1, alarm->member_id);
    /* An enum goes out as a signed number of 64 bits: a negative one takes ten bytes. */
    return write_int(at, 2, (uint64_t)(int64_t)alarm->type);
}

int pb_alarm_put(const struct pb_alarm *alarm, struct buf *out)
{
    uint8_t row[PB_ALARM_BYTES_MAX];
    return buf_put(out, row, (size_t)(pb_alarm_write(alarm, row) - row));
}

int pb_alarm_decode(struct bytes in, struct pb_alarm *out)
{
    struct pb_alarm alarm = {0};
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&r, &f)) > 0) {
        if (f.wire != PB_WIRE_VARINT) continue;
        if (f.number == 1) alarm.member_id = f.value;
        if (f.number == 2) alarm.type = (int32_t)(uint32_t)f.value;
    }
    if (rc == 0) *out = alarm;
    return rc;
}
