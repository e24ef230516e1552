/* glibc's rwlock in its writer-preferring kind: uncontended, each call is one atomic operation. */
#include "os/rwlock.h"

#include "base/assert.h"

static void lock_read(void *arg)
{
    int rc = pthread_rwlock_rdlock(arg);
    ASSERT(rc == 0);
}

static void lock_write(void *arg)
{
    int rc = pthread_rwlock_wrlock(arg);
    ASSERT(rc == 0);
}

static void unlock(void *arg)
{
    int rc = pthread_rwlock_unlock(arg);
    ASSERT(rc == 0);
}

void os_rwlock_init(struct os_rwlock *l)
{
    pthread_rwlockattr_t attr;
    int rc = pthread_rwlockattr_init(&attr);
    ASSERT(rc == 0);
    rc = pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    ASSERT(rc == 0);
    rc = pthread_rwlock_init(&l->lock, &attr);
    ASSERT(rc == 0);
    (void)pthread_rwlockattr_destroy(&attr);
    l->face = (struct rwlock){.read = lock_read,
                              .read_done = unlock,
                              .write = lock_write,
                              .write_done = unlock,
                              .arg = &l->lock};
}

void os_rwlock_deinit(struct os_rwlock *l)
{
    int rc = pthread_rwlock_destroy(&l->lock);
    ASSERT(rc == 0);
}
