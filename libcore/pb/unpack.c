/* The mirror of scan.c: the same walk, with memory.
 *
 * What the scan has accepted is not judged again: from there on only the arena can fail. A repeated field
 * grows by doubling; its capacity follows from its count (pb_int.h). Rejected: protobuf_c_message_unpack(),
 * see doc/decisions. */
#include "pb/unpack.h"

#include "base/assert.h"
#include "base/err.h"
#include "pb/pb_int.h"
#include "pb/wire.h"

struct frame {
    ProtobufCMessage *msg;
    struct pb_reader in;
};

struct unpack {
    struct frame open[PB_DEPTH_MAX];
    uint32_t depth;
    struct arena *arena;
    bool alias;
};

/* The place of a field, or of its count, flag or case, in the C struct. */
static void *member(ProtobufCMessage *msg, unsigned offset)
{
    return (uint8_t *)msg + offset;
}

/* Stores a scalar of the wire as the C type of the field, cut to its width as Go does. */
static void store_scalar(void *at, ProtobufCType type, uint64_t v)
{
    if (type == PROTOBUF_C_TYPE_BOOL) {
        *(protobuf_c_boolean *)at = v != 0;
        return;
    }
    if (type == PROTOBUF_C_TYPE_SINT32) v = (uint32_t)v;
    if (type == PROTOBUF_C_TYPE_SINT32 || type == PROTOBUF_C_TYPE_SINT64)
        v = (v >> 1) ^ (0 - (v & 1));
    if (pb__value_bytes(type) == 8) {
        memcpy(at, &v, 8);
    } else {
        uint32_t narrow = (uint32_t)v;
        memcpy(at, &narrow, 4);
    }
}

static int store_string(struct unpack *u, char **at, struct bytes data)
{
    char *copy = arena_new(u->arena, data.len + 1);
    if (copy == NULL) return E_NOMEM;
    if (data.len > 0) memcpy(copy, data.data, data.len);
    copy[data.len] = 0;
    *at = copy;
    return 0;
}

static int store_bytes(struct unpack *u, ProtobufCBinaryData *at, struct bytes data)
{
    uint8_t *copy = NULL;
    if (data.len > 0 && u->alias) {
        /* protobuf-c knows no const; nobody writes through it. */
        copy = (uint8_t *)(uintptr_t)data.data;
    } else if (data.len > 0) {
        copy = arena_new(u->arena, data.len);
        if (copy == NULL) return E_NOMEM;
        memcpy(copy, data.data, data.len);
    }
    *at = (ProtobufCBinaryData){.len = data.len, .data = copy};
    return 0;
}

/* Gives the place for one more element; it counts from now on. */
static void *array_append(struct unpack *u, ProtobufCMessage *msg,
                          const ProtobufCFieldDescriptor *fd)
{
    size_t *count = member(msg, fd->quantifier_offset);
    void **array = member(msg, fd->offset);
    size_t each = pb__value_bytes(fd->type);
    if (pb__array_full(*count)) {
        void *grown = arena_new(u->arena, pb__array_next(*count) * each);
        if (grown == NULL) return NULL;
        if (*count > 0) memcpy(grown, *array, *count * each);
        *array = grown;
    }
    void *place = (uint8_t *)*array + *count * each;
    memset(place, 0, each);
    (*count)++;
    return place;
}

static int append_packed(struct unpack *u, ProtobufCMessage *msg,
                         const ProtobufCFieldDescriptor *fd, struct bytes data)
{
    struct pb_reader r = pb_reader_of(data);
    while (r.at < r.end) {
        uint64_t v = 0;
        int rc = pb__read_scalar(&r, fd->type, &v);
        ASSERT(rc == 0);
        void *place = array_append(u, msg, fd);
        if (place == NULL) return E_NOMEM;
        store_scalar(place, fd->type, v);
    }
    return 0;
}

