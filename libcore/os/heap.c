/* The one place where malloc is called. */
#include "os/heap.h"

#include <stdlib.h>

static void *heap_resize(void *arg, void *old, size_t old_bytes, size_t new_bytes)
{
    (void)arg;
    (void)old_bytes;
    if (new_bytes == 0) {
        free(old);
        return NULL;
    }
    return realloc(old, new_bytes);
}

const struct alloc os_heap = {.resize = heap_resize, .arg = NULL};
