/* The JSON dump of a v2 key tree that a .snap file carries: upstream's form of the membership.
 *
 * Built anew for each snapshot from the member table; byte-exact with upstream for the same order of members
 * (upstream walks a hash map; we go by ascending id). Format: doc/formats/snap.md. */
#ifndef SNAP_SNAP_V2_H
#define SNAP_SNAP_V2_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "membership/member.h"
#include "membership/membership.h"

struct snap_v2_store {
    const struct member *members; /* in the order in which they are to be made */
    size_t member_count;
    const uint64_t *removed; /* ids */
    size_t removed_count;
    struct bytes version; /* the cluster's, "3.7.0"; empty while unknown */
};

/* Appends the JSON to `out`. Needs a scratch allocation for sorting the keys.
 * Errors: E_NOMEM, E_TOOBIG; `out` is as before. */
int snap_v2_encode(const struct snap_v2_store *s, struct buf *out);

/* The same for a version of the member table, members by ascending id. Errors: as snap_v2_encode(). */
int snap_v2_encode_membership(const struct membership *m, struct buf *out);

#endif
