/* Requests: http-parser's callbacks, with bounds.
 *
 * A refused request is remembered as the HTTP status it deserves; the callback then stops the parser. The
 * parser is also stopped, by its pause, behind each whole request: what is pipelined waits until the
 * answer is complete. */
#include "http1/http1_int.h"

#include <strings.h>

#include "base/assert.h"

static int refuse(http_parser *p, int status)
{
    struct http1_conn *c = p->data;
    if (c->failed == 0) c->failed = status;
    return -1; /* 1 would mean "without a body" from on_headers_complete */
}

/* Appends to the head; the bounds of target and headers together are those of the buffer. */
static int head_put(http_parser *p, const char *at, size_t len)
{
    struct http1_conn *c = p->data;
    return buf_put(&c->head, at, len) == 0 ? 0 : refuse(p, 503);
}

static int header_put(http_parser *p, const char *at, size_t len)
{
    const struct http1_conn *c = p->data;
    size_t used = c->head.len - c->target_len;
    if (len > c->opts.header_bytes_max - used) return refuse(p, 431);
    return head_put(p, at, len);
}

static int on_message_begin(http_parser *p)
{
    http1__move(p->data, HTTP1__HEAD);
    return 0;
}

static int on_url(http_parser *p, const char *at, size_t len)
{
    struct http1_conn *c = p->data;
    if (len > c->opts.target_bytes_max - c->target_len) return refuse(p, 414);
    c->target_len += len;
    return head_put(p, at, len);
}

static int spans_grow(struct http1_conn *c)
{
    size_t cap = c->span_cap == 0 ? 16 : 2 * c->span_cap;
    if (cap > c->opts.header_count_max) cap = c->opts.header_count_max;
    const struct alloc *a = c->alloc;
    void *fields =
        a->resize(a->arg, c->fields, c->span_cap * sizeof *c->fields, cap * sizeof *c->fields);
    if (fields == NULL) return E_NOMEM;
    c->fields = fields;
    void *spans =
        a->resize(a->arg, c->spans, c->span_cap * sizeof *c->spans, cap * sizeof *c->spans);
    if (spans == NULL) {
        /* Both arrays have one size: without the second there is neither. */
        alloc_free(a, c->fields, cap * sizeof *c->fields);
        alloc_free(a, c->spans, c->span_cap * sizeof *c->spans);
        c->fields = NULL;
        c->spans = NULL;
        c->span_cap = 0;
        c->span_count = 0;
        return E_NOMEM;
    }
    c->spans = spans;
    c->span_cap = cap;
    return 0;
}

static int on_header_field(http_parser *p, const char *at, size_t len)
{
    struct http1_conn *c = p->data;
    if (c->in_trailer) return 0;
    if (c->span_count == 0 || c->in_value) {
        if (c->span_count == c->opts.header_count_max) return refuse(p, 431);
        if (c->span_count == c->span_cap && spans_grow(c) < 0) return refuse(p, 503);
        c->spans[c->span_count++] = (struct http1__span){.name_at = c->head.len};
        c->in_value = false;
    }
    c->spans[c->span_count - 1].name_len += len;
    return header_put(p, at, len);
}

static int on_header_value(http_parser *p, const char *at, size_t len)
{
    struct http1_conn *c = p->data;
    if (c->in_trailer) return 0;
    ASSERT(c->span_count > 0);
    struct http1__span *s = &c->spans[c->span_count - 1];
    if (!c->in_value) s->value_at = c->head.len;
    c->in_value = true;
    s->value_len += len;
    return header_put(p, at, len);
}

static struct bytes head_find(const struct http1_conn *c, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < c->span_count; i++) {
        const struct http1__span *s = &c->spans[i];
        const char *found = (const char *)c->head.data + s->name_at;
        if (s->name_len == len && strncasecmp(found, name, len) == 0) {
            return bytes_of(c->head.data + s->value_at, s->value_len);
        }
    }
    return BYTES_EMPTY;
}

static bool bytes_is_nocase(struct bytes s, const char *text)
{
    size_t len = strlen(text);
    return s.len == len && strncasecmp((const char *)s.data, text, len) == 0;
}

