/* Plain system calls; see realdisk.h. */
#include "realdisk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

struct disk_file {
    int fd;
};

static int result(int rc)
{
    return rc < 0 ? err_from_errno(errno) : 0;
}

static int file_open(void *arg, const char *path, unsigned flags, uint32_t mode,
                     struct disk_file **out)
{
    (void)arg;
    int how = (flags & DISK_WRITE) != 0 ? O_RDWR : O_RDONLY;
    if ((flags & DISK_CREATE) != 0) how |= O_CREAT;
    if ((flags & DISK_EXCLUSIVE) != 0) how |= O_EXCL;
    if ((flags & DISK_TRUNCATE) != 0) how |= O_TRUNC;
    int fd = open(path, how | O_CLOEXEC, (mode_t)mode);
    if (fd < 0) return result(fd);
    struct disk_file *f = malloc(sizeof *f);
    if (f == NULL) abort();
    f->fd = fd;
    *out = f;
    return 0;
}

static void file_close(void *arg, struct disk_file *f)
{
    (void)arg;
    (void)close(f->fd);
    free(f);
}

static int file_read(void *arg, struct disk_file *f, uint64_t offset, void *data, size_t len,
                     size_t *got)
{
    (void)arg;
    size_t done = 0;
    while (done < len) {
        ssize_t n = pread(f->fd, (char *)data + done, len - done, (off_t)(offset + done));
        if (n < 0) return result(-1);
        if (n == 0) break;
        done += (size_t)n;
    }
    *got = done;
    return 0;
}

static int file_write(void *arg, struct disk_file *f, uint64_t offset, struct bytes data)
{
    (void)arg;
    ssize_t n = pwrite(f->fd, data.data, data.len, (off_t)offset);
    if (n >= 0 && (size_t)n != data.len) return E_IO;
    return result(n < 0 ? -1 : 0);
}

static int file_datasync(void *arg, struct disk_file *f)
{
    (void)arg;
    return result(fdatasync(f->fd));
}

static int file_truncate(void *arg, struct disk_file *f, uint64_t size_bytes)
{
    (void)arg;
    return result(ftruncate(f->fd, (off_t)size_bytes));
}

static int file_allocate(void *arg, struct disk_file *f, uint64_t size_bytes)
{
    (void)arg;
    return result(fallocate(f->fd, 0, 0, (off_t)size_bytes));
}

static int stat_result(int rc, const struct stat *st, struct disk_stat *out)
{
    if (rc < 0) return result(rc);
    out->size_bytes = (uint64_t)st->st_size;
    out->mode = st->st_mode & 07777U;
    out->is_dir = S_ISDIR(st->st_mode);
    return 0;
}

static int file_stat(void *arg, struct disk_file *f, struct disk_stat *out)
{
    (void)arg;
    struct stat st;
    int rc = fstat(f->fd, &st);
    return stat_result(rc, &st, out);
}

static int file_lock(void *arg, struct disk_file *f, bool wait)
{
    (void)arg;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int rc = fcntl(f->fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &whole);
    return rc < 0 && (errno == EAGAIN || errno == EACCES) ? E_LOCKED : result(rc);
}

static int path_stat(void *arg, const char *path, struct disk_stat *out)
{
    (void)arg;
    struct stat st;
    int rc = stat(path, &st);
    return stat_result(rc, &st, out);
}

static int path_mkdir(void *arg, const char *path, uint32_t mode)
{
    (void)arg;
    return result(mkdir(path, (mode_t)mode));
}

static int path_rename(void *arg, const char *from, const char *to)
{
    (void)arg;
    return result(rename(from, to));
}

static int path_unlink(void *arg, const char *path)
{
    (void)arg;
    return result(unlink(path));
}

static int path_rmdir(void *arg, const char *path)
{
    (void)arg;
    return result(rmdir(path));
}

static int path_list(void *arg, const char *path, disk_list_fn fn, void *fn_arg)
{
    (void)arg;
    DIR *d = opendir(path);
    if (d == NULL) return result(-1);
    int rc = 0;
    for (struct dirent *e = readdir(d); e != NULL && rc == 0; e = readdir(d)) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) rc = fn(fn_arg, e->d_name);
    }
    (void)closedir(d);
    return rc;
}

static int path_sync_dir(void *arg, const char *path)
{
    (void)arg;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return result(fd);
    int rc = result(fsync(fd));
    (void)close(fd);
    return rc;
}

const struct disk *realdisk(void)
{
    static const struct disk face = {
        .open = file_open,
        .close = file_close,
        .read = file_read,
        .write = file_write,
        .datasync = file_datasync,
        .truncate = file_truncate,
        .allocate = file_allocate,
        .file_stat = file_stat,
        .lock = file_lock,
        .stat = path_stat,
        .mkdir = path_mkdir,
        .rename = path_rename,
        .unlink = path_unlink,
        .rmdir = path_rmdir,
        .list = path_list,
        .sync_dir = path_sync_dir,
    };
    return &face;
}

/* Syncs of memory cost nothing; tests make thousands, and none of them cuts the power of this machine. */
static const char *base_folder(void)
{
    const char *base = getenv("TMPDIR");
    if (base != NULL) return base;
    return access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
}

void realdisk_folder(const char *name, char out[REALDISK_PATH_BYTES_MAX])
{
    int n = snprintf(out, REALDISK_PATH_BYTES_MAX, "%s/%s.XXXXXX", base_folder(), name);
    if (n < 0 || n >= REALDISK_PATH_BYTES_MAX || mkdtemp(out) == NULL) abort();
}

static int remove_one(void *arg, const char *name)
{
    const char *folder = arg;
    char path[REALDISK_PATH_BYTES_MAX * 2];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)unlink(path);
    return 0;
}

void realdisk_remove(const char *folder)
{
    char copy[REALDISK_PATH_BYTES_MAX];
    (void)snprintf(copy, sizeof copy, "%s", folder);
    (void)path_list(NULL, folder, remove_one, copy);
    (void)rmdir(folder);
}
