/* Inside of grpc: what the two sides of a connection share.
 *
 *   pool    memory (grpc_pool.c), also as nghttp2's allocator
 *   heads   one header list while it arrives (grpc_heads.c)
 *   in      bytes of DATA frames -> messages (grpc_in.c)
 *   queue   messages -> bytes of DATA frames (grpc_queue.c)
 *   wire    the small text forms: timeouts, grpc-message, content types (grpc_wire.c)
 *   zip     gzip both ways (grpc_zip.c)                                                            */
#ifndef GRPC_GRPC_INT_H
#define GRPC_GRPC_INT_H

#include <nghttp2/nghttp2.h>

#include "base/buf.h"
#include "base/errmsg.h"
#include "grpc/grpc.h"

/* Every message on the wire: a flag byte (1: compressed) and a big-endian length before it. */
#define GRPC_PREFIX_BYTES 5
/* A call's own part of the window at its start; HTTP/2's default, and upstream announces no other. */
#define GRPC_STREAM_WINDOW 65535
/* What a peer may have on the way to us on all streams: enough for 10 Gbit/s at 1 ms. Memory is bounded by the
 * streams' windows and the assembly budget, not by this. */
#define GRPC_CONN_WINDOW (4 * 1024 * 1024)
/* Control frames that wait because the peer does not read; above it we do not read either. */
#define GRPC_CONTROL_QUEUE_MAX 4096
/* Open calls of one connection when no --max-concurrent-streams says less: some 100 MB of bookkeeping. */
#define GRPC_CALLS_MAX 100000
/* Calls that wait for room in the assembly budget, each with a full window buffered. */
#define GRPC_WAITING_CALLS_MAX 256
/* Longest grpc-message kept of a status text. */
#define GRPC_TEXT_BYTES_MAX (16 * 1024)

/* ---- pool ------------------------------------------------------------------------------------ */

/* nghttp2's allocator that takes from `p`. */
nghttp2_mem grpc__pool_mem(struct grpc_pool *p);

/* ---- heads ----------------------------------------------------------------------------------- */

struct grpc__heads {
    struct grpc_pool *pool;
    struct grpc_field *fields; /* spans into refs */
    size_t count;
    size_t cap;
    nghttp2_rcbuf **refs; /* keep the spans alive until the reset */
    size_t ref_count;
    size_t ref_cap;
    size_t bytes; /* names, values, and 32 a field, as SETTINGS_MAX_HEADER_LIST_SIZE counts */
    size_t bytes_max;
};

void grpc__heads_init(struct grpc__heads *h, struct grpc_pool *pool, size_t bytes_max);
void grpc__heads_deinit(struct grpc__heads *h);
void grpc__heads_reset(struct grpc__heads *h);
/* Keeps a field, with a reference to both buffers. Errors: E_TOOBIG, E_NOMEM. */
int grpc__heads_add(struct grpc__heads *h, nghttp2_rcbuf *name, nghttp2_rcbuf *value);
/* Keeps only the value alive: of a field that the transport itself reads. Errors: E_TOOBIG, E_NOMEM. */
int grpc__heads_add_own(struct grpc__heads *h, nghttp2_rcbuf *name, nghttp2_rcbuf *value);
struct bytes grpc__rcbuf_bytes(nghttp2_rcbuf *b);
/* Whether a span equals a C string; inline, so that a literal's length and comparison cost no call. */
static inline bool grpc__is(struct bytes s, const char *text)
{
    size_t len = strlen(text);
    return s.len == len && memcmp(s.data, text, len) == 0;
}

/* ---- in -------------------------------------------------------------------------------------- */

enum grpc__in_event {
    GRPC__IN_MORE,    /* all input is used up */
    GRPC__IN_HEAD,    /* a prefix is whole: `need` and `flag` are known; step again */
    GRPC__IN_MESSAGE, /* a message is whole */
    GRPC__IN_PIECE,   /* a piece of a message (only after `pieces` was set at its head) */
    GRPC__IN_NOMEM
};

