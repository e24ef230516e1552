/* A growable byte buffer with a bound given at its birth.
 *
 * Reaching the bound or the end of memory is E_TOOBIG or E_NOMEM and leaves the buffer as it was. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/alloc.h"
#include "base/bytes.h"

struct buf {
    const struct alloc *alloc;
    uint8_t *data;
    size_t len;       /* bytes in use */
    size_t cap;       /* bytes allocated */
    size_t bytes_max; /* never grows beyond */
};

/* An empty value; deinit of it is safe, growing it is not. */
#define BUF_EMPTY ((struct buf){0})

/* Prepares an empty buffer; allocates nothing. `alloc` must outlive it. */
void buf_init(struct buf *b, const struct alloc *alloc, size_t bytes_max);
void buf_deinit(struct buf *b);

/* Makes room for `more` bytes behind len. Errors: E_TOOBIG, E_NOMEM. */
int buf_reserve(struct buf *b, size_t more);

/* Appends. Errors as buf_reserve(). */
int buf_put(struct buf *b, const void *data, size_t len);
int buf_put_bytes(struct buf *b, struct bytes s);
int buf_put_u8(struct buf *b, uint8_t v);
int buf_put_str(struct buf *b, const char *text);
int buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drops the first `n` <= len bytes. */
void buf_consume(struct buf *b, size_t n);

/* Empty again; the memory is kept. */
static inline void buf_reset(struct buf *b)
{
    b->len = 0;
}

static inline struct bytes buf_bytes(const struct buf *b)
{
    return bytes_of(b->data, b->len);
}

#endif
