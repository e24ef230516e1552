/* The one helper of the allocator contract; allocators themselves live in os and in the tests. */
#include "base/alloc.h"

#include <string.h>

void *alloc_zero(const struct alloc *a, size_t bytes)
{
    void *block = alloc_new(a, bytes);
    if (block != NULL) memset(block, 0, bytes);
    return block;
}
