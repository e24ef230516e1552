/* A shuffled order visits number n * stride modulo the key space, where the stride has no divisor in common with it and is
 * near the golden section of it, so that neighbours in time are far apart in the order of keys. */
#include "lib/requests.h"

#include <stdio.h>
#include <string.h>

#include "pb/wire.h"

/* Fields of RangeRequest, PutRequest, TxnRequest and RequestOp. */
enum {
    RANGE_KEY = 1,
    RANGE_END = 2,
    RANGE_SERIALIZABLE = 7,
    PUT_KEY = 1,
    PUT_VALUE = 2,
    TXN_SUCCESS = 2,
    OP_REQUEST_PUT = 2
};

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

const char *requests_check(struct requests *r)
{
    if (r->key_space == 0 || r->key_space > UINT32_MAX) return "--keys must be 1 to 4294967295";
    if (r->key_bytes == 0 || r->key_bytes > KEY_BYTES_MAX) return "--key-bytes must be 1 to 64";
    if (r->value_bytes > VALUE_BYTES_MAX) return "--value-bytes must be at most 60000";
    if (r->txn_puts == 0 || r->txn_puts > TXN_PUTS_MAX) return "--txn-puts must be 1 to 64";
    uint64_t limit = 1;
    for (uint64_t i = 0; i < r->key_bytes && limit <= UINT32_MAX; i++)
        limit *= 10;
    if (limit < r->key_space) return "--keys does not fit into --key-bytes digits";
    r->stride = (uint64_t)((double)r->key_space * 0.6180339887) | 1;
    while (common_divisor(r->stride, r->key_space) != 1)
        r->stride += 2;
    return NULL;
}

const char *requests_path(const struct requests *r)
{
    switch (r->op) {
    case OP_PUT: return "/etcdserverpb.KV/Put";
    case OP_GET:
    case OP_RANGE: return "/etcdserverpb.KV/Range";
    case OP_TXN: return "/etcdserverpb.KV/Txn";
    case OP_HTTP: return r->path;
    }
    return NULL;
}

static uint64_t number_of(const struct requests *r, uint64_t n)
{
    uint64_t k = n % r->key_space;
    return r->shuffled ? k * r->stride % r->key_space : k;
}

/* The number in decimal, with zeros in front. */
static struct bytes key_of(const struct requests *r, uint64_t number, uint8_t *room)
{
    for (uint64_t i = r->key_bytes; i-- > 0; number /= 10)
        room[i] = (uint8_t)('0' + number % 10);
    return bytes_of(room, r->key_bytes);
}

/* Starts with the request's number, so that no two values are the same. */
static struct bytes value_of(const struct requests *r, uint64_t n, uint8_t *room)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%020llu.", (unsigned long long)n);
    memset(room, 'v', r->value_bytes);
    memcpy(room, text, r->value_bytes < (uint64_t)len ? r->value_bytes : (size_t)len);
    return bytes_of(room, r->value_bytes);
}

static uint8_t *put_request(const struct requests *r, uint64_t number, uint64_t n, uint8_t *at)
{
    uint8_t key[KEY_BYTES_MAX];
    uint8_t value[VALUE_BYTES_MAX];
    at = pb_write_bytes(at, PUT_KEY, key_of(r, number, key));
    return pb_write_bytes(at, PUT_VALUE, value_of(r, n, value));
}

static size_t put_size(const struct requests *r)
{
    return pb_len_size(PUT_KEY, r->key_bytes) + pb_len_size(PUT_VALUE, r->value_bytes);
}

static uint8_t *range_request(const struct requests *r, uint64_t n, uint8_t *at)
{
    uint8_t key[KEY_BYTES_MAX];
    uint64_t first = number_of(r, n);
    if (r->op == OP_RANGE) {
        uint64_t last = r->key_space > r->range_keys ? r->key_space - r->range_keys : 0;
        if (first > last) first = last;
    }
    at = pb_write_bytes(at, RANGE_KEY, key_of(r, first, key));
    if (r->op == OP_RANGE) {
        at = pb_write_bytes(at, RANGE_END, key_of(r, first + r->range_keys, key));
    }
    return r->serializable ? pb_write_uint(at, RANGE_SERIALIZABLE, 1) : at;
}

static uint8_t *txn_request(const struct requests *r, uint64_t n, uint8_t *at)
{
    size_t len = put_size(r);
    for (uint64_t i = 0; i < r->txn_puts; i++) {
        at = pb_write_len(at, TXN_SUCCESS, pb_len_size(OP_REQUEST_PUT, len));
        at = pb_write_len(at, OP_REQUEST_PUT, len);
        at = put_request(r, number_of(r, n * r->txn_puts + i), n, at);
    }
    return at;
}

size_t requests_bytes_max(const struct requests *r)
{
    size_t one = r->key_bytes * 2 + r->value_bytes + 64;
    return r->op == OP_TXN ? one * r->txn_puts : one;
}

size_t requests_make(const struct requests *r, uint64_t n, uint8_t *out)
{
    switch (r->op) {
    case OP_PUT: return (size_t)(put_request(r, number_of(r, n), n, out) - out);
    case OP_GET:
    case OP_RANGE: return (size_t)(range_request(r, n, out) - out);
    case OP_TXN: return (size_t)(txn_request(r, n, out) - out);
    case OP_HTTP: return 0;
    }
    return 0;
}
