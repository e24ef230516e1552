/* Revision keys: main as 8 bytes big-endian, '_', sub as 8 bytes big-endian, and 't' behind it for a deletion. */
#include "mvcc/mvcc_int.h"

struct bytes mvcc__rev_key(int64_t main, uint32_t sub, bool tomb, uint8_t out[REV_KEY_TOMB_BYTES])
{
    ASSERT(main >= 0);
    endian_store_be64(out, (uint64_t)main);
    out[8] = '_';
    endian_store_be64(out + 9, sub);
    out[17] = 't';
    return bytes_of(out, tomb ? REV_KEY_TOMB_BYTES : REV_KEY_BYTES);
}

int mvcc__rev_parse(struct bytes key, struct mvcc_rev *rev, bool *tomb)
{
    if (key.len != REV_KEY_BYTES && key.len != REV_KEY_TOMB_BYTES) return E_CORRUPT;
    if (key.data[8] != '_') return E_CORRUPT;
    if (key.len == REV_KEY_TOMB_BYTES && key.data[17] != 't') return E_CORRUPT;
    uint64_t main = endian_load_be64(key.data);
    uint64_t sub = endian_load_be64(key.data + 9);
    if (main > INT64_MAX || sub > SUB_MAX) return E_CORRUPT;
    *rev = (struct mvcc_rev){(int64_t)main, (uint32_t)sub};
    *tomb = key.len == REV_KEY_TOMB_BYTES;
    return 0;
}

struct mvcc_bounds mvcc__bounds(struct bytes key, struct bytes end)
{
    return (struct mvcc_bounds){
        .key = key,
        .end = end,
        .one = end.len == 0,
        .to_last = end.len == 1 && end.data[0] == 0,
    };
}
