/* Loads and stores of fixed byte order at any alignment. */
#ifndef BASE_ENDIAN_H
#define BASE_ENDIAN_H

#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ || __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__,
               "mixed byte orders are not known here");

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ENDIAN_LE(bits, v) (v)
#define ENDIAN_BE(bits, v) __builtin_bswap##bits(v)
#else
#define ENDIAN_LE(bits, v) __builtin_bswap##bits(v)
#define ENDIAN_BE(bits, v) (v)
#endif

/* endian_load_le32(p), endian_store_le32(p, v), and so on for le/be and 16, 32, 64 bits. */
#define ENDIAN_PAIR(name, swap, bits)                                                              \
    static inline uint##bits##_t endian_load_##name##bits(const void *p)                           \
    {                                                                                              \
        uint##bits##_t v;                                                                          \
        memcpy(&v, p, sizeof v);                                                                   \
        return swap(bits, v);                                                                      \
    }                                                                                              \
    static inline void endian_store_##name##bits(void *p, uint##bits##_t v)                        \
    {                                                                                              \
        v = swap(bits, v);                                                                         \
        memcpy(p, &v, sizeof v);                                                                   \
    }

ENDIAN_PAIR(le, ENDIAN_LE, 16)
ENDIAN_PAIR(le, ENDIAN_LE, 32)
ENDIAN_PAIR(le, ENDIAN_LE, 64)
ENDIAN_PAIR(be, ENDIAN_BE, 16)
ENDIAN_PAIR(be, ENDIAN_BE, 32)
ENDIAN_PAIR(be, ENDIAN_BE, 64)

#undef ENDIAN_PAIR
#undef ENDIAN_LE
#undef ENDIAN_BE

#endif
