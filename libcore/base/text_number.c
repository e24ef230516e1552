/* Integers and truth values as Go's strconv reads them, with its error texts. */
#include "base/assert.h"
#include "base/err.h"
#include "base/text.h"
#include "base/text_int.h"

/* Grants one block of fixed size and never moves it. */
static void *fixed_resize(void *arg, void *old, size_t old_bytes, size_t new_bytes)
{
    struct text__quote *q = arg;
    (void)old;
    (void)old_bytes;
    return new_bytes > 0 && new_bytes <= sizeof q->text ? q->text : NULL;
}

const char *text__quote_go(struct text__quote *q, struct bytes s)
{
    struct alloc fixed = {.resize = fixed_resize, .arg = q};
    struct buf b;
    buf_init(&b, &fixed, sizeof q->text - 1);
    q->text[0] = 0;
    if (text_put_quoted(&b, s) < 0) return "\"...\"";
    q->text[b.len] = 0;
    return q->text;
}

static int bad(struct errmsg *em, const char *function, struct bytes text, const char *why)
{
    struct text__quote q;
    errmsg_set(em, "strconv.%s: parsing %s: %s", function, text__quote_go(&q, text), why);
    return E_INVAL;
}

static const char out_of_range[] = "value out of range";
static const char bad_syntax[] = "invalid syntax";

static uint8_t lower(uint8_t c)
{
    return c | ('x' - 'X');
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* The base that a prefix names (10 without one); `*skip` bytes are the prefix. A lone 0 is octal
 * without digits. */
static unsigned prefix_base(struct bytes s, size_t *skip)
{
    *skip = 0;
    if (s.data[0] != '0') return 10;
    *skip = 2;
    if (s.len >= 3 && lower(s.data[1]) == 'b') return 2;
    if (s.len >= 3 && lower(s.data[1]) == 'o') return 8;
    if (s.len >= 3 && lower(s.data[1]) == 'x') return 16;
    *skip = 1;
    return 8;
}

/* What underscores_ok() sees: a digit of any base it may meet, an underscore, anything else. */
static char underscore_kind(uint8_t c, bool hex)
{
    if (is_digit(c)) return '0';
    if (hex && lower(c) >= 'a' && lower(c) <= 'f') return '0';
    return c == '_' ? '_' : '!';
}

static bool names_base(uint8_t c)
{
    return lower(c) == 'b' || lower(c) == 'o' || lower(c) == 'x';
}

/* Whether underscores stand between digits (or behind a base prefix) only. `s` may have a sign. */
static bool underscores_ok(struct bytes s)
{
    size_t i = s.len >= 1 && (s.data[0] == '-' || s.data[0] == '+') ? 1 : 0;
    char saw = '^';
    bool hex = false;
    if (s.len >= i + 2 && s.data[i] == '0' && names_base(s.data[i + 1])) {
        hex = lower(s.data[i + 1]) == 'x';
        i += 2;
        saw = '0'; /* the prefix counts as a digit */
    }
    for (; i < s.len; i++) {
        char now = underscore_kind(s.data[i], hex);
        if (now == '_' && saw != '0') return false;
        if (now == '!' && saw == '_') return false;
        saw = now;
    }
    return saw != '_';
}

/* The value of a digit in any base up to 36; 255 for what is none. */
static unsigned digit_value(uint8_t c)
{
    if (is_digit(c)) return c - (unsigned)'0';
    if (lower(c) >= 'a' && lower(c) <= 'z') return lower(c) - (unsigned)'a' + 10;
    return 255;
}

/* NULL, or why `s` is no number. */
static const char *parse_digits(struct bytes s, unsigned base, uint64_t *out)
{
    bool prefixes = base == 0;
    bool underscores = false;
    size_t i = 0;
    if (s.len == 0) return bad_syntax;
    if (prefixes) base = prefix_base(s, &i);
    uint64_t n = 0;
    for (; i < s.len; i++) {
        if (s.data[i] == '_' && prefixes) {
            underscores = true;
            continue;
        }
        unsigned d = digit_value(s.data[i]);
        if (d >= base) return bad_syntax;
        if (n > UINT64_MAX / base || n * base > UINT64_MAX - d) return out_of_range;
        n = n * base + d;
    }
    if (underscores && !underscores_ok(s)) return bad_syntax;
    *out = n;
    return NULL;
}

int text_parse_uint(struct bytes text, unsigned base, uint64_t *out, struct errmsg *em)
{
    ASSERT(base == 0 || (base >= 2 && base <= 36));
    const char *why = parse_digits(text, base, out);
    return why == NULL ? 0 : bad(em, "ParseUint", text, why);
}

int text_parse_int(struct bytes text, unsigned base, int64_t *out, struct errmsg *em)
{
    ASSERT(base == 0 || (base >= 2 && base <= 36));
    struct bytes digits = text;
    bool negative = text.len > 0 && text.data[0] == '-';
    if (negative || (text.len > 0 && text.data[0] == '+')) {
        digits = bytes_of(text.data + 1, text.len - 1);
    }
    uint64_t n = 0;
    const char *why = parse_digits(digits, base, &n);
    if (why == NULL && n > (uint64_t)INT64_MAX + negative) why = out_of_range;
    if (why != NULL) return bad(em, "ParseInt", text, why);
    *out = negative ? (int64_t)(0 - n) : (int64_t)n;
    return 0;
}

int text_parse_bool(struct bytes text, bool *out, struct errmsg *em)
{
    static const char *const words[2][6] = {{"0", "f", "F", "FALSE", "false", "False"},
                                            {"1", "t", "T", "TRUE", "true", "True"}};
    for (size_t i = 0; i < 12; i++) {
        if (!bytes_eq(text, bytes_str(words[i / 6][i % 6]))) continue;
        *out = i / 6 == 1;
        return 0;
    }
    return bad(em, "ParseBool", text, bad_syntax);
}
