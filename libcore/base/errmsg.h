/* Words for people about an error: made where the name of the file, peer or flag is known. */
#ifndef BASE_ERRMSG_H
#define BASE_ERRMSG_H

enum { ERRMSG_BYTES_MAX = 1024 };

struct errmsg {
    char text[ERRMSG_BYTES_MAX]; /* zero-terminated; "" while nothing was said */
};

/* Sets the text, printf-like; too long a text is cut at the end. A NULL `em` is allowed. */
void errmsg_set(struct errmsg *em, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " in front of the text. A NULL `em` is allowed. */
void errmsg_prefix(struct errmsg *em, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
