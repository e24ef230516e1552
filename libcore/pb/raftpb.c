/* Entry, HardState, ConfChange, and the envelopes without lists. Those with a conf state are in raftpb_conf.c. */
#include "pb/raftpb.h"

#include "base/err.h"
#include "pb/pb_int.h"
#include "pb/wire.h"

/* Data that is written when there is any. */
static size_t data_size(uint32_t number, struct bytes s)
{
    return s.len == 0 ? 0 : pb_len_size(number, s.len);
}

static uint8_t *write_data(uint8_t *at, uint32_t number, struct bytes s)
{
    return s.len == 0 ? at : pb_write_bytes(at, number, s);
}

/* An enum or other signed number, as the 64 bits that go out. */
static uint64_t signed_bits(int64_t v)
{
    return (uint64_t)v;
}

/* ---- raftpb.Entry ------------------------------------------------------------------------------- */

size_t pb_entry_size(const struct pb_entry *e)
{
    size_t type = e->type == PB_ENTRY_NORMAL ? 0 : pb_uint_size(1, signed_bits(e->type));
    return type + pb_uint_size(2, e->term) + pb_uint_size(3, e->index) + data_size(4, e->data);
}

uint8_t *pb_entry_write(const struct pb_entry *e, uint8_t *at)
{
    if (e->type != PB_ENTRY_NORMAL) at = pb_write_uint(at, 1, signed_bits(e->type));
    at = pb_write_uint(at, 2, e->term);
    at = pb_write_uint(at, 3, e->index);
    return write_data(at, 4, e->data);
}

int pb_entry_put(const struct pb_entry *e, struct buf *out)
{
    size_t size = pb_entry_size(e);
    int rc = buf_reserve(out, size);
    if (rc < 0) return rc;
    pb__put_done(out, pb_entry_write(e, out->data + out->len), size);
    return 0;
}

int pb_entry_decode(struct bytes in, struct pb_entry *out)
{
    struct pb_entry e = {0};
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&r, &f)) > 0) {
        if (f.wire == PB_WIRE_LEN && f.number == 4) e.data = f.data;
        if (f.wire != PB_WIRE_VARINT) continue;
        if (f.number == 1) e.type = (int32_t)(uint32_t)f.value;
        if (f.number == 2) e.term = f.value;
        if (f.number == 3) e.index = f.value;
    }
    if (rc == 0) *out = e;
    return rc;
}

/* ---- raftpb.HardState --------------------------------------------------------------------------- */

uint8_t *pb_hard_state_write(const struct pb_hard_state *s, uint8_t *at)
{
    at = pb_write_uint(at, 1, s->term);
    at = pb_write_uint(at, 2, s->vote);
    return pb_write_uint(at, 3, s->commit);
}

int pb_hard_state_put(const struct pb_hard_state *s, struct buf *out)
{
    uint8_t text[PB_HARD_STATE_BYTES_MAX];
    return buf_put(out, text, (size_t)(pb_hard_state_write(s, text) - text));
}

int pb_hard_state_decode(struct bytes in, struct pb_hard_state *out)
{
    struct pb_hard_state s = {0};
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&r, &f)) > 0) {
        if (f.wire != PB_WIRE_VARINT) continue;
        if (f.number == 1) s.term = f.value;
        if (f.number == 2) s.vote = f.value;
        if (f.number == 3) s.commit = f.value;
    }
    if (rc == 0) *out = s;
    return rc;
}

/* ---- raftpb.ConfChange -------------------------------------------------------------------------- */

size_t pb_conf_change_size(const struct pb_conf_change *cc)
{
    size_t id = cc->id == 0 ? 0 : pb_uint_size(1, cc->id);
    return id + pb_uint_size(2, signed_bits(cc->type)) + pb_uint_size(3, cc->node_id) +
           data_size(4, cc->context);
}

uint8_t *pb_conf_change_write(const struct pb_conf_change *cc, uint8_t *at)
{
    if (cc->id != 0) at = pb_write_uint(at, 1, cc->id);
    at = pb_write_uint(at, 2, signed_bits(cc->type));
    at = pb_write_uint(at, 3, cc->node_id);
    return write_data(at, 4, cc->context);
}

int pb_conf_change_put(const struct pb_conf_change *cc, struct buf *out)
{
    size_t size = pb_conf_change_size(cc);
    int rc = buf_reserve(out, size);
    if (rc < 0) return rc;
    pb__put_done(out, pb_conf_change_write(cc, out->data + out->len), size);
    return 0;
}

