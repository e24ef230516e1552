/* RFC 9113 and 7541, as far as a client needs them that asks one thing again and again. */
#include "lib/h2.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FRAME_HEAD = 9,
    FRAME_MAX = 16384,        /* of one we accept; never raised */
    IN_BYTES = 256 * 1024,    /* one read */
    OUT_BYTES = 1024 * 1024,  /* queued requests; room is asked for before each */
    REQUEST_HEAD_MAX = 512,   /* a header block and the heads of two frames */
    STREAM_WINDOW = 16 << 20, /* of an answer: no update is sent for a stream */
    CONN_WINDOW = 1 << 30,    /* of all answers: topped up when half is used */
    TYPE_DATA = 0,
    TYPE_HEADERS = 1,
    TYPE_RST_STREAM = 3,
    TYPE_SETTINGS = 4,
    TYPE_PING = 6,
    TYPE_GOAWAY = 7,
    TYPE_WINDOW_UPDATE = 8,
    FLAG_END_STREAM = 1,
    FLAG_ACK = 1,
    FLAG_END_HEADERS = 4,
    FLAG_PADDED = 8,
    SETTINGS_TABLE_SIZE = 1,
    SETTINGS_STREAMS_MAX = 3,
    SETTINGS_WINDOW = 4
};

struct stream {
    uint32_t id; /* 0: free */
    bool ok;
    uint64_t tag;
    uint64_t bytes;
};

struct h2 {
    struct h2_opts opts;
    int fd;
    nghttp2_hd_inflater *inflater;
    struct stream *streams; /* at id / 2 modulo their number */
    uint32_t stream_mask;
    uint32_t id_next;
    size_t inflight;
    uint32_t streams_max; /* the server's */
    int64_t send_window;
    uint64_t received; /* since the last update of the connection's window */
    bool settled;      /* the server's SETTINGS are here */
    bool first_sent;   /* the header fields are in the server's table */
    bool over;
    uint8_t block[REQUEST_HEAD_MAX]; /* of the first request */
    size_t block_len;
    uint8_t in[IN_BYTES];
    size_t in_len;
    uint8_t out[OUT_BYTES];
    size_t out_at, out_len;
};

/* All fields stand in the table after the first request: user-agent is the newest, :path the oldest. */
static const uint8_t REPEATED[] = {0x83, 0x86, 0xc2, 0xc1, 0xc0, 0xbf, 0xbe};

_Noreturn static void die(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void put32(uint8_t *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(v >> (24 - 8 * i));
}

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* --- sending -------------------------------------------------------------------------------------- */

static uint8_t *frame(struct h2 *c, size_t len, uint8_t type, uint8_t flags, uint32_t id)
{
    uint8_t *at = c->out + c->out_len;
    if (c->out_len + FRAME_HEAD + len > OUT_BYTES) {
        errno = ENOBUFS;
        die("a server that takes nothing");
    }
    put32(at, (uint32_t)len << 8 | type);
    at[4] = flags;
    put32(at + 5, id);
    c->out_len += FRAME_HEAD + len;
    return at + FRAME_HEAD;
}

static void window_update(struct h2 *c, uint32_t bytes)
{
    put32(frame(c, 4, TYPE_WINDOW_UPDATE, 0, 0), bytes);
}

static void add_field(struct h2 *c, uint8_t index, const char *name, const char *value)
{
    c->block[c->block_len++] = 0x40 | index; /* literal, to be kept in the table */
    const char *parts[] = {index == 0 ? name : NULL, value};
    for (int i = 0; i < 2; i++) {
        if (parts[i] == NULL) continue;
        size_t len = strlen(parts[i]);
        if (len > 120 || c->block_len + len + 2 > sizeof c->block) {
            errno = EINVAL;
            die("a path or authority that is too long");
        }
        c->block[c->block_len++] = (uint8_t)len;
        memcpy(c->block + c->block_len, parts[i], len);
        c->block_len += len;
    }
}

static void make_block(struct h2 *c)
{
    c->block[c->block_len++] = 0x83; /* :method POST */
    c->block[c->block_len++] = 0x86; /* :scheme http */
    add_field(c, 4, NULL, c->opts.path);
    add_field(c, 1, NULL, c->opts.authority);
    add_field(c, 31, NULL, "application/grpc");
    add_field(c, 0, "te", "trailers");
    add_field(c, 58, NULL, "etcd-bench");
}

static struct stream *stream_at(const struct h2 *c, uint32_t id)
{
    return &c->streams[(id >> 1) & c->stream_mask];
}

bool h2_room(const struct h2 *c, size_t bytes)
{
    return !c->over && c->inflight < c->opts.inflight && c->inflight < c->streams_max &&
           c->send_window >= (int64_t)bytes + 5 && stream_at(c, c->id_next)->id == 0 &&
           c->out_len + bytes + REQUEST_HEAD_MAX + 64 < OUT_BYTES;
}

void h2_start(struct h2 *c, const uint8_t *body, size_t len, uint64_t tag)
{
    uint32_t id = c->id_next;
    struct stream *s = stream_at(c, id);
    const uint8_t *block = c->first_sent ? REPEATED : c->block;
    size_t block_len = c->first_sent ? sizeof REPEATED : c->block_len;
    size_t prefix = c->opts.grpc ? 5 : 0;
    memcpy(frame(c, block_len, TYPE_HEADERS, FLAG_END_HEADERS, id), block, block_len);
    uint8_t *at = frame(c, prefix + len, TYPE_DATA, FLAG_END_STREAM, id);
    if (prefix > 0) {
        at[0] = 0;
        put32(at + 1, (uint32_t)len);
    }
    if (len > 0) memcpy(at + prefix, body, len);
    c->first_sent = true;
    c->id_next += 2;
    c->send_window -= (int64_t)(prefix + len);
    c->inflight++;
    *s = (struct stream){.id = id, .tag = tag};
}

bool h2_flush(struct h2 *c)
{
    while (c->out_at < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_at, c->out_len - c->out_at, MSG_NOSIGNAL);
        if (n < 0) {
            c->over = c->over || (errno != EAGAIN && errno != EINTR);
            memmove(c->out, c->out + c->out_at, c->out_len - c->out_at);
            c->out_len -= c->out_at;
            c->out_at = 0;
            return false;
        }
        c->out_at += (size_t)n;
    }
    c->out_at = c->out_len = 0;
    return true;
}

