/* Look-ups in the error table, and the one place where errno values become ours. */
#include "base/err.h"

#include <errno.h>
#include <stddef.h>

struct err_row {
    const char *symbol;
    const char *text;
    enum grpc_code code;
    int exit_code;
};

static const struct err_row rows[ERR_ORDINAL_END] = {
    {"E_OK", "ok", GRPC_OK, 0},
#define ERR(symbol, code, exit_code, text) {#symbol, text, code, exit_code},
#include "base/err.def"
#undef ERR
};

static const struct err_row unknown = {"E_?", "unknown error", GRPC_UNKNOWN, 1};

static const struct err_row *row(int rc)
{
    if (rc > 0 || rc <= -(int)ERR_ORDINAL_END) return &unknown;
    return &rows[-rc];
}

const char *err_text(int rc)
{
    return row(rc)->text;
}

const char *err_symbol(int rc)
{
    return row(rc)->symbol;
}

enum grpc_code err_grpc_code(int rc)
{
    return row(rc)->code;
}

int err_exit_code(int rc)
{
    return row(rc)->exit_code;
}

static const struct {
    int errno_value;
    int rc;
} errno_rows[] = {
    {ENOMEM, E_NOMEM},
    {ENOSPC, E_NOSPACE},
    {EDQUOT, E_NOSPACE},
    {ENOENT, E_NOENT},
    {ENOTDIR, E_NOENT},
    {EEXIST, E_EXIST},
    {ENOTEMPTY, E_EXIST},
    {EACCES, E_ACCES},
    {EPERM, E_ACCES},
    {EROFS, E_ACCES},
    {EINTR, E_INTR},
    {EAGAIN, E_AGAIN},
    {EINPROGRESS, E_AGAIN},
    {EBUSY, E_BUSY},
    {EADDRINUSE, E_BUSY},
    {ETXTBSY, E_BUSY},
    {ECONNREFUSED, E_CONNREFUSED},
    {ECONNRESET, E_CLOSED},
    {EPIPE, E_CLOSED},
    {ENOTCONN, E_CLOSED},
    {ECONNABORTED, E_CLOSED},
    {EINVAL, E_INVAL},
    {ENAMETOOLONG, E_INVAL},
    {EFBIG, E_TOOBIG},
    {EMSGSIZE, E_TOOBIG},
    {EMFILE, E_BUSY},
    {ENFILE, E_BUSY},
    {ETIMEDOUT, E_DEADLINE_EXCEEDED},
    {EOPNOTSUPP, E_UNSUPPORTED},
    {ENOSYS, E_UNSUPPORTED},
    {EAFNOSUPPORT, E_UNSUPPORTED},
};

int err_from_errno(int errno_value)
{
    for (size_t i = 0; i < sizeof errno_rows / sizeof *errno_rows; i++) {
        if (errno_rows[i].errno_value == errno_value) return errno_rows[i].rc;
    }
    return E_IO;
}
