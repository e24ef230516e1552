/* Keys that LMDB cannot hold as they are: longer than its 511 bytes, or empty.
 *
 * Idea: a key of 1 to 510 bytes is stored as it is. Any other is stored under a stand-in of exactly 511 bytes, so
 * the length alone tells the two apart, and its row's value holds the whole key:
 *
 *   stored key    479 bytes  the key's first bytes (of the empty key: zeros)
 *                  32 bytes  SHA-256 of the key
 *   stored value    4 bytes  length of the key, little-endian
 *                   n bytes  the key
 *                   ...      the value
 *
 * Stand-ins sort right against all keys but those that share their first 479 bytes; cursors put such a group in
 * order when they give it out (backend_cursor.c). Rejected: the hash alone as key (no order left at all), and a
 * table of its own for long keys (two tables to merge for every reader). */
#ifndef BACKEND_BACKEND_KEY_H
#define BACKEND_BACKEND_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

enum {
    KEY_STORED_BYTES_MAX = 511, /* LMDB's MDB_MAXKEYSIZE */
    KEY_PLAIN_BYTES_MAX = KEY_STORED_BYTES_MAX - 1,
    KEY_HASH_BYTES = 32,
    KEY_HEAD_BYTES = KEY_STORED_BYTES_MAX - KEY_HASH_BYTES,
    KEY_LENGTH_BYTES = 4
};

struct stored_key {
    struct bytes key; /* what LMDB gets: the caller's span, or `stand_in` */
    bool is_stand_in;
    uint8_t stand_in[KEY_STORED_BYTES_MAX];
};

/* Fills `s`, which borrows `key` as long as it is used and must stay in place. */
void backend__key_store(struct stored_key *s, struct bytes key);

/* The key and value that a stored row stands for: spans into it. E_CORRUPT when a stand-in's row is not
 * what backend__key_store() makes. */
int backend__key_load(struct bytes stored_key, struct bytes stored_value, struct bytes *key,
                      struct bytes *value);

/* The same, with the stand-in's hash computed anew: for rows that come from outside. */
int backend__key_verify(struct bytes stored_key, struct bytes stored_value, struct bytes *key,
                        struct bytes *value);

#endif
