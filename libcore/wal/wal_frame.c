/* The frame around a record.
 *
 *   offset 0   8 bytes   length word, little-endian: bits 0..55 bytes of the Record message,
 *                        bits 56..58 bytes of padding if bit 63 is set
 *   offset 8   n bytes   Record
 *              p bytes   zeros up to a multiple of 8, so that no length word crosses a sector
 *
 * A disk writes whole sectors, so a record that was being written when the power went is either not there, or has
 * a sector that is still as it was allocated: all zero. */
#include "base/assert.h"
#include "wal/wal_int.h"

#define RECORD_BYTES_MASK ((UINT64_C(1) << 56) - 1)
#define PAD_FLAG          (UINT64_C(1) << 63)
enum { PAD_SHIFT = 56, PAD_MASK = 7, ALIGN = 8 };

_Static_assert(WAL__SECTOR_BYTES % ALIGN == 0, "a length word must not cross a sector");
_Static_assert(WAL__BUFFER_BYTES % WAL__SECTOR_BYTES == 0, "the buffer must hold whole sectors");

uint64_t wal__frame_encode(uint64_t record_bytes, uint64_t *pad_bytes)
{
    ASSERT(record_bytes > 0);
    ASSERT(record_bytes <= RECORD_BYTES_MASK);
    uint64_t pad = (ALIGN - record_bytes % ALIGN) % ALIGN;
    *pad_bytes = pad;
    return pad == 0 ? record_bytes : record_bytes | PAD_FLAG | pad << PAD_SHIFT;
}

struct wal__frame wal__frame_decode(uint64_t word)
{
    struct wal__frame f = {.record_bytes = word & RECORD_BYTES_MASK};
    if ((word & PAD_FLAG) != 0) f.pad_bytes = word >> PAD_SHIFT & PAD_MASK;
    return f;
}

static bool all_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0) return false;
    return true;
}

bool wal__torn(struct bytes behind, uint64_t offset)
{
    size_t at = 0;
    while (at < behind.len) {
        size_t piece = WAL__SECTOR_BYTES - (size_t)((offset + at) % WAL__SECTOR_BYTES);
        if (piece > behind.len - at) piece = behind.len - at;
        if (all_zero(behind.data + at, piece)) return true;
        at += piece;
    }
    return false;
}
