/* The system's random source behind `struct rand_source`, by libsodium. */
#ifndef OS_RAND_H
#define OS_RAND_H

#include "env/rand.h"

/* Any thread. */
extern const struct rand_source os_rand;

/* Prepares libsodium; call once at the start of the process, before other threads. E_IO when the
 * system has no random source. */
int os_rand_init(void);

#endif
