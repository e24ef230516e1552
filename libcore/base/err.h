/* The one table of errors: symbol, gRPC code, exit code, text.
 *
 * Functions that can fail return 0 or a negative E_... from here. Texts that clients see are
 * byte-exact with upstream. `base/err.def` holds the rows. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

enum grpc_code {
    GRPC_OK = 0,
    GRPC_CANCELED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_ABORTED = 10,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_DATA_LOSS = 15,
    GRPC_UNAUTHENTICATED = 16
};

enum err_ordinal {
    ERR_ORDINAL_OK = 0,
#define ERR(symbol, code, exit_code, text) symbol##_ORDINAL,
#include "base/err.def"
#undef ERR
    ERR_ORDINAL_END
};

enum err {
#define ERR(symbol, code, exit_code, text) symbol = -(int)symbol##_ORDINAL,
#include "base/err.def"
#undef ERR
    E_OK = 0
};

/* Text of `rc` (0 or a negative E_...); "unknown error" for anything else. Static storage. */
const char *err_text(int rc);
/* The symbol's name, "E_NOMEM"; static storage. */
const char *err_symbol(int rc);
enum grpc_code err_grpc_code(int rc);
/* What a program that ends because of `rc` exits with: 0 for 0, else never 0. */
int err_exit_code(int rc);

/* Maps an errno value of the moment to an E_...: ENOMEM, ENOSPC, EDQUOT, ENOENT, EEXIST, EACCES,
 * EPERM, EINTR, EAGAIN, EADDRINUSE, ECONNREFUSED, ...; anything else is E_IO. */
int err_from_errno(int errno_value);

#endif