/* --- receiving ------------------------------------------------------------------------------------ */

static void end_stream(struct h2 *c, struct stream *s, bool ok)
{
    struct stream ended = *s;
    s->id = 0;
    c->inflight--;
    c->opts.done(c->opts.arg, ended.tag, ok, ended.bytes);
}

static void on_field(const struct h2 *c, struct stream *s, const nghttp2_nv *nv)
{
    const char *name = c->opts.grpc ? "grpc-status" : ":status";
    const char *value = c->opts.grpc ? "0" : "200";
    if (nv->namelen != strlen(name) || memcmp(nv->name, name, nv->namelen) != 0) return;
    s->ok = nv->valuelen == strlen(value) && memcmp(nv->value, value, nv->valuelen) == 0;
}

static void on_headers(struct h2 *c, struct stream *s, const uint8_t *at, size_t len, uint8_t flags)
{
    if ((flags & (FLAG_END_HEADERS | FLAG_PADDED)) != FLAG_END_HEADERS) {
        c->over = true; /* a server of ours or upstream's never does that */
        return;
    }
    for (;;) {
        nghttp2_nv nv;
        int found = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(c->inflater, &nv, &found, at, len, 1);
        if (n < 0) {
            c->over = true;
            return;
        }
        at += n;
        len -= (size_t)n;
        if ((found & NGHTTP2_HD_INFLATE_EMIT) != 0) on_field(c, s, &nv);
        if ((found & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    }
    nghttp2_hd_inflate_end_headers(c->inflater);
}

static void on_settings(struct h2 *c, const uint8_t *at, size_t len, uint8_t flags)
{
    if ((flags & FLAG_ACK) != 0) return;
    for (; len >= 6; at += 6, len -= 6) {
        uint32_t value = get32(at + 2);
        int what = at[0] << 8 | at[1];
        if (what == SETTINGS_STREAMS_MAX) c->streams_max = value;
        if ((what == SETTINGS_TABLE_SIZE && value < 4096) ||
            (what == SETTINGS_WINDOW && value < 65535)) {
            errno = EPROTO;
            die("a server with a smaller table or window than the default");
        }
    }
    c->settled = true;
    (void)frame(c, 0, TYPE_SETTINGS, FLAG_ACK, 0);
}

static void on_stream_frame(struct h2 *c, uint32_t id, uint8_t type, uint8_t flags,
                            const uint8_t *at, size_t len)
{
    struct stream none = {0};
    struct stream *s = stream_at(c, id);
    if (s->id != id) s = &none; /* what is late is still to be decoded and counted */
    if (type == TYPE_HEADERS) on_headers(c, s, at, len, flags);
    if (type == TYPE_DATA) {
        s->bytes += len;
        c->received += len;
    }
    if (s == &none || c->over) return;
    if (type == TYPE_RST_STREAM) {
        end_stream(c, s, false);
    } else if ((flags & FLAG_END_STREAM) != 0) {
        end_stream(c, s, s->ok);
    }
}

static void on_frame(struct h2 *c, const uint8_t *head, size_t len)
{
    const uint8_t *at = head + FRAME_HEAD;
    uint32_t id = get32(head + 5) & 0x7fffffff;
    switch (head[3]) {
    case TYPE_DATA:
    case TYPE_HEADERS:
    case TYPE_RST_STREAM: on_stream_frame(c, id, head[3], head[4], at, len); break;
    case TYPE_SETTINGS: on_settings(c, at, len, head[4]); break;
    case TYPE_PING:
        if (len == 8 && (head[4] & FLAG_ACK) == 0)
            memcpy(frame(c, 8, TYPE_PING, FLAG_ACK, 0), at, 8);
        break;
    case TYPE_GOAWAY: c->over = true; break;
    case TYPE_WINDOW_UPDATE:
        if (len == 4 && id == 0) c->send_window += get32(at) & 0x7fffffff;
        break;
    default: break; /* RFC 9113, 5.5: unknown frames are ignored */
    }
}

static void walk_frames(struct h2 *c)
{
    size_t at = 0;
    while (!c->over && c->in_len - at >= FRAME_HEAD) {
        size_t len = get32(c->in + at) >> 8;
        if (len > FRAME_MAX) c->over = true;
        if (c->over || c->in_len - at < FRAME_HEAD + len) break;
        on_frame(c, c->in + at, len);
        at += FRAME_HEAD + len;
    }
    memmove(c->in, c->in + at, c->in_len - at);
    c->in_len -= at;
    if (c->received >= CONN_WINDOW / 2) {
        window_update(c, (uint32_t)c->received);
        c->received = 0;
    }
}

/* Requests of a connection that is over have failed. */
static void fail_all(struct h2 *c)
{
    for (uint32_t i = 0; i <= c->stream_mask; i++)
        if (c->streams[i].id != 0) end_stream(c, &c->streams[i], false);
}

bool h2_read(struct h2 *c)
{
    while (!c->over) {
        size_t room = IN_BYTES - c->in_len;
        ssize_t n = recv(c->fd, c->in + c->in_len, room, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        c->over = n <= 0;
        if (n > 0) c->in_len += (size_t)n;
        if (n > 0) walk_frames(c);
        if (n < (ssize_t)room) break; /* level-triggered: the rest calls again */
    }
    if (c->over) fail_all(c);
    return !c->over;
}

/* --- life ----------------------------------------------------------------------------------------- */

static int dial(const char *address, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1) {
        errno = EINVAL;
        die("an address that is not IPv4");
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0) die("cannot connect");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void say_hello(struct h2 *c)
{
    static const char PREFACE[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    memcpy(c->out, PREFACE, sizeof PREFACE - 1);
    c->out_len = sizeof PREFACE - 1;
    uint8_t *at = frame(c, 6, TYPE_SETTINGS, 0, 0);
    at[0] = 0;
    at[1] = SETTINGS_WINDOW;
    put32(at + 2, STREAM_WINDOW);
    window_update(c, CONN_WINDOW - 65535);
}

struct h2 *h2_connect(const char *address, uint16_t port, const struct h2_opts *opts)
{
    struct h2 *c = calloc(1, sizeof *c);
    uint32_t slots = 64;
    while (slots < opts->inflight * 8)
        slots *= 2;
    if (c == NULL || nghttp2_hd_inflate_new(&c->inflater) != 0) die("memory");
    c->streams = calloc(slots, sizeof *c->streams);
    if (c->streams == NULL) die("memory");
    c->stream_mask = slots - 1;
    c->opts = *opts;
    c->streams_max = UINT32_MAX;
    c->send_window = 65535;
    c->id_next = 1;
    c->fd = dial(address, port);
    make_block(c);
    say_hello(c);
    while (!c->settled && h2_flush(c) && h2_read(c))
        continue;
    if (!c->settled) die("no HTTP/2 server");
    (void)h2_flush(c);
    (void)fcntl(c->fd, F_SETFL, O_NONBLOCK);
    return c;
}

void h2_close(struct h2 *c)
{
    close(c->fd);
    nghttp2_hd_inflate_del(c->inflater);
    free(c->streams);
    free(c);
}

int h2_fd(const struct h2 *c)
{
    return c->fd;
}

size_t h2_inflight(const struct h2 *c)
{
    return c->inflight;
}
