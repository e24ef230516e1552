/* Bytes of a hostile client into an HTTP/1.x connection, whole and byte by byte.
 *
 * Both ways must show the handler the same requests (which of two faults is named may differ). Also the sniffer.
 *
 * Built with PLANT_OVERFLOW it holds a bug to be found. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/crc32c.h"
#include "http1/http1.h"
#include "http1/sniff.h"
#include "test_heap.h"

struct digest {
    size_t requests;
    uint32_t crc;
};

static void add(struct digest *d, struct bytes s)
{
    uint32_t len = (uint32_t)s.len;
    d->crc = crc32c_update(d->crc, &len, sizeof len);
    if (s.len > 0) d->crc = crc32c_update(d->crc, s.data, s.len);
}

#ifdef PLANT_OVERFLOW
/* The bug: a query is taken to be short. */
static void planted(struct bytes s)
{
    uint8_t room[8];
    if (s.len > 0) memcpy(room, s.data, s.len);
    ASSERT(s.len == 0 || room[0] == s.data[0]);
}
#else
static void planted(struct bytes s)
{
    (void)s;
}
#endif

static void on_request(void *arg, struct http1_conn *c, const struct http1_request *req)
{
    struct digest *d = arg;
    planted(req->query);
    d->requests++;
    add(d, req->method);
    add(d, req->target);
    add(d, req->path);
    add(d, req->query);
    add(d, req->body);
    for (size_t i = 0; i < req->field_count; i++) {
        add(d, req->fields[i].name);
        add(d, req->fields[i].value);
    }
    const struct http1_response r = {.status = 200, .body = req->target};
    if (req->target.len % 2 == 0) {
        (void)http1_respond(c, &r);
    } else if (http1_begin(c, &r) == 0) {
        (void)http1_write(c, req->body);
        (void)http1_end(c);
    }
}

static struct digest converse(const struct alloc *a, const uint8_t *data, size_t size, size_t step)
{
    struct digest d = {0};
    const struct http1_handler handler = {.arg = &d, .on_request = on_request};
    struct http1_opts opts = http1_opts_default();
    opts.body_bytes_max = 1000;
    opts.header_count_max = 20;
    struct http1_conn *c = http1_conn_new(a, &opts, &handler, 1);
    for (size_t at = 0; at < size;) {
        size_t n = step < size - at ? step : size - at;
        if (http1_conn_feed(c, data + at, n, 1) < 0) break;
        http1_conn_sent(c, http1_conn_out(c).len);
        at += n;
    }
    http1_conn_free(c);
    return d;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct test_heap heap;
    test_heap_init(&heap);
    if (size == 0) return 0;
    struct digest whole = converse(&heap.alloc, data, size, size);
    struct digest bytes = converse(&heap.alloc, data, size, 1);
    ASSERT(whole.requests == bytes.requests);
    ASSERT(whole.crc == bytes.crc);
    enum sniff sure = SNIFF_MORE;
    for (size_t n = 0; n <= size && n <= SNIFF_BYTES_MAX; n++) {
        enum sniff now = sniff_bytes(bytes_of(data, n));
        ASSERT(sure == SNIFF_MORE || now == sure); /* once told, never untold */
        sure = now;
    }
    ASSERT(heap.live_blocks == 0);
    return 0;
}
