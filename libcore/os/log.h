/* The sink of log events: zap-like JSON lines, or zap's console form, one write() each.
 *
 * {"level":"info","ts":"2006-01-02T15:04:05.999999Z","caller":"wal/wal.c:12","msg":"...",
 * fields...} */
#ifndef OS_LOG_H
#define OS_LOG_H

#include "base/errmsg.h"
#include "base/log.h"
#include "env/clock.h"

struct os_log;

enum { OS_LOG_OUTPUTS_MAX = 16 };

struct os_log_opts {
    enum log_level level;       /* events below it are dropped */
    bool console;               /* zap's console form instead of JSON */
    const char *const *outputs; /* "stdout", "stderr" or a path that is appended to; none: stderr */
    size_t output_count;        /* at most OS_LOG_OUTPUTS_MAX */
    const struct clock *clock;  /* must outlive the log; NULL: the system's */
};

/* Opens the outputs. Gives a log, os_log_close() closes it. Errors: E_NOMEM; E_INVAL too many
 * outputs; a file that cannot be opened, named in `em`. */
int os_log_open(const struct os_log_opts *opts, struct os_log **out, struct errmsg *em);
void os_log_close(struct os_log *l);

/* What modules are given; lives as long as `l`. Any thread may emit. */
const struct log *os_log_face(const struct os_log *l);

/* Takes effect for the next event. Any thread. */
void os_log_set_level(struct os_log *l, enum log_level level);
enum log_level os_log_level(const struct os_log *l);

/* Whether an event of that level would be written. Any thread. */
bool os_log_enabled(const struct os_log *l, enum log_level level);

/* "debug info warn error panic fatal dpanic" as `--log-level` takes them; E_INVAL for any other
 * word. */
int os_log_level_parse(const char *word, enum log_level *out);

#endif
