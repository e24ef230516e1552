/* Inside of apply/check: overlaps in one branch of a txn. */
#ifndef APPLY_CHECK_INT_H
#define APPLY_CHECK_INT_H

#include "base/alloc.h"
#include "etcdserverpb.pb-c.h"

/* Whether a key could be changed twice on one path. Errors: E_DUPLICATE_KEY, E_NOMEM. */
int apply__check_overlap(Etcdserverpb__RequestOp *const *ops, size_t n, const struct alloc *alloc);

#endif
