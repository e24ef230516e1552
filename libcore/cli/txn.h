/* The grammar of `txn` on standard input, line by line (cli-etcdctl.md 7.4):
 *
 *     txn      = compares "\n" requests "\n" requests "\n"
 *     compares = { TARGET "(" KEY ")" OP VALUE "\n" }
 *     requests = { ("get" | "put" | "del") arguments "\n" }
 *
 * KEY and VALUE are quoted as in Go, or raw in back quotes. A request line is split into words and read like the command
 * of that name, flags and all. */
#ifndef CLI_TXN_H
#define CLI_TXN_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/errmsg.h"
#include "cli/cli.h"
#include "etcdserverpb.pb-c.h"

enum cli_txn_part { CLI_TXN_COMPARES, CLI_TXN_SUCCESS, CLI_TXN_FAILURE, CLI_TXN_DONE };

struct cli_txn {
    enum cli_txn_part part; /* what the next line belongs to */
    Etcdserverpb__TxnRequest request;
    size_t capacity[CLI_TXN_DONE]; /* of the three lists */
    struct arena *arena;           /* all of the request lives there */
    const char *usage_of;          /* after a bad flag: whose usage helps; else NULL */
    bool risky; /* the line was a `del` of a range without --range, from .. to: */
    struct bytes from, to;
};

void cli_txn_init(struct cli_txn *t, struct arena *arena);

/* Takes one line, with or without its end. Returns an exit code. */
int cli_txn_line(struct cli_txn *t, struct bytes line, struct errmsg *em);

/* --- words and strings ---------------------------------------------------------------------------- */

/* Splits a line into words: "..." with Go's escapes, '...' as it is, or a run of bytes without blanks. Errors: E_INVAL a bad
 * escape; E_NOMEM. A quote without its partner is passed over. */
int cli_split_words(struct bytes line, struct arena *arena, struct cli_words *out);

/* Reads a Go string literal, "..." or `...`, from the start of `*text` and moves behind it. E_INVAL, E_NOMEM. */
int cli_unquote(struct bytes *text, struct arena *arena, struct bytes *out);

#endif
