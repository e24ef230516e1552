/* protobuf-c's encoder writes what Go's writes (tests compare); here it only meets our buffers. */
#include "pb/pack.h"

#include "base/assert.h"

size_t pb_packed_size(const ProtobufCMessage *msg)
{
    return protobuf_c_message_get_packed_size(msg);
}

int pb_pack(const ProtobufCMessage *msg, struct buf *out)
{
    size_t size = pb_packed_size(msg);
    int rc = buf_reserve(out, size);
    if (rc < 0 || size == 0) return rc;
    size_t written = protobuf_c_message_pack(msg, out->data + out->len);
    ASSERT(written == size);
    out->len += size;
    return 0;
}
