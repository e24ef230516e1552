/* Addresses: splitting as Go's net.SplitHostPort, looking up, showing. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/err.h"
#include "os/sock.h"

/* --- splitting -------------------------------------------------------------------------------- */

static int bad_address(struct bytes text, const char *why, struct errmsg *em)
{
    errmsg_set(em, "address %.*s: %s", (int)(text.len < 512 ? text.len : 512),
               text.data == NULL ? "" : (const char *)text.data, why);
    return E_INVAL;
}

static const char missing_port[] = "missing port in address";
static const char many_colons[] = "too many colons in address";

static size_t find(struct bytes s, char c)
{
    const uint8_t *at = s.len == 0 ? NULL : memchr(s.data, c, s.len);
    return at == NULL ? s.len : (size_t)(at - s.data);
}

static struct bytes from(struct bytes s, size_t at)
{
    return bytes_of(s.data + at, s.len - at);
}

/* "[host]:port": `colon` is the last one. NULL or what is wrong. */
static const char *split_bracketed(struct bytes text, size_t colon, struct bytes *host)
{
    size_t end = find(text, ']');
    if (end == text.len) return "missing ']' in address";
    if (end + 1 == text.len) return missing_port;
    if (end + 1 != colon) return text.data[end + 1] == ':' ? many_colons : missing_port;
    if (find(from(text, 1), '[') != text.len - 1) return "unexpected '[' in address";
    if (find(from(text, end + 1), ']') != text.len - end - 1) return "unexpected ']' in address";
    *host = bytes_of(text.data + 1, end - 1);
    return NULL;
}

static const char *split_plain(struct bytes text, size_t colon, struct bytes *host)
{
    *host = bytes_of(text.data, colon);
    if (find(*host, ':') != host->len) return many_colons;
    if (find(text, '[') != text.len) return "unexpected '[' in address";
    if (find(text, ']') != text.len) return "unexpected ']' in address";
    return NULL;
}

int sock_split_host_port(struct bytes text, struct bytes *host, struct bytes *port,
                         struct errmsg *em)
{
    struct bytes found = BYTES_EMPTY;
    size_t colon = text.len;
    while (colon > 0 && text.data[colon - 1] != ':') {
        colon--;
    }
    if (colon == 0) return bad_address(text, missing_port, em);
    colon--;
    bool bracketed = text.data[0] == '[';
    const char *why = bracketed ? split_bracketed(text, colon, &found)
                                : split_plain(text, colon, &found);
    if (why != NULL) return bad_address(text, why, em);
    *host = found;
    *port = from(text, colon + 1);
    return 0;
}

/* --- looking up ------------------------------------------------------------------------------- */

static void addr_set(struct sock_addr *a, const struct addrinfo *ai)
{
    *a = (struct sock_addr){.len = ai->ai_addrlen};
    memcpy(&a->storage, ai->ai_addr, ai->ai_addrlen);
}

static size_t addrs_of_family(const struct addrinfo *list, int family, struct sock_addr *out,
                              size_t count)
{
    for (const struct addrinfo *ai = list; ai != NULL && count < SOCK_ADDRS_MAX; ai = ai->ai_next) {
        if (ai->ai_family == family) addr_set(&out[count++], ai);
    }
    return count;
}

static int lookup_failed(int gai_rc, const char *host, const char *port, struct errmsg *em)
{
    if (gai_rc == EAI_SERVICE) {
        errmsg_set(em, "lookup tcp/%s: unknown port", port);
        return E_INVAL;
    }
    if (gai_rc == EAI_NONAME || gai_rc == EAI_NODATA) {
        errmsg_set(em, "lookup %s: no such host", host);
        return E_NOTFOUND;
    }
    errmsg_set(em, "lookup %s: %s", host, gai_strerror(gai_rc));
    return gai_rc == EAI_MEMORY ? E_NOMEM : E_AGAIN;
}

/* getaddrinfo() takes 99999 for 34463: a port of digits must be one. */
static bool port_fits(const char *port)
{
    unsigned long value = 0;
    for (const char *c = port; *c != '\0'; c++) {
        if (*c < '0' || *c > '9') return true; /* a service's name */
        value = value * 10 + (unsigned long)(*c - '0');
        if (value > UINT16_MAX) return false;
    }
    return true;
}

/* As getaddrinfo(); "localhost" is the loopback address also where no file and no server says so (RFC 6761, 6.3): a
 * machine set up with the least has no /etc/hosts. */
