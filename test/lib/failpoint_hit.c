/* Failpoints of a FAILPOINTS=1 build for tests that do not link os: nothing is ever set. Where os is linked and asked for, its
 * own registry counts. */
#include <stddef.h>

#include "env/failpoint.h"

#ifdef FAILPOINTS
__attribute__((weak)) const char *failpoint_hit(const char *name)
{
    (void)name;
    return NULL;
}
#endif
