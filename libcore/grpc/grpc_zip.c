/* gzip, the one compression of gRPC that etcd's clients use: whole messages, bounded output. */
#include "grpc/grpc_int.h"

#include <zlib.h>

#include "base/assert.h"

enum {
    ZIP_WBITS_GZIP = 15 + 16, /* zlib: the largest window, with gzip's head and tail */
    ZIP_MEM_LEVEL = 8,
    ZIP_STEP_BYTES = 16384
};

/* zlib frees without a size, as nghttp2 does. */
static voidpf zip_alloc(voidpf arg, uInt count, uInt size)
{
    nghttp2_mem mem = grpc__pool_mem(arg);
    return mem.calloc(count, size, arg);
}

static void zip_free(voidpf arg, voidpf block)
{
    nghttp2_mem mem = grpc__pool_mem(arg);
    mem.free(block, arg);
}

static z_stream zip_stream(struct grpc_pool *pool)
{
    return (z_stream){.zalloc = zip_alloc, .zfree = zip_free, .opaque = pool};
}

/* Points the stream at free space of `out`, up to `left` bytes. */
static int zip_room(z_stream *z, struct buf *out, size_t left)
{
    size_t n = left < ZIP_STEP_BYTES ? left : ZIP_STEP_BYTES;
    int rc = buf_reserve(out, n);
    if (rc < 0) return rc;
    z->next_out = out->data + out->len;
    z->avail_out = (uInt)n;
    return 0;
}

static int inflate_all(z_stream *z, size_t bytes_max, struct buf *out)
{
    for (;;) {
        /* One byte more than allowed is asked for, to tell "exactly" from "above". */
        int rc = zip_room(z, out, bytes_max + 1 - out->len);
        if (rc < 0) return rc;
        int zrc = inflate(z, Z_NO_FLUSH);
        out->len = (size_t)(z->next_out - out->data);
        if (out->len > bytes_max) return E_TOOBIG;
        if (zrc == Z_STREAM_END) {
            if (z->avail_in == 0) return 0;
            if (inflateReset(z) != Z_OK) return E_CORRUPT; /* a further gzip member follows */
        } else if (zrc == Z_MEM_ERROR) {
            return E_NOMEM;
        } else if (zrc != Z_OK) {
            return E_CORRUPT; /* also Z_BUF_ERROR: the input ended too early */
        }
    }
}

int grpc__gunzip(struct grpc_pool *pool, struct bytes in, size_t bytes_max, struct buf *out)
{
    ASSERT(in.len <= UINT32_MAX);
    ASSERT(out->len == 0);
    z_stream z = zip_stream(pool);
    if (inflateInit2(&z, ZIP_WBITS_GZIP) != Z_OK) return E_NOMEM;
    z.next_in = (Bytef *)(uintptr_t)in.data;
    z.avail_in = (uInt)in.len;
    int rc = inflate_all(&z, bytes_max, out);
    (void)inflateEnd(&z);
    return rc;
}

static int deflate_piece(z_stream *z, struct bytes piece, int flush, struct buf *out)
{
    z->next_in = (Bytef *)(uintptr_t)piece.data;
    z->avail_in = (uInt)piece.len;
    do {
        int rc = zip_room(z, out, ZIP_STEP_BYTES);
        if (rc < 0) return rc;
        (void)deflate(z, flush); /* cannot fail: there is room and the state is sound */
        out->len = (size_t)(z->next_out - out->data);
    } while (z->avail_out == 0);
    return 0;
}

int grpc__gzip(struct grpc_pool *pool, const struct grpc_part *parts, size_t count, struct buf *out)
{
    z_stream z = zip_stream(pool);
    int zrc = deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, ZIP_WBITS_GZIP, ZIP_MEM_LEVEL,
                           Z_DEFAULT_STRATEGY);
    if (zrc != Z_OK) return E_NOMEM;
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = deflate_piece(&z, parts[i].bytes, Z_NO_FLUSH, out);
    }
    if (rc == 0) rc = deflate_piece(&z, BYTES_EMPTY, Z_FINISH, out);
    (void)deflateEnd(&z);
    return rc;
}
