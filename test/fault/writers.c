/* Load with a journal: many writers over a few connections, each with keys of its own and one call in flight.
 *
 *   writers --endpoint HOST:PORT --journal FILE [--writers N] [--connections N] [--ops N] [--first N]
 *           [--seed N] [--mix] [--tell N]
 *
 * Every call is in the journal before it is sent, and again when its answer came, so that after a crash of the server
 * the journal says what must be there, what may be there, and that nothing else can. (The journal is written, not
 * synced: the server is killed, not this machine.) Lines, words parted by a space:
 *
 *   send WRITER N OP...        OP is p:KEY:VALUE, d:KEY or c:REVISION; several OPs are one transaction
 *   ack WRITER N REVISION      the answer's header
 *   fail WRITER N CODE TEXT    the answer was an error
 *
 * Writer 7's n-th call puts k/007 or the new key u/007/N, with a value beginning with "w007.N."; with --mix it may
 * instead delete the last u key, do all of these in one transaction, or, when it is writer 0, compact.
 * Calls are numbered from --first; each writer ends after --ops of them (0: never). With --tell a line "told" goes to
 * stdout at the N-th answer. A lost connection ends the program with status 0: that is what it waits for. Errors and
 * a server that cannot be reached end it with 1. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fcntl.h>

#include "base/prng.h"
#include "etcdserverpb.pb-c.h"
#include "grpc/grpc_client.h"
#include "os/clock.h"
#include "os/heap.h"
#include "os/sock.h"

enum {
    WRITERS_MAX = 1000,
    CONNS_MAX = 64,
    KEY_BYTES = 32,
    VALUE_BYTES_MAX = 1500,
    LINE_BYTES = 2 * VALUE_BYTES_MAX + 256,
    READ_BYTES = 64 * 1024,
    POOL_BYTES_MAX = 1024 * 1024
};

enum kind { PUT, DELETE, TXN, COMPACT };

struct conn {
    struct grpc_client_conn *grpc;
    int fd;
    uint8_t out[GRPC_PULL_BYTES];
    size_t out_len, out_at;
};

struct load;

struct writer {
    struct load *load;
    struct conn *conn;
    struct prng prng;
    unsigned id;
    uint64_t n, end; /* the call's number; the first that is not made */
    enum kind kind;  /* of the call in flight */
    uint64_t live;   /* u/ID/live is there; 0: none */
    uint64_t compacted;
    bool answered;
    int64_t revision; /* of the last answer */
};

struct load {
    const char *endpoint, *journal;
    unsigned long writer_count, conn_count, ops, first, seed, tell;
    bool mix, failed, lost;
    int journal_fd;
    unsigned long answers, running;
    struct grpc_pool *pool;
    struct conn *conns;
    struct writer *writers;
};

static uint64_t now_ns(void)
{
    return os_clock.mono_ns(os_clock.arg);
}

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "writers: %s\n", what);
    exit(1);
}

/* --- the journal -------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void note(const struct load *l, const char *format,
                                                       ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof line) die("a line of the journal is too long");
    if (write(l->journal_fd, line, (size_t)n) != n) die("the journal cannot be written");
}

/* --- requests ------------------------------------------------------------------------------------------------ */

/* What one call does; keys and values are text. */
struct op {
    char own[KEY_BYTES], fresh[KEY_BYTES], old[KEY_BYTES];
    char value[VALUE_BYTES_MAX];
};

