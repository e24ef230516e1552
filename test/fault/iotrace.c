/* LD_PRELOAD shim: records every change a process makes to files, and what it sends, in the order it happened.
 *
 * Used to show what a power cut may leave of a server's folder (replay.py rebuilds it), that no reply leaves
 * before the sync that covers it, and what the server does when the n-th write or sync fails.
 *
 *   IOTRACE_FILE       the trace; nothing is done without it
 *   IOTRACE_DIR        only files below this folder (absolute) count; without it all regular files do
 *   IOTRACE_SOCKETS    1: send, sendto, sendmsg, write and writev on sockets are recorded as well
 *   IOTRACE_FAIL       n: the n-th counted operation fails (1 = first)
 *   IOTRACE_FAIL_KIND  write, sync or any (default): which operations count
 *   IOTRACE_FAIL_PATH  only operations on files whose path has this in it count
 *   IOTRACE_FAIL_ERRNO EIO (default), ENOSPC, or half (a write is half done)
 *   IOTRACE_FAIL_STICKY 1: and all that follow
 *   IOTRACE_FAIL_WHILE only while there is a file of this name do operations count and fail: a disk that is full
 *                      for a time
 *   IOTRACE_SKIP_SYNC  syncs of files whose path has this in it are neither done nor recorded, but called good: a
 *                      planted bug, for proving that the checks of a trace find it
 *
 * A record is a line of text, then the data it announces and a newline, so that a trace can be read by eye and by
 * a few lines of any language:
 *
 *   KIND seq=N from=N tid=T ns=NANOSECONDS fd=F flags=FLAGS off=OFFSET len=BYTES rc=RESULT path=PATH [to=PATH]
 *
 * Paths are escaped: space, %, control bytes as %XX. `len` bytes of data follow for WRITE and SEND, none else.
 * KIND is WRITE (flags "dsync" when the descriptor is O_DSYNC or O_SYNC, "half" when it was made half), SYNC, FSYNC,
 * TRUNCATE, ALLOCATE, OPEN (of a file that was created or cut to nothing; flags "create", "trunc"), RENAME, LINK,
 * UNLINK, MKDIR, RMDIR, SEND.
 * An operation's record is written when it has returned; a SEND's before it begins. All but syncs and dsync
 * writes hold one lock meanwhile, so the order of records is the order of operations. Those two take long and
 * do not hold it; their from=N says how far the trace was when they began: a sync covers what has seq <= N, and
 * what was sent while it ran stands before it. A failed operation has rc=-ERRNO; a failed write may have
 * arrived in part (half: `len` says how much).
 *
 * Like Linux, a failed sync is reported once to every descriptor of the file that is open: after one, the first
 * sync through another descriptor of that file fails too.
 *
 * Not seen: mmap'd stores, io_uring, sendfile and splice, and children of a process after exec without the variable. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PATH_MAX_BYTES = 4096, DEAF_MAX = 64 };

/* Calls are made as system calls, so nothing here can meet another shim or itself. */
static struct {
    pthread_mutex_t lock;
    bool ready, on, sockets, sticky;
    int fd; /* of the trace */
    uint64_t seq;
    char dir[PATH_MAX_BYTES];
    const char *fail_path, *fail_while, *skip_sync;
    uint64_t fail_at, counted;
    bool fail_writes, fail_syncs;
    int fail_errno; /* 0: half a write */
    /* Files whose sync failed: who has heard of it. */
    struct {
        dev_t dev;
        ino_t ino;
        int heard_fd;
    } deaf[DEAF_MAX];
    unsigned deaf_count;
} trace = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static const char *setting(const char *name, const char *otherwise)
{
    const char *v = getenv(name);
    return v != NULL && *v != 0 ? v : otherwise;
}

