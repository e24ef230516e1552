/* Log lines in zap's two forms.
 *
 * A line is built in a buffer of its own and leaves by one write(), so lines of several threads
 * never mix and no lock is held while the disk or a pipe is slow. What cannot be written is
 * dropped: logging never fails its caller. */
#include "os/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"
#include "os/clock.h"
#include "os/heap.h"

enum { LOG_LINE_BYTES_MAX = 64 * 1024, NS_PER_S = 1000000000 };

struct os_log {
    struct log face;
    atomic_int level;
    bool console;
    const struct clock *clock;
    int fds[OS_LOG_OUTPUTS_MAX];
    size_t fd_count;
};

/* --- pieces of a line ------------------------------------------------------------------------- */

/* 2006-01-02T15:04:05.999999Z0700: microseconds without trailing zeros, Z in UTC. */
static int put_time(struct buf *b, int64_t wall_ns)
{
    time_t seconds = (time_t)(wall_ns / NS_PER_S);
    unsigned us = (unsigned)(wall_ns % NS_PER_S / 1000);
    struct tm tm;
    char date[32];
    char zone[8];
    char fraction[8] = "";
    if (localtime_r(&seconds, &tm) == NULL) return E_INVAL;
    (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)strftime(zone, sizeof zone, "%z", &tm);
    if (us != 0) {
        (void)snprintf(fraction, sizeof fraction, ".%06u", us % 1000000);
        for (size_t n = strlen(fraction); fraction[n - 1] == '0'; n--) {
            fraction[n - 1] = 0;
        }
    }
    return buf_printf(b, "%s%s%s", date, fraction, tm.tm_gmtoff == 0 ? "Z" : zone);
}

/* The last two components of a path, as zap shows callers. */
static const char *short_file(const char *file)
{
    const char *last = strrchr(file, '/');
    if (last == NULL) return file;
    while (last > file && last[-1] != '/') {
        last--;
    }
    return last;
}

static const char *level_name(enum log_level level)
{
    static const char *const names[] = {"debug", "info", "warn", "error", "fatal"};
    return names[level];
}

static int put_json_str(struct buf *b, const char *text)
{
    return text_put_json_plain(b, bytes_str(text == NULL ? "" : text));
}

static int put_value(struct buf *b, const struct log_field *f)
{
    char text[TEXT_DURATION_BYTES_MAX];
    switch (f->kind) {
    case LOG_STR: return put_json_str(b, f->v.str);
    case LOG_INT: return buf_printf(b, "%lld", (long long)f->v.i);
    case LOG_UINT: return buf_printf(b, "%llu", (unsigned long long)f->v.u);
    case LOG_BOOL: return buf_put_str(b, f->v.i != 0 ? "true" : "false");
    case LOG_HEX: return buf_printf(b, "\"%llx\"", (unsigned long long)f->v.u);
    case LOG_DURATION_NS: (void)text_duration(f->v.i, text); return put_json_str(b, text);
    case LOG_JSON: return buf_put_str(b, f->v.str == NULL ? "null" : f->v.str);
    }
    return E_INVAL;
}

/* "name":value for each, with `between` in front of each but the first. */
static int put_fields(struct buf *b, const struct log_event *e, const char *between,
                      const char *colon)
{
    int rc = 0;
    for (size_t i = 0; i < e->field_count && rc == 0; i++) {
        if (i > 0) rc = buf_put_str(b, between);
        if (rc == 0) rc = put_json_str(b, e->fields[i].name);
        if (rc == 0) rc = buf_put_str(b, colon);
        if (rc == 0) rc = put_value(b, &e->fields[i]);
    }
    return rc;
}

/* --- lines ------------------------------------------------------------------------------------ */

static int put_json_line(struct buf *b, const struct log_event *e, int64_t wall_ns)
{
    int rc = buf_printf(b, "{\"level\":\"%s\",\"ts\":\"", level_name(e->level));
    if (rc == 0) rc = put_time(b, wall_ns);
    if (rc == 0)
        rc = buf_printf(b, "\",\"caller\":\"%s:%d\",\"msg\":", short_file(e->file), e->line);
    if (rc == 0) rc = put_json_str(b, e->msg);
    if (rc == 0 && e->field_count > 0) rc = buf_put_u8(b, ',');
    if (rc == 0) rc = put_fields(b, e, ",", ":");
    if (rc == 0) rc = buf_put_str(b, "}\n");
    return rc;
}

