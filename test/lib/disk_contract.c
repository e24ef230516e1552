/* Cases for any `struct disk`. */
#include "disk_contract.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

enum { PATH_BYTES = 512 };

static const char *path_in(char out[PATH_BYTES], const char *dir, const char *name)
{
    int n = snprintf(out, PATH_BYTES, "%s/%s", dir, name);
    assert_true(n > 0 && n < PATH_BYTES);
    return out;
}

static struct disk_file *open_ok(const struct disk *d, const char *path, unsigned flags)
{
    struct disk_file *f = NULL;
    assert_int_equal(d->open(d->arg, path, flags, 0600, &f), 0);
    assert_non_null(f);
    return f;
}

void disk_contract_read_write(const struct disk *d, const char *dir)
{
    char path[PATH_BYTES];
    char data[32] = {0};
    size_t got = 99;
    struct disk_file *f = open_ok(d, path_in(path, dir, "f"), DISK_WRITE | DISK_CREATE);
    assert_int_equal(d->read(d->arg, f, 0, data, sizeof data, &got), 0);
    assert_int_equal(got, 0);
    assert_int_equal(d->write(d->arg, f, 4096 - 3, bytes_str("across")), 0);
    assert_int_equal(d->write(d->arg, f, 4096, bytes_str("OSS")), 0);
    assert_int_equal(d->write(d->arg, f, 0, BYTES_EMPTY), 0);
    assert_int_equal(d->datasync(d->arg, f), 0);
    assert_int_equal(d->read(d->arg, f, 4096 - 4, data, sizeof data, &got), 0);
    assert_int_equal(got, 7);
    assert_memory_equal(data, "\0acrOSS", 7);
    assert_int_equal(d->read(d->arg, f, 1 << 20, data, sizeof data, &got), 0);
    assert_int_equal(got, 0);
    d->close(d->arg, f);
}

void disk_contract_open_flags(const struct disk *d, const char *dir)
{
    char path[PATH_BYTES];
    struct disk_stat st;
    struct disk_file *f = NULL;
    path_in(path, dir, "f");
    assert_int_equal(d->open(d->arg, path, DISK_READ, 0, &f), E_NOENT);
    assert_int_equal(d->stat(d->arg, path, &st), E_NOENT);
    f = open_ok(d, path, DISK_WRITE | DISK_CREATE | DISK_EXCLUSIVE);
    assert_int_equal(d->write(d->arg, f, 0, bytes_str("x")), 0);
    d->close(d->arg, f);
    assert_int_equal(d->open(d->arg, path, DISK_WRITE | DISK_CREATE | DISK_EXCLUSIVE, 0600, &f),
                     E_EXIST);
    f = open_ok(d, path, DISK_READ);
    assert_true(d->write(d->arg, f, 0, bytes_str("x")) < 0);
    d->close(d->arg, f);
    f = open_ok(d, path, DISK_WRITE | DISK_TRUNCATE);
    assert_int_equal(d->file_stat(d->arg, f, &st), 0);
    assert_int_equal(st.size_bytes, 0);
    assert_int_equal(st.mode, 0600);
    assert_false(st.is_dir);
    d->close(d->arg, f);
}

void disk_contract_sizes(const struct disk *d, const char *dir)
{
    char path[PATH_BYTES];
    char data[4] = "zzz";
    size_t got = 0;
    struct disk_stat st;
    struct disk_file *f = open_ok(d, path_in(path, dir, "f"), DISK_WRITE | DISK_CREATE);
    assert_int_equal(d->allocate(d->arg, f, 10000), 0);
    assert_int_equal(d->file_stat(d->arg, f, &st), 0);
    assert_int_equal(st.size_bytes, 10000);
    assert_int_equal(d->allocate(d->arg, f, 100), 0); /* never shrinks */
    assert_int_equal(d->stat(d->arg, path, &st), 0);
    assert_int_equal(st.size_bytes, 10000);
    assert_int_equal(d->write(d->arg, f, 0, bytes_str("abcdef")), 0);
    assert_int_equal(d->truncate(d->arg, f, 3), 0);
    assert_int_equal(d->truncate(d->arg, f, 6),
                     0); /* what was cut off is zeros, not the old bytes */
    assert_int_equal(d->read(d->arg, f, 2, data, sizeof data, &got), 0);
    assert_int_equal(got, 4);
    assert_memory_equal(data, "c\0\0\0", 4);
    d->close(d->arg, f);
}

