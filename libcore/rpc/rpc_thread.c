/* Dispatch: from a path to its method, from a call to its end.
 *
 * The rule that keeps lifetimes simple: a `struct rpc_call` is freed at one place, when it has neither a client nor a
 * wait. A wait always comes back; if the client went first, only the bookkeeping is left to do. */
#include "rpc/rpc_int.h"

#include "base/assert.h"
#include "etcdserverpb.pb-c.h"
#include "pb/pack.h"
#include "pb/unpack.h"

enum {
    SCRATCH_BYTES_MAX = 64 * 1024 * 1024, /* a decoded request; the wire size is bounded before */
    ANSWER_BYTES_MAX = INT32_MAX,    /* upstream's send limit; large ranges are sources instead */
    ANSWER_KEPT_BYTES = 1024 * 1024, /* a larger buffer is not kept for the next answer */
    POOL_IDLE_BYTES_MAX = 4 * 1024 * 1024,
    HTTP2_INTERNAL_ERROR = 2 /* RFC 9113, 7 */
};

const struct rpc_method rpc__methods[] = {
#define RPC(service, name, kind, handler, drop) {service, name, kind, handler, drop},
#include "rpc/rpc.def"
#undef RPC
};
const size_t rpc__method_count = sizeof rpc__methods / sizeof *rpc__methods;

const struct rpc_method *rpc__find(struct bytes service, struct bytes name, bool *service_known)
{
    *service_known = false;
    for (size_t i = 0; i < rpc__method_count; i++) {
        if (!bytes_eq(service, bytes_str(rpc__methods[i].service))) continue;
        *service_known = true;
        if (bytes_eq(name, bytes_str(rpc__methods[i].name))) return &rpc__methods[i];
    }
    return NULL;
}

/* --- lifetime ------------------------------------------------------------------------------------ */

static void release(struct rpc_call *c)
{
    if (c->call != NULL || c->resume != NULL) return;
    if (c->method->drop != NULL) c->method->drop(c);
    apply_result_free(c->job.wait.result);
    grpc_pool_put(c->t->pool, c, sizeof *c);
}

void rpc__output(struct rpc_call *c)
{
    ASSERT(c->call != NULL);
    c->t->on_output(c->t->output_arg, grpc_call_conn(c->call));
}

static void end(struct rpc_call *c, enum grpc_code code)
{
    rpc__count_handled(c, code);
    c->call = NULL;
    release(c);
}

void rpc__finish(struct rpc_call *c, int rc)
{
    if (rc == E_INTR) {
        grpc_call_reset(c->call, HTTP2_INTERNAL_ERROR);
    } else {
        grpc_call_finish_err(c->call, rc);
    }
    end(c, err_grpc_code(rc));
}

static void on_wait_done(struct task *task)
{
    struct rpc_call *c = (struct rpc_call *)(void *)task;
    void (*resume)(struct rpc_call * c) = c->resume;
    c->resume = NULL;
    rpc__pending_add(c->t, -1);
    if (c->call == NULL) {
        release(c);
    } else {
        struct rpc_thread *t = c->t;
        resume(c);
        arena_reset(&t->scratch);
        rpc_thread_submit(t);
    }
}

void rpc__wait(struct rpc_call *c, void (*resume)(struct rpc_call *c))
{
    ASSERT(c->resume == NULL);
    c->resume = resume;
    rpc__pending_add(c->t, 1);
    c->job.wait.rc = 0;
    c->job.wait.loop = c->t->loop;
    c->job.wait.task.run = on_wait_done;
}

void rpc__chain(struct rpc_thread *t, struct rpc_wait *w)
{
    w->next = NULL;
    *t->chain_end = w;
    t->chain_end = &w->next;
}

void rpc__ask(struct rpc_call *c, enum rpc_ask ask, struct rcbuf *entry, uint64_t id,
              void (*resume)(struct rpc_call *c))
{
    struct rpc_wait *w = &c->job.wait;
    rpc__wait(c, resume);
    w->ask = ask;
    w->entry = entry;
    memset(&w->waiter, 0, sizeof w->waiter);
    w->waiter.request_id = id;
    rpc__chain(c->t, w);
}

void rpc_thread_submit(struct rpc_thread *t)
{
    rpc__keepalives_ask(t);
    struct rpc_wait *chain = t->chain;
    if (chain == NULL) return;
    t->chain = NULL;
    t->chain_end = &t->chain;
    t->member->submit(t->member->arg, chain);
}

void rpc__yield(struct rpc_call *c, void (*resume)(struct rpc_call *c))
{
    rpc__wait(c, resume);
    loop_post(c->t->loop, &c->job.wait.task);
}

