/* What every program's command line shares: exit codes, and words on the command line. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stddef.h>

#include "base/bytes.h"
#include "base/errmsg.h"

/* How a command ends. Functions of this module that say "returns an exit code" return one of these, CLI_OK being 0,
 * and have filled the errmsg for every other. Scripts rely on the numbers (cli-etcdctl.md 2). */
enum cli_exit {
    CLI_OK = 0,
    CLI_ERROR = 1,          /* flag syntax, unknown command, a refused request */
    CLI_BAD_CONNECTION = 2, /* no client could be made */
    CLI_BAD_INPUT = 3,      /* standard input does not follow its grammar */
    CLI_BAD_FEATURE = 4,    /* a flag's value that exists nowhere, or not for this command */
    CLI_INTERRUPTED = 5,
    CLI_BAD_ARGS = 128
};

/* Words of a command line. Each has a zero behind it, so that those without one inside are C strings, too. */
struct cli_words {
    struct bytes *items;
    size_t count;
};

/* Sets the text of `em`, printf-like, and returns `status`. */
int cli_fail(struct errmsg *em, enum cli_exit status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The word as a C string: up to its first zero byte. */
const char *cli_text(struct bytes word);

#endif
