/* The body of a version, and what its makers share. */
#ifndef MEMBERSHIP_MEMBERSHIP_INT_H
#define MEMBERSHIP_MEMBERSHIP_INT_H

#include <stdatomic.h>

#include "base/arena.h"
#include "membership/membership.h"

#define MEMBERSHIP__VERSION_KEY   "clusterVersion"
#define MEMBERSHIP__DOWNGRADE_KEY "downgrade"

/* Immutable from the moment its maker has returned it. */
struct membership {
    atomic_uint refs;
    const struct alloc *alloc;
    struct arena arena;     /* all that the fields below point to */
    struct member *members; /* ascending id */
    size_t member_count;
    size_t member_room;
    uint64_t *removed; /* ascending */
    size_t removed_count;
    size_t removed_room;
    struct bytes version;
    struct membership_downgrade downgrade;
};

/* Gives an empty version with room for so many members and removed ids; one reference. E_NOMEM. */
int membership__new(const struct alloc *alloc, size_t member_room, size_t removed_room,
                    struct membership **out);

/* Gives a copy of `m` with room for one more of each. E_NOMEM. */
int membership__copy(const struct membership *m, struct membership **out);

/* The following change a version that only its maker knows. */

/* Puts a copy of `member` in its place. E_NOMEM; E_INVAL there is one with its id. */
int membership__add(struct membership *v, const struct member *member);
/* Takes a member out, and notes its id as removed. */
void membership__remove(struct membership *v, uint64_t id);
void membership__add_removed(struct membership *v, uint64_t id);
/* NULL when there is none. */
struct member *membership__find(struct membership *v, uint64_t id);
/* Sets lists or texts to copies that live in `v`. E_NOMEM. */
int membership__copy_text(struct membership *v, struct bytes text, struct bytes *out);
int membership__copy_urls(struct membership *v, const struct bytes *urls, size_t count,
                          const struct bytes **out);

/* Whether `text` is a version: three numbers with dots between, perhaps something behind "-" or "+". */
bool membership__is_version(struct bytes text);

#endif