/* --- answers -------------------------------------------------------------------------------------- */

void rpc__fail(struct rpc_call *c, int rc)
{
    rpc__output(c);
    rpc__finish(c, rc);
}

void rpc__fail_text(struct rpc_call *c, enum grpc_code code, const char *text)
{
    rpc__output(c);
    grpc_call_finish(c->call, code, bytes_str(text));
    end(c, code);
}

void rpc__reply(struct rpc_call *c, struct bytes msg)
{
    rpc__output(c);
    int rc = grpc_call_send(c->call, msg);
    if (rc == 0) rpc__count_sent(c, msg.len);
    struct buf *out = &c->t->out;
    if (out->cap > ANSWER_KEPT_BYTES) {
        buf_deinit(out);
        buf_init(out, c->t->alloc, ANSWER_BYTES_MAX);
    }
    rpc__finish(c, rc);
}

void rpc__reply_pb(struct rpc_call *c, const ProtobufCMessage *msg)
{
    buf_reset(&c->t->out);
    int rc = pb_pack(msg, &c->t->out);
    if (rc < 0) {
        rpc__fail(c, rc);
    } else {
        rpc__reply(c, buf_bytes(&c->t->out));
    }
}

void *rpc__unpack(struct rpc_call *c, const ProtobufCMessageDescriptor *d, struct bytes msg)
{
    static const struct pb_unpack_opts ALIAS = {.alias = true};
    ProtobufCMessage *out = NULL;
    struct errmsg em = {""};
    int rc = pb_unpack_opts(d, msg, &ALIAS, &c->t->scratch, &out, &em);
    if (rc == 0) return out;
    if (rc == E_PROTO) {
        errmsg_prefix(&em, "grpc: error unmarshalling request");
        rpc__fail_text(c, GRPC_INTERNAL, em.text);
    } else {
        rpc__fail(c, rc);
    }
    return NULL;
}

struct rpc_header rpc__header(const struct rpc_thread *t, int64_t revision)
{
    const struct rpc_member *m = t->member;
    return (struct rpc_header){m->cluster_id, m->member_id, revision, m->term(m->arg)};
}

size_t rpc__header_size(const struct rpc_header *h)
{
    size_t n = 0;
    if (h->cluster_id != 0) n += pb_uint_size(1, h->cluster_id);
    if (h->member_id != 0) n += pb_uint_size(2, h->member_id);
    if (h->revision != 0) n += pb_uint_size(3, (uint64_t)h->revision);
    if (h->term != 0) n += pb_uint_size(4, h->term);
    return n;
}

uint8_t *rpc__header_write(const struct rpc_header *h, uint8_t *at)
{
    if (h->cluster_id != 0) at = pb_write_uint(at, 1, h->cluster_id);
    if (h->member_id != 0) at = pb_write_uint(at, 2, h->member_id);
    if (h->revision != 0) at = pb_write_uint(at, 3, (uint64_t)h->revision);
    if (h->term != 0) at = pb_write_uint(at, 4, h->term);
    return at;
}

int rpc__header_put(const struct rpc_header *h, struct buf *out)
{
    uint8_t bytes[RPC_HEADER_BYTES_MAX];
    size_t len = (size_t)(rpc__header_write(h, bytes) - bytes);
    return pb_put_bytes(out, 1, bytes_of(bytes, len));
}

void rpc__header_fill(const struct rpc_thread *t, int64_t revision, Etcdserverpb__ResponseHeader *h)
{
    struct rpc_header v = rpc__header(t, revision);
    etcdserverpb__response_header__init(h);
    h->cluster_id = v.cluster_id;
    h->member_id = v.member_id;
    h->revision = v.revision;
    h->raft_term = v.term;
}

/* --- calls from the connection ------------------------------------------------------------------- */

static bool refuse(const struct rpc_thread *t, struct grpc_call *call, const struct grpc_head *head)
{
    bool service_known = false;
    if (rpc__find(head->service, head->method, &service_known) == NULL) {
        grpc_call_finish_unknown(call, head, service_known);
        return true;
    }
    struct bytes version = grpc_head_get(head, "client-api-version");
    if (version.data != NULL && !pb_utf8_valid(version)) {
        grpc_call_finish_err(call, E_INVALID_CLIENT_API_VERSION);
        return true;
    }
    if (bytes_eq(grpc_head_get(head, "hasleader"), bytes_str("true"))) {
        struct rpc_status s;
        t->member->status(t->member->arg, &s);
        if (s.leader == 0) {
            grpc_call_finish_err(call, E_NO_LEADER);
            return true;
        }
    }
    return false;
}

