/* Requests to node inputs, replies to bytes: every gRPC method of the member, and the plain HTTP endpoints.
 *
 * One `struct rpc_thread` serves the connections of one io thread; nothing in it is shared. What it needs of the
 * member stands in `struct rpc_member`, a table of functions that the server fills in. A request that has to wait
 * (a proposal, a read-index round, a job of a worker) leaves a `struct rpc_wait` with the member and gets it back
 * exactly once, as a task of its own loop; when the client has gone meanwhile, the answer is dropped there. */
#ifndef RPC_RPC_H
#define RPC_RPC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "apply/apply.h"
#include "apply/result.h"
#include "env/backend.h"
#include "env/clock.h"
#include "grpc/grpc.h"
#include "http1/http1.h"
#include "mvcc/compact.h"
#include "node/node.h"
#include "node/node_lease.h"
#include "os/actor.h"
#include "os/loop.h"

/* The version of upstream that we speak as. */
#define RPC_SERVER_VERSION "3.7.1"
/* Our own. */
#define ETCD_C_VERSION "0.1.0"

/* An input of one of the member's actors: `kind` is the member's own numbering, but for waits. */
struct rpc_input {
    struct actor_input link; /* first */
    int kind;
};

/* What a wait asks for. */
enum rpc_ask {
    RPC_ASK_PROPOSE,        /* `entry` through raft */
    RPC_ASK_PROPOSE_REVOKE, /* likewise, with the greater backlog of lease revocations */
    RPC_ASK_READ,           /* a linearizable read may be served */
    RPC_ASK_COMMIT,         /* all that was applied before is durable in the store */
    RPC_ASK_LEASE,          /* `lease`, of the apply half; its arg is this wait */
    RPC_ASK_DEFRAGMENT      /* the store is copied into a new file */
};

/* A request that waits for the member. The member sets the answer, then posts `task` to `loop`. */
struct rpc_wait {
    struct task task; /* first */
    struct loop *loop;
    int rc;                      /* 0 or an E_... */
    struct apply_result *result; /* of a proposal that was applied; the requester's */

    enum rpc_ask ask;
    struct node_lease_question *lease; /* the member's while it waits */
    struct rcbuf *entry; /* an InternalRaftRequest; its reference is the member's once submitted */
    struct node_waiter waiter; /* its request_id is that of the entry's header */
    struct rpc_input input;    /* the member's while it waits */
    struct rpc_wait *next;     /* of a chain that is submitted together */
};

struct rpc_status {
    uint64_t term;
    uint64_t leader; /* 0: none known */
    uint64_t committed;
    uint64_t applied;
    uint64_t db_bytes;
    uint64_t db_in_use_bytes;
    int64_t quota_bytes; /* as configured, 0 resolved to its meaning */
    bool is_learner;
    bool stopping;
    char storage_version[16]; /* "3.7.0"; empty while unknown */
};

/* A job for a worker thread: `work` is called there, then `wait.task` is posted. */
struct rpc_job {
    struct rpc_wait wait; /* first */
    void (*work)(struct rpc_job *job);
    atomic_bool unwanted; /* nobody waits for it any more: `work` may stop early */
};

/* Results of the checks behind /livez and /readyz, and of /health; written by all io threads. */
enum { RPC_CHECKS = 4 };
enum rpc_probe { RPC_PROBE_LIVEZ, RPC_PROBE_READYZ, RPC_PROBES };
struct rpc_health_counts {
    _Atomic uint64_t good, bad; /* answers of /health */
    struct {
        _Atomic uint64_t ok, failed;
        atomic_bool last;
    } check[RPC_PROBES][RPC_CHECKS];
};
/* The check's name, and whether the probe runs it. */
const char *rpc_check_name(size_t check);
bool rpc_check_in(enum rpc_probe probe, size_t check);

/* The member as requests see it. All functions may be called from any io thread and do not block. */
struct rpc_member {
    void *arg;
    uint64_t cluster_id;
    uint64_t member_id;
    struct mvcc *mvcc;
    struct apply *apply; /* quota questions only */
    const struct backend *backend;
    const struct clock *clock;
    struct rpc_hub *hub;       /* tells threads what is published (rpc/rpc_hub.h) */
    int64_t watch_progress_ns; /* --watch-progress-notify-interval; 0: 10 minutes */
    int64_t election_ns;       /* how often a stream that wants a leader looks for one; 0: never */
    struct rpc_health_counts *health;
    uint32_t request_bytes_max; /* --max-request-bytes */
    uint32_t txn_ops_max;       /* --max-txn-ops */
    const char *const *cors;    /* --cors; "*" allows all origins */
    size_t cors_count;
    const char *const *hosts; /* --host-whitelist; none or "*" allows all */
    size_t host_count;

