/* Inside of the client's side: one connection and its calls. */
#ifndef GRPC_GRPC_CLIENT_INT_H
#define GRPC_GRPC_CLIENT_INT_H

#include "base/heap.h"
#include "base/list.h"
#include "grpc/grpc_client.h"
#include "grpc/grpc_int.h"

/* What a server may send ahead for one call: a message of a usual size without a pause. It is also what a
 * call on hold costs. */
#define GRPC_CLIENT_STREAM_WINDOW (1024 * 1024)
#define GRPC_CLIENT_CONN_WINDOW   (16 * 1024 * 1024)
/* Of one header list of an answer. */
#define GRPC_CLIENT_HEADER_BYTES_MAX (256 * 1024)
/* Upstream pings no more often, whatever is asked for. */
#define GRPC_CLIENT_KEEPALIVE_MIN_NS 10000000000ULL

struct grpc_client_call {
    struct grpc_client_conn *conn;
    const struct grpc_client_events *events;
    void *arg;
    struct list link;       /* in conn->calls */
    struct list end_link;   /* in conn->ending */
    struct heap_item timer; /* in conn->deadlines */
    uint64_t deadline_ns;
    struct grpc__in in;
    struct grpc__queue out;
    struct buf backlog; /* what arrived while on hold */
    struct buf text;    /* of the status */
    int32_t stream_id;
    uint8_t kind; /* enum grpc_kind */
    uint8_t code; /* of the status */
    bool sent;    /* the request's headers have left */
    bool deferred;
    bool half_closed; /* by us */
    bool headers_seen;
    bool gzip_in;
    bool got_message;
    bool held;
    bool parsing;
    bool unwritable;
    bool decided; /* the status is known; it is told when what came before it was */
    bool ended;   /* nothing more is told but on_end */
    bool from_server;
    bool unprocessed;
};

struct grpc_client_conn {
    nghttp2_session *session;
    struct grpc_client_opts opts;
    struct buf authority;
    struct buf user_agent;
    uint64_t now_ns;
    struct grpc__heads heads;
    struct heap deadlines;
    struct list calls;
    struct list ending;   /* cancelled: on_end is due */
    struct list writable; /* of struct grpc_client_call by end_link */
    size_t call_count;

    uint8_t *out;
    size_t out_len;
    size_t out_cap;
    const uint8_t *rest;
    size_t rest_len;

    uint64_t born_ns;
    uint64_t read_ns;
    uint64_t ping_sent_ns;
    bool ready;
    bool draining;
    bool pinged_too_often;
    bool lost;
};

/* ---- grpc_client_call.c ---------------------------------------------------------------------- */

/* Ends a call at once: on_end, then it is freed. Not inside a function of the call. */
void grpc__client_end(struct grpc_client_call *call, enum grpc_code code, struct bytes text);
/* Tells the calls that were cancelled. */
void grpc__client_run_ending(struct grpc_client_conn *c);
void grpc__client_expire(struct grpc_client_call *call);
/* A header block of an answer is whole; it lies in conn->heads. */
void grpc__client_headers(struct grpc_client_call *call, bool end_stream);
void grpc__client_data(struct grpc_client_call *call, struct bytes chunk);
/* The server ended its side with a DATA frame. */
void grpc__client_no_trailers(struct grpc_client_call *call);
/* The stream is gone without trailers. */
void grpc__client_closed(struct grpc_client_call *call, uint32_t http2_code);
int grpc__client_take(struct grpc_client_call *call, uint8_t *out, size_t cap);
ssize_t grpc__client_read(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t cap,
                          uint32_t *flags, nghttp2_data_source *source, void *arg);

#endif
