/* The plain HTTP endpoints: /version, /health, /livez, /readyz, /metrics, and /members for peers.
 *
 * A check that needs the cluster's word (a linearizable read) waits like any other request; while it does, the request is
 * in the thread's list, where an aborted connection takes itself out. */
#include "rpc/rpc_int.h"

#include <stdio.h>
#include <strings.h>

#include "alarm/alarm.h"
#include "base/assert.h"
#include "base/text.h"
#include "base/url.h"
#include "membership/member.h"
#include "membership/membership.h"

enum {
    BODY_BYTES_MAX = 16 * 1024 * 1024,
    FIELDS_MAX = 8,
    TARGET_BYTES_MAX = 4096,
    ORIGIN_BYTES_MAX = 512
};

/* The checks of /livez and /readyz. */
enum check {
    CHECK_DATA_CORRUPTION,
    CHECK_SERIALIZABLE_READ,
    CHECK_LINEARIZABLE_READ,
    CHECK_NON_LEARNER
};

struct check_row {
    const char *name;
    bool live;
    bool ready;
};

static const struct check_row CHECK_ROWS[RPC_CHECKS] = {{"data_corruption", false, true},
                                                        {"serializable_read", true, true},
                                                        {"linearizable_read", false, true},
                                                        {"non_learner", false, true}};

const char *rpc_check_name(size_t check)
{
    ASSERT(check < RPC_CHECKS);
    return CHECK_ROWS[check].name;
}

bool rpc_check_in(enum rpc_probe probe, size_t check)
{
    ASSERT(check < RPC_CHECKS);
    return probe == RPC_PROBE_LIVEZ ? CHECK_ROWS[check].live : CHECK_ROWS[check].ready;
}

enum page { PAGE_HEALTH, PAGE_LIVEZ, PAGE_READYZ };

/* A request that waits for a linearizable read. */
struct http_wait {
    struct rpc_wait wait; /* first */
    struct list link;     /* in http_waits */
    struct rpc_http_face *face;
    struct http1_conn *conn; /* NULL: it has gone */
    enum page page;
    bool head;
    char origin[ORIGIN_BYTES_MAX]; /* as in the answer */
    char target[TARGET_BYTES_MAX]; /* path and query */
};

struct answer {
    struct rpc_http_face *face;
    struct http1_conn *conn;
    struct http1_field fields[FIELDS_MAX];
    size_t field_count;
    char origin[ORIGIN_BYTES_MAX]; /* allowed origin; empty: no CORS fields */
};

/* --- answering ----------------------------------------------------------------------------------- */

static void add_field(struct answer *a, const char *name, const char *value)
{
    ASSERT(a->field_count < FIELDS_MAX);
    a->fields[a->field_count++] = (struct http1_field){bytes_str(name), bytes_str(value)};
}

static void send(struct answer *a, int status, struct bytes body)
{
    struct http1_response r = {
        .status = status, .fields = a->fields, .field_count = a->field_count, .body = body};
    int rc = http1_respond(a->conn, &r);
    (void)rc; /* on error the connection is done, and its owner sees that */
    a->face->t->on_http_output(a->face->t->http_output_arg, a->conn);
}

static void send_text(struct answer *a, int status, const char *body)
{
    add_field(a, "Content-Type", "text/plain; charset=utf-8");
    add_field(a, "X-Content-Type-Options", "nosniff");
    send(a, status, bytes_str(body));
}

static bool list_has(const char *const *list, size_t count, struct bytes item)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes_eq(bytes_str(list[i]), item)) return true;
    }
    return false;
}

/* Finds the origin to allow: all, or the request's own when it is listed. */
static void find_origin(struct answer *a, const struct http1_request *req)
{
    const struct rpc_member *m = a->face->t->member;
    struct bytes origin = http1_request_get(req, "Origin");
    bool all = m->cors_count == 0 || list_has(m->cors, m->cors_count, bytes_str("*"));
    if (all) {
        origin = bytes_str("*");
    } else if (origin.data == NULL || !list_has(m->cors, m->cors_count, origin)) {
        return;
    }
    snprintf(a->origin, sizeof a->origin, "%.*s", (int)origin.len, (const char *)origin.data);
}

static void add_cors(struct answer *a)
{
    if (a->origin[0] == '\0') return;
    add_field(a, "Access-Control-Allow-Methods", "POST, GET, OPTIONS, PUT, DELETE");
    add_field(a, "Access-Control-Allow-Origin", a->origin);
    add_field(a, "Access-Control-Allow-Headers", "accept, content-type, authorization");
}

