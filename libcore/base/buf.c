/* Growth doubles, within the bound; a failure changes nothing. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/err.h"

enum { BUF_CAP_MIN = 64 };

void buf_init(struct buf *b, const struct alloc *alloc, size_t bytes_max)
{
    ASSERT(alloc != NULL);
    *b = (struct buf){.alloc = alloc, .bytes_max = bytes_max};
}

void buf_deinit(struct buf *b)
{
    if (b->data != NULL) alloc_free(b->alloc, b->data, b->cap);
    *b = BUF_EMPTY;
}

int buf_reserve(struct buf *b, size_t more)
{
    ASSERT(b->alloc != NULL);
    ASSERT(b->len <= b->cap);
    if (more <= b->cap - b->len) return 0;
    if (b->bytes_max < b->len || more > b->bytes_max - b->len) return E_TOOBIG;
    size_t want = b->len + more;
    size_t cap = b->cap > b->bytes_max / 2 ? b->bytes_max : 2 * b->cap;
    if (cap < BUF_CAP_MIN) cap = b->bytes_max < BUF_CAP_MIN ? b->bytes_max : BUF_CAP_MIN;
    if (cap < want) cap = want;
    uint8_t *data = b->alloc->resize(b->alloc->arg, b->data, b->cap, cap);
    if (data == NULL) return E_NOMEM;
    b->data = data;
    b->cap = cap;
    return 0;
}

int buf_put(struct buf *b, const void *data, size_t len)
{
    int rc = buf_reserve(b, len);
    if (rc < 0) return rc;
    if (len > 0) memcpy(b->data + b->len, data, len);
    b->len += len;
    return 0;
}

int buf_put_bytes(struct buf *b, struct bytes s)
{
    return buf_put(b, s.data, s.len);
}

int buf_put_u8(struct buf *b, uint8_t v)
{
    return buf_put(b, &v, 1);
}

int buf_put_str(struct buf *b, const char *text)
{
    return buf_put(b, text, strlen(text));
}

/* Short texts, nearly all, are printed once and copied. A longer one is printed again in place,
 * where vsnprintf's terminating zero needs one byte of room more than is kept. */
int buf_printf(struct buf *b, const char *format, ...)
{
    char small[256];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(small, sizeof small, format, ap);
    va_end(ap);
    if (n < 0) return E_INVAL;
    size_t len = (size_t)n;
    if (len < sizeof small) return buf_put(b, small, len);
    if (b->bytes_max < SIZE_MAX && len + 1 > b->bytes_max - b->len) return E_TOOBIG;
    int rc = buf_reserve(b, len + 1);
    if (rc < 0) return rc;
    va_start(ap, format);
    (void)vsnprintf((char *)b->data + b->len, len + 1, format, ap);
    va_end(ap);
    b->len += len;
    return 0;
}

void buf_consume(struct buf *b, size_t n)
{
    ASSERT(n <= b->len);
    if (n == 0) return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
}
