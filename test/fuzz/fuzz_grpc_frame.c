/* gRPC's message framing and text forms, without HTTP/2 around them.
 *
 * Framing is parsed whole and in steps, and both must give the same messages; a status text must survive
 * its encoding when it is valid UTF-8; inflating is bounded.
 *
 * Built with PLANT_OVERFLOW it holds a bug to be found. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/crc32c.h"
#include "grpc/grpc_int.h"
#include "test_heap.h"

enum { MESSAGE_BYTES_MAX = 1 << 20, INFLATED_BYTES_MAX = 1 << 16 };

struct digest {
    size_t messages;
    uint32_t crc;
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

static void digest_message(struct digest *d, uint8_t flag, struct bytes msg)
{
    planted(msg);
    d->messages++;
    d->crc = crc32c_update(d->crc, &flag, 1);
    if (msg.len > 0) d->crc = crc32c_update(d->crc, msg.data, msg.len);
}

static struct digest parse(struct grpc_pool *pool, const uint8_t *data, size_t size, size_t step)
{
    struct digest d = {0};
    struct grpc__in in = {0};
    for (size_t at = 0; at < size;) {
        size_t n = step < size - at ? step : size - at;
        struct bytes input = bytes_of(data + at, n);
        for (;;) {
            struct bytes msg = BYTES_EMPTY;
            enum grpc__in_event event = grpc__in_step(&in, pool, &input, &msg);
            if (event == GRPC__IN_MORE) break;
            if (event == GRPC__IN_MESSAGE) digest_message(&d, in.flag, msg);
            if (event == GRPC__IN_HEAD && in.need > MESSAGE_BYTES_MAX) goto out;
        }
        at += n;
    }
out:
    grpc__in_deinit(&in, pool);
    return d;
}

static void texts(struct grpc_pool *pool, struct bytes s)
{
    struct errmsg em;
    uint64_t ns;
    struct bytes suffix;
    struct buf wire, back;
    buf_init(&wire, grpc_pool_alloc(pool), SIZE_MAX / 2);
    buf_init(&back, grpc_pool_alloc(pool), SIZE_MAX / 2);
    (void)grpc__timeout_parse(s, &ns, &em);
    (void)grpc__content_type(s, &suffix);
    ASSERT(grpc__message_encode(&wire, s) == 0);
    ASSERT(grpc__message_plain(buf_bytes(&wire)) || memchr(wire.data, '%', wire.len) != NULL);
    ASSERT(grpc__message_decode(&back, buf_bytes(&wire)) == 0);
    if (grpc__message_plain(s)) ASSERT(bytes_eq(s, buf_bytes(&back)));
    buf_reset(&back);
    ASSERT(grpc__message_decode(&back, s) == 0);
    buf_deinit(&wire);
    buf_deinit(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct test_heap heap;
    test_heap_init(&heap);
    struct grpc_pool *pool = grpc_pool_new(&heap.alloc, 65536);
    struct digest whole = parse(pool, data, size, size == 0 ? 1 : size);
    static const size_t steps[] = {1, 3, 7};
    for (size_t i = 0; i < 3; i++) {
        struct digest d = parse(pool, data, size, steps[i]);
        ASSERT(d.messages == whole.messages);
        ASSERT(d.crc == whole.crc);
    }
    texts(pool, bytes_of(data, size));
    struct buf plain;
    buf_init(&plain, grpc_pool_alloc(pool), SIZE_MAX / 2);
    if (grpc__gunzip(pool, bytes_of(data, size), INFLATED_BYTES_MAX, &plain) == 0) {
        ASSERT(plain.len <= INFLATED_BYTES_MAX);
    }
    buf_deinit(&plain);
    grpc_pool_free(pool);
    ASSERT(heap.live_blocks == 0);
    return 0;
}
