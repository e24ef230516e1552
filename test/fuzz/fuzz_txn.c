/* The grammar of etcd-ctl's txn: any lines are refused with words, or make a request that packs, unpacks and still says
 * the same; and a key that was read can be quoted and read again.
 *
 * Built with PLANT_OVERFLOW it holds a bug to be found. */
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "cli/txn.h"
#include "os/heap.h"
#include "pb/pack.h"
#include "pb/unpack.h"

enum { BYTES_MAX = 1 << 28 };

#ifdef PLANT_OVERFLOW
/* The bug: a key is taken to be short. */
static void planted(struct bytes key)
{
    uint8_t name[8];
    if (key.len > 0) memcpy(name, key.data, key.len);
    ASSERT(key.len == 0 || name[0] == key.data[0]);
}
#else
static void planted(struct bytes key)
{
    (void)key;
}
#endif

/* What was read, quoted, reads the same. */
static void check_quoting(struct bytes key, struct arena *arena)
{
    struct buf quoted;
    struct bytes again;
    planted(key);
    buf_init(&quoted, &os_heap, BYTES_MAX);
    int rc = text_put_quoted(&quoted, key);
    ASSERT(rc == 0);
    struct bytes text = buf_bytes(&quoted);
    rc = cli_unquote(&text, arena, &again);
    ASSERT(rc == 0);
    ASSERT(text.len == 0);
    ASSERT(bytes_eq(key, again));
    buf_deinit(&quoted);
}

static void check_request(const Etcdserverpb__TxnRequest *r, struct arena *arena)
{
    struct buf packed;
    ProtobufCMessage *m = NULL;
    const struct pb_unpack_opts opts = {.bounds = &pb_bounds_own};
    buf_init(&packed, &os_heap, BYTES_MAX);
    int rc = pb_pack(&r->base, &packed);
    ASSERT(rc == 0);
    rc = pb_unpack_opts(r->base.descriptor, buf_bytes(&packed), &opts, arena, &m, NULL);
    ASSERT(rc == 0);
    const Etcdserverpb__TxnRequest *again = (const Etcdserverpb__TxnRequest *)(const void *)m;
    ASSERT(again->n_compare == r->n_compare);
    ASSERT(again->n_success == r->n_success);
    ASSERT(again->n_failure == r->n_failure);
    for (size_t i = 0; i < r->n_compare; i++) {
        struct bytes key = bytes_of(r->compare[i]->key.data, r->compare[i]->key.len);
        ASSERT(bytes_eq(key, bytes_of(again->compare[i]->key.data, again->compare[i]->key.len)));
        check_quoting(key, arena);
    }
    buf_deinit(&packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct cli_txn t;
    struct errmsg em = {""};
    int status = CLI_OK;
    arena_init(&arena, &os_heap, BYTES_MAX);
    cli_txn_init(&t, &arena);
    while (size > 0 && status == CLI_OK && t.part != CLI_TXN_DONE) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t n = end == NULL ? size : (size_t)(end - data) + 1;
        status = cli_txn_line(&t, bytes_of(data, n), &em);
        data += n;
        size -= n;
    }
    ASSERT(status == CLI_OK || em.text[0] != '\0');
    check_request(&t.request, &arena);
    arena_deinit(&arena);
    return 0;
}
