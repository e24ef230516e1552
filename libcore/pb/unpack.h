/* Bytes to protobuf-c structs, in an arena.
 *
 * The structs are protobuf-c's, the decoder is ours: protobuf-c's own merges the occurrences of a singular
 * sub-message in quadratic time and memory, recurses, and refuses what Go skips. Ours gives what Go gives:
 * the last value of a scalar wins, occurrences of a singular sub-message are merged, of a oneof the
 * last member wins (and merges with itself), repeated scalars may come packed or not, unknown fields are
 * dropped. Maps are lists of entries as they came: the last of a key counts. */
#ifndef PB_UNPACK_H
#define PB_UNPACK_H

#include <stdbool.h>

#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/errmsg.h"
#include "pb/scan.h"

/* Gives `*out`, living in `arena` until its reset; never hand it to ..._free_unpacked(). Strings and bytes are
 * copies, strings with a terminating zero. Absent strings are "" (proto3) or NULL (proto2).
 *
 * Owner:   borrows all.   Thread: that of the arena.
 * Errors:  those of pb_scan() with pb_bounds_default; E_NOMEM the arena is used up. */
int pb_unpack(const ProtobufCMessageDescriptor *desc, struct bytes in, struct arena *arena,
              ProtobufCMessage **out, struct errmsg *em);

/* The same with bounds of the caller's. With `alias`, fields of type bytes are not copied but point into `in`,
 * which must then outlive `*out` and not change. */
struct pb_unpack_opts {
    const struct pb_bounds *bounds; /* NULL: pb_bounds_default */
    bool alias;
};

int pb_unpack_opts(const ProtobufCMessageDescriptor *desc, struct bytes in,
                   const struct pb_unpack_opts *opts, struct arena *arena, ProtobufCMessage **out,
                   struct errmsg *em);

#endif