    uint64_t (*next_request_id)(void *arg);
    /* Takes a chain of waits; each comes back on its own. What comes together is written together. */
    void (*submit)(void *arg, struct rpc_wait *chain);
    /* A request found the quota used up: raises the NOSPACE alarm through raft. */
    void (*raise_nospace)(void *arg);
    /* True when it may be served at once; asked after the view was opened. */
    bool (*reads_alone)(void *arg);
    void (*status)(void *arg, struct rpc_status *out);
    uint64_t (*term)(void *arg); /* of the status, for headers */
    /* One reference of the present versions. */
    struct membership *(*members)(void *arg);
    struct alarms *(*alarms)(void *arg);
    void (*work)(void *arg, struct rpc_job *job);
    /* Appends the text of /metrics. Errors: as buf_put(). */
    int (*metrics)(void *arg, struct buf *out);
};

struct rpc_thread;

/* Gives the request side of one io thread, to be freed with rpc_thread_free() when no request is left.
 * `on_output(arg, conn)` tells that a connection has got bytes to send outside its own feed or pull.
 * Borrows `member`, `loop` and `alloc` for its life. Errors: E_NOMEM. */
int rpc_thread_new(const struct rpc_member *member, struct loop *loop, const struct alloc *alloc,
                   void (*on_output)(void *arg, struct grpc_conn *conn), void *arg,
                   struct rpc_thread **out);
void rpc_thread_free(struct rpc_thread *t);

/* Submits what requests have asked for since; to be called after each feed of a connection. */
void rpc_thread_submit(struct rpc_thread *t);

/* Requests that still wait for the member; 0 before the thread may be freed. Any thread. */
size_t rpc_thread_pending(const struct rpc_thread *t);

/* The member begins to stop: health watchers are told. */
void rpc_thread_drain(struct rpc_thread *t);

/* --- what was counted --- */

enum { RPC_CODES = 17, RPC_VERSIONS_MAX = 8, RPC_VERSION_BYTES_MAX = 16 };

struct rpc_method_name {
    const char *service;
    const char *name;
    enum grpc_kind kind;
};
size_t rpc_method_count(void);
struct rpc_method_name rpc_method_name(size_t method);

struct rpc_counts {
    uint64_t started;            /* calls that were not refused on their headers */
    uint64_t received, sent;     /* messages */
    uint64_t handled[RPC_CODES]; /* calls ended, by their code */
};
/* Adds what this thread has counted of a method. Any thread. */
void rpc_thread_counts(const struct rpc_thread *t, size_t method, struct rpc_counts *sum);
/* Adds the bytes of messages. Any thread. */
void rpc_thread_bytes(const struct rpc_thread *t, uint64_t *received, uint64_t *sent);

/* Adds what this thread has of watches now; `events` were sent since its start. Any thread. */
struct rpc_watch_counts {
    uint64_t streams, watchers, behind, events;
};
void rpc_thread_watches(const struct rpc_thread *t, struct rpc_watch_counts *sum);

/* Calls by the client-api-version they named; the last row takes what found no row of its own. */
struct rpc_version_counts {
    char version[RPC_VERSION_BYTES_MAX];
    uint64_t unary, stream;
};
/* Adds to rows of `sum`; returns how many are used then. Any thread. */
size_t rpc_thread_versions(const struct rpc_thread *t, struct rpc_version_counts sum[],
                           size_t count, size_t max);

/* The handler for this thread's gRPC connections, and the pool they are to be made with. */
const struct grpc_handler *rpc_thread_grpc(struct rpc_thread *t);
struct grpc_pool *rpc_thread_pool(struct rpc_thread *t);

/* What a listener serves over HTTP. */
enum rpc_http_kind {
    RPC_HTTP_CLIENT,  /* everything plain, with CORS and the host check */
    RPC_HTTP_METRICS, /* metrics and health only */
    RPC_HTTP_PEER,    /* what other members ask: /version, /members */
    RPC_HTTP_KINDS
};

/* The handler for this thread's HTTP/1 connections of a kind of listener. `on_http_output(arg, conn)` (set once, for all
 * kinds) is as on_output. */
const struct http1_handler *rpc_thread_http(struct rpc_thread *t, enum rpc_http_kind kind);
void rpc_thread_on_http_output(struct rpc_thread *t,
                               void (*on_http_output)(void *arg, struct http1_conn *c), void *arg);

#endif
