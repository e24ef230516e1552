/* SIGTERM and SIGINT through a signalfd watched by the loop.
 *
 * The two are blocked in the thread that opens this and in all it starts later, so nothing is
 * interrupted and no handler runs; they wait in the descriptor. Closing unblocks them: from then on
 * they kill. */
#include "os/signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/err.h"
#include "os/heap.h"

struct signals {
    int fd;
    struct loop_watch *watch;
    signals_fn fn;
    void *arg;
};

void signals_ignore_pipe(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, NULL);
}

static sigset_t stop_set(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    return set;
}

/* One signal per call: `fn` may close this. */
static void on_readable(void *arg, unsigned events)
{
    struct signals *s = arg;
    struct signalfd_siginfo info;
    (void)events;
    ssize_t n = read(s->fd, &info, sizeof info);
    if (n == (ssize_t)sizeof info) s->fn(s->arg, (int)info.ssi_signo);
}

int signals_open(struct loop *l, signals_fn fn, void *arg, struct signals **out, struct errmsg *em)
{
    struct signals *s = alloc_zero(&os_heap, sizeof *s);
    if (s == NULL) return E_NOMEM;
    *s = (struct signals){.fd = -1, .fn = fn, .arg = arg};
    sigset_t set = stop_set();
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    s->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    int rc = s->fd < 0 ? err_from_errno(errno)
                       : loop_watch_open(l, s->fd, on_readable, s, &s->watch);
    if (rc < 0) {
        errmsg_set(em, "cannot wait for signals: %s", err_text(rc));
        signals_close(s);
        return rc;
    }
    loop_watch_set(s->watch, LOOP_READABLE);
    *out = s;
    return 0;
}

void signals_close(struct signals *s)
{
    if (s == NULL) return;
    loop_watch_close(s->watch);
    if (s->fd >= 0) (void)close(s->fd);
    sigset_t set = stop_set();
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    alloc_free(&os_heap, s, sizeof *s);
}
