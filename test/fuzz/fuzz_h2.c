/* Bytes of a hostile client into the server's side of a connection.
 *
 * The first byte says how: bit 0: a good preface and SETTINGS come first, bit 1: byte by byte, bit 2: time passes,
 * bit 3: answers are pulled only at the end. Nothing may crash, leak, or leave a call told twice.
 *
 * Built with PLANT_OVERFLOW it holds a bug to be found. */
#include <stdlib.h>

#include "base/assert.h"
#include "grpc/grpc.h"
#include "test_heap.h"

struct open_calls {
    int count;
};

#ifdef PLANT_OVERFLOW
/* The bug: a message is taken to be short. */
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

static enum grpc_kind on_call(void *arg, struct grpc_call *call, const struct grpc_head *head)
{
    struct open_calls *o = arg;
    uint8_t pick = head->method.len == 0 ? 0 : head->method.data[0];
    if (pick == 'R') {
        grpc_call_finish_unknown(call, head, (head->path.len & 1) != 0);
        return GRPC_UNARY;
    }
    o->count++;
    return (enum grpc_kind)(pick % 4);
}

static void on_message(void *arg, struct grpc_call *call, void *data, struct bytes msg)
{
    struct open_calls *o = arg;
    planted(msg);
    if (msg.len > 0 && msg.data[0] == 'h') return; /* never answered */
    int rc = grpc_call_send(call, msg);
    if (rc == 0 && msg.len > 0 && msg.data[0] == 'm') return;
    o->count--;
    grpc_call_finish_err(call, rc);
}

static void on_half_close(void *arg, struct grpc_call *call, void *data)
{
    struct open_calls *o = arg;
    o->count--;
    grpc_call_finish(call, GRPC_OK, BYTES_EMPTY);
}

static void on_cancel(void *arg, struct grpc_call *call, void *data, enum grpc_cancel why)
{
    struct open_calls *o = arg;
    o->count--;
}

static void drain_out(struct grpc_conn *c, uint64_t now_ns)
{
    static uint8_t out[GRPC_PULL_BYTES];
    while (grpc_conn_pull(c, out, sizeof out, now_ns) > 0) {}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    struct open_calls open = {0};
    const struct grpc_handler handler = {.arg = &open,
                                         .on_call = on_call,
                                         .on_message = on_message,
                                         .on_half_close = on_half_close,
                                         .on_cancel = on_cancel};
    if (size == 0) return 0;
    uint8_t how = data[0];
    uint64_t now_ns = 1;
    struct test_heap heap;
    test_heap_init(&heap);
    struct grpc_conn_opts opts = grpc_conn_opts_default();
    opts.pool = grpc_pool_new(&heap.alloc, 0);
    opts.assembly_bytes_max = 4096;
    struct grpc_conn *c = grpc_conn_new(&opts, &handler, now_ns);
    if ((how & 1) != 0) (void)grpc_conn_feed(c, (const uint8_t *)hello, sizeof hello - 1, now_ns);
    size_t step = (how & 2) != 0 ? 1 : size;
    for (size_t at = 1; at < size;) {
        size_t n = step < size - at ? step : size - at;
        if (grpc_conn_feed(c, data + at, n, now_ns) < 0) break;
        if ((how & 4) != 0) now_ns += 100000000;
        (void)grpc_conn_tick(c, now_ns);
        if ((how & 8) == 0) drain_out(c, now_ns);
        at += n;
    }
    drain_out(c, now_ns);
    grpc_conn_free(c);
    ASSERT(open.count == 0);
    grpc_pool_free(opts.pool);
    ASSERT(heap.live_blocks == 0);
    return 0;
}
