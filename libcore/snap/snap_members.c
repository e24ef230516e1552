/* The v2 store's JSON of a version of the member table. */
#include "base/err.h"
#include "snap/snap_v2.h"

int snap_v2_encode_membership(const struct membership *m, struct buf *out)
{
    struct snap_v2_store s = {.version = membership_version(m)};
    s.member_count = membership_count(m);
    s.removed_count = membership_removed_count(m);
    const struct alloc *a = out->alloc;
    struct member *members = alloc_zero(a, (s.member_count + 1) * sizeof *members);
    uint64_t *removed = alloc_zero(a, (s.removed_count + 1) * sizeof *removed);
    int rc = members == NULL || removed == NULL ? E_NOMEM : 0;
    for (size_t i = 0; i < s.member_count && rc == 0; i++)
        members[i] = *membership_at(m, i);
    for (size_t i = 0; i < s.removed_count && rc == 0; i++)
        removed[i] = membership_removed_at(m, i);
    s.members = members;
    s.removed = removed;
    if (rc == 0) rc = snap_v2_encode(&s, out);
    alloc_free(a, members, (s.member_count + 1) * sizeof *members);
    alloc_free(a, removed, (s.removed_count + 1) * sizeof *removed);
    return rc;
}
