/* Inside rpc: one call, one method, and what handlers share. */
#ifndef RPC_RPC_INT_H
#define RPC_RPC_INT_H

#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "etcdserverpb.pb-c.h"
#include "pb/wire.h"
#include "rpc/rpc.h"

struct rpc_call;

struct rpc_method {
    const char *service;
    const char *name;
    enum grpc_kind kind;
    /* Handles the request message (borrowed for the call); ends the call or leaves it waiting. */
    void (*handle)(struct rpc_call *c, struct bytes msg);
    /* Ends what a waiting call still holds when its client has gone. May be NULL. */
    void (*drop)(struct rpc_call *c);
};

/* One gRPC call. It lives until it was answered or cancelled, and no wait of it is out. */
struct rpc_call {
    struct rpc_job job; /* first; job.wait serves every kind of wait, one at a time */
    struct rpc_thread *t;
    struct grpc_call *call; /* NULL: the client has gone, or was answered */
    const struct rpc_method *method;
    void (*resume)(struct rpc_call *c);      /* non-NULL while a wait is out */
    void (*on_writable)(struct rpc_call *c); /* wanted by a stream that waits for room */
    void *state;                             /* of the method */
    bool wants_leader; /* metadata hasleader: a stream ends when there is none */
    struct {
        struct mvcc_view *view;
        int64_t rev;
        void (*go)(struct rpc_call *c);
    } read; /* while rpc__open_view() waits for its round */
};

struct rpc_thread {
    const struct rpc_member *member;
    struct loop *loop;
    const struct alloc *alloc;
    struct grpc_pool *pool;
    struct grpc_handler grpc;
    struct rpc_http_face {
        struct http1_handler handler;
        struct rpc_thread *t;
        enum rpc_http_kind kind;
    } http[RPC_HTTP_KINDS];
    void (*on_output)(void *arg, struct grpc_conn *conn);
    void *output_arg;
    void (*on_http_output)(void *arg, struct http1_conn *conn);
    void *http_output_arg;
    struct arena scratch;   /* of one message being handled; reset after each */
    struct buf out;         /* of one answer being made */
    atomic_size_t pending;  /* waits that are out; counted by this thread only */
    struct rpc_wait *chain; /* asked for, not yet submitted */
    struct rpc_wait **chain_end;
    struct rpc__counter *counts; /* rpc_count.c */
    struct list health_watches;  /* of struct health_watch */
    struct list keepalives;      /* of struct keepalive: with something to ask for */
    struct list keepalives_idle; /* the others */
    struct list http_waits;      /* of struct http_wait: requests that wait for the member */
    struct rpc_watch *watch;     /* rpc_watch_int.h */
};

/* The method behind a path, or NULL; `*service_known` tells whether its service has any. */
const struct rpc_method *rpc__find(struct bytes service, struct bytes name, bool *service_known);

/* --- ending a call ----------------------------------------------------------------------------- */

/* Sends `msg` and OK. */
void rpc__reply(struct rpc_call *c, struct bytes msg);
/* Sends a protobuf-c message and OK. */
void rpc__reply_pb(struct rpc_call *c, const ProtobufCMessage *msg);
/* Ends with an error of the table, or with OK for 0. A read whose pin was broken (E_INTR) is reset: it can be
 * answered neither whole nor with an error that a client would take for its own fault. */
void rpc__fail(struct rpc_call *c, int rc);
/* Ends with a code and a text of its own. */
void rpc__fail_text(struct rpc_call *c, enum grpc_code code, const char *text);
/* Finishes what was sent, with a status as rpc__fail(); `c` is gone afterwards. */
void rpc__finish(struct rpc_call *c, int rc);

/* --- counting (rpc_count.c) --------------------------------------------------------------------- */

int rpc__counts_new(struct rpc_thread *t);
void rpc__counts_free(struct rpc_thread *t);
void rpc__count_started(struct rpc_thread *t, const struct rpc_method *m, struct bytes version);
void rpc__count_received(struct rpc_call *c, uint64_t bytes);
void rpc__count_sent(struct rpc_call *c, uint64_t bytes);
void rpc__count_handled(struct rpc_call *c, enum grpc_code code);
/* One more or less wait that is out. */
void rpc__pending_add(struct rpc_thread *t, int by);
/* The table of methods. */
extern const struct rpc_method rpc__methods[];
extern const size_t rpc__method_count;

/* Sends what was applied, or its error. Borrows `r`. */
void rpc__reply_result(struct rpc_call *c, const struct apply_result *r);
/* Appends the response message of a result without error. Errors: as buf_put(), mvcc_view_kv(). */
int rpc__result_put(struct rpc_thread *t, const struct apply_result *r, struct buf *out);

/* --- waiting ------------------------------------------------------------------------------------ */

/* Prepares job.wait to come back to `resume`, which is called only while the client is still there; else the call is
 * dropped. The caller hands job.wait out right after. */
