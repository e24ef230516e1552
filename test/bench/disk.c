/* How fast a folder's disk is: 2 KiB appended and fdatasync'ed again and again, as a log does it.
 *
 * The file is preallocated, so that a sync carries data and no new size. One line of JSON.
 * Usage: disk FOLDER [COUNT] */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/hist.h"

enum { BLOCK_BYTES = 2048, COUNT_MAX = 100000 };

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static int measure(int fd, unsigned long count, struct hist *h)
{
    static uint8_t block[BLOCK_BYTES];
    memset(block, 'd', sizeof block);
    if (posix_fallocate(fd, 0, (off_t)(count * BLOCK_BYTES)) != 0 || fsync(fd) != 0) return -1;
    for (unsigned long i = 0; i < count; i++) {
        uint64_t start = now_ns();
        if (pwrite(fd, block, sizeof block, (off_t)(i * BLOCK_BYTES)) != BLOCK_BYTES) return -1;
        if (fdatasync(fd) != 0) return -1;
        hist_add(h, now_ns() - start);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct hist h;
    char path[4096];
    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    if (argc < 2 || count == 0 || count > COUNT_MAX) {
        fprintf(stderr, "usage: disk FOLDER [COUNT]\n");
        return 2;
    }
    snprintf(path, sizeof path, "%s/disk.%d", argv[1], (int)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int rc = fd < 0 ? -1 : measure(fd, count, &h);
    if (rc < 0) perror(path);
    if (fd >= 0) {
        (void)unlink(path);
        close(fd);
    }
    if (rc < 0) return 1;
    printf("{\"requests\":%lu,\"mean_us\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f}\n",
           count, (double)hist_mean(&h) / 1e3, (double)hist_quantile(&h, 0.5) / 1e3,
           (double)hist_quantile(&h, 0.99) / 1e3, (double)h.max_ns / 1e3);
    return 0;
}