struct grpc__in {
    uint8_t *data; /* assembled so far, when a message did not come in one piece */
    uint32_t cap;
    uint32_t need; /* of the current message */
    uint32_t got;
    uint8_t prefix[GRPC_PREFIX_BYTES];
    uint8_t prefix_len;
    uint8_t flag;
    bool pieces;
    bool spent; /* the message in `data` was given and is to be dropped by the next step */
};

/* Uses up bytes of `*input`; `*out` (message or piece) is valid until the next step, or until `*input`'s
 * bytes are gone. */
enum grpc__in_event grpc__in_step(struct grpc__in *in, struct grpc_pool *pool, struct bytes *input,
                                  struct bytes *out);
/* Whether a message has begun and is not whole. */
bool grpc__in_midway(const struct grpc__in *in);
void grpc__in_deinit(struct grpc__in *in, struct grpc_pool *pool);

/* ---- queue ----------------------------------------------------------------------------------- */

struct grpc__seg;

struct grpc__queue {
    struct grpc__seg *head;
    struct grpc__seg *tail;
    size_t bytes;        /* that wait, sources not counted */
    size_t source_count; /* segments that are sources */
};

/* Appends a copy. Errors: E_NOMEM. */
int grpc__queue_put(struct grpc__queue *q, struct grpc_pool *pool, struct bytes s);
/* Appends one message's prefix and pieces; all or nothing. Errors: E_NOMEM. */
int grpc__queue_put_message(struct grpc__queue *q, struct grpc_pool *pool, uint8_t flag,
                            const struct grpc_part *parts, size_t count, size_t total);
/* Appends a prefix and a source. Errors: E_NOMEM; the source is then not released. */
int grpc__queue_put_source(struct grpc__queue *q, struct grpc_pool *pool,
                           const struct grpc_source *source);
bool grpc__queue_empty(const struct grpc__queue *q);
/* Moves up to `cap` bytes to `out`; returns how many. Errors: E_AGAIN none now (the source has none), or what a
 * source failed with. */
int grpc__queue_read(struct grpc__queue *q, struct grpc_pool *pool, uint8_t *out, size_t cap);
void grpc__queue_deinit(struct grpc__queue *q, struct grpc_pool *pool);

/* ---- wire ------------------------------------------------------------------------------------ */

/* Reads a grpc-timeout. Errors: E_INVAL with upstream's words in `em`. */
int grpc__timeout_parse(struct bytes text, uint64_t *out_ns, struct errmsg *em);
/* Writes one, rounded up as upstream does; `out` gets at most 10 characters and a zero. Returns the length. */
size_t grpc__timeout_format(uint64_t ns, char out[16]);
/* Percent-encodes a status text (bad UTF-8 becomes U+FFFD); appends to `b`. Errors: E_NOMEM, E_TOOBIG. */
int grpc__message_encode(struct buf *b, struct bytes text);
/* Whether encoding would change nothing. */
bool grpc__message_plain(struct bytes text);
int grpc__message_decode(struct buf *b, struct bytes wire);
/* Whether a content-type is gRPC's; `*suffix` is what stands behind '+' or ';'. */
bool grpc__content_type(struct bytes value, struct bytes *suffix);
/* A header field of constants, not copied by nghttp2. */
nghttp2_nv grpc__nv(const char *name, struct bytes value);
/* "13" for GRPC_INTERNAL; static. */
const char *grpc__code_text(enum grpc_code code);

/* ---- zip ------------------------------------------------------------------------------------- */

/* Inflates a whole gzip message. Errors: E_TOOBIG above `bytes_max`; E_CORRUPT; E_NOMEM. */
int grpc__gunzip(struct grpc_pool *pool, struct bytes in, size_t bytes_max, struct buf *out);
/* Appends gzip of the pieces. Errors: E_NOMEM, E_TOOBIG. */
int grpc__gzip(struct grpc_pool *pool, const struct grpc_part *parts, size_t count,
               struct buf *out);

#endif
