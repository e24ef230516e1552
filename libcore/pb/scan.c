/* A stack of readers, one for each message that is open; each field is looked at once.
 *
 * Costs are those of unpack.c: a change there is a change here. */
#include "pb/scan.h"

#include "base/assert.h"
#include "base/err.h"
#include "pb/pb_int.h"
#include "pb/wire.h"

const struct pb_bounds pb_bounds_default = {
    .depth_max = PB_REQUEST_DEPTH_MAX,
    .count_max = 1u << 20,
    .memory_max = 64u * 1024 * 1024,
};

const struct pb_bounds pb_bounds_own = {
    .depth_max = PB_DEPTH_MAX,
    .count_max = UINT32_MAX,
    .memory_max = UINT64_MAX / 2,
};

struct frame {
    const ProtobufCMessageDescriptor *desc;
    struct pb_reader in;
};

struct scan {
    struct frame open[PB_DEPTH_MAX];
    uint32_t depth;
    struct pb_cost cost;
    const struct pb_bounds *bounds;
    struct errmsg *em;
};

/* What the arena takes for a block. */
static uint64_t block_bytes(uint64_t bytes)
{
    return bytes == 0 ? 16 : (bytes + 15) / 16 * 16;
}

static int too_much(const struct scan *s, const char *what)
{
    errmsg_set(s->em, "%s has too %s", s->open[0].desc->name, what);
    return E_TOOBIG;
}

static int malformed(const struct scan *s, const char *what)
{
    errmsg_set(s->em, "%s: %s", s->open[s->depth - 1].desc->name, what);
    return E_PROTO;
}

/* Adds one message or element, and memory. */
static int charge(struct scan *s, uint32_t count, uint64_t memory_bytes)
{
    if (count > s->bounds->count_max - s->cost.count) return too_much(s, "many elements");
    if (memory_bytes > s->bounds->memory_max - s->cost.memory_bytes)
        return too_much(s, "much data");
    s->cost.count += count;
    s->cost.memory_bytes += memory_bytes;
    return 0;
}

static int open_message(struct scan *s, const ProtobufCMessageDescriptor *desc, struct bytes in)
{
    if (s->depth >= s->bounds->depth_max) return too_much(s, "deep nesting");
    s->open[s->depth++] = (struct frame){desc, pb_reader_of(in)};
    if (s->depth > s->cost.depth) s->cost.depth = s->depth;
    return charge(s, 1, block_bytes(desc->sizeof_message));
}

static int scan_packed(struct scan *s, const ProtobufCFieldDescriptor *fd, struct bytes data)
{
    struct pb_reader r = pb_reader_of(data);
    uint64_t each = (uint64_t)PB__ARRAY_FACTOR * pb__value_bytes(fd->type);
    while (r.at < r.end) {
        uint64_t value = 0;
        if (pb__read_scalar(&r, fd->type, &value) < 0) return malformed(s, "a cut number");
        int rc = charge(s, 1, each);
        if (rc < 0) return rc;
    }
    return 0;
}

static int scan_string(struct scan *s, const ProtobufCFieldDescriptor *fd, struct bytes text)
{
    if (pb__wants_utf8(fd) && !pb_utf8_valid(text)) {
        return malformed(s, "a string contains invalid UTF-8");
    }
    /* In C it would end there: a name that goes on behind must not pass for the shorter one. */
    if (text.len > 0 && memchr(text.data, 0, text.len) != NULL) {
        return malformed(s, "a string contains a zero byte");
    }
    return charge(s, 0, block_bytes((uint64_t)text.len + 1));
}

static int scan_field(struct scan *s, const ProtobufCFieldDescriptor *fd, const struct pb_field *f)
{
    enum pb__kind kind = pb__kind(fd, f->wire);
    if (kind == PB__SKIP) return 0;
    if (kind == PB__PACKED) return scan_packed(s, fd, f->data);
    if (fd->label == PROTOBUF_C_LABEL_REPEATED) {
        int rc = charge(s, 1, (uint64_t)PB__ARRAY_FACTOR * pb__value_bytes(fd->type));
        if (rc < 0) return rc;
    }
    switch (kind) {
    case PB__STRING: return scan_string(s, fd, f->data);
    case PB__BYTES: return charge(s, 0, f->data.len == 0 ? 0 : block_bytes(f->data.len));
    case PB__MESSAGE: return open_message(s, fd->descriptor, f->data);
    case PB__SCALAR:
    case PB__PACKED:
    case PB__SKIP: break;
    }
    return 0;
}

/* Goes on with the innermost open message: takes a field, or closes it. */
static int scan_step(struct scan *s)
{
    struct frame *top = &s->open[s->depth - 1];
    struct pb_field f;
    int rc = pb_next(&top->in, &f);
    if (rc < 0) return malformed(s, "not a protobuf message");
    if (rc == 0) {
        s->depth--;
        return 0;
    }
    return scan_field(s, protobuf_c_message_descriptor_get_field(top->desc, f.number), &f);
}

int pb_scan(const ProtobufCMessageDescriptor *desc, struct bytes in, const struct pb_bounds *bounds,
            struct pb_cost *cost, struct errmsg *em)
{
    ASSERT(bounds->depth_max >= 1 && bounds->depth_max <= PB_DEPTH_MAX);
    struct scan s;
    s.depth = 0;
    s.cost = (struct pb_cost){0};
    s.bounds = bounds;
    s.em = em;
    s.open[0].desc = desc;
    int rc = open_message(&s, desc, in);
    while (rc == 0 && s.depth > 0) {
        rc = scan_step(&s);
    }
    if (rc < 0) return rc;
    *cost = s.cost;
    return 0;
}
