/* A pull reader of JSON: the caller asks for one token after the other; nothing is allocated, nothing recurses.
 *
 * For the small documents that lie in rows and log entries, which Go wrote. As strict as Go's: whole input one
 * value, no trailing commas, no control characters in strings; bad UTF-8 and lone surrogates turn into U+FFFD. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

enum json_kind {
    JSON_END, /* behind the value; only space was left */
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY, /* "[" */
    JSON_ARRAY_END,
    JSON_OBJECT, /* "{" */
    JSON_OBJECT_END,
    JSON_KEY /* a name in an object; its value is the next token */
};

/* Arrays and objects inside each other; one bit each is all the reader keeps. */
enum { JSON_DEPTH_MAX = 64 };

struct json_token {
    enum json_kind kind;
    struct bytes
        text;   /* NUMBER as written; STRING, KEY: between the quotes, escapes not resolved */
    bool truth; /* BOOL */
};

enum json_state { JSON_AT_VALUE, JSON_AT_FIRST, JSON_AT_KEY_VALUE, JSON_BEHIND_VALUE };

struct json_reader {
    const uint8_t *first;
    const uint8_t *at;
    const uint8_t *end;
    unsigned depth;
    uint64_t objects; /* bit d: the one opened at depth d is an object */
    enum json_state state;
};

/* Borrows `text` as long as the reader is used. */
void json_init(struct json_reader *r, struct bytes text);

/* Takes the next token. Errors: E_INVAL no JSON, E_TOOBIG nested too deep; ask no more then. */
int json_next(struct json_reader *r, struct json_token *out);

/* Takes the rest of the value that `token` began: nothing for scalars, up to the closing token for others. */
int json_skip(struct json_reader *r, const struct json_token *token);

/* Where the reader is, in bytes from the start: for messages. */
size_t json_offset(const struct json_reader *r);

/* Appends the text of a STRING or KEY token with its escapes resolved. Errors as buf_put(). */
int json_unquote(struct bytes text, struct buf *out);

/* Whether a KEY is `name` (of ASCII letters), without regard to case, as Go matches fields. */
bool json_key_is(const struct json_token *key, const char *name);

/* A NUMBER token as an unsigned integer. Errors: E_INVAL sign, fraction, exponent, or out of range. */
int json_uint(const struct json_token *token, uint64_t *out);

#endif
