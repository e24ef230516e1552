/* URLs as etcd's flags and member lists use them: scheme, host, port, nothing behind.
 *
 * RFC 3986 is read only as far as these need; spans borrow from the text. */
#ifndef BASE_URL_H
#define BASE_URL_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/errmsg.h"

struct url {
    struct bytes scheme;
    struct bytes
        host; /* without brackets of IPv6; for unix schemes host:port or the path is the file name */
    struct bytes port;      /* decimal digits; empty when absent */
    struct bytes authority; /* host:port as written */
    struct bytes path;      /* "" or with its leading slash */
    bool unix_socket;       /* scheme is unix or unixs */
};

/* Splits `text` and demands what upstream's list flags demand: a scheme of http, https, unix, unixs; for http(s) a
 * port and no path. Blanks around are not taken.
 * Errors: E_INVAL with upstream's words in `em` (server-flags.tsv, "each item"). */
int url_parse(struct url *out, struct bytes text, struct errmsg *em);

/* The file name of a unix URL: "unix://a:1" is "a:1", "unix:///x/y" is "/x/y". */
struct bytes url_unix_path(const struct url *u);

#endif
