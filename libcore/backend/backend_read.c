/* The pool of read transactions.
 *
 * Making one takes LMDB's reader lock, memory and, the first time, a system call. So each is reset when it ends,
 * which keeps its slot in the reader table without holding any state, and renewed when it is next used: two
 * stores and two loads. Free ones are a stack without a lock; its head carries a change count against the same
 * entry leaving and coming back in between (ABA). Last in, first out keeps the used part of the table small, which
 * the writer scans. */
#include "backend/backend_int.h"
#include "backend/backend_key.h"
#include "base/assert.h"
#include "base/err.h"

static uint64_t head_of(uint64_t old, uint64_t link)
{
    return ((old >> 32) + 1) << 32 | link;
}

static void push(struct backend_lmdb *b, struct backend_read *r)
{
    uint64_t link = (uint64_t)(r - b->readers) + 1;
    ASSERT(link <= b->reader_count);
    uint_fast64_t old = atomic_load_explicit(&b->free_readers, memory_order_relaxed);
    do {
        atomic_store_explicit(&r->next, (uint32_t)old, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&b->free_readers, &old, head_of(old, link),
                                                    memory_order_release, memory_order_relaxed));
}

static struct backend_read *pop(struct backend_lmdb *b)
{
    uint_fast64_t old = atomic_load_explicit(&b->free_readers, memory_order_acquire);
    for (;;) {
        uint32_t link = (uint32_t)old;
        if (link == 0) return NULL;
        ASSERT(link <= b->reader_count);
        struct backend_read *r = &b->readers[link - 1];
        uint64_t next = atomic_load_explicit(&r->next, memory_order_relaxed);
        if (atomic_compare_exchange_weak_explicit(&b->free_readers, &old, head_of(old, next),
                                                  memory_order_acquire, memory_order_acquire)) {
            return r;
        }
    }
}

int backend__readers_init(struct backend_lmdb *b, unsigned count)
{
    ASSERT(count > 0 && b->readers == NULL);
    b->readers = alloc_zero(&b->alloc, count * sizeof *b->readers);
    if (b->readers == NULL) return E_NOMEM;
    b->reader_count = count;
    for (unsigned i = count; i > 0; i--) {
        b->readers[i - 1].store = b;
        push(b, &b->readers[i - 1]);
    }
    /* The first one is made now: LMDB notes the process then, in a field without a lock. */
    struct backend_read *r = NULL;
    int rc = backend__read_begin(b, &r, NULL);
    if (rc == 0) backend__read_end(r);
    return rc;
}

/* Gives up what the reader keeps for its next use. */
static void reader_reset(struct backend_lmdb *b, struct backend_read *r)
{
    ASSERT(r->cursor_count == 0);
    for (unsigned t = 0; t < TABLE_COUNT; t++) {
        if (r->spare[t] == NULL) continue;
        mdb_cursor_close(r->spare[t]->mdb);
        alloc_free(&b->alloc, r->spare[t], sizeof *r->spare[t]);
        r->spare[t] = NULL;
    }
    if (r->txn != NULL) mdb_txn_abort(r->txn);
    r->txn = NULL;
    r->env = NULL; /* last: the environment may be closed from here on */
}

void backend__readers_refresh(struct backend_lmdb *b)
{
    struct backend_read *taken = NULL;
    b->refresh_count++;
    for (struct backend_read *r = pop(b); r != NULL; r = pop(b)) {
        if (r->env != NULL && r->env != b->env) reader_reset(b, r);
        r->next_taken = taken;
        taken = r;
    }
    while (taken != NULL) {
        struct backend_read *r = taken;
        taken = r->next_taken;
        push(b, r);
    }
    b->refresh_count++;
}

void backend__readers_deinit(struct backend_lmdb *b)
{
    if (b->readers == NULL) return;
    unsigned free_count = 0;
    for (struct backend_read *r = pop(b); r != NULL; r = pop(b)) {
        reader_reset(b, r);
        free_count++;
    }
    ASSERT(free_count == b->reader_count); /* else a read transaction is still open */
    alloc_free(&b->alloc, b->readers, b->reader_count * sizeof *b->readers);
    b->readers = NULL;
}

/* A free reader, looked for again when the writer had taken some out meanwhile. */
static struct backend_read *take(struct backend_lmdb *b)
{
    for (;;) {
        uint32_t before = b->refresh_count;
        struct backend_read *r = pop(b);
        if (r != NULL || (before % 2 == 0 && b->refresh_count == before)) return r;
    }
}

/* Makes the reader one of the present environment, which is then not closed under it. */
static MDB_env *attach(struct backend_lmdb *b, struct backend_read *r)
{
    MDB_env *env = b->env;
    while (r->env != env) {
        if (r->env != NULL) reader_reset(b, r);
        r->env = env;
        env = b->env; /* exchanged meanwhile? */
    }
    return env;
}

int backend__read_begin(void *arg, struct backend_read **out, struct errmsg *em)
{
    struct backend_lmdb *b = arg;
    struct backend_read *r = take(b);
    if (r == NULL) {
        errmsg_set(em, "backend read: %u read transactions are open", b->reader_count);
        return E_BUSY;
    }
    ASSERT(r->cursor_count == 0);
    MDB_env *env = attach(b, r);
    int rc = r->txn != NULL ? mdb_txn_renew(r->txn) : mdb_txn_begin(env, NULL, MDB_RDONLY, &r->txn);
    if (rc != 0) {
        push(b, r);
        return backend__error(rc, "backend read", em);
    }
    *out = r;
    return 0;
}

void backend__read_end(struct backend_read *r)
{
    ASSERT(r->cursor_count == 0);
    if (r->env == r->store->env) {
        mdb_txn_reset(r->txn);
    } else {
        reader_reset(r->store, r);
    }
    push(r->store, r);
}

int backend__get(struct backend_read *r, enum table t, struct bytes key, struct bytes *value)
{
    ASSERT((unsigned)t < TABLE_COUNT);
    struct stored_key s;
    backend__key_store(&s, key);
    MDB_val k = backend__val(s.key), v;
    int rc = mdb_get(r->txn, r->store->dbi[t], &k, &v);
    if (rc != 0) return backend__error(rc, "backend get", NULL);
    struct bytes full, got;
    rc = backend__key_load(s.key, backend__bytes(&v), &full, &got);
    if (rc < 0) return rc;
    if (s.is_stand_in && !bytes_eq(full, key)) return E_NOTFOUND;
    *value = got;
    return 0;
}
