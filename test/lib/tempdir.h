/* Folders for tests on the real file system, and golden archives unpacked into them. */
#ifndef TEST_LIB_TEMPDIR_H
#define TEST_LIB_TEMPDIR_H

#include <stddef.h>

enum { TEMPDIR_PATH_BYTES_MAX = 512 };

struct tempdir {
    char path[TEMPDIR_PATH_BYTES_MAX]; /* absolute */
};

/* Makes an empty folder under $TMPDIR or /tmp; fails the running test when it cannot. */
void tempdir_init(struct tempdir *t);

/* Removes it with all that is in it; of a skipped or failed test too when called from a teardown.
 */
void tempdir_deinit(struct tempdir *t);

/* "PATH/name" in `out`; returns `out`. */
const char *tempdir_path(const struct tempdir *t, const char *name,
                         char out[TEMPDIR_PATH_BYTES_MAX]);

/* Unpacks an archive (tar, any compression that tar(1) knows) into the folder; fails the running
 * test when it cannot. */
void tempdir_untar(const struct tempdir *t, const char *archive);

/* Runs a program (argv ends in NULL) to its end, stdin and stdout closed; returns its exit code,
 * 128 + n when a signal ended it. */
int test_run(const char *const argv[]);

#endif
