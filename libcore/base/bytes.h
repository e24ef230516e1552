/* A borrowed span of bytes: the way byte strings are passed everywhere.
 *
 * A span owns nothing. Who hands one out says how long it stays valid. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const uint8_t *data; /* may be NULL when len is 0 */
    size_t len;          /* in bytes */
};

#define BYTES_EMPTY ((struct bytes){NULL, 0})

static inline struct bytes bytes_of(const void *data, size_t len)
{
    return (struct bytes){(const uint8_t *)data, len};
}

/* The span of a C string, without its terminating zero. */
static inline struct bytes bytes_str(const char *text)
{
    return bytes_of(text, strlen(text));
}

/* Orders as etcd orders keys: byte by byte, unsigned; a prefix comes first. */
static inline int bytes_cmp(struct bytes a, struct bytes b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n == 0 ? 0 : memcmp(a.data, b.data, n);
    if (c != 0) return c;
    return (a.len > b.len) - (a.len < b.len);
}

static inline bool bytes_eq(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

#endif
