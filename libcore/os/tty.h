/* Asking for a secret: a line is read without showing it on the terminal. */
#ifndef OS_TTY_H
#define OS_TTY_H

#include "base/buf.h"

/* Appends one line of `fd`, without its end; of a pipe or file likewise. Reads not a byte beyond it. While a terminal does
 * not echo, a signal that ends the process first puts the echo back. The process's own signals are blocked meanwhile, so no
 * other thread should be about to take them. Errors: as buf_put(); E_IO. */
int tty_read_secret(int fd, struct buf *out);

#endif
