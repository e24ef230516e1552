/* The lessor as a table: leases, the keys they hold, and, on a leader, when they run out.
 *
 * The replicated part (ids, granted and remaining TTLs, attached keys) changes only through apply
 * and is equal on every member. The expiry part exists between lease_promote() and lease_demote();
 * nothing of it is replicated. Time comes in as `now_ns`, monotonic, from the caller.
 *
 * Owner of the table: the apply actor; no function may run beside another one. Every function that
 * takes memory takes all of it before it changes anything: after E_NOMEM the table is as before. */
#ifndef LEASE_LEASE_H
#define LEASE_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/errmsg.h"

typedef int64_t lease_id;

/* No lease at all; never granted. */
#define LEASE_NONE ((lease_id)0)
/* Above it a grant is refused, as upstream does. */
#define LEASE_TTL_S_MAX 9000000000
/* Leases that one expiry scan hands out: half of upstream's 1000 revocations per second, twice a
 * second. */
#define LEASE_EXPIRED_PER_SCAN_MAX 500
/* From so many leases on, expiries are spread at promotion. */
#define LEASE_SPREAD_COUNT_MIN 1000
/* What the spread leaves of them for one second: three quarters of the revocation rate. */
#define LEASE_SPREAD_PER_SECOND 750
/* Checkpoints in one entry. */
#define LEASE_CHECKPOINTS_PER_ENTRY_MAX 1000
/* `expiry_ns` of a lease that cannot expire here, because this member is not primary. */
#define LEASE_FOREVER INT64_MAX

struct lease_config {
    int64_t ttl_s_min;              /* shorter ones are raised to it */
    int64_t retry_ns;               /* an expired lease is handed out again after it */
    int64_t checkpoint_interval_ns; /* 0: checkpoints are off */
    uint8_t hash_seed[16];          /* random: keys come from clients */
};

/* What is known of one lease. */
struct lease_info {
    lease_id id;
    int64_t ttl_s;       /* as granted */
    int64_t remaining_s; /* of the last checkpoint; 0: none */
    int64_t expiry_ns;   /* LEASE_FOREVER unless primary */
    size_t key_count;
};

struct lease_checkpoint {
    lease_id id;
    int64_t remaining_s;
};

struct lease_stats {
    uint64_t granted_total;
    uint64_t revoked_total;
    uint64_t renewed_total;
    size_t lease_count;
    size_t key_count; /* attached ones */
};

struct lease_table;

/* Gives an empty table, to be freed with lease_free(). Takes `alloc` along for its life. Errors:
 * E_NOMEM. */
int lease_new(const struct lease_config *config, const struct alloc *alloc,
              struct lease_table **out);
void lease_free(struct lease_table *t);
/* Empty again, demoted, as after lease_new(): before a snapshot is loaded. */
void lease_reset(struct lease_table *t);

/* ---- the replicated part --------------------------------------------------------------------- */

/* Adds the lease of one row of the lease bucket; it holds no keys yet.
 * Errors: E_CORRUPT the row does not parse (said in `em`); E_NOMEM. */
int lease_load(struct lease_table *t, struct bytes value, struct errmsg *em);

/* Grants `id` for `ttl_s` (raised to the minimum, also when it is 0 or negative); `*granted_s` is
 * what it got. Errors, in this order: E_LEASE_NOT_FOUND id is LEASE_NONE; E_LEASE_TTL_TOO_LARGE;
 * E_LEASE_EXIST; E_NOMEM. */
int lease_grant(struct lease_table *t, lease_id id, int64_t ttl_s, int64_t now_ns,
                int64_t *granted_s);

/* Whether `id` exists; `out` may be NULL. */
bool lease_find(const struct lease_table *t, lease_id id, struct lease_info *out);

/* Hangs `key` (copied) on lease `id`, taking it off any other. Errors: E_LEASE_NOT_FOUND, E_NOMEM.
 */