/* Gives the place of a singular field, and marks it as there. Another member of its oneof goes away. */
static void *singular(ProtobufCMessage *msg, const ProtobufCFieldDescriptor *fd)
{
    void *place = member(msg, fd->offset);
    if ((fd->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        uint32_t *which = member(msg, fd->quantifier_offset);
        if (*which != fd->id) memset(place, 0, pb__value_bytes(fd->type));
        *which = fd->id;
    } else if (fd->label == PROTOBUF_C_LABEL_OPTIONAL && fd->quantifier_offset != 0) {
        *(protobuf_c_boolean *)member(msg, fd->quantifier_offset) = 1;
    }
    return place;
}

/* Opens the message at `place`, a new one unless an earlier occurrence made it. */
static int open_message(struct unpack *u, const ProtobufCMessageDescriptor *desc,
                        ProtobufCMessage **place, struct bytes in)
{
    if (*place == NULL) {
        ProtobufCMessage *msg = arena_new(u->arena, desc->sizeof_message);
        if (msg == NULL) return E_NOMEM;
        desc->message_init(msg);
        *place = msg;
    }
    ASSERT(u->depth < PB_DEPTH_MAX);
    u->open[u->depth++] = (struct frame){*place, pb_reader_of(in)};
    return 0;
}

static int unpack_field(struct unpack *u, ProtobufCMessage *msg, const ProtobufCFieldDescriptor *fd,
                        const struct pb_field *f)
{
    enum pb__kind kind = pb__kind(fd, f->wire);
    if (kind == PB__SKIP) return 0;
    if (kind == PB__PACKED) return append_packed(u, msg, fd, f->data);
    bool repeated = fd->label == PROTOBUF_C_LABEL_REPEATED;
    void *place = repeated ? array_append(u, msg, fd) : singular(msg, fd);
    if (place == NULL) return E_NOMEM;
    switch (kind) {
    case PB__SCALAR: store_scalar(place, fd->type, f->value); return 0;
    case PB__STRING: return store_string(u, place, f->data);
    case PB__BYTES: return store_bytes(u, place, f->data);
    case PB__MESSAGE: return open_message(u, fd->descriptor, place, f->data);
    case PB__PACKED:
    case PB__SKIP: break;
    }
    return 0;
}

static int unpack_step(struct unpack *u)
{
    struct frame *top = &u->open[u->depth - 1];
    struct pb_field f;
    int rc = pb_next(&top->in, &f);
    ASSERT(rc >= 0);
    if (rc == 0) {
        u->depth--;
        return 0;
    }
    const ProtobufCFieldDescriptor *fd =
        protobuf_c_message_descriptor_get_field(top->msg->descriptor, f.number);
    return unpack_field(u, top->msg, fd, &f);
}

int pb_unpack_opts(const ProtobufCMessageDescriptor *desc, struct bytes in,
                   const struct pb_unpack_opts *opts, struct arena *arena, ProtobufCMessage **out,
                   struct errmsg *em)
{
    const struct pb_bounds *bounds = opts->bounds == NULL ? &pb_bounds_default : opts->bounds;
    struct pb_cost cost;
    int rc = pb_scan(desc, in, bounds, &cost, em);
    if (rc < 0) return rc;
    struct unpack u;
    u.depth = 0;
    u.arena = arena;
    u.alias = opts->alias;
    size_t used_bytes = arena->used_bytes;
    ProtobufCMessage *msg = NULL;
    rc = open_message(&u, desc, &msg, in);
    while (rc == 0 && u.depth > 0) {
        rc = unpack_step(&u);
    }
    ASSERT(arena->used_bytes - used_bytes <= cost.memory_bytes);
    if (rc < 0) {
        errmsg_set(em, "%s takes more memory than there is", desc->name);
        return rc;
    }
    *out = msg;
    return 0;
}

int pb_unpack(const ProtobufCMessageDescriptor *desc, struct bytes in, struct arena *arena,
              ProtobufCMessage **out, struct errmsg *em)
{
    return pb_unpack_opts(desc, in, &(struct pb_unpack_opts){0}, arena, out, em);
}
