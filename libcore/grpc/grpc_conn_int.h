/* Inside of the server's side: one connection and its calls. */
#ifndef GRPC_GRPC_CONN_INT_H
#define GRPC_GRPC_CONN_INT_H

#include "base/heap.h"
#include "base/list.h"
#include "grpc/grpc_int.h"

/* What a header block said, while it arrives and until its call has begun. */
struct grpc__request {
    struct grpc__heads heads; /* metadata, and the references that keep all spans here alive */
    uint64_t begun_ns;        /* when the block began; 0: none is arriving */
    int32_t stream_id;
    int failed;   /* E_TOOBIG, E_NOMEM, E_PROTO: the block cannot be used */
    bool regular; /* a field that is no pseudo header has come */
    bool timeout_set;
    unsigned authority_count;
    unsigned host_count;
    struct bytes method;
    struct bytes path;
    struct bytes authority;
    struct bytes host;
    struct bytes user_agent;
    struct bytes content_type;
    struct bytes timeout;
    struct bytes encoding;
};

/* A content type with a longer suffix is answered without it. */
enum { CALL_TYPE_BYTES_MAX = 64 };

/* A stage of a call's life; it only moves forward. */
enum grpc__stage {
    CALL_OPEN,     /* the handler has it */
    CALL_FINISHED, /* the handler, or we for it, gave a status; it waits to be sent */
    CALL_RESET,    /* RST_STREAM is on its way */
};

struct grpc_call {
    struct grpc_conn *conn;
    void *data;
    struct heap_item timer;    /* in conn->deadlines while a deadline runs */
    struct list link;          /* in conn->calls */
    struct list wait_link;     /* in conn->waiting */
    struct list writable_link; /* in conn->writable */
    uint64_t deadline_ns;
    struct grpc__in in;
    struct grpc__queue out;
    struct buf text; /* the encoded grpc-message */
    struct buf
        backlog; /* what arrived while held or waiting; of GRPC_SERVER_STREAM its one message */
    int32_t stream_id;
    uint32_t reserved; /* of the assembly budget */
    uint8_t code;
    uint8_t kind;  /* enum grpc_kind */
    uint8_t stage; /* enum grpc__stage */
    bool begun;    /* on_call has returned and did not end it */
    bool gzip_in;
    bool headers_sent;
    bool deferred; /* nghttp2 waits for resume_data */
    bool half_closed;
    bool half_told;   /* and that was acted upon */
    bool got_message; /* of a call that takes one only */
    bool parsing;     /* inside the loop over its bytes */
    bool held;
    bool waiting;                   /* for the assembly budget */
    bool unwritable;                /* the handler was told so */
    uint8_t type_len;               /* 0: plain "application/grpc" */
    char type[CALL_TYPE_BYTES_MAX]; /* the answer's content type, with the request's suffix */
};

struct grpc_conn {
    nghttp2_session *session;
    struct grpc_conn_opts opts;
    const struct grpc_handler *handler;
    void *data;
    uint64_t now_ns; /* as last told */

    struct grpc__request req;
    struct heap deadlines;
    struct list calls;    /* all open ones */
    struct list waiting;  /* calls that wait for the assembly budget */
    struct list writable; /* calls whose handler is to be told */
    size_t call_count;
    size_t queued_bytes;
    size_t assembling_bytes;
    size_t waiting_count;

    uint8_t *out; /* of the pull in progress */
    size_t out_len;
    size_t out_cap;
    const uint8_t *rest; /* of a frame that did not fit into the last pull */
    size_t rest_len;

    /* liveness: grpc_live.c */
    uint64_t born_ns;
    uint64_t read_ns;      /* when the last bytes arrived */
    uint64_t ping_sent_ns; /* our keepalive ping; 0: none is out */
    uint64_t ping_seen_ns; /* the client's last; 0: none yet */
    uint64_t close_ns;     /* a connection that was told off is closed then; GRPC_NEVER */
    uint64_t drain_ns;     /* the second GOAWAY goes then at the latest */
    uint64_t reset_ns;     /* when reset_credit was last topped up */
    uint32_t reset_credit;
    uint32_t strikes;
    bool sent_since_ping; /* data or headers: clears the strikes */
    bool ready;           /* the client's SETTINGS have come */
    bool first_out;       /* the SETTINGS frame has not left yet */
    bool draining;
    bool drained;  /* the second GOAWAY is queued */
    bool dead;     /* nothing more goes either way */
    bool told_off; /* GOAWAY ENHANCE_YOUR_CALM has left: nothing else does */
};

/* ---- grpc_head.c: a request's headers -------------------------------------------------------- */

void grpc__request_begin(struct grpc_conn *c, int32_t stream_id);
void grpc__request_field(struct grpc_conn *c, nghttp2_rcbuf *name, nghttp2_rcbuf *value);
/* The block is whole: begins the call or answers it. Returns 0, or an nghttp2 error. */
int grpc__request_end(struct grpc_conn *c, int32_t stream_id, bool end_stream);
/* Answers without a call: trailers only. */
int grpc__abort(struct grpc_conn *c, int32_t stream_id, const char *http_status,
                struct bytes suffix, enum grpc_code code, struct bytes text);

/* ---- grpc_call.c: sending ---------------------------------------------------------------------- */

/* Gives a call bound to its stream; NULL without memory. */
struct grpc_call *grpc__call_new(struct grpc_conn *c, int32_t stream_id, uint64_t deadline_ns);
void grpc__call_free(struct grpc_call *call);
/* Makes the answer's content type from what stood behind "application/grpc" and its '+' or ';'. */
void grpc__call_set_suffix(struct grpc_call *call, struct bytes suffix);
/* The request's side is at fault: status to the client, on_cancel to the handler. */
void grpc__call_fail(struct grpc_call *call, enum grpc_code code, struct bytes text);
/* The handler loses the call; nothing when it has none. */
void grpc__call_cancel(struct grpc_call *call, enum grpc_cancel why);
/* The call's deadline has passed. */
void grpc__call_expire(struct grpc_call *call);
/* Moves queued bytes to `out`; as grpc__queue_read(). */
int grpc__call_take(struct grpc_call *call, uint8_t *out, size_t cap);
/* What nghttp2 asks for the next DATA frame with. */
ssize_t grpc__call_read(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t cap,
                        uint32_t *flags, nghttp2_data_source *source, void *arg);

/* ---- grpc_recv.c: receiving ------------------------------------------------------------------ */

void grpc__call_data(struct grpc_call *call, struct bytes chunk);
void grpc__call_half_close(struct grpc_call *call);
/* Gives back what the call reserved, and its place among the waiting. */
void grpc__call_unreserve(struct grpc_call *call);
/* Lets calls go on that waited for the assembly budget, as far as it reaches now. */
void grpc__run_waiting(struct grpc_conn *c);

/* ---- grpc_live.c: pings, floods, draining ------------------------------------------------------ */

void grpc__live_ping(struct grpc_conn *c, const uint8_t data[8], bool ack);
/* A call was cancelled by its client, or refused: one token of the bucket. */
void grpc__live_reset(struct grpc_conn *c);
void grpc__live_finished(struct grpc_conn *c);
/* Tells the client off by GOAWAY and closes a second later. */
void grpc__live_enhance_calm(struct grpc_conn *c, const char *why);
/* A GOAWAY has left. */
void grpc__live_goaway_sent(struct grpc_conn *c);
/* The earliest time at which grpc__live_tick() has something to do. */
uint64_t grpc__live_next(const struct grpc_conn *c);
void grpc__live_tick(struct grpc_conn *c);

#endif
