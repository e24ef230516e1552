/* Inside cli: what the printers of all answers share. */
#ifndef CLI_PRINT_INT_H
#define CLI_PRINT_INT_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/print.h"

/* The answer has no such form; names the printer's format. */
int cli__unsupported(const struct cli_printer *p, struct errmsg *em);

/* The serialized message. */
int cli__protobuf(struct cli_printer *p, const ProtobufCMessage *m, struct errmsg *em);

/* --- json: an object's members, those that are zero or empty left out ------------------------------- */

struct json {
    struct cli_out *out;
    bool any; /* a member stands already */
};

struct json json__open(struct cli_out *out); /* "{" */
void json__close(struct json *j);            /* "}" */
/* "name": with the comma it needs; the value is the caller's. */
void json__name(struct json *j, const char *name);
void json__int(struct json *j, const char *name, int64_t v);
void json__uint(struct json *j, const char *name, uint64_t v);
/* An id: a number, or in hexadecimal a string. */
void json__id(struct json *j, const char *name, uint64_t v, bool hex);
void json__true(struct json *j, const char *name, bool v);
void json__text(struct json *j, const char *name, const char *v);
void json__base64(struct json *j, const char *name, ProtobufCBinaryData v);
void json__texts(struct json *j, const char *name, char *const *v, size_t count);
void json__header(struct json *j, const Etcdserverpb__ResponseHeader *h, bool hex);

/* --- fields: lines of `"Name" : value` ---------------------------------------------------------------- */

void fields__header(struct cli_printer *p, const Etcdserverpb__ResponseHeader *h);
void fields__int(struct cli_printer *p, const char *name, int64_t v);
void fields__uint(struct cli_printer *p, const char *name, uint64_t v);
/* An id: decimal, or with --hex hexadecimal. */
void fields__id(struct cli_printer *p, const char *name, uint64_t v);
void fields__bool(struct cli_printer *p, const char *name, bool v);
void fields__quoted(struct cli_printer *p, const char *name, struct bytes v);

/* --- a pair in three formats ---------------------------------------------------------------------------- */

void simple__kv(struct cli_printer *p, const Mvccpb__KeyValue *kv);
void json__kv(struct cli_out *out, const Mvccpb__KeyValue *kv);
/* `prefix` stands before each name: "" or "Prev". */
void fields__kv(struct cli_printer *p, const char *prefix, const Mvccpb__KeyValue *kv);

/* --- rows of cells: simple lines and tables show the same ------------------------------------------------ */

/* Cells as they are made: each ends at its place in `text`. */
struct cells {
    struct buf text;
    struct buf ends; /* of size_t */
};

/* cells__show() ends what this begins. */
void cells__init(struct cells *c, const struct alloc *alloc);
/* Each makes one cell. Errors as buf_put(). */
int cells__text(struct cells *c, const char *text);
int cells__span(struct cells *c, struct bytes text);
int cells__uint(struct cells *c, uint64_t v);
int cells__int(struct cells *c, int64_t v);
int cells__hex(struct cells *c, uint64_t v);
int cells__size(struct cells *c, int64_t v);
int cells__bool(struct cells *c, bool v);
int cells__joined(struct cells *c, char *const *texts, size_t count, const char *between);
/* Ends the cell whose text was put into `text`; `rc` is how putting it went. */
int cells__end(struct cells *c, int rc);

/* Shows the cells in the printer's format, simple or table; `rc` is how making them went. Returns an exit code. */
int cells__show(struct cli_printer *p, struct cells *c, const char *const *headings, size_t columns,
                int rc, struct errmsg *em);

static inline struct bytes cli__bytes(ProtobufCBinaryData d)
{
    return bytes_of(d.data, d.len);
}

#endif
