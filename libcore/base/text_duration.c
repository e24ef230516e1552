/* Durations as Go's time package reads and writes them: nanoseconds in 64 bits, "1h2m3.5s". */
#include <stdio.h>

#include "base/err.h"
#include "base/text.h"

static const uint64_t duration_limit = (uint64_t)1
                                       << 63; /* the magnitude of the smallest duration */

struct unit {
    const char *name;
    uint64_t ns;
};

static const struct unit units[] = {
    {"ns", 1},           {"us", 1000},      {"\xc2\xb5s", 1000}, /* U+00B5, micro */
    {"\xce\xbcs", 1000},                                         /* U+03BC, mu */
    {"ms", 1000000},     {"s", 1000000000}, {"m", 60000000000},  {"h", 3600000000000},
};

/* --- error texts ------------------------------------------------------------------------------ */

/* The quoting of Go's time package: like strconv's, but all that is not plain ASCII as \xHH. Cut,
 * with its closing quote, when it does not fit. */
static const char *quote(struct bytes s, char *out, size_t out_bytes)
{
    size_t at = 0;
    out[at++] = '"';
    for (size_t i = 0; i < s.len && at + 6 < out_bytes; i++) {
        uint8_t c = s.data[i];
        if (c < ' ' || c >= 0x80) {
            at += (size_t)snprintf(out + at, out_bytes - at, "\\x%02x", c);
            continue;
        }
        if (c == '"' || c == '\\') out[at++] = '\\';
        out[at++] = (char)c;
    }
    out[at++] = '"';
    out[at] = 0;
    return out;
}

enum { QUOTE_BYTES = 400 };

static int bad(struct errmsg *em, const char *what, struct bytes text)
{
    char q[QUOTE_BYTES];
    errmsg_set(em, "time: %s duration %s", what, quote(text, q, sizeof q));
    return E_INVAL;
}

static int bad_unit(struct errmsg *em, struct bytes unit, struct bytes text)
{
    char qu[QUOTE_BYTES];
    char qt[QUOTE_BYTES];
    errmsg_set(em, "time: unknown unit %s in duration %s", quote(unit, qu, sizeof qu),
               quote(text, qt, sizeof qt));
    return E_INVAL;
}

/* --- parsing ---------------------------------------------------------------------------------- */

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* Digits up to 2^63; false on overflow. */
static bool take_int(struct bytes s, size_t *at, uint64_t *out)
{
    uint64_t x = 0;
    for (; *at < s.len && is_digit(s.data[*at]); ++*at) {
        if (x > duration_limit / 10) return false;
        x = x * 10 + (s.data[*at] - (unsigned)'0');
        if (x > duration_limit) return false;
    }
    *out = x;
    return true;
}

/* Digits of a fraction; those that no longer matter are passed over. */
static void take_fraction(struct bytes s, size_t *at, uint64_t *out, double *scale)
{
    uint64_t x = 0;
    bool full = false;
    *scale = 1;
    for (; *at < s.len && is_digit(s.data[*at]); ++*at) {
        if (full) continue;
        full = x > (duration_limit - 1) / 10;
        uint64_t y = full ? 0 : x * 10 + (s.data[*at] - (unsigned)'0');
        if (full || y > duration_limit) {
            full = true;
            continue;
        }
        x = y;
        *scale *= 10;
    }
    *out = x;
}

static struct bytes take_unit(struct bytes s, size_t *at)
{
    size_t start = *at;
    while (*at < s.len && s.data[*at] != '.' && !is_digit(s.data[*at])) {
        ++*at;
    }
    return bytes_of(s.data + start, *at - start);
}

static const struct unit *unit_find(struct bytes name)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (bytes_eq(name, bytes_str(units[i].name))) return &units[i];
    }
    return NULL;
}

