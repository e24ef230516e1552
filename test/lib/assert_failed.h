/* Tests that a programmer's error is caught by an ASSERT. */
#ifndef TEST_LIB_ASSERT_FAILED_H
#define TEST_LIB_ASSERT_FAILED_H

#include <setjmp.h>

/* The next failed ASSERT of this thread jumps to `place`; NULL: it aborts. */
void test_assert_wait(jmp_buf *place);

/* Fails the test unless an ASSERT fails inside `statement`. What the statement held is leaked. */
#define EXPECT_ASSERT(statement)                                                                   \
    do {                                                                                           \
        jmp_buf expect_place_;                                                                     \
        if (setjmp(expect_place_) == 0) {                                                          \
            test_assert_wait(&expect_place_);                                                      \
            statement;                                                                             \
            test_assert_wait(NULL);                                                                \
            fail_msg("no assertion failed in: %s", #statement);                                    \
        }                                                                                          \
    } while (0)

#endif
