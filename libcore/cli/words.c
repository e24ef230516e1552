/* Words and Go string literals in lines of text. */
#include <string.h>

#include "base/err.h"
#include "cli/txn.h"

enum { RUNE_MAX = 0x10FFFF, SURROGATE_MIN = 0xD800, SURROGATE_MAX = 0xDFFF };

/* --- escapes ---------------------------------------------------------------------------------------- */

static int digit_of(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 16;
}

/* Reads `count` digits of `base` at `*at`. */
static int read_digits(const uint8_t **at, const uint8_t *end, size_t count, uint32_t base,
                       uint32_t *out)
{
    uint32_t v = 0;
    if ((size_t)(end - *at) < count) return E_INVAL;
    for (size_t i = 0; i < count; i++) {
        uint32_t d = (uint32_t)digit_of(*(*at)++);
        if (d >= base) return E_INVAL;
        v = v * base + d;
    }
    *out = v;
    return 0;
}

static size_t write_rune(uint8_t *to, uint32_t r)
{
    if (r < 0x80) {
        to[0] = (uint8_t)r;
        return 1;
    }
    size_t n = r < 0x800 ? 2 : r < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--) {
        to[i] = (uint8_t)(0x80 | (r & 0x3f));
        r >>= 6;
    }
    to[0] = (uint8_t)((0xf00 >> n) | r);
    return n;
}

static int read_rune(const uint8_t **at, const uint8_t *end, size_t digits, uint8_t *to,
                     size_t *len)
{
    uint32_t r = 0;
    int rc = read_digits(at, end, digits, 16, &r);
    if (rc < 0) return rc;
    if (r > RUNE_MAX || (r >= SURROGATE_MIN && r <= SURROGATE_MAX)) return E_INVAL;
    *len += write_rune(to + *len, r);
    return 0;
}

/* `*at` is behind a backslash. What an escape stands for is never longer than its text. */
static int read_escape(const uint8_t **at, const uint8_t *end, uint8_t *to, size_t *len)
{
    static const char NAMES[] = "abfnrtv\\\"";
    static const char VALUES[] = "\a\b\f\n\r\t\v\\\"";
    uint32_t v = 0;
    if (*at == end) return E_INVAL;
    uint8_t c = *(*at)++;
    const char *name = c == '\0' ? NULL : strchr(NAMES, c);
    if (name != NULL) {
        to[(*len)++] = (uint8_t)VALUES[name - NAMES];
        return 0;
    }
    if (c == 'u' || c == 'U') return read_rune(at, end, c == 'u' ? 4 : 8, to, len);
    if (c != 'x') (*at)--;
    int rc = read_digits(at, end, c == 'x' ? 2 : 3, c == 'x' ? 16 : 8, &v);
    if (rc < 0 || v > 0xff) return E_INVAL;
    to[(*len)++] = (uint8_t)v;
    return 0;
}

/* --- literals ------------------------------------------------------------------------------------------ */

static int unquote_raw(struct bytes *text, struct arena *arena, struct bytes *out)
{
    const uint8_t *close = memchr(text->data + 1, '`', text->len - 1);
    if (close == NULL) return E_INVAL;
    size_t n = (size_t)(close - text->data) - 1;
    struct bytes copy = arena_copy(arena, bytes_of(text->data + 1, n));
    if (copy.data == NULL) return E_NOMEM;
    *out = copy;
    *text = bytes_of(close + 1, text->len - n - 2);
    return 0;
}

int cli_unquote(struct bytes *text, struct arena *arena, struct bytes *out)
{
    if (text->len > 0 && text->data[0] == '`') return unquote_raw(text, arena, out);
    if (text->len == 0 || text->data[0] != '"') return E_INVAL;
    const uint8_t *at = text->data + 1;
    const uint8_t *end = text->data + text->len;
    uint8_t *to = arena_new(arena, text->len + 1);
    if (to == NULL) return E_NOMEM;
    size_t len = 0;
    while (at < end && *at != '"') {
        if (*at == '\n') return E_INVAL;
        if (*at != '\\') {
            to[len++] = *at++;
            continue;
        }
        at++;
        int rc = read_escape(&at, end, to, &len);
        if (rc < 0) return rc;
    }
    if (at == end) return E_INVAL;
    to[len] = '\0';
    *out = bytes_of(to, len);
    *text = bytes_of(at + 1, (size_t)(end - at) - 1);
    return 0;
}

/* --- words --------------------------------------------------------------------------------------------- */

static bool is_blank(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r' && c != '\v');
}

/* The length of the quoted word at the start of `rest`, quotes counted; 0: its end is missing. */
static size_t quoted_length(struct bytes rest)
{
    uint8_t quote = rest.data[0];
    for (size_t i = 1; i < rest.len; i++) {
        if (rest.data[i] == quote) return i + 1;
        if (quote == '"' && rest.data[i] == '\\') i++;
    }
    return 0;
}

static size_t plain_length(struct bytes rest)
{
    size_t n = 0;
    while (n < rest.len && !is_blank(rest.data[n]))
        n++;
    return n;
}

/* Takes the word of `n` bytes at the start of `rest`. */
static int take_word(struct bytes rest, size_t n, struct arena *arena, struct bytes *out)
{
    struct bytes word = bytes_of(rest.data, n);
    if (word.data[0] == '"') return cli_unquote(&word, arena, out);
    if (word.data[0] == '\'') word = bytes_of(word.data + 1, n - 2);
    *out = arena_copy(arena, word);
    return out->data == NULL ? E_NOMEM : 0;
}

int cli_split_words(struct bytes line, struct arena *arena, struct cli_words *out)
{
    /* Words stand apart or in quotes, so there are fewer than bytes. */
    struct bytes *items = arena_new(arena, (line.len + 1) * sizeof *items);
    size_t count = 0;
    if (items == NULL) return E_NOMEM;
    while (line.len > 0) {
        size_t n = 1;
        bool quote = line.data[0] == '"' || line.data[0] == '\'';
        if (!is_blank(line.data[0])) {
            n = quote ? quoted_length(line) : plain_length(line);
            int rc = n == 0 ? 0 : take_word(line, n, arena, &items[count]);
            if (rc < 0) return rc;
            /* A quote without its partner is passed over, as upstream's pattern does. */
            if (n == 0) {
                n = 1;
            } else {
                count++;
            }
        }
        line = bytes_of(line.data + n, line.len - n);
    }
    *out = (struct cli_words){items, count};
    return 0;
}
