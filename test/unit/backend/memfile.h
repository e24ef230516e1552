/* One file in memory behind `struct disk`, for the walker: reading it costs no system call. */
#ifndef TEST_UNIT_BACKEND_MEMFILE_H
#define TEST_UNIT_BACKEND_MEMFILE_H

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "env/disk.h"

struct memfile {
    struct disk disk;
    uint8_t *data;
    size_t len;
    size_t read_count;
    size_t fail_read_at; /* the n-th read is E_IO; 0: none */
};

static inline int memfile__open(void *arg, const char *path, unsigned flags, uint32_t mode,
                                struct disk_file **out)
{
    (void)path;
    (void)flags;
    (void)mode;
    *out = arg;
    return 0;
}

static inline void memfile__close(void *arg, struct disk_file *f)
{
    (void)arg;
    (void)f;
}

static inline int memfile__read(void *arg, struct disk_file *f, uint64_t offset, void *data,
                                size_t len, size_t *got)
{
    struct memfile *m = arg;
    (void)f;
    m->read_count++;
    if (m->read_count == m->fail_read_at) return E_IO;
    size_t left = offset < m->len ? m->len - (size_t)offset : 0;
    *got = len < left ? len : left;
    if (*got != 0) memcpy(data, m->data + offset, *got);
    return 0;
}

static inline int memfile__stat(void *arg, struct disk_file *f, struct disk_stat *out)
{
    struct memfile *m = arg;
    (void)f;
    *out = (struct disk_stat){.size_bytes = m->len, .mode = 0600};
    return 0;
}

/* `m` must stay in place; `data` is borrowed as long as it is used. */
static inline void memfile_init(struct memfile *m, uint8_t *data, size_t len)
{
    *m = (struct memfile){.data = data, .len = len};
    m->disk = (struct disk){.open = memfile__open,
                            .close = memfile__close,
                            .read = memfile__read,
                            .file_stat = memfile__stat,
                            .arg = m};
}

#endif
