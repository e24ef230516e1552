/* A client of an etcd cluster: endpoints, connections, balancing, retries, tokens.
 *
 * One thread, one loop. Calls are asynchronous below and waited for here: client_unary() and client_stream_next() run
 * the loop until their answer is there, so a program reads top to bottom. Connections are made when first needed, to all
 * endpoints at once; calls go round robin over those that are up, and wait (within their deadline) while none is.
 *
 * Reads are tried again when a connection breaks under them, writes only when the server has surely not begun them, as
 * upstream's client does (cli-etcdctl.md 4.5). */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/errmsg.h"

struct client;

#define CLIENT_API_VERSION "3.7"

struct client_opts {
    const char *const *endpoints; /* host:port, http://host:port, unix:path; borrowed for life */
    size_t endpoint_count;
    const char *user_agent;
    const char *token; /* sent as it is; NULL: none */
    const char *user;  /* NULL: none; then with a password: client_login() gets a token */
    const char *password;
    uint64_t keepalive_time_ns;
    uint64_t keepalive_timeout_ns;
    uint64_t dial_timeout_ns;  /* of the login; 0: none */
    uint32_t send_bytes_max;   /* 0: 2 MiB */
    uint32_t recv_bytes_max;   /* 0: 2147483647 */
    const struct alloc *alloc; /* outlives the client */
};

/* How a call ended. */
struct client_status {
    enum grpc_code code;
    char text[1024]; /* the server's words, or the client's own */
};

/* Gives a client, to be freed with client_free(); connects to nothing yet.
 * Errors: E_NOMEM; E_INVAL an endpoint that is too long; E_UNSUPPORTED one that needs TLS. */
int client_new(const struct client_opts *opts, struct client **out, struct errmsg *em);
void client_free(struct client *c);

/* Gets a token for user and password. Without both, or when the server has no authentication, nothing is done and 0
 * returned. Otherwise `*st` says why not and E_AUTH_FAILED is returned. */
int client_login(struct client *c, struct client_status *st);

struct client_request {
    const char *path; /* "/etcdserverpb.KV/Put" */
    struct bytes body;
    uint64_t timeout_ns; /* 0: none */
    bool read;           /* may be tried again */
    bool require_leader;
};

/* Does one unary call. Returns 0 with the message appended to `answer`; or the negative E_... that stands for the
 * status in `*st` (E_UNKNOWN_METHOD's table when the text is one of ours, else E_PROTO). */
int client_unary(struct client *c, const struct client_request *req, struct buf *answer,
                 struct client_status *st);

/* --- streams ------------------------------------------------------------------------------------- */

struct client_stream;

/* Opens a stream on one connection; waits until one is up. Gives `*out`, client_stream_close() ends it.
 * Errors: as client_unary(). */
int client_stream_open(struct client *c, const struct client_request *req, bool send_body,
                       struct client_stream **out, struct client_status *st);

/* Queues one message to send. Errors: E_NOMEM, E_TOOBIG, E_CLOSED. */
int client_stream_send(struct client_stream *s, struct bytes msg);
void client_stream_half_close(struct client_stream *s);

/* Waits for the next message: 1 and the message in `msg` (replaced); 0 when the stream has ended well; E_AGAIN when
 * `timeout_ns` (0: none) went by; or an error with `*st`. */
int client_stream_next(struct client_stream *s, uint64_t timeout_ns, struct buf *msg,
                       struct client_status *st);
void client_stream_close(struct client_stream *s);

/* Ends the wait under way, or else the next one, with E_INTR and "context canceled". Any thread. */
void client_interrupt(struct client *c);

/* The words that a user sees: etcd's own texts bare, others as `rpc error: code = C desc = TEXT`, the client's own
 * (deadline, cancel) bare. Writes into `out` of `cap` bytes. */
void client_status_text(const struct client_status *st, char *out, size_t cap);
/* "InvalidArgument", ...; static. */
const char *client_code_name(enum grpc_code code);

#endif
