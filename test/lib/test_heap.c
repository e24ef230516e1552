/* Each block has its size in front, so that a sized free can be checked. */
#include "test_heap.h"

#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RUNS_MAX = 100000 };

struct block {
    size_t bytes;
    alignas(max_align_t) uint8_t data[];
};

static struct block *block_of(void *data)
{
    return (struct block *)(void *)((uint8_t *)data - offsetof(struct block, data));
}

static void *heap_resize(void *arg, void *old, size_t old_bytes, size_t new_bytes)
{
    struct test_heap *h = arg;
    if (old == NULL && old_bytes != 0) fail_msg("a new block has an old size of %zu", old_bytes);
    if (old != NULL && block_of(old)->bytes != old_bytes) {
        fail_msg("a block of %zu bytes is given back as %zu", block_of(old)->bytes, old_bytes);
    }
    struct block *b = NULL;
    if (new_bytes > 0) {
        h->allocation_count++;
        bool due = h->fail_at != 0 && (h->fail_on ? h->allocation_count >= h->fail_at
                                                  : h->allocation_count == h->fail_at);
        if (due) {
            h->failure_count++;
            return NULL;
        }
        b = malloc(sizeof *b + new_bytes);
        if (b == NULL) abort();
        b->bytes = new_bytes;
        if (old_bytes > 0) memcpy(b->data, old, old_bytes < new_bytes ? old_bytes : new_bytes);
        h->live_bytes += new_bytes;
        h->live_blocks++;
    }
    if (old != NULL) {
        h->live_bytes -= old_bytes;
        h->live_blocks--;
        free(block_of(old));
    }
    return b == NULL ? NULL : b->data;
}

void test_heap_init(struct test_heap *h)
{
    *h = (struct test_heap){.alloc = {.resize = heap_resize, .arg = h}};
}

void test_heap_check_empty(const struct test_heap *h)
{
    if (h->live_blocks != 0) {
        fail_msg("%zu blocks with %zu bytes are still alive", h->live_blocks, h->live_bytes);
    }
}

static size_t every_failure(void (*run)(struct test_heap *h, void *arg), void *arg, bool on)
{
    for (size_t n = 1; n <= RUNS_MAX; n++) {
        struct test_heap h;
        test_heap_init(&h);
        h.fail_at = n;
        h.fail_on = on;
        run(&h, arg);
        test_heap_check_empty(&h);
        if (h.failure_count == 0) return n;
    }
    fail_msg("still failing after %d runs", RUNS_MAX);
    return 0;
}

size_t test_heap_every_failure(void (*run)(struct test_heap *h, void *arg), void *arg)
{
    return every_failure(run, arg, false);
}

size_t test_heap_every_failure_on(void (*run)(struct test_heap *h, void *arg), void *arg)
{
    return every_failure(run, arg, true);
}
