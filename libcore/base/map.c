/* Two maps of the same shape: linear probing in a power-of-two array.
 *
 * A removal shifts later members of its cluster back, so look-ups never meet a tombstone and end at
 * the first free slot. Hashing is by multiply-and-fold of 64-bit words under a seed. */
#include "base/map.h"

#include "base/assert.h"
#include "base/endian.h"
#include "base/err.h"

enum { MAP_SLOTS_MIN = 16 };

/* --- hashes ----------------------------------------------------------------------------------- */

static uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 wide = (unsigned __int128)a * b;
    return (uint64_t)wide ^ (uint64_t)(wide >> 64);
}

uint64_t map_hash_u64(uint64_t seed, uint64_t key)
{
    return fold(key ^ 0x9e3779b97f4a7c15U, seed ^ 0xd6e8feb86659fd93U);
}

uint64_t map_hash_bytes(uint64_t seed, struct bytes key)
{
    uint64_t h = seed ^ fold(key.len ^ 0xa0761d6478bd642fU, 0xe7037ed1a0b428dbU);
    const uint8_t *p = key.data;
    size_t len = key.len;
    for (; len >= 8; len -= 8, p += 8) {
        h = fold(h ^ endian_load_le64(p), 0x8ebc6af09c88c6e3U ^ seed);
    }
    uint64_t tail = 0;
    for (size_t i = 0; i < len; i++) {
        tail |= (uint64_t)p[i] << 8 * i;
    }
    h = fold(h ^ tail, 0x589965cc75374cc3U ^ seed);
    return fold(h ^ 0x1d8e4e27c47d124fU, 0xeb44accab455d165U);
}

/* The number of slots in which `count` + `more` entries fill at most 3/4; 0: too many. */
static size_t slots_for(size_t slot_count, size_t count, size_t more)
{
    if (more > SIZE_MAX / 256 - count) return 0;
    size_t want = count + more;
    size_t n = slot_count < MAP_SLOTS_MIN ? MAP_SLOTS_MIN : slot_count;
    while (n / 4 * 3 < want) {
        n *= 2;
    }
    return n;
}

/* Whether an entry that belongs to `home` may stay at `at` when `hole`, before it in its cluster,
 * gets free: when home lies behind the hole. */
static bool stays(size_t home, size_t hole, size_t at)
{
    if (hole <= at) return hole < home && home <= at;
    return hole < home || home <= at;
}

/* --- numbers ---------------------------------------------------------------------------------- */

void map_u64_init(struct map_u64 *m, const struct alloc *alloc, uint64_t seed)
{
    ASSERT(alloc != NULL);
    *m = (struct map_u64){.alloc = alloc, .seed = seed};
}

void map_u64_deinit(struct map_u64 *m)
{
    if (m->slots != NULL) alloc_free(m->alloc, m->slots, m->slot_count * sizeof *m->slots);
    *m = MAP_U64_EMPTY;
}

static size_t u64_home(const struct map_u64 *m, uint64_t key)
{
    return (size_t)map_hash_u64(m->seed, key) & (m->slot_count - 1);
}

/* The slot of `key`, or the free one where it would go. There is always a free one. */
static size_t u64_find(const struct map_u64 *m, uint64_t key)
{
    size_t at = u64_home(m, key);
    while (m->slots[at].value != NULL && m->slots[at].key != key) {
        at = (at + 1) & (m->slot_count - 1);
    }
    return at;
}

int map_u64_reserve(struct map_u64 *m, size_t more)
{
    ASSERT(m->alloc != NULL);
    size_t slot_count = slots_for(m->slot_count, m->count, more);
    if (slot_count == 0) return E_NOMEM;
    if (slot_count == m->slot_count) return 0;
    struct map_u64 grown = *m;
    grown.slots = alloc_zero(m->alloc, slot_count * sizeof *m->slots);
    if (grown.slots == NULL) return E_NOMEM;
    grown.slot_count = slot_count;
    for (size_t i = 0; i < m->slot_count; i++) {
        if (m->slots[i].value == NULL) continue;
        grown.slots[u64_find(&grown, m->slots[i].key)] = m->slots[i];
    }
    alloc_free(m->alloc, m->slots, m->slot_count * sizeof *m->slots);
    *m = grown;
    return 0;
}

int map_u64_put(struct map_u64 *m, uint64_t key, void *value)
{
    ASSERT(value != NULL);
    if (m->slot_count > 0) {
        size_t at = u64_find(m, key);
        if (m->slots[at].value != NULL) {
            m->slots[at].value = value;
            return 0;
        }
    }
    int rc = map_u64_reserve(m, 1);
    if (rc < 0) return rc;
    m->slots[u64_find(m, key)] = (struct map_u64_slot){.key = key, .value = value};
    m->count++;
    return 0;
}

