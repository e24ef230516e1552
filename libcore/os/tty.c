/* Echo is a property of the terminal, not of the process: who dies with it off leaves the user typing blindly. So signals
 * that would end the process are blocked and met as input, beside the line; the echo is back before they get their way. A
 * handler would need a global to know which terminal. */
#include "os/tty.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/err.h"

struct hiding {
    int fd;
    int signals; /* readable when one of `set` has come */
    sigset_t set, before;
    bool hidden;
};

/* True when that changed something: not when `fd` is no terminal, or was so already. */
static bool set_echo(int fd, bool on)
{
    struct termios t;
    if (tcgetattr(fd, &t) != 0 || ((t.c_lflag & ECHO) != 0) == on) return false;
    if (on) {
        t.c_lflag |= (tcflag_t)ECHO;
    } else {
        t.c_lflag &= ~(tcflag_t)ECHO;
    }
    return tcsetattr(fd, TCSAFLUSH, &t) == 0;
}

static void hide(struct hiding *h)
{
    pthread_sigmask(SIG_BLOCK, &h->set, &h->before);
    h->hidden = set_echo(h->fd, false);
}

/* Signals that came are delivered here, and mostly end the process. */
static void show(struct hiding *h)
{
    if (h->hidden) (void)set_echo(h->fd, true);
    pthread_sigmask(SIG_SETMASK, &h->before, NULL);
}

/* Waits until there is something to read. */
static void wait_for_input(struct hiding *h)
{
    struct pollfd p[2] = {{.fd = h->fd, .events = POLLIN}, {.fd = h->signals, .events = POLLIN}};
    if (poll(p, 2, -1) < 0) return;
    if (p[1].revents != 0) {
        show(h);
        hide(h); /* it was one that the process ignores */
    }
}

static int read_line(struct hiding *h, struct buf *out)
{
    for (;;) {
        uint8_t c = 0;
        wait_for_input(h);
        ssize_t n = read(h->fd, &c, 1);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n < 0) return err_from_errno(errno);
        if (n == 0 || c == '\n') return 0;
        int rc = buf_put_u8(out, c);
        if (rc < 0) return rc;
    }
}

int tty_read_secret(int fd, struct buf *out)
{
    static const int ENDING[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGTSTP};
    struct hiding h = {.fd = fd};
    sigemptyset(&h.set);
    for (size_t i = 0; i < sizeof ENDING / sizeof *ENDING; i++)
        sigaddset(&h.set, ENDING[i]);
    h.signals = signalfd(-1, &h.set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (h.signals < 0) return err_from_errno(errno);
    hide(&h);
    int rc = read_line(&h, out);
    show(&h);
    (void)close(h.signals);
    return rc;
}
