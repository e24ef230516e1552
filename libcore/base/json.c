/* One function takes one token; what may follow is in `state` and in the bits of `objects`. */
#include "base/json.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/text.h"

void json_init(struct json_reader *r, struct bytes text)
{
    const uint8_t *end = text.len == 0 ? text.data : text.data + text.len;
    *r = (struct json_reader){.first = text.data, .at = text.data, .end = end};
}

size_t json_offset(const struct json_reader *r)
{
    return r->at == r->first ? 0 : (size_t)(r->at - r->first);
}

static bool in_object(const struct json_reader *r)
{
    return r->depth > 0 && (r->objects >> (r->depth - 1) & 1) != 0;
}

static void skip_space(struct json_reader *r)
{
    while (r->at < r->end &&
           (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) {
        r->at++;
    }
}

/* The next byte without taking it, 0 at the end (a zero byte is no JSON either). */
static uint8_t peek(const struct json_reader *r)
{
    return r->at < r->end ? *r->at : 0;
}

/* ---- scalars -------------------------------------------------------------------------------------- */

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(uint8_t c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Takes the escape behind a backslash. */
static int take_escape(struct json_reader *r)
{
    uint8_t c = peek(r);
    if (c == 0 || strchr("\"\\/bfnrtu", c) == NULL) return E_INVAL;
    r->at++;
    for (int i = 0; c == 'u' && i < 4; i++) {
        if (!is_hex(peek(r))) return E_INVAL;
        r->at++;
    }
    return 0;
}

static int take_string(struct json_reader *r, struct bytes *out)
{
    if (peek(r) != '"') return E_INVAL;
    const uint8_t *first = ++r->at;
    while (r->at < r->end && *r->at != '"') {
        uint8_t c = *r->at++;
        if (c < 0x20) return E_INVAL;
        if (c == '\\' && take_escape(r) < 0) return E_INVAL;
    }
    if (r->at == r->end) return E_INVAL;
    *out = bytes_of(first, (size_t)(r->at - first));
    r->at++;
    return 0;
}

/* Takes a run of digits; false when there is none. */
static bool take_digits(struct json_reader *r)
{
    const uint8_t *first = r->at;
    while (is_digit(peek(r))) {
        r->at++;
    }
    return r->at > first;
}

static int take_number(struct json_reader *r, struct json_token *out)
{
    const uint8_t *first = r->at;
    if (peek(r) == '-') r->at++;
    if (peek(r) == '0') {
        r->at++;
    } else if (!take_digits(r)) {
        return E_INVAL;
    }
    if (peek(r) == '.') {
        r->at++;
        if (!take_digits(r)) return E_INVAL;
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        r->at++;
        if (peek(r) == '+' || peek(r) == '-') r->at++;
        if (!take_digits(r)) return E_INVAL;
    }
    *out =
        (struct json_token){.kind = JSON_NUMBER, .text = bytes_of(first, (size_t)(r->at - first))};
    return 0;
}

static int take_word(struct json_reader *r, struct json_token *out)
{
    static const struct {
        const char *word;
        enum json_kind kind;
        bool truth;
    } words[] = {
        {"null", JSON_NULL, false}, {"true", JSON_BOOL, true}, {"false", JSON_BOOL, false}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct bytes word = bytes_str(words[i].word);
        if ((size_t)(r->end - r->at) < word.len || memcmp(r->at, word.data, word.len) != 0)
            continue;
        r->at += word.len;
        *out = (struct json_token){.kind = words[i].kind, .truth = words[i].truth};
        return 0;
    }
    return E_INVAL;
}

/* ---- structure ------------------------------------------------------------------------------------ */

static int open_nest(struct json_reader *r, bool object, struct json_token *out)
{
    if (r->depth == JSON_DEPTH_MAX) return E_TOOBIG;
    r->at++;
    uint64_t bit = (uint64_t)1 << r->depth;
    r->objects = object ? r->objects | bit : r->objects & ~bit;
    r->depth++;
    r->state = JSON_AT_FIRST;
    *out = (struct json_token){.kind = object ? JSON_OBJECT : JSON_ARRAY};
    return 0;
}

static int close_nest(struct json_reader *r, struct json_token *out)
{
    ASSERT(r->depth > 0);
    *out = (struct json_token){.kind = in_object(r) ? JSON_OBJECT_END : JSON_ARRAY_END};
    r->at++;
    r->depth--;
    r->state = JSON_BEHIND_VALUE;
    return 0;
}

static int take_value(struct json_reader *r, struct json_token *out)
{
    uint8_t c = peek(r);
    if (c == '{' || c == '[') return open_nest(r, c == '{', out);
    r->state = JSON_BEHIND_VALUE;
    if (c == '"') {
        *out = (struct json_token){.kind = JSON_STRING};
        return take_string(r, &out->text);
    }
    return c == '-' || is_digit(c) ? take_number(r, out) : take_word(r, out);
}

static int take_key(struct json_reader *r, struct json_token *out)
{
    *out = (struct json_token){.kind = JSON_KEY};
    if (take_string(r, &out->text) < 0) return E_INVAL;
    skip_space(r);
    if (peek(r) != ':') return E_INVAL;
    r->at++;
    r->state = JSON_AT_KEY_VALUE;
    return 0;
}

int json_next(struct json_reader *r, struct json_token *out)
{
    skip_space(r);
    bool closes = peek(r) == (in_object(r) ? '}' : ']');
    if (r->state == JSON_BEHIND_VALUE) {
        if (r->depth == 0) {
            *out = (struct json_token){.kind = JSON_END};
            return r->at == r->end ? 0 : E_INVAL;
        }
        if (closes) return close_nest(r, out);
        if (peek(r) != ',') return E_INVAL;
        r->at++;
        skip_space(r);
        r->state = JSON_AT_VALUE;
    } else if (r->state == JSON_AT_FIRST && closes) {
        return close_nest(r, out);
    }
    return in_object(r) && r->state != JSON_AT_KEY_VALUE ? take_key(r, out) : take_value(r, out);
}

int json_skip(struct json_reader *r, const struct json_token *token)
{
    if (token->kind != JSON_ARRAY && token->kind != JSON_OBJECT) return 0;
    unsigned outside = r->depth - 1;
    while (r->depth > outside) {
        struct json_token inner;
        int rc = json_next(r, &inner);
        if (rc < 0) return rc;
    }
    return 0;
}

/* ---- what tokens mean ----------------------------------------------------------------------------- */

static int put_rune(struct buf *out, uint32_t rune)
{
    uint8_t text[4];
    size_t n = 0;
    if (rune < 0x80) {
        text[n++] = (uint8_t)rune;
    } else if (rune < 0x800) {
        text[n++] = (uint8_t)(0xc0 | rune >> 6);
    } else if (rune < 0x10000) {
        text[n++] = (uint8_t)(0xe0 | rune >> 12);
        text[n++] = (uint8_t)(0x80 | (rune >> 6 & 0x3f));
    } else {
        text[n++] = (uint8_t)(0xf0 | rune >> 18);
        text[n++] = (uint8_t)(0x80 | (rune >> 12 & 0x3f));
        text[n++] = (uint8_t)(0x80 | (rune >> 6 & 0x3f));
    }
    if (rune >= 0x80) text[n++] = (uint8_t)(0x80 | (rune & 0x3f));
    return buf_put(out, text, n);
}

/* The four digits of \uXXXX at `at`, or 0 when that is not what is there. */
static uint32_t unicode_escape(struct bytes text, size_t at)
{
    if (text.len - at < 6 || text.data[at] != '\\' || text.data[at + 1] != 'u') return 0;
    uint32_t v = 0;
    for (size_t i = at + 2; i < at + 6; i++) {
        uint8_t c = text.data[i];
        v = v << 4 | (is_digit(c) ? c - (uint32_t)'0' : (c | 0x20u) - 'a' + 10);
    }
    return v;
}

/* Appends the escape at `*at` and moves behind it. */
static int put_escape(struct buf *out, struct bytes text, size_t *at)
{
    static const char letters[] = "bfnrt";
    static const char controls[] = "\b\f\n\r\t";
    uint8_t c = text.data[*at + 1];
    if (c != 'u') {
        const char *letter = strchr(letters, c);
        *at += 2;
        return buf_put_u8(out, letter == NULL ? c : (uint8_t)controls[letter - letters]);
    }
    uint32_t rune = unicode_escape(text, *at);
    *at += 6;
    if (rune < 0xd800 || rune > 0xdfff) return put_rune(out, rune);
    uint32_t low = *at < text.len ? unicode_escape(text, *at) : 0;
    if (rune > 0xdbff || low < 0xdc00 || low > 0xdfff) return put_rune(out, TEXT_RUNE_BAD);
    *at += 6;
    return put_rune(out, 0x10000 + ((rune - 0xd800) << 10 | (low - 0xdc00)));
}

int json_unquote(struct bytes text, struct buf *out)
{
    size_t len = out->len;
    int rc = 0;
    for (size_t at = 0; at < text.len && rc == 0;) {
        if (text.data[at] == '\\') {
            rc = put_escape(out, text, &at);
            continue;
        }
        size_t size = 0;
        rc = put_rune(out, text_rune(bytes_of(text.data + at, text.len - at), &size));
        at += size;
    }
    if (rc < 0) out->len = len;
    return rc;
}

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + ('a' - 'A')) : c;
}

bool json_key_is(const struct json_token *key, const char *name)
{
    struct bytes want = bytes_str(name);
    if (key->kind != JSON_KEY || key->text.len != want.len) return false;
    for (size_t i = 0; i < want.len; i++) {
        if (lower(key->text.data[i]) != lower(want.data[i])) return false;
    }
    return true;
}

int json_uint(const struct json_token *token, uint64_t *out)
{
    if (token->kind != JSON_NUMBER) return E_INVAL;
    return text_parse_uint(token->text, 10, out, NULL);
}
