/* A reader-writer lock as a struct of functions: the heart takes no lock of its own.
 *
 * The programs hand in one that prefers the writer; single-threaded tests hand in one that does nothing,
 * or one that steps an interleaving at each call. */
#ifndef ENV_LOCK_H
#define ENV_LOCK_H

struct rwlock {
    void (*read)(void *arg);
    void (*read_done)(void *arg);
    void (*write)(void *arg);
    void (*write_done)(void *arg);
    void *arg;
};

#endif
