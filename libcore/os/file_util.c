/* Whole files: read, write in one step, folders on the way. */
#include "os/file_util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

enum { READ_STEP_BYTES = 64 * 1024, PATH_BYTES_MAX = 4096 };

static int fail(const char *what, const char *path, int rc, struct errmsg *em)
{
    errmsg_set(em, "%s \"%s\": %s", what, path, err_text(rc));
    return rc;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Room for a step, or, when the bound leaves less, for that; one byte at least, so that the end can
 * be told from the bound. */
static int reserve_step(struct buf *out, size_t *room)
{
    size_t left = out->bytes_max - out->len;
    *room = left < READ_STEP_BYTES ? left : READ_STEP_BYTES;
    return buf_reserve(out, *room);
}

/* A bound that is used up may still be a file that just fits: one more byte tells. */
static int read_rest(const struct disk *d, struct disk_file *f, struct buf *out)
{
    uint64_t offset = 0;
    for (;;) {
        uint8_t extra = 0;
        size_t room = 0;
        size_t got = 0;
        int rc = reserve_step(out, &room);
        if (rc < 0) return rc;
        uint8_t *to = room > 0 ? out->data + out->len : &extra;
        rc = d->read(d->arg, f, offset, to, room > 0 ? room : 1, &got);
        if (rc < 0) return rc;
        if (room == 0) return got > 0 ? E_TOOBIG : 0;
        out->len += got;
        offset += got;
        if (got < room) return 0;
    }
}

int file_read_all(const struct disk *d, const char *path, struct buf *out, struct errmsg *em)
{
    struct disk_file *f = NULL;
    size_t before = out->len;
    int rc = d->open(d->arg, path, DISK_READ, 0, &f);
    if (rc == 0) rc = read_rest(d, f, out);
    if (f != NULL) d->close(d->arg, f);
    if (rc == 0) return 0;
    out->len = before;
    return fail("cannot read", path, rc, em);
}

int file_read_fd(int fd, struct buf *out, struct errmsg *em)
{
    size_t before = out->len;
    int rc = 0;
    for (;;) {
        uint8_t extra = 0;
        size_t room = 0;
        rc = reserve_step(out, &room);
        if (rc < 0) break;
        ssize_t n = read(fd, room > 0 ? out->data + out->len : &extra, room > 0 ? room : 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) rc = err_from_errno(errno);
        if (n > 0 && room == 0) rc = E_TOOBIG;
        if (n <= 0 || room == 0) break;
        out->len += (size_t)n;
    }
    if (rc == 0) return 0;
    out->len = before;
    errmsg_set(em, "cannot read input: %s", err_text(rc));
    return rc;
}

/* --- folders ---------------------------------------------------------------------------------- */

static int mkdir_one(const struct disk *d, const char *path, uint32_t mode)
{
    struct disk_stat st;
    int rc = d->mkdir(d->arg, path, mode);
    if (rc != E_EXIST) return rc;
    rc = d->stat(d->arg, path, &st);
    if (rc < 0) return rc;
    return st.is_dir ? 0 : E_EXIST;
}

int file_mkdir_all(const struct disk *d, const char *path, uint32_t mode, struct errmsg *em)
{
    char part[PATH_BYTES_MAX];
    struct disk_stat st;
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof part) return fail("cannot make folder", path, E_INVAL, em);
    if (d->stat(d->arg, path, &st) == 0 && st.is_dir) return 0;
    memcpy(part, path, len + 1);
    int rc = 0;
    for (size_t i = 1; i <= len && rc == 0; i++) {
        if (part[i] != '/' && part[i] != 0) continue;
        part[i] = 0;
        rc = mkdir_one(d, part, mode);
        if (rc < 0) return fail("cannot make folder", part, rc, em);
        part[i] = path[i];
    }
    return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* The folder that holds `path`. */
static void parent(const char *path, char out[PATH_BYTES_MAX])
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        memcpy(out, ".", 2);
        return;
    }
    size_t len = slash == path ? 1 : (size_t)(slash - path);
    memcpy(out, path, len);
    out[len] = 0;
}

static int write_new(const struct disk *d, const char *path, struct bytes content, uint32_t mode)
{
    struct disk_file *f = NULL;
    int rc = d->open(d->arg, path, DISK_WRITE | DISK_CREATE | DISK_TRUNCATE, mode, &f);
    if (rc < 0) return rc;
    rc = d->write(d->arg, f, 0, content);
    if (rc == 0) rc = d->datasync(d->arg, f);
    d->close(d->arg, f);
    return rc;
}

int file_write_atomic(const struct disk *d, const char *path, struct bytes content, uint32_t mode,
                      struct errmsg *em)
{
    char temp[PATH_BYTES_MAX];
    char dir[PATH_BYTES_MAX];
    int n = snprintf(temp, sizeof temp, "%s.tmp", path);
    if (n < 0 || n >= PATH_BYTES_MAX) return fail("cannot write", path, E_INVAL, em);
    int rc = write_new(d, temp, content, mode);
    if (rc == 0) rc = d->rename(d->arg, temp, path);
    if (rc < 0) {
        (void)d->unlink(d->arg, temp);
        return fail("cannot write", path, rc, em);
    }
    parent(path, dir);
    rc = d->sync_dir(d->arg, dir);
    return rc == 0 ? 0 : fail("cannot sync folder of", path, rc, em);
}

int file_write_fd(int fd, struct bytes data)
{
    for (size_t done = 0; done < data.len;) {
        ssize_t n = write(fd, data.data + done, data.len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_from_errno(errno);
        done += (size_t)n;
    }
    return 0;
}
