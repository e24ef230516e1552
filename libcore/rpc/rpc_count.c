/* Counting of calls and messages, for /metrics.
 *
 * Each io thread counts for itself: a load and a store without any lock prefix, which whoever sums up may see a little
 * late. So a count costs a nanosecond and no cache line travels between threads. */
#include <string.h>

#include "base/assert.h"
#include "rpc/rpc_int.h"

typedef _Atomic uint64_t counter;

struct rpc__counter {
    counter received_bytes, sent_bytes;
    atomic_size_t version_count;
    struct {
        char version[RPC_VERSION_BYTES_MAX]; /* written before version_count says so */
        counter unary, stream;
    } version[RPC_VERSIONS_MAX];
    struct {
        counter started, received, sent, handled[RPC_CODES];
    } method[]; /* as rpc__methods */
};

static size_t counts_bytes(void)
{
    const struct rpc__counter *c = NULL;
    return sizeof *c + rpc__method_count * sizeof c->method[0];
}

static void add(counter *to, uint64_t n)
{
    uint64_t now = atomic_load_explicit(to, memory_order_relaxed);
    atomic_store_explicit(to, now + n, memory_order_relaxed);
}

static uint64_t get(const counter *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

static size_t index_of(const struct rpc_method *m)
{
    size_t i = (size_t)(m - rpc__methods);
    ASSERT(i < rpc__method_count);
    return i;
}

int rpc__counts_new(struct rpc_thread *t)
{
    t->counts = alloc_zero(t->alloc, counts_bytes());
    return t->counts == NULL ? E_NOMEM : 0;
}

void rpc__counts_free(struct rpc_thread *t)
{
    alloc_free(t->alloc, t->counts, counts_bytes());
}

/* The row of a version, made when there is room; the last one takes all others. */
static size_t version_row(struct rpc__counter *c, struct bytes version)
{
    if (version.len == 0) version = bytes_str("unknown");
    size_t used = atomic_load_explicit(&c->version_count, memory_order_relaxed);
    for (size_t i = 0; i < used; i++) {
        if (bytes_eq(version, bytes_str(c->version[i].version))) return i;
    }
    if (used == RPC_VERSIONS_MAX) return used - 1;
    bool fits = version.len < RPC_VERSION_BYTES_MAX && used < RPC_VERSIONS_MAX - 1;
    struct bytes name = fits ? version : bytes_str("other");
    memcpy(c->version[used].version, name.data, name.len);
    atomic_store_explicit(&c->version_count, used + 1, memory_order_release);
    return used;
}

void rpc__count_started(struct rpc_thread *t, const struct rpc_method *m, struct bytes version)
{
    size_t row = version_row(t->counts, version);
    bool unary = m->kind == GRPC_UNARY;
    add(&t->counts->method[index_of(m)].started, 1);
    add(unary ? &t->counts->version[row].unary : &t->counts->version[row].stream, 1);
}

void rpc__count_received(struct rpc_call *c, uint64_t bytes)
{
    add(&c->t->counts->method[index_of(c->method)].received, 1);
    add(&c->t->counts->received_bytes, bytes);
}

void rpc__count_sent(struct rpc_call *c, uint64_t bytes)
{
    add(&c->t->counts->method[index_of(c->method)].sent, 1);
    add(&c->t->counts->sent_bytes, bytes);
}

void rpc__count_handled(struct rpc_call *c, enum grpc_code code)
{
    ASSERT((unsigned)code < RPC_CODES);
    add(&c->t->counts->method[index_of(c->method)].handled[code], 1);
}

void rpc__pending_add(struct rpc_thread *t, int by)
{
    size_t now = atomic_load_explicit(&t->pending, memory_order_relaxed);
    ASSERT(by > 0 || now > 0);
    atomic_store(&t->pending, now + (size_t)by);
}

/* --- summing up -------------------------------------------------------------------------------- */

size_t rpc_method_count(void)
{
    return rpc__method_count;
}

struct rpc_method_name rpc_method_name(size_t method)
{
    ASSERT(method < rpc__method_count);
    const struct rpc_method *m = &rpc__methods[method];
    return (struct rpc_method_name){m->service, m->name, m->kind};
}

void rpc_thread_counts(const struct rpc_thread *t, size_t method, struct rpc_counts *sum)
{
    ASSERT(method < rpc__method_count);
    sum->started += get(&t->counts->method[method].started);
    sum->received += get(&t->counts->method[method].received);
    sum->sent += get(&t->counts->method[method].sent);
    for (size_t i = 0; i < RPC_CODES; i++)
        sum->handled[i] += get(&t->counts->method[method].handled[i]);
}

void rpc_thread_bytes(const struct rpc_thread *t, uint64_t *received, uint64_t *sent)
{
    *received += get(&t->counts->received_bytes);
    *sent += get(&t->counts->sent_bytes);
}

size_t rpc_thread_versions(const struct rpc_thread *t, struct rpc_version_counts sum[],
                           size_t count, size_t max)
{
    const struct rpc__counter *c = t->counts;
    size_t used = atomic_load_explicit(&c->version_count, memory_order_acquire);
    for (size_t i = 0; i < used; i++) {
        size_t at = 0;
        while (at < count && strcmp(sum[at].version, c->version[i].version) != 0)
            at++;
        if (at == max) continue;
        if (at == count) {
            sum[count] = (struct rpc_version_counts){.unary = 0};
            memcpy(sum[count++].version, c->version[i].version, RPC_VERSION_BYTES_MAX);
        }
        sum[at].unary += get(&c->version[i].unary);
        sum[at].stream += get(&c->version[i].stream);
    }
    return count;
}
