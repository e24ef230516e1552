/* Hex and base64. */
#include "base/err.h"
#include "base/text.h"

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int text_put_hex(struct buf *b, struct bytes s)
{
    static const char digits[] = "0123456789abcdef";
    if (s.len > SIZE_MAX / 2) return E_TOOBIG;
    int rc = buf_reserve(b, 2 * s.len);
    if (rc < 0) return rc;
    for (size_t i = 0; i < s.len; i++) {
        b->data[b->len++] = (uint8_t)digits[s.data[i] >> 4];
        b->data[b->len++] = (uint8_t)digits[s.data[i] & 15];
    }
    return 0;
}

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

int text_get_hex(struct buf *b, struct bytes text)
{
    if (text.len % 2 != 0) return E_INVAL;
    int rc = buf_reserve(b, text.len / 2);
    if (rc < 0) return rc;
    size_t start = b->len;
    for (size_t i = 0; i < text.len; i += 2) {
        int high = hex_value(text.data[i]);
        int low = hex_value(text.data[i + 1]);
        if (high < 0 || low < 0) {
            b->len = start;
            return E_INVAL;
        }
        b->data[b->len++] = (uint8_t)(high << 4 | low);
    }
    return 0;
}

int text_put_base64(struct buf *b, struct bytes s)
{
    if (s.len > SIZE_MAX / 4) return E_TOOBIG;
    int rc = buf_reserve(b, (s.len + 2) / 3 * 4);
    if (rc < 0) return rc;
    for (size_t i = 0; i < s.len; i += 3) {
        size_t n = s.len - i < 3 ? s.len - i : 3;
        uint32_t v = (uint32_t)s.data[i] << 16;
        if (n > 1) v |= (uint32_t)s.data[i + 1] << 8;
        if (n > 2) v |= s.data[i + 2];
        b->data[b->len++] = (uint8_t)base64_digits[v >> 18];
        b->data[b->len++] = (uint8_t)base64_digits[v >> 12 & 63];
        b->data[b->len++] = (uint8_t)(n > 1 ? base64_digits[v >> 6 & 63] : '=');
        b->data[b->len++] = (uint8_t)(n > 2 ? base64_digits[v & 63] : '=');
    }
    return 0;
}

static int base64_value(uint8_t c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}

/* Takes one group of four digits that start at text[*at], line ends left out; `digits` gets how
 * many were no padding. 0 digits at the end of the text. */
static int base64_group(struct bytes text, size_t *at, uint32_t *value, size_t *digits)
{
    size_t seen = 0;
    *digits = 0;
    *value = 0;
    for (; *at < text.len && seen < 4; ++*at) {
        uint8_t c = text.data[*at];
        if (c == '\r' || c == '\n') continue;
        seen++;
        *value <<= 6;
        if (c == '=') {
            if (seen < 3) return E_INVAL;
            continue;
        }
        int v = base64_value(c);
        if (v < 0 || *digits + 1 != seen) return E_INVAL;
        *value |= (uint32_t)v;
        ++*digits;
    }
    return seen == 0 || seen == 4 ? 0 : E_INVAL;
}

int text_get_base64(struct buf *b, struct bytes text)
{
    int rc = buf_reserve(b, text.len / 4 * 3);
    if (rc < 0) return rc;
    size_t start = b->len;
    bool ended = false; /* a padded group is the last */
    for (size_t at = 0; at < text.len;) {
        uint32_t v = 0;
        size_t digits = 0;
        rc = base64_group(text, &at, &v, &digits);
        if (rc == 0 && digits > 0 && ended) rc = E_INVAL;
        if (rc < 0) break;
        if (digits > 1) b->data[b->len++] = (uint8_t)(v >> 16);
        if (digits > 2) b->data[b->len++] = (uint8_t)(v >> 8);
        if (digits > 3) b->data[b->len++] = (uint8_t)v;
        ended = digits < 4;
    }
    if (rc < 0) b->len = start;
    return rc;
}
