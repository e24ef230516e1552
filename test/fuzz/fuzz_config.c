/* Fuzzes the server's YAML settings: any file is either taken or refused with a line, never a crash.
 *
 * Built with PLANT_OVERFLOW it holds a bug to be found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "os/heap.h"
#include "server/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void planted(const struct config *c)
{
#ifdef PLANT_OVERFLOW
    char name[8];
    volatile size_t len = strlen(c->name);
    for (size_t i = 0; i < len; i++)
        name[i] = c->name[i];
    (void)name;
#else
    (void)c;
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *const ENVIRONMENT[] = {NULL};
    char path[32];
    char program[] = "etcd-server";
    char flag[] = "--config-file";
    char *argv[] = {program, flag, path, NULL};
    struct config c;
    enum config_result result = CONFIG_RUN;
    struct errmsg em = {""};
    int fd = memfd_create("config", MFD_CLOEXEC);
    if (fd < 0) return 0;
    if (write(fd, data, size) == (ssize_t)size) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int rc = config_parse(&c, &os_heap, 3, argv, ENVIRONMENT, &result, &em);
        if (rc < 0 && rc != E_NOMEM && rc != E_TOOBIG && em.text[0] == '\0')
            abort(); /* no word about what is wrong */
        if (rc == 0) planted(&c);
        config_deinit(&c);
    }
    close(fd);
    return 0;
}