static void read_settings(void)
{
    trace.ready = true;
    const char *path = setting("IOTRACE_FILE", NULL);
    if (path == NULL) return;
    trace.fd =
        (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (trace.fd < 0) return;
    (void)snprintf(trace.dir, sizeof trace.dir, "%s", setting("IOTRACE_DIR", ""));
    trace.sockets = strcmp(setting("IOTRACE_SOCKETS", "0"), "1") == 0;
    trace.sticky = strcmp(setting("IOTRACE_FAIL_STICKY", "0"), "1") == 0;
    trace.fail_at = strtoull(setting("IOTRACE_FAIL", "0"), NULL, 10);
    trace.fail_path = setting("IOTRACE_FAIL_PATH", "");
    trace.fail_while = setting("IOTRACE_FAIL_WHILE", NULL);
    trace.skip_sync = setting("IOTRACE_SKIP_SYNC", NULL);
    const char *kind = setting("IOTRACE_FAIL_KIND", "any");
    trace.fail_writes = strcmp(kind, "sync") != 0;
    trace.fail_syncs = strcmp(kind, "write") != 0;
    const char *number = setting("IOTRACE_FAIL_ERRNO", "EIO");
    trace.fail_errno = strcmp(number, "ENOSPC") == 0 ? ENOSPC
                       : strcmp(number, "half") == 0 ? 0
                                                     : EIO;
    trace.on = true;
}

static void enter(void)
{
    int kept = errno;
    (void)pthread_mutex_lock(&trace.lock);
    if (!trace.ready) read_settings();
    errno = kept;
}

static void leave(void)
{
    int kept = errno;
    (void)pthread_mutex_unlock(&trace.lock);
    errno = kept;
}

/* --- records ------------------------------------------------------------------------------------------------ */

static void put_all(const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = syscall(SYS_write, trace.fd, p, len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) abort(); /* a trace with a hole proves nothing */
        p += n;
        len -= (size_t)n;
    }
}

static void escape(char *out, size_t room, const char *path)
{
    size_t n = 0;
    for (; *path != 0 && n + 4 < room; path++) {
        unsigned char c = (unsigned char)*path;
        if (c <= ' ' || c == '%' || c == 127) {
            n += (size_t)snprintf(out + n, 4, "%%%02X", c);
        } else {
            out[n++] = (char)c;
        }
    }
    out[n] = 0;
}

struct record {
    const char *kind, *flags, *path, *to;
    int fd;
    int64_t offset;
    const struct iovec *data;
    size_t len;    /* bytes of `data` that arrived */
    uint64_t from; /* 1 + the records there were when it began; 0: as many as now */
    long rc;       /* as the call returned it; errno is read when it is -1 */
};

static void put_data(const struct record *r)
{
    size_t left = r->len;
    for (const struct iovec *v = r->data; left > 0; v++) {
        size_t n = v->iov_len < left ? v->iov_len : left;
        put_all(v->iov_base, n);
        left -= n;
    }
    if (r->len > 0) put_all("\n", 1);
}

static void put_record(const struct record *r)
{
    int kept = errno;
    struct timespec now;
    char path[3 * PATH_MAX_BYTES], to[3 * PATH_MAX_BYTES], line[7 * PATH_MAX_BYTES];
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t from = r->from != 0 ? r->from - 1 : trace.seq;
    trace.seq++;
    escape(path, sizeof path, r->path != NULL ? r->path : "");
    escape(to, sizeof to, r->to != NULL ? r->to : "");
    int n = snprintf(line, sizeof line,
                     "%s seq=%llu from=%llu tid=%ld ns=%lld fd=%d flags=%s off=%lld len=%zu rc=%ld "
                     "path=%s%s%s\n",
                     r->kind, (unsigned long long)trace.seq, (unsigned long long)from,
                     syscall(SYS_gettid), (long long)now.tv_sec * 1000000000 + now.tv_nsec, r->fd,
                     r->flags != NULL ? r->flags : "-", (long long)r->offset, r->len,
                     r->rc < 0 ? -(long)kept : r->rc, path, r->to != NULL ? " to=" : "", to);
    put_all(line, (size_t)n);
    put_data(r);
    errno = kept;
}

/* --- which files -------------------------------------------------------------------------------------------- */

static bool below_dir(const char *path)
{
    size_t n = strlen(trace.dir);
    return strncmp(path, trace.dir, n) == 0 && (n == 0 || path[n] == 0 || path[n] == '/');
}

static bool path_of_fd(int fd, char out[PATH_MAX_BYTES])
{
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX_BYTES - 1);
    if (n < 0) return false;
    out[n] = 0;
    return true;
}

/* Whether `fd` is a file that counts; its path. */
static bool watched(int fd, char path[PATH_MAX_BYTES])
{
    struct stat st;
    if (!trace.on || fd == trace.fd || fstat(fd, &st) != 0) return false;
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return false;
    return path_of_fd(fd, path) && below_dir(path);
}

