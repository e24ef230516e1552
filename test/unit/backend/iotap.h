/* Sees, records and fails what LMDB and we do to files: the calls are defined here, so the linker takes these for
 * the program and for liblmdb alike. To be included by one file of a program.
 *
 * While a tap is on, each changing call on a file of its folder is recorded (with its data) or refused. Like Linux, a
 * failed sync is reported once to each descriptor: after one, the next sync through another descriptor
 * fails too. */
#ifndef TEST_UNIT_BACKEND_IOTAP_H
#define TEST_UNIT_BACKEND_IOTAP_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum tap_kind { TAP_WRITE, TAP_WRITE_DURABLE /* O_DSYNC */, TAP_SYNC, TAP_RENAME, TAP_SYNC_DIR };

enum { TAP_NAME_BYTES_MAX = 64, TAP_OPS_MAX = 4000 };

struct tap_op {
    enum tap_kind kind;
    char name[TAP_NAME_BYTES_MAX]; /* in the folder; TAP_RENAME: the new name */
    char from[TAP_NAME_BYTES_MAX]; /* TAP_RENAME */
    uint64_t offset;
    uint8_t *data;
    size_t len;
};

static struct tap {
    bool on;
    const char *folder;
    size_t count;
    struct tap_op op[TAP_OPS_MAX];
    /* faults */
    size_t fail_at;       /* this operation from the start of the tap (1 = first) fails; 0: none */
    int fail_errno;       /* 0: a write that is half done */
    bool full;            /* reserving space fails too */
    enum tap_kind struck; /* what failed */
    bool has_struck;
    int sync_failed_fd; /* other descriptors hear of it once; -1: nothing to hear */
} tap;

static void tap_start(const char *folder)
{
    memset(&tap, 0, sizeof tap);
    tap.folder = folder;
    tap.sync_failed_fd = -1;
    tap.on = true;
}

static void tap_stop(void)
{
    tap.on = false;
    for (size_t i = 0; i < tap.count; i++)
        free(tap.op[i].data);
    tap.count = 0;
}

/* The name in the folder that `fd` is open on; false: not ours. The folder itself is "". */
static bool tap_name(int fd, char out[TAP_NAME_BYTES_MAX])
{
    char link[64], path[4096];
    if (!tap.on) return false;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    size_t folder = strlen(tap.folder);
    if (n < 0) return false;
    path[n] = 0;
    if (strncmp(path, tap.folder, folder) != 0) return false;
    if (strstr(path, "-lock") != NULL) return false;
    (void)snprintf(out, TAP_NAME_BYTES_MAX, "%s", path[folder] == '/' ? path + folder + 1 : "");
    return true;
}

static struct tap_op *tap_note(enum tap_kind kind, const char *name)
{
    if (tap.count == TAP_OPS_MAX) abort();
    struct tap_op *op = &tap.op[tap.count++];
    *op = (struct tap_op){.kind = kind};
    (void)snprintf(op->name, sizeof op->name, "%s", name);
    return op;
}

static bool tap_strikes(enum tap_kind kind)
{
    if (tap.count != tap.fail_at || tap.fail_at == 0) return false;
    tap.struck = kind;
    tap.has_struck = true;
    return true;
}

ssize_t writev(int fd, const struct iovec *iov, int count)
{
    char name[TAP_NAME_BYTES_MAX];
    if (!tap_name(fd, name)) return syscall(SYS_writev, fd, iov, count);
    off_t at = lseek(fd, 0, SEEK_CUR);
    size_t len = 0;
    for (int i = 0; i < count; i++)
        len += iov[i].iov_len;
    uint8_t *all = malloc(len), *p = all;
    if (all == NULL) abort();
    for (int i = 0; i < count; i++) {
        memcpy(p, iov[i].iov_base, iov[i].iov_len);
        p += iov[i].iov_len;
    }
    ssize_t n = pwrite(fd, all, len, at);
    free(all);
    return n;
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    char name[TAP_NAME_BYTES_MAX];
    if (!tap_name(fd, name)) return syscall(SYS_pwrite64, fd, data, len, at);
    bool durable = (fcntl(fd, F_GETFL) & O_DSYNC) != 0;
    struct tap_op *op = tap_note(durable ? TAP_WRITE_DURABLE : TAP_WRITE, name);
    if (tap_strikes(op->kind)) {
        if (tap.fail_errno != 0) {
            errno = tap.fail_errno;
            return -1;
        }
        len /= 2;
    }
    op->offset = (uint64_t)at;
    op->data = malloc(len + 1);
    if (op->data == NULL) abort();
    memcpy(op->data, data, len);
    op->len = len;
    return syscall(SYS_pwrite64, fd, data, len, at);
}

int fdatasync(int fd)
{
    char name[TAP_NAME_BYTES_MAX];
    if (!tap_name(fd, name)) return (int)syscall(SYS_fdatasync, fd);
    if (tap.sync_failed_fd >= 0 && tap.sync_failed_fd != fd) {
        tap.sync_failed_fd = -1;
        errno = EIO;
        return -1;
    }
    struct tap_op *op = tap_note(TAP_SYNC, name);
    if (!tap_strikes(op->kind)) return 0; /* the test reads through the page cache */
    tap.sync_failed_fd = fd;
    errno = tap.fail_errno;
    return -1;
}

int fsync(int fd)
{
    char name[TAP_NAME_BYTES_MAX];
    if (!tap_name(fd, name)) return (int)syscall(SYS_fsync, fd);
    (void)tap_note(TAP_SYNC_DIR, name);
    if (!tap_strikes(TAP_SYNC_DIR)) return 0;
    errno = tap.fail_errno;
    return -1;
}

int rename(const char *from, const char *to)
{
    size_t folder = tap.on ? strlen(tap.folder) : 0;
    if (tap.on && strncmp(to, tap.folder, folder) == 0) {
        struct tap_op *op = tap_note(TAP_RENAME, to + folder + 1);
        (void)snprintf(op->from, sizeof op->from, "%s", from + folder + 1);
        if (tap_strikes(TAP_RENAME)) {
            errno = tap.fail_errno;
            return -1;
        }
    }
    return (int)syscall(SYS_rename, from, to);
}

int fallocate(int fd, int mode, off_t at, off_t len)
{
    char name[TAP_NAME_BYTES_MAX];
    if (tap_name(fd, name) && tap.full) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_fallocate, fd, mode, at, len);
}

#endif
