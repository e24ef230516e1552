/* Inside the Watch service: what a thread has, and one stream. */
#ifndef RPC_RPC_WATCH_INT_H
#define RPC_RPC_WATCH_INT_H

#include <stdatomic.h>

#include "base/heap.h"
#include "base/map.h"
#include "os/mpsc.h"
#include "rpc/rpc_hub.h"
#include "rpc/rpc_int.h"
#include "watch/watch.h"

/* One batch on its way to a thread. */
struct watch_news {
    struct mpsc_link link; /* first */
    int64_t to;
    struct watch_batch *batch;
};

struct rpc_watch {
    struct rpc_thread *t;
    struct watch_shard *shard;
    /* From other threads. */
    struct mpsc news;
    _Atomic int64_t published;
    atomic_bool posted;
    atomic_bool active; /* there are watchers: publications are wanted */
    struct task arrive; /* takes the news */

    struct task step;
    bool step_posted;
    struct heap timers; /* of struct watch_call, by due_ns */
    struct loop_timer *timer;
    struct loop_timer *retry; /* memory was short */
    struct list calls;        /* of struct watch_call */
    struct list failing;      /* of them, those that end after this step */
    struct rpc_header header; /* of the present step */
    struct {
        _Atomic uint64_t streams, watchers, behind, events;
    } counts; /* written by this thread only */
    struct grpc_part *parts;
    size_t part_cap;
};

/* A finished response that waits for room: the rest of a fragmented one. */
struct watch_rest {
    struct list link;
    struct rcbuf *msg;
};

/* One stream. */
struct watch_call {
    struct watch_stream stream; /* first */
    struct rpc_call *c;
    struct map_u64 ids; /* watch id -> struct rpc_watcher */
    int64_t next_id;
    struct list link;
    struct list failing;
    int fail_rc;
    struct list rests; /* of struct watch_rest */
    bool held;         /* the client is not read from, for it does not read */
    size_t progress_count;
    struct heap_item timer;
    uint64_t due_ns;
    uint64_t progress_due_ns;
    uint64_t progress_period_ns;
    uint64_t leader_due_ns; /* GRPC_NEVER: it did not ask for a leader */
    unsigned leaderless;    /* checks in a row that saw no leader */
};

struct rpc_watcher {
    struct watch_watcher w; /* first */
    int64_t id;
    size_t bytes; /* of this block; key and end stand behind it */
    bool progress;
    bool fragment;
    bool silent; /* nothing was sent since the last tick */
};

/* What a WatchResponse says beside its events. */
struct watch_head {
    int64_t revision;
    int64_t id;
    bool created, canceled, fragment;
    int64_t compact_revision;
    const char *reason; /* NULL: none */
};
enum { WATCH_HEAD_BYTES_MAX = 256 };

/* --- rpc_watch_send.c --------------------------------------------------------------------------- */

/* Whether the stream takes a response; if not, the client is not read from until it does. */
bool rpc__watch_room(struct watch_call *s);
/* Sends a response without events. Errors: as grpc_call_send(). */
int rpc__watch_say(struct watch_call *s, const struct watch_head *h);
/* Sends what is left of fragmented responses, as far as there is room. */
void rpc__watch_send_rests(struct watch_call *s);
void rpc__watch_drop_rests(struct watch_call *s);
struct watch_sink rpc__watch_sink(struct rpc_watch *rw);

/* --- rpc_watch_thread.c --------------------------------------------------------------------------- */

/* Lets the shard go on soon. */
void rpc__watch_kick(struct rpc_watch *rw);
/* Brings the numbers for /metrics up to date. */
void rpc__watch_count(struct rpc_watch *rw);
/* Orders the stream's timer anew. */
void rpc__watch_arm(struct watch_call *s);
/* Publications for this thread; takes the reference. Apply actor. */
void rpc__watch_feed(struct rpc_watch *rw, int64_t to, struct watch_batch *batch);

/* --- rpc_hub.c ------------------------------------------------------------------------------------- */

/* Errors: E_TOOBIG too many threads. */
int rpc__hub_join(struct rpc_hub *h, struct rpc_watch *rw);
void rpc__hub_leave(struct rpc_hub *h, struct rpc_watch *rw);

#endif