static bool is_socket(int fd)
{
    struct stat st;
    return trace.on && trace.sockets && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* `path` from `dirfd` on, made absolute (but not resolved). */
static bool watched_path(int dirfd, const char *path, char out[PATH_MAX_BYTES])
{
    char base[PATH_MAX_BYTES] = "";
    if (!trace.on || path == NULL) return false;
    if (path[0] != '/') {
        if (dirfd == AT_FDCWD ? getcwd(base, sizeof base - 1) == NULL : !path_of_fd(dirfd, base))
            return false;
    }
    int n = snprintf(out, PATH_MAX_BYTES, "%s%s%s", base, path[0] == '/' ? "" : "/", path);
    return n > 0 && n < PATH_MAX_BYTES && below_dir(out);
}

/* --- faults ------------------------------------------------------------------------------------------------- */

static bool strikes(bool sync, const char *path)
{
    if (trace.fail_at == 0 || !(sync ? trace.fail_syncs : trace.fail_writes)) return false;
    if (strstr(path, trace.fail_path) == NULL) return false;
    if (trace.fail_while != NULL && access(trace.fail_while, F_OK) != 0) return false;
    trace.counted++;
    return trace.counted == trace.fail_at || (trace.sticky && trace.counted > trace.fail_at);
}

static void note_failed_sync(int fd)
{
    struct stat st;
    if (trace.deaf_count == DEAF_MAX || fstat(fd, &st) != 0) return;
    trace.deaf[trace.deaf_count].dev = st.st_dev;
    trace.deaf[trace.deaf_count].ino = st.st_ino;
    trace.deaf[trace.deaf_count++].heard_fd = fd;
}

/* Whether an earlier sync of this file failed and this descriptor has not heard of it. */
static bool must_hear(int fd)
{
    struct stat st;
    if (trace.deaf_count == 0 || fstat(fd, &st) != 0) return false;
    for (unsigned i = 0; i < trace.deaf_count; i++) {
        if (trace.deaf[i].dev != st.st_dev || trace.deaf[i].ino != st.st_ino) continue;
        if (trace.deaf[i].heard_fd == fd) continue;
        trace.deaf[i] = trace.deaf[--trace.deaf_count];
        return true;
    }
    return false;
}

/* --- writes ------------------------------------------------------------------------------------------------- */

static size_t total(const struct iovec *v, int count)
{
    size_t n = 0;
    for (int i = 0; i < count; i++)
        n += v[i].iov_len;
    return n;
}

/* One write of any form; `offset` < 0: at the descriptor's own position. */
static ssize_t raw_write(int fd, const struct iovec *v, int count, int64_t offset)
{
    if (offset < 0) return syscall(SYS_writev, fd, v, count);
    return syscall(SYS_pwritev, fd, v, count, (long)offset, 0L);
}

static ssize_t half_write(int fd, const struct iovec *v, int64_t offset)
{
    struct iovec first = {v[0].iov_base, v[0].iov_len / 2};
    return raw_write(fd, &first, 1, offset);
}

static int64_t position(int fd, int64_t offset)
{
    if (offset >= 0) return offset;
    int flags = fcntl(fd, F_GETFL);
    struct stat st;
    if (flags >= 0 && (flags & O_APPEND) != 0 && fstat(fd, &st) == 0) return st.st_size;
    return lseek(fd, 0, SEEK_CUR);
}

static ssize_t failing_write(int fd, const struct iovec *v, int64_t offset)
{
    if (trace.fail_errno == 0) return half_write(fd, v, offset);
    errno = trace.fail_errno;
    return -1;
}

/* Called, and returns, with the lock held. */
static ssize_t write_file(int fd, const struct iovec *v, int count, int64_t offset,
                          const char *path)
{
    int flags = fcntl(fd, F_GETFL);
    bool durable = flags >= 0 && (flags & O_DSYNC) != 0;
    struct record r = {.kind = "WRITE",
                       .flags = durable ? "dsync" : "-",
                       .path = path,
                       .fd = fd,
                       .offset = position(fd, offset),
                       .data = v,
                       .from = trace.seq + 1};
    bool fails = strikes(false, path);
    if (durable) leave();
    ssize_t n = fails ? failing_write(fd, v, offset) : raw_write(fd, v, count, offset);
    if (durable) enter();
    if (fails && trace.fail_errno == 0) r.flags = durable ? "dsync,half" : "half";
    r.len = n > 0 ? (size_t)n : 0;
    r.rc = n;
    put_record(&r);
    return n;
}

/* A reply is recorded before it leaves: the peer may act on it at once. */
static void note_send(int fd, const struct iovec *v, int count)
{
    char path[PATH_MAX_BYTES];
    if (!path_of_fd(fd, path)) return;
    struct record r = {
        .kind = "SEND", .path = path, .fd = fd, .data = v, .len = total(v, count), .rc = 0};
    put_record(&r);
}

static ssize_t any_write(int fd, const struct iovec *v, int count, int64_t offset)
{
    char path[PATH_MAX_BYTES];
    enter();
    if (offset < 0 && is_socket(fd)) {
        note_send(fd, v, count);
        leave(); /* it may block */
        return raw_write(fd, v, count, offset);
    }
    if (!watched(fd, path)) {
        leave();
        return raw_write(fd, v, count, offset);
    }
    ssize_t n = write_file(fd, v, count, offset, path);
    leave();
    return n;
}

static struct iovec span(const void *data, size_t len)
{
    return (struct iovec){(void *)(uintptr_t)data, len};
}

ssize_t write(int fd, const void *data, size_t len)
{
    struct iovec v = span(data, len);
    return any_write(fd, &v, 1, -1);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    struct iovec v = span(data, len);
    return any_write(fd, &v, 1, at);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at)
{
    return pwrite(fd, data, len, at);
}

ssize_t writev(int fd, const struct iovec *v, int count)
{
    return any_write(fd, v, count, -1);
}

ssize_t pwritev(int fd, const struct iovec *v, int count, off_t at)
{
    return any_write(fd, v, count, at);
}

ssize_t pwritev64(int fd, const struct iovec *v, int count, off64_t at)
{
    return any_write(fd, v, count, at);
}

ssize_t pwritev2(int fd, const struct iovec *v, int count, off_t at, int flags)
{
    return flags == 0 ? any_write(fd, v, count, at)
                      : syscall(SYS_pwritev2, fd, v, count, (long)at, 0L, flags);
}

/* --- sockets ------------------------------------------------------------------------------------------------ */

static void note_if_socket(int fd, const struct iovec *v, int count)
{
    enter();
    if (is_socket(fd)) note_send(fd, v, count);
    leave();
}

ssize_t send(int fd, const void *data, size_t len, int flags)
{
    struct iovec v = span(data, len);
    note_if_socket(fd, &v, 1);
    return syscall(SYS_sendto, fd, data, len, flags, NULL, 0);
}

ssize_t sendto(int fd, const void *data, size_t len, int flags, __CONST_SOCKADDR_ARG to,
               socklen_t to_len)
{
    struct iovec v = span(data, len);
    note_if_socket(fd, &v, 1);
    return syscall(SYS_sendto, fd, data, len, flags, to.__sockaddr__, to_len);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    note_if_socket(fd, m->msg_iov, (int)m->msg_iovlen);
    return syscall(SYS_sendmsg, fd, m, flags);
}

int sendmmsg(int fd, struct mmsghdr *m, unsigned count, int flags)
{
    for (unsigned i = 0; i < count; i++)
        note_if_socket(fd, m[i].msg_hdr.msg_iov, (int)m[i].msg_hdr.msg_iovlen);
    return (int)syscall(SYS_sendmmsg, fd, m, count, flags);
}

/* --- syncs and sizes ----------------------------------------------------------------------------------------- */

static int any_sync(int fd, long number, const char *kind)
{
    char path[PATH_MAX_BYTES];
    enter();
    if (!watched(fd, path)) {
        leave();
        return (int)syscall(number, fd);
    }
    if (trace.skip_sync != NULL && strstr(path, trace.skip_sync) != NULL) {
        leave();
        return 0;
    }
    struct record r = {.kind = kind, .path = path, .fd = fd, .rc = -1, .from = trace.seq + 1};
    if (must_hear(fd)) {
        errno = EIO;
    } else if (strikes(true, path)) {
        note_failed_sync(fd);
        errno = trace.fail_errno != 0 ? trace.fail_errno : EIO;
    } else {
        leave();
        r.rc = syscall(number, fd);
        enter();
    }
    put_record(&r);
    int rc = (int)r.rc;
    leave();
    return rc;
}

int fdatasync(int fd)
{
    return any_sync(fd, SYS_fdatasync, "SYNC");
}

int fsync(int fd)
{
    return any_sync(fd, SYS_fsync, "FSYNC");
}

int ftruncate(int fd, off_t size)
{
    char path[PATH_MAX_BYTES];
    enter();
    bool ours = watched(fd, path);
    int rc = (int)syscall(SYS_ftruncate, fd, size);
    struct record r = {.kind = "TRUNCATE", .path = path, .fd = fd, .offset = size, .rc = rc};
    if (ours) put_record(&r);
    leave();
    return rc;
}

int ftruncate64(int fd, off64_t size)
{
    return ftruncate(fd, size);
}

/* `off` of the record is the size that the file has at least afterwards. */
int fallocate(int fd, int mode, off_t at, off_t len)
{
    char path[PATH_MAX_BYTES];
    enter();
    bool ours = watched(fd, path);
    int rc = -1;
    if (ours && strikes(false, path)) {
        errno = trace.fail_errno != 0 ? trace.fail_errno : ENOSPC;
    } else {
        rc = (int)syscall(SYS_fallocate, fd, mode, at, len);
    }
    struct record r = {.kind = "ALLOCATE",
                       .flags = mode == 0 ? "-" : "mode",
                       .path = path,
                       .fd = fd,
                       .offset = at + len,
                       .rc = rc};
    if (ours) put_record(&r);
    leave();
    return rc;
}

int fallocate64(int fd, int mode, off64_t at, off64_t len)
{
    return fallocate(fd, mode, at, len);
}

int posix_fallocate(int fd, off_t at, off_t len)
{
    return fallocate(fd, 0, at, len) == 0 ? 0 : errno;
}

/* --- names ---------------------------------------------------------------------------------------------------- */

static int open_at(int dirfd, const char *path, int flags, mode_t mode)
{
    char full[PATH_MAX_BYTES];
    enter();
    bool changes = (flags & (O_CREAT | O_TRUNC)) != 0 && watched_path(dirfd, path, full);
    struct stat st;
    bool there = changes && stat(full, &st) == 0;
    int fd = (int)syscall(SYS_openat, dirfd, path, flags, mode);
    bool cut = there && (flags & O_TRUNC) != 0;
    if (changes && fd >= 0 && (!there || cut)) {
        struct record r = {
            .kind = "OPEN", .flags = there ? "trunc" : "create", .path = full, .fd = fd, .rc = fd};
        put_record(&r);
    }
    leave();
    return fd;
}

static mode_t mode_of(int flags, va_list args)
{
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? (mode_t)va_arg(args, unsigned) : 0;
}

#define OPEN_LIKE(name)                                                                            \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode_t mode = mode_of(flags, args);                                                        \
        va_end(args);                                                                              \
        return open_at(AT_FDCWD, path, flags, mode);                                               \
    }

