/* What a failed ASSERT does in unit tests: back to a waiting EXPECT_ASSERT, else a line and abort.
 *
 * It is weak, so that a test may bring its own; linked as an object, it goes before the one in os.
 */
#include "assert_failed.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"

static _Thread_local jmp_buf *waiting;

void test_assert_wait(jmp_buf *place)
{
    waiting = place;
}

__attribute__((weak)) _Noreturn void assert_failed(const char *file, int line,
                                                   const char *condition)
{
    if (waiting != NULL) {
        jmp_buf *place = waiting;
        waiting = NULL;
        longjmp(*place, 1);
    }
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}
