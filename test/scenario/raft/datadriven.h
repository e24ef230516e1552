/* Files of directives with the output that each is expected to give ("datadriven" files).
 *
 *     command arg key=value key=(v1,v2)
 *     input lines
 *     ----
 *     expected lines, up to a blank one
 *
 * A line that begins with # is a comment; one that ends in \ goes on in the next. When the output itself holds blank
 * lines it stands between double ---- lines. */
#ifndef SCENARIO_RAFT_DATADRIVEN_H
#define SCENARIO_RAFT_DATADRIVEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DD_LINE_BYTES_MAX = 1024, DD_INPUT_BYTES_MAX = 1024, DD_ARGS_MAX = 32, DD_VALUES_MAX = 32 };

struct dd_arg {
    const char *key;
    const char *values[DD_VALUES_MAX];
    size_t value_count; /* 0: a bare key */
};

struct dd_case {
    size_t line_no; /* of the directive, from 1 */
    const char *command;
    struct dd_arg args[DD_ARGS_MAX];
    size_t arg_count;
    char input[DD_INPUT_BYTES_MAX]; /* trimmed */
    const char *expected;           /* in the reader's text */
    size_t expected_len;
    char line[DD_LINE_BYTES_MAX]; /* command and arguments point into it */
};

struct dd_reader {
    const char *at;
    const char *end;
    size_t line_no;
    const char *error; /* why dd_next() gave up; static */
};

/* Borrows `text` as long as the reader and its cases are used. */
void dd_init(struct dd_reader *r, const char *text, size_t len);

/* The next directive: 1; 0 at the end; -1 malformed, `r->error` says how. */
int dd_next(struct dd_reader *r, struct dd_case *out);

/* NULL when there is no such key. */
const struct dd_arg *dd_arg(const struct dd_case *c, const char *key);

/* A whole decimal number. False: `text` is none. */
bool dd_u64(const char *text, uint64_t *out);
/* "true" or "false". */
bool dd_bool(const char *text, bool *out);

#endif
