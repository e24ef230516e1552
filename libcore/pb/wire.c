/* Varints, fields, UTF-8: the bottom of everything that reads or writes protobuf here. */
#include "pb/wire.h"

#include "base/assert.h"
#include "base/endian.h"
#include "base/err.h"
#include "base/limits.h"
#include "pb/pb_int.h"

/* ---- reading ------------------------------------------------------------------------------------ */

/* A varint of more than one byte. */
static int read_long_varint(struct pb_reader *r, uint64_t *out)
{
    const uint8_t *at = r->at;
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (at == r->end) return E_PROTO;
        uint8_t b = *at++;
        /* The tenth byte holds one bit only. */
        if (shift == 63 && b > 1) return E_PROTO;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            r->at = at;
            *out = v;
            return 0;
        }
    }
    return E_PROTO;
}

int pb_read_varint(struct pb_reader *r, uint64_t *out)
{
    /* Most tags, lengths and numbers are below 128. */
    if (r->at == r->end || *r->at >= 0x80) return read_long_varint(r, out);
    *out = *r->at++;
    return 0;
}

static int read_fixed(struct pb_reader *r, size_t len, uint64_t *out)
{
    if ((size_t)(r->end - r->at) < len) return E_PROTO;
    *out = len == 8 ? endian_load_le64(r->at) : endian_load_le32(r->at);
    r->at += len;
    return 0;
}

static int read_len(struct pb_reader *r, struct bytes *out)
{
    uint64_t len = 0;
    if (pb_read_varint(r, &len) < 0) return E_PROTO;
    if (len > (uint64_t)(r->end - r->at)) return E_PROTO;
    *out = bytes_of(r->at, (size_t)len);
    r->at += len;
    return 0;
}

/* A tag, and the value behind it unless it opens or closes a group. */
static int read_plain(struct pb_reader *r, struct pb_field *f)
{
    uint64_t tag = 0;
    if (pb_read_varint(r, &tag) < 0) return E_PROTO;
    if (tag >> 3 == 0 || tag >> 3 > PB_NUMBER_MAX) return E_PROTO;
    *f = (struct pb_field){.number = (uint32_t)(tag >> 3), .wire = (enum pb_wire)(tag & 7)};
    switch (f->wire) {
    case PB_WIRE_VARINT: return pb_read_varint(r, &f->value);
    case PB_WIRE_FIXED64: return read_fixed(r, 8, &f->value);
    case PB_WIRE_LEN: return read_len(r, &f->data);
    case PB_WIRE_FIXED32: return read_fixed(r, 4, &f->value);
    case PB_WIRE_GROUP:
    case PB_WIRE_GROUP_END: return 0;
    }
    return E_PROTO; /* wire types 6 and 7 do not exist */
}

/* Skips to behind the end of the group `f`, whose tag was just read. */
static int skip_group(struct pb_reader *r, struct pb_field *f)
{
    uint32_t open[PB_DEPTH_MAX] = {f->number};
    size_t depth = 1;
    const uint8_t *first = r->at;
    const uint8_t *last = first;
    while (depth > 0) {
        struct pb_field inner;
        last = r->at;
        if (read_plain(r, &inner) < 0) return E_PROTO;
        if (inner.wire == PB_WIRE_GROUP) {
            if (depth == PB_DEPTH_MAX) return E_PROTO;
            open[depth++] = inner.number;
        } else if (inner.wire == PB_WIRE_GROUP_END) {
            if (open[--depth] != inner.number) return E_PROTO;
        }
    }
    f->data = bytes_of(first, (size_t)(last - first));
    return 0;
}

int pb_next(struct pb_reader *r, struct pb_field *out)
{
    if (r->at == r->end) return 0;
    if (read_plain(r, out) < 0) return E_PROTO;
    if (out->wire == PB_WIRE_GROUP_END) return E_PROTO;
    if (out->wire == PB_WIRE_GROUP && skip_group(r, out) < 0) return E_PROTO;
    return 1;
}

/* ---- UTF-8 -------------------------------------------------------------------------------------- */

/* Length of the sequence that `s` starts with, 0 when it is none. Table 3-7 of the Unicode standard: the
 * second byte of E0, ED, F0, F4 has a narrower range, which leaves out long forms, surrogates and what lies
 * behind U+10FFFF. */
static size_t utf8_sequence(const uint8_t *s, size_t len)
{
    uint8_t low = 0x80;
    uint8_t high = 0xbf;
    size_t n;
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    if (s[0] < 0xe0) {
        n = 2;
    } else if (s[0] < 0xf0) {
        n = 3;
        if (s[0] == 0xe0) low = 0xa0;
        if (s[0] == 0xed) high = 0x9f;
    } else {
        n = 4;
        if (s[0] == 0xf0) low = 0x90;
        if (s[0] == 0xf4) high = 0x8f;
    }
    if (len < n || s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
    }
    return n;
}

bool pb_utf8_valid(struct bytes s)
{
    size_t i = 0;
    while (i < s.len) {
        /* Names and URLs are ASCII: eight at a time. */
        if (s.len - i >= 8 && (endian_load_le64(s.data + i) & 0x8080808080808080u) == 0) {
            i += 8;
            continue;
        }
        size_t n = utf8_sequence(s.data + i, s.len - i);
        if (n == 0) return false;
        i += n;
    }
    return true;
}

/* ---- writing ------------------------------------------------------------------------------------ */

uint8_t *pb_write_varint(uint8_t *at, uint64_t v)
{
    while (v >= 0x80) {
        *at++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *at++ = (uint8_t)v;
    return at;
}

uint8_t *pb_write_tag(uint8_t *at, uint32_t number, enum pb_wire wire)
{
    ASSERT(number >= 1 && number <= PB_NUMBER_MAX);
    return pb_write_varint(at, (uint64_t)number << 3 | (uint64_t)wire);
}

uint8_t *pb_write_uint(uint8_t *at, uint32_t number, uint64_t v)
{
    return pb_write_varint(pb_write_tag(at, number, PB_WIRE_VARINT), v);
}

uint8_t *pb_write_len(uint8_t *at, uint32_t number, size_t len)
{
    return pb_write_varint(pb_write_tag(at, number, PB_WIRE_LEN), len);
}

uint8_t *pb_write_bytes(uint8_t *at, uint32_t number, struct bytes s)
{
    at = pb_write_len(at, number, s.len);
    if (s.len > 0) memcpy(at, s.data, s.len);
    return at + s.len;
}

int pb_put_varint(struct buf *out, uint64_t v)
{
    uint8_t text[PB_VARINT_BYTES_MAX];
    return buf_put(out, text, (size_t)(pb_write_varint(text, v) - text));
}

int pb_put_uint(struct buf *out, uint32_t number, uint64_t v)
{
    uint8_t text[2 * PB_VARINT_BYTES_MAX];
    return buf_put(out, text, (size_t)(pb_write_uint(text, number, v) - text));
}

int pb_put_len(struct buf *out, uint32_t number, size_t len)
{
    uint8_t text[2 * PB_VARINT_BYTES_MAX];
    return buf_put(out, text, (size_t)(pb_write_len(text, number, len) - text));
}

int pb_put_bytes(struct buf *out, uint32_t number, struct bytes s)
{
    size_t size = pb_len_size(number, s.len);
    int rc = buf_reserve(out, size);
    if (rc < 0) return rc;
    pb__put_done(out, pb_write_bytes(out->data + out->len, number, s), size);
    return 0;
}
