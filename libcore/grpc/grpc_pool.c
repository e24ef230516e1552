/* Blocks of powers of two, from 64 bytes to 64 KiB, each size with a free list.
 *
 * Classes a factor of two apart waste a third at most on average and make the class of a size one
 * instruction. nghttp2 frees without a size, so its blocks carry theirs in 16 bytes before them
 * (16 to keep the alignment of malloc). */
#include "grpc/grpc_int.h"

#include <string.h>

#include "base/assert.h"

enum {
    POOL_SHIFT_MIN = 6,
    POOL_SHIFT_MAX = 16,
    POOL_CLASSES = POOL_SHIFT_MAX - POOL_SHIFT_MIN + 1,
    POOL_HEAD_BYTES = 16
};

struct pool_block {
    struct pool_block *next;
};

struct grpc_pool {
    const struct alloc *alloc;
    struct alloc view;
    size_t idle_bytes;
    size_t idle_bytes_max;
    size_t used_bytes;
    struct pool_block *idle[POOL_CLASSES];
};

static unsigned pool_class(size_t bytes)
{
    if (bytes <= (size_t)1 << POOL_SHIFT_MIN) return 0;
    return 64U - (unsigned)__builtin_clzll(bytes - 1) - POOL_SHIFT_MIN;
}

static size_t pool_round(size_t bytes)
{
    unsigned class = pool_class(bytes);
    return class < POOL_CLASSES ? (size_t)1 << (class + POOL_SHIFT_MIN) : bytes;
}

void *grpc_pool_get(struct grpc_pool *p, size_t bytes)
{
    ASSERT(bytes > 0);
    unsigned class = pool_class(bytes);
    size_t room = pool_round(bytes);
    void *block = NULL;
    if (class < POOL_CLASSES && p->idle[class] != NULL) {
        block = p->idle[class];
        p->idle[class] = p->idle[class]->next;
        p->idle_bytes -= room;
    } else {
        block = alloc_new(p->alloc, room);
        if (block == NULL) return NULL;
    }
    p->used_bytes += room;
    return block;
}

void grpc_pool_put(struct grpc_pool *p, void *block, size_t bytes)
{
    if (block == NULL) return;
    unsigned class = pool_class(bytes);
    size_t room = pool_round(bytes);
    ASSERT(p->used_bytes >= room);
    p->used_bytes -= room;
    if (class >= POOL_CLASSES || p->idle_bytes + room > p->idle_bytes_max) {
        alloc_free(p->alloc, block, room);
        return;
    }
    struct pool_block *b = block;
    b->next = p->idle[class];
    p->idle[class] = b;
    p->idle_bytes += room;
}

static void *view_resize(void *arg, void *old, size_t old_bytes, size_t new_bytes)
{
    struct grpc_pool *p = arg;
    if (new_bytes == 0) {
        if (old != NULL) grpc_pool_put(p, old, old_bytes);
        return NULL;
    }
    if (old != NULL && pool_round(old_bytes) == pool_round(new_bytes)) return old;
    void *block = grpc_pool_get(p, new_bytes);
    if (block == NULL || old == NULL) return block;
    memcpy(block, old, old_bytes < new_bytes ? old_bytes : new_bytes);
    grpc_pool_put(p, old, old_bytes);
    return block;
}

struct grpc_pool *grpc_pool_new(const struct alloc *alloc, size_t idle_bytes_max)
{
    struct grpc_pool *p = alloc_zero(alloc, sizeof *p);
    if (p == NULL) return NULL;
    p->alloc = alloc;
    p->idle_bytes_max = idle_bytes_max;
    p->view = (struct alloc){.resize = view_resize, .arg = p};
    return p;
}

void grpc_pool_free(struct grpc_pool *p)
{
    if (p == NULL) return;
    ASSERT(p->used_bytes == 0);
    for (unsigned class = 0; class < POOL_CLASSES; class ++) {
        while (p->idle[class] != NULL) {
            struct pool_block *b = p->idle[class];
            p->idle[class] = b->next;
            alloc_free(p->alloc, b, (size_t)1 << (class + POOL_SHIFT_MIN));
        }
    }
    alloc_free(p->alloc, p, sizeof *p);
}

const struct alloc *grpc_pool_alloc(const struct grpc_pool *p)
{
    return &p->view;
}

size_t grpc_pool_used_bytes(const struct grpc_pool *p)
{
    return p->used_bytes;
}

size_t grpc_pool_idle_bytes(const struct grpc_pool *p)
{
    return p->idle_bytes;
}

/* ---- nghttp2's allocator ---------------------------------------------------------------------- */

static void *mem_malloc(size_t size, void *arg)
{
    if (size > SIZE_MAX - POOL_HEAD_BYTES) return NULL;
    uint8_t *block = grpc_pool_get(arg, size + POOL_HEAD_BYTES);
    if (block == NULL) return NULL;
    memcpy(block, &size, sizeof size);
    return block + POOL_HEAD_BYTES;
}

static size_t mem_size(const void *ptr)
{
    size_t size;
    memcpy(&size, (const uint8_t *)ptr - POOL_HEAD_BYTES, sizeof size);
    return size;
}

static void mem_free(void *ptr, void *arg)
{
    if (ptr == NULL) return;
    grpc_pool_put(arg, (uint8_t *)ptr - POOL_HEAD_BYTES, mem_size(ptr) + POOL_HEAD_BYTES);
}

static void *mem_calloc(size_t count, size_t size, void *arg)
{
    if (size != 0 && count > SIZE_MAX / size) return NULL;
    void *ptr = mem_malloc(count * size, arg);
    if (ptr != NULL) memset(ptr, 0, count * size);
    return ptr;
}

static void *mem_realloc(void *ptr, size_t size, void *arg)
{
    if (ptr == NULL) return mem_malloc(size, arg);
    size_t old = mem_size(ptr);
    if (size <= SIZE_MAX - POOL_HEAD_BYTES &&
        pool_round(old + POOL_HEAD_BYTES) == pool_round(size + POOL_HEAD_BYTES)) {
        memcpy((uint8_t *)ptr - POOL_HEAD_BYTES, &size, sizeof size);
        return ptr;
    }
    void *block = mem_malloc(size, arg);
    if (block == NULL) return NULL;
    memcpy(block, ptr, old < size ? old : size);
    mem_free(ptr, arg);
    return block;
}

nghttp2_mem grpc__pool_mem(struct grpc_pool *p)
{
    return (nghttp2_mem){.mem_user_data = p,
                         .malloc = mem_malloc,
                         .free = mem_free,
                         .calloc = mem_calloc,
                         .realloc = mem_realloc};
}
