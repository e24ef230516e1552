/* HTTP/1.x, the server's side of one connection: bytes in, bytes out.
 *
 * Parsing is http-parser's; bounds, framing of answers, keep-alive, Expect and the order of pipelined
 * requests are ours. One request at a time: while one is being answered, further bytes are kept (up to
 * a bound, then refused to be read) and parsed when the answer is complete. The connection owns no
 * socket, thread or clock; all its functions belong to one thread. Times are nanoseconds of any
 * monotonic clock. */
#ifndef HTTP1_HTTP1_H
#define HTTP1_HTTP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/bytes.h"

#define HTTP1_NEVER UINT64_MAX

struct http1_conn;

struct http1_field {
    struct bytes name; /* as sent; compared without regard to case */
    struct bytes value;
};

/* A whole request; borrowed until http1_respond() or http1_begin() is called for it. */
struct http1_request {
    struct bytes method; /* "GET" */
    struct bytes target; /* as sent: path and query, not decoded */
    struct bytes path;   /* the target up to '?' */
    struct bytes query;  /* behind it; empty without one */
    const struct http1_field *fields;
    size_t field_count;
    struct bytes body; /* chunks joined */
    bool head;         /* the method is HEAD: an answer's body is not sent */
    bool keep_alive;
    int minor; /* of HTTP/1.minor: 0 or 1 */
};

/* The first value of a header, any case; data is NULL when there is none. */
struct bytes http1_request_get(const struct http1_request *req, const char *name);

/* What the owner is told. */
struct http1_handler {
    void *arg;
    /* A request is whole; to be answered now or later, by http1_respond() or begin, write, end. */
    void (*on_request)(void *arg, struct http1_conn *c, const struct http1_request *req);
    /* The connection goes while a request is unanswered or its stream unfinished: the last word about
     * it. Called inside feed, tick or free. May be NULL. */
    void (*on_abort)(void *arg, struct http1_conn *c);
    /* A stream that was not writable is so again. Called inside sent. May be NULL. */
    void (*on_writable)(void *arg, struct http1_conn *c);
};

struct http1_opts {
    size_t target_bytes_max;
    size_t header_bytes_max; /* all names and values of one request */
    size_t header_count_max;
    size_t body_bytes_max;
    size_t queue_bytes; /* a stream with more waiting to be sent is not writable */
    uint64_t
        head_timeout_ns; /* from the first byte (or from the accept) to the end of the headers */
    uint64_t body_timeout_ns; /* from there to the end of the body */
    uint64_t idle_timeout_ns; /* between requests */
};

struct http1_opts http1_opts_default(void);

/* Gives a connection, NULL without memory; http1_conn_free() ends it. Borrows `alloc` and `handler` for
 * its life. */
struct http1_conn *http1_conn_new(const struct alloc *alloc, const struct http1_opts *opts,
                                  const struct http1_handler *handler, uint64_t now_ns);
void http1_conn_free(struct http1_conn *c);

/* Takes in what was received. What is malformed or too large is answered by the connection itself (400,
 * 413, 414, 431, 417) and ends it.
 * Errors: E_CLOSED it is over, or E_NOMEM: send what is left, then close. */
int http1_conn_feed(struct http1_conn *c, const uint8_t *data, size_t len, uint64_t now_ns);
/* The client has ended its side (a half close): what was asked is still answered, then done. */
void http1_conn_eof(struct http1_conn *c);

/* The bytes to be sent next; valid until any other call. http1_conn_sent() drops the first `n` of them; once
 * an answer is complete it goes on with what was pipelined behind it. */
struct bytes http1_conn_out(const struct http1_conn *c);
void http1_conn_sent(struct http1_conn *c, size_t n);

/* Does what is due; returns the time of the next tick, HTTP1_NEVER for none. */
uint64_t http1_conn_tick(struct http1_conn *c, uint64_t now_ns);
/* False while too many unparsed bytes wait for an answer to complete. */
bool http1_conn_want_read(const struct http1_conn *c);
/* Whether the socket is to be closed once all output is sent. */
bool http1_conn_done(const struct http1_conn *c);
/* No further request after the current one. */
void http1_conn_drain(struct http1_conn *c);

/* ---- answers ---------------------------------------------------------------------------------- */

struct http1_response {
    int status; /* 100..599 */
    const struct http1_field
        *fields; /* without Content-Length, Transfer-Encoding, Connection, Date */
    size_t field_count;
    struct bytes body; /* for http1_respond() */
    const char *date;  /* value of a Date header; NULL: none is sent */
    bool close;        /* end the connection behind this answer */
};

/* Answers the request in one piece. Errors: E_NOMEM, E_TOOBIG: the connection is then done. */
int http1_respond(struct http1_conn *c, const struct http1_response *resp);

/* Answers by a stream: chunked for HTTP/1.1, until close for 1.0. resp->body is sent as the first piece. */
int http1_begin(struct http1_conn *c, const struct http1_response *resp);
/* Sends one piece (copied). Errors: E_AGAIN not writable, E_NOMEM. */
int http1_write(struct http1_conn *c, struct bytes piece);
bool http1_writable(struct http1_conn *c);
int http1_end(struct http1_conn *c);

/* "Not Found" of 404; "" for an unknown status. Static. */
const char *http1_status_text(int status);

#endif
