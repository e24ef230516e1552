/* Folders for tests. Trees are removed by rm(1) and unpacked by tar(1). */
#include "tempdir.h"

#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

void tempdir_init(struct tempdir *t)
{
    const char *base = getenv("TMPDIR");
    int n = snprintf(t->path, sizeof t->path, "%s/etcd-test-XXXXXX", base != NULL ? base : "/tmp");
    assert_true(n > 0 && n < TEMPDIR_PATH_BYTES_MAX);
    if (mkdtemp(t->path) == NULL) fail_msg("cannot make a folder like %s", t->path);
}

void tempdir_deinit(struct tempdir *t)
{
    if (t->path[0] == 0) return;
    (void)test_run((const char *const[]){"rm", "-rf", "--", t->path, NULL});
    t->path[0] = 0;
}

const char *tempdir_path(const struct tempdir *t, const char *name,
                         char out[TEMPDIR_PATH_BYTES_MAX])
{
    int n = snprintf(out, TEMPDIR_PATH_BYTES_MAX, "%s/%s", t->path, name);
    assert_true(n > 0 && n < TEMPDIR_PATH_BYTES_MAX);
    return out;
}

void tempdir_untar(const struct tempdir *t, const char *archive)
{
    int rc = test_run(
        (const char *const[]){"tar", "-x", "--sparse", "-f", archive, "-C", t->path, NULL});
    if (rc != 0) fail_msg("tar cannot unpack %s: exit code %d", archive, rc);
}

int test_run(const char *const argv[])
{
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    int status = 0;
    char *args[32] = {NULL};
    for (size_t i = 0; argv[i] != NULL; i++) {
        assert_true(i < 31);
        args[i] = (char *)(uintptr_t)argv[i]; /* posix_spawn does not write to them */
    }
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    int rc = posix_spawnp(&pid, args[0], &actions, NULL, args, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (rc != 0) fail_msg("cannot run %s", args[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
