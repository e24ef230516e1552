/* Listeners: bound before anything on disk is touched, let in when the member can serve. */
#include "server/server_int.h"

#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/url.h"
#include "os/sock.h"

enum {
    ACCEPTS_PER_EVENT = 64,
    ACCEPT_RETRY_MS = 100 /* out of descriptors: connections wait in the backlog meanwhile */
};

/* A socket on its way to its io thread. */
struct handover {
    struct task task; /* first */
    struct io_thread *io;
    int fd;
    struct conn_face face;
};

static int bind_url(struct server *s, struct listener *l, struct errmsg *em)
{
    struct url u;
    char text[DATADIR_PATH_BYTES_MAX];
    int rc = url_parse(&u, bytes_str(l->url), em);
    if (rc < 0) return rc;
    struct bytes place = u.unix_socket ? url_unix_path(&u) : u.authority;
    if (place.len >= sizeof text) return E_TOOBIG;
    memcpy(text, place.data, place.len);
    text[place.len] = '\0';
    if (u.unix_socket) {
        l->unix_path = l->url + (place.data - (const uint8_t *)l->url);
        return sock_listen_unix(text, &l->fd, em);
    }
    struct sock_listen_opts opts = {.reuse_port = s->config->socket_reuse_port};
    return sock_listen_tcp(text, &opts, &l->fd, em);
}

static int add_listeners(struct server *s, const struct config_list *urls, struct conn_face face,
                         struct errmsg *em)
{
    for (size_t i = 0; i < urls->count; i++) {
        if (s->listener_count == LISTENERS_MAX) {
            errmsg_set(em, "more than %d URLs to listen on", (int)LISTENERS_MAX);
            return E_TOOBIG;
        }
        struct listener *l = &s->listeners[s->listener_count];
        *l = (struct listener){.s = s, .fd = -1, .url = urls->items[i], .face = face};
        int rc = bind_url(s, l, em);
        if (rc < 0) return rc;
        s->listener_count++;
    }
    return 0;
}

int server__listen(struct server *s, struct errmsg *em)
{
    const struct config *c = s->config;
    bool http_apart = c->listen_client_http_urls.count > 0;
    struct conn_face peer = {.http = true, .http_kind = RPC_HTTP_PEER};
    struct conn_face client = {.grpc = true, .http = !http_apart, .http_kind = RPC_HTTP_CLIENT};
    struct conn_face http = {.http = true, .http_kind = RPC_HTTP_CLIENT};
    struct conn_face metrics = {.http = true, .http_kind = RPC_HTTP_METRICS};
    int rc = add_listeners(s, &c->listen_peer_urls, peer, em);
    if (rc == 0) rc = add_listeners(s, &c->listen_client_urls, client, em);
    if (rc == 0) rc = add_listeners(s, &c->listen_client_http_urls, http, em);
    if (rc == 0) rc = add_listeners(s, &c->listen_metrics_urls, metrics, em);
    return rc;
}

/* --- accepting -------------------------------------------------------------------------------------- */

static void on_handover(struct task *task)
{
    struct handover *h = (struct handover *)(void *)task;
    conn_set_add(h->io->conns, h->fd, h->face);
    alloc_free(h->io->s->alloc, h, sizeof *h);
}

static void hand_over(struct server *s, int fd, struct conn_face face)
{
    struct handover *h = alloc_zero(s->alloc, sizeof *h);
    if (h == NULL) {
        sock_close(fd);
        return;
    }
    h->io = &s->io[s->io_next++ % s->io_count];
    h->fd = fd;
    h->face = face;
    h->task.run = on_handover;
    loop_post(h->io->loop, &h->task);
}

static void on_connection(void *arg, unsigned events)
{
    struct listener *l = arg;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_EVENT; i++) {
        int fd = -1;
        int rc = sock_accept(l->fd, &fd, NULL);
        if (rc == 0) {
            hand_over(l->s, fd, l->face);
            continue;
        }
        if (rc == E_AGAIN) return;
        /* The socket stays readable, so the loop would come back at once, for nothing. */
        loop_watch_set(l->watch, 0);
        loop_timer_start(l->s->accept_timer, ACCEPT_RETRY_MS, 0);
        return;
    }
}

void server__accept_again(void *arg)
{
    struct server *s = arg;
    for (unsigned i = 0; i < s->listener_count; i++) {
        if (s->listeners[i].watch != NULL) loop_watch_set(s->listeners[i].watch, LOOP_READABLE);
    }
}

static bool is_client(const struct listener *l)
{
    return l->face.grpc || l->face.http_kind == RPC_HTTP_CLIENT;
}

int server__accept(struct server *s, bool clients, struct errmsg *em)
{
    for (unsigned i = 0; i < s->listener_count; i++) {
        struct listener *l = &s->listeners[i];
        if (is_client(l) != clients || l->watch != NULL) continue;
        int rc = loop_watch_open(s->control, l->fd, on_connection, l, &l->watch);
        if (rc < 0) {
            errmsg_set(em, "cannot watch %s", l->url);
            return rc;
        }
        loop_watch_set(l->watch, LOOP_READABLE);
        LOG(s->log, LOG_INFO,
            clients ? "serving client traffic" : "serving peer or metrics traffic",
            LOGF_STR("address", l->url));
    }
    return 0;
}

void server__unlisten(struct server *s)
{
    for (unsigned i = 0; i < s->listener_count; i++) {
        struct listener *l = &s->listeners[i];
        if (l->watch != NULL) loop_watch_close(l->watch);
        if (l->fd >= 0) sock_close(l->fd);
        if (l->unix_path != NULL) (void)unlink(l->unix_path);
        l->watch = NULL;
        l->fd = -1;
    }
    s->listener_count = 0;
}
