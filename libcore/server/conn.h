/* A client's or peer's socket: bytes between the kernel and the protocol that its first bytes chose.
 *
 * One io thread owns a connection from accept to close. Output is gathered: whoever makes bytes marks the connection, and
 * at the end of the round each marked one is written once. */
#ifndef SERVER_CONN_H
#define SERVER_CONN_H

#include "base/heap.h"
#include "base/list.h"
#include "os/loop.h"
#include "rpc/rpc.h"

/* What a listener lets in. */
struct conn_face {
    bool grpc;
    bool http;
    enum rpc_http_kind http_kind;
};

/* Limits of connections, from the configuration. */
struct conn_limits {
    struct grpc_conn_opts grpc;
    struct http1_opts http;
};

struct conn_set; /* the connections of one io thread */

/* Gives the connections' owner; `rpc` is made inside, for `member`. Borrows all for its life. Errors: E_NOMEM. */
int conn_set_new(struct loop *loop, const struct alloc *alloc, const struct clock *clock,
                 const struct rpc_member *member, const struct conn_limits *limits,
                 struct conn_set **out);

/* Takes the socket `fd`; on error it is closed. Loop's thread. */
void conn_set_add(struct conn_set *s, int fd, struct conn_face face);

/* Begins a graceful stop of all connections; new ones are closed at once. */
void conn_set_drain(struct conn_set *s);

/* Closes connections on which nothing is asked or answered; while draining. */
void conn_set_close_idle(struct conn_set *s);

/* Closes all connections now. */
void conn_set_close(struct conn_set *s);

/* Connections open, and requests that still wait for the member. Any thread. */
size_t conn_set_open(const struct conn_set *s);
size_t conn_set_pending(const struct conn_set *s);

/* The set's requests, for what they have counted. */
const struct rpc_thread *conn_set_rpc(const struct conn_set *s);

/* With no connection and no request left. NULL is allowed. */
void conn_set_free(struct conn_set *s);

#endif
