/* The log on "disk". */
#include "storage.h"

#include <string.h>

#include "describe.h"

raft_index storage_last(const struct storage *s)
{
    return s->before + s->entry_count;
}

void storage_deinit(struct storage *s)
{
    raft_entries_free(&scenario_heap, s->entries, s->entry_count);
    *s = (struct storage){0};
}

const char *storage_restore(struct storage *s, raft_index index)
{
    if (s->snapshot_index != 0 && s->snapshot_index >= index)
        return "requested index is older than the existing snapshot";
    storage_deinit(s);
    s->before = index;
    s->snapshot_index = index;
    return NULL;
}

/* Keeps `keep` entries from `from` on, and puts `n` new ones behind them. */
static void replace(struct storage *s, size_t from, size_t keep, const struct raft_entry *e,
                    size_t n)
{
    size_t count = keep + n;
    struct raft_entry *old = s->entries;
    struct raft_entry *v = count == 0 ? NULL : alloc_new(&scenario_heap, count * sizeof *v);
    for (size_t i = 0; i < count; i++) {
        v[i] = i < keep ? old[from + i] : e[i - keep];
        (void)rcbuf_ref(v[i].data);
    }
    raft_entries_free(&scenario_heap, old, s->entry_count);
    s->entries = v;
    s->entry_count = count;
}

const char *storage_append(struct storage *s, const struct raft_entry *e, size_t n)
{
    while (n > 0 && e->index <= s->before) {
        e++;
        n--;
    }
    if (n == 0) return NULL;
    if (e->index > storage_last(s) + 1) return "missing log entry";
    replace(s, 0, (size_t)(e->index - s->before - 1), e, n);
    return NULL;
}

const char *storage_compact(struct storage *s, raft_index index)
{
    if (index <= s->before) return "requested index is unavailable due to compaction";
    if (index > storage_last(s)) return "compacted index is behind the end of the log";
    size_t drop = (size_t)(index - s->before);
    replace(s, drop, s->entry_count - drop, NULL, 0);
    s->before = index;
    return NULL;
}
