/* Bytes of DATA frames to messages.
 *
 * A message that comes whole within one chunk is given where it lies, without a copy. Else it is assembled in a
 * buffer that doubles with what has really arrived, so a client that announces much and sends
 * little costs little. */
#include "grpc/grpc_int.h"

#include "base/assert.h"
#include "base/endian.h"

enum { IN_CAP_MIN = 1024 };

void grpc__in_deinit(struct grpc__in *in, struct grpc_pool *pool)
{
    if (in->data != NULL) grpc_pool_put(pool, in->data, in->cap);
    in->data = NULL;
    in->cap = 0;
}

bool grpc__in_midway(const struct grpc__in *in)
{
    return !in->spent && in->prefix_len > 0;
}

static void in_restart(struct grpc__in *in, struct grpc_pool *pool)
{
    grpc__in_deinit(in, pool);
    *in = (struct grpc__in){0};
}

static void take(struct bytes *input, size_t n)
{
    input->data += n;
    input->len -= n;
}

/* Collects the prefix; true once it has become whole. */
static bool in_prefix(struct grpc__in *in, struct bytes *input)
{
    size_t n = GRPC_PREFIX_BYTES - in->prefix_len;
    if (n > input->len) n = input->len;
    if (n > 0) memcpy(in->prefix + in->prefix_len, input->data, n);
    take(input, n);
    in->prefix_len = (uint8_t)(in->prefix_len + n);
    if (in->prefix_len < GRPC_PREFIX_BYTES) return false;
    in->flag = in->prefix[0];
    in->need = endian_load_be32(in->prefix + 1);
    return true;
}

static int in_grow(struct grpc__in *in, struct grpc_pool *pool, uint32_t room)
{
    if (room <= in->cap) return 0;
    uint64_t cap = in->cap < IN_CAP_MIN ? IN_CAP_MIN : (uint64_t)in->cap * 2;
    if (cap < room) cap = room;
    if (cap > in->need) cap = in->need;
    const struct alloc *a = grpc_pool_alloc(pool);
    void *data = a->resize(a->arg, in->data, in->cap, (size_t)cap);
    if (data == NULL) return E_NOMEM;
    in->data = data;
    in->cap = (uint32_t)cap;
    return 0;
}

static enum grpc__in_event in_piece(struct grpc__in *in, struct bytes *input, struct bytes *out)
{
    uint32_t left = in->need - in->got;
    if (input->len == 0 && left > 0) return GRPC__IN_MORE;
    *out = bytes_of(input->data, input->len < left ? input->len : left);
    take(input, out->len);
    in->got += (uint32_t)out->len;
    in->spent = in->got == in->need;
    return GRPC__IN_PIECE;
}

static enum grpc__in_event in_body(struct grpc__in *in, struct grpc_pool *pool, struct bytes *input,
                                   struct bytes *out)
{
    uint32_t left = in->need - in->got;
    if (in->got == 0 && input->len >= left) { /* whole within this chunk */
        *out = bytes_of(input->data, left);
        take(input, left);
        in->spent = true;
        return GRPC__IN_MESSAGE;
    }
    uint32_t n = input->len < left ? (uint32_t)input->len : left;
    if (n == 0) return GRPC__IN_MORE;
    if (in_grow(in, pool, in->got + n) < 0) return GRPC__IN_NOMEM;
    memcpy(in->data + in->got, input->data, n);
    take(input, n);
    in->got += n;
    if (in->got < in->need) return GRPC__IN_MORE;
    *out = bytes_of(in->data, in->need);
    in->spent = true;
    return GRPC__IN_MESSAGE;
}

enum grpc__in_event grpc__in_step(struct grpc__in *in, struct grpc_pool *pool, struct bytes *input,
                                  struct bytes *out)
{
    if (in->spent) in_restart(in, pool);
    if (in->prefix_len < GRPC_PREFIX_BYTES) {
        return in_prefix(in, input) ? GRPC__IN_HEAD : GRPC__IN_MORE;
    }
    return in->pieces ? in_piece(in, input, out) : in_body(in, pool, input, out);
}