static bool host_allowed(const struct rpc_member *m, const struct http1_request *req)
{
    if (m->host_count == 0 || list_has(m->hosts, m->host_count, bytes_str("*"))) return true;
    struct bytes host = http1_request_get(req, "Host");
    const uint8_t *bracket = host.len == 0 ? NULL : memrchr(host.data, ']', host.len);
    size_t from = bracket == NULL ? 0 : (size_t)(bracket - host.data);
    const uint8_t *colon = host.len == from ? NULL
                                            : memrchr(host.data + from, ':', host.len - from);
    if (colon != NULL) host.len = (size_t)(colon - host.data);
    if (host.len >= 2 && host.data[0] == '[') host = bytes_of(host.data + 1, host.len - 2);
    return list_has(m->hosts, m->host_count, host);
}

static void send_misdirected(struct answer *a, const struct http1_request *req)
{
    char body[1024];
    struct bytes host = http1_request_get(req, "Host");
    int len = (int)(host.len < 256 ? host.len : 256);
    snprintf(body, sizeof body,
             "\netcd received your request, but the Host header was unrecognized.\n\n"
             "To fix this, choose one of the following options:\n"
             "- Enable TLS, then any HTTPS request will be allowed.\n"
             "- Add the hostname you want to use to the whitelist in settings.\n"
             "  - e.g. etcd --host-whitelist \"%.*s\"\n\n"
             "This requirement has been added to help prevent \"DNS Rebinding\" attacks "
             "(CVE-2018-5702).\n\n",
             len, host.len == 0 ? "" : (const char *)host.data);
    send_text(a, 421, body);
}

/* --- query ---------------------------------------------------------------------------------------- */

/* Walks the values of `name` in a query; `*at` starts at 0. Values of interest here need no decoding. */
static bool query_next(struct bytes query, const char *name, size_t *at, struct bytes *value)
{
    size_t name_len = strlen(name);
    while (*at < query.len) {
        const uint8_t *start = query.data + *at;
        const uint8_t *end = memchr(start, '&', query.len - *at);
        size_t len = end == NULL ? query.len - *at : (size_t)(end - start);
        *at += len + 1;
        if (len < name_len || memcmp(start, name, name_len) != 0) continue;
        if (len > name_len && start[name_len] != '=') continue;
        size_t skip = len > name_len ? name_len + 1 : name_len;
        *value = bytes_of(start + skip, len - skip);
        return true;
    }
    return false;
}

static bool query_has(struct bytes query, const char *name, const char *value)
{
    size_t at = 0;
    struct bytes seen;
    while (query_next(query, name, &at, &seen)) {
        if (value == NULL || bytes_eq(seen, bytes_str(value))) return true;
    }
    return false;
}

static void split_target(const char *target, struct bytes *path, struct bytes *query)
{
    size_t len = strcspn(target, "?");
    *path = bytes_of(target, len);
    *query = target[len] == '?' ? bytes_str(target + len + 1) : BYTES_EMPTY;
}

/* --- /health -------------------------------------------------------------------------------------- */

static void send_health(struct answer *a, const char *reason)
{
    char body[512];
    bool good = reason[0] == '\0';
    struct rpc_health_counts *counts = a->face->t->member->health;
    atomic_fetch_add_explicit(good ? &counts->good : &counts->bad, 1, memory_order_relaxed);
    snprintf(body, sizeof body, "{\"health\":\"%s\",\"reason\":\"%s\"}%s", good ? "true" : "false",
             reason, good ? "" : "\n");
    if (!good) {
        send_text(a, 503, body);
        return;
    }
    add_field(a, "Content-Type", "text/plain; charset=utf-8");
    send(a, 200, bytes_str(body));
}

static const char *alarm_reason(const struct rpc_member *m, struct bytes query)
{
    const char *reason = "";
    struct alarms *alarms = m->alarms(m->arg);
    for (size_t i = 0; i < alarm_count(alarms) && reason[0] == '\0'; i++) {
        int32_t type = alarm_at(alarms, i).type;
        const char *name = rpc__alarm_name(type);
        if (name != NULL && query_has(query, "exclude", name)) continue;
        reason = type == ALARM_NOSPACE   ? "ALARM NOSPACE"
                 : type == ALARM_CORRUPT ? "ALARM CORRUPT"
                                         : "ALARM UNKNOWN";
    }
    alarm_unref(alarms);
    return reason;
}

