/* gRPC over HTTP/2, the server's side of one connection: bytes in, bytes out.
 *
 * The connection owns no socket, thread or clock. Who owns the socket feeds what arrived, pulls what
 * is to be sent, and calls tick at the time that tick asked for. Calls surface through a table of
 * functions; the handler answers at once or later, from the thread that feeds.
 *
 * A call ends exactly once: either the handler ends it with grpc_call_finish() or grpc_call_reset(),
 * or the connection does and says so with on_cancel. After that the handler must not touch it.
 *
 * All functions of one connection, of its calls and of its pool belong to one thread. Functions of
 * calls may be called inside the handler's functions; grpc_conn_feed(), _pull(), _tick() and _free()
 * may not. Times are nanoseconds of any monotonic clock, always the same one. */
#ifndef GRPC_GRPC_H
#define GRPC_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/rcbuf.h"
#include "grpc/grpc_pool.h"

/* "No deadline", "no timer": later than any time. */
#define GRPC_NEVER UINT64_MAX
/* The least room that a pull must offer: the largest DATA frame we send, with its head. */
#define GRPC_PULL_BYTES_MIN (16384 + 9)
/* A good size of a pull: many small answers leave in one write. */
#define GRPC_PULL_BYTES (64 * 1024)

struct grpc_conn;
struct grpc_call;

struct grpc_field {
    struct bytes name; /* lower case */
    struct bytes value;
};

/* A request's headers; borrowed for the call of on_call. */
struct grpc_head {
    struct bytes path;      /* "/etcdserverpb.KV/Put" */
    struct bytes service;   /* "etcdserverpb.KV" */
    struct bytes method;    /* "Put" */
    struct bytes authority; /* empty when the client sent none */
    struct bytes user_agent;
    const struct grpc_field *fields; /* the metadata, without what the transport itself reads */
    size_t field_count;
    uint64_t deadline_ns; /* from grpc-timeout; GRPC_NEVER without one */
};

/* The first value of a metadata name; data is NULL when there is none. */
struct bytes grpc_head_get(const struct grpc_head *head, const char *name);

enum grpc_kind {
    GRPC_UNARY, /* one message, then one answer; what follows the first message is ignored */
    GRPC_SERVER_STREAM, /* one message and the end of the request, then many answers */
    GRPC_CLIENT_STREAM, /* many messages, one answer */
    GRPC_BIDI
};

enum grpc_cancel {
    GRPC_CANCEL_PEER,     /* the client reset the stream */
    GRPC_CANCEL_DEADLINE, /* grpc-timeout has passed; the client was told by RST_STREAM */
    GRPC_CANCEL_CONN,     /* the connection has gone, or is freed */
    GRPC_CANCEL_ERROR /* the request was malformed or too large; the client was told its status */
};

/* What the handler is told. `arg` is that of the table, `data` is what the handler gave the call. */
struct grpc_handler {
    void *arg;
    /* A call has begun. To accept, returns its kind, after grpc_call_set_data() if it wishes; to refuse,
     * calls grpc_call_finish() first, what it returns then does not matter. */
    enum grpc_kind (*on_call)(void *arg, struct grpc_call *call, const struct grpc_head *head);
    /* A whole message, inflated; borrowed. For GRPC_UNARY exactly once (as soon as it is whole) unless
     * the call is cancelled; for GRPC_SERVER_STREAM once, when the client has also ended its side. */
    void (*on_message)(void *arg, struct grpc_call *call, void *data, struct bytes msg);
    /* The client has sent all it will; only for GRPC_CLIENT_STREAM and GRPC_BIDI. May be NULL. */
    void (*on_half_close)(void *arg, struct grpc_call *call, void *data);
    /* The call is gone without the handler's doing; last word about it. Called inside feed, pull, tick or
     * free, never inside a function of the call but grpc_call_release(). */
    void (*on_cancel)(void *arg, struct grpc_call *call, void *data, enum grpc_cancel why);
    /* A call that was not writable is so again. Called inside pull. May be NULL. */
    void (*on_writable)(void *arg, struct grpc_call *call, void *data);
};

struct grpc_conn_opts {
    struct grpc_pool *pool;      /* of this thread; must outlive the connection */
    uint32_t recv_bytes_max;     /* largest request message, also after inflating */
    uint32_t streams_max;        /* announced as MAX_CONCURRENT_STREAMS; UINT32_MAX: unannounced */
    size_t header_bytes_max;     /* of one header list, names and values and 32 a field */
    size_t call_queue_bytes;     /* a call with more queued to send is not writable */
    size_t conn_queue_bytes_max; /* above it new calls are refused (REFUSED_STREAM) */
    size_t assembly_bytes_max;   /* of request messages larger than a window, all calls */
    uint64_t handshake_timeout_ns;  /* preface and SETTINGS, and any header block once begun */
    uint64_t keepalive_time_ns;     /* silence after which we ping */
    uint64_t keepalive_timeout_ns;  /* and then close */
    uint64_t keepalive_min_time_ns; /* pings of the client more often than this are strikes */
    bool keepalive_without_calls;   /* with no call open that interval holds, else 2 hours */
    uint32_t reset_burst;           /* cancelled calls that a client may pile up ... */
    uint32_t reset_per_s;           /* ... and win back each second; each finished call gives one */
};

/* The defaults of upstream's server, and where it has none, ours; pool is NULL. */
struct grpc_conn_opts grpc_conn_opts_default(void);

