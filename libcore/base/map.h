/* Open-addressing hash maps: 64-bit numbers to pointers, and byte strings to pointers.
 *
 * Linear probing, backward-shift deletion (no tombstones), power-of-two size, at most 3/4 full. A
 * change either fits or fails with E_NOMEM before anything changed; map_u64_reserve() first makes
 * it sure to fit. Order of a walk is unspecified. Hashes of outside data take a `seed` so that
 * nobody can pick colliding keys. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/bytes.h"

/* --- numbers ---------------------------------------------------------------------------------- */

struct map_u64_slot {
    uint64_t key;
    void *value; /* NULL: the slot is free */
};

struct map_u64 {
    const struct alloc *alloc;
    struct map_u64_slot *slots;
    size_t slot_count; /* 0 or a power of two */
    size_t count;
    uint64_t seed;
};

#define MAP_U64_EMPTY ((struct map_u64){0})

/* Prepares an empty map; allocates nothing. `alloc` must outlive it. */
void map_u64_init(struct map_u64 *m, const struct alloc *alloc, uint64_t seed);
void map_u64_deinit(struct map_u64 *m);

/* Makes `more` further puts of new keys sure to succeed. Errors: E_NOMEM. */
int map_u64_reserve(struct map_u64 *m, size_t more);

/* Stores a value that is not NULL, replacing one. Errors: E_NOMEM. */
int map_u64_put(struct map_u64 *m, uint64_t key, void *value);

/* NULL when absent. */
void *map_u64_get(const struct map_u64 *m, uint64_t key);

/* Removes; returns the value, NULL when absent. */
void *map_u64_remove(struct map_u64 *m, uint64_t key);

/* Walks: `*at` starts at 0; false behind the last. No change of the map between the calls. */
bool map_u64_next(const struct map_u64 *m, size_t *at, uint64_t *key, void **value);

/* --- byte strings ----------------------------------------------------------------------------- */

struct map_bytes_slot {
    struct bytes key; /* borrowed from the value's owner */
    uint64_t hash;
    void *value; /* NULL: the slot is free */
};

struct map_bytes {
    const struct alloc *alloc;
    struct map_bytes_slot *slots;
    size_t slot_count;
    size_t count;
    uint64_t seed;
};

#define MAP_BYTES_EMPTY ((struct map_bytes){0})

void map_bytes_init(struct map_bytes *m, const struct alloc *alloc, uint64_t seed);
void map_bytes_deinit(struct map_bytes *m);
int map_bytes_reserve(struct map_bytes *m, size_t more);

/* Stores a value that is not NULL, replacing one together with its key. The bytes of `key` are
 * borrowed until the entry is replaced or removed: usually they lie in the value. Errors: E_NOMEM.
 */
int map_bytes_put(struct map_bytes *m, struct bytes key, void *value);
void *map_bytes_get(const struct map_bytes *m, struct bytes key);
void *map_bytes_remove(struct map_bytes *m, struct bytes key);
bool map_bytes_next(const struct map_bytes *m, size_t *at, struct bytes *key, void **value);

/* The hash the byte map uses: SipHash-like strength is not claimed, but it is keyed by `seed`. */
uint64_t map_hash_bytes(uint64_t seed, struct bytes key);
uint64_t map_hash_u64(uint64_t seed, uint64_t key);

#endif
