/* An I/O loop of one thread, on libuv: sockets, timers, and tasks posted from any thread.
 *
 * A post allocates nothing: the task is the caller's, the queue is intrusive, and wake-ups of a
 * loop that is already awake or already called are left out. All functions but loop_post() and
 * loop_stop() belong to the loop's own thread (or to the one that sets it up, before loop_run()).
 */
#ifndef OS_LOOP_H
#define OS_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/errmsg.h"
#include "os/mpsc.h"

struct loop;

/* --- life ------------------------------------------------------------------------------------- */

/* Gives a loop, loop_free() frees it. Errors: E_NOMEM, E_BUSY (no descriptors left), E_IO. */
int loop_new(const struct alloc *alloc, struct loop **out, struct errmsg *em);

/* After loop_run() has returned, with no watch and no timer left open. Tasks still queued are
 * dropped unseen. */
void loop_free(struct loop *l);

/* Runs until loop_stop(); then may be called again. */
void loop_run(struct loop *l);

/* Runs what is due now without waiting; for tests and drains. */
void loop_run_once(struct loop *l);

/* Makes loop_run() return after the present round. Any thread. */
void loop_stop(struct loop *l);

/* The loop's time at the start of this round: CLOCK_MONOTONIC, in steps of a millisecond. */
uint64_t loop_now_ns(const struct loop *l);

/* Whether the calling thread is in this loop's loop_run(). */
bool loop_is_current(const struct loop *l);

/* --- tasks ------------------------------------------------------------------------------------ */

struct task {
    struct mpsc_link link; /* first; the queue's */
    void (*run)(struct task *t);
};

/* Lets `t->run(t)` be called once in the loop's thread, after the tasks posted before by this
 * thread. Borrows `t` until it is called; it may then be posted again or freed. Any thread; never
 * fails. */
void loop_post(struct loop *l, struct task *t);

/* --- sockets ---------------------------------------------------------------------------------- */

enum loop_event { LOOP_READABLE = 1, LOOP_WRITABLE = 2, LOOP_HANGUP = 4 };

struct loop_watch;

/* `events` is a set of enum loop_event. With an error on the socket all that were asked for are
 * set, so that the next read or write meets it; the watch then asks for nothing until it is set
 * again. */
typedef void (*loop_watch_fn)(void *arg, unsigned events);

/* Prepares a watch over a non-blocking socket or pipe; it asks for nothing yet. Gives a watch,
 * loop_watch_close() ends it. `fd` stays the caller's and must be open until then. Errors: E_NOMEM,
 * E_IO. */
int loop_watch_open(struct loop *l, int fd, loop_watch_fn fn, void *arg, struct loop_watch **out);

/* Level-triggered: `fn` is called as long as what is asked for holds; 0 asks for nothing. */
void loop_watch_set(struct loop_watch *w, unsigned events);

/* No call of `fn` comes after this returns, also when called from within it. The descriptor may be
 * closed at once. */
void loop_watch_close(struct loop_watch *w);

/* --- timers ----------------------------------------------------------------------------------- */

struct loop_timer;
typedef void (*loop_timer_fn)(void *arg);

/* Gives a stopped timer, loop_timer_close() ends it. Errors: E_NOMEM. */
int loop_timer_open(struct loop *l, loop_timer_fn fn, void *arg, struct loop_timer **out);

/* Calls `fn` after `delay_ms`, and then every `repeat_ms` when that is not 0. Replaces an earlier
 * setting. */
void loop_timer_start(struct loop_timer *t, uint64_t delay_ms, uint64_t repeat_ms);
void loop_timer_stop(struct loop_timer *t);
void loop_timer_close(struct loop_timer *t);

#endif
