/* Environment variables that stand for flags: PREFIX_NAME for --name (cli-etcdctl.md 3.2). */
#ifndef CLI_ENV_H
#define CLI_ENV_H

#include "base/errmsg.h"
#include "cli/flag.h"

/* Sets the flags of one table of `f` from `environ`. Empty variables and values that do not parse are passed over.
 * Errors: E_EXIST a flag was given and its variable is set as well: its name stands in `em`; E_NOMEM. */
int cli_env_apply(struct cli_flags *f, size_t table, const char *prefix, char *const *environ,
                  struct errmsg *em);

/* The variable's name for a flag: "ETCDCTL_WRITE_OUT"; zero-terminated. */
enum { CLI_ENV_BYTES_MAX = 64 };
void cli_env_name(const char *prefix, const char *flag, char out[CLI_ENV_BYTES_MAX]);

#endif
