/* The process heap as an allocator: malloc, realloc and free behind `struct alloc`. */
#ifndef OS_HEAP_H
#define OS_HEAP_H

#include "base/alloc.h"

/* Any thread. Sizes handed to frees are not checked. */
extern const struct alloc os_heap;

#endif
