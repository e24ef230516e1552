/* watch: one stream for all targets; it is opened anew, from where each target stands, when a connection breaks. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/txn.h"
#include "pb/pack.h"
#include "pb/unpack.h"
#include "watch.h"

enum {
    MESSAGE_BYTES_MAX = INT32_MAX,
    READ_BYTES = 4096,
    INPUT_POLL_NS = 20 * 1000 * 1000, /* interactive: how often standard input is looked at */
    RETRY_NS = 100 * 1000 * 1000
};

static const char CANCELED[] = "watch is canceled by the server";

struct watching {
    struct ctl *ctl;
    struct client_stream *stream;
    struct watch_target *targets; /* in the run's arena */
    size_t count, cap;
    size_t told; /* targets sent on this stream */
    struct arena arena;
    struct buf in;
    struct client_status st;
};

/* --- requests ------------------------------------------------------------------------------------ */

static int send_request(struct watching *w, const Etcdserverpb__WatchRequest *request)
{
    struct buf body;
    buf_init(&body, w->ctl->arena.alloc, MESSAGE_BYTES_MAX);
    int rc = pb_pack(&request->base, &body);
    if (rc == 0) rc = client_stream_send(w->stream, buf_bytes(&body));
    buf_deinit(&body);
    return rc;
}

static int send_create(struct watching *w, const struct watch_target *t)
{
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    create.key = (ProtobufCBinaryData){t->key.len, (uint8_t *)(uintptr_t)t->key.data};
    create.range_end = (ProtobufCBinaryData){t->end.len, (uint8_t *)(uintptr_t)t->end.data};
    create.start_revision = t->next;
    create.prev_kv = t->prev_kv;
    create.progress_notify = t->progress_notify;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;
    return send_request(w, &request);
}

static int send_progress(struct watching *w)
{
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
    Etcdserverpb__WatchProgressRequest progress = ETCDSERVERPB__WATCH_PROGRESS_REQUEST__INIT;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST;
    request.progress_request = &progress;
    return send_request(w, &request);
}

/* Opens the stream when there is none, and sends the targets that it does not know. */
static int ensure(struct watching *w)
{
    const struct client_request request = {.path = "/etcdserverpb.Watch/Watch",
                                           .require_leader = true};
    int rc = 0;
    if (w->stream == NULL) {
        rc = client_stream_open(w->ctl->client, &request, false, &w->stream, &w->st);
        w->told = 0;
    }
    for (; rc == 0 && w->told < w->count; w->told++) {
        struct watch_target *t = &w->targets[w->told];
        t->created = false;
        if (!t->ended) rc = send_create(w, t);
    }
    return rc;
}

static int add_target(struct watching *w, const struct watch_target *t)
{
    if (w->count == w->cap) {
        size_t cap = w->cap == 0 ? 8 : w->cap * 2;
        struct watch_target *grown = arena_new(&w->ctl->arena, cap * sizeof *grown);
        if (grown == NULL) return E_NOMEM;
        if (w->count > 0) memcpy(grown, w->targets, w->count * sizeof *grown);
        w->targets = grown;
        w->cap = cap;
    }
    w->targets[w->count++] = *t;
    return 0;
}

/* --- responses ----------------------------------------------------------------------------------- */

/* Why it was cancelled: etcd's own words bare, others as a status. */
static void tell_canceled(struct watching *w, const Etcdserverpb__WatchResponse *r)
{
    struct client_status st = {GRPC_FAILED_PRECONDITION, ""};
    struct errmsg text = {""};
    const char *reason = r->compact_revision != 0 ? err_text(E_COMPACTED) : r->cancel_reason;
    errmsg_set(&text, "%s", reason);
    if (strncmp(reason, "rpc error:", 10) != 0) {
        memcpy(st.text, text.text,
               sizeof text.text < sizeof st.text ? sizeof text.text : sizeof st.text);
        st.text[sizeof st.text - 1] = '\0';
        client_status_text(&st, text.text, sizeof text.text);
    }
    cli_printf(&w->ctl->err, "watch was canceled (%s)\n", text.text);
    (void)cli_out_flush(&w->ctl->err);
}

