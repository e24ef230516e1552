/* One datagram, as sd_notify(3) describes the protocol. */
#include "os/sdnotify.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"

static int refuse(const char *socket_name, const char *why, int rc, struct errmsg *em)
{
    errmsg_set(em, "cannot notify \"%s\": %s", socket_name, why);
    return rc;
}

int sdnotify_to(const char *socket_name, const char *state, struct errmsg *em)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    size_t len = strlen(socket_name);
    bool abstract = socket_name[0] == '@';
    if (!abstract && socket_name[0] != '/') {
        return refuse(socket_name, "neither a path nor an abstract name", E_INVAL, em);
    }
    if (len >= sizeof un.sun_path) return refuse(socket_name, "name too long", E_INVAL, em);
    memcpy(un.sun_path, socket_name, len);
    if (abstract) un.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return refuse(socket_name, strerror(errno), err_from_errno(errno), em);
    socklen_t un_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    ssize_t n =
        sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&un, un_len);
    int errno_value = errno;
    (void)close(fd);
    if (n < 0) return refuse(socket_name, strerror(errno_value), err_from_errno(errno_value), em);
    return 0;
}

int sdnotify(const char *state, struct errmsg *em)
{
    const char *socket_name = getenv("NOTIFY_SOCKET");
    if (socket_name == NULL || socket_name[0] == 0) return 0;
    return sdnotify_to(socket_name, state, em);
}
