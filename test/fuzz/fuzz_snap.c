/* The reader of .snap files on any bytes: refused, or read and made anew to a file that reads the same.
 *
 * First byte: bit 0: the rest is the inner message and gets a right crc here; bit 1: the rest is text for the v2 store's
 * JSON instead. Built with PLANT_OVERFLOW it holds a bug to be found. */
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/err.h"
#include "os/heap.h"
#include "pb/raftpb.h"
#include "snap/snap.h"
#include "snap/snap_v2.h"
#include "wal/wal_conf.h"

enum { WITH_CRC = 1, AS_JSON = 2, BYTES_MAX = 1 << 26 };

#ifdef PLANT_OVERFLOW
/* The bug: a conf state is taken to be short. */
static void planted(const struct snap *s)
{
    uint8_t conf[8];
    if (s->conf.len > 0) memcpy(conf, s->conf.data, s->conf.len);
    ASSERT(s->conf.len == 0 || conf[0] == s->conf.data[0]);
}
#else
static void planted(const struct snap *s)
{
    (void)s;
}
#endif

static void check_again(const struct snap *s)
{
    struct arena arena;
    struct buf file;
    struct pb_conf_state cs;
    struct raft_conf_state conf;
    struct snap again;
    struct errmsg em;
    arena_init(&arena, &os_heap, BYTES_MAX);
    buf_init(&file, &os_heap, BYTES_MAX);
    planted(s);
    bool known = pb_conf_state_decode(s->conf, &arena, &cs) == 0 && wal_conf_from(&cs, &conf) == 0;
    if (known) {
        struct snap_content c = {s->index, s->term, &conf, false, s->data};
        int rc = snap_encode(&c, &file);
        ASSERT(rc == 0);
        rc = snap_decode(buf_bytes(&file), &again, &em);
        ASSERT(rc == 0 || rc == E_SNAP_EMPTY); /* one crc in 2^32 is 0 */
        if (rc == 0) {
            ASSERT(again.index == s->index);
            ASSERT(again.term == s->term);
            ASSERT(bytes_eq(again.data, s->data));
        }
    }
    buf_deinit(&file);
    arena_deinit(&arena);
}

static void check_file(struct bytes in, bool with_crc)
{
    struct buf file;
    struct snap s = SNAP_EMPTY;
    struct errmsg em;
    buf_init(&file, &os_heap, BYTES_MAX);
    struct pb_snap_file f = {crc32c(in), in};
    int rc = with_crc ? pb_snap_file_put(&f, &file) : buf_put_bytes(&file, in);
    ASSERT(rc == 0);
    if (snap_decode(buf_bytes(&file), &s, &em) == 0) check_again(&s);
    buf_deinit(&file);
}

/* The input is cut into three texts. */
static void check_json(struct bytes in)
{
    struct bytes url[3];
    struct buf out;
    size_t third = in.len / 3;
    for (size_t i = 0; i < 3; i++)
        url[i] = bytes_of(in.data + i * third, third);
    struct member m = {.id = in.len,
                       .name = url[2],
                       .peer_urls = url,
                       .peer_url_count = in.len % 3,
                       .client_urls = url + 1,
                       .client_url_count = in.len % 2,
                       .is_learner = in.len % 5 == 0};
    uint64_t removed[] = {1, 2};
    struct snap_v2_store s = {&m, in.len % 2, removed, in.len % 3, url[0]};
    buf_init(&out, &os_heap, BYTES_MAX);
    int rc = snap_v2_encode(&s, &out);
    ASSERT(rc == 0);
    for (size_t i = 0; i < out.len; i++)
        ASSERT(out.data[i] >= 0x20);
    buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0) return 0;
    struct bytes in = bytes_of(data + 1, len - 1);
    if ((data[0] & AS_JSON) != 0)
        check_json(in);
    else
        check_file(in, (data[0] & WITH_CRC) != 0);
    return 0;
}
