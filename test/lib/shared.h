/* Golden files and tables beside the repository: read at run time, never copied, and not there in every clone. */
#ifndef TEST_LIB_SHARED_H
#define TEST_LIB_SHARED_H

#include <stdbool.h>
#include <stddef.h>

/* Whether `relative` ("spec/enums.tsv") is there; then `out` is its path. The folder is $SHARED, or ../shared beside
 * the working directory, which is the root of the repository. */
enum { SHARED_PATH_BYTES_MAX = 4096 };
bool shared_find(const char *relative, char out[SHARED_PATH_BYTES_MAX]);

/* The content of a file with a zero behind it; NULL when it cannot be read. free() frees it. */
char *shared_read(const char *path, size_t *len);

/* Leaves the running test as skipped, saying why, when `relative` is not there. */
#define SHARED_OR_SKIP(relative, out)                                                              \
    do {                                                                                           \
        if (!shared_find((relative), (out))) {                                                     \
            print_message("SKIP: no ../shared/%s here\n", (relative));                             \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

#endif
