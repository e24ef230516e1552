/* Signals as tasks of a loop: the handler's context never runs our code. */
#ifndef OS_SIGNAL_H
#define OS_SIGNAL_H

#include "base/errmsg.h"
#include "os/loop.h"

struct signals;

/* `signum` is SIGTERM, SIGINT, SIGHUP, ... */
typedef void (*signals_fn)(void *arg, int signum);

/* Ignores SIGPIPE, so that a write to a closed socket is an error and not the end. Call once at
 * start. */
void signals_ignore_pipe(void);

/* Calls `fn` in the loop's thread for SIGTERM and SIGINT from now on; call it before other threads
 * are started, for it blocks both in this thread and in those. Gives a handle; signals_close() ends
 * it, after which both kill again. `fn` may call it. Loop's thread. Errors: E_NOMEM, E_BUSY. */
int signals_open(struct loop *l, signals_fn fn, void *arg, struct signals **out, struct errmsg *em);
void signals_close(struct signals *s);

#endif
