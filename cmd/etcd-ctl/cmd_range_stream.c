/* get --stream: the answer in chunks, joined before it is printed. */
#include <string.h>

#include "base/err.h"
#include "ctl.h"
#include "pb/pack.h"
#include "pb/unpack.h"

/* The chunks so far as one answer, whose pairs lie in the arena. */
struct joined {
    Etcdserverpb__RangeResponse *answer;
    size_t capacity;
    struct arena *arena;
};

static int reserve(struct joined *j, size_t more)
{
    size_t need = j->answer->n_kvs + more;
    if (need <= j->capacity) return 0;
    size_t capacity = need > 2 * j->capacity ? need : 2 * j->capacity;
    Mvccpb__KeyValue **kvs = arena_new(j->arena, capacity * sizeof *kvs);
    if (kvs == NULL) return E_NOMEM;
    if (j->answer->n_kvs > 0) memcpy(kvs, j->answer->kvs, j->answer->n_kvs * sizeof *kvs);
    j->answer->kvs = kvs;
    j->capacity = capacity;
    return 0;
}

/* Adds a chunk: pairs are appended, of all else the last word counts. */
static int join(struct joined *j, struct bytes message, struct errmsg *em)
{
    const struct pb_unpack_opts opts = {.bounds = &pb_bounds_own};
    ProtobufCMessage *m = NULL;
    int rc = pb_unpack_opts(&etcdserverpb__range_stream_response__descriptor, message, &opts,
                            j->arena, &m, em);
    if (rc < 0) return rc;
    const Etcdserverpb__RangeResponse *chunk =
        ((const Etcdserverpb__RangeStreamResponse *)(const void *)m)->range_response;
    if (chunk == NULL) return 0;
    rc = reserve(j, chunk->n_kvs);
    if (rc < 0) return rc;
    if (chunk->n_kvs > 0) {
        memcpy(j->answer->kvs + j->answer->n_kvs, chunk->kvs, chunk->n_kvs * sizeof *chunk->kvs);
    }
    j->answer->n_kvs += chunk->n_kvs;
    if (chunk->header != NULL) j->answer->header = chunk->header;
    if (chunk->more) j->answer->more = true;
    if (chunk->count != 0) j->answer->count = chunk->count;
    return 0;
}

static int read_all(struct client_stream *s, struct joined *j, struct client_status *st,
                    struct errmsg *em)
{
    struct buf message;
    buf_init(&message, j->arena->alloc, SIZE_MAX / 2);
    int rc = 0;
    do {
        rc = client_stream_next(s, 0, &message, st);
        if (rc > 0 && join(j, buf_bytes(&message), em) < 0) rc = E_PROTO;
    } while (rc > 0);
    buf_deinit(&message);
    return rc;
}

int ctl_range_stream(struct ctl *ctl, const Etcdserverpb__RangeRequest *request,
                     ProtobufCMessage **answer, struct errmsg *em)
{
    struct alloc alloc = arena_alloc(&ctl->arena);
    struct joined j = {.arena = &ctl->arena, .answer = arena_new(&ctl->arena, sizeof *j.answer)};
    struct client_status st = {GRPC_OK, ""};
    struct client_stream *s = NULL;
    struct buf body;
    buf_init(&body, &alloc, SIZE_MAX / 2);
    if (j.answer == NULL || pb_pack(&request->base, &body) < 0)
        return cli_fail(em, CLI_ERROR, "%s", err_text(E_NOMEM));
    if (ctl->globals.command_timeout_ns <= 0)
        return cli_fail(em, CLI_ERROR, "%s", err_text(E_DEADLINE_EXCEEDED));
    etcdserverpb__range_response__init(j.answer);
    struct client_request req = {.path = "/etcdserverpb.KV/RangeStream",
                                 .body = buf_bytes(&body),
                                 .timeout_ns = (uint64_t)ctl->globals.command_timeout_ns};
    int rc = client_stream_open(ctl->client, &req, true, &s, &st);
    if (rc == 0) rc = read_all(s, &j, &st, em);
    client_stream_close(s);
    *answer = &j.answer->base;
    if (rc == 0) return CLI_OK;
    if (st.code != GRPC_OK) {
        client_status_text(&st, em->text, sizeof em->text);
    } else if (em->text[0] == '\0') {
        errmsg_set(em, "%s", err_text(rc));
    }
    return CLI_ERROR;
}