static int run_commands(struct watching *w, const struct watch_target *t,
                        const Etcdserverpb__WatchResponse *r)
{
    int status = CLI_OK;
    for (size_t i = 0; t->command.count > 0 && i < r->n_events && status == CLI_OK; i++)
        status = watch_run(w->ctl, &t->command, r->header != NULL ? r->header->revision : 0,
                           r->events[i]);
    return status;
}

static int show(struct watching *w, struct watch_target *t, const Etcdserverpb__WatchResponse *r,
                struct errmsg *em)
{
    struct cli_out *out = &w->ctl->out;
    int64_t revision = r->header != NULL ? r->header->revision : 0;
    bool notice = r->n_events == 0 && !r->canceled && revision != 0;
    if (r->canceled) tell_canceled(w, r);
    if (notice) cli_printf(out, "progress notify: %lld\n", (long long)revision);
    if (notice && t->next <= revision) t->next = revision + 1;
    if (r->n_events > 0) t->next = r->events[r->n_events - 1]->kv->mod_revision + 1;
    int status = cli_print_watch(&w->ctl->printer, r, em);
    if (cli_out_flush(out) < 0) return CLI_ERROR;
    if (status == CLI_OK) status = run_commands(w, t, r);
    if (r->canceled) t->ended = true;
    return status;
}

/* The answers to creates come in the order of the creates. */
static struct watch_target *next_created(struct watching *w)
{
    for (size_t i = 0; i < w->told; i++) {
        if (!w->targets[i].created && !w->targets[i].ended) return &w->targets[i];
    }
    return NULL;
}

static int on_created(struct watching *w, const Etcdserverpb__WatchResponse *r, struct errmsg *em)
{
    struct watch_target *t = next_created(w);
    if (t == NULL) return CLI_OK;
    t->created = true;
    t->id = r->watch_id;
    if (r->canceled) return show(w, t, r, em);
    if (t->next == 0 && r->header != NULL) t->next = r->header->revision + 1;
    return CLI_OK;
}

static int on_response(struct watching *w, const Etcdserverpb__WatchResponse *r, struct errmsg *em)
{
    int status = CLI_OK;
    if (r->created) return on_created(w, r, em);
    for (size_t i = 0; i < w->count && status == CLI_OK; i++) {
        struct watch_target *t = &w->targets[i];
        if (t->created && !t->ended && (t->id == r->watch_id || r->watch_id == -1))
            status = show(w, t, r, em);
    }
    return status;
}

/* --- the stream ---------------------------------------------------------------------------------- */

static bool all_ended(const struct watching *w)
{
    for (size_t i = 0; i < w->count; i++) {
        if (!w->targets[i].ended) return false;
    }
    return true;
}

/* What another connection may mend, as upstream's client sees it. */
static bool may_go_on(const struct client_status *st)
{
    if (strcmp(st->text, err_text(E_NO_LEADER)) == 0) return false;
    return st->code == GRPC_OK || st->code == GRPC_UNAVAILABLE || st->code == GRPC_INTERNAL;
}

/* The stream has ended for good: so have all that stood on it. */
static int end_all(struct watching *w, struct errmsg *em)
{
    Etcdserverpb__WatchResponse r;
    struct errmsg text = {""};
    int status = CLI_OK;
    etcdserverpb__watch_response__init(&r);
    client_status_text(&w->st, text.text, sizeof text.text);
    r.canceled = 1;
    for (size_t i = 0; i < w->count && status == CLI_OK; i++) {
        if (w->targets[i].ended) continue;
        w->targets[i].ended = true;
        cli_printf(&w->ctl->err, "watch was canceled (%s)\n", text.text);
        status = cli_print_watch(&w->ctl->printer, &r, em);
    }
    return status;
}

