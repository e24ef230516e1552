/* Inside the text_*.c files: quoting into an error message. */
#ifndef BASE_TEXT_INT_H
#define BASE_TEXT_INT_H

#include "base/bytes.h"
#include "base/errmsg.h"

/* A zero-terminated text of bounded size, for a part of an error message. */
struct text__quote {
    char text[ERRMSG_BYTES_MAX / 2];
};

/* strconv.Quote; what does not fit is left out whole. */
const char *text__quote_go(struct text__quote *q, struct bytes s);

#endif
