/* The sd_notify protocol (sd_notify(3)) without libsystemd: one datagram to the socket named by
 * $NOTIFY_SOCKET. */
#ifndef OS_SDNOTIFY_H
#define OS_SDNOTIFY_H

#include "base/errmsg.h"

/* Sends `state` ("READY=1", "STOPPING=1", lines). Without $NOTIFY_SOCKET nothing is done and 0
 * returned. A path or an abstract name ("@..."). Errors: E_INVAL a name of another kind, E_IO and
 * others as sendto(2) says. */
int sdnotify(const char *state, struct errmsg *em);

/* The same to a named socket. */
int sdnotify_to(const char *socket_name, const char *state, struct errmsg *em);

#endif
