/* What is judged before a request is proposed or read: shape, not state. All pure, any thread.
 *
 * The order of checks is upstream's (server-behaviour.md 0, 4), because the first failure is the
 * answer. Messages come from pb_unpack(): no NULL elements. */
#ifndef APPLY_CHECK_H
#define APPLY_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "etcdserverpb.pb-c.h"

/* Errors: E_EMPTY_KEY, E_INVALID_SORT_OPTION. */
int apply_check_range(const Etcdserverpb__RangeRequest *r);
/* Also E_RANGE_STREAM_SORT, E_RANGE_STREAM_FILTER. */
int apply_check_range_stream(const Etcdserverpb__RangeRequest *r);
/* Errors: E_EMPTY_KEY, E_VALUE_PROVIDED, E_LEASE_PROVIDED. */
int apply_check_put(const Etcdserverpb__PutRequest *r);
/* Errors: E_EMPTY_KEY. */
int apply_check_delete_range(const Etcdserverpb__DeleteRangeRequest *r);
/* Errors: E_TOO_MANY_OPS; those of the ops; E_KEY_NOT_FOUND an op without a oneof; E_DUPLICATE_KEY;
 * E_NOMEM from `alloc`. `ops_max` is --max-txn-ops.
 *
 * A from-key delete (range_end "\0") counts as what it is; upstream takes it for an empty range
 * there. */
int apply_check_txn(const Etcdserverpb__TxnRequest *r, size_t ops_max, const struct alloc *alloc);
/* The marshalled InternalRaftRequest against --max-request-bytes. Errors: E_REQUEST_TOO_LARGE. */
int apply_check_size(size_t bytes, size_t bytes_max);

/* Every op of both branches is a range: goes beside raft. A nested txn makes it a write. */
bool apply_txn_is_readonly(const Etcdserverpb__TxnRequest *r);
/* And every range is serializable: needs no read-index round. */
bool apply_txn_is_serializable(const Etcdserverpb__TxnRequest *r);

/* What a request may add to the store, as quotas count it; apply_quota_has_room() takes it. */
uint64_t apply_cost_put(size_t key_bytes, size_t value_bytes);
uint64_t
apply_cost_txn(const Etcdserverpb__TxnRequest *r); /* the dearer branch, nested ones included */
#define APPLY_COST_LEASE_GRANT 64

#endif
