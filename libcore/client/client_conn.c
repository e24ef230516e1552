/* Connections: one per endpoint, made when needed, made again after a pause that doubles. */
#include "client/client_int.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "os/clock.h"

enum { PAUSE_MS_MIN = 100, PAUSE_MS_MAX = 5000, CONNECT_MS_MAX = 20000 };

static void endpoint_lost(struct endpoint *e, const char *reason);

uint64_t client__now(const struct client *c)
{
    (void)c;
    return os_clock.mono_ns(os_clock.arg);
}

void client__wake(struct client *c)
{
    loop_stop(c->loop);
}

static void arm(struct endpoint *e, uint64_t due_ns)
{
    if (due_ns == GRPC_NEVER) {
        loop_timer_stop(e->timer);
        return;
    }
    uint64_t now = client__now(e->c);
    loop_timer_start(e->timer, due_ns > now ? (due_ns - now) / 1000000 + 1 : 0, 0);
}

/* --- writing and reading ------------------------------------------------------------------------------ */

void client__flush(struct endpoint *e)
{
    while (e->conn != NULL) {
        if (e->out_at == e->out_len) {
            e->out_at = 0;
            e->out_len = grpc_client_conn_pull(e->conn, e->out, GRPC_PULL_BYTES, client__now(e->c));
            if (e->out_len == 0) break;
        }
        size_t done = 0;
        int rc = sock_write(e->fd, bytes_of(e->out + e->out_at, e->out_len - e->out_at), &done);
        if (rc == E_AGAIN) {
            loop_watch_set(e->watch, LOOP_READABLE | LOOP_WRITABLE);
            return;
        }
        if (rc < 0) {
            endpoint_lost(e, "error writing to the server: broken pipe");
            return;
        }
        e->out_at += done;
    }
    if (e->conn == NULL) return;
    loop_watch_set(e->watch, LOOP_READABLE);
    if (grpc_client_conn_done(e->conn)) {
        endpoint_lost(e, "the connection is draining");
        return;
    }
    arm(e, grpc_client_conn_tick(e->conn, client__now(e->c)));
}

static void read_some(struct endpoint *e)
{
    size_t got = 0;
    int rc = sock_read(e->fd, e->c->read_buffer, CLIENT_READ_BYTES, &got);
    if (rc == E_AGAIN) return;
    if (rc < 0) {
        endpoint_lost(e, rc == E_EOF ? "error reading from server: EOF"
                                     : "error reading from server: connection reset by peer");
        return;
    }
    bool was_ready = e->state == ENDPOINT_READY;
    if (grpc_client_conn_feed(e->conn, e->c->read_buffer, got, client__now(e->c)) < 0) {
        endpoint_lost(e, "the server broke the protocol");
        return;
    }
    if (!was_ready && grpc_client_conn_ready(e->conn)) {
        e->state = ENDPOINT_READY;
        e->failures = 0;
        client__wake(e->c);
    }
}

/* --- connecting ---------------------------------------------------------------------------------------- */

static void pause_endpoint(struct endpoint *e)
{
    unsigned shift = e->failures < 6 ? e->failures : 6;
    uint64_t ms = (uint64_t)PAUSE_MS_MIN << shift;
    e->failures++;
    e->state = ENDPOINT_WAITING;
    loop_timer_start(e->timer, ms < PAUSE_MS_MAX ? ms : PAUSE_MS_MAX, 0);
}

static void close_socket(struct endpoint *e)
{
    if (e->watch != NULL) loop_watch_close(e->watch);
    if (e->fd >= 0) sock_close(e->fd);
    e->watch = NULL;
    e->fd = -1;
    e->out_len = e->out_at = 0;
}

/* Ends all calls of the connection with the reason; the next use connects anew. */
static void endpoint_lost(struct endpoint *e, const char *reason)
{
    struct grpc_client_conn *conn = e->conn;
    bool was_ready = e->state == ENDPOINT_READY;
    e->conn = NULL;
    close_socket(e);
    loop_timer_stop(e->timer);
    e->state = ENDPOINT_IDLE;
    if (conn != NULL) {
        grpc_client_conn_lost(conn, reason);
        grpc_client_conn_free(conn);
    }
    if (!was_ready) pause_endpoint(e);
    client__wake(e->c);
}

static void connected(struct endpoint *e)
{
    struct grpc_client_opts o = grpc_client_opts_default();
    const struct client_opts *co = &e->c->opts;
    o.pool = e->c->pool;
    o.authority = e->unix_socket ? "localhost" : e->address;
    o.user_agent = co->user_agent;
    o.scheme = "http";
    o.recv_bytes_max = co->recv_bytes_max;
    o.send_bytes_max = co->send_bytes_max;
    if (co->keepalive_time_ns > 0) o.keepalive_time_ns = co->keepalive_time_ns;
    if (co->keepalive_timeout_ns > 0) o.keepalive_timeout_ns = co->keepalive_timeout_ns;
    e->conn = grpc_client_conn_new(&o, client__now(e->c));
    if (e->conn == NULL) {
        endpoint_lost(e, "out of memory");
        return;
    }
    client__flush(e);
}