void *map_u64_get(const struct map_u64 *m, uint64_t key)
{
    return m->slot_count == 0 ? NULL : m->slots[u64_find(m, key)].value;
}

void *map_u64_remove(struct map_u64 *m, uint64_t key)
{
    if (m->slot_count == 0) return NULL;
    size_t hole = u64_find(m, key);
    void *value = m->slots[hole].value;
    if (value == NULL) return NULL;
    size_t mask = m->slot_count - 1;
    for (size_t at = (hole + 1) & mask; m->slots[at].value != NULL; at = (at + 1) & mask) {
        if (stays(u64_home(m, m->slots[at].key), hole, at)) continue;
        m->slots[hole] = m->slots[at];
        hole = at;
    }
    m->slots[hole] = (struct map_u64_slot){0};
    m->count--;
    return value;
}

bool map_u64_next(const struct map_u64 *m, size_t *at, uint64_t *key, void **value)
{
    for (; *at < m->slot_count; ++*at) {
        const struct map_u64_slot *s = &m->slots[*at];
        if (s->value == NULL) continue;
        *key = s->key;
        *value = s->value;
        ++*at;
        return true;
    }
    return false;
}

/* --- byte strings ----------------------------------------------------------------------------- */

void map_bytes_init(struct map_bytes *m, const struct alloc *alloc, uint64_t seed)
{
    ASSERT(alloc != NULL);
    *m = (struct map_bytes){.alloc = alloc, .seed = seed};
}

void map_bytes_deinit(struct map_bytes *m)
{
    if (m->slots != NULL) alloc_free(m->alloc, m->slots, m->slot_count * sizeof *m->slots);
    *m = MAP_BYTES_EMPTY;
}

static size_t bytes_find(const struct map_bytes *m, uint64_t hash, struct bytes key)
{
    size_t at = (size_t)hash & (m->slot_count - 1);
    while (m->slots[at].value != NULL &&
           !(m->slots[at].hash == hash && bytes_eq(m->slots[at].key, key))) {
        at = (at + 1) & (m->slot_count - 1);
    }
    return at;
}

int map_bytes_reserve(struct map_bytes *m, size_t more)
{
    ASSERT(m->alloc != NULL);
    size_t slot_count = slots_for(m->slot_count, m->count, more);
    if (slot_count == 0) return E_NOMEM;
    if (slot_count == m->slot_count) return 0;
    struct map_bytes grown = *m;
    grown.slots = alloc_zero(m->alloc, slot_count * sizeof *m->slots);
    if (grown.slots == NULL) return E_NOMEM;
    grown.slot_count = slot_count;
    for (size_t i = 0; i < m->slot_count; i++) {
        const struct map_bytes_slot *s = &m->slots[i];
        if (s->value != NULL) grown.slots[bytes_find(&grown, s->hash, s->key)] = *s;
    }
    alloc_free(m->alloc, m->slots, m->slot_count * sizeof *m->slots);
    *m = grown;
    return 0;
}

int map_bytes_put(struct map_bytes *m, struct bytes key, void *value)
{
    ASSERT(value != NULL);
    uint64_t hash = map_hash_bytes(m->seed, key);
    struct map_bytes_slot entry = {.key = key, .hash = hash, .value = value};
    if (m->slot_count > 0) {
        size_t at = bytes_find(m, hash, key);
        if (m->slots[at].value != NULL) {
            m->slots[at] = entry;
            return 0;
        }
    }
    int rc = map_bytes_reserve(m, 1);
    if (rc < 0) return rc;
    m->slots[bytes_find(m, hash, key)] = entry;
    m->count++;
    return 0;
}

void *map_bytes_get(const struct map_bytes *m, struct bytes key)
{
    if (m->slot_count == 0) return NULL;
    return m->slots[bytes_find(m, map_hash_bytes(m->seed, key), key)].value;
}

void *map_bytes_remove(struct map_bytes *m, struct bytes key)
{
    if (m->slot_count == 0) return NULL;
    size_t hole = bytes_find(m, map_hash_bytes(m->seed, key), key);
    void *value = m->slots[hole].value;
    if (value == NULL) return NULL;
    size_t mask = m->slot_count - 1;
    for (size_t at = (hole + 1) & mask; m->slots[at].value != NULL; at = (at + 1) & mask) {
        if (stays((size_t)m->slots[at].hash & mask, hole, at)) continue;
        m->slots[hole] = m->slots[at];
        hole = at;
    }
    m->slots[hole] = (struct map_bytes_slot){0};
    m->count--;
    return value;
}

bool map_bytes_next(const struct map_bytes *m, size_t *at, struct bytes *key, void **value)
{
    for (; *at < m->slot_count; ++*at) {
        const struct map_bytes_slot *s = &m->slots[*at];
        if (s->value == NULL) continue;
        *key = s->key;
        *value = s->value;
        ++*at;
        return true;
    }
    return false;
}
