/* Output that is gathered and written in large pieces. */
#include "cli/out.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "os/file_util.h"

/* A large answer is written in pieces of about this size. */
enum { PIECE_BYTES = 64 * 1024, LINE_BYTES_MAX = 512 };

void cli_out_init(struct cli_out *o, const struct alloc *alloc, int fd)
{
    buf_init(&o->buf, alloc, SIZE_MAX / 2);
    o->fd = fd;
    o->rc = 0;
}

void cli_out_deinit(struct cli_out *o)
{
    buf_deinit(&o->buf);
}

int cli_out_flush(struct cli_out *o)
{
    if (o->fd < 0) return o->rc;
    if (o->buf.len > 0) {
        int rc = file_write_fd(o->fd, buf_bytes(&o->buf));
        if (o->rc == 0) o->rc = rc;
        buf_reset(&o->buf);
    }
    return o->rc;
}

/* Notes how an append went. */
static void note(struct cli_out *o, int rc)
{
    if (rc < 0 && o->rc == 0) o->rc = rc;
    if (o->buf.len >= PIECE_BYTES) (void)cli_out_flush(o);
}

void cli_put(struct cli_out *o, const char *text)
{
    note(o, buf_put_str(&o->buf, text));
}

void cli_put_bytes(struct cli_out *o, struct bytes s)
{
    note(o, buf_put_bytes(&o->buf, s));
}

void cli_printf(struct cli_out *o, const char *format, ...)
{
    char text[LINE_BYTES_MAX];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (len < 0) return;
    size_t n = (size_t)len < sizeof text ? (size_t)len : sizeof text - 1;
    cli_put_bytes(o, bytes_of(text, n));
}

void cli_put_quoted(struct cli_out *o, struct bytes s)
{
    note(o, text_put_quoted(&o->buf, s));
}

void cli_put_json(struct cli_out *o, struct bytes s)
{
    note(o, text_put_json(&o->buf, s));
}

void cli_put_base64(struct cli_out *o, struct bytes s)
{
    note(o, text_put_base64(&o->buf, s));
}

void cli_put_escaped(struct cli_out *o, struct bytes s)
{
    static const char DIGITS[] = "0123456789abcdef";
    for (size_t i = 0; i < s.len; i++) {
        const uint8_t four[4] = {'\\', 'x', (uint8_t)DIGITS[s.data[i] >> 4],
                                 (uint8_t)DIGITS[s.data[i] & 15]};
        cli_put_bytes(o, bytes_of(four, sizeof four));
    }
}
