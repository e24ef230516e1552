/* Bytes to text and back, the way Go's standard library writes and reads it, because that is what
 * users and scripts of etcd see.
 *
 * Writers append to a `struct buf` (errors: E_NOMEM, E_TOOBIG, as buf_put()). Parsers return 0, or
 * E_INVAL with Go's own error text in `em`, outputs untouched. No locale, no recursion. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/errmsg.h"

/* --- hex and base64 --------------------------------------------------------------------------- */

int text_put_hex(struct buf *b, struct bytes s); /* lower case, two digits a byte */
/* Appends the bytes of an even run of hex digits of either case. E_INVAL otherwise, `b` as before.
 */
int text_get_hex(struct buf *b, struct bytes text);

int text_put_base64(struct buf *b, struct bytes s); /* standard alphabet, padded */
/* As Go's StdEncoding: padding is demanded, line ends are passed over, unused bits ignored.
 * E_INVAL. */
int text_get_base64(struct buf *b, struct bytes text);

/* --- quoting ---------------------------------------------------------------------------------- */

/* strconv.Quote with the outer quotes: printable Unicode as it is, bad UTF-8 as \xHH
 * (cli-etcdctl.md 5.3). */
int text_put_quoted(struct buf *b, struct bytes s);

/* A JSON string with its quotes, as Go's encoding/json writes it: also < > & U+2028 U+2029 are
 * escaped, bad UTF-8 becomes \ufffd (disk-format.md 3.1). */
int text_put_json(struct buf *b, struct bytes s);

/* The same as zap and encoders without HTML escaping do: < > & U+2028 U+2029 stay. */
int text_put_json_plain(struct buf *b, struct bytes s);

/* Decodes the rune at the start of `s` (not empty); `*size` is its length. A bad sequence gives
 * TEXT_RUNE_BAD with size 1, as Go does. */
#define TEXT_RUNE_BAD 0xFFFDU
uint32_t text_rune(struct bytes s, size_t *size);

/* unicode.IsPrint of Go. */
bool text_rune_printable(uint32_t rune);

/* --- numbers ---------------------------------------------------------------------------------- */

/* strconv.ParseInt(text, base, 64): base 0 takes 0x 0o 0b 0 prefixes and underscores; 2..36 plain
 * digits. em: `strconv.ParseInt: parsing "V": invalid syntax` or `: value out of range`. */
int text_parse_int(struct bytes text, unsigned base, int64_t *out, struct errmsg *em);
/* strconv.ParseUint likewise. No sign is taken. */
int text_parse_uint(struct bytes text, unsigned base, uint64_t *out, struct errmsg *em);
/* strconv.ParseBool: 1 t T TRUE true True 0 f F FALSE false False. */
int text_parse_bool(struct bytes text, bool *out, struct errmsg *em);

/* --- durations -------------------------------------------------------------------------------- */

enum { TEXT_DURATION_BYTES_MAX = 32 };

/* time.ParseDuration. em: `time: invalid duration "V"`, `time: missing unit in duration "V"`,
 * `time: unknown unit "x" in duration "V"`. */
int text_parse_duration(struct bytes text, int64_t *out_ns, struct errmsg *em);

/* time.Duration.String(): "1m30s", "1.5ms", "0s"; zero-terminated. Returns the length. */
size_t text_duration(int64_t ns, char out[TEXT_DURATION_BYTES_MAX]);

#endif
