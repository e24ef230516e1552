/* CRC-32 with the Castagnoli polynomial, as WAL and snapshots use it.
 *
 * Inputs and outputs are finished values: update(0, b) = crc32c(b), update(crc32c(a), b) = crc32c(a
 * b). */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/* Continues `crc` (0 at the start) with `len` bytes. Uses the processor's instruction where there
 * is one. */
uint32_t crc32c_update(uint32_t crc, const void *data, size_t len);

/* The same by tables, on any processor. */
uint32_t crc32c_update_table(uint32_t crc, const void *data, size_t len);

static inline uint32_t crc32c(struct bytes s)
{
    return crc32c_update(0, s.data, s.len);
}

#endif