static enum grpc_kind on_call(void *arg, struct grpc_call *call, const struct grpc_head *head)
{
    struct rpc_thread *t = arg;
    bool known = false;
    if (refuse(t, call, head)) return GRPC_UNARY;
    struct rpc_call *c = grpc_pool_get(t->pool, sizeof *c);
    if (c == NULL) {
        grpc_call_finish_err(call, E_NOMEM);
        return GRPC_UNARY;
    }
    memset(c, 0, sizeof *c);
    c->t = t;
    c->call = call;
    c->method = rpc__find(head->service, head->method, &known);
    c->wants_leader = bytes_eq(grpc_head_get(head, "hasleader"), bytes_str("true"));
    grpc_call_set_data(call, c);
    rpc__count_started(t, c->method, grpc_head_get(head, "client-api-version"));
    return c->method->kind;
}

static void on_message(void *arg, struct grpc_call *call, void *data, struct bytes msg)
{
    struct rpc_thread *t = arg;
    struct rpc_call *c = data;
    (void)call;
    rpc__count_received(c, msg.len);
    c->method->handle(c, msg);
    arena_reset(&t->scratch);
}

static void on_half_close(void *arg, struct grpc_call *call, void *data)
{
    (void)arg;
    (void)call;
    struct rpc_call *c = data;
    /* A watch goes on without its client's side. */
    if (c->method->handle == rpc__lease_keep_alive) rpc__keepalive_half_close(c);
}

static void on_cancel(void *arg, struct grpc_call *call, void *data, enum grpc_cancel why)
{
    static const enum grpc_code CODES[] = {[GRPC_CANCEL_PEER] = GRPC_CANCELED,
                                           [GRPC_CANCEL_DEADLINE] = GRPC_DEADLINE_EXCEEDED,
                                           [GRPC_CANCEL_CONN] = GRPC_CANCELED,
                                           [GRPC_CANCEL_ERROR] = GRPC_INTERNAL};
    struct rpc_call *c = data;
    (void)arg;
    (void)call;
    atomic_store(&c->job.unwanted, true);
    end(c, CODES[why]);
}

static void on_writable(void *arg, struct grpc_call *call, void *data)
{
    (void)arg;
    (void)call;
    struct rpc_call *c = data;
    void (*resume)(struct rpc_call * c) = c->on_writable;
    c->on_writable = NULL;
    /* Not from inside pull: the next round of the loop goes on. */
    if (resume != NULL) rpc__yield(c, resume);
}

int rpc_thread_new(const struct rpc_member *member, struct loop *loop, const struct alloc *alloc,
                   void (*on_output)(void *arg, struct grpc_conn *conn), void *arg,
                   struct rpc_thread **out)
{
    struct rpc_thread *t = alloc_zero(alloc, sizeof *t);
    if (t == NULL) return E_NOMEM;
    t->pool = grpc_pool_new(alloc, POOL_IDLE_BYTES_MAX);
    t->member = member;
    t->loop = loop;
    t->alloc = alloc;
    if (t->pool == NULL || rpc__counts_new(t) < 0) {
        grpc_pool_free(t->pool);
        alloc_free(alloc, t, sizeof *t);
        return E_NOMEM;
    }
    t->on_output = on_output;
    t->output_arg = arg;
    t->grpc = (struct grpc_handler){.arg = t,
                                    .on_call = on_call,
                                    .on_message = on_message,
                                    .on_half_close = on_half_close,
                                    .on_cancel = on_cancel,
                                    .on_writable = on_writable};
    arena_init(&t->scratch, alloc, SCRATCH_BYTES_MAX);
    buf_init(&t->out, alloc, ANSWER_BYTES_MAX);
    t->chain_end = &t->chain;
    list_init(&t->health_watches);
    list_init(&t->keepalives);
    list_init(&t->keepalives_idle);
    list_init(&t->http_waits);
    rpc__http_init(t);
    int rc = rpc__watch_init(t);
    if (rc < 0) {
        rpc_thread_free(t);
        return rc;
    }
    *out = t;
    return 0;
}

void rpc_thread_free(struct rpc_thread *t)
{
    if (t == NULL) return;
    ASSERT(rpc_thread_pending(t) == 0);
    rpc__watch_deinit(t);
    arena_deinit(&t->scratch);
    buf_deinit(&t->out);
    rpc__counts_free(t);
    grpc_pool_free(t->pool);
    alloc_free(t->alloc, t, sizeof *t);
}

size_t rpc_thread_pending(const struct rpc_thread *t)
{
    return atomic_load(&t->pending);
}

const struct grpc_handler *rpc_thread_grpc(struct rpc_thread *t)
{
    return &t->grpc;
}

struct grpc_pool *rpc_thread_pool(struct rpc_thread *t)
{
    return t->pool;
}
