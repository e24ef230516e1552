/* An output stream of a program: gathers text and writes it in large pieces.
 *
 * Printing never fails at once: the first error is kept and told by cli_out_flush(), so that printers read like what they
 * print. With descriptor -1 everything stays in `buf`. */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

struct cli_out {
    struct buf buf;
    int fd;
    int rc; /* the first error, E_... */
};

/* `alloc` must outlive it. The descriptor stays the caller's. */
void cli_out_init(struct cli_out *o, const struct alloc *alloc, int fd);
void cli_out_deinit(struct cli_out *o);

/* Writes what was gathered. Returns 0 or the first error of all the printing so far. */
int cli_out_flush(struct cli_out *o);

void cli_put(struct cli_out *o, const char *text);
void cli_put_bytes(struct cli_out *o, struct bytes s);
void cli_printf(struct cli_out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

void cli_put_quoted(struct cli_out *o, struct bytes s); /* as Go's %q */
void cli_put_json(struct cli_out *o, struct bytes s);   /* a JSON string */
void cli_put_base64(struct cli_out *o, struct bytes s);
void cli_put_escaped(struct cli_out *o, struct bytes s); /* \xHH for every byte */

#endif
