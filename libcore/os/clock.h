/* The system's clocks behind `struct clock`. */
#ifndef OS_CLOCK_H
#define OS_CLOCK_H

#include "env/clock.h"

/* CLOCK_MONOTONIC and CLOCK_REALTIME. Any thread. */
extern const struct clock os_clock;

#endif