static int broken(struct watching *w, struct errmsg *em)
{
    const struct timespec pause = {.tv_nsec = RETRY_NS};
    client_stream_close(w->stream);
    w->stream = NULL;
    if (!may_go_on(&w->st)) return end_all(w, em);
    w->st = (struct client_status){GRPC_OK, ""};
    (void)nanosleep(&pause, NULL);
    return CLI_OK;
}

/* Waits for one response, at most `timeout_ns` (0: as long as it takes), and shows it. Returns an exit code. */
static int hear(struct watching *w, uint64_t timeout_ns, struct errmsg *em)
{
    int rc = ensure(w);
    if (rc == 0) rc = client_stream_next(w->stream, timeout_ns, &w->in, &w->st);
    if (rc == E_AGAIN) return CLI_OK;
    if (rc <= 0) return broken(w, em);
    ProtobufCMessage *m = NULL;
    const struct pb_unpack_opts opts = {.bounds = &pb_bounds_own, .alias = true};
    arena_reset(&w->arena);
    rc = pb_unpack_opts(&etcdserverpb__watch_response__descriptor, buf_bytes(&w->in), &opts,
                        &w->arena, &m, em);
    if (rc < 0) return CLI_ERROR;
    return on_response(w, (const void *)m, em);
}

static int watch_one(struct watching *w, const struct watch_target *t, struct errmsg *em)
{
    int status = add_target(w, t) < 0 ? cli_fail(em, CLI_ERROR, "%s", err_text(E_NOMEM)) : CLI_OK;
    while (status == CLI_OK && !all_ended(w))
        status = hear(w, 0, em);
    if (status != CLI_OK) return status;
    (void)cli_out_flush(&w->ctl->out);
    return cli_fail(em, CLI_INTERRUPTED, "%s", CANCELED);
}

/* --- interactive --------------------------------------------------------------------------------- */

static void invalid(struct watching *w, struct bytes line, const char *why)
{
    struct cli_out *to = &w->ctl->err;
    cli_put(to, "Invalid command ");
    cli_put_bytes(to, line);
    cli_printf(to, " (%s)\n", why);
    (void)cli_out_flush(to);
}

/* A line's own flags. Returns an exit code. */
static int line_target(struct watching *w, struct cli_words words, const struct watch_env *env,
                       struct watch_target *t, bool *range, struct errmsg *em)
{
    struct ctl *ctl = w->ctl;
    struct ctl_watch_values values = {.revision = 0};
    struct cli_flags flags = {.arena = &ctl->arena};
    *range = false;
    if (cli_flags_add(&flags, ctl_watch_rows, CTL_WATCH_ROWS, &values) < 0)
        return cli_fail(em, CLI_ERROR, "%s", err_text(E_NOMEM));
    if (cli_flags_parse(&flags, &words, em) < 0) return CLI_BAD_ARGS;
    return watch_target_of(ctl, &values, &words, flags.dashed, flags.before_dash, env, t, range,
                           em);
}

static int watch_line(struct watching *w, struct bytes line, struct cli_words words,
                      const struct watch_env *env, struct errmsg *em)
{
    struct watch_target t;
    bool range = false;
    if (words.count < 2 && env->key.len == 0) {
        invalid(w, line, "command type or key is not provided");
        return CLI_OK;
    }
    words = (struct cli_words){words.items + 1, words.count - 1};
    int status = line_target(w, words, env, &t, &range, em);
    if (status == CLI_OK && add_target(w, &t) < 0)
        return cli_fail(em, CLI_ERROR, "%s", err_text(E_NOMEM));
    if (status == CLI_OK || !range) return status;
    invalid(w, line, em->text);
    em->text[0] = '\0';
    return CLI_OK;
}