void rpc__wait(struct rpc_call *c, void (*resume)(struct rpc_call *c));
/* The same, and asks the member; `entry` (a reference is taken over) and `id` for proposals only. */
void rpc__ask(struct rpc_call *c, enum rpc_ask ask, struct rcbuf *entry, uint64_t id,
              void (*resume)(struct rpc_call *c));
/* Proposes `request` as this field of an InternalRaftRequest and answers with what was applied. */
void rpc__propose_pb(struct rpc_call *c, enum rpc_ask ask, uint32_t field,
                     const ProtobufCMessage *request);
/* The quota's word on what a request may add; a refusal also raises the alarm, each time (walkthroughs.md 5). */
int rpc__check_quota(const struct rpc_call *c, uint64_t cost);
/* The client of a keepalive stream will send no more. */
void rpc__keepalive_half_close(struct rpc_call *c);
/* Asks for what keepalive streams have collected. */
void rpc__keepalives_ask(struct rpc_thread *t);
/* Ends keepalive streams, for the member stops. */
void rpc__keepalives_drain(struct rpc_thread *t);
/* Puts a wait into the thread's chain. */
void rpc__chain(struct rpc_thread *t, struct rpc_wait *w);
/* Goes on with `resume` after the other work of this loop. */
void rpc__yield(struct rpc_call *c, void (*resume)(struct rpc_call *c));
/* Tells the owner of the connection that there is something to send. */
void rpc__output(struct rpc_call *c);

/* --- decoding and encoding -------------------------------------------------------------------- */

/* Unpacks into the thread's scratch; on error the call is ended and NULL returned. */
void *rpc__unpack(struct rpc_call *c, const ProtobufCMessageDescriptor *d, struct bytes msg);

/* A ResponseHeader with the present term; `revision` 0 leaves it out. */
struct rpc_header {
    uint64_t cluster_id;
    uint64_t member_id;
    int64_t revision;
    uint64_t term;
};
struct rpc_header rpc__header(const struct rpc_thread *t, int64_t revision);
enum { RPC_HEADER_BYTES_MAX = 4 * 11 };
size_t rpc__header_size(const struct rpc_header *h);
uint8_t *rpc__header_write(const struct rpc_header *h, uint8_t *at);
/* Appends the header as field 1 of an answer. */
int rpc__header_put(const struct rpc_header *h, struct buf *out);

/* Puts a protobuf-c header; `*h` is filled. */
void rpc__header_fill(const struct rpc_thread *t, int64_t revision,
                      Etcdserverpb__ResponseHeader *h);

/* --- reads --------------------------------------------------------------------------------------- */

/* Opens `*v` at `rev` and calls `go` at once if a linearizable read may be served from it (or `serializable`);
 * else does a read-index round first. `go` finds the view in `*v`. On error the call is ended. */
void rpc__open_view(struct rpc_call *c, struct mvcc_view *v, int64_t rev, bool serializable,
                    void (*go)(struct rpc_call *c));

/* A decoded RangeRequest that owns its key and end. */
struct rpc_range {
    struct mvcc_view view;
    struct mvcc_range range;
    struct mvcc_range_opts opts;
    int64_t revision;
    bool serializable;
    bool keys_only;
    bool count_only;
    bool has_view;
    bool has_range;
    size_t bytes; /* of this block: key and end stand behind it */
};
/* Decodes and checks (`stream`: as RangeStream); gives a block of the thread's pool, or ends the call and returns NULL. */
struct rpc_range *rpc__range_new(struct rpc_call *c, struct bytes msg, bool stream);
void rpc__range_free(struct rpc_thread *t, struct rpc_range *r);

/* How a stored KeyValue shows in an answer: whole, or without value and lease for keys_only. */
struct bytes rpc__kv_shown(struct bytes kv, bool keys_only, enum mvcc_sort_target target,
                           struct bytes *lease);

/* "NOSPACE", ...; NULL for a type without a name. */
const char *rpc__alarm_name(int32_t type);

/* Fills the handlers of rpc_http.c. */
void rpc__http_init(struct rpc_thread *t);

/* The thread's part of the Watch service. Errors: E_NOMEM, E_TOOBIG. */
int rpc__watch_init(struct rpc_thread *t);
void rpc__watch_deinit(struct rpc_thread *t);
/* Ends all watch streams: the member stops. */
void rpc__watch_drain(struct rpc_thread *t);

/* --- the handlers ------------------------------------------------------------------------------ */

#define RPC(service, name, kind, handler, drop) void handler(struct rpc_call *c, struct bytes msg);
#include "rpc/rpc.def"
#undef RPC
void rpc__range_drop(struct rpc_call *c);
void rpc__range_stream_drop(struct rpc_call *c);
void rpc__hash_drop(struct rpc_call *c);
void rpc__txn_drop(struct rpc_call *c);
void rpc__keepalive_drop(struct rpc_call *c);
void rpc__lease_question_drop(struct rpc_call *c);
void rpc__health_drop(struct rpc_call *c);
void rpc__watch_drop(struct rpc_call *c);

#endif
