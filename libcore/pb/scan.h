/* The look before the leap: what would it take to unpack these bytes?
 *
 * Walks a message against its descriptor without recursion and without memory of its own, so that nothing
 * is allocated for a message that is malformed, too deep or too large. What it accepts, pb_unpack() can
 * only fail for want of memory. As Go's decoder: fields with an unknown number, or a known number and
 * another wire type, are skipped; a string of a proto3 message must be valid UTF-8. Unlike Go's, it refuses a string with a zero
 * byte inside, since a C string would end there. */
#ifndef PB_SCAN_H
#define PB_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/bytes.h"
#include "base/errmsg.h"
#include "base/limits.h"

/* What may be spent on one message. */
struct pb_bounds {
    uint32_t depth_max;  /* messages inside each other; the outermost is 1; <= PB_DEPTH_MAX */
    uint32_t count_max;  /* messages and elements of repeated fields, all together */
    uint64_t memory_max; /* bytes that unpacking takes from the arena */
};

/* Nesting of a request from outside. It is less than PB_DEPTH_MAX, because an entry wraps it and its answer has a
 * level more: what was let in must be readable ever after. */
enum { PB_REQUEST_DEPTH_MAX = PB_DEPTH_MAX - 4 };

/* For requests: the largest one is some MiB on the wire, and a txn of all its ops some hundred messages. */
extern const struct pb_bounds pb_bounds_default;

/* For what must be read because it is ours already, committed entries and rows of the store: the depth only. */
extern const struct pb_bounds pb_bounds_own;

struct pb_cost {
    uint32_t depth;
    uint32_t count;
    uint64_t memory_bytes; /* an upper bound, never below what pb_unpack() takes */
};

/* Fills `*cost` for `in` as a message of type `desc`. Pure, any thread; borrows all.
 *
 * Errors: E_PROTO malformed (cut, invalid tag, invalid UTF-8, a zero byte in a string); E_TOOBIG a bound is exceeded. `em` names the
 *         message type and what was wrong; `*cost` is untouched. */
int pb_scan(const ProtobufCMessageDescriptor *desc, struct bytes in, const struct pb_bounds *bounds,
            struct pb_cost *cost, struct errmsg *em);

#endif
