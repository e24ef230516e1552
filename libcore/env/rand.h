/* Randomness as an input: the system's own source in programs, a seeded one in simulation. */
#ifndef ENV_RAND_H
#define ENV_RAND_H

#include <stddef.h>

struct rand_source {
    void (*fill)(void *arg, void *data, size_t len); /* never fails; any thread */
    void *arg;
};

#endif
