#include "os/tty.h"

#include <termios.h>

bool tty_set_echo(int fd, bool on)
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
