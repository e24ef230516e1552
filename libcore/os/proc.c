/* /proc/self in numbers. */
#include "os/proc.h"

#include <dirent.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"

enum { PROC_TEXT_BYTES_MAX = 16 * 1024 };

/* Reads a small file of /proc whole; false when it is not there. */
static bool read_text(const char *path, char text[PROC_TEXT_BYTES_MAX])
{
    FILE *f = fopen(path, "re");
    if (f == NULL) return false;
    size_t n = fread(text, 1, PROC_TEXT_BYTES_MAX - 1, f);
    text[n] = 0;
    (void)fclose(f);
    return n > 0;
}

static double boot_time_s(void)
{
    char text[PROC_TEXT_BYTES_MAX];
    double since = 0;
    FILE *f =
        fopen("/proc/stat", "re"); /* longer than our buffer on large machines: line by line */
    if (f == NULL) return 0;
    while (fgets(text, sizeof text, f) != NULL) {
        if (sscanf(text, "btime %lf", &since) == 1) break;
    }
    (void)fclose(f);
    return since;
}

/* Fields 14, 15, 22, 23 and 24 of proc(5)'s stat; the name in parentheses may hold anything. */
static int read_stat(struct proc_stats *out)
{
    char text[PROC_TEXT_BYTES_MAX];
    if (!read_text("/proc/self/stat", text)) return E_IO;
    const char *rest = strrchr(text, ')');
    uint64_t user = 0;
    uint64_t system = 0;
    uint64_t start = 0;
    uint64_t virtual_bytes = 0;
    uint64_t pages = 0;
    if (rest == NULL) return E_IO;
    int n = sscanf(rest + 1,
                   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
                   " %*d %*d %*d %*d %*d %*d %" SCNu64 " %" SCNu64 " %" SCNu64,
                   &user, &system, &start, &virtual_bytes, &pages);
    if (n != 5) return E_IO;
    double ticks = (double)sysconf(_SC_CLK_TCK);
    out->cpu_s = (double)(user + system) / ticks;
    out->start_time_s = boot_time_s() + (double)start / ticks;
    out->virtual_bytes = virtual_bytes;
    out->resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return 0;
}

static uint64_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL) return 0;
    uint64_t n = 0;
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (e->d_name[0] != '.') n++;
    }
    (void)closedir(dir);
    return n > 0 ? n - 1 : 0; /* the one that lists */
}

static void read_network(struct proc_stats *out)
{
    char text[PROC_TEXT_BYTES_MAX];
    if (!read_text("/proc/self/net/dev", text)) return;
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *colon = strchr(line, ':');
        uint64_t received = 0;
        uint64_t sent = 0;
        if (colon == NULL) break;
        if (sscanf(colon + 1, "%" SCNu64 " %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &received,
                   &sent) != 2) {
            continue;
        }
        out->network_receive_bytes += received;
        out->network_transmit_bytes += sent;
    }
}

static uint64_t limit(int resource)
{
    struct rlimit rl;
    if (getrlimit((__rlimit_resource_t)resource, &rl) != 0) return 0;
    return rl.rlim_cur == RLIM_INFINITY ? UINT64_MAX : (uint64_t)rl.rlim_cur;
}

int proc_stats_read(struct proc_stats *out)
{
    struct proc_stats s = {0};
    int rc = read_stat(&s);
    if (rc < 0) return rc;
    s.virtual_bytes_max = limit(RLIMIT_AS);
    s.open_fds = count_fds();
    s.max_fds = limit(RLIMIT_NOFILE);
    read_network(&s);
    *out = s;
    return 0;
}

unsigned proc_cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
    return (unsigned)CPU_COUNT(&set);
}

uint64_t proc_raise_fd_limit(void)
{
    struct rlimit rl;
    if (getrlimit(RLIMIT_NOFILE, &rl) != 0) return 0;
    rl.rlim_cur = rl.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &rl);
    return limit(RLIMIT_NOFILE);
}
