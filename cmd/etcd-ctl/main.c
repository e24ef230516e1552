/* etcd-ctl: the command line client. Everything it can do stands in the table of commands.c. */
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "os/heap.h"

extern char **environ;

/* The name the user knows: the link's, when called by it. */
static const char *name_of(const char *path)
{
    const char *slash = path == NULL ? NULL : strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    return name != NULL && strcmp(name, "etcdctl") == 0 ? "etcdctl" : "etcd-ctl";
}

int main(int argc, char **argv)
{
    static struct ctl ctl;
    ctl.environ = environ;
    arena_init(&ctl.arena, &os_heap, SIZE_MAX / 2);
    cli_out_init(&ctl.out, &os_heap, STDOUT_FILENO);
    cli_out_init(&ctl.err, &os_heap, STDERR_FILENO);
    struct cli_program program = {.name = name_of(argc > 0 ? argv[0] : NULL),
                                  .root = &ctl_root,
                                  .groups = ctl_groups,
                                  .group_count = CTL_GROUPS,
                                  .rows = ctl_global_rows,
                                  .row_count = CTL_GLOBAL_ROWS,
                                  .values = &ctl.globals,
                                  .arg = &ctl,
                                  .arena = &ctl.arena,
                                  .out = &ctl.out,
                                  .err = &ctl.err};
    int status = cli_run(&program, argc > 0 ? (size_t)argc - 1 : 0, argv + 1);
    (void)cli_out_flush(&ctl.err);
    client_free(ctl.client);
    cli_out_deinit(&ctl.out);
    cli_out_deinit(&ctl.err);
    arena_deinit(&ctl.arena);
    return status;
}
