/* A client under test and short words for its calls. */
#ifndef TEST_UNIT_CLIENT_KIT_H
#define TEST_UNIT_CLIENT_KIT_H

#include "fake_server.h"

#define MS 1000000ULL

struct kit {
    struct client *c;
    struct buf answer;
    struct client_status st;
    const char *endpoints[4];
    struct client_opts opts;
};

/* Prepares a client of up to four endpoints; opts may be changed before kit_open(). */
__attribute__((unused)) static struct kit *kit_new(const char *a, const char *b, const char *c)
{
    struct kit *k = calloc(1, sizeof *k);
    k->endpoints[0] = a;
    k->endpoints[1] = b;
    k->endpoints[2] = c;
    while (k->opts.endpoint_count < 3 && k->endpoints[k->opts.endpoint_count] != NULL)
        k->opts.endpoint_count++;
    k->opts.endpoints = k->endpoints;
    k->opts.user_agent = "test";
    k->opts.alloc = &os_heap;
    buf_init(&k->answer, &os_heap, SIZE_MAX / 2);
    return k;
}

__attribute__((unused)) static void kit_open(struct kit *k)
{
    struct errmsg em = {""};
    if (client_new(&k->opts, &k->c, &em) < 0) fail_msg("%s", em.text);
}

__attribute__((unused)) static struct kit *kit_of(const char *endpoint)
{
    struct kit *k = kit_new(endpoint, NULL, NULL);
    kit_open(k);
    return k;
}

__attribute__((unused)) static void kit_free(struct kit *k)
{
    client_free(k->c);
    buf_deinit(&k->answer);
    free(k);
}

enum kit_retry { WRITE, READ };

__attribute__((unused)) static int kit_call(struct kit *k, const char *path, enum kit_retry retry,
                                            struct bytes body, uint64_t timeout_ns)
{
    struct client_request r = {
        .path = path, .body = body, .timeout_ns = timeout_ns, .read = retry == READ};
    buf_reset(&k->answer);
    return client_unary(k->c, &r, &k->answer, &k->st);
}

/* A call that must succeed and bring `text` back. */
__attribute__((unused)) static void kit_echo(struct kit *k, const char *text)
{
    int rc = kit_call(k, "/t.T/Echo", WRITE, bytes_str(text), 10000 * MS);
    if (rc < 0) fail_msg("%s: %s", err_text(rc), k->st.text);
    assert_true(bytes_eq(buf_bytes(&k->answer), bytes_str(text)));
}

#endif
