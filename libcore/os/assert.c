/* A failed assertion: one line on stderr, then abort. In a file of its own, so that tests can bring
 * theirs. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}
