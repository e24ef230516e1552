/* What scanner and unpacker must see alike, the meaning of a field on the wire for a field of a message, and small
 * helpers of all encoders. */
#ifndef PB_PB_INT_H
#define PB_PB_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "pb/wire.h"

enum pb__kind {
    PB__SKIP, /* unknown, or of another wire type than the field has */
    PB__SCALAR,
    PB__PACKED, /* many scalars of a repeated field */
    PB__STRING,
    PB__BYTES,
    PB__MESSAGE
};

/* `fd` may be NULL: an unknown field. */
enum pb__kind pb__kind(const ProtobufCFieldDescriptor *fd, enum pb_wire wire);

/* Bytes of one value in the C struct: a scalar, a pointer, or a ProtobufCBinaryData. */
size_t pb__value_bytes(ProtobufCType type);

/* How a scalar of this type stands on the wire. */
enum pb_wire pb__scalar_wire(ProtobufCType type);

/* Takes one scalar of a packed run. 0 or E_PROTO. */
int pb__read_scalar(struct pb_reader *r, ProtobufCType type, uint64_t *out);

/* proto3 strings must be UTF-8; those of proto2 (label optional, outside a oneof) are taken as they are. */
static inline bool pb__wants_utf8(const ProtobufCFieldDescriptor *fd)
{
    return fd->label != PROTOBUF_C_LABEL_OPTIONAL || (fd->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

/* Ends a put of `size` reserved bytes: the writer must have come to just behind them. */
static inline void pb__put_done(struct buf *out, const uint8_t *end, size_t size)
{
    ASSERT(end == out->data + out->len + size);
    out->len += size;
}

/* Elements that a repeated field with `count` of them has room for: 4, 8, 16, ... So a field needs no memory
 * of its capacity. All arrays that growth to n elements takes together are below 4 n elements. */
enum { PB__ARRAY_MIN = 4, PB__ARRAY_FACTOR = 4 };

static inline bool pb__array_full(size_t count)
{
    return count == 0 || (count >= PB__ARRAY_MIN && (count & (count - 1)) == 0);
}

static inline size_t pb__array_next(size_t count)
{
    return count == 0 ? PB__ARRAY_MIN : 2 * count;
}

#endif
