/* A server that does as it is told, on a thread of its own: real sockets, our grpc engine, no etcd.
 *
 * What it does with a call stands in its path (fake_methods). Counters are atomic; a test reads them after the call that
 * should have moved them. */
#ifndef TEST_UNIT_CLIENT_FAKE_SERVER_H
#define TEST_UNIT_CLIENT_FAKE_SERVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/list.h"
#include "client/client.h"
#include "grpc/grpc.h"
#include "os/clock.h"
#include "os/heap.h"
#include "os/loop.h"
#include "os/sock.h"
#include "os/thread.h"
#include "pb/wire.h"

enum { FAKE_READ_BYTES = 64 * 1024, FAKE_POOL_BYTES = 1024 * 1024, FAKE_ADDRESS_BYTES = 256 };

struct fake {
    struct thread thread;
    struct loop *loop;
    struct loop_watch *watch;
    struct task stop, drain;
    struct grpc_pool *pool;
    struct grpc_handler handler;
    struct list conns;
    int listen_fd;
    char address[FAKE_ADDRESS_BYTES]; /* as an endpoint */
    struct client *interrupts;        /* /t.T/Interrupt ends this client's wait */
    atomic_int calls;                 /* that began */
    atomic_int accepted;              /* connections */
    atomic_int failures_left;         /* of /t.T/Busy */
    atomic_int logins;
    atomic_bool auth_off;
    uint8_t read_buffer[FAKE_READ_BYTES];
};

struct fake_conn {
    struct list link; /* first */
    struct fake *f;
    struct loop_watch *watch;
    struct grpc_conn *grpc;
    int fd;
    bool dropped; /* a call asked for the connection's end */
    uint8_t out[GRPC_PULL_BYTES];
    size_t out_len, out_at;
};

/* One call: what it wants, and what is left to be sent. */
struct fake_call {
    const struct fake_method *method;
    uint64_t left;
    uint32_t size;
};

struct fake_method {
    const char *path;
    enum grpc_kind kind;
    void (*on_message)(struct fake *f, struct grpc_call *call, struct fake_call *k,
                       struct bytes msg);
};

static uint64_t fake_now(void)
{
    return os_clock.mono_ns(os_clock.arg);
}

static void fake_done(struct grpc_call *call, struct fake_call *k)
{
    free(k);
    grpc_call_finish(call, GRPC_OK, BYTES_EMPTY);
}

/* --- what calls do ---------------------------------------------------------------------------------- */

static void fake_echo(struct fake *f, struct grpc_call *call, struct fake_call *k, struct bytes msg)
{
    assert_int_equal(grpc_call_send(call, msg), 0);
    fake_done(call, k);
}

/* The message is the code, one byte, and the text. */
static void fake_fail(struct fake *f, struct grpc_call *call, struct fake_call *k, struct bytes msg)
{
    free(k);
    grpc_call_finish(call, (enum grpc_code)msg.data[0], bytes_of(msg.data + 1, msg.len - 1));
}

static void fake_hang(struct fake *f, struct grpc_call *call, struct fake_call *k, struct bytes msg)
{
    (void)call;
}

static void fake_drop(struct fake *f, struct grpc_call *call, struct fake_call *k, struct bytes msg)
{
    struct fake_conn *c = grpc_conn_data(grpc_call_conn(call));
    c->dropped = true;
}

static void fake_busy(struct fake *f, struct grpc_call *call, struct fake_call *k, struct bytes msg)
{
    if (atomic_fetch_sub(&f->failures_left, 1) > 0) {
        free(k);
        grpc_call_finish(call, GRPC_UNAVAILABLE, bytes_str("etcdserver: no leader"));
        return;
    }
    fake_echo(f, call, k, msg);
}

static void fake_interrupt(struct fake *f, struct grpc_call *call, struct fake_call *k,
                           struct bytes msg)
{
    client_interrupt(f->interrupts);
}

/* Only "root" with "secret" may; each login gives another token. */
static void fake_login(struct fake *f, struct grpc_call *call, struct fake_call *k,
                       struct bytes msg)
{
    static const char RIGHT[] = "\n\4root\22\6secret";
    uint8_t answer[64];
    char token[32];
    int n = atomic_fetch_add(&f->logins, 1) + 1;
    snprintf(token, sizeof token, "token-%d", n);
    uint8_t *end = pb_write_bytes(answer, 2, bytes_str(token));
    if (atomic_load(&f->auth_off)) {
        free(k);
        grpc_call_finish_err(call, E_AUTH_NOT_ENABLED);
    } else if (!bytes_eq(msg, bytes_of(RIGHT, sizeof RIGHT - 1))) {
        free(k);
        grpc_call_finish_err(call, E_AUTH_FAILED);
    } else {
        fake_echo(f, call, k, bytes_of(answer, (size_t)(end - answer)));
    }
}