static int take_line(struct watching *w, struct bytes borrowed, const struct watch_env *env,
                     struct errmsg *em)
{
    struct cli_words words;
    struct bytes line = arena_copy(&w->ctl->arena, borrowed);
    if (line.data == NULL || cli_split_words(line, &w->ctl->arena, &words) < 0) {
        invalid(w, borrowed, "invalid syntax");
        return CLI_OK;
    }
    if (words.count == 0) {
        cli_put(&w->ctl->err, "Invalid command: ");
        cli_put_bytes(&w->ctl->err, line);
        cli_put(&w->ctl->err, " (watch and progress supported)\n");
        (void)cli_out_flush(&w->ctl->err);
        return CLI_OK;
    }
    if (bytes_eq(words.items[0], bytes_str("watch"))) return watch_line(w, line, words, env, em);
    if (bytes_eq(words.items[0], bytes_str("progress"))) {
        int rc = ensure(w);
        if (rc == 0) rc = send_progress(w);
        return rc < 0 ? broken(w, em) : CLI_OK;
    }
    invalid(w, line, "only support watch");
    return CLI_OK;
}

/* Reads what there is; the whole lines of it are taken. */
static int read_lines(struct watching *w, struct buf *have, const struct watch_env *env,
                      struct errmsg *em)
{
    if (buf_reserve(have, READ_BYTES) < 0) return cli_fail(em, CLI_ERROR, "%s", err_text(E_NOMEM));
    ssize_t n = read(STDIN_FILENO, have->data + have->len, READ_BYTES);
    if (n < 0 && errno == EINTR) return CLI_OK;
    if (n <= 0)
        return cli_fail(em, CLI_BAD_INPUT, "error reading watch request line: %s",
                        n == 0 ? "EOF" : err_text(err_from_errno(errno)));
    have->len += (size_t)n;
    int status = CLI_OK;
    const uint8_t *end = NULL;
    while (status == CLI_OK && have->len > 0 &&
           (end = memchr(have->data, '\n', have->len)) != NULL) {
        size_t len = (size_t)(end - have->data);
        status = take_line(w, bytes_of(have->data, len), env, em);
        buf_consume(have, len + 1);
    }
    return status;
}

static bool input_waits(int timeout_ms)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&p, 1, timeout_ms) > 0;
}

static int interact(struct watching *w, const struct watch_env *env, struct errmsg *em)
{
    struct buf have;
    int status = CLI_OK;
    buf_init(&have, w->ctl->arena.alloc, MESSAGE_BYTES_MAX);
    while (status == CLI_OK) {
        bool idle = w->stream == NULL && all_ended(w);
        if (input_waits(idle ? -1 : 0)) {
            status = read_lines(w, &have, env, em);
        } else if (!idle) {
            status = hear(w, INPUT_POLL_NS, em);
        }
    }
    buf_deinit(&have);
    return status;
}

int ctl_watch(void *arg, struct cli_call *call, struct errmsg *em)
{
    struct ctl *ctl = arg;
    const struct ctl_watch_values *v = call->values;
    struct watching w = {.ctl = ctl};
    struct watch_env env;
    struct watch_target t = {.next = 0};
    bool range = false;
    int status = watch_env(ctl, &env, em);
    if (status == CLI_OK && !v->interactive)
        status = watch_target_of(ctl, v, &call->args, call->flags.dashed, call->flags.before_dash,
                                 &env, &t, &range, em);
    if (status == CLI_OK) status = ctl_connect(ctl, call, em);
    if (status != CLI_OK) return status;
    arena_init(&w.arena, ctl->arena.alloc, SIZE_MAX / 2);
    buf_init(&w.in, ctl->arena.alloc, MESSAGE_BYTES_MAX);
    status = v->interactive ? interact(&w, &env, em) : watch_one(&w, &t, em);
    client_stream_close(w.stream);
    buf_deinit(&w.in);
    arena_deinit(&w.arena);
    return status;
}