/* Empty: only the read is left to be tried. */
static const char *health_reason(const struct rpc_member *m, struct bytes query, bool serializable)
{
    struct rpc_status s;
    m->status(m->arg, &s);
    const char *reason = alarm_reason(m, query);
    if (reason[0] == '\0' && !serializable && s.leader == 0) reason = "RAFT NO LEADER";
    return reason;
}

static void health_done(struct answer *a, int read_rc)
{
    char reason[256] = "";
    if (read_rc < 0) snprintf(reason, sizeof reason, "RANGE ERROR:%s", err_text(read_rc));
    send_health(a, reason);
}

/* --- /livez, /readyz ------------------------------------------------------------------------------- */

static bool check_wanted(enum page page, struct bytes path, struct bytes query, size_t i)
{
    const struct check_row *row = &CHECK_ROWS[i];
    if (page == PAGE_LIVEZ ? !row->live : !row->ready) return false;
    const char *base = page == PAGE_LIVEZ ? "/livez" : "/readyz";
    size_t base_len = strlen(base);
    if (path.len > base_len + 1) {
        struct bytes one = bytes_of(path.data + base_len + 1, path.len - base_len - 1);
        return bytes_eq(one, bytes_str(row->name));
    }
    return !query_has(query, "exclude", row->name);
}

/* The path names the page or one of its checks. */
static bool check_path(enum page page, struct bytes path)
{
    const char *base = page == PAGE_LIVEZ ? "/livez" : "/readyz";
    size_t base_len = strlen(base);
    if (path.len < base_len || memcmp(path.data, base, base_len) != 0) return false;
    if (path.len == base_len || (path.len == base_len + 1 && path.data[base_len] == '/'))
        return true;
    if (path.data[base_len] != '/') return false;
    for (size_t i = 0; i < RPC_CHECKS; i++) {
        if (check_wanted(page, path, BYTES_EMPTY, i)) return true;
    }
    return false;
}

static const char *check_run(const struct rpc_member *m, enum check check, int read_rc)
{
    struct rpc_status s;
    m->status(m->arg, &s);
    if (check == CHECK_NON_LEARNER) return s.is_learner ? "not supported for learner" : "";
    if (check == CHECK_LINEARIZABLE_READ) return read_rc < 0 ? err_text(read_rc) : "";
    if (check == CHECK_SERIALIZABLE_READ) return "";
    struct alarms *alarms = m->alarms(m->arg);
    bool corrupt = alarm_has(alarms, ALARM_CORRUPT);
    alarm_unref(alarms);
    return corrupt ? "alarm activated: CORRUPT" : "";
}

static void count_check(const struct rpc_member *m, enum page page, size_t check, bool good)
{
    enum rpc_probe probe = page == PAGE_LIVEZ ? RPC_PROBE_LIVEZ : RPC_PROBE_READYZ;
    atomic_store(&m->health->check[probe][check].last, good);
    atomic_fetch_add_explicit(good ? &m->health->check[probe][check].ok
                                   : &m->health->check[probe][check].failed,
                              1, memory_order_relaxed);
}

static void checks_done(struct answer *a, enum page page, const char *target, int read_rc)
{
    char body[2048];
    size_t len = 0;
    bool good = true;
    struct bytes path;
    struct bytes query;
    split_target(target, &path, &query);
    for (size_t i = 0; i < RPC_CHECKS; i++) {
        if (!check_wanted(page, path, query, i)) continue;
        const char *reason = check_run(a->face->t->member, (enum check)i, read_rc);
        int n = reason[0] == '\0'
                    ? snprintf(body + len, sizeof body - len, "[+]%s ok\n", CHECK_ROWS[i].name)
                    : snprintf(body + len, sizeof body - len, "[-]%s failed: %s\n",
                               CHECK_ROWS[i].name, reason);
        len += (size_t)n;
        count_check(a->face->t->member, page, i, reason[0] == '\0');
        good = good && reason[0] == '\0';
    }
    if (good && !query_has(query, "verbose", NULL)) len = 0;
    snprintf(body + len, sizeof body - len, good ? "ok\n" : "\n");
    send_text(a, good ? 200 : 503, body);
}

/* --- waiting for a linearizable read ---------------------------------------------------------------- */

static void finish_page(struct answer *a, enum page page, const char *target, int read_rc)
{
    if (page == PAGE_HEALTH) {
        health_done(a, read_rc);
    } else {
        checks_done(a, page, target, read_rc);
    }
}