int lease_attach(struct lease_table *t, lease_id id, struct bytes key);
/* Takes `key` off its lease, if it hangs on one. */
void lease_detach(struct lease_table *t, struct bytes key);
/* The lease that `key` hangs on, else LEASE_NONE. */
lease_id lease_of_key(const struct lease_table *t, struct bytes key);

/* The keys of a lease in byte order: the first one, then each time the first one behind `key`,
 * false at the end. `*out` is valid until that key is detached. A revocation takes the first,
 * deletes and detaches it, and so on. */
bool lease_key_first(const struct lease_table *t, lease_id id, struct bytes *out);
bool lease_key_after(const struct lease_table *t, lease_id id, struct bytes key, struct bytes *out);

/* Removes a lease that holds no key any more (asserted) and must exist (asserted). */
void lease_remove(struct lease_table *t, lease_id id);

/* Notes the remaining TTL of a checkpoint entry (0: full TTL again). False: unknown, which is no
 * error. */
bool lease_checkpoint(struct lease_table *t, lease_id id, int64_t remaining_s, int64_t now_ns);

/* Row of the lease bucket: the key into `key` and the message appended to `value`. The lease must
 * exist (asserted).
 * Errors: E_NOMEM, E_TOOBIG of the buffer. */
int lease_encode_row(const struct lease_table *t, lease_id id, uint8_t key[8], struct buf *value);
/* The key of a lease's row: the id, big endian. */
void lease_encode_key(lease_id id, uint8_t key[8]);

/* Walks all leases in no particular order: start with *cursor = 0; false at the end. The table may
 * change between two calls: leases that exist all the time are met once. */
bool lease_next(const struct lease_table *t, size_t *cursor, struct lease_info *out);
size_t lease_count(const struct lease_table *t);
void lease_get_stats(const struct lease_table *t, struct lease_stats *out);

/* ---- the leader's part ----------------------------------------------------------------------- */

/* Starts to become primary: every lease will run out at now + extend + (remaining TTL, else TTL),
 * thinned out where more than LEASE_SPREAD_PER_SECOND would run out within a second. Then call
 * lease_promote_step() until it is true; only lease_demote() and lease_reset() may come in between.
 * A second promotion starts anew. */
void lease_promote(struct lease_table *t, int64_t extend_ns, int64_t now_ns);
/* Works on at most `steps` leases; true when done: from then on lease_is_primary(). */
bool lease_promote_step(struct lease_table *t, size_t steps);
void lease_demote(struct lease_table *t);
bool lease_is_primary(const struct lease_table *t);

/* Renews: a full TTL from now; `*ttl_s` is the granted TTL.
 * Errors: E_NOT_PRIMARY; E_LEASE_NOT_FOUND; E_AGAIN the lease has run out and its revocation is
 * under way: answer when it is gone (then with TTL 0); E_BUSY a checkpoint {id, 0} must be
 * replicated first, then call again. */
int lease_renew(struct lease_table *t, lease_id id, int64_t now_ns, int64_t *ttl_s);

/* Whole seconds left, rounded towards 0, negative when overdue. Errors: E_NOT_PRIMARY,
 * E_LEASE_NOT_FOUND. */
int lease_time_to_live(const struct lease_table *t, lease_id id, int64_t now_ns, int64_t *left_s);

/* The leases to be revoked now, at most `max`, the longest overdue first; each is handed out again
 * after `retry_ns` if it is still there. Returns how many; 0 unless primary. */
size_t lease_expired(struct lease_table *t, int64_t now_ns, lease_id *out, size_t max);
/* When lease_expired() next has something, else LEASE_FOREVER. */
int64_t lease_next_expiry(const struct lease_table *t);

/* The checkpoints that are due, at most `max`: the remaining TTLs to replicate. 0 unless primary
 * and configured. */
size_t lease_checkpoints_due(struct lease_table *t, int64_t now_ns, struct lease_checkpoint *out,
                             size_t max);

#endif
