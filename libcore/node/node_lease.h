/* Questions about leases, which are answered from the leader's memory and leave nothing in the log.
 *
 * A driver asks with node_apply_ask(), and after each node_apply_run() takes the answers with
 * node_apply_answered(). A question that cannot be answered now (this member is not the primary
 * yet, cannot be sure that it still leads, has not applied what is committed, or revokes the lease
 * at the moment) stays inside until it can, or until its time is over.
 *
 * Thread: the apply actor. */
#ifndef NODE_NODE_LEASE_H
#define NODE_NODE_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "lease/lease.h"
#include "raft/raft.h"

struct node_apply;

enum node_lease_ask {
    NODE_LEASE_RENEW, /* `renewals`, one after the other */
    NODE_LEASE_LEFT,  /* what is left of `id`, and with `keys` what hangs on it */
    NODE_LEASE_LIST   /* all leases of this member; needs no leader */
};

struct node_renewal {
    lease_id id;   /* set by the caller */
    int64_t ttl_s; /* answer: the granted TTL, 0 when there is no such lease */
};

/* One lease of NODE_LEASE_LIST. */
struct node_lease_item {
    lease_id id;
    int64_t expiry_ns; /* LEASE_FOREVER unless primary */
};

/* How far a question has come. */
struct node_lease_place {
    int64_t start_ns;  /* 0: not looked at yet */
    raft_index commit; /* what had been committed then; 0: not asked yet */
    size_t cursor;     /* LIST */
    bool reset_asked;  /* RENEW: the remaining TTL is on its way to 0 */
};

/* The caller's; node has it from node_apply_ask() until node_apply_answered() gives it. */
struct node_lease_question {
    struct list link; /* node's */
    void *arg;        /* the caller's */
    enum node_lease_ask ask;

    /* RENEW: in order; comes back when the first of them, and those behind it that need no waiting,
     * are answered, or with an error of the first. What is behind `done` may be asked again. */
    struct node_renewal *renewals;
    size_t count; /* > 0 */
    size_t done;

    /* LEFT */
    lease_id id;
    bool keys;
    int64_t left_s; /* -1: there is no such lease */
    int64_t granted_s;

    /* Made by the caller. LEFT with keys: fields 5 of a LeaseTimeToLiveResponse, keys in byte order; LIST: an
     * array of struct node_lease_item, in no order. */
    struct buf list;

    int error; /* 0, E_NO_LEADER, E_NOT_PRIMARY, E_TIMEOUT, E_TIMEOUT_WAIT_APPLIED_INDEX, E_STOPPED, E_NOMEM */
    struct node_lease_place place; /* node's */
};

void node_apply_ask(struct node_apply *n, struct node_lease_question *q);

/* The next question that is answered, NULL when there is none now. */
struct node_lease_question *node_apply_answered(struct node_apply *n);

/* Leases that were revoked because they had run out, by this member as leader. */
uint64_t node_apply_leases_expired(const struct node_apply *n);

#endif