static void fake_send_more(struct grpc_call *call, struct fake_call *k)
{
    uint8_t *body = calloc(1, k->size);
    while (k->left > 0 && grpc_call_writable(call)) {
        memcpy(body, &k->left, sizeof k->left);
        assert_int_equal(grpc_call_send(call, bytes_of(body, k->size)), 0);
        k->left--;
    }
    free(body);
    if (k->left == 0) fake_done(call, k);
}

/* The message says how many messages of what size are wanted; each begins with how many are left. */
static void fake_count(struct fake *f, struct grpc_call *call, struct fake_call *k,
                       struct bytes msg)
{
    memcpy(&k->left, msg.data, sizeof k->left);
    memcpy(&k->size, msg.data + sizeof k->left, sizeof k->size);
    fake_send_more(call, k);
}

static void fake_chat(struct fake *f, struct grpc_call *call, struct fake_call *k, struct bytes msg)
{
    assert_int_equal(grpc_call_send(call, msg), 0);
}

static const struct fake_method FAKE_METHODS[] = {
    {"/t.T/Echo", GRPC_UNARY, fake_echo},
    {"/t.T/Fail", GRPC_UNARY, fake_fail},
    {"/t.T/Hang", GRPC_UNARY, fake_hang},
    {"/t.T/Drop", GRPC_UNARY, fake_drop},
    {"/t.T/Busy", GRPC_UNARY, fake_busy},
    {"/t.T/Interrupt", GRPC_UNARY, fake_interrupt},
    {"/etcdserverpb.Auth/Authenticate", GRPC_UNARY, fake_login},
    {"/t.T/Count", GRPC_SERVER_STREAM, fake_count},
    {"/t.T/FailStream", GRPC_SERVER_STREAM, fake_fail},
    {"/t.T/Chat", GRPC_BIDI, fake_chat},
};

/* --- the handler ------------------------------------------------------------------------------------ */

/* /t.T/Head answers with what came as metadata; /t.T/Guarded wants the newest token. */
static bool fake_on_head(struct fake *f, struct grpc_call *call, const struct grpc_head *head)
{
    static const char *const NAMES[] = {"client-api-version", "token", "hasleader"};
    char text[256] = "";
    size_t len = 0;
    if (bytes_eq(head->path, bytes_str("/t.T/Guarded"))) {
        char token[32];
        snprintf(token, sizeof token, "token-%d", atomic_load(&f->logins));
        if (bytes_eq(grpc_head_get(head, "token"), bytes_str(token))) return false;
        grpc_call_finish_err(call, E_INVALID_AUTH_TOKEN);
        return true;
    }
    if (!bytes_eq(head->path, bytes_str("/t.T/Head"))) return false;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        struct bytes v = grpc_head_get(head, NAMES[i]);
        len += (size_t)snprintf(text + len, sizeof text - len, "%s=%.*s;", NAMES[i], (int)v.len,
                                v.data == NULL ? "" : (const char *)v.data);
    }
    grpc_call_finish(call, GRPC_ABORTED, bytes_of(text, len));
    return true;
}

static enum grpc_kind fake_on_call(void *arg, struct grpc_call *call, const struct grpc_head *head)
{
    struct fake *f = arg;
    atomic_fetch_add(&f->calls, 1);
    if (fake_on_head(f, call, head)) return GRPC_UNARY;
    const struct fake_method *m = &FAKE_METHODS[0]; /* Guarded, once let in, echoes */
    bool known = bytes_eq(head->path, bytes_str("/t.T/Guarded"));
    for (size_t i = 0; i < sizeof FAKE_METHODS / sizeof *FAKE_METHODS && !known; i++) {
        m = &FAKE_METHODS[i];
        known = bytes_eq(head->path, bytes_str(m->path));
    }
    if (!known) {
        grpc_call_finish_unknown(call, head, true);
        return GRPC_UNARY;
    }
    struct fake_call *k = calloc(1, sizeof *k);
    k->method = m;
    grpc_call_set_data(call, k);
    return m->kind;
}

static void fake_on_message(void *arg, struct grpc_call *call, void *data, struct bytes msg)
{
    struct fake_call *k = data;
    k->method->on_message(arg, call, k, msg);
}

static void fake_on_half_close(void *arg, struct grpc_call *call, void *data)
{
    fake_done(call, data);
}

static void fake_on_cancel(void *arg, struct grpc_call *call, void *data, enum grpc_cancel why)
{
    free(data);
}

static void fake_on_writable(void *arg, struct grpc_call *call, void *data)
{
    struct fake_call *k = data;
    if (k->method->on_message == fake_count) fake_send_more(call, k);
}

/* --- connections ------------------------------------------------------------------------------------ */

static void fake_close(struct fake_conn *c)
{
    list_remove(&c->link);
    loop_watch_close(c->watch);
    grpc_conn_free(c->grpc);
    sock_close(c->fd);
    free(c);
}