/* One number with its unit, from text[*at] on. */
static int take_part(struct bytes text, size_t *at, uint64_t *out, struct errmsg *em)
{
    uint64_t whole = 0;
    uint64_t fraction = 0;
    double scale = 1;
    size_t start = *at;
    if (!take_int(text, at, &whole)) return bad(em, "invalid", text);
    size_t digits = *at - start;
    if (*at < text.len && text.data[*at] == '.') {
        start = ++*at;
        take_fraction(text, at, &fraction, &scale);
        digits += *at - start;
    }
    if (digits == 0) return bad(em, "invalid", text);
    struct bytes name = take_unit(text, at);
    if (name.len == 0) return bad(em, "missing unit in", text);
    const struct unit *unit = unit_find(name);
    if (unit == NULL) return bad_unit(em, name, text);
    if (whole > duration_limit / unit->ns) return bad(em, "invalid", text);
    uint64_t ns = whole * unit->ns;
    if (fraction > 0) ns += (uint64_t)((double)fraction * ((double)unit->ns / scale));
    if (ns > duration_limit) return bad(em, "invalid", text);
    *out = ns;
    return 0;
}

int text_parse_duration(struct bytes text, int64_t *out_ns, struct errmsg *em)
{
    size_t at = 0;
    bool negative = text.len > 0 && text.data[0] == '-';
    if (negative || (text.len > 0 && text.data[0] == '+')) at = 1;
    if (text.len - at == 1 && text.data[at] == '0') {
        *out_ns = 0;
        return 0;
    }
    if (text.len == at) return bad(em, "invalid", text);
    uint64_t sum = 0;
    while (at < text.len) {
        uint64_t part = 0;
        int rc = take_part(text, &at, &part, em);
        if (rc < 0) return rc;
        sum += part;
        if (sum > duration_limit) return bad(em, "invalid", text);
    }
    if (!negative && sum == duration_limit) return bad(em, "invalid", text);
    *out_ns = negative ? (int64_t)(0 - sum) : (int64_t)sum;
    return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Writes v / 10^decimals from right to left before out[at], without trailing zeros of the fraction;
 * `*v` becomes the whole part. Returns the new start. */
static size_t put_fraction(char *out, size_t at, uint64_t *v, unsigned decimals)
{
    bool print = false;
    for (unsigned i = 0; i < decimals; i++) {
        unsigned digit = (unsigned)(*v % 10);
        print = print || digit != 0;
        if (print) out[--at] = (char)('0' + digit);
        *v /= 10;
    }
    if (print) out[--at] = '.';
    return at;
}

static size_t put_whole(char *out, size_t at, uint64_t v)
{
    do {
        out[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    return at;
}

/* Below a second: one number in the unit that leaves no leading zero. */
static size_t put_small(char *out, size_t at, uint64_t ns)
{
    out[--at] = 's';
    if (ns == 0) return put_whole(out, at, 0);
    unsigned decimals = ns < 1000 ? 0 : ns < 1000000 ? 3 : 6;
    if (decimals == 0) {
        out[--at] = 'n';
    } else if (decimals == 3) {
        out[--at] = '\xb5';
        out[--at] = '\xc2';
    } else {
        out[--at] = 'm';
    }
    at = put_fraction(out, at, &ns, decimals);
    return put_whole(out, at, ns);
}

static size_t put_large(char *out, size_t at, uint64_t ns)
{
    out[--at] = 's';
    at = put_fraction(out, at, &ns, 9); /* leaves seconds */
    at = put_whole(out, at, ns % 60);
    uint64_t minutes = ns / 60;
    if (minutes == 0) return at;
    out[--at] = 'm';
    at = put_whole(out, at, minutes % 60);
    if (minutes < 60) return at;
    out[--at] = 'h';
    return put_whole(out, at, minutes / 60);
}

size_t text_duration(int64_t ns, char out[TEXT_DURATION_BYTES_MAX])
{
    char text[TEXT_DURATION_BYTES_MAX];
    size_t at = sizeof text;
    uint64_t u = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    at = u < 1000000000 ? put_small(text, at, u) : put_large(text, at, u);
    if (ns < 0) text[--at] = '-';
    size_t len = sizeof text - at;
    memcpy(out, text + at, len);
    out[len] = 0;
    return len;
}
