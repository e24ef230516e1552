/* The cluster's member table, as raft entries have made it.
 *
 * A `struct membership` is one immutable version, counted by references: the applier holds the newest, read views
 * hold the one of their moment, any thread may read and drop one. A change does not touch a version but makes
 * the next one together with the rows it writes; making it is the step that can fail, installing it (the
 * applier's pointer) cannot. Members are few, so a version is simply copied; rejected: locks, and
 * sharing members between versions.
 *
 * Rows (bbolt-format.md 8): members[hex id] = Member as JSON, members_removed[hex id] = "removed",
 * cluster["clusterVersion"] = text, cluster["downgrade"] = JSON. */
#ifndef MEMBERSHIP_MEMBERSHIP_H
#define MEMBERSHIP_MEMBERSHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/errmsg.h"
#include "env/backend.h"
#include "membership/member.h"
#include "pb/raftpb.h"

/* What upstream's --max-learners is by default. */
enum { MEMBERSHIP_LEARNERS_MAX_DEFAULT = 1 };

struct membership;

/* An operator's wish to go one minor version down. */
struct membership_downgrade {
    bool stored; /* false: there never was one */
    bool enabled;
    struct bytes target; /* "3.6.0"; empty unless enabled */
};

/* ---- making the first version -------------------------------------------------------------------- */

/* The content of a version; all borrowed, in any order. */
struct membership_content {
    const struct member *members; /* ids differ */
    size_t member_count;
    const uint64_t *removed;
    size_t removed_count;
    struct bytes version; /* empty: unknown yet */
    struct membership_downgrade downgrade;
};

/* Gives a copy with one reference. `alloc` must be usable from any thread and outlive it.
 * Errors: E_NOMEM; E_INVAL two members have one id. */
int membership_new(const struct alloc *alloc, const struct membership_content *content,
                   struct membership **out);

/* Gives what the tables of the read transaction hold (an empty version for a new store).
 * Errors: E_NOMEM, those of `be`; E_CORRUPT a row does not parse, `em` names it. */
int membership_load(const struct alloc *alloc, const struct backend *be, struct backend_read *read,
                    struct membership **out, struct errmsg *em);

/* One more reference; returns `m`. Any thread. NULL is allowed. */
struct membership *membership_ref(struct membership *m);
/* Drops one; the last one frees. Any thread. NULL is allowed. */
void membership_unref(struct membership *m);

/* ---- reading: spans and pointers live as long as the version --------------------------------------- */

size_t membership_count(const struct membership *m);
/* In ascending id; `i` < membership_count(). */
const struct member *membership_at(const struct membership *m, size_t i);
/* NULL when there is none. */
const struct member *membership_find(const struct membership *m, uint64_t id);
size_t membership_voter_count(const struct membership *m);

size_t membership_removed_count(const struct membership *m);
/* In ascending id. */
uint64_t membership_removed_at(const struct membership *m, size_t i);
bool membership_is_removed(const struct membership *m, uint64_t id);

/* The cluster's version, "3.7.0"; empty while it is unknown. */
struct bytes membership_version(const struct membership *m);
struct membership_downgrade membership_downgrade(const struct membership *m);

/* First 8 bytes of SHA-1 over all member ids in ascending order: the cluster's id, if these are its first
 * members (it never changes later). */
uint64_t membership_cluster_id(const struct membership *m);

/* ---- changing ------------------------------------------------------------------------------------ */

/* A row to write; key and value live as long as the version it came with. */
struct membership_row {
    enum table table;
    bool del;
    struct bytes key;
    struct bytes value; /* empty with `del` */
};

enum { MEMBERSHIP_ROWS_MAX = 2 };

/* The outcome of a change: the next version (one reference, the caller's), and the rows that make it durable. */
struct membership_change {
    struct membership *next;
    struct membership_row rows[MEMBERSHIP_ROWS_MAX];
    size_t row_count; /* 0: nothing changed, `next` is the old version */
};

/* All: borrow `m` and their inputs; give `out->next`; E_NOMEM leaves `*out` untouched. */

/* What a committed ConfChange does, validated against `m` as every member must (walkthroughs.md 6).
 *
 * Errors: E_MEMBER_NOT_FOUND removed before, or promote, update, remove of an unknown one; E_MEMBER_EXIST,
 *         E_PEER_URL_EXIST, E_TOO_MANY_LEARNERS, E_MEMBER_NOT_LEARNER: refused, raft gets node id 0 and the
 *         caller the error. E_CORRUPT the context does not parse or names another id, or the type is unknown: the
 *         member must stop. `em` says which. */
int membership_conf_change(struct membership *m, const struct pb_conf_change *cc,
                           size_t learners_max, struct membership_change *out, struct errmsg *em);

/* A member publishes its name and client URLs. Of a removed one: no change. Errors: E_NOTFOUND unknown id (upstream
 * stops there). */
int membership_set_attributes(struct membership *m, uint64_t id, struct bytes name,
                              const struct bytes *client_urls, size_t client_url_count,
                              struct membership_change *out);

/* Sets the cluster's version, "3.7.0". */
int membership_set_version(struct membership *m, struct bytes version,
                           struct membership_change *out);

/* Sets or ends a downgrade; the target of an ended one is dropped. */
int membership_set_downgrade(struct membership *m, bool enabled, struct bytes target,
                             struct membership_change *out);

/* ---- judging a request before it is proposed (--strict-reconfig-check, started = has a name) ----------- */

/* Whether enough voters of the new configuration have started. Errors: E_MEMBER_NOT_ENOUGH_STARTED. */
int membership_may_add_voter(const struct membership *m);
int membership_may_remove(const struct membership *m, uint64_t id); /* a learner: always */
int membership_may_promote(const struct membership *m);

/* ---- conf state ---------------------------------------------------------------------------------- */

/* Appends meta["confState"]: `{"voters":[1,2],"auto_leave":false}`; empty lists are left out. */
int membership_conf_state_put(const struct pb_conf_state *cs, struct buf *out);
/* Lists live in `arena`. Errors: E_CORRUPT, E_NOMEM. */
int membership_conf_state_decode(struct bytes json, struct arena *arena, struct pb_conf_state *out);

#endif
