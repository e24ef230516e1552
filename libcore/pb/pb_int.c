/* The tables behind pb_int.h. */
#include "pb/pb_int.h"

#include "base/err.h"

size_t pb__value_bytes(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return 4;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING: return sizeof(char *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(ProtobufCMessage *);
    }
    return 0;
}

enum pb_wire pb__scalar_wire(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return PB_WIRE_FIXED32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return PB_WIRE_FIXED64;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL: return PB_WIRE_VARINT;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return PB_WIRE_LEN;
    }
    return PB_WIRE_LEN;
}

enum pb__kind pb__kind(const ProtobufCFieldDescriptor *fd, enum pb_wire wire)
{
    if (fd == NULL) return PB__SKIP;
    enum pb_wire own = pb__scalar_wire(fd->type);
    if (own != PB_WIRE_LEN) {
        if (wire == own) return PB__SCALAR;
        bool packed = wire == PB_WIRE_LEN && fd->label == PROTOBUF_C_LABEL_REPEATED;
        return packed ? PB__PACKED : PB__SKIP;
    }
    if (wire != PB_WIRE_LEN) return PB__SKIP;
    if (fd->type == PROTOBUF_C_TYPE_STRING) return PB__STRING;
    return fd->type == PROTOBUF_C_TYPE_BYTES ? PB__BYTES : PB__MESSAGE;
}

int pb__read_scalar(struct pb_reader *r, ProtobufCType type, uint64_t *out)
{
    enum pb_wire wire = pb__scalar_wire(type);
    if (wire == PB_WIRE_VARINT) return pb_read_varint(r, out);
    size_t len = wire == PB_WIRE_FIXED64 ? 8 : 4;
    if ((size_t)(r->end - r->at) < len) return E_PROTO;
    uint64_t v = 0;
    for (size_t i = 0; i < len; i++) {
        v |= (uint64_t)r->at[i] << 8 * i;
    }
    r->at += len;
    *out = v;
    return 0;
}