static void on_read_done(struct task *task)
{
    struct http_wait *w = (struct http_wait *)(void *)task;
    struct rpc_thread *t = w->face->t;
    rpc__pending_add(t, -1);
    list_remove(&w->link);
    if (w->conn != NULL) {
        struct answer a = {.face = w->face, .conn = w->conn};
        memcpy(a.origin, w->origin, sizeof a.origin);
        add_cors(&a);
        finish_page(&a, w->page, w->target, w->wait.rc);
    }
    grpc_pool_put(t->pool, w, sizeof *w);
}

static void read_then(struct answer *a, enum page page, const struct http1_request *req)
{
    struct rpc_thread *t = a->face->t;
    struct http_wait *w = grpc_pool_get(t->pool, sizeof *w);
    if (w == NULL) {
        send_text(a, 503, "out of memory\n");
        return;
    }
    memset(w, 0, sizeof *w);
    w->face = a->face;
    w->conn = a->conn;
    w->page = page;
    memcpy(w->origin, a->origin, sizeof w->origin);
    w->wait.loop = t->loop;
    w->wait.task.run = on_read_done;
    memcpy(w->target, req->target.data, req->target.len);
    list_push_back(&t->http_waits, &w->link);
    rpc__pending_add(t, 1);
    w->wait.ask = RPC_ASK_READ;
    w->wait.waiter.request_id = t->member->next_request_id(t->member->arg);
    rpc__chain(t, &w->wait);
}

static bool needs_read(enum page page, const struct http1_request *req)
{
    if (page == PAGE_HEALTH) return !query_has(req->query, "serializable", "true");
    return check_wanted(page, req->path, req->query, CHECK_LINEARIZABLE_READ);
}

static void serve_page(struct answer *a, enum page page, const struct http1_request *req)
{
    const struct rpc_member *m = a->face->t->member;
    if (req->target.len >= TARGET_BYTES_MAX) {
        send_text(a, 414, "URI Too Long\n");
        return;
    }
    bool read = needs_read(page, req);
    const char *reason = page == PAGE_HEALTH ? health_reason(m, req->query, !read) : "";
    if (reason[0] != '\0') {
        send_health(a, reason);
    } else if (read && !m->reads_alone(m->arg)) {
        read_then(a, page, req);
    } else {
        char target[TARGET_BYTES_MAX];
        memcpy(target, req->target.data, req->target.len);
        target[req->target.len] = '\0';
        finish_page(a, page, target, 0);
    }
}

/* --- /version, /metrics, /members -------------------------------------------------------------------- */

static void serve_version(struct answer *a)
{
    const struct rpc_member *m = a->face->t->member;
    char body[256];
    struct rpc_status s;
    m->status(m->arg, &s);
    struct membership *members = m->members(m->arg);
    struct bytes cluster = membership_version(members);
    if (cluster.len == 0) cluster = bytes_str("not_decided");
    snprintf(body, sizeof body,
             "{\"etcdserver\":\"%s\",\"etcdcluster\":\"%.*s\",\"storage\":\"%s\"}",
             RPC_SERVER_VERSION, (int)cluster.len, (const char *)cluster.data,
             s.storage_version[0] != '\0' ? s.storage_version : "unknown");
    membership_unref(members);
    add_field(a, "Content-Type", "application/json");
    send(a, 200, bytes_str(body));
}

static void send_buffer(struct answer *a, const char *type, struct buf *body, int rc)
{
    if (rc < 0) {
        send_text(a, 500, "out of memory\n");
        return;
    }
    add_field(a, "Content-Type", type);
    send(a, 200, buf_bytes(body));
}

static void serve_metrics(struct answer *a)
{
    struct rpc_thread *t = a->face->t;
    struct buf body;
    buf_init(&body, t->alloc, BODY_BYTES_MAX);
    int rc = t->member->metrics(t->member->arg, &body);
    send_buffer(a, "text/plain; version=0.0.4; charset=utf-8; escaping=underscores", &body, rc);
    buf_deinit(&body);
}

static void serve_members(struct answer *a)
{
    struct rpc_thread *t = a->face->t;
    struct buf body;
    char id[MEMBER_ID_TEXT_BYTES];
    buf_init(&body, t->alloc, BODY_BYTES_MAX);
    struct membership *members = t->member->members(t->member->arg);
    int rc = buf_put_u8(&body, '[');
    for (size_t i = 0; i < membership_count(members) && rc == 0; i++) {
        if (i > 0) rc = buf_put_u8(&body, ',');
        if (rc == 0) rc = member_put_json(membership_at(members, i), &body);
    }
    if (rc == 0) rc = buf_put_str(&body, "]\n");
    membership_unref(members);
    (void)member_id_text(t->member->cluster_id, id);
    add_field(a, "X-Etcd-Cluster-Id", id);
    send_buffer(a, "application/json", &body, rc);
    buf_deinit(&body);
}

