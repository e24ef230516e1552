/* One member, from its settings to its end. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdbool.h>

#include "base/errmsg.h"
#include "base/log.h"
#include "server/config.h"

/* How a run ended. */
struct server_end {
    int stop_signal; /* the signal that ended it, 0 for none */
    bool
        threads_left; /* not everything could be taken down: leave the process by _exit() or a signal, at once */
};

/* Runs a member until a signal stops it or it cannot go on. Main thread, once at a time in a process.
 *
 * A second signal cuts the draining of clients short, a third does not wait for the last commit of the store either (the
 * log has it all). Borrows `config` and `log`, for the life of the process when `threads_left`.
 * Errors: whatever kept it from starting or going on, in words in `em`. */
int server_run(const struct config *config, const struct log *log, struct server_end *end,
               struct errmsg *em);

#endif
