/* A terminal's echo, for passwords. */
#ifndef OS_TTY_H
#define OS_TTY_H

#include <stdbool.h>

/* Switches the echo of what is typed at `fd` on or off. False when it is no terminal, or was so already: nothing needs to
 * be undone then. */
bool tty_set_echo(int fd, bool on);

#endif
