/* ASSERT states what a programmer must have ensured; it stays on in release.
 *
 * It has no side effect and never judges input, disk or peer: those get an error. */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

/* Writes the place and the condition to stderr and aborts. */
_Noreturn void assert_failed(const char *file, int line, const char *condition);

#define ASSERT(cond) ((cond) ? (void)0 : assert_failed(__FILE__, __LINE__, #cond))

#endif
