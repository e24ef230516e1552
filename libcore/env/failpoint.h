/* Named places where the FAILPOINTS=1 build can be told to panic, sleep or return an error.
 *
 * A normal build compiles them to nothing. Names are upstream's. The registry and its HTTP face are in os. */
#ifndef ENV_FAILPOINT_H
#define ENV_FAILPOINT_H

#ifdef FAILPOINTS
/* Does what was set for `name`; returns the text of a `return(...)` term, else NULL. Any thread. */
const char *failpoint_hit(const char *name);
#define FAILPOINT(name)      ((void)failpoint_hit(name))
#define FAILPOINT_TEXT(name) failpoint_hit(name)
#else
#define FAILPOINT(name)      ((void)0)
#define FAILPOINT_TEXT(name) ((const char *)0)
#endif

#endif
