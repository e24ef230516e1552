/* Hex dumps of expected and seen, side by side in time: first the one, then the other. */
#include "compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROW_BYTES = 16, ROWS_BEFORE = 1, ROWS_SHOWN = 4 };

static void dump_row(struct bytes s, size_t at)
{
    char hex[ROW_BYTES * 3 + 1] = "";
    char text[ROW_BYTES + 1] = "";
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < ROW_BYTES && at + i < s.len; i++) {
        uint8_t c = s.data[at + i];
        hex[3 * i] = digits[c >> 4];
        hex[3 * i + 1] = digits[c & 15];
        hex[3 * i + 2] = ' ';
        text[i] = (char)(c >= ' ' && c < 0x7F ? c : '.');
    }
    print_error("    %08zx  %-48s %s\n", at, hex, text);
}

static void dump(const char *title, struct bytes s, size_t from)
{
    print_error("  %s, %zu bytes:\n", title, s.len);
    for (size_t row = 0; row < ROWS_SHOWN && from + row * ROW_BYTES < s.len; row++) {
        dump_row(s, from + row * ROW_BYTES);
    }
}

void compare_bytes(struct bytes expected, struct bytes seen, const char *file, int line)
{
    if (bytes_eq(expected, seen)) return;
    size_t at = 0;
    while (at < expected.len && at < seen.len && expected.data[at] == seen.data[at]) {
        at++;
    }
    size_t row = at / ROW_BYTES;
    size_t from = (row < ROWS_BEFORE ? 0 : row - ROWS_BEFORE) * ROW_BYTES;
    print_error("%s:%d: bytes differ at offset %zu\n", file, line, at);
    dump("expected", expected, from);
    dump("seen", seen, from);
    _fail(file, line);
}

static int digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

uint8_t *compare_unhex(const char *hex, size_t *len)
{
    uint8_t *out = malloc(strlen(hex) / 2 + 1);
    size_t n = 0;
    assert_non_null(out);
    while (*hex != 0) {
        if (*hex == ' ' || *hex == '\n') {
            hex++;
            continue;
        }
        if (digit(hex[0]) < 0 || digit(hex[1]) < 0) fail_msg("not hex: \"%s\"", hex);
        out[n++] = (uint8_t)(digit(hex[0]) << 4 | digit(hex[1]));
        hex += 2;
    }
    *len = n;
    return out;
}
