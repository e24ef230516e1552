/* clock_gettime() cannot fail for these two clocks. */
#include "os/clock.h"

#include <stddef.h>
#include <time.h>

enum { NS_PER_S = 1000000000 };

static uint64_t mono_ns(void *arg)
{
    (void)arg;
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static int64_t wall_ns(void *arg)
{
    (void)arg;
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

const struct clock os_clock = {.mono_ns = mono_ns, .wall_ns = wall_ns, .arg = NULL};
