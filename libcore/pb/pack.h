/* protobuf-c structs to bytes, the same bytes as Go's: fields in ascending number, zero scalars of proto3
 * left out, a oneof member written even when zero, a present sub-message even when empty, repeated
 * numbers of proto3 packed. Unknown fields do not exist (pb_unpack() drops them). */
#ifndef PB_PACK_H
#define PB_PACK_H

#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"

/* Bytes that pb_pack() appends for `msg`. Pure, any thread. */
size_t pb_packed_size(const ProtobufCMessage *msg);

/* Appends `msg` to `out`. The message must be well-formed (generated ..._init(), no NULL element), and
 * not deeper than PB_DEPTH_MAX. Errors: E_TOOBIG, E_NOMEM as buf_reserve(); `out` is then as before. */
int pb_pack(const ProtobufCMessage *msg, struct buf *out);

#endif
