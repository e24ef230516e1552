#include "base/url.h"

#include "base/assert.h"
#include "base/err.h"

static bool is_scheme(struct bytes s, const char *name)
{
    return bytes_eq(s, bytes_str(name));
}

static size_t find(struct bytes s, char c)
{
    const uint8_t *at = s.len == 0 ? NULL : memchr(s.data, c, s.len);
    return at == NULL ? s.len : (size_t)(at - s.data);
}

/* "host:port" or "[v6]:port"; false when there is no port made of digits. */
static bool split_authority(struct url *u)
{
    struct bytes a = u->authority;
    size_t host_start = 0;
    size_t host_end = 0;
    if (a.len > 0 && a.data[0] == '[') {
        host_start = 1;
        host_end = find(a, ']');
        if (host_end == a.len) return false;
    } else {
        host_end = find(a, ':');
    }
    size_t colon = host_end + host_start; /* behind the bracket */
    u->host = bytes_of(a.data + host_start, host_end - host_start);
    if (colon >= a.len || a.data[colon] != ':') return false;
    u->port = bytes_of(a.data + colon + 1, a.len - colon - 1);
    for (size_t i = 0; i < u->port.len; i++) {
        if (u->port.data[i] < '0' || u->port.data[i] > '9') return false;
    }
    return u->port.len > 0 && u->port.len <= 5;
}

static bool split_scheme(struct url *u, struct bytes *rest)
{
    size_t colon = find(*rest, ':');
    if (colon == rest->len || colon == 0) return false;
    u->scheme = bytes_of(rest->data, colon);
    *rest = bytes_of(rest->data + colon + 1, rest->len - colon - 1);
    u->unix_socket = is_scheme(u->scheme, "unix") || is_scheme(u->scheme, "unixs");
    return u->unix_socket || is_scheme(u->scheme, "http") || is_scheme(u->scheme, "https");
}

int url_parse(struct url *out, struct bytes text, struct errmsg *em)
{
    struct url u = {0};
    struct bytes rest = text;
    int width = (int)(text.len > 512 ? 512 : text.len);
    if (!split_scheme(&u, &rest)) {
        errmsg_set(em, "URL scheme must be http, https, unix, or unixs: %.*s", width, text.data);
        return E_INVAL;
    }
    if (rest.len >= 2 && rest.data[0] == '/' && rest.data[1] == '/') {
        rest = bytes_of(rest.data + 2, rest.len - 2);
    }
    size_t slash = find(rest, '/');
    u.authority = bytes_of(rest.data, slash);
    u.path = bytes_of(rest.data + slash, rest.len - slash);
    bool has_port = split_authority(&u);
    if (!u.unix_socket && !has_port) {
        errmsg_set(em, "URL address does not have the form \"host:port\": %.*s", width, text.data);
        return E_INVAL;
    }
    if (!u.unix_socket && u.path.len > 0) {
        errmsg_set(em, "URL must not contain a path: %.*s", width, text.data);
        return E_INVAL;
    }
    *out = u;
    return 0;
}

struct bytes url_unix_path(const struct url *u)
{
    ASSERT(u->unix_socket);
    return u->authority.len == 0 ? u->path
                                 : bytes_of(u->authority.data, u->authority.len + u->path.len);
}
