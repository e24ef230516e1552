/* What the member's actors and threads hand to each other; each belongs to one of them at a time. */
#ifndef SERVER_ITEM_H
#define SERVER_ITEM_H

#include <stdatomic.h>

#include "base/list.h"
#include "mvcc/mvcc.h"
#include "node/node_apply.h"
#include "node/node_raft.h"
#include "rpc/rpc.h"
#include "server/worker.h"

struct server;

/* An input that exists once and is posted only when it is not already queued. */
struct lone_input {
    struct rpc_input input; /* first */
    atomic_bool queued;
};

/* --- work of the WAL thread ----------------------------------------------------------------------- */

struct snapshot_item;

struct wal_item {
    struct rpc_input input; /* first; on its way back to the raft actor */
    struct list link;       /* in the queue */
    struct node_persist persist;
    struct snapshot_item *snapshot; /* instead of persist: the record of a local snapshot */
};

/* A local snapshot on its way: worker (.snap file), WAL thread (record), apply actor (done). */
struct snapshot_item {
    struct rpc_input input; /* first */
    struct work work;
    struct server *s;
    raft_index index;
    raft_term term;
    struct raft_conf_state *conf;
    struct membership *members;
    bool ok;
};

struct store_item {
    struct rpc_input input; /* first */
    struct list link;
    struct mvcc_run *run;
    struct mvcc_portion *portion;
    struct work release; /* lets the retired run go, which may free much */
    struct server *s;
    uint64_t store_bytes;
    bool storage_version;        /* write the storage version and nothing else */
    struct rpc_wait *defragment; /* copy the store into a new file, answer this, and nothing else */
    int rc;                      /* how that went */
};

struct compact_item {
    struct rpc_input input; /* first */
    struct work work;
    struct server *s;
    struct mvcc_compact *job;
    struct mvcc_portion *portion;
};

struct note_item {
    struct rpc_input input; /* first */
    union {
        struct node_to_apply to_apply;
        struct node_to_raft to_raft;
    } note;
};

struct job_item { /* of a request, on a worker */
    struct work work;
    struct rpc_job *job;
    struct server *s;
};

#endif
