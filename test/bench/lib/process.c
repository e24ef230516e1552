/* CPU from the process's own clock (nanoseconds; /proc/PID/stat has 10 ms ticks), memory from /proc/PID/status. */
#include "lib/process.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static bool read_cpu(pid_t pid, double *cpu_s)
{
    clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
    struct timespec t;
    if (pid != 0 && clock_getcpuclockid(pid, &clock) != 0) return false;
    if (clock_gettime(clock, &t) != 0) return false;
    *cpu_s = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
    return true;
}

static void take_line(const char *line, const char *name, uint64_t *out)
{
    unsigned long long kib = 0;
    if (strncmp(line, name, strlen(name)) == 0 && sscanf(line + strlen(name), " %llu", &kib) == 1) {
        *out = kib;
    }
}

bool process_use(pid_t pid, struct process_use *out)
{
    char path[64];
    char line[256];
    *out = (struct process_use){0};
    if (!read_cpu(pid, &out->cpu_s)) return false;
    snprintf(path, sizeof path, pid == 0 ? "/proc/self/status" : "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    if (f == NULL) return false;
    while (fgets(line, sizeof line, f) != NULL) {
        take_line(line, "VmRSS:", &out->rss_kib);
        take_line(line, "VmHWM:", &out->peak_kib);
        take_line(line, "RssAnon:", &out->anon_kib);
    }
    fclose(f);
    return true;
}