static int put_console_line(struct buf *b, const struct log_event *e, int64_t wall_ns)
{
    int rc = put_time(b, wall_ns);
    if (rc == 0) {
        rc = buf_printf(b, "\t%s\t%s:%d\t%s", level_name(e->level), short_file(e->file), e->line,
                        e->msg);
    }
    if (rc == 0 && e->field_count > 0) rc = buf_put_str(b, "\t{");
    if (rc == 0) rc = put_fields(b, e, ", ", ": ");
    if (rc == 0) rc = buf_put_str(b, e->field_count > 0 ? "}\n" : "\n");
    return rc;
}

static int put_line(const struct os_log *l, struct buf *b, const struct log_event *e)
{
    int64_t wall_ns = l->clock->wall_ns(l->clock->arg);
    return l->console ? put_console_line(b, e, wall_ns) : put_json_line(b, e, wall_ns);
}

static void write_line(int fd, struct bytes line)
{
    while (line.len > 0) {
        ssize_t n = write(fd, line.data, line.len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        line = bytes_of(line.data + n, line.len - (size_t)n);
    }
}

static void emit(void *arg, const struct log_event *event)
{
    const struct os_log *l = arg;
    if (!os_log_enabled(l, event->level)) return;
    struct buf line;
    buf_init(&line, &os_heap, LOG_LINE_BYTES_MAX);
    int rc = put_line(l, &line, event);
    if (rc == E_TOOBIG) { /* say it without its fields rather than not at all */
        struct log_event bare = *event;
        struct log_field cut = LOGF_BOOL("fields-too-long", true);
        bare.fields = &cut;
        bare.field_count = 1;
        buf_reset(&line);
        rc = put_line(l, &line, &bare);
    }
    for (size_t i = 0; i < l->fd_count && rc == 0; i++) {
        write_line(l->fds[i], buf_bytes(&line));
    }
    buf_deinit(&line);
}

/* --- the handle ------------------------------------------------------------------------------- */

static int output_open(const char *name, int *fd, struct errmsg *em)
{
    if (strcmp(name, "stdout") == 0 || strcmp(name, "stderr") == 0) {
        *fd = strcmp(name, "stdout") == 0 ? STDOUT_FILENO : STDERR_FILENO;
        return 0;
    }
    int opened = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (opened < 0) {
        int rc = err_from_errno(errno);
        errmsg_set(em, "cannot open log output \"%s\": %s", name, err_text(rc));
        return rc;
    }
    *fd = opened;
    return 0;
}

int os_log_open(const struct os_log_opts *opts, struct os_log **out, struct errmsg *em)
{
    static const char *const usual[] = {"stderr"};
    size_t count = opts->output_count == 0 ? 1 : opts->output_count;
    const char *const *names = opts->output_count == 0 ? usual : opts->outputs;
    if (count > OS_LOG_OUTPUTS_MAX) {
        errmsg_set(em, "more than %d log outputs", OS_LOG_OUTPUTS_MAX);
        return E_INVAL;
    }
    struct os_log *l = alloc_zero(&os_heap, sizeof *l);
    if (l == NULL) return E_NOMEM;
    l->face = (struct log){.emit = emit, .arg = l};
    atomic_init(&l->level, (int)opts->level);
    l->console = opts->console;
    l->clock = opts->clock != NULL ? opts->clock : &os_clock;
    for (; l->fd_count < count; l->fd_count++) {
        int rc = output_open(names[l->fd_count], &l->fds[l->fd_count], em);
        if (rc < 0) {
            os_log_close(l);
            return rc;
        }
    }
    *out = l;
    return 0;
}

void os_log_close(struct os_log *l)
{
    if (l == NULL) return;
    for (size_t i = 0; i < l->fd_count; i++) {
        if (l->fds[i] > STDERR_FILENO) (void)close(l->fds[i]);
    }
    alloc_free(&os_heap, l, sizeof *l);
}

const struct log *os_log_face(const struct os_log *l)
{
    return &l->face;
}

void os_log_set_level(struct os_log *l, enum log_level level)
{
    atomic_store_explicit(&l->level, (int)level, memory_order_relaxed);
}

enum log_level os_log_level(const struct os_log *l)
{
    return (enum log_level)atomic_load_explicit(&l->level, memory_order_relaxed);
}

bool os_log_enabled(const struct os_log *l, enum log_level level)
{
    return level >= os_log_level(l);
}

int os_log_level_parse(const char *word, enum log_level *out)
{
    static const struct {
        const char *word;
        enum log_level level;
    } words[] = {
        {"debug", LOG_DEBUG}, {"info", LOG_INFO},    {"warn", LOG_WARN},   {"error", LOG_ERROR},
        {"panic", LOG_FATAL}, {"dpanic", LOG_FATAL}, {"fatal", LOG_FATAL},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i].word) != 0) continue;
        *out = words[i].level;
        return 0;
    }
    return E_INVAL;
}
