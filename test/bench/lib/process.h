/* What a process has used so far. */
#ifndef BENCH_PROCESS_H
#define BENCH_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_use {
    double cpu_s; /* user and system, of all threads */
    uint64_t rss_kib;
    uint64_t peak_kib;
    uint64_t anon_kib;
};

/* Of another process, or of this one for 0. False when it is not there. */
bool process_use(pid_t pid, struct process_use *out);

#endif
