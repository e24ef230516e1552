/* FIPS 180-4, section 6.1, with the schedule of 16 words that is replaced as it is used. */
#include "base/sha1.h"

#include "base/endian.h"

void sha1_init(struct sha1 *h)
{
    *h = (struct sha1){.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
}

static uint32_t rotate(uint32_t v, unsigned bits)
{
    return v << bits | v >> (32 - bits);
}

/* The word of round `t`, made from those of the 16 rounds before. */
static uint32_t schedule(uint32_t w[16], unsigned t)
{
    if (t >= 16) {
        uint32_t v = w[(t - 3) % 16] ^ w[(t - 8) % 16] ^ w[(t - 14) % 16] ^ w[t % 16];
        w[t % 16] = rotate(v, 1);
    }
    return w[t % 16];
}

/* The function and constant of round `t`. */
static uint32_t mix(unsigned t, uint32_t b, uint32_t c, uint32_t d)
{
    if (t < 20) return ((b & c) | (~b & d)) + 0x5a827999;
    if (t < 40) return (b ^ c ^ d) + 0x6ed9eba1;
    if (t < 60) return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    return (b ^ c ^ d) + 0xca62c1d6;
}

static void take_block(uint32_t state[5], const uint8_t block[SHA1_BLOCK_BYTES])
{
    uint32_t w[16];
    uint32_t v[5];
    for (unsigned i = 0; i < 16; i++) {
        w[i] = endian_load_be32(block + 4 * i);
    }
    memcpy(v, state, sizeof v);
    for (unsigned t = 0; t < 80; t++) {
        uint32_t next = rotate(v[0], 5) + mix(t, v[1], v[2], v[3]) + v[4] + schedule(w, t);
        v[4] = v[3];
        v[3] = v[2];
        v[2] = rotate(v[1], 30);
        v[1] = v[0];
        v[0] = next;
    }
    for (unsigned i = 0; i < 5; i++) {
        state[i] += v[i];
    }
}

void sha1_update(struct sha1 *h, struct bytes s)
{
    size_t at = (size_t)(h->len_bytes % SHA1_BLOCK_BYTES);
    h->len_bytes += s.len;
    while (s.len > 0) {
        size_t n = SHA1_BLOCK_BYTES - at < s.len ? SHA1_BLOCK_BYTES - at : s.len;
        memcpy(h->block + at, s.data, n);
        s = bytes_of(s.data + n, s.len - n);
        at += n;
        if (at < SHA1_BLOCK_BYTES) return;
        take_block(h->state, h->block);
        at = 0;
    }
}

void sha1_final(struct sha1 *h, uint8_t out[SHA1_BYTES])
{
    static const uint8_t padding[SHA1_BLOCK_BYTES] = {0x80};
    uint8_t len_bits[8];
    endian_store_be64(len_bits, h->len_bytes * 8);
    /* One bit, zeros, and the length in the last 8 bytes of a block. */
    size_t at = (size_t)(h->len_bytes % SHA1_BLOCK_BYTES);
    size_t n = at < SHA1_BLOCK_BYTES - 8 ? SHA1_BLOCK_BYTES - 8 - at
                                         : 2 * SHA1_BLOCK_BYTES - 8 - at;
    sha1_update(h, bytes_of(padding, n));
    sha1_update(h, bytes_of(len_bits, sizeof len_bits));
    for (unsigned i = 0; i < 5; i++) {
        endian_store_be32(out + 4 * i, h->state[i]);
    }
}