/* Gives a connection, NULL without memory; grpc_conn_free() ends it. Borrows `handler` for its life. */
struct grpc_conn *grpc_conn_new(const struct grpc_conn_opts *opts,
                                const struct grpc_handler *handler, uint64_t now_ns);
/* Calls still open are cancelled (GRPC_CANCEL_CONN). A NULL `c` is allowed. */
void grpc_conn_free(struct grpc_conn *c);

/* Takes in what was received; all of it is used up.
 * Errors: E_PROTO, E_NOMEM, E_CLOSED: the connection is over; what pull still has (a GOAWAY) may be
 * sent, then it is to be closed. */
int grpc_conn_feed(struct grpc_conn *c, const uint8_t *data, size_t len, uint64_t now_ns);

/* Writes the next bytes to be sent to `out`, at most `cap` (>= GRPC_PULL_BYTES_MIN); returns how many, 0
 * when there is nothing now. What was pulled counts as sent: the caller keeps what the socket did not
 * take and pulls no more until that has left. */
size_t grpc_conn_pull(struct grpc_conn *c, uint8_t *out, size_t cap, uint64_t now_ns);

/* Does what is due; returns the time of the next tick, GRPC_NEVER for none. To be called when that
 * time has come and after each feed and pull (cheap). */
uint64_t grpc_conn_tick(struct grpc_conn *c, uint64_t now_ns);

/* Whether a pull would give bytes. */
bool grpc_conn_want_write(const struct grpc_conn *c);
/* False while the client does not take what we answer: it must not be read from then. */
bool grpc_conn_want_read(const struct grpc_conn *c);
/* Whether the socket is to be closed once all that pull gives has been sent. */
bool grpc_conn_done(const struct grpc_conn *c);

/* Begins a graceful stop: GOAWAY, a ping, and after its answer or 5 s a second GOAWAY; the connection
 * is done when the last call is. A second call does nothing. */
void grpc_conn_drain(struct grpc_conn *c, uint64_t now_ns);

size_t grpc_conn_call_count(const struct grpc_conn *c);
/* Bytes that wait to be sent, sources not counted. */
size_t grpc_conn_queued_bytes(const struct grpc_conn *c);
/* Whatever the owner wants to hang on a connection; NULL at first. */
void grpc_conn_set_data(struct grpc_conn *c, void *data);
void *grpc_conn_data(const struct grpc_conn *c);

/* ---- one call -------------------------------------------------------------------------------- */

void grpc_call_set_data(struct grpc_call *call, void *data);
void *grpc_call_data(const struct grpc_call *call);
struct grpc_conn *grpc_call_conn(const struct grpc_call *call);
uint64_t grpc_call_deadline_ns(const struct grpc_call *call);

/* False while more than call_queue_bytes wait to be sent; on_writable tells when that is over. */
bool grpc_call_writable(struct grpc_call *call);

/* Sends one message (copied; gzipped when the request was).
 * Errors, with nothing sent: E_AGAIN the call is not writable; E_NOMEM; E_TOOBIG. */
int grpc_call_send(struct grpc_call *call, struct bytes msg);

/* A piece of a message: `shared` NULL and copied, or a span inside `shared`, which gets a reference. */
struct grpc_part {
    struct bytes bytes;
    struct rcbuf *shared;
};

/* Sends one message that is the pieces one after the other. Errors as grpc_call_send(). */
int grpc_call_send_parts(struct grpc_call *call, const struct grpc_part *parts, size_t count);

/* A message whose length is known first and whose bytes are made when there is room to send them. */
struct grpc_source {
    uint64_t len; /* of the whole message; at most UINT32_MAX */
    /* Writes up to `cap` of the next bytes; returns how many (> 0), E_AGAIN when there are none now (then
     * grpc_call_resume() goes on), another E_... to reset the call (RST_STREAM INTERNAL_ERROR and
     * on_cancel with GRPC_CANCEL_ERROR, if the handler had not finished). Called inside pull, `len` bytes in all. */
    int (*pull)(void *arg, uint8_t *out, size_t cap);
    /* The source is used up or dropped; exactly once. May be NULL. */
    void (*release)(void *arg);
    void *arg;
};

/* Sends one message from a source (copied); it is sent as it is, never gzipped. Takes what `arg` is.
 * Errors as grpc_call_send(); the source is then not released. */
int grpc_call_send_source(struct grpc_call *call, const struct grpc_source *source);
/* The source at the head of the queue has bytes again. */
void grpc_call_resume(struct grpc_call *call);

/* Ends the call with a status, after what was sent before; the handler is done with it. `text` is copied
 * and percent-encoded; empty when the status is GRPC_OK. Never fails: without memory the stream is reset. */
void grpc_call_finish(struct grpc_call *call, enum grpc_code code, struct bytes text);
/* The same with code and text of an E_..., or GRPC_OK for 0. */
void grpc_call_finish_err(struct grpc_call *call, int rc);
/* Unimplemented, "unknown service S" or "unknown method M for service S". */
void grpc_call_finish_unknown(struct grpc_call *call, const struct grpc_head *head,
                              bool service_known);
/* Ends the call by RST_STREAM with an HTTP/2 error code; what was queued is dropped. */
void grpc_call_reset(struct grpc_call *call, uint32_t http2_code);

/* Between hold and release no message is given and the client's window is not extended. Calls of kind
 * GRPC_CLIENT_STREAM and GRPC_BIDI only. Outside of on_message, release gives what has waited (messages, the
 * half close, or on_cancel for a malformed one) before it returns. */
void grpc_call_hold(struct grpc_call *call);
void grpc_call_release(struct grpc_call *call);

#endif
