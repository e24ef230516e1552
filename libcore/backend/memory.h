/* The in-memory implementation of `struct backend`, with a crash model: for simulation and tests.
 *
 * It keeps the last two committed states. A commit is durable when it returns, so a power cut between commits
 * leaves the newest state; one in the middle of a commit leaves either. */
#ifndef BACKEND_MEMORY_H
#define BACKEND_MEMORY_H

#include <stdint.h>

#include "base/alloc.h"
#include "env/backend.h"

struct backend_memory;

enum backend_crash {
    BACKEND_CRASH_KEEP, /* the newest committed state is what the restart finds */
    BACKEND_CRASH_LOSE  /* the one before it: the cut came before the last commit's meta page */
};

/* Asked before each commit and put of a test's store: 0 goes on, an error is returned in its place. */
enum backend_memory_op { BACKEND_MEMORY_PUT, BACKEND_MEMORY_COMMIT };
typedef int (*backend_memory_fault_fn)(void *arg, enum backend_memory_op op);

/* Gives an empty store with `alloc` (used from any thread), or NULL. */
struct backend_memory *backend_memory_new(const struct alloc *alloc);

/* No transaction may be open. A NULL `m` is allowed. */
void backend_memory_free(struct backend_memory *m);

/* The functions over `m`, valid until it is freed; a crash does not change them. */
struct backend backend_memory_face(struct backend_memory *m);

/* What a restart finds: ends the open write transaction, forgets what is not durable. Open read transactions go
 * on seeing their state and must still be ended. The thread of the write side only. */
void backend_memory_crash(struct backend_memory *m, enum backend_crash how);

/* Commits so far, those lost in a crash taken off: lets a test name the state it stands at. */
uint64_t backend_memory_commit_count(const struct backend_memory *m);

/* Lets `fn` fail operations; NULL ends that. */
void backend_memory_set_fault(struct backend_memory *m, backend_memory_fault_fn fn, void *arg);

/* A put that would make the store larger is E_NOSPACE; 0: no bound. As on a full disk, deletes go on. */
void backend_memory_set_bytes_max(struct backend_memory *m, uint64_t bytes_max);

#endif