/* The client may wait for a word before it sends the body (RFC 9110, 10.1.1). */
static int expectation(http_parser *p)
{
    struct http1_conn *c = p->data;
    struct bytes expect = head_find(c, "expect");
    if (expect.data == NULL || p->http_minor == 0) return 0;
    if (!bytes_is_nocase(expect, "100-continue")) return refuse(p, 417);
    bool body = (p->flags & F_CHUNKED) != 0 ||
                (p->content_length > 0 && p->content_length != UINT64_MAX);
    if (body && buf_put_str(&c->out, "HTTP/1.1 100 Continue\r\n\r\n") < 0) return refuse(p, 503);
    return 0;
}

static int on_headers_complete(http_parser *p)
{
    struct http1_conn *c = p->data;
    if (p->http_major != 1) return refuse(p, 505);
    if (p->method == HTTP_CONNECT) return refuse(p, 400);
    if (p->http_minor > 0 && head_find(c, "host").data == NULL) return refuse(p, 400);
    if (p->content_length != UINT64_MAX && p->content_length > c->opts.body_bytes_max) {
        return refuse(p, 413);
    }
    p->upgrade = 0; /* a request like others; its handler may look at the header */
    http1__move(c, HTTP1__BODY);
    c->in_trailer = true;
    return expectation(p);
}

static int on_body(http_parser *p, const char *at, size_t len)
{
    struct http1_conn *c = p->data;
    int rc = buf_put(&c->body, at, len);
    if (rc == 0) return 0;
    return refuse(p, rc == E_NOMEM ? 503 : 413);
}

static int on_message_complete(http_parser *p)
{
    struct http1_conn *c = p->data;
    http1__move(c, HTTP1__ASKED);
    c->close = http_should_keep_alive(p) == 0;
    http_parser_pause(p, 1);
    return 0;
}

static const http_parser_settings SETTINGS = {
    .on_message_begin = on_message_begin,
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

void http1__parse_reset(struct http1_conn *c)
{
    http_parser_init(&c->parser, HTTP_REQUEST);
    c->parser.data = c;
    c->span_count = 0;
    c->target_len = 0;
    c->in_value = false;
    c->in_trailer = false;
    buf_reset(&c->head);
    buf_reset(&c->body);
}

size_t http1__parse(struct http1_conn *c, struct bytes input)
{
    size_t n = http_parser_execute(&c->parser, &SETTINGS, (const char *)input.data, input.len);
    enum http_errno rc = HTTP_PARSER_ERRNO(&c->parser);
    if (rc == HPE_PAUSED && c->state == HTTP1__ASKED) return n;
    if (c->failed == 0 && rc == HPE_HEADER_OVERFLOW) c->failed = 431;
    if (c->failed == 0 && rc != HPE_OK) c->failed = 400;
    return n;
}

void http1__request_build(struct http1_conn *c)
{
    const char *method = http_method_str((enum http_method)c->parser.method);
    struct bytes target = bytes_of(c->head.data, c->target_len);
    const uint8_t *mark = target.len == 0 ? NULL : memchr(target.data, '?', target.len);
    size_t path_len = mark == NULL ? target.len : (size_t)(mark - target.data);
    for (size_t i = 0; i < c->span_count; i++) {
        const struct http1__span *s = &c->spans[i];
        c->fields[i] = (struct http1_field){bytes_of(c->head.data + s->name_at, s->name_len),
                                            bytes_of(c->head.data + s->value_at, s->value_len)};
    }
    c->req = (struct http1_request){
        .method = bytes_str(method),
        .target = target,
        .path = bytes_of(target.data, path_len),
        .query = mark == NULL ? BYTES_EMPTY : bytes_of(mark + 1, target.len - path_len - 1),
        .fields = c->fields,
        .field_count = c->span_count,
        .body = buf_bytes(&c->body),
        .head = c->parser.method == HTTP_HEAD,
        .keep_alive = !c->close,
        .minor = c->parser.http_minor == 0 ? 0 : 1,
    };
}

struct bytes http1_request_get(const struct http1_request *req, const char *name)
{
    for (size_t i = 0; i < req->field_count; i++) {
        if (bytes_is_nocase(req->fields[i].name, name)) return req->fields[i].value;
    }
    return BYTES_EMPTY;
}
