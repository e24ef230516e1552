/* A server that echoes unary messages over loopback: how fast the grpc module alone is.
 *
 * One thread, epoll, cleartext. Every path is a unary call whose answer is its request, or, for a path
 * ending in /N, a message of N bytes from a source. Run: grpc_echo PORT; load it with h2load. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "grpc/grpc.h"
#include "os/heap.h"

enum { IO_BYTES = 256 * 1024 };

struct peer {
    struct grpc_conn *conn;
    int fd;
    uint8_t *left; /* pulled, not yet taken by the socket */
    size_t left_len;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static int zeros_pull(void *arg, uint8_t *out, size_t cap)
{
    (void)arg;
    memset(out, 'x', cap);
    return (int)cap;
}

static enum grpc_kind on_call(void *arg, struct grpc_call *call, const struct grpc_head *head)
{
    (void)arg;
    unsigned long n = 0;
    for (size_t i = 0; i < head->method.len && n < 1UL << 31; i++) {
        uint8_t c = head->method.data[i];
        if (c >= '0' && c <= '9') n = n * 10 + (c - '0');
    }
    grpc_call_set_data(call, (void *)n);
    return GRPC_UNARY;
}

static void on_message(void *arg, struct grpc_call *call, void *data, struct bytes msg)
{
    (void)arg;
    unsigned long n = (unsigned long)data;
    const struct grpc_source source = {.len = n, .pull = zeros_pull};
    int rc = n > 0 ? grpc_call_send_source(call, &source) : grpc_call_send(call, msg);
    grpc_call_finish_err(call, rc);
}

static void on_cancel(void *arg, struct grpc_call *call, void *data, enum grpc_cancel why)
{
    (void)arg, (void)call, (void)data, (void)why;
}

static const struct grpc_handler HANDLER = {
    .on_call = on_call, .on_message = on_message, .on_cancel = on_cancel};

static int out_flush(struct peer *p, uint8_t *room)
{
    for (;;) {
        const uint8_t *data = p->left_len > 0 ? p->left : room;
        size_t len = p->left_len > 0 ? p->left_len
                                     : grpc_conn_pull(p->conn, room, GRPC_PULL_BYTES, now_ns());
        if (len == 0) return 0;
        ssize_t n = send(p->fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) return -1;
        if (n < 0) n = 0;
        uint8_t *left = NULL;
        if ((size_t)n < len) {
            left = malloc(len - (size_t)n);
            memcpy(left, data + n, len - (size_t)n);
        }
        free(p->left);
        p->left = left;
        p->left_len = len - (size_t)n;
        if (p->left_len > 0) return 0;
    }
}

static int peer_run(struct peer *p, uint32_t events, uint8_t *in, uint8_t *out)
{
    if ((events & EPOLLIN) != 0 && grpc_conn_want_read(p->conn)) {
        ssize_t n = recv(p->fd, in, IO_BYTES, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN)) return -1;
        if (n > 0) (void)grpc_conn_feed(p->conn, in, (size_t)n, now_ns());
    }
    if (out_flush(p, out) < 0) return -1;
    (void)grpc_conn_tick(p->conn, now_ns());
    return grpc_conn_done(p->conn) && p->left_len == 0 ? -1 : 0;
}

static int listen_on(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 1024) < 0) return -1;
    return fd;
}

static void peer_accept(int ep, int listener, struct grpc_pool *pool)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (fd < 0) return;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct grpc_conn_opts opts = grpc_conn_opts_default();
    opts.pool = pool;
    struct peer *p = calloc(1, sizeof *p);
    p->fd = fd;
    p->conn = grpc_conn_new(&opts, &HANDLER, now_ns());
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = p};
    e.events = EPOLLIN;
    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
}

int main(int argc, char **argv)
{
    static uint8_t in[IO_BYTES];
    static uint8_t out[GRPC_PULL_BYTES];
    struct grpc_pool *pool = grpc_pool_new(&os_heap, 16 * 1024 * 1024);
    int listener = listen_on((uint16_t)strtoul(argc > 1 ? argv[1] : "23790", NULL, 10));
    int ep = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN};
    if (listener < 0 || ep < 0 || pool == NULL) return 1;
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e);
    for (;;) {
        struct epoll_event events[64];
        int n = epoll_wait(ep, events, 64, -1);
        for (int i = 0; i < n; i++) {
            struct peer *p = events[i].data.ptr;
            if (p == NULL) {
                peer_accept(ep, listener, pool);
            } else if (peer_run(p, events[i].events, in, out) < 0) {
                close(p->fd);
                grpc_conn_free(p->conn);
                free(p->left);
                free(p);
            } else {
                struct epoll_event m = {.events = p->left_len > 0 ? EPOLLOUT : EPOLLIN,
                                        .data.ptr = p};
                epoll_ctl(ep, EPOLL_CTL_MOD, p->fd, &m);
            }
        }
    }
}
