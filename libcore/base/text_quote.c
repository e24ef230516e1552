/* Quoted strings as Go's strconv, encoding/json and zap write them. */
#include "base/text.h"

#include "base/err.h"
#include "base/text_print_table.h"

/* --- runes ------------------------------------------------------------------------------------ */

static bool is_continuation(uint8_t c)
{
    return (c & 0xC0U) == 0x80;
}

/* The number of bytes a leading byte announces, 0 for none, and its payload bits. */
static size_t rune_size(uint8_t lead, uint32_t *bits)
{
    if (lead >= 0xC2 && lead <= 0xDF) {
        *bits = lead & 0x1FU;
        return 2;
    }
    if (lead >= 0xE0 && lead <= 0xEF) {
        *bits = lead & 0x0FU;
        return 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        *bits = lead & 0x07U;
        return 4;
    }
    return 0;
}

uint32_t text_rune(struct bytes s, size_t *size)
{
    static const uint32_t rune_min[5] = {0, 0, 0x80, 0x800, 0x10000};
    *size = 1;
    if (s.data[0] < 0x80) return s.data[0];
    uint32_t rune = 0;
    size_t n = rune_size(s.data[0], &rune);
    if (n == 0 || n > s.len) return TEXT_RUNE_BAD;
    for (size_t i = 1; i < n; i++) {
        if (!is_continuation(s.data[i])) return TEXT_RUNE_BAD;
        rune = rune << 6 | (s.data[i] & 0x3FU);
    }
    bool surrogate = rune >= 0xD800 && rune <= 0xDFFF;
    if (rune < rune_min[n] || rune > 0x10FFFF || surrogate) return TEXT_RUNE_BAD;
    *size = n;
    return rune;
}

bool text_rune_printable(uint32_t rune)
{
    size_t low = 0;
    size_t high = sizeof text_printable / sizeof *text_printable;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (rune > text_printable[mid].last) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < sizeof text_printable / sizeof *text_printable &&
           rune >= text_printable[low].first;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* The letter behind the backslash for the control characters that have one in Go, else 0. */
static char control_letter(uint32_t rune)
{
    static const char letters[] = "abtnvfr"; /* from 0x07 on */
    return rune >= 0x07 && rune <= 0x0D ? letters[rune - 0x07] : 0;
}

static int put_escape(struct buf *b, char letter)
{
    char text[2] = {'\\', letter};
    return buf_put(b, text, sizeof text);
}

/* One rune of strconv.Quote; `raw` are its bytes. */
static int put_quoted_rune(struct buf *b, uint32_t rune, struct bytes raw)
{
    if (rune == TEXT_RUNE_BAD && raw.len == 1) return buf_printf(b, "\\x%02x", raw.data[0]);
    if (rune == '"' || rune == '\\') return put_escape(b, (char)rune);
    if (text_rune_printable(rune)) return buf_put_bytes(b, raw);
    char letter = control_letter(rune);
    if (letter != 0) return put_escape(b, letter);
    if (rune < ' ' || rune == 0x7F) return buf_printf(b, "\\x%02x", (unsigned)rune);
    return buf_printf(b, rune < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)rune);
}

typedef int (*put_rune_fn)(struct buf *b, uint32_t rune, struct bytes raw);

/* Quotes around all runes of `s`; a failure takes back what was put. */
static int put_string(struct buf *b, struct bytes s, put_rune_fn put_rune)
{
    size_t start = b->len;
    int rc = buf_put_u8(b, '"');
    for (size_t at = 0; at < s.len && rc == 0;) {
        struct bytes rest = bytes_of(s.data + at, s.len - at);
        size_t size = 0;
        uint32_t rune = text_rune(rest, &size);
        rc = put_rune(b, rune, bytes_of(rest.data, size));
        at += size;
    }
    if (rc == 0) rc = buf_put_u8(b, '"');
    if (rc < 0) b->len = start;
    return rc;
}

int text_put_quoted(struct buf *b, struct bytes s)
{
    return put_string(b, s, put_quoted_rune);
}

/* What zap writes: the control characters with a letter are \n \r \t only. */
static int put_plain_rune(struct buf *b, uint32_t rune, struct bytes raw)
{
    if (rune == TEXT_RUNE_BAD && raw.len == 1) return buf_put_str(b, "\\ufffd");
    if (rune == '"' || rune == '\\') return put_escape(b, (char)rune);
    if (rune >= ' ') return buf_put_bytes(b, raw);
    if (rune == '\n') return put_escape(b, 'n');
    if (rune == '\r') return put_escape(b, 'r');
    if (rune == '\t') return put_escape(b, 't');
    return buf_printf(b, "\\u%04x", (unsigned)rune);
}

/* What encoding/json writes: \b and \f have letters too, and what HTML or JavaScript would trip
 * over is escaped. */
static int put_json_rune(struct buf *b, uint32_t rune, struct bytes raw)
{
    bool html = rune == '<' || rune == '>' || rune == '&' || rune == 0x2028 || rune == 0x2029;
    if (html) return buf_printf(b, "\\u%04x", (unsigned)rune);
    if (rune == '\b') return put_escape(b, 'b');
    if (rune == '\f') return put_escape(b, 'f');
    return put_plain_rune(b, rune, raw);
}

int text_put_json(struct buf *b, struct bytes s)
{
    return put_string(b, s, put_json_rune);
}

int text_put_json_plain(struct buf *b, struct bytes s)
{
    return put_string(b, s, put_plain_rune);
}
