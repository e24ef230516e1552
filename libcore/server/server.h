/* One member, from its settings to its end. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "base/errmsg.h"
#include "base/log.h"
#include "server/config.h"

/* Runs a member until a signal stops it or it cannot go on. Main thread, once in a process.
 *
 * `*stop_signal` is the signal that ended it, 0 for none.
 * Errors: whatever kept it from starting or going on, in words in `em`. */
int server_run(const struct config *config, const struct log *log, int *stop_signal,
               struct errmsg *em);

#endif
