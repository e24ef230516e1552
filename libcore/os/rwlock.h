/* The reader-writer lock of env/lock.h for real threads. A waiting writer goes before new readers;
 * a thread must not take it for reading twice at once. */
#ifndef OS_RWLOCK_H
#define OS_RWLOCK_H

#include <pthread.h>

#include "env/lock.h"

struct os_rwlock {
    pthread_rwlock_t lock;
    struct rwlock face; /* hand this one out; `arg` is the lock itself, so it must not move */
};

void os_rwlock_init(struct os_rwlock *l);
void os_rwlock_deinit(struct os_rwlock *l);

#endif