void disk_contract_locks(const struct disk *d, const char *dir)
{
    char path[PATH_BYTES];
    struct disk_file *a = open_ok(d, path_in(path, dir, "f"), DISK_WRITE | DISK_CREATE);
    struct disk_file *b = open_ok(d, path, DISK_WRITE);
    assert_int_equal(d->lock(d->arg, a, false), 0);
    assert_int_equal(d->lock(d->arg, a, false), 0); /* one's own lock is no obstacle */
    assert_int_equal(d->lock(d->arg, b, false), E_LOCKED);
    d->close(d->arg, a);
    assert_int_equal(d->lock(d->arg, b, true), 0);
    d->close(d->arg, b);
}

void disk_contract_names(const struct disk *d, const char *dir)
{
    char a[PATH_BYTES];
    char b[PATH_BYTES];
    char sub[PATH_BYTES];
    char in_sub[PATH_BYTES];
    struct disk_stat st;
    path_in(a, dir, "a");
    path_in(b, dir, "b");
    path_in(in_sub, path_in(sub, dir, "sub"), "f");
    assert_int_equal(d->mkdir(d->arg, sub, 0700), 0);
    assert_int_equal(d->mkdir(d->arg, sub, 0700), E_EXIST);
    assert_int_equal(d->stat(d->arg, sub, &st), 0);
    assert_true(st.is_dir);
    assert_int_equal(st.mode, 0700);
    d->close(d->arg, open_ok(d, in_sub, DISK_WRITE | DISK_CREATE));
    assert_int_equal(d->rmdir(d->arg, sub), E_EXIST);
    assert_int_equal(d->unlink(d->arg, a), E_NOENT);
    assert_int_equal(d->rename(d->arg, a, b), E_NOENT);
    struct disk_file *f = open_ok(d, a, DISK_WRITE | DISK_CREATE);
    assert_int_equal(d->rename(d->arg, a, b), 0);
    assert_int_equal(d->write(d->arg, f, 0, bytes_str("content")), 0);
    d->close(d->arg, f);
    assert_int_equal(d->stat(d->arg, a, &st), E_NOENT);
    assert_int_equal(d->rename(d->arg, b, in_sub), 0); /* replaces */
    assert_int_equal(d->stat(d->arg, in_sub, &st), 0);
    assert_int_equal(st.size_bytes, 7);
    assert_int_equal(d->sync_dir(d->arg, sub), 0);
    assert_int_equal(d->sync_dir(d->arg, a), E_NOENT);
    assert_int_equal(d->unlink(d->arg, in_sub), 0);
    assert_int_equal(d->rmdir(d->arg, sub), 0);
    assert_int_equal(d->rmdir(d->arg, sub), E_NOENT);
}

struct seen {
    unsigned bits;
    unsigned calls;
    int answer;
};

static int note_name(void *arg, const char *name)
{
    struct seen *s = arg;
    assert_true(name[0] >= 'a' && name[0] <= 'c' && name[1] == 0);
    s->bits |= 1U << (name[0] - 'a');
    s->calls++;
    return s->answer;
}

void disk_contract_list(const struct disk *d, const char *dir)
{
    char path[PATH_BYTES];
    struct seen s = {0};
    assert_int_equal(d->list(d->arg, dir, note_name, &s), 0);
    assert_int_equal(s.calls, 0);
    d->close(d->arg, open_ok(d, path_in(path, dir, "a"), DISK_WRITE | DISK_CREATE));
    d->close(d->arg, open_ok(d, path_in(path, dir, "b"), DISK_WRITE | DISK_CREATE));
    assert_int_equal(d->mkdir(d->arg, path_in(path, dir, "c"), 0700), 0);
    assert_int_equal(d->list(d->arg, dir, note_name, &s), 0);
    assert_int_equal(s.bits, 7);
    assert_int_equal(s.calls, 3);
    struct seen stop = {.answer = 42};
    assert_int_equal(d->list(d->arg, dir, note_name, &stop), 42);
    assert_int_equal(stop.calls, 1);
    assert_int_equal(d->list(d->arg, path_in(path, dir, "none"), note_name, &s), E_NOENT);
}