/* Sends what there is; false when the connection is over. */
static bool fake_send(struct fake_conn *c)
{
    for (;;) {
        if (c->out_at == c->out_len) {
            c->out_at = 0;
            c->out_len = grpc_conn_pull(c->grpc, c->out, sizeof c->out, fake_now());
            if (c->out_len == 0) break;
        }
        size_t done = 0;
        int rc = sock_write(c->fd, bytes_of(c->out + c->out_at, c->out_len - c->out_at), &done);
        if (rc == E_AGAIN) {
            loop_watch_set(c->watch, LOOP_READABLE | LOOP_WRITABLE);
            return true;
        }
        if (rc < 0) return false;
        c->out_at += done;
    }
    loop_watch_set(c->watch, LOOP_READABLE);
    (void)grpc_conn_tick(c->grpc, fake_now());
    return !grpc_conn_done(c->grpc);
}

static void fake_on_event(void *arg, unsigned events)
{
    struct fake_conn *c = arg;
    size_t got = 0;
    int rc = sock_read(c->fd, c->f->read_buffer, FAKE_READ_BYTES, &got);
    if (rc == 0) rc = grpc_conn_feed(c->grpc, c->f->read_buffer, got, fake_now());
    if (c->dropped || (rc < 0 && rc != E_AGAIN) || !fake_send(c)) fake_close(c);
}

static void fake_on_accept(void *arg, unsigned events)
{
    struct fake *f = arg;
    int fd = -1;
    struct grpc_conn_opts o = grpc_conn_opts_default();
    if (sock_accept(f->listen_fd, &fd, NULL) < 0) return;
    atomic_fetch_add(&f->accepted, 1);
    struct fake_conn *c = calloc(1, sizeof *c);
    o.pool = f->pool;
    o.recv_bytes_max = 16 * 1024 * 1024;
    o.assembly_bytes_max = 64 * 1024 * 1024;
    c->f = f;
    c->fd = fd;
    c->grpc = grpc_conn_new(&o, &f->handler, fake_now());
    grpc_conn_set_data(c->grpc, c);
    list_push_back(&f->conns, &c->link);
    assert_int_equal(loop_watch_open(f->loop, fd, fake_on_event, c, &c->watch), 0);
    if (!fake_send(c)) fake_close(c);
}

/* --- life ------------------------------------------------------------------------------------------- */

static void fake_on_stop(struct task *t)
{
    struct fake *f = LIST_OBJECT(t, struct fake, stop);
    while (!list_empty(&f->conns))
        fake_close((struct fake_conn *)(void *)f->conns.next);
    loop_watch_close(f->watch);
    loop_stop(f->loop);
}

static void fake_on_drain(struct task *t)
{
    struct fake *f = LIST_OBJECT(t, struct fake, drain);
    struct list *link;
    struct list *spare;
    LIST_EACH_SAFE(&f->conns, link, spare)
    {
        struct fake_conn *c = (struct fake_conn *)(void *)link;
        grpc_conn_drain(c->grpc, fake_now());
        if (!fake_send(c)) fake_close(c);
    }
}

static void fake_run(void *arg)
{
    struct fake *f = arg;
    loop_run(f->loop);
}

/* Listens on `where`: "unix:PATH" or host:port. Port 0 is any; after a first life its port can be asked for again. */
__attribute__((unused)) static struct fake *fake_start(const char *where)
{
    struct fake *f = calloc(1, sizeof *f);
    struct errmsg em = {""};
    bool local = strncmp(where, "unix:", 5) == 0;
    list_init(&f->conns);
    int rc = local ? sock_listen_unix(where + 5, &f->listen_fd, &em)
                   : sock_listen_tcp(where, NULL, &f->listen_fd, &em);
    if (rc < 0) fail_msg("%s", em.text);
    if (local) {
        snprintf(f->address, sizeof f->address, "%s", where);
    } else {
        sock_local_text(f->listen_fd, f->address);
    }
    f->pool = grpc_pool_new(&os_heap, FAKE_POOL_BYTES);
    f->handler = (struct grpc_handler){.arg = f,
                                       .on_call = fake_on_call,
                                       .on_message = fake_on_message,
                                       .on_half_close = fake_on_half_close,
                                       .on_cancel = fake_on_cancel,
                                       .on_writable = fake_on_writable};
    f->stop.run = fake_on_stop;
    f->drain.run = fake_on_drain;
    assert_int_equal(loop_new(&os_heap, &f->loop, NULL), 0);
    assert_int_equal(loop_watch_open(f->loop, f->listen_fd, fake_on_accept, f, &f->watch), 0);
    loop_watch_set(f->watch, LOOP_READABLE);
    assert_int_equal(thread_start(&f->thread, "fake", fake_run, f, NULL), 0);
    return f;
}

/* Says GOAWAY on all connections. */
__attribute__((unused)) static void fake_drain_all(struct fake *f)
{
    loop_post(f->loop, &f->drain);
}

__attribute__((unused)) static void fake_stop(struct fake *f)
{
    loop_post(f->loop, &f->stop);
    thread_join(&f->thread);
    loop_free(f->loop);
    grpc_pool_free(f->pool);
    sock_close(f->listen_fd);
    free(f);
}

#endif
