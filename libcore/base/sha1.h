/* SHA-1, for ids only: upstream makes the ids of members and clusters with it. Not for anything that must withstand
 * an attacker. */
#ifndef BASE_SHA1_H
#define BASE_SHA1_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum { SHA1_BYTES = 20, SHA1_BLOCK_BYTES = 64 };

struct sha1 {
    uint32_t state[5];
    uint64_t len_bytes;              /* taken so far */
    uint8_t block[SHA1_BLOCK_BYTES]; /* the part of a block that is not hashed yet */
};

void sha1_init(struct sha1 *h);
void sha1_update(struct sha1 *h, struct bytes s);
/* Ends the hash; `h` must be initialised anew before it is used again. */
void sha1_final(struct sha1 *h, uint8_t out[SHA1_BYTES]);

#endif
