/* Formatting into the fixed text of an errmsg. */
#include "base/errmsg.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

void errmsg_set(struct errmsg *em, const char *format, ...)
{
    if (em == NULL) return;
    char text[ERRMSG_BYTES_MAX]; /* the old text may be among the arguments */
    va_list ap;
    va_start(ap, format);
    if (vsnprintf(text, sizeof text, format, ap) < 0) text[0] = 0;
    va_end(ap);
    memcpy(em->text, text, strlen(text) + 1);
}

/* Adds what fits of `more`. */
static void append(char text[ERRMSG_BYTES_MAX], size_t *len, const char *more)
{
    size_t n = strlen(more);
    size_t room = ERRMSG_BYTES_MAX - 1 - *len;
    if (n > room) n = room;
    memcpy(text + *len, more, n);
    *len += n;
    text[*len] = 0;
}

void errmsg_prefix(struct errmsg *em, const char *format, ...)
{
    if (em == NULL) return;
    char text[ERRMSG_BYTES_MAX];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (n < 0) return;
    size_t len = (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    append(text, &len, ": ");
    append(text, &len, em->text);
    memcpy(em->text, text, len + 1);
}
