/* A table on a counting heap, and a clock that the test turns. */
#ifndef TEST_UNIT_LEASE_FIXTURE_H
#define TEST_UNIT_LEASE_FIXTURE_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "assert_failed.h"
#include "base/err.h"
#include "base/prng.h"
#include "lease/lease.h"
#include "test_heap.h"

#define S 1000000000LL

struct world {
    struct test_heap heap;
    struct lease_table *t;
    int64_t now_ns;
};

static inline struct lease_config world_config(int64_t checkpoint_interval_ns)
{
    return (struct lease_config){.ttl_s_min = 2,
                                 .retry_ns = 3 * S,
                                 .checkpoint_interval_ns = checkpoint_interval_ns,
                                 .hash_seed = {1, 2, 3}};
}

static inline void world_open(struct world *w, int64_t checkpoint_interval_ns)
{
    struct lease_config c = world_config(checkpoint_interval_ns);
    test_heap_init(&w->heap);
    w->now_ns = 1000 * S;
    assert_int_equal(lease_new(&c, &w->heap.alloc, &w->t), 0);
}

static inline void world_close(struct world *w)
{
    lease_free(w->t);
    test_heap_check_empty(&w->heap);
}

static inline void grant(struct world *w, lease_id id, int64_t ttl_s)
{
    int64_t granted = 0;
    assert_int_equal(lease_grant(w->t, id, ttl_s, w->now_ns, &granted), 0);
}

static inline void attach(struct world *w, lease_id id, const char *key)
{
    assert_int_equal(lease_attach(w->t, id, bytes_str(key)), 0);
}

static inline void promote(struct world *w, int64_t extend_ns)
{
    lease_promote(w->t, extend_ns, w->now_ns);
    while (!lease_promote_step(w->t, 7)) {}
    assert_true(lease_is_primary(w->t));
}

#endif