static ProtobufCBinaryData binary(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

static void send_message(struct writer *w, struct grpc_client_call *call, const ProtobufCMessage *m)
{
    uint8_t packed[LINE_BYTES * 2];
    if (protobuf_c_message_get_packed_size(m) > sizeof packed) die("a request is too large");
    size_t n = protobuf_c_message_pack(m, packed);
    if (grpc_client_send(call, bytes_of(packed, n)) < 0) w->load->failed = true;
    grpc_client_half_close(call);
}

static void send_put(struct writer *w, struct grpc_client_call *call, const char *key,
                     const char *value)
{
    Etcdserverpb__PutRequest m = ETCDSERVERPB__PUT_REQUEST__INIT;
    m.key = binary(key);
    m.value = binary(value);
    send_message(w, call, &m.base);
}

static void send_delete(struct writer *w, struct grpc_client_call *call, const char *key)
{
    Etcdserverpb__DeleteRangeRequest m = ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
    m.key = binary(key);
    send_message(w, call, &m.base);
}

static void send_compact(struct writer *w, struct grpc_client_call *call)
{
    Etcdserverpb__CompactionRequest m = ETCDSERVERPB__COMPACTION_REQUEST__INIT;
    m.revision = w->revision;
    send_message(w, call, &m.base);
}

static void send_txn(struct writer *w, struct grpc_client_call *call, const struct op *op)
{
    Etcdserverpb__PutRequest puts[2] = {ETCDSERVERPB__PUT_REQUEST__INIT,
                                        ETCDSERVERPB__PUT_REQUEST__INIT};
    Etcdserverpb__DeleteRangeRequest del = ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
    Etcdserverpb__RequestOp ops[3] = {ETCDSERVERPB__REQUEST_OP__INIT,
                                      ETCDSERVERPB__REQUEST_OP__INIT,
                                      ETCDSERVERPB__REQUEST_OP__INIT};
    Etcdserverpb__RequestOp *list[3] = {&ops[0], &ops[1], &ops[2]};
    Etcdserverpb__TxnRequest m = ETCDSERVERPB__TXN_REQUEST__INIT;
    for (size_t i = 0; i < 2; i++) {
        puts[i].key = binary(i == 0 ? op->own : op->fresh);
        puts[i].value = binary(op->value);
        ops[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
        ops[i].request_put = &puts[i];
    }
    del.key = binary(op->old);
    ops[2].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    ops[2].request_delete_range = &del;
    m.success = list;
    m.n_success = op->old[0] != '\0' ? 3 : 2;
    send_message(w, call, &m.base);
}

/* --- answers ------------------------------------------------------------------------------------------------- */

static int64_t header_revision(enum kind kind, struct bytes in)
{
    const Etcdserverpb__ResponseHeader *h = NULL;
    ProtobufCMessage *m = NULL;
    static const ProtobufCMessageDescriptor *const DESCRIPTORS[] = {
        [PUT] = &etcdserverpb__put_response__descriptor,
        [DELETE] = &etcdserverpb__delete_range_response__descriptor,
        [TXN] = &etcdserverpb__txn_response__descriptor,
        [COMPACT] = &etcdserverpb__compaction_response__descriptor};
    m = protobuf_c_message_unpack(DESCRIPTORS[kind], NULL, in.len, in.data);
    if (m == NULL) return 0;
    switch (kind) {
    case PUT: h = ((const Etcdserverpb__PutResponse *)m)->header; break;
    case DELETE: h = ((const Etcdserverpb__DeleteRangeResponse *)m)->header; break;
    case TXN: h = ((const Etcdserverpb__TxnResponse *)m)->header; break;
    case COMPACT: h = ((const Etcdserverpb__CompactionResponse *)m)->header; break;
    }
    int64_t revision = h != NULL ? h->revision : 0;
    protobuf_c_message_free_unpacked(m, NULL);
    return revision;
}

static void on_message(void *arg, struct grpc_client_call *call, struct bytes msg)
{
    struct writer *w = arg;
    (void)call;
    w->answered = true;
    w->revision = header_revision(w->kind, msg);
    note(w->load, "ack %u %" PRIu64 " %" PRId64 "\n", w->id, w->n, w->revision);
    if (++w->load->answers != w->load->tell) return;
    if (write(STDOUT_FILENO, "told\n", 5) != 5) w->load->failed = true;
}

static void next_call(struct writer *w);

static void on_end(void *arg, struct grpc_client_call *call, const struct grpc_status *status)
{
    struct writer *w = arg;
    (void)call;
    if (status->code == GRPC_OK && w->answered) {
        w->n++;
        next_call(w);
        return;
    }
    w->load->running--;
    if (status->code == GRPC_UNAVAILABLE && !status->from_server) {
        w->load->lost = true;
        return;
    }
    w->load->failed = true;
    note(w->load, "fail %u %" PRIu64 " %d %.*s\n", w->id, w->n, (int)status->code,
         (int)status->text.len, (const char *)status->text.data);
}

/* --- one writer ---------------------------------------------------------------------------------------------- */

static enum kind pick(struct writer *w, bool *fresh)
{
    uint64_t r = prng_below(&w->prng, 10);
    *fresh = r >= 6;
    if (!w->load->mix) return PUT;
    if (r == 0 && w->id == 0 && w->revision > 0 && (uint64_t)w->revision > w->compacted)
        return COMPACT;
    if (r <= 1 && w->live != 0) return DELETE;
    return r == 5 ? TXN : PUT;
}

static void make_op(struct writer *w, struct op *op)
{
    snprintf(op->own, sizeof op->own, "k/%03u", w->id);
    snprintf(op->fresh, sizeof op->fresh, "u/%03u/%06" PRIu64, w->id, w->n);
    op->old[0] = '\0';
    if (w->live != 0) snprintf(op->old, sizeof op->old, "u/%03u/%06" PRIu64, w->id, w->live);
    int n = snprintf(op->value, sizeof op->value, "w%03u.%06" PRIu64 ".", w->id, w->n);
    size_t more = prng_below(&w->prng, prng_below(&w->prng, 8) == 0 ? VALUE_BYTES_MAX - 64 : 100);
    for (size_t i = 0; i < more; i++)
        op->value[(size_t)n + i] = (char)('a' + prng_below(&w->prng, 26));
    op->value[(size_t)n + more] = '\0';
}

static void note_send(struct writer *w, const struct op *op, bool fresh)
{
    char old[KEY_BYTES + 4] = "";
    switch (w->kind) {
    case PUT:
        note(w->load, "send %u %" PRIu64 " p:%s:%s\n", w->id, w->n, fresh ? op->fresh : op->own,
             op->value);
        break;
    case DELETE: note(w->load, "send %u %" PRIu64 " d:%s\n", w->id, w->n, op->old); break;
    case TXN:
        if (op->old[0] != '\0') snprintf(old, sizeof old, " d:%s", op->old);
        note(w->load, "send %u %" PRIu64 " p:%s:%s p:%s:%s%s\n", w->id, w->n, op->own, op->value,
             op->fresh, op->value, old);
        break;
    case COMPACT:
        note(w->load, "send %u %" PRIu64 " c:%" PRId64 "\n", w->id, w->n, w->revision);
        break;
    }
}

static const struct grpc_client_events EVENTS = {.on_message = on_message, .on_end = on_end};

static void send_call(struct writer *w, struct grpc_client_call *call, const struct op *op,
                      bool fresh)
{
    switch (w->kind) {
    case PUT:
        send_put(w, call, fresh ? op->fresh : op->own, op->value);
        if (fresh) w->live = w->n;
        break;
    case DELETE:
        send_delete(w, call, op->old);
        w->live = 0;
        break;
    case TXN:
        send_txn(w, call, op);
        w->live = w->n;
        break;
    case COMPACT:
        send_compact(w, call);
        w->compacted = (uint64_t)w->revision;
        break;
    }
}

static void next_call(struct writer *w)
{
    static const char *const PATHS[] = {[PUT] = "/etcdserverpb.KV/Put",
                                        [DELETE] = "/etcdserverpb.KV/DeleteRange",
                                        [TXN] = "/etcdserverpb.KV/Txn",
                                        [COMPACT] = "/etcdserverpb.KV/Compact"};
    struct op op;
    struct grpc_client_call *call = NULL;
    bool fresh = false;
    if (w->n == w->end) {
        w->load->running--;
        return;
    }
    w->answered = false;
    w->kind = pick(w, &fresh);
    make_op(w, &op);
    note_send(w, &op, fresh);
    struct grpc_client_call_opts o = {.path = PATHS[w->kind],
                                      .deadline_ns = GRPC_NEVER,
                                      .kind = GRPC_UNARY,
                                      .events = &EVENTS,
                                      .arg = w};
    if (grpc_client_start(w->conn->grpc, &o, now_ns(), &call) < 0) {
        w->load->lost = true;
        w->load->running--;
        return;
    }
    send_call(w, call, &op, fresh);
}

/* --- connections --------------------------------------------------------------------------------------------- */

static void conn_open(struct load *l, struct conn *c)
{
    struct sock_addr addrs[SOCK_ADDRS_MAX];
    size_t count = 0;
    struct grpc_client_opts o = grpc_client_opts_default();
    if (sock_resolve(l->endpoint, addrs, &count, NULL) < 0 || count == 0) die("no such endpoint");
    int rc = sock_connect(&addrs[0], &c->fd, NULL);
    struct pollfd p = {.fd = c->fd, .events = POLLOUT};
    if (rc == E_AGAIN && poll(&p, 1, -1) == 1) rc = sock_connect_result(c->fd);
    if (rc < 0) die("the server cannot be reached");
    o.pool = l->pool;
    o.authority = l->endpoint;
    c->grpc = grpc_client_conn_new(&o, now_ns());
    if (c->grpc == NULL) die("out of memory");
}

static void conn_lost(struct load *l, struct conn *c)
{
    grpc_client_conn_lost(c->grpc, "error reading from server: EOF");
    sock_close(c->fd);
    c->fd = -1;
    l->lost = true;
}

static void conn_flush(struct load *l, struct conn *c)
{
    while (c->fd >= 0) {
        if (c->out_at == c->out_len) {
            c->out_at = 0;
            c->out_len = grpc_client_conn_pull(c->grpc, c->out, sizeof c->out, now_ns());
            if (c->out_len == 0) return;
        }
        size_t done = 0;
        int rc = sock_write(c->fd, bytes_of(c->out + c->out_at, c->out_len - c->out_at), &done);
        if (rc == E_AGAIN) return;
        if (rc < 0) {
            conn_lost(l, c);
            return;
        }
        c->out_at += done;
    }
}

static void conn_read(struct load *l, struct conn *c)
{
    uint8_t room[READ_BYTES];
    size_t got = 0;
    int rc = sock_read(c->fd, room, sizeof room, &got);
    if (rc == E_AGAIN) return;
    if (rc < 0 || grpc_client_conn_feed(c->grpc, room, got, now_ns()) < 0) conn_lost(l, c);
}

static void round_of_all(struct load *l)
{
    struct pollfd p[CONNS_MAX];
    for (size_t i = 0; i < l->conn_count; i++) {
        struct conn *c = &l->conns[i];
        conn_flush(l, c);
        short out = c->out_at < c->out_len ? POLLOUT : 0;
        p[i] = (struct pollfd){.fd = c->fd, .events = (short)(POLLIN | out)};
    }
    if (l->running == 0 || l->lost) return;
    if (poll(p, l->conn_count, -1) < 0 && errno != EINTR) die("poll failed");
    for (size_t i = 0; i < l->conn_count; i++) {
        if (l->conns[i].fd >= 0 && p[i].revents != 0) conn_read(l, &l->conns[i]);
    }
}

/* --- all ------------------------------------------------------------------------------------------------------ */

static void load_init(struct load *l)
{
    l->journal_fd = open(l->journal, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (l->journal_fd < 0) die("the journal cannot be opened");
    l->pool = grpc_pool_new(&os_heap, POOL_BYTES_MAX);
    l->conns = calloc(l->conn_count, sizeof *l->conns);
    l->writers = calloc(l->writer_count, sizeof *l->writers);
    if (l->pool == NULL || l->conns == NULL || l->writers == NULL) die("out of memory");
    for (size_t i = 0; i < l->conn_count; i++)
        conn_open(l, &l->conns[i]);
    for (unsigned i = 0; i < l->writer_count; i++) {
        struct writer *w = &l->writers[i];
        *w = (struct writer){
            .load = l, .conn = &l->conns[i % l->conn_count], .id = i, .n = l->first};
        w->end = l->ops == 0 ? UINT64_MAX : l->first + l->ops;
        prng_init(&w->prng, l->seed * WRITERS_MAX + i);
    }
}

static void load_deinit(struct load *l)
{
    for (size_t i = 0; i < l->conn_count; i++) {
        if (l->conns[i].fd >= 0) {
            grpc_client_conn_lost(l->conns[i].grpc, "done");
            sock_close(l->conns[i].fd);
        }
        grpc_client_conn_free(l->conns[i].grpc);
    }
    grpc_pool_free(l->pool);
    free(l->conns);
    free(l->writers);
    close(l->journal_fd);
}

static void read_options(struct load *l, int argc, char **argv)
{
    enum { MIX = 'm' };
    struct {
        const char *name;
        unsigned long *to;
    } const numbers[] = {{"writers", &l->writer_count},
                         {"connections", &l->conn_count},
                         {"ops", &l->ops},
                         {"first", &l->first},
                         {"seed", &l->seed},
                         {"tell", &l->tell}};
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    struct option options[NUMBERS + 4] = {
        {"endpoint", 1, NULL, 'e'}, {"journal", 1, NULL, 'j'}, {"mix", 0, NULL, MIX}};
    for (int i = 0; i < NUMBERS; i++)
        options[3 + i] = (struct option){numbers[i].name, 1, NULL, i};
    int o = 0;
    while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (o == '?') die("see the head of its source for its options");
        if (o == 'e') l->endpoint = optarg;
        if (o == 'j') l->journal = optarg;
        if (o == MIX) l->mix = true;
        if (o < NUMBERS) *numbers[o].to = strtoul(optarg, NULL, 10);
    }
    if (l->endpoint == NULL || l->journal == NULL) die("--endpoint and --journal are needed");
    if (l->writer_count == 0 || l->writer_count > WRITERS_MAX) die("so many writers cannot be");
    if (l->conn_count == 0 || l->conn_count > CONNS_MAX) die("so many connections cannot be");
}

int main(int argc, char **argv)
{
    struct load l = {.writer_count = 64, .conn_count = 4, .first = 1, .seed = 1};
    read_options(&l, argc, argv);
    load_init(&l);
    l.running = l.writer_count;
    for (size_t i = 0; i < l.writer_count; i++)
        next_call(&l.writers[i]);
    while (l.running > 0 && !l.lost)
        round_of_all(&l);
    bool failed = l.failed || (l.ops > 0 && l.lost);
    load_deinit(&l);
    return failed ? 1 : 0;
}
