/* The WAL reader, repair and reopening on any bytes: no input may do more than be refused, and a log that was opened for
 * writing must take an entry and give it back.
 *
 * First byte: bit 0: the rest is a list of records (type, length, data) that get frames and a right crc chain here, so
 * that the fuzzer reaches what lies behind the checks; else the rest is a segment as it is. Bit 1: the second half is a
 * second segment. Built with PLANT_OVERFLOW it holds a bug to be found. */
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/endian.h"
#include "base/err.h"
#include "os/heap.h"
#include "pb/raftpb.h"
#include "simdisk.h"
#include "wal/wal.h"
#include "wal/wal_int.h"
#include "wal/wal_read.h"

enum { FRAMED = 1, TWO = 2, BAD_CRC = 0x80, LONG = 0x40, LONG_FACTOR = 64, SEGMENT_BYTES = 8192 };

#define DIR "wal"

/* ---- the log ---------------------------------------------------------------------------------------- */

static void must(int rc)
{
    ASSERT(rc == 0);
}

static void put_frame(struct buf *out, int64_t type, struct bytes data, uint32_t crc)
{
    static const uint8_t zeros[8] = {0};
    struct pb_wal_record rec = {type, crc, data};
    uint64_t pad;
    uint8_t word[8];
    endian_store_le64(word, wal__frame_encode(pb_wal_record_size(&rec), &pad));
    must(buf_put(out, word, sizeof word));
    must(pb_wal_record_put(&rec, out));
    must(buf_put(out, zeros, (size_t)pad));
}

/* One record of the list; returns how much of it was used. */
static size_t put_one(struct buf *out, struct bytes in, uint32_t *crc)
{
    uint8_t kind = in.data[0];
    size_t len = in.data[1];
    if (len > in.len - 2) len = in.len - 2;
    struct buf data;
    buf_init(&data, &os_heap, 1u << 20);
    for (int i = 0; i < ((kind & LONG) != 0 ? LONG_FACTOR : 1); i++)
        must(buf_put(&data, in.data + 2, len));
    int64_t type = kind & 7;
    if (type != WAL_CRC) *crc = crc32c_update(*crc, data.data, data.len);
    put_frame(out, type, buf_bytes(&data), *crc + ((kind & BAD_CRC) != 0));
    buf_deinit(&data);
    return 2 + len;
}

static void put_segment(struct simdisk *d, const char *name, struct bytes in, bool framed,
                        uint32_t *crc)
{
    struct buf out;
    buf_init(&out, &os_heap, 1u << 26);
    if (framed) put_frame(&out, WAL_CRC, BYTES_EMPTY, *crc);
    while (framed && in.len >= 2) {
        size_t used = put_one(&out, in, crc);
        in = bytes_of(in.data + used, in.len - used);
    }
    if (in.len > 0) must(buf_put_bytes(&out, in));
    while (out.len % SEGMENT_BYTES != 0)
        must(buf_put_u8(&out, 0));
    simdisk_put_file(d, name, buf_bytes(&out));
    buf_deinit(&out);
}

static struct simdisk *make_log(struct bytes in, uint8_t flags)
{
    struct simdisk *d = simdisk_new();
    size_t first = (flags & TWO) != 0 ? in.len / 2 : in.len;
    uint32_t crc = 0;
    bool framed = (flags & FRAMED) != 0;
    put_segment(d, DIR "/0000000000000000-0000000000000000.wal", bytes_of(in.data, first), framed,
                &crc);
    if ((flags & TWO) != 0)
        put_segment(d, DIR "/0000000000000001-0000000000000002.wal",
                    bytes_of(in.data + first, in.len - first), framed, &crc);
    return d;
}

/* ---- what is done with it --------------------------------------------------------------------------- */

static const struct wal_snapshot zero = {0, 0};

#ifdef PLANT_OVERFLOW
/* The bug: metadata is taken to be short. */
static void planted(const struct wal_contents *c)
{
    uint8_t metadata[8];
    if (c->metadata_len > 0) memcpy(metadata, c->metadata, c->metadata_len);
    ASSERT(c->metadata_len == 0 || metadata[0] == c->metadata[0]);
}
#else
static void planted(const struct wal_contents *c)
{
    (void)c;
}
#endif

static void check_entries(const struct wal_contents *c)
{
    planted(c);
    for (size_t i = 0; i < c->entry_count; i++)
        ASSERT(c->entries[i].index == i + 1);
}

static void read_only(const struct wal_opts *o)
{
    struct errmsg em;
    struct wal_contents c = WAL_CONTENTS_EMPTY;
    struct raft_hard_state s;
    int rc = wal_read(o, DIR, zero, &c, &em);
    check_entries(&c);
    int verified = wal_verify(o, DIR, zero, &s, &em);
    if (rc == 0) {
        ASSERT(verified == 0);
        ASSERT(raft_hard_state_eq(s, c.hard_state));
    }
    wal_contents_deinit(&c);
    struct wal_snapshot *list = NULL;
    size_t n = 0;
    if (wal_snapshots(o, DIR, &list, &n, &em) == 0) wal_snapshots_free(o, list, n);
}

/* Goes on behind every bad crc, as a tool may. */
static void read_on(const struct wal_opts *o)
{
    struct errmsg em;
    struct wal_reader *r;
    struct wal_view v;
    int rc = wal_reader_open_all(o, DIR, &r, &em);
    ASSERT(rc == 0);
    do {
        rc = wal_reader_next(r, &v, &em);
        if (rc == 0) ASSERT(v.end_offset > v.offset);
    } while (rc == 0 || rc == E_WAL_CRC);
    wal_reader_close(r);
}

static void write_on(const struct wal_opts *o)
{
    struct errmsg em;
    struct wal_contents c = WAL_CONTENTS_EMPTY;
    struct wal *w;
    if (wal_open_repair(o, DIR, zero, &c, NULL, &w, &em) < 0) return;
    check_entries(&c);
    struct raft_entry e = {1, c.entry_count + 1, RAFT_ENTRY_NORMAL, rcbuf_new(&os_heap, 600)};
    ASSERT(e.data != NULL);
    memset(e.data->data, 1, e.data->len);
    struct raft_hard_state s = {7, 7, 7};
    int rc = wal_save(w, &s, &e, 1, &em);
    ASSERT(rc == 0);
    rc = wal_close(w, &em);
    ASSERT(rc == 0);
    rcbuf_unref(e.data);
    size_t count = c.entry_count;
    wal_contents_deinit(&c);
    rc = wal_read(o, DIR, zero, &c, &em);
    ASSERT(rc == 0 || rc == E_WAL_SNAPSHOT_NOT_FOUND);
    ASSERT(!c.torn);
    ASSERT(c.entry_count == count + 1);
    ASSERT(raft_hard_state_eq(c.hard_state, s));
    wal_contents_deinit(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0) return 0;
    struct simdisk *d = make_log(bytes_of(data + 1, len - 1), data[0]);
    struct wal_opts o = {
        .disk = simdisk_face(d), .alloc = &os_heap, .segment_bytes = SEGMENT_BYTES};
    read_only(&o);
    read_on(&o);
    write_on(&o);
    simdisk_free(d);
    return 0;
}
