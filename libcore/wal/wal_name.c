/* Names of segments and the choice of those to read.
 *
 * A segment is SEQ-INDEX.wal, both 16 hex digits when we write it. Upstream takes any name that ends in ".wal"
 * and starts with two hex numbers joined by "-"; so do we, and sort by name as it does. */
#include <stdio.h>

#include "base/assert.h"
#include "base/err.h"
#include "wal/wal_int.h"

enum { HEX_DIGITS_MAX = 16 };

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Up to 16 hex digits; the number of them, 0 for none. */
static size_t hex_parse(const char *text, uint64_t *out)
{
    size_t n = 0;
    *out = 0;
    while (n < HEX_DIGITS_MAX && hex_digit(text[n]) >= 0)
        *out = *out << 4 | (uint64_t)hex_digit(text[n++]);
    return n;
}

bool wal__name_parse(const char *text, struct wal__segment *out)
{
    size_t len = strlen(text);
    if (len >= WAL__NAME_BYTES_MAX || !wal_fs_has_suffix(text, ".wal")) return false;
    struct wal__segment s = {0};
    size_t n = hex_parse(text, &s.seq);
    if (n == 0 || text[n] != '-') return false;
    size_t m = hex_parse(text + n + 1, &s.first);
    if (m == 0 || !wal_fs_has_prefix(text + n + 1 + m, ".wal")) return false;
    memcpy(s.name, text, len + 1);
    *out = s;
    return true;
}

void wal__name_format(uint64_t seq, raft_index first, char out[WAL__NAME_BYTES_MAX])
{
    int n = snprintf(out, WAL__NAME_BYTES_MAX, "%016llx-%016llx.wal", (unsigned long long)seq,
                     (unsigned long long)first);
    ASSERT(n == 37);
}

/* ---- lists ---------------------------------------------------------------------------------------- */

int wal__segments_reserve(struct wal__segments *s)
{
    if (s->count < s->cap) return 0;
    size_t cap = s->cap == 0 ? 8 : s->cap * 2;
    struct wal__segment *v =
        s->alloc->resize(s->alloc->arg, s->v, s->cap * sizeof *v, cap * sizeof *v);
    if (v == NULL) return E_NOMEM;
    s->v = v;
    s->cap = cap;
    return 0;
}

void wal__segments_close(struct wal__segments *s, const struct disk *d)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->v[i].file != NULL) d->close(d->arg, s->v[i].file);
        s->v[i].file = NULL;
    }
}

void wal__segments_deinit(struct wal__segments *s)
{
    if (s->v != NULL) alloc_free(s->alloc, s->v, s->cap * sizeof *s->v);
    *s = (struct wal__segments){0};
}

void wal__segments_drop(struct wal__segments *s, const struct disk *d, size_t n)
{
    ASSERT(n <= s->count);
    for (size_t i = 0; i < n; i++)
        if (s->v[i].file != NULL) d->close(d->arg, s->v[i].file);
    if (n > 0) memmove(s->v, s->v + n, (s->count - n) * sizeof *s->v);
    s->count -= n;
}

static int segments_add(const struct wal_opts *o, struct wal__segments *s, const char *name)
{
    struct wal__segment one;
    if (!wal__name_parse(name, &one)) {
        if (!wal_fs_has_suffix(name, ".tmp"))
            LOG(o->log, LOG_WARN, "ignored file in WAL directory", LOGF_STR("path", name));
        return 0;
    }
    int rc = wal__segments_reserve(s);
    if (rc == 0) s->v[s->count++] = one;
    return rc;
}

int wal__segments_list(const struct wal_opts *o, const char *dir, struct wal__segments *out,
                       struct errmsg *em)
{
    struct wal_fs_names names = {0};
    int rc = wal_fs_list(o->disk, o->alloc, dir, &names, em);
    if (rc < 0) return rc;
    struct wal__segments s = {.alloc = o->alloc};
    for (size_t i = 0; i < names.count && rc == 0; i++)
        rc = segments_add(o, &s, names.v[i]);
    wal_fs_names_deinit(&names);
    if (rc < 0) {
        wal__segments_deinit(&s);
        return wal_fs_fail(em, rc, "list folder", dir);
    }
    *out = s;
    return 0;
}

static int check_sequence(const struct wal__segments *s, struct errmsg *em)
{
    for (size_t i = 1; i < s->count; i++) {
        if (s->v[i].seq == s->v[i - 1].seq + 1) continue;
        errmsg_set(em, "%s: \"%s\" does not follow \"%s\"", err_text(E_WAL_SEQUENCE), s->v[i].name,
                   s->v[i - 1].name);
        return E_WAL_SEQUENCE;
    }
    return 0;
}

int wal__segments_select(struct wal__segments *s, raft_index from, struct errmsg *em)
{
    size_t first = s->count;
    for (size_t i = s->count; i-- > 0;) {
        if (s->v[i].first > from) continue;
        first = i;
        break;
    }
    if (first == s->count) {
        errmsg_set(em, "wal: file not found which matches the snapshot index '%llu'",
                   (unsigned long long)from);
        return E_WAL_FILE_NOT_FOUND;
    }
    if (first > 0) memmove(s->v, s->v + first, (s->count - first) * sizeof *s->v);
    s->count -= first;
    return check_sequence(s, em);
}
