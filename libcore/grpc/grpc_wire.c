/* The small text forms of gRPC over HTTP/2: timeouts, percent-encoded messages, content types.
 *
 * They follow grpc-go 1.82 where its texts reach clients. */
#include "grpc/grpc_int.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/errmsg.h"
#include "base/text.h"

enum { TIMEOUT_DIGITS_MAX = 8 };

static const struct unit {
    char letter;
    uint64_t ns;
} UNITS[] = {
    {'n', 1},          {'u', 1000},         {'m', 1000000},
    {'S', 1000000000}, {'M', 60000000000U}, {'H', 3600000000000U},
};
enum { UNIT_COUNT = sizeof UNITS / sizeof *UNITS };

/* Sets `em` to the words around the text, quoted as Go's %q does. */
static void say_quoted(struct errmsg *em, const char *before, struct bytes text, const char *after)
{
    char room[512];
    size_t n = 0;
    for (size_t i = 0; i < text.len && n + 5 < sizeof room; i++) {
        uint8_t c = text.data[i];
        if (c == '"' || c == '\\') room[n++] = '\\';
        if (c >= 0x20 && c < 0x7f) {
            room[n++] = (char)c;
        } else {
            n += (size_t)snprintf(room + n, 5, "\\x%02x", c);
        }
    }
    errmsg_set(em, "%s\"%.*s\"%s", before, (int)n, room, after);
}

static const struct unit *unit_find(char letter)
{
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        if (UNITS[i].letter == letter) return &UNITS[i];
    }
    return NULL;
}

int grpc__timeout_parse(struct bytes text, uint64_t *out_ns, struct errmsg *em)
{
    if (text.len < 2) {
        say_quoted(em, "transport: timeout string is too short: ", text, "");
        return E_INVAL;
    }
    if (text.len > TIMEOUT_DIGITS_MAX + 1) {
        say_quoted(em, "transport: timeout string is too long: ", text, "");
        return E_INVAL;
    }
    const struct unit *unit = unit_find((char)text.data[text.len - 1]);
    if (unit == NULL) {
        say_quoted(em, "transport: timeout unit is not recognized: ", text, "");
        return E_INVAL;
    }
    uint64_t value = 0;
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            say_quoted(em, "strconv.ParseUint: parsing ", bytes_of(text.data, text.len - 1),
                       ": invalid syntax");
            return E_INVAL;
        }
        value = value * 10 + (uint64_t)(text.data[i] - '0');
    }
    /* Go clamps hours at the largest duration; eight digits of the other units fit. */
    bool clamp = value > INT64_MAX / unit->ns;
    *out_ns = clamp ? INT64_MAX : value * unit->ns;
    return 0;
}

size_t grpc__timeout_format(uint64_t ns, char out[16])
{
    const uint64_t value_max = 99999999;
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        uint64_t value = ns / UNITS[i].ns + (ns % UNITS[i].ns != 0);
        if (value <= value_max || i + 1 == UNIT_COUNT) {
            if (value > value_max) value = value_max;
            return (size_t)snprintf(out, 16, "%u%c", (unsigned)value, UNITS[i].letter);
        }
    }
    return 0;
}

static bool plain(uint8_t c)
{
    return c >= ' ' && c <= '~' && c != '%';
}

bool grpc__message_plain(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!plain(text.data[i])) return false;
    }
    return true;
}

static int put_percent(struct buf *b, const uint8_t *data, size_t len)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < len; i++) {
        const char three[3] = {'%', digits[data[i] >> 4], digits[data[i] & 15]};
        int rc = buf_put(b, three, sizeof three);
        if (rc < 0) return rc;
    }
    return 0;
}

int grpc__message_encode(struct buf *b, struct bytes text)
{
    int rc = 0;
    while (text.len > 0 && rc == 0) {
        size_t n = 1;
        uint32_t rune = text_rune(text, &n);
        if (n == 1 && plain(text.data[0])) {
            rc = buf_put(b, text.data, 1);
        } else if (n == 1 && rune == TEXT_RUNE_BAD) {
            rc = buf_put_str(b, "%EF%BF%BD"); /* U+FFFD */
        } else {
            rc = put_percent(b, text.data, n);
        }
        text = bytes_of(text.data + n, text.len - n);
    }
    return rc;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

int grpc__message_decode(struct buf *b, struct bytes wire)
{
    for (size_t i = 0; i < wire.len; i++) {
        uint8_t c = wire.data[i];
        if (c == '%' && i + 2 < wire.len) {
            int high = hex_digit(wire.data[i + 1]);
            int low = hex_digit(wire.data[i + 2]);
            if (high >= 0 && low >= 0) {
                c = (uint8_t)(high << 4 | low);
                i += 2;
            }
        }
        int rc = buf_put_u8(b, c);
        if (rc < 0) return rc;
    }
    return 0;
}

bool grpc__content_type(struct bytes value, struct bytes *suffix)
{
    static const char base[] = "application/grpc";
    const size_t len = sizeof base - 1;
    if (value.len < len || memcmp(value.data, base, len) != 0) return false;
    *suffix = BYTES_EMPTY;
    if (value.len == len) return true;
    if (value.data[len] != '+' && value.data[len] != ';') return false;
    *suffix = bytes_of(value.data + len + 1, value.len - len - 1);
    return true;
}

nghttp2_nv grpc__nv(const char *name, struct bytes value)
{
    /* nghttp2 takes pointers to bytes it does not change. */
    return (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name,
        .value = (uint8_t *)(uintptr_t)(value.len == 0 ? "" : (const char *)value.data),
        .namelen = strlen(name),
        .valuelen = value.len,
        .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

const char *grpc__code_text(enum grpc_code code)
{
    static const char texts[][3] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                    "9", "10", "11", "12", "13", "14", "15", "16"};
    ASSERT((size_t)code < sizeof texts / sizeof *texts);
    return texts[code];
}
