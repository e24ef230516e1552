/* Tells from a connection's first bytes which protocol it speaks. */
#ifndef HTTP1_SNIFF_H
#define HTTP1_SNIFF_H

#include "base/bytes.h"

enum sniff {
    SNIFF_MORE, /* not yet to be told */
    SNIFF_HTTP1, /* the beginning of an HTTP/1.x request line, or of anything that its parser refuses */
    SNIFF_HTTP2, /* the HTTP/2 connection preface, whole */
    SNIFF_TLS    /* a TLS handshake record */
};

/* Longest prefix that is ever needed: the 24 bytes of the HTTP/2 preface. */
enum { SNIFF_BYTES_MAX = 24 };

/* Judges the bytes so far; pure. */
enum sniff sniff_bytes(struct bytes first);

#endif