#define OPENAT_LIKE(name)                                                                          \
    int name(int dirfd, const char *path, int flags, ...)                                          \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode_t mode = mode_of(flags, args);                                                        \
        va_end(args);                                                                              \
        return open_at(dirfd, path, flags, mode);                                                  \
    }

OPEN_LIKE(open)
OPEN_LIKE(open64)
OPENAT_LIKE(openat)
OPENAT_LIKE(openat64)

int creat(const char *path, mode_t mode)
{
    return open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

/* A call on one or two names: recorded when either counts. */
static int named(const char *kind, int from_fd, const char *from, int to_fd, const char *to,
                 long rc)
{
    char a[PATH_MAX_BYTES], b[PATH_MAX_BYTES];
    int kept = errno;
    bool ours = watched_path(from_fd, from, a);
    if (to != NULL) ours |= watched_path(to_fd, to, b);
    errno = kept;
    struct record r = {.kind = kind, .path = a, .to = to != NULL ? b : NULL, .fd = -1, .rc = rc};
    if (ours) put_record(&r);
    leave();
    return (int)rc;
}

int rename(const char *from, const char *to)
{
    enter();
    long rc = syscall(SYS_rename, from, to);
    return named("RENAME", AT_FDCWD, from, AT_FDCWD, to, rc);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    enter();
    long rc = syscall(SYS_renameat, from_fd, from, to_fd, to);
    return named("RENAME", from_fd, from, to_fd, to, rc);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    enter();
    long rc = syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
    return named("RENAME", from_fd, from, to_fd, to, rc);
}

int link(const char *from, const char *to)
{
    enter();
    long rc = syscall(SYS_link, from, to);
    return named("LINK", AT_FDCWD, from, AT_FDCWD, to, rc);
}

int unlink(const char *path)
{
    enter();
    long rc = syscall(SYS_unlink, path);
    return named("UNLINK", AT_FDCWD, path, 0, NULL, rc);
}

int unlinkat(int dirfd, const char *path, int flags)
{
    enter();
    long rc = syscall(SYS_unlinkat, dirfd, path, flags);
    return named((flags & AT_REMOVEDIR) != 0 ? "RMDIR" : "UNLINK", dirfd, path, 0, NULL, rc);
}

int mkdir(const char *path, mode_t mode)
{
    enter();
    long rc = syscall(SYS_mkdir, path, mode);
    return named("MKDIR", AT_FDCWD, path, 0, NULL, rc);
}

int mkdirat(int dirfd, const char *path, mode_t mode)
{
    enter();
    long rc = syscall(SYS_mkdirat, dirfd, path, mode);
    return named("MKDIR", dirfd, path, 0, NULL, rc);
}

int rmdir(const char *path)
{
    enter();
    long rc = syscall(SYS_rmdir, path);
    return named("RMDIR", AT_FDCWD, path, 0, NULL, rc);
}
