/* The registry of failpoints of a FAILPOINTS=1 build; in a normal build this header declares
 * nothing.
 *
 * Terms are gofail's: `panic`, `sleep("1s")`, `sleep(100)` (ms), `return("text")`, `return`, `off`,
 * `print`, with `N*` (so many times) or `P%` (with probability) in front, chained by `->`. */
#ifndef OS_FAILPOINT_H
#define OS_FAILPOINT_H

#include "env/failpoint.h"

#ifdef FAILPOINTS

#include "base/buf.h"
#include "base/errmsg.h"

/* Sets terms for a name, replacing earlier ones. Any thread. E_INVAL (`failpoint: could not parse
 * terms`), E_NOMEM. */
int failpoint_set(const char *name, const char *terms, struct errmsg *em);

/* Removes; E_NOENT (`failpoint: failpoint is disabled`) when it was not set. */
int failpoint_unset(const char *name);

/* Appends the terms set for a name; E_NOENT when none are. */
int failpoint_terms(const char *name, struct buf *b);

/* Appends `name=terms` lines of all that were ever hit or set, in name order. */
int failpoint_list(struct buf *b);

/* `name=terms;name=terms` as in $GOFAIL_FAILPOINTS. */
int failpoint_set_all(const char *list, struct errmsg *em);

#endif

#endif