static void try_next(struct endpoint *e);

static void on_event(void *arg, unsigned events)
{
    struct endpoint *e = arg;
    if (e->conn == NULL) {
        if (sock_connect_result(e->fd) < 0) {
            close_socket(e);
            try_next(e);
            return;
        }
        connected(e);
        return;
    }
    if ((events & (LOOP_READABLE | LOOP_HANGUP)) != 0) read_some(e);
    if (e->conn != NULL) client__flush(e);
}

static int start_connect(struct endpoint *e)
{
    if (e->unix_socket) return sock_connect_unix(e->address, &e->fd, NULL);
    return sock_connect(&e->addrs[e->addr_next++], &e->fd, NULL);
}

/* Tries the addresses of the name one after the other; behind the last there is a pause. */
static void try_next(struct endpoint *e)
{
    while (e->addr_next < e->addr_count) {
        int rc = start_connect(e);
        if (e->unix_socket) e->addr_next++;
        if (rc < 0 && rc != E_AGAIN) continue;
        loop_timer_start(e->timer, CONNECT_MS_MAX, 0);
        if (loop_watch_open(e->c->loop, e->fd, on_event, e, &e->watch) < 0) {
            close_socket(e);
            continue;
        }
        loop_watch_set(e->watch, LOOP_WRITABLE);
        return;
    }
    pause_endpoint(e);
}

/* An idle endpoint's name is looked up, which may take the time of the name service. */
static void begin_connect(struct endpoint *e)
{
    e->state = ENDPOINT_CONNECTING;
    e->addr_next = 0;
    e->addr_count = 1;
    if (!e->unix_socket && sock_resolve(e->address, e->addrs, &e->addr_count, NULL) < 0)
        e->addr_count = 0;
    try_next(e);
}

static void on_timer(void *arg)
{
    struct endpoint *e = arg;
    if (e->state == ENDPOINT_WAITING) {
        begin_connect(e);
    } else if (e->conn == NULL) {
        /* This address does not answer at all. */
        close_socket(e);
        try_next(e);
    } else {
        (void)grpc_client_conn_tick(e->conn, client__now(e->c));
        client__flush(e);
    }
}

void client__connect_all(struct client *c)
{
    for (size_t i = 0; i < c->endpoint_count; i++) {
        struct endpoint *e = &c->endpoints[i];
        if (e->state == ENDPOINT_IDLE) begin_connect(e);
    }
}

struct endpoint *client__pick(struct client *c)
{
    for (size_t i = 0; i < c->endpoint_count; i++) {
        struct endpoint *e = &c->endpoints[c->next++ % c->endpoint_count];
        if (e->state == ENDPOINT_READY && !grpc_client_conn_draining(e->conn)) return e;
    }
    return NULL;
}

/* --- endpoints ------------------------------------------------------------------------------------------- */

static bool cut_prefix(const char **text, const char *prefix)
{
    size_t n = strlen(prefix);
    if (strncmp(*text, prefix, n) != 0) return false;
    *text += n;
    return true;
}

int client__endpoint_init(struct client *c, struct endpoint *e, const char *text, struct errmsg *em)
{
    const char *rest = text;
    *e = (struct endpoint){.c = c, .fd = -1};
    if (cut_prefix(&rest, "https://") || cut_prefix(&rest, "unixs:")) {
        errmsg_set(em, "endpoint %s needs TLS, which this client does not speak yet", text);
        return E_UNSUPPORTED;
    }
    if (cut_prefix(&rest, "unix:")) {
        e->unix_socket = true;
        (void)cut_prefix(&rest, "//");
    } else {
        (void)cut_prefix(&rest, "http://");
    }
    /* Of a URL only the host counts. */
    size_t len = e->unix_socket ? strlen(rest) : strcspn(rest, "/");
    if (len >= sizeof e->address) {
        errmsg_set(em, "endpoint \"%.32s...\" is too long", text);
        return E_INVAL;
    }
    memcpy(e->address, rest, len);
    e->address[len] = '\0';
    e->out = alloc_new(c->opts.alloc, GRPC_PULL_BYTES);
    if (e->out == NULL) return E_NOMEM;
    return loop_timer_open(c->loop, on_timer, e, &e->timer);
}

void client__endpoint_deinit(struct endpoint *e)
{
    if (e->conn != NULL) grpc_client_conn_free(e->conn);
    e->conn = NULL;
    close_socket(e);
    if (e->timer != NULL) loop_timer_close(e->timer);
    alloc_free(e->c->opts.alloc, e->out, GRPC_PULL_BYTES);
}
