/* CRC-32C by the SSE4.2 instruction where the processor has it, else by eight tables at a time. */
#include "base/crc32c.h"

#include "base/crc32c_table.h"
#include "base/endian.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

uint32_t crc32c_update_table(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *p = data;
    uint32_t c = ~crc;
    for (; len >= 8; len -= 8, p += 8) {
        uint64_t v = endian_load_le64(p) ^ c;
        c = crc32c_table[7][v & 255] ^ crc32c_table[6][v >> 8 & 255] ^
            crc32c_table[5][v >> 16 & 255] ^ crc32c_table[4][v >> 24 & 255] ^
            crc32c_table[3][v >> 32 & 255] ^ crc32c_table[2][v >> 40 & 255] ^
            crc32c_table[1][v >> 48 & 255] ^ crc32c_table[0][v >> 56];
    }
    for (; len > 0; len--, p++) {
        c = c >> 8 ^ crc32c_table[0][(c ^ *p) & 255];
    }
    return ~c;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t update_sse42(uint32_t crc, const uint8_t *p,
                                                               size_t len)
{
    uint64_t c = ~crc;
    for (; len >= 8; len -= 8, p += 8) {
        c = _mm_crc32_u64(c, endian_load_le64(p));
    }
    uint32_t c32 = (uint32_t)c;
    for (; len > 0; len--, p++) {
        c32 = _mm_crc32_u8(c32, *p);
    }
    return ~c32;
}
#endif

uint32_t crc32c_update(uint32_t crc, const void *data, size_t len)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) return update_sse42(crc, data, len);
#endif
    return crc32c_update_table(crc, data, len);
}
