/* The naive reference: every change ever made in one list, and the rules of the spec over it, word by word. */
#ifndef TEST_UNIT_MVCC_MODEL_H
#define TEST_UNIT_MVCC_MODEL_H

#include "base/crc32c.h"
#include "kit.h"

enum { MODEL_ROWS = 1500, MODEL_KEYS = 24, MODEL_GENS = MODEL_ROWS };

struct model_row {
    int64_t main;
    uint32_t sub;
    bool tomb;
    bool gone; /* compaction has removed it */
    int key;
    int64_t create, version, lease;
    uint64_t value;
};

struct model {
    struct model_row rows[MODEL_ROWS];
    size_t count;
    int64_t current;   /* published */
    int64_t compacted; /* marked */
    int64_t finished;
    uint64_t index;
    /* the entry in progress */
    int64_t main;
    uint32_t sub;
};

/* Keys of several lengths, some equal in their first 7 and 8 bytes; in order. */
UNUSED_FN static struct bytes model_key(int key)
{
    static const char *const names[MODEL_KEYS] = {
        "a",
        "aa",
        "aaaaaaa",
        "aaaaaaaa",
        "aaaaaaaaa",
        "aaaaaaab",
        "aaaaaaabc",
        "b",
        "b/1",
        "b/10",
        "b/2",
        "b/3",
        "b/4",
        "c",
        "long/long/long/long/1",
        "long/long/long/long/2",
        "long/long/long/long/22",
        "m",
        "n",
        "o",
        "p",
        "q",
        "x\xff",
        "y\xff\xff\xff\xff\xff\xff\xff\xff",
    };
    return bytes_str(names[key]);
}

UNUSED_FN static size_t model_value(uint64_t value, uint8_t out[32])
{
    return (size_t)snprintf((char *)out, 32, "v%llu", (unsigned long long)value);
}

UNUSED_FN static void model_init(struct model *m)
{
    memset(m, 0, sizeof *m);
    m->current = 1;
    m->compacted = m->finished = -1;
}

/* The newest row of a key at `rev`; NULL when it does not live there. */
UNUSED_FN static const struct model_row *model_at(const struct model *m, int key, int64_t rev)
{
    const struct model_row *found = NULL;
    for (size_t i = 0; i < m->count; i++) {
        const struct model_row *r = &m->rows[i];
        if (r->key == key && r->main <= rev && !r->gone) found = r;
    }
    return found == NULL || found->tomb ? NULL : found;
}

UNUSED_FN static void model_begin(struct model *m)
{
    m->main = m->current + 1;
    m->sub = 0;
}

UNUSED_FN static void model_put(struct model *m, int key, uint64_t value, int64_t lease)
{
    const struct model_row *old = model_at(m, key, m->main);
    assert_true(m->count < MODEL_ROWS);
    m->rows[m->count++] = (struct model_row){.main = m->main,
                                             .sub = m->sub++,
                                             .key = key,
                                             .create = old == NULL ? m->main : old->create,
                                             .version = old == NULL ? 1 : old->version + 1,
                                             .lease = lease,
                                             .value = value};
}

UNUSED_FN static uint64_t model_delete(struct model *m, int from, int to)
{
    uint64_t n = 0;
    for (int key = from; key < to; key++) {
        if (model_at(m, key, m->main) == NULL) continue;
        assert_true(m->count < MODEL_ROWS);
        m->rows[m->count++] =
            (struct model_row){.main = m->main, .sub = m->sub++, .key = key, .tomb = true};
        n++;
    }
    return n;
}

UNUSED_FN static void model_seal(struct model *m)
{
    m->index++;
    if (m->sub > 0) m->current = m->main;
}

/* The generations of a key: each a list of rows, ended by a deletion; the last one may be empty. */
struct model_gens {
    const struct model_row *rows[MODEL_ROWS];
    size_t start[MODEL_ROWS + 2]; /* generation g is rows[start[g]] ... rows[start[g + 1] - 1] */
    size_t gens;
};

UNUSED_FN static void model_generations(const struct model *m, int key, struct model_gens *g)
{
    size_t n = 0;
    g->gens = 1;
    g->start[0] = 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct model_row *r = &m->rows[i];
        if (r->key != key || r->gone) continue;
        g->rows[n++] = r;
        if (r->tomb) g->start[g->gens++] = n;
    }
    g->start[g->gens] = n;
}

/* The member of the keep set that a key has at `rev`, or NULL: bbolt-format.md 11. */
UNUSED_FN static const struct model_row *model_keep(const struct model *m, int key, int64_t rev,
                                                    bool compaction)
{
    static struct model_gens g;
    model_generations(m, key, &g);
    size_t gen = 0;
    while (gen + 1 < g.gens && g.rows[g.start[gen + 1] - 1]->main < rev) {
        gen++;
    }
    const struct model_row *found = NULL;
    for (size_t i = g.start[gen]; i < g.start[gen + 1]; i++) {
        if (g.rows[i]->main <= rev) found = g.rows[i];
    }
    if (found != NULL && found->tomb && !compaction) return NULL;
    return found;
}

UNUSED_FN static uint32_t model_hash_row(uint32_t crc, const struct model_row *r)
{
    uint8_t key[18], value[32], kv[128];
    endian_store_be64(key, (uint64_t)r->main);
    key[8] = '_';
    endian_store_be64(key + 9, r->sub);
    key[17] = 't';
    struct pb_kv d = {.key = model_key(r->key)};
    if (!r->tomb) {
        d.create_revision = r->create;
        d.mod_revision = r->main;
        d.version = r->version;
        d.value = bytes_of(value, model_value(r->value, value));
        d.lease = r->lease;
    }
    uint8_t *end = pb_kv_write(&d, kv);
    crc = crc32c_update(crc, key, r->tomb ? 18 : 17);
    return crc32c_update(crc, kv, (size_t)(end - kv));
}

/* HashKV at `rev` with compact revision `c`. */
UNUSED_FN static uint32_t model_hash(const struct model *m, int64_t rev, int64_t c, bool compaction)
{
    const struct model_row *keep[MODEL_KEYS];
    bool any = false;
    for (int k = 0; k < MODEL_KEYS; k++) {
        keep[k] = model_keep(m, k, rev, compaction);
        any = any || keep[k] != NULL;
    }
    uint32_t crc = crc32c(bytes_str("key"));
    for (size_t i = 0; i < m->count; i++) {
        const struct model_row *r = &m->rows[i];
        if (r->gone || r->main > rev) continue;
        if (r->main <= c && any && keep[r->key] != r) continue;
        if (r->main == c && r->tomb) continue;
        crc = model_hash_row(crc, r);
    }
    return crc;
}

/* What a finished compaction at `rev` leaves. */
UNUSED_FN static void model_compact(struct model *m, int64_t rev)
{
    const struct model_row *keep[MODEL_KEYS];
    for (int k = 0; k < MODEL_KEYS; k++) {
        keep[k] = model_keep(m, k, rev, true);
    }
    for (size_t i = 0; i < m->count; i++) {
        struct model_row *r = &m->rows[i];
        if (r->main <= rev && keep[r->key] != r) r->gone = true;
    }
    m->finished = rev;
}

#endif
