/* Pins: which revisions readers still look at, so that compaction leaves their rows and index entries alone.
 *
 * A pin is a slot in a list of blocks that only grows; taking one is a compare-and-swap, no lock. A reader first
 * takes its pin and then looks at the compacted revision under the index lock; a compaction first sets that
 * revision under the lock and then looks at the pins. So either the reader finds itself too late, or the
 * compaction finds the pin. A pin older than READ_PIN_MAX_MS is broken by the compaction: from then on its
 * view answers E_INTR, which it checks before it believes anything that it has read. */
#include "mvcc/mvcc_int.h"

enum { PIN_BROKEN = -2, PIN_CLAIMED = -1, PIN_FREE = 0, PIN_BIAS = 2 };

static struct mvcc_pin *block_take(struct mvcc_pin_block *b, size_t start)
{
    for (size_t i = 0; i < PINS_PER_BLOCK; i++) {
        struct mvcc_pin *p = &b->pins[(start + i) % PINS_PER_BLOCK];
        int64_t free_value = PIN_FREE;
        if (atomic_load_explicit(&p->value, memory_order_relaxed) == PIN_FREE &&
            atomic_compare_exchange_strong(&p->value, &free_value, PIN_CLAIMED)) {
            return p;
        }
    }
    return NULL;
}

/* The block behind `b`, made when there is none. NULL without memory. */
static struct mvcc_pin_block *block_next(const struct mvcc *m, struct mvcc_pin_block *b)
{
    struct mvcc_pin_block *next = atomic_load(&b->next);
    if (next != NULL) return next;
    struct mvcc_pin_block *fresh = alloc_zero(m->alloc, sizeof *fresh);
    if (fresh == NULL) return NULL;
    if (atomic_compare_exchange_strong(&b->next, &next, fresh)) return fresh;
    alloc_free(m->alloc, fresh, sizeof *fresh);
    return next;
}

struct mvcc_pin *mvcc__pin_take(struct mvcc *m, int64_t rev)
{
    ASSERT(rev >= -1);
    /* Threads begin at different slots: the place of a local variable tells them apart well enough. */
    size_t start = ((uintptr_t)&rev >> 12) * 7;
    struct mvcc_pin *p = NULL;
    for (struct mvcc_pin_block *b = &m->pins; b != NULL && p == NULL;) {
        p = block_take(b, start);
        if (p == NULL) b = block_next(m, b);
    }
    if (p == NULL) return NULL;
    atomic_store(&p->born_ms, atomic_load_explicit(&m->now_ms, memory_order_relaxed));
    atomic_store(&p->value, rev + PIN_BIAS);
    return p;
}

/* A broken pin stays broken. */
void mvcc__pin_move(struct mvcc_pin *p, int64_t rev)
{
    ASSERT(rev >= -1);
    int64_t old = atomic_load(&p->value);
    if (old == PIN_BROKEN) return;
    (void)atomic_compare_exchange_strong(&p->value, &old, rev + PIN_BIAS);
}

void mvcc__pin_drop(struct mvcc_pin *p)
{
    ASSERT(atomic_load(&p->value) != PIN_FREE);
    atomic_store(&p->value, PIN_FREE);
}

bool mvcc__pin_broken(const struct mvcc_pin *p)
{
    return atomic_load(&p->value) == PIN_BROKEN;
}

/* Whether this pin holds back a compaction at `rev`; breaks it when it is too old. */
static bool pin_blocks(struct mvcc_pin *p, int64_t rev, int64_t now_ms)
{
    int64_t v = atomic_load(&p->value);
    if (v == PIN_FREE || v == PIN_BROKEN) return false;
    if (v == PIN_CLAIMED) return true; /* it is being taken: its revision is not known yet */
    if (v - PIN_BIAS >= rev) return false;
    if (now_ms - atomic_load(&p->born_ms) <= READ_PIN_MAX_MS) return true;
    return !atomic_compare_exchange_strong(&p->value, &v, PIN_BROKEN);
}

bool mvcc__pins_below(struct mvcc *m, int64_t rev)
{
    if (PLANTED(PLANT_IGNORE_PINS)) return false;
    int64_t now_ms = atomic_load_explicit(&m->now_ms, memory_order_relaxed);
    bool blocked = false;
    for (struct mvcc_pin_block *b = &m->pins; b != NULL; b = atomic_load(&b->next)) {
        for (size_t i = 0; i < PINS_PER_BLOCK; i++) {
            if (pin_blocks(&b->pins[i], rev, now_ms)) blocked = true;
        }
    }
    return blocked;
}

void mvcc__pins_free(struct mvcc *m)
{
    struct mvcc_pin_block *b = atomic_load(&m->pins.next);
    while (b != NULL) {
        struct mvcc_pin_block *next = atomic_load(&b->next);
        alloc_free(m->alloc, b, sizeof *b);
        b = next;
    }
}
