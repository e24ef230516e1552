/* Time as an input for edge code; the heart gets ticks and times inside its inputs instead. */
#ifndef ENV_CLOCK_H
#define ENV_CLOCK_H

#include <stdint.h>

struct clock {
    uint64_t (*mono_ns)(void *arg); /* never goes back; starts anywhere */
    int64_t (*wall_ns)(void *arg);  /* since the Unix epoch */
    void *arg;
};

#endif
