/* What the load is made of: keys and the bytes of requests. */
#ifndef BENCH_REQUESTS_H
#define BENCH_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum request_op { OP_PUT, OP_GET, OP_RANGE, OP_TXN, OP_HTTP };

enum { KEY_BYTES_MAX = 64, VALUE_BYTES_MAX = 60000, TXN_PUTS_MAX = 64 };

struct requests {
    enum request_op op;
    bool serializable;
    bool shuffled;
    uint64_t key_space; /* keys are numbers below it */
    uint64_t key_bytes;
    uint64_t value_bytes;
    uint64_t range_keys; /* of OP_RANGE */
    uint64_t txn_puts;   /* of OP_TXN */
    const char *path;    /* of OP_HTTP */
    uint64_t stride;     /* of a shuffled order; requests_check() chooses it */
};

/* NULL, or what is wrong with it. */
const char *requests_check(struct requests *r);

/* The path of the method. */
const char *requests_path(const struct requests *r);

/* Bytes that any request has at most. */
size_t requests_bytes_max(const struct requests *r);

/* Writes the n-th request; returns its length. */
size_t requests_make(const struct requests *r, uint64_t n, uint8_t *out);

#endif
