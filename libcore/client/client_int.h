/* Inside client: one endpoint's connection, one call in flight. */
#ifndef CLIENT_CLIENT_INT_H
#define CLIENT_CLIENT_INT_H

#include <stdatomic.h>

#include "base/list.h"
#include "client/client.h"
#include "grpc/grpc_client.h"
#include "os/loop.h"
#include "os/sock.h"

enum endpoint_state { ENDPOINT_IDLE, ENDPOINT_CONNECTING, ENDPOINT_READY, ENDPOINT_WAITING };

enum { ENDPOINT_TEXT_BYTES_MAX = 1024, CLIENT_READ_BYTES = 256 * 1024 };

struct endpoint {
    struct client *c;
    char address[ENDPOINT_TEXT_BYTES_MAX]; /* host:port, or a path */
    bool unix_socket;
    enum endpoint_state state;
    struct sock_addr addrs[SOCK_ADDRS_MAX];
    size_t addr_count, addr_next;
    int fd;
    struct loop_watch *watch;
    struct grpc_client_conn *conn;
    struct loop_timer *timer; /* the protocol's next tick, or the end of a pause */
    unsigned failures;        /* in a row, for the pause */
    uint8_t *out;
    size_t out_len, out_at;
};

struct client {
    struct client_opts opts;
    struct loop *loop;
    struct grpc_pool *pool;
    struct endpoint *endpoints;
    size_t endpoint_count;
    size_t next; /* round robin */
    char *token; /* of a login; NULL */
    size_t token_bytes;
    uint8_t *read_buffer;
    struct loop_timer *wait_timer;
    bool timed_out;
    atomic_bool interrupted;
};

struct client_stream {
    struct client *c;
    struct grpc_client_call *call; /* NULL: ended */
    struct endpoint *e;
    struct buf *answer;   /* of a unary call: where its message goes */
    struct list messages; /* of struct message; of a stream */
    size_t queued_bytes;
    bool held; /* the server waits, since too much is queued here */
    bool ended;
    bool unprocessed; /* the server has surely not begun it */
    struct client_status status;
};

/* Starts connecting wherever nothing is under way. */
void client__connect_all(struct client *c);
/* The next endpoint that is up, or NULL. */
struct endpoint *client__pick(struct client *c);
/* Something changed that a waiting call may want to see. */
void client__wake(struct client *c);
/* Sends what the connection has made. */
void client__flush(struct endpoint *e);
int client__endpoint_init(struct client *c, struct endpoint *e, const char *text,
                          struct errmsg *em);
void client__endpoint_deinit(struct endpoint *e);
uint64_t client__now(const struct client *c);

/* Runs the loop until something happened or `deadline_ns` is reached: false then. */
bool client__wait(struct client *c, uint64_t deadline_ns);

#endif
