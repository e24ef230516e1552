/* The ballast: a file that is only there to be removed; see backend.h. */
#include "backend/backend.h"
#include "base/assert.h"
#include "base/err.h"

static int fail(int rc, const char *path, struct errmsg *em)
{
    if (rc < 0) errmsg_set(em, "%s: %s", path, err_text(rc));
    return rc;
}

int backend_ballast_create(const struct disk *disk, const char *path, uint64_t bytes,
                           struct errmsg *em)
{
    ASSERT(path != NULL);
    struct disk_stat st;
    if (disk->stat(disk->arg, path, &st) == 0 && st.size_bytes == bytes) return 0;
    struct disk_file *f = NULL;
    int rc = disk->open(disk->arg, path, DISK_WRITE | DISK_CREATE | DISK_TRUNCATE, 0600, &f);
    if (rc < 0) return fail(rc, path, em);
    rc = disk->allocate(disk->arg, f, bytes);
    disk->close(disk->arg, f);
    if (rc < 0) (void)disk->unlink(disk->arg, path);
    return fail(rc, path, em);
}

int backend_ballast_release(const struct disk *disk, const char *path, struct errmsg *em)
{
    ASSERT(path != NULL);
    int rc = disk->unlink(disk->arg, path);
    return rc == E_NOENT ? 0 : fail(rc, path, em);
}
