/* One branch or leaf page by itself: head, pointers, and that the nodes fill the rest without gap or overlap.
 *
 * The last is more than safe reading needs. LMDB moves nodes about when it deletes one and trusts their places: two
 * that overlap would make it write outside of the page later. */
#include "backend/walk_int.h"
#include "base/assert.h"
#include "base/endian.h"

static uint64_t even(uint64_t n)
{
    return (n + 1) & ~(uint64_t)1;
}

static uint64_t value_room(const uint8_t *node, uint16_t kind)
{
    if (kind == WALK_PAGE_BRANCH) return 0;
    if ((endian_load_le16(node + 4) & WALK_NODE_BIG) != 0) return sizeof(uint64_t);
    return endian_load_le32(node);
}

/* Bytes of the node at `at`; beyond the page when it does not fit. */
static uint64_t node_bytes(const uint8_t *page, uint32_t page_bytes, uint64_t at, uint16_t kind)
{
    if (at + WALK_NODE_BYTES > page_bytes) return page_bytes;
    const uint8_t *node = page + at;
    return even(WALK_NODE_BYTES + (uint64_t)endian_load_le16(node + 6) + value_room(node, kind));
}

static const char *node_fault(const uint8_t *node, unsigned i, uint16_t kind)
{
    unsigned key_bytes = endian_load_le16(node + 6);
    if (key_bytes > KEY_STORED_BYTES_MAX) return "a key is too long";
    if (kind == WALK_PAGE_BRANCH) return i > 0 && key_bytes == 0 ? "a key is empty" : NULL;
    if (key_bytes == 0) return "a key is empty";
    unsigned flags = endian_load_le16(node + 4);
    if (flags != 0 && flags != WALK_NODE_BIG && flags != WALK_NODE_TABLE) {
        return "a row has flags that are not used";
    }
    return NULL;
}

/* Notes where nodes start, then goes from node to node: each must start at a noted place, and the last end with
 * the page. */
static const char *nodes_fault(const uint8_t *page, uint32_t page_bytes, unsigned upper,
                               unsigned count, uint16_t kind)
{
    uint8_t starts[WALK_PAGE_BYTES_MAX / 16] = {0}; /* one bit per even place */
    for (unsigned i = 0; i < count; i++) {
        unsigned at = endian_load_le16(page + WALK_HEAD_BYTES + 2 * i);
        if (at % 2 != 0 || at < upper || at + WALK_NODE_BYTES > page_bytes) {
            return "a pointer leads outside the nodes";
        }
        const char *fault = node_fault(page + at, i, kind);
        if (fault != NULL) return fault;
        uint8_t bit = (uint8_t)(1u << (at / 2 % 8));
        if ((starts[at / 16] & bit) != 0) return "two pointers lead to one node";
        starts[at / 16] |= bit;
    }
    uint64_t at = upper;
    for (unsigned i = 0; i < count; i++) {
        if (at >= page_bytes) return "nodes overlap";
        if ((starts[at / 16] & 1u << (at / 2 % 8)) == 0) return "nodes overlap or leave a gap";
        at += node_bytes(page, page_bytes, at, kind);
    }
    return at == page_bytes ? NULL : "nodes do not end with the page";
}

const char *walk__page_fault(const uint8_t *page, uint32_t page_bytes, uint64_t number,
                             uint16_t kind)
{
    ASSERT(kind == WALK_PAGE_BRANCH || kind == WALK_PAGE_LEAF);
    ASSERT(page_bytes >= WALK_PAGE_BYTES_MIN && page_bytes <= WALK_PAGE_BYTES_MAX);
    if (endian_load_le64(page) != number) return "it bears another page's number";
    unsigned flags = endian_load_le16(page + 10);
    if (flags != kind) {
        return kind == WALK_PAGE_LEAF ? "it is no leaf page" : "it is no branch page";
    }
    unsigned lower = endian_load_le16(page + 12), upper = endian_load_le16(page + 14);
    if (lower < WALK_HEAD_BYTES || lower % 2 != 0 || lower > upper || upper > page_bytes) {
        return "its bounds are wrong";
    }
    unsigned count = (lower - WALK_HEAD_BYTES) / 2;
    if (count == 0) return "it is empty";
    return nodes_fault(page, page_bytes, upper, count, kind);
}

unsigned walk__node_count(const uint8_t *page)
{
    return (endian_load_le16(page + 12) - (unsigned)WALK_HEAD_BYTES) / 2;
}

void walk__node(const uint8_t *page, unsigned i, uint16_t kind, struct walk_node *out)
{
    ASSERT(i < walk__node_count(page));
    const uint8_t *node = page + endian_load_le16(page + WALK_HEAD_BYTES + 2 * i);
    size_t key_bytes = endian_load_le16(node + 6);
    out->key = bytes_of(node + WALK_NODE_BYTES, key_bytes);
    out->flags = endian_load_le16(node + 4);
    out->value = node + WALK_NODE_BYTES + key_bytes;
    out->value_bytes = endian_load_le32(node);
    out->child = 0;
    if (kind == WALK_PAGE_BRANCH) out->child = (uint64_t)out->flags << 32 | out->value_bytes;
}