int pb_conf_change_decode(struct bytes in, struct pb_conf_change *out)
{
    struct pb_conf_change cc = {0};
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&r, &f)) > 0) {
        if (f.wire == PB_WIRE_LEN && f.number == 4) cc.context = f.data;
        if (f.wire != PB_WIRE_VARINT) continue;
        if (f.number == 1) cc.id = f.value;
        if (f.number == 2) cc.type = (int32_t)(uint32_t)f.value;
        if (f.number == 3) cc.node_id = f.value;
    }
    if (rc == 0) *out = cc;
    return rc;
}

/* ---- snappb.snapshot ---------------------------------------------------------------------------- */

size_t pb_snap_file_size(const struct pb_snap_file *f)
{
    return pb_uint_size(1, f->crc) + pb_len_size(2, f->data.len);
}

uint8_t *pb_snap_file_write(const struct pb_snap_file *f, uint8_t *at)
{
    at = pb_write_uint(at, 1, f->crc);
    return pb_write_bytes(at, 2, f->data);
}

int pb_snap_file_put(const struct pb_snap_file *f, struct buf *out)
{
    size_t size = pb_snap_file_size(f);
    int rc = buf_reserve(out, size);
    if (rc < 0) return rc;
    pb__put_done(out, pb_snap_file_write(f, out->data + out->len), size);
    return 0;
}

int pb_snap_file_decode(struct bytes in, struct pb_snap_file *out)
{
    struct pb_snap_file file = {0};
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&r, &f)) > 0) {
        if (f.wire == PB_WIRE_VARINT && f.number == 1) file.crc = (uint32_t)f.value;
        if (f.wire == PB_WIRE_LEN && f.number == 2) file.data = f.data;
    }
    if (rc == 0) *out = file;
    return rc;
}

/* ---- walpb.Record ------------------------------------------------------------------------------- */

size_t pb_wal_record_size(const struct pb_wal_record *r)
{
    return pb_uint_size(1, signed_bits(r->type)) + pb_uint_size(2, r->crc) + data_size(3, r->data);
}

uint8_t *pb_wal_record_write_head(const struct pb_wal_record *r, uint8_t *at)
{
    at = pb_write_uint(at, 1, signed_bits(r->type));
    at = pb_write_uint(at, 2, r->crc);
    return r->data.len == 0 ? at : pb_write_len(at, 3, r->data.len);
}

uint8_t *pb_wal_record_write(const struct pb_wal_record *r, uint8_t *at)
{
    at = pb_wal_record_write_head(r, at);
    if (r->data.len > 0) memcpy(at, r->data.data, r->data.len);
    return at + r->data.len;
}

int pb_wal_record_put(const struct pb_wal_record *r, struct buf *out)
{
    size_t size = pb_wal_record_size(r);
    int rc = buf_reserve(out, size);
    if (rc < 0) return rc;
    pb__put_done(out, pb_wal_record_write(r, out->data + out->len), size);
    return 0;
}

int pb_wal_record_decode(struct bytes in, struct pb_wal_record *out)
{
    struct pb_wal_record record = {0};
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&r, &f)) > 0) {
        if (f.wire == PB_WIRE_LEN && f.number == 3) record.data = f.data;
        if (f.wire != PB_WIRE_VARINT) continue;
        if (f.number == 1) record.type = (int64_t)f.value;
        if (f.number == 2) record.crc = (uint32_t)f.value;
    }
    if (rc == 0) *out = record;
    return rc;
}

/* ---- etcdserverpb.Metadata ---------------------------------------------------------------------- */

uint8_t *pb_metadata_write(const struct pb_metadata *m, uint8_t *at)
{
    at = pb_write_uint(at, 1, m->node_id);
    return pb_write_uint(at, 2, m->cluster_id);
}

int pb_metadata_put(const struct pb_metadata *m, struct buf *out)
{
    uint8_t text[PB_METADATA_BYTES_MAX];
    return buf_put(out, text, (size_t)(pb_metadata_write(m, text) - text));
}

int pb_metadata_decode(struct bytes in, struct pb_metadata *out)
{
    struct pb_metadata m = {0};
    struct pb_reader r = pb_reader_of(in);
    struct pb_field f;
    int rc;
    while ((rc = pb_next(&r, &f)) > 0) {
        if (f.wire != PB_WIRE_VARINT) continue;
        if (f.number == 1) m.node_id = f.value;
        if (f.number == 2) m.cluster_id = f.value;
    }
    if (rc == 0) *out = m;
    return rc;
}