static int look_up(const char *host, const char *port, struct addrinfo **list)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    int gai_rc = getaddrinfo(host, port, &hints, list);
    if (gai_rc == 0 || gai_rc == EAI_SERVICE || host == NULL || strcmp(host, "localhost") != 0)
        return gai_rc;
    return getaddrinfo("127.0.0.1", port, &hints, list);
}

int sock_resolve(const char *host_port, struct sock_addr out[SOCK_ADDRS_MAX], size_t *count,
                 struct errmsg *em)
{
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    struct bytes h;
    struct bytes p;
    int rc = sock_split_host_port(bytes_str(host_port), &h, &p, em);
    if (rc < 0) return rc;
    if (h.len >= sizeof host || p.len >= sizeof port)
        return bad_address(bytes_str(host_port), "too long", em);
    (void)snprintf(host, sizeof host, "%.*s", (int)h.len, (const char *)h.data);
    (void)snprintf(port, sizeof port, "%.*s", (int)p.len, (const char *)p.data);
    if (!port_fits(port)) {
        errmsg_set(em, "address %s: invalid port", port);
        return E_INVAL;
    }
    struct addrinfo *list = NULL;
    int gai_rc = look_up(h.len == 0 ? NULL : host, p.len == 0 ? "0" : port, &list);
    if (gai_rc != 0) return lookup_failed(gai_rc, host, port, em);
    /* As Go: an empty host is the dual-stack wildcard, a name prefers IPv4. */
    int first = h.len == 0 ? AF_INET6 : AF_INET;
    size_t n = addrs_of_family(list, first, out, 0);
    n = addrs_of_family(list, first == AF_INET ? AF_INET6 : AF_INET, out, n);
    freeaddrinfo(list);
    if (n == 0) return lookup_failed(EAI_NONAME, host, port, em);
    *count = n;
    return 0;
}

/* --- showing ---------------------------------------------------------------------------------- */

static void show_v6(const struct sockaddr_in6 *v6, char out[SOCK_TEXT_BYTES_MAX])
{
    char ip[INET6_ADDRSTRLEN] = "";
    char zone[IF_NAMESIZE + 1] = "";
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        (void)inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], ip, sizeof ip);
        (void)snprintf(out, SOCK_TEXT_BYTES_MAX, "%s:%u", ip, ntohs(v6->sin6_port));
        return;
    }
    (void)inet_ntop(AF_INET6, &v6->sin6_addr, ip, sizeof ip);
    if (v6->sin6_scope_id != 0 && if_indextoname(v6->sin6_scope_id, zone + 1) != NULL)
        zone[0] = '%';
    (void)snprintf(out, SOCK_TEXT_BYTES_MAX, "[%s%s]:%u", ip, zone, ntohs(v6->sin6_port));
}

static void show_unix(const struct sock_addr *a, char out[SOCK_TEXT_BYTES_MAX])
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&a->storage;
    size_t len = a->len > offsetof(struct sockaddr_un, sun_path)
                     ? a->len - offsetof(struct sockaddr_un, sun_path)
                     : 0;
    bool abstract = len > 0 && un->sun_path[0] == 0;
    (void)snprintf(out, SOCK_TEXT_BYTES_MAX, "%s%.*s", abstract ? "@" : "",
                   (int)(abstract ? len - 1 : strnlen(un->sun_path, len)), un->sun_path + abstract);
}

void sock_addr_text(const struct sock_addr *a, char out[SOCK_TEXT_BYTES_MAX])
{
    char ip[INET_ADDRSTRLEN] = "";
    out[0] = 0;
    if (a->storage.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)&a->storage;
        (void)inet_ntop(AF_INET, &v4->sin_addr, ip, sizeof ip);
        (void)snprintf(out, SOCK_TEXT_BYTES_MAX, "%s:%u", ip, ntohs(v4->sin_port));
    } else if (a->storage.ss_family == AF_INET6) {
        show_v6((const struct sockaddr_in6 *)(const void *)&a->storage, out);
    } else if (a->storage.ss_family == AF_UNIX) {
        show_unix(a, out);
    }
}

static void show_end(int fd, int (*name)(int, struct sockaddr *, socklen_t *),
                     char out[SOCK_TEXT_BYTES_MAX])
{
    struct sock_addr a = {.len = sizeof a.storage};
    out[0] = 0;
    if (name(fd, (struct sockaddr *)&a.storage, &a.len) == 0) sock_addr_text(&a, out);
}

void sock_local_text(int fd, char out[SOCK_TEXT_BYTES_MAX])
{
    show_end(fd, getsockname, out);
}

void sock_peer_text(int fd, char out[SOCK_TEXT_BYTES_MAX])
{
    show_end(fd, getpeername, out);
}
