/* Requests built in an arena, as pb_unpack() would give them. */
#ifndef TEST_UNIT_APPLY_BUILD_H
#define TEST_UNIT_APPLY_BUILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/prng.h"
#include "etcdserverpb.pb-c.h"

typedef Etcdserverpb__TxnRequest txn_request;
typedef Etcdserverpb__RequestOp request_op;
typedef Etcdserverpb__Compare compare_request;

#define OP_CASE(x) ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_##x

static inline ProtobufCBinaryData bin(struct arena *a, const char *text)
{
    struct bytes s = arena_copy(a, bytes_str(text));
    assert_non_null(s.data);
    union {
        const uint8_t *shown;
        uint8_t *own;
    } u = {.shown = s.data};
    return (ProtobufCBinaryData){.len = s.len, .data = u.own};
}

/* Also a range_end: "0" stands for one zero byte. */
static inline ProtobufCBinaryData bin_end(struct arena *a, const char *text)
{
    ProtobufCBinaryData b = bin(a, text);
    if (strcmp(text, "0") == 0) b.data[0] = 0;
    return b;
}

static inline Etcdserverpb__PutRequest *put_of(struct arena *a, const char *key, const char *value)
{
    Etcdserverpb__PutRequest *p = arena_new(a, sizeof *p);
    *p = (Etcdserverpb__PutRequest)ETCDSERVERPB__PUT_REQUEST__INIT;
    p->key = bin(a, key);
    p->value = bin(a, value);
    return p;
}

static inline Etcdserverpb__DeleteRangeRequest *delete_of(struct arena *a, const char *key,
                                                          const char *end)
{
    Etcdserverpb__DeleteRangeRequest *d = arena_new(a, sizeof *d);
    *d = (Etcdserverpb__DeleteRangeRequest)ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
    d->key = bin(a, key);
    d->range_end = bin_end(a, end);
    return d;
}

static inline Etcdserverpb__RangeRequest *range_of(struct arena *a, const char *key,
                                                   const char *end)
{
    Etcdserverpb__RangeRequest *r = arena_new(a, sizeof *r);
    *r = (Etcdserverpb__RangeRequest)ETCDSERVERPB__RANGE_REQUEST__INIT;
    r->key = bin(a, key);
    r->range_end = bin_end(a, end);
    return r;
}

static inline txn_request *txn_new(struct arena *a)
{
    txn_request *t = arena_new(a, sizeof *t);
    *t = (txn_request)ETCDSERVERPB__TXN_REQUEST__INIT;
    return t;
}

static inline request_op *op_new(struct arena *a)
{
    request_op *op = arena_new(a, sizeof *op);
    *op = (request_op)ETCDSERVERPB__REQUEST_OP__INIT;
    return op;
}

static inline request_op *op_put(struct arena *a, Etcdserverpb__PutRequest *p)
{
    request_op *op = op_new(a);
    op->request_case = OP_CASE(PUT);
    op->request_put = p;
    return op;
}

static inline request_op *op_delete(struct arena *a, Etcdserverpb__DeleteRangeRequest *d)
{
    request_op *op = op_new(a);
    op->request_case = OP_CASE(DELETE_RANGE);
    op->request_delete_range = d;
    return op;
}

static inline request_op *op_range(struct arena *a, Etcdserverpb__RangeRequest *r)
{
    request_op *op = op_new(a);
    op->request_case = OP_CASE(RANGE);
    op->request_range = r;
    return op;
}

static inline request_op *op_txn(struct arena *a, txn_request *t)
{
    request_op *op = op_new(a);
    op->request_case = OP_CASE(TXN);
    op->request_txn = t;
    return op;
}

/* Appends to a list of pointers in the arena. */
static inline void *list_add(struct arena *a, const void *list, size_t n, size_t one, void *item)
{
    char *next = arena_new(a, (n + 1) * one);
    assert_non_null(next);
    if (n > 0) memcpy(next, list, n * one);
    memcpy(next + n * one, &item, one);
    return next;
}

static inline void txn_success(struct arena *a, txn_request *t, request_op *op)
{
    t->success = list_add(a, t->success, t->n_success, sizeof op, op);
    t->n_success++;
}

static inline void txn_failure(struct arena *a, txn_request *t, request_op *op)
{
    t->failure = list_add(a, t->failure, t->n_failure, sizeof op, op);
    t->n_failure++;
}

static inline void txn_compare(struct arena *a, txn_request *t, compare_request *c)
{
    t->compare = list_add(a, t->compare, t->n_compare, sizeof c, c);
    t->n_compare++;
}

static inline compare_request *compare_new(struct arena *a, const char *key, const char *end)
{
    compare_request *c = arena_new(a, sizeof *c);
    *c = (compare_request)ETCDSERVERPB__COMPARE__INIT;
    c->key = bin(a, key);
    c->range_end = bin_end(a, end);
    return c;
}

#endif
