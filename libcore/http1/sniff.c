/* The preface of HTTP/2 was made so that no HTTP/1 server takes it for a request (RFC 9113, 3.4); a TLS record
 * begins with its type, 22, and its major version, 3. */
#include "http1/sniff.h"

static const char PREFACE[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

_Static_assert(sizeof PREFACE - 1 == SNIFF_BYTES_MAX, "the preface is what takes longest to tell");

enum { TLS_HANDSHAKE = 22, TLS_MAJOR = 3 };

enum sniff sniff_bytes(struct bytes first)
{
    if (first.len == 0) return SNIFF_MORE;
    if (first.data[0] == TLS_HANDSHAKE) {
        if (first.len == 1) return SNIFF_MORE;
        return first.data[1] == TLS_MAJOR ? SNIFF_TLS : SNIFF_HTTP1;
    }
    size_t n = first.len < SNIFF_BYTES_MAX ? first.len : SNIFF_BYTES_MAX;
    if (memcmp(first.data, PREFACE, n) != 0) return SNIFF_HTTP1;
    return n == SNIFF_BYTES_MAX ? SNIFF_HTTP2 : SNIFF_MORE;
}
