/* gRPC over HTTP/2, the client's side of one connection: bytes in, bytes out.
 *
 * As the server's side (grpc/grpc.h): it owns no socket, thread or clock, and all functions of one
 * connection and its calls belong to one thread. Functions of calls, and grpc_client_start(), may be
 * called inside the events; feed, pull, tick and free may not.
 *
 * A call ends exactly once, with on_end, never inside the function that started or cancelled it. */
#ifndef GRPC_GRPC_CLIENT_H
#define GRPC_GRPC_CLIENT_H

#include "grpc/grpc.h"

struct grpc_client_conn;
struct grpc_client_call;

struct grpc_client_opts {
    struct grpc_pool *pool;        /* of this thread; must outlive the connection */
    const char *authority;         /* the endpoint's host:port; copied */
    const char *user_agent;        /* "etcd-c/3.7.1"; copied */
    const char *scheme;            /* "http" or "https" */
    uint32_t recv_bytes_max;       /* largest answer message; UINT32_MAX: any */
    uint32_t send_bytes_max;       /* largest request message */
    size_t call_queue_bytes;       /* a call with more queued to send is not writable */
    uint64_t handshake_timeout_ns; /* for the server's SETTINGS */
    uint64_t
        keepalive_time_ns; /* silence after which we ping; raised to 10 s; GRPC_NEVER: no pings */
    uint64_t keepalive_timeout_ns; /* and then give up */
    bool keepalive_without_calls;
};

/* The defaults of upstream's client; pool and authority are NULL. */
struct grpc_client_opts grpc_client_opts_default(void);

/* How a call ended; borrowed for on_end. */
struct grpc_status {
    enum grpc_code code;
    struct bytes text; /* decoded */
    const struct grpc_field *trailers;
    size_t trailer_count;
    bool unprocessed; /* the server has surely not begun it: it may be tried again elsewhere */
    bool from_server; /* code and text are the server's own words */
};

/* What the caller is told; `arg` is that of the call. Any but on_end may be NULL. */
struct grpc_client_events {
    /* The answer's headers have arrived (not for an error without data). */
    void (*on_headers)(void *arg, struct grpc_client_call *call, const struct grpc_field *fields,
                       size_t count);
    /* A whole message, inflated; borrowed. */
    void (*on_message)(void *arg, struct grpc_client_call *call, struct bytes msg);
    /* When set, messages that are not gzipped are given in pieces as they arrive and never assembled:
     * `at` is the offset of `piece` in a message of `len` bytes (an empty one gives one empty piece).
     * on_message then only gets gzipped ones. */
    void (*on_piece)(void *arg, struct grpc_client_call *call, uint64_t len, uint64_t at,
                     struct bytes piece);
    void (*on_writable)(void *arg, struct grpc_client_call *call);
    /* The last word; the call is freed when it returns. */
    void (*on_end)(void *arg, struct grpc_client_call *call, const struct grpc_status *status);
};

struct grpc_client_call_opts {
    const char *path; /* "/etcdserverpb.KV/Put" */
    const struct grpc_field
        *fields; /* metadata, lower-case names: client-api-version, token, hasleader */
    size_t field_count;
    uint64_t deadline_ns; /* sent as grpc-timeout, and kept here too; GRPC_NEVER: none */
    enum grpc_kind kind;  /* unary and client stream must be answered by exactly one message */
    const struct grpc_client_events *events;
    void *arg;
};

/* Gives a connection, NULL without memory; grpc_client_conn_free() ends it. */
struct grpc_client_conn *grpc_client_conn_new(const struct grpc_client_opts *opts, uint64_t now_ns);
/* Calls still open end with Unavailable. A NULL `c` is allowed. */
void grpc_client_conn_free(struct grpc_client_conn *c);

/* The connection is lost, for a reason in words that the calls' Unavailable repeats ("error reading
 * from server: EOF"): ends all calls; afterwards only free makes sense. */
void grpc_client_conn_lost(struct grpc_client_conn *c, const char *reason);

/* As on the server's side. A feed that fails has ended all calls. */
int grpc_client_conn_feed(struct grpc_client_conn *c, const uint8_t *data, size_t len,
                          uint64_t now_ns);
size_t grpc_client_conn_pull(struct grpc_client_conn *c, uint8_t *out, size_t cap, uint64_t now_ns);
uint64_t grpc_client_conn_tick(struct grpc_client_conn *c, uint64_t now_ns);
bool grpc_client_conn_want_write(const struct grpc_client_conn *c);
bool grpc_client_conn_done(const struct grpc_client_conn *c);

/* The server's SETTINGS have arrived: it is alive and speaks HTTP/2. */
bool grpc_client_conn_ready(const struct grpc_client_conn *c);
/* The server said GOAWAY, or ids are used up: start no more here. */
bool grpc_client_conn_draining(const struct grpc_client_conn *c);
/* Whether that GOAWAY said "too_many_pings": double the keepalive time of the next connection. */
bool grpc_client_conn_pinged_too_often(const struct grpc_client_conn *c);
size_t grpc_client_conn_call_count(const struct grpc_client_conn *c);

/* Starts a call; its headers leave with the next pull (later, when the server's limit on concurrent
 * streams is reached). `*out` lives until on_end.
 * Errors, with nothing started: E_CLOSED the connection is draining or lost; E_NOMEM. */
int grpc_client_start(struct grpc_client_conn *c, const struct grpc_client_call_opts *opts,
                      uint64_t now_ns, struct grpc_client_call **out);

bool grpc_client_writable(struct grpc_client_call *call);
/* Sends one message (copied). Errors, with nothing sent: E_AGAIN not writable; E_TOOBIG above
 * send_bytes_max; E_NOMEM; E_CLOSED our side was ended before. */
int grpc_client_send(struct grpc_client_call *call, struct bytes msg);
/* Ends our side after what was sent before. */
void grpc_client_half_close(struct grpc_client_call *call);
/* Resets the stream (CANCEL); on_end with Canceled "context canceled" follows at the next feed, pull or tick. */
void grpc_client_cancel(struct grpc_client_call *call);

/* Between hold and release the server's window for this call is not extended, and nothing is given. */
void grpc_client_hold(struct grpc_client_call *call);
void grpc_client_release(struct grpc_client_call *call);

#endif
