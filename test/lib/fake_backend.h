/* A backend for the tests of pure modules: sorted arrays of rows, one immutable version for each commit.
 *
 * Rows live until deinit, so spans never dangle; reading a
 * version that should be gone is therefore not found here but by the real backends' own tests. Threads may
 * read while one writes. */
#ifndef TEST_LIB_FAKE_BACKEND_H
#define TEST_LIB_FAKE_BACKEND_H

#include <pthread.h>
#include <stddef.h>

#include "env/backend.h"

struct fake_row;
struct fake_version;

struct fake_backend {
    struct backend face; /* what the code under test gets */
    pthread_mutex_t mutex;
    struct fake_version *now;
    struct fake_row *all;
    size_t open_reads;
    int fail_begin; /* the next read_begin answers this once; 0: none */
};

void fake_backend_init(struct fake_backend *b);
void fake_backend_deinit(struct fake_backend *b);

/* One row in a transaction of its own. */
void fake_backend_set(struct fake_backend *b, enum table t, struct bytes key, struct bytes value);
/* How many rows the last commit left in a table. */
size_t fake_backend_count(const struct fake_backend *b, enum table t);

#endif
