/* Answers: status line, headers, and a body in one piece or in chunks. */
#include "http1/http1_int.h"

#include <stdio.h>

#include "base/assert.h"

static const struct status {
    int number;
    const char *text;
} STATUSES[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Request Entity Too Large"},
    {414, "Request URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

const char *http1_status_text(int status)
{
    for (size_t i = 0; i < sizeof STATUSES / sizeof *STATUSES; i++) {
        if (STATUSES[i].number == status) return STATUSES[i].text;
    }
    return "";
}

/* A value can hold something of the client's; a line end in it would forge a header. */
static int put_value(struct buf *b, struct bytes value)
{
    int rc = buf_put_bytes(b, value);
    if (rc < 0) return rc;
    for (size_t i = b->len - value.len; i < b->len; i++) {
        if (b->data[i] == '\r' || b->data[i] == '\n' || b->data[i] == 0) b->data[i] = ' ';
    }
    return 0;
}

static int put_field(struct buf *b, struct bytes name, struct bytes value)
{
    int rc = buf_put_bytes(b, name);
    if (rc == 0) rc = buf_put_str(b, ": ");
    if (rc == 0) rc = put_value(b, value);
    return rc < 0 ? rc : buf_put_str(b, "\r\n");
}

static bool status_bodyless(int status)
{
    return status < 200 || status == 204 || status == 304;
}

/* Status line and the fields of the answer, without what frames the body. */
static int put_head(struct http1_conn *c, const struct http1_response *r)
{
    int rc = buf_printf(&c->out, "HTTP/1.1 %03d %s\r\n", r->status, http1_status_text(r->status));
    for (size_t i = 0; i < r->field_count && rc == 0; i++) {
        rc = put_field(&c->out, r->fields[i].name, r->fields[i].value);
    }
    if (rc == 0 && r->date != NULL) {
        rc = put_field(&c->out, bytes_str("Date"), bytes_str(r->date));
    }
    if (rc == 0 && c->close && c->req.minor > 0) rc = buf_put_str(&c->out, "Connection: close\r\n");
    if (rc == 0 && !c->close && c->req.minor == 0) {
        rc = buf_put_str(&c->out, "Connection: keep-alive\r\n");
    }
    return rc;
}

/* An answer that could not be made whole is taken back, and the connection ends. */
static int give_up(struct http1_conn *c, size_t out_len, int rc)
{
    c->out.len = out_len;
    http1__move(c, HTTP1__OVER);
    return rc;
}

static void answer_start(struct http1_conn *c, const struct http1_response *r)
{
    ASSERT(c->state == HTTP1__ASKED);
    ASSERT(r->status >= 100 && r->status <= 599);
    if (r->close || c->draining) c->close = true;
    c->bodyless = c->req.head || status_bodyless(r->status);
}

int http1_respond(struct http1_conn *c, const struct http1_response *r)
{
    size_t before = c->out.len;
    answer_start(c, r);
    int rc = put_head(c, r);
    if (rc == 0 && !status_bodyless(r->status)) {
        rc = buf_printf(&c->out, "Content-Length: %zu\r\n", r->body.len);
    }
    if (rc == 0) rc = buf_put_str(&c->out, "\r\n");
    if (rc == 0 && !c->bodyless) rc = buf_put_bytes(&c->out, r->body);
    if (rc < 0) return give_up(c, before, rc);
    http1__answered(c);
    return 0;
}

/* One piece of a stream; an empty one would end it and is left out. */
static int put_piece(struct http1_conn *c, struct bytes piece)
{
    if (piece.len == 0 || c->bodyless) return 0;
    size_t before = c->out.len;
    int rc = c->chunked ? buf_printf(&c->out, "%zx\r\n", piece.len) : 0;
    if (rc == 0) rc = buf_put_bytes(&c->out, piece);
    if (rc == 0 && c->chunked) rc = buf_put_str(&c->out, "\r\n");
    if (rc < 0) c->out.len = before;
    return rc;
}

int http1_begin(struct http1_conn *c, const struct http1_response *r)
{
    size_t before = c->out.len;
    answer_start(c, r);
    c->chunked = c->req.minor > 0 && !status_bodyless(r->status);
    if (c->req.minor == 0) c->close = true; /* only the end of the connection ends such a body */
    int rc = put_head(c, r);
    if (rc == 0 && c->chunked) rc = buf_put_str(&c->out, "Transfer-Encoding: chunked\r\n");
    if (rc == 0) rc = buf_put_str(&c->out, "\r\n");
    if (rc == 0) rc = put_piece(c, r->body);
    if (rc < 0) return give_up(c, before, rc);
    http1__move(c, HTTP1__STREAMING);
    return 0;
}

bool http1_writable(struct http1_conn *c)
{
    bool room = c->out.len - c->out_sent <= c->opts.queue_bytes;
    c->unwritable = !room;
    return room;
}

int http1_write(struct http1_conn *c, struct bytes piece)
{
    ASSERT(c->state == HTTP1__STREAMING);
    if (!http1_writable(c)) return E_AGAIN;
    return put_piece(c, piece);
}

int http1_end(struct http1_conn *c)
{
    ASSERT(c->state == HTTP1__STREAMING);
    int rc = c->chunked && !c->bodyless ? buf_put_str(&c->out, "0\r\n\r\n") : 0;
    if (rc < 0) return give_up(c, c->out.len, rc);
    http1__answered(c);
    return 0;
}

/* In the form that Go's server gives to what it does not understand. */
void http1__refuse(struct http1_conn *c, int status)
{
    const char *text = http1_status_text(status);
    size_t before = c->out.len;
    int rc = buf_printf(&c->out,
                        "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                        "Connection: close\r\n\r\n%d %s",
                        status, text, status, text);
    if (rc < 0) c->out.len = before;
    http1__move(c, HTTP1__OVER);
}
