/* Log events are values; text is made at the edge.
 *
 * A module that has something to say gets a `struct log` at its birth and emits an event: a level,
 * a message and a few typed fields. The sink (os: zap-like JSON lines; tests: a list) decides the
 * form. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_FATAL };

enum log_kind { LOG_STR, LOG_INT, LOG_UINT, LOG_BOOL, LOG_HEX, LOG_DURATION_NS, LOG_JSON };

struct log_field {
    const char *name;
    enum log_kind kind;
    union {
        const char *str; /* LOG_STR, LOG_JSON (put in verbatim) */
        int64_t i;       /* LOG_INT, LOG_BOOL, LOG_DURATION_NS (printed as Go does) */
        uint64_t u;      /* LOG_UINT, LOG_HEX (a string of lower-case hex, not padded) */
    } v;
};

struct log_event {
    enum log_level level;
    const char *file; /* of the place that speaks */
    int line;
    const char *msg;
    const struct log_field *fields;
    size_t field_count;
};

struct log {
    void (*emit)(void *arg, const struct log_event *event); /* any thread; borrows the event */
    void *arg;
};

/* Emits nothing when `l` is NULL. */
void log_emit(const struct log *l, const struct log_event *event);

#define LOGF_STR(n, s)      ((struct log_field){(n), LOG_STR, {.str = (s)}})
#define LOGF_JSON(n, s)     ((struct log_field){(n), LOG_JSON, {.str = (s)}})
#define LOGF_INT(n, x)      ((struct log_field){(n), LOG_INT, {.i = (x)}})
#define LOGF_UINT(n, x)     ((struct log_field){(n), LOG_UINT, {.u = (x)}})
#define LOGF_HEX(n, x)      ((struct log_field){(n), LOG_HEX, {.u = (x)}})
#define LOGF_BOOL(n, x)     ((struct log_field){(n), LOG_BOOL, {.i = (x)}})
#define LOGF_DURATION(n, x) ((struct log_field){(n), LOG_DURATION_NS, {.i = (x)}})

/* LOG(l, LOG_INFO, "text", LOGF_UINT("index", i), ...), with none to LOG_FIELDS_MAX fields. */
#define LOG(l, lvl, ...)                                                                           \
    LOG_PICK_(__VA_ARGS__, LOG_N_, LOG_N_, LOG_N_, LOG_N_, LOG_N_, LOG_N_, LOG_N_, LOG_N_, LOG_N_, \
              LOG_N_, LOG_N_, LOG_N_, LOG_N_, LOG_N_, LOG_N_, LOG_N_, LOG_N_, LOG_N_, LOG_N_,      \
              LOG_N_, LOG_N_, LOG_N_, LOG_N_, LOG_0_, none)                                        \
    (l, lvl, __VA_ARGS__)

enum { LOG_FIELDS_MAX = 23 };

/* Picks its 25th argument: LOG_0_ when there is nothing behind the text, else LOG_N_. */
#define LOG_PICK_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, pick,    \
                  ...)                                                                             \
    pick
#define LOG_0_(l, lvl, text)                                                                       \
    log_emit((l), &(struct log_event){(lvl), __FILE__, __LINE__, (text), NULL, 0})
#define LOG_N_(l, lvl, text, ...)                                                                  \
    do {                                                                                           \
        const struct log_field log_fields_[] = {__VA_ARGS__};                                      \
        log_emit((l), &(struct log_event){(lvl), __FILE__, __LINE__, (text), log_fields_,          \
                                          sizeof log_fields_ / sizeof *log_fields_});              \
    } while (0)

#endif
