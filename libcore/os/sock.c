/* Stream sockets: listening, connecting, moving bytes. */
#include "os/sock.h"

#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"

enum {
    ACCEPT_TRIES_MAX = 16
}; /* connections reset before they were accepted, passed over in one call */

/* "OPERATION NETWORK ADDRESS: STEP: reason", the reason in lower case as Go prints it; returns the
 * E_.... */
static int fail(const char *what, const char *address, const char *step, int errno_value,
                struct errmsg *em)
{
    char reason[128];
    (void)snprintf(reason, sizeof reason, "%s", strerror(errno_value));
    reason[0] = (char)tolower((unsigned char)reason[0]);
    errmsg_set(em, "%s %s: %s: %s", what, address, step, reason);
    return err_from_errno(errno_value);
}

static void set_int(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

void sock_close(int fd)
{
    if (fd >= 0) (void)close(fd);
}

/* --- listening -------------------------------------------------------------------------------- */

static int listen_at(const struct sock_addr *a, const struct sock_listen_opts *opts, int *out,
                     const char **step)
{
    *step = "socket";
    int fd = socket(a->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    if (a->storage.ss_family != AF_UNIX) set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (a->storage.ss_family == AF_INET6) set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (opts != NULL && opts->reuse_port) set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    *step = "bind";
    int rc = bind(fd, (const struct sockaddr *)&a->storage, a->len);
    if (rc == 0) {
        *step = "listen";
        rc = listen(fd, SOCK_BACKLOG);
    }
    int errno_value = errno;
    if (rc != 0) {
        (void)close(fd);
        return errno_value;
    }
    *out = fd;
    return 0;
}

int sock_listen_tcp(const char *host_port, const struct sock_listen_opts *opts, int *out,
                    struct errmsg *em)
{
    struct sock_addr addrs[SOCK_ADDRS_MAX];
    char text[SOCK_TEXT_BYTES_MAX];
    size_t count = 0;
    int rc = sock_resolve(host_port, addrs, &count, em);
    if (rc < 0) {
        errmsg_prefix(em, "listen tcp");
        return rc;
    }
    int errno_value = 0;
    for (size_t i = 0; i < count; i++) {
        const char *step = "";
        errno_value = listen_at(&addrs[i], opts, out, &step);
        if (errno_value == 0) return 0;
        sock_addr_text(&addrs[i], text);
        rc = fail("listen tcp", text, step, errno_value, em);
        /* Another address may do only where this kind is not there at all. */
        if (errno_value != EAFNOSUPPORT && errno_value != EADDRNOTAVAIL) break;
    }
    return rc;
}

static int unix_addr(const char *path, struct sock_addr *a)
{
    struct sockaddr_un *un = (struct sockaddr_un *)(void *)&a->storage;
    size_t len = strlen(path);
    *a = (struct sock_addr){.len = 0};
    if (len == 0 || len >= sizeof un->sun_path) return E_INVAL;
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path, len);
    a->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (path[0] == '@') {
        un->sun_path[0] = 0; /* an abstract name has no terminating zero */
    } else {
        a->len++;
    }
    return 0;
}

static int bad_unix_path(const char *what, const char *path, struct errmsg *em)
{
    errmsg_set(em, "%s unix %s: bind: invalid argument", what, path);
    return E_INVAL;
}

/* Whether nobody answers behind a socket file: then its process is dead. */
static bool is_dead(const struct sock_addr *a)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    bool dead = connect(fd, (const struct sockaddr *)&a->storage, a->len) != 0 &&
                errno == ECONNREFUSED;
    (void)close(fd);
    return dead;
}

int sock_listen_unix(const char *path, int *out, struct errmsg *em)
{
    struct sock_addr a;
    const char *step = "";
    if (unix_addr(path, &a) < 0) return bad_unix_path("listen", path, em);
    int errno_value = listen_at(&a, NULL, out, &step);
    if (errno_value == EADDRINUSE && path[0] != '@' && is_dead(&a) && unlink(path) == 0) {
        errno_value = listen_at(&a, NULL, out, &step);
    }
    return errno_value == 0 ? 0 : fail("listen unix", path, step, errno_value, em);
}

/* Errors of accept(2) that belong to the connection, not to the listener. */
static bool connection_is_gone(int errno_value)
{
    static const int gone[] = {EINTR,  ECONNABORTED, EPROTO,       ENOPROTOOPT, ENETDOWN,
                               ENONET, EHOSTDOWN,    EHOSTUNREACH, EOPNOTSUPP,  ENETUNREACH};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        if (gone[i] == errno_value) return true;
    }
    return false;
}

int sock_accept(int fd, int *out, struct sock_addr *peer)
{
    for (unsigned i = 0; i < ACCEPT_TRIES_MAX; i++) {
        struct sock_addr a = {.len = sizeof a.storage};
        int got = accept4(fd, (struct sockaddr *)&a.storage, &a.len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (got < 0 && connection_is_gone(errno)) continue;
        if (got < 0) return err_from_errno(errno);
        if (a.storage.ss_family != AF_UNIX) set_int(got, IPPROTO_TCP, TCP_NODELAY, 1);
        *out = got;
        if (peer != NULL) *peer = a;
        return 0;
    }
    return E_AGAIN;
}

/* --- connecting ------------------------------------------------------------------------------- */

static int connect_to(const struct sock_addr *a, const char *what, const char *text, int *out,
                      struct errmsg *em)
{
    int fd = socket(a->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return fail(what, text, "socket", errno, em);
    if (a->storage.ss_family != AF_UNIX) set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    int rc = 0;
    do {
        rc = connect(fd, (const struct sockaddr *)&a->storage, a->len);
    } while (rc != 0 && errno == EINTR);
    int errno_value = rc == 0 ? 0 : errno;
    if (errno_value != 0 && errno_value != EINPROGRESS) {
        (void)close(fd);
        return fail(what, text, "connect", errno_value, em);
    }
    *out = fd;
    return errno_value == 0 ? 0 : E_AGAIN;
}

int sock_connect(const struct sock_addr *addr, int *out, struct errmsg *em)
{
    char text[SOCK_TEXT_BYTES_MAX];
    sock_addr_text(addr, text);
    return connect_to(addr, addr->storage.ss_family == AF_UNIX ? "dial unix" : "dial tcp", text,
                      out, em);
}

int sock_connect_unix(const char *path, int *out, struct errmsg *em)
{
    struct sock_addr a;
    if (unix_addr(path, &a) < 0) return bad_unix_path("dial", path, em);
    return connect_to(&a, "dial unix", path, out, em);
}

int sock_connect_result(int fd)
{
    int errno_value = 0;
    socklen_t len = sizeof errno_value;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &errno_value, &len) != 0) return err_from_errno(errno);
    return errno_value == 0 ? 0 : err_from_errno(errno_value);
}

/* --- bytes ------------------------------------------------------------------------------------ */

int sock_read(int fd, void *data, size_t len, size_t *done)
{
    ssize_t n = -1;
    do {
        n = recv(fd, data, len, 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0) return err_from_errno(errno);
    if (n == 0) return E_EOF;
    *done = (size_t)n;
    return 0;
}

int sock_write(int fd, struct bytes data, size_t *done)
{
    ssize_t n = -1;
    do {
        n = send(fd, data.data, data.len, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0) return err_from_errno(errno);
    *done = (size_t)n;
    return 0;
}

void sock_keepalive(int fd, unsigned idle_s, unsigned interval_s)
{
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, (int)idle_s);
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, (int)interval_s);
}
