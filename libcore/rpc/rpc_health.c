/* grpc.health.v1: the server as a whole is the one service it knows. */
#include "rpc/rpc_int.h"

#include "grpc_health_v1.pb-c.h"

enum {
    NOT_SERVING = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING,
    SERVING = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING,
    UNKNOWN_SERVICE = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN
};

/* A client that wants to hear when the status changes, which happens once: when the member stops. */
struct health_watch {
    struct list link; /* first; in health_watches */
    struct rpc_call *c;
};

static uint8_t status_of(const struct rpc_thread *t)
{
    struct rpc_status s;
    t->member->status(t->member->arg, &s);
    return s.stopping ? NOT_SERVING : SERVING;
}

/* HealthCheckResponse{status}. */
static struct bytes response(uint8_t status, uint8_t room[2])
{
    room[0] = 1 << 3;
    room[1] = status;
    return bytes_of(room, 2);
}

/* True when the request names the server as a whole; ends the call when it does not parse. */
static bool whole_server(struct rpc_call *c, struct bytes msg, bool *parsed)
{
    const Grpc__Health__V1__HealthCheckRequest *q =
        rpc__unpack(c, &grpc__health__v1__health_check_request__descriptor, msg);
    *parsed = q != NULL;
    return q != NULL && q->service[0] == '\0';
}

void rpc__health_check(struct rpc_call *c, struct bytes msg)
{
    uint8_t room[2];
    bool parsed = false;
    if (whole_server(c, msg, &parsed)) {
        rpc__reply(c, response(status_of(c->t), room));
    } else if (parsed) {
        rpc__fail(c, E_UNKNOWN_SERVICE);
    }
}

/* HealthListResponse{statuses: {"": {status}}}: a map entry is a message of key 1 and value 2. */
void rpc__health_list(struct rpc_call *c, struct bytes msg)
{
    if (rpc__unpack(c, &grpc__health__v1__health_list_request__descriptor, msg) == NULL) return;
    const uint8_t out[] = {0x0a, 6, 0x0a, 0, 0x12, 2, 1 << 3, status_of(c->t)};
    rpc__reply(c, bytes_of(out, sizeof out));
}

void rpc__health_watch(struct rpc_call *c, struct bytes msg)
{
    uint8_t room[2];
    bool parsed = false;
    uint8_t status = whole_server(c, msg, &parsed) ? status_of(c->t) : UNKNOWN_SERVICE;
    if (!parsed) return;
    struct health_watch *w = grpc_pool_get(c->t->pool, sizeof *w);
    int rc = w == NULL ? E_NOMEM : 0;
    if (rc == 0) {
        w->c = c;
        list_push_back(&c->t->health_watches, &w->link);
        c->state = w;
        rpc__output(c);
        rc = grpc_call_send(c->call, response(status, room));
        if (rc == 0) rpc__count_sent(c, sizeof room);
    }
    if (rc < 0) rpc__fail(c, rc);
}

void rpc__health_drop(struct rpc_call *c)
{
    struct health_watch *w = c->state;
    if (w == NULL) return;
    list_remove(&w->link);
    grpc_pool_put(c->t->pool, w, sizeof *w);
}

void rpc_thread_drain(struct rpc_thread *t)
{
    uint8_t room[2];
    struct list *next = NULL;
    for (struct list *at = t->health_watches.next; at != &t->health_watches; at = next) {
        next = at->next;
        struct rpc_call *c = ((struct health_watch *)(void *)at)->c;
        rpc__output(c);
        int rc = grpc_call_send(c->call, response(NOT_SERVING, room));
        if (rc == 0) rpc__count_sent(c, sizeof room);
        rpc__finish(c, rc);
    }
    rpc__watch_drain(t);
    rpc__keepalives_drain(t);
    rpc_thread_submit(t);
}
