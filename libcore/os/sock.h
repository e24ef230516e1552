/* Sockets: listen, accept, connect; every descriptor is non-blocking and closed on exec.
 *
 * Error words are those of Go's net package, which users know: `listen tcp 127.0.0.1:2379: bind:
 * address already in use`. */
#ifndef OS_SOCK_H
#define OS_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/errmsg.h"

enum {
    SOCK_BACKLOG = 1024,
    SOCK_ADDRS_MAX = 16,      /* of one host name that are looked at */
    SOCK_TEXT_BYTES_MAX = 128 /* "[ipv6%zone]:port" or a path */
};

struct sock_addr {
    struct sockaddr_storage storage;
    socklen_t len;
};

/* Splits "host:port", "[v6]:port" or ":port" at the last colon. Spans lie in `text`. E_INVAL with
 * Go's words (`address X: missing port in address`, ...). */
int sock_split_host_port(struct bytes text, struct bytes *host, struct bytes *port,
                         struct errmsg *em);

/* Looks up "host:port"; an empty host is every address. Blocks (DNS). At most SOCK_ADDRS_MAX of
 * `out`; `*count` says how many. E_NOTFOUND no such host, E_INVAL, E_AGAIN. */
int sock_resolve(const char *host_port, struct sock_addr out[SOCK_ADDRS_MAX], size_t *count,
                 struct errmsg *em);

struct sock_listen_opts {
    bool reuse_port; /* SO_REUSEPORT; SO_REUSEADDR is always set, as Go does */
};

/* Listens on the first address of "host:port" that can be had. Gives a descriptor. `opts` may be
 * NULL.
 * Errors: E_BUSY in use, E_ACCES, E_NOTFOUND, ... */
int sock_listen_tcp(const char *host_port, const struct sock_listen_opts *opts, int *out,
                    struct errmsg *em);

/* Listens on a path ("@x": abstract). A socket file left by a dead process is replaced, a live one
 * is E_BUSY. */
int sock_listen_unix(const char *path, int *out, struct errmsg *em);

/* Accepts one: 0 and a descriptor with TCP_NODELAY; E_AGAIN none waits; E_BUSY out of descriptors
 * (try later); a connection that was reset meanwhile is passed over. `peer` may be NULL. */
int sock_accept(int fd, int *out, struct sock_addr *peer);

/* Starts connecting to one address: 0 done, E_AGAIN in progress (writable when done, then
 * sock_connect_result()). Gives a descriptor in both cases. Other errors give none. */
int sock_connect(const struct sock_addr *addr, int *out, struct errmsg *em);
int sock_connect_unix(const char *path, int *out, struct errmsg *em);

/* How a started connect ended: 0, E_CONNREFUSED, E_DEADLINE_EXCEEDED, E_IO. */
int sock_connect_result(int fd);

/* Reads or writes what can be now. `*done` bytes > 0 and 0; E_AGAIN; E_EOF (reads only); E_CLOSED,
 * E_IO. */
int sock_read(int fd, void *data, size_t len, size_t *done);
int sock_write(int fd, struct bytes data, size_t *done);

/* TCP keepalive as Go sets it. Sockets that are not TCP are left alone. */
void sock_keepalive(int fd, unsigned idle_s, unsigned interval_s);

/* The address a socket is bound to, or connected to; "" when unknown. Zero-terminated "ip:port" or
 * path. */
void sock_local_text(int fd, char out[SOCK_TEXT_BYTES_MAX]);
void sock_peer_text(int fd, char out[SOCK_TEXT_BYTES_MAX]);
void sock_addr_text(const struct sock_addr *a, char out[SOCK_TEXT_BYTES_MAX]);

void sock_close(int fd);

#endif
