/* Whole files: bounds, folders, and what an atomic write leaves behind at every point of a crash or
 * failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "os/file_util.h"
#include "simdisk.h"
#include "test_heap.h"

static void a_file_is_read_whole_or_not_at_all(void **state)
{
    (void)state;
    static uint8_t content[200000];
    memset(content, 'c', sizeof content);
    struct simdisk *d = simdisk_new();
    simdisk_put_file(d, "f", bytes_of(content, sizeof content));
    static const struct {
        size_t bound;
        int rc;
    } rows[] = {{SIZE_MAX, 0},
                {sizeof content + 2, 0},
                {sizeof content + 1, E_TOOBIG},
                {100, E_TOOBIG},
                {2, E_TOOBIG}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct test_heap h;
        struct buf b;
        struct errmsg em = {""};
        test_heap_init(&h);
        buf_init(&b, &h.alloc, rows[i].bound);
        assert_int_equal(buf_put_str(&b, "ab"), 0);
        assert_int_equal(file_read_all(simdisk_face(d), "f", &b, &em), rows[i].rc);
        assert_int_equal(b.len, rows[i].rc == 0 ? sizeof content + 2 : 2);
        if (rows[i].rc < 0)
            assert_string_equal(em.text, "cannot read \"f\": larger than its limit");
        buf_deinit(&b);
        test_heap_check_empty(&h);
    }
    simdisk_free(d);
}

static void a_missing_file_is_named(void **state)
{
    (void)state;
    struct simdisk *d = simdisk_new();
    struct test_heap h;
    struct buf b;
    struct errmsg em = {""};
    test_heap_init(&h);
    buf_init(&b, &h.alloc, 100);
    assert_int_equal(file_read_all(simdisk_face(d), "x/y", &b, &em), E_NOENT);
    assert_string_equal(em.text, "cannot read \"x/y\": no such file or directory");
    simdisk_free(d);
}

static void a_pipe_is_read_to_its_end(void **state)
{
    (void)state;
    int fds[2];
    struct test_heap h;
    struct buf b;
    test_heap_init(&h);
    buf_init(&b, &h.alloc, 5);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(file_write_fd(fds[1], bytes_str("12345")), 0);
    (void)close(fds[1]);
    assert_int_equal(file_read_fd(fds[0], &b, NULL), 0);
    assert_true(bytes_eq(buf_bytes(&b), bytes_str("12345")));
    (void)close(fds[0]);
    buf_reset(&b);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(file_write_fd(fds[1], bytes_str("123456")), 0);
    (void)close(fds[1]);
    assert_int_equal(file_read_fd(fds[0], &b, NULL), E_TOOBIG);
    assert_int_equal(b.len, 0);
    (void)close(fds[0]);
    buf_deinit(&b);
}

static void folders_on_the_way_are_made(void **state)
{
    (void)state;
    struct simdisk *d = simdisk_new();
    const struct disk *f = simdisk_face(d);
    struct disk_stat st;
    struct errmsg em = {""};
    assert_int_equal(file_mkdir_all(f, "/a/b//c/", 0700, &em), 0);
    assert_int_equal(file_mkdir_all(f, "/a/b/c", 0700, &em), 0);
    assert_int_equal(f->stat(f->arg, "a/b/c", &st), 0);
    assert_true(st.is_dir);
    assert_int_equal(st.mode, 0700);
    simdisk_put_file(d, "file", bytes_str("x"));
    assert_true(file_mkdir_all(f, "file/sub", 0700, &em) < 0);
    assert_non_null(strstr(em.text, "cannot make folder \"file\": file exists"));
    simdisk_free(d);
}

/* --- atomic writes ---------------------------------------------------------------------------- */

static bool holds(struct simdisk *d, const char *path, const char *content)
{
    size_t len = 0;
    uint8_t *data = simdisk_get_file(d, path, &len);
    bool equal = bytes_eq(bytes_of(data, len), bytes_str(content));
    free(data);
    return equal;
}

static void an_atomic_write_is_old_or_new_after_every_crash(void **state)
{
    (void)state;
    struct simdisk *d = simdisk_new();
    simdisk_put_file(d, "dir/f", bytes_str("old"));
    assert_int_equal(file_write_atomic(simdisk_face(d), "dir/f", bytes_str("new!"), 0600, NULL), 0);
    size_t n = simdisk_op_count(d);
    for (size_t prefix = 0; prefix <= n; prefix++) {
        for (unsigned i = 0; i < 12; i++) {
            enum simdisk_loss loss = i == 0 ? SIMDISK_KEPT : i == 1 ? SIMDISK_LOST : SIMDISK_TORN;
            struct simdisk *crashed = simdisk_crash(d, prefix, loss, i);
            bool is_new = holds(crashed, "dir/f", "new!");
            assert_true(is_new || holds(crashed, "dir/f", "old"));
            if (prefix == n) assert_true(is_new);
            simdisk_free(crashed);
        }
    }
    simdisk_free(d);
}

static void an_atomic_write_that_fails_leaves_the_old_content(void **state)
{
    (void)state;
    for (size_t nth = 1;; nth++) {
        struct simdisk *d = simdisk_new();
        struct errmsg em = {""};
        simdisk_put_file(d, "f", bytes_str("old"));
        simdisk_set_fault(d, (struct simdisk_fault){.nth = nth, .rc = E_NOSPACE});
        int rc = file_write_atomic(simdisk_face(d), "f", bytes_str("new"), 0600, &em);
        size_t struck = simdisk_fault_count(d);
        assert_int_equal(rc, struck > 0 ? E_NOSPACE : 0);
        bool only_folder_sync = nth == 5; /* create, write, sync, rename, sync_dir */
        assert_true(holds(d, "f", struck > 0 && !only_folder_sync ? "old" : "new"));
        assert_false(simdisk_exists(d, "f.tmp"));
        simdisk_free(d);
        if (struck == 0) {
            assert_int_equal(nth, 6);
            return;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_whole_or_not_at_all),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(a_pipe_is_read_to_its_end),
        cmocka_unit_test(folders_on_the_way_are_made),
        cmocka_unit_test(an_atomic_write_is_old_or_new_after_every_crash),
        cmocka_unit_test(an_atomic_write_that_fails_leaves_the_old_content),
    };
    return cmocka_run_group_tests_name("os/file_util", tests, NULL, NULL);
}