/* --- routing --------------------------------------------------------------------------------------- */

static bool is_get(const struct http1_request *req, bool or_head)
{
    return bytes_eq(req->method, bytes_str("GET")) || (or_head && req->head);
}

static void refuse_method(struct answer *a)
{
    add_field(a, "Allow", "GET");
    send_text(a, 405, "Method Not Allowed\n");
}

enum target {
    TARGET_NONE,
    TARGET_VERSION,
    TARGET_MEMBERS,
    TARGET_METRICS,
    TARGET_HEALTH,
    TARGET_LIVEZ,
    TARGET_READYZ
};

/* What a path means on a listener of this kind. */
static enum target find_target(enum rpc_http_kind kind, struct bytes path)
{
    bool peer = kind == RPC_HTTP_PEER;
    if (bytes_eq(path, bytes_str("/version")))
        return kind != RPC_HTTP_METRICS ? TARGET_VERSION : TARGET_NONE;
    if (peer) return bytes_eq(path, bytes_str("/members")) ? TARGET_MEMBERS : TARGET_NONE;
    if (bytes_eq(path, bytes_str("/metrics"))) return TARGET_METRICS;
    if (bytes_eq(path, bytes_str("/health"))) return TARGET_HEALTH;
    if (check_path(PAGE_LIVEZ, path)) return TARGET_LIVEZ;
    return check_path(PAGE_READYZ, path) ? TARGET_READYZ : TARGET_NONE;
}

static void route(struct answer *a, const struct http1_request *req)
{
    enum target target = find_target(a->face->kind, req->path);
    if (target != TARGET_NONE && !is_get(req, target == TARGET_METRICS)) {
        refuse_method(a);
        return;
    }
    switch (target) {
    case TARGET_NONE: send_text(a, 404, "404 page not found\n"); break;
    case TARGET_VERSION: serve_version(a); break;
    case TARGET_MEMBERS: serve_members(a); break;
    case TARGET_METRICS: serve_metrics(a); break;
    case TARGET_HEALTH: serve_page(a, PAGE_HEALTH, req); break;
    case TARGET_LIVEZ: serve_page(a, PAGE_LIVEZ, req); break;
    case TARGET_READYZ: serve_page(a, PAGE_READYZ, req); break;
    }
}

static void on_request(void *arg, struct http1_conn *conn, const struct http1_request *req)
{
    struct rpc_http_face *face = arg;
    struct answer a = {.face = face, .conn = conn};
    if (face->kind == RPC_HTTP_CLIENT) {
        if (!host_allowed(face->t->member, req)) {
            send_misdirected(&a, req);
            return;
        }
        find_origin(&a, req);
        add_cors(&a);
        if (bytes_eq(req->method, bytes_str("OPTIONS"))) {
            send(&a, 200, BYTES_EMPTY);
            return;
        }
    }
    route(&a, req);
}

static void on_abort(void *arg, struct http1_conn *conn)
{
    struct rpc_http_face *face = arg;
    for (struct list *at = face->t->http_waits.next; at != &face->t->http_waits; at = at->next) {
        struct http_wait *w =
            (struct http_wait *)(void *)((char *)at - offsetof(struct http_wait, link));
        if (w->conn == conn) w->conn = NULL;
    }
}

void rpc__http_init(struct rpc_thread *t)
{
    for (int kind = 0; kind < RPC_HTTP_KINDS; kind++) {
        struct rpc_http_face *face = &t->http[kind];
        face->t = t;
        face->kind = (enum rpc_http_kind)kind;
        face->handler =
            (struct http1_handler){.arg = face, .on_request = on_request, .on_abort = on_abort};
    }
}

const struct http1_handler *rpc_thread_http(struct rpc_thread *t, enum rpc_http_kind kind)
{
    ASSERT(kind < RPC_HTTP_KINDS);
    return &t->http[kind].handler;
}

void rpc_thread_on_http_output(struct rpc_thread *t,
                               void (*on_http_output)(void *arg, struct http1_conn *c), void *arg)
{
    t->on_http_output = on_http_output;
    t->http_output_arg = arg;
}
