/* Txns and ranges as programs, the same for apply and for reads beside raft.
 *
 * A request becomes a list of ops in three phases: COMPARE evaluates all compares, of nested txns
 * too, on the state before any op, which fixes the path and lists its ops in order; CHECK looks
 * whether each can be done; EXEC does them. Every phase can stop between two keys.
 *
 * This is the face for threads that read: a read-only txn at one pinned revision. (Apply uses the
 * inside.) */
#ifndef APPLY_TXN_H
#define APPLY_TXN_H

#include "apply/result.h"
#include "base/errmsg.h"
#include "etcdserverpb.pb-c.h"

struct apply_read;

/* Starts a read-only txn (apply_txn_is_readonly() asserted) at the present revision. Borrows `m`
 * and `txn` until free. Any thread, which then steps it. Errors: E_NOMEM. */
int apply_read_new(const struct alloc *alloc, struct mvcc *m, const Etcdserverpb__TxnRequest *txn,
                   struct apply_read **out);

/* Works on until done or `*budget` keys are looked at. Returns 1 while there is more, 0 at the end.
 * Errors: those of the request, E_FUTURE_REV, E_COMPACTED; E_NOMEM, E_INTR (pin broken), E_CORRUPT
 * and others of the store. Then only free is left. */
int apply_read_step(struct apply_read *r, uint32_t *budget, struct errmsg *em);

/* After the end: gives the result. */
struct apply_result *apply_read_take(struct apply_read *r);
/* NULL is allowed. */
void apply_read_free(struct apply_read *r);

#endif
