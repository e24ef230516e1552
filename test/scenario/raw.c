/* A gRPC client that sends what it is told, for tests that look at exact answers.
 *
 * Usage: raw HOST:PORT, one connection. Each line of stdin is a call: PATH, then the request message in hex ("-" for an
 * empty one), then metadata as NAME=VALUE. Each call answers with one line: the status code, the messages in hex with
 * commas between (in brackets, for there may be none), the status text. A call "wait" reads until the server closes and
 * says "closed". Calls run one after the other; all kinds are sent as one message and the end of the request. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "grpc/grpc_client.h"
#include "grpc/grpc_pool.h"
#include "os/heap.h"
#include "os/sock.h"

enum { FIELDS_MAX = 8, IO_BYTES = 256 * 1024, CALL_LIMIT_MS = 30 * 1000 };

struct raw {
    int fd;
    struct grpc_client_conn *conn;
    bool ended;
    size_t messages;
    bool lost;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/* Messages come before the status, so the line is printed from the end of the call: kept meanwhile. */
static FILE *kept;
static char *kept_text;
static size_t kept_len;

static void on_message(void *arg, struct grpc_client_call *call, struct bytes msg)
{
    struct raw *r = arg;
    (void)call;
    if (r->messages++ > 0) fputc(',', kept);
    for (size_t i = 0; i < msg.len; i++)
        fprintf(kept, "%02x", msg.data[i]);
}

static void on_end(void *arg, struct grpc_client_call *call, const struct grpc_status *st)
{
    struct raw *r = arg;
    (void)call;
    fflush(kept);
    printf("%d [%s] %.*s\n", (int)st->code, kept_text, (int)st->text.len,
           (const char *)st->text.data);
    fflush(stdout);
    r->ended = true;
}

static const struct grpc_client_events EVENTS = {.on_message = on_message, .on_end = on_end};

static bool write_all(struct raw *r, struct bytes data)
{
    while (data.len > 0) {
        size_t done = 0;
        int rc = sock_write(r->fd, data, &done);
        struct pollfd p = {.fd = r->fd, .events = POLLOUT};
        if (rc == E_AGAIN && poll(&p, 1, CALL_LIMIT_MS) > 0) continue;
        if (rc < 0) return false;
        data = bytes_of(data.data + done, data.len - done);
    }
    return true;
}

/* One round: send what there is, wait for bytes, take them in. */
static void turn(struct raw *r)
{
    static uint8_t room[IO_BYTES];
    size_t n = 0;
    while ((n = grpc_client_conn_pull(r->conn, room, GRPC_PULL_BYTES, now_ns())) > 0) {
        if (!write_all(r, bytes_of(room, n))) break; /* the read below tells why */
    }
    struct pollfd p = {.fd = r->fd, .events = POLLIN};
    if (r->ended || poll(&p, 1, CALL_LIMIT_MS) <= 0) return;
    int rc = sock_read(r->fd, room, sizeof room, &n);
    if (rc == 0) rc = grpc_client_conn_feed(r->conn, room, n, now_ns());
    if (rc < 0 && rc != E_AGAIN) {
        r->lost = true;
        grpc_client_conn_lost(r->conn, "the connection is gone");
    }
}

static bool unhex(const char *text, uint8_t **out, size_t *len)
{
    size_t digits = strcmp(text, "-") == 0 ? 0 : strlen(text);
    *len = digits / 2;
    *out = calloc(1, *len + 1);
    for (size_t i = 0; *out != NULL && i < *len; i++) {
        const char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};
        (*out)[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return *out != NULL;
}

/* Cuts NAME=VALUE words into fields. */
static size_t take_fields(char **rest, struct grpc_field fields[FIELDS_MAX])
{
    size_t count = 0;
    for (char *word = strsep(rest, " "); word != NULL; word = strsep(rest, " ")) {
        char *equals = strchr(word, '=');
        if (equals == NULL || count == FIELDS_MAX) continue;
        *equals = '\0';
        fields[count++] = (struct grpc_field){bytes_str(word), bytes_str(equals + 1)};
    }
    return count;
}

static void do_call(struct raw *r, char *line)
{
    char *rest = line;
    const char *path = strsep(&rest, " ");
    const char *hex = strsep(&rest, " ");
    struct grpc_field fields[FIELDS_MAX];
    size_t field_count = rest == NULL ? 0 : take_fields(&rest, fields);
    uint8_t *body = NULL;
    size_t len = 0;
    struct grpc_client_call *call = NULL;
    if (hex == NULL || !unhex(hex, &body, &len)) return;
    struct grpc_client_call_opts o = {.path = path,
                                      .fields = fields,
                                      .field_count = field_count,
                                      .deadline_ns = GRPC_NEVER,
                                      .kind = GRPC_SERVER_STREAM,
                                      .events = &EVENTS,
                                      .arg = r};
    r->ended = false;
    r->messages = 0;
    fclose(kept);
    free(kept_text);
    kept = open_memstream(&kept_text, &kept_len);
    int rc = grpc_client_start(r->conn, &o, now_ns(), &call);
    if (rc == 0) rc = grpc_client_send(call, bytes_of(body, len));
    if (rc == 0) grpc_client_half_close(call);
    if (rc < 0) {
        printf("-1 [] %s\n", err_text(rc));
        fflush(stdout);
        r->ended = true;
    }
    while (!r->ended)
        turn(r);
    turn(r); /* what is left to send: window updates, settings */
    free(body);
}

static void wait_for_end(struct raw *r)
{
    r->ended = false;
    while (!r->lost)
        turn(r);
    puts("closed");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct sock_addr addrs[SOCK_ADDRS_MAX];
    struct errmsg em = {""};
    struct raw r = {.fd = -1};
    size_t count = 0;
    if (argc != 2 || sock_resolve(argv[1], addrs, &count, &em) < 0) return 2;
    int rc = sock_connect(&addrs[0], &r.fd, &em);
    struct pollfd p = {.fd = r.fd, .events = POLLOUT};
    if (rc == E_AGAIN && poll(&p, 1, CALL_LIMIT_MS) > 0) rc = sock_connect_result(r.fd);
    kept = open_memstream(&kept_text, &kept_len);
    if (rc < 0 || kept == NULL) {
        fprintf(stderr, "raw: cannot connect to %s: %s\n", argv[1], em.text);
        return 1;
    }
    struct grpc_client_opts o = grpc_client_opts_default();
    o.pool = grpc_pool_new(&os_heap, IO_BYTES);
    o.authority = argv[1];
    o.recv_bytes_max = o.send_bytes_max = INT32_MAX;
    o.call_queue_bytes = INT32_MAX;
    r.conn = grpc_client_conn_new(&o, now_ns());
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t n = getline(&line, &cap, stdin); n > 0; n = getline(&line, &cap, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "wait") == 0) {
            wait_for_end(&r);
        } else {
            do_call(&r, line);
        }
    }
    free(line);
    grpc_client_conn_free(r.conn);
    grpc_pool_free(o.pool);
    sock_close(r.fd);
    fclose(kept);
    free(kept_text);
    return 0;
}
