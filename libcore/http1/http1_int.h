/* Inside of http1: the connection, shared by its parsing (http1_parse.c) and answering (http1_answer.c). */
#ifndef HTTP1_HTTP1_INT_H
#define HTTP1_HTTP1_INT_H

#include <http_parser.h>

#include "base/buf.h"
#include "base/err.h"
#include "http1/http1.h"

/* Unparsed bytes behind a request that is being answered; above it the socket is not read. */
#define HTTP1_BACKLOG_BYTES 65536
/* What a reader that does not look at http1_conn_want_read() may pile up at most. */
#define HTTP1_BACKLOG_BYTES_MAX (1024 * 1024)
/* Of one answer: a guard against our own mistakes, not a limit of clients. */
#define HTTP1_OUT_BYTES_MAX (1024 * 1024 * 1024)

/* A connection's state; the moves are in http1__move(). */
enum http1__state {
    HTTP1__IDLE,      /* between requests */
    HTTP1__HEAD,      /* some of a request line or header has come */
    HTTP1__BODY,      /* headers are whole */
    HTTP1__ASKED,     /* the handler has the request */
    HTTP1__STREAMING, /* the handler has begun a stream */
    HTTP1__OVER       /* no further request: what is left is sent, then the socket closed */
};

struct http1__span {
    size_t name_at, name_len;
    size_t value_at, value_len;
};

struct http1_conn {
    const struct alloc *alloc;
    struct http1_opts opts;
    const struct http1_handler *handler;
    http_parser parser;
    uint8_t state; /* enum http1__state */
    bool feeding;  /* inside the loop that parses */
    bool draining;
    bool eof;
    bool in_value;   /* the parser gave part of a header's value last */
    bool in_trailer; /* headers behind a chunked body are dropped */
    bool chunked;    /* of the stream being answered */
    bool bodyless;   /* the answer must not have a body */
    bool close;      /* after this answer */
    bool unwritable;
    int failed; /* the HTTP status that refuses the request being parsed; 0: none */
    uint64_t now_ns;
    uint64_t state_ns; /* when IDLE, HEAD or BODY began */

    struct buf head; /* target, names and values, one after the other */
    size_t target_len;
    struct http1__span *spans;
    size_t span_count;
    size_t span_cap;
    struct buf body;
    struct http1_field *fields; /* of req, span_cap of them */
    struct http1_request req;

    struct buf backlog;
    struct buf out;
    size_t out_sent;
};

/* The one setter of the state. */
void http1__move(struct http1_conn *c, enum http1__state to);

/* Parses `input`; returns how much was used: all of it unless a request is whole, or refused (c->failed). */
size_t http1__parse(struct http1_conn *c, struct bytes input);
/* Makes the parser ready for the next request. */
void http1__parse_reset(struct http1_conn *c);
/* Builds c->req from what was parsed. */
void http1__request_build(struct http1_conn *c);

/* Refuses the request in words of ours and ends the connection. */
void http1__refuse(struct http1_conn *c, int status);
/* The answer is complete: the next request, or the end. */
void http1__answered(struct http1_conn *c);
/* Parses what was set aside. */
void http1__go_on(struct http1_conn *c);

#endif
