/* Comparisons of bytes that show, when they fail, what was expected and what was seen. */
#ifndef TEST_LIB_COMPARE_H
#define TEST_LIB_COMPARE_H

#include "base/bytes.h"

/* Fails the running test, with the lines of a hex dump around the first difference, unless both are
 * equal. */
void compare_bytes(struct bytes expected, struct bytes seen, const char *file, int line);

#define EXPECT_BYTES(expected, seen) compare_bytes((expected), (seen), __FILE__, __LINE__)

/* The bytes that a text of hex digits and blanks stands for. Gives a block, free() frees it; fails
 * the running test on any other character. */
uint8_t *compare_unhex(const char *hex, size_t *len);

#endif
