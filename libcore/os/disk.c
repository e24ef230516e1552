/* env/disk.h over Linux system calls.
 *
 * Reads and writes are positional, so a handle has no state but its descriptor. A failed fdatasync
 * is not tried again, not even after EINTR: what the kernel then says about the earlier pages is
 * not known. */
#include "os/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/err.h"
#include "os/heap.h"

struct disk_file {
    int fd;
};

static int open_flags(unsigned flags)
{
    int oflags = O_CLOEXEC | O_NONBLOCK | ((flags & DISK_WRITE) != 0 ? O_RDWR : O_RDONLY);
    if ((flags & DISK_CREATE) != 0) oflags |= O_CREAT;
    if ((flags & DISK_EXCLUSIVE) != 0) oflags |= O_EXCL;
    if ((flags & DISK_TRUNCATE) != 0) oflags |= O_TRUNC;
    return oflags;
}

static int open_retry(const char *path, int oflags, uint32_t mode)
{
    int fd = -1;
    do {
        fd = open(path, oflags, (mode_t)mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* A pipe in a file's place would block, a folder is none. */
static int check_regular(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0) return err_from_errno(errno);
    return S_ISFIFO(st.st_mode) || S_ISDIR(st.st_mode) ? E_NOT_REGULAR : 0;
}

static int disk_open(void *arg, const char *path, unsigned flags, uint32_t mode,
                     struct disk_file **out)
{
    (void)arg;
    struct disk_file *f = alloc_new(&os_heap, sizeof *f);
    if (f == NULL) return E_NOMEM;
    f->fd = open_retry(path, open_flags(flags), mode);
    int rc = f->fd < 0 ? err_from_errno(errno) : check_regular(f->fd);
    if (rc < 0) {
        if (f->fd >= 0) (void)close(f->fd);
        alloc_free(&os_heap, f, sizeof *f);
        return rc;
    }
    *out = f;
    return 0;
}

static void disk_close(void *arg, struct disk_file *f)
{
    (void)arg;
    if (f == NULL) return;
    (void)close(
        f->fd); /* Linux frees the descriptor whatever it returns; data safety is datasync's */
    alloc_free(&os_heap, f, sizeof *f);
}

static int disk_read(void *arg, struct disk_file *f, uint64_t offset, void *data, size_t len,
                     size_t *got)
{
    (void)arg;
    size_t done = 0;
    while (done < len) {
        ssize_t n = pread(f->fd, (char *)data + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_from_errno(errno);
        if (n == 0) break;
        done += (size_t)n;
    }
    *got = done;
    return 0;
}

static int disk_write(void *arg, struct disk_file *f, uint64_t offset, struct bytes data)
{
    (void)arg;
    size_t done = 0;
    while (done < data.len) {
        ssize_t n = pwrite(f->fd, data.data + done, data.len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_from_errno(errno);
        if (n == 0) return E_IO; /* never on a regular file; would loop for ever */
        done += (size_t)n;
    }
    return 0;
}

static int disk_datasync(void *arg, struct disk_file *f)
{
    (void)arg;
    if (fdatasync(f->fd) == 0) return 0;
    int rc = err_from_errno(errno);
    return rc == E_NOSPACE ? rc : E_IO;
}

static int disk_truncate(void *arg, struct disk_file *f, uint64_t size_bytes)
{
    (void)arg;
    while (ftruncate(f->fd, (off_t)size_bytes) != 0) {
        if (errno != EINTR) return err_from_errno(errno);
    }
    return 0;
}

static int disk_file_stat(void *arg, struct disk_file *f, struct disk_stat *out)
{
    (void)arg;
    struct stat st;
    if (fstat(f->fd, &st) != 0) return err_from_errno(errno);
    *out = (struct disk_stat){.size_bytes = (uint64_t)st.st_size,
                              .mode = st.st_mode & 07777U,
                              .is_dir = S_ISDIR(st.st_mode)};
    return 0;
}

/* File systems without fallocate still get a file of that length; its blocks are then not reserved.
 */
static int disk_allocate(void *arg, struct disk_file *f, uint64_t size_bytes)
{
    if (size_bytes == 0) return 0;
    while (fallocate(f->fd, 0, 0, (off_t)size_bytes) != 0) {
        if (errno == EINTR) continue;
        if (errno != EOPNOTSUPP && errno != ENOSYS) return err_from_errno(errno);
        struct disk_stat st;
        int rc = disk_file_stat(arg, f, &st);
        if (rc < 0) return rc;
        return st.size_bytes < size_bytes ? disk_truncate(arg, f, size_bytes) : 0;
    }
    return 0;
}

static int disk_lock(void *arg, struct disk_file *f, bool wait)
{
    (void)arg;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    while (fcntl(f->fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &whole) != 0) {
        if (errno == EINTR) continue;
        if (errno == EAGAIN || errno == EACCES) return E_LOCKED;
        return err_from_errno(errno);
    }
    return 0;
}

static int disk_stat_path(void *arg, const char *path, struct disk_stat *out)
{
    (void)arg;
    struct stat st;
    if (stat(path, &st) != 0) return err_from_errno(errno);
    *out = (struct disk_stat){.size_bytes = (uint64_t)st.st_size,
                              .mode = st.st_mode & 07777U,
                              .is_dir = S_ISDIR(st.st_mode)};
    return 0;
}

static int result(int rc)
{
    return rc == 0 ? 0 : err_from_errno(errno);
}

static int disk_mkdir(void *arg, const char *path, uint32_t mode)
{
    (void)arg;
    return result(mkdir(path, (mode_t)mode));
}

static int disk_rename(void *arg, const char *from, const char *to)
{
    (void)arg;
    return result(rename(from, to));
}

static int disk_unlink(void *arg, const char *path)
{
    (void)arg;
    return result(unlink(path));
}

static int disk_rmdir(void *arg, const char *path)
{
    (void)arg;
    return result(rmdir(path));
}

static int disk_list(void *arg, const char *path, disk_list_fn fn, void *fn_arg)
{
    (void)arg;
    DIR *dir = opendir(path);
    if (dir == NULL) return err_from_errno(errno);
    int rc = 0;
    while (rc == 0) {
        errno = 0;
        const struct dirent *e = readdir(dir);
        if (e == NULL) {
            if (errno != 0) rc = err_from_errno(errno);
            break;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        rc = fn(fn_arg, e->d_name);
    }
    (void)closedir(dir);
    return rc;
}

static int disk_sync_dir(void *arg, const char *path)
{
    (void)arg;
    int fd = open_retry(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return err_from_errno(errno);
    int rc = fsync(fd) == 0 ? 0 : E_IO;
    (void)close(fd);
    return rc;
}

static const struct disk real = {
    .open = disk_open,
    .close = disk_close,
    .read = disk_read,
    .write = disk_write,
    .datasync = disk_datasync,
    .truncate = disk_truncate,
    .allocate = disk_allocate,
    .file_stat = disk_file_stat,
    .lock = disk_lock,
    .stat = disk_stat_path,
    .mkdir = disk_mkdir,
    .rename = disk_rename,
    .unlink = disk_unlink,
    .rmdir = disk_rmdir,
    .list = disk_list,
    .sync_dir = disk_sync_dir,
    .arg = NULL,
};

const struct disk *os_disk(void)
{
    return &real;
}

int os_disk_fd(const struct disk_file *f)
{
    ASSERT(f != NULL);
    return f->fd;
}
