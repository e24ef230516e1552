#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>

int cli_fail(struct errmsg *em, enum cli_exit status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(em->text, sizeof em->text, format, args);
    va_end(args);
    return (int)status;
}

const char *cli_text(struct bytes word)
{
    return word.len == 0 ? "" : (const char *)word.data;
}
