/* Ordered tables with one write transaction: the store below the heart.
 *
 * Implementations: LMDB and an in-memory one with a crash model (ring 2). Tables are upstream's buckets, keyed
 * as they are (bbolt-format.md 8), so that both forms convert one to one; what a store cannot hold as it
 * is (LMDB: keys over 511 bytes) is its own affair. */
#ifndef ENV_BACKEND_H
#define ENV_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/errmsg.h"

/* In name order, as hashes walk them. */
enum table {
    TABLE_ALARM,
    TABLE_AUTH,
    TABLE_AUTH_ROLES,
    TABLE_AUTH_USERS,
    TABLE_CLUSTER,
    TABLE_KEY,
    TABLE_LEASE,
    TABLE_MEMBERS,
    TABLE_MEMBERS_REMOVED,
    TABLE_META,
    TABLE_COUNT
};

struct backend_tx;     /* the one write transaction */
struct backend_read;   /* a read transaction: one consistent state */
struct backend_cursor; /* inside a read transaction */

struct backend_size {
    uint64_t total_bytes;  /* last used page x page size; what quotas and dbSize compare */
    uint64_t in_use_bytes; /* the same without free pages */
};

struct backend {
    /* --- write side: the backend thread only --- */
    /* Errors: E_NOMEM; others end the process. Never waits: there is one writer. */
    int (*begin)(void *arg, struct backend_tx **out, struct errmsg *em);
    /* Keys of TABLE_KEY that only grow are appended; a put of a present key replaces. Both spans are copied.
     * After any error of put() or del() the transaction takes no more: abort() it. E_NOSPACE, E_NOMEM: the same
     * content may be tried again in a new transaction. Any other error: the process must end. */
    int (*put)(struct backend_tx *tx, enum table t, struct bytes key, struct bytes value,
               struct errmsg *em);
    int (*del)(struct backend_tx *tx, enum table t, struct bytes key,
               struct errmsg *em); /* absent: 0 */
    /* Durable when it returns 0. Always ends the transaction. E_NOSPACE: nothing changed and the same content
     * may be tried again in a new transaction. Any other error: the process must end. */
    int (*commit)(struct backend_tx *tx, struct errmsg *em);
    void (*abort)(struct backend_tx *tx);

    /* --- read side: any thread; a transaction and its cursors stay on one thread at a time --- */
    /* E_BUSY: too many read transactions at once, try later; E_NOMEM. */
    int (*read_begin)(void *arg, struct backend_read **out, struct errmsg *em);
    void (*read_end)(struct backend_read *r);
    /* E_NOTFOUND when absent. `*value` is valid until read_end(). */
    int (*get)(struct backend_read *r, enum table t, struct bytes key, struct bytes *value);
    /* Cursors are closed before read_end(). */
    int (*cursor_open)(struct backend_read *r, enum table t, struct backend_cursor **out);
    void (*cursor_close)(struct backend_cursor *c);
    /* To the first key >= `key` (empty: the first of all), then on; E_NOTFOUND behind the last, and again
     * after that. next() follows a seek(). Either of `k` and `v` may be NULL. Spans are valid until read_end(). */
    int (*seek)(struct backend_cursor *c, struct bytes key, struct bytes *k, struct bytes *v);
    int (*next)(struct backend_cursor *c, struct bytes *k, struct bytes *v);

    int (*size)(void *arg, struct backend_size *out); /* any thread; of the last committed state */
    void *arg;
};

/* The bucket's name upstream: "alarm", "authRoles", ... Static storage. */
const char *table_name(enum table t);

#endif
