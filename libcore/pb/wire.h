/* The wire format of protobuf, by hand: for the few messages whose bytes or speed matter, and as the floor
 * of the scanner and the unpacker.
 *
 * A message is a row of fields; a field is a tag (number * 8 + wire type, as a varint) and a value:
 *
 *   type 0  varint: 7 bits a byte, lowest first, top bit set on all but the last; at most 10 bytes
 *   type 1  8 bytes, little-endian          type 5  4 bytes, little-endian
 *   type 2  a varint n, then n bytes        type 3  fields until a tag of type 4 with the same number
 *
 * Writers here trust their caller for room; sizes come from the size functions beside them. */
#ifndef PB_WIRE_H
#define PB_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

enum pb_wire {
    PB_WIRE_VARINT = 0,
    PB_WIRE_FIXED64 = 1,
    PB_WIRE_LEN = 2,
    PB_WIRE_GROUP = 3,
    PB_WIRE_GROUP_END = 4,
    PB_WIRE_FIXED32 = 5
};

enum { PB_VARINT_BYTES_MAX = 10 };

/* The highest field number that the format allows. */
#define PB_NUMBER_MAX ((1u << 29) - 1)

/* ---- reading ------------------------------------------------------------------------------------ */

struct pb_reader {
    const uint8_t *at;
    const uint8_t *end;
};

/* One field as it stands on the wire. */
struct pb_field {
    uint32_t number; /* 1 ... PB_NUMBER_MAX */
    enum pb_wire wire;
    uint64_t value;    /* of VARINT, FIXED64, FIXED32 */
    struct bytes data; /* of LEN: the bytes; of GROUP: all between its two tags */
};

static inline struct pb_reader pb_reader_of(struct bytes in)
{
    return (struct pb_reader){in.data, in.len == 0 ? in.data : in.data + in.len};
}

/* Takes one varint. 0, or E_PROTO when it is cut or over 64 bits; the place is then as before. */
int pb_read_varint(struct pb_reader *r, uint64_t *out);

/* Takes one field; spans point into what is read. 1 with a field, 0 at the end, or E_PROTO: cut, an
 * invalid tag, a stray or missing group end, groups nested over PB_DEPTH_MAX. Never recurses. */
int pb_next(struct pb_reader *r, struct pb_field *out);

/* Whether `s` is UTF-8 as Go has it: no surrogates, nothing over U+10FFFF, no longer form than needed. */
bool pb_utf8_valid(struct bytes s);

/* ---- sizes -------------------------------------------------------------------------------------- */

/* 1 ... 10. */
static inline size_t pb_varint_size(uint64_t v)
{
    return (size_t)(64 - __builtin_clzll(v | 1) + 6) / 7;
}

static inline size_t pb_tag_size(uint32_t number)
{
    return pb_varint_size((uint64_t)number << 3);
}

/* A field with a varint. */
static inline size_t pb_uint_size(uint32_t number, uint64_t v)
{
    return pb_tag_size(number) + pb_varint_size(v);
}

/* A field of `len` bytes. */
static inline size_t pb_len_size(uint32_t number, size_t len)
{
    return pb_tag_size(number) + pb_varint_size(len) + len;
}

/* ---- writing: each returns the place behind what it wrote ------------------------------------------ */

uint8_t *pb_write_varint(uint8_t *at, uint64_t v);
uint8_t *pb_write_tag(uint8_t *at, uint32_t number, enum pb_wire wire);
/* A field with a varint, zero too. */
uint8_t *pb_write_uint(uint8_t *at, uint32_t number, uint64_t v);
/* Tag and length of a field whose `len` bytes the caller writes behind. */
uint8_t *pb_write_len(uint8_t *at, uint32_t number, size_t len);
uint8_t *pb_write_bytes(uint8_t *at, uint32_t number, struct bytes s);

/* The same into a buffer; errors as buf_reserve(). */
int pb_put_varint(struct buf *out, uint64_t v);
int pb_put_uint(struct buf *out, uint32_t number, uint64_t v);
int pb_put_len(struct buf *out, uint32_t number, size_t len);
int pb_put_bytes(struct buf *out, uint32_t number, struct bytes s);

#endif
