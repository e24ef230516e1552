/* A heap for tests: counts what is alive, checks that frees name the right size, fails the n-th allocation. */
#ifndef TEST_LIB_TEST_HEAP_H
#define TEST_LIB_TEST_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"

struct test_heap {
    struct alloc alloc;      /* what the code under test gets */
    size_t allocation_count; /* calls that asked for memory, failed ones too */
    size_t fail_at;          /* the n-th from the start fails (1 = first); 0: none */
    bool fail_on;            /* and all after it */
    size_t failure_count;    /* how many did */
    size_t live_bytes;
    size_t live_blocks;
};

/* Single-threaded. `h` must stay in place. */
void test_heap_init(struct test_heap *h);

/* Fails the running test when something is still alive. */
void test_heap_check_empty(const struct test_heap *h);

/* Calls `run` with the 1st, 2nd, ... allocation failing until a run meets no failure any more. `run`
 * must cope with E_NOMEM and free all it holds: after each run the heap must be empty. Returns the
 * number of runs. */
size_t test_heap_every_failure(void (*run)(struct test_heap *h, void *arg), void *arg);

/* The same with all allocations after the n-th failing too; `run` must not try again for ever. */
size_t test_heap_every_failure_on(void (*run)(struct test_heap *h, void *arg), void *arg);

#endif
