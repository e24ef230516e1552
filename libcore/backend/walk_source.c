/* Pages out of the file, through a few windows.
 *
 * Idea: a tree in key order is mostly a file in page order, twice over (leaves, and the runs of long values). Each
 * window follows one such stream: a page right behind it refills it, twice as large as before; any other page
 * takes the window that was not used for longest and starts small, so that scattered pages do not cost large
 * reads. */
#include "backend/walk_int.h"
#include "base/assert.h"
#include "base/err.h"

/* A small file needs no large windows. */
static uint32_t pages_of_window(uint32_t page_bytes, uint64_t page_count)
{
    uint64_t pages = page_count / 8, most = WALK_WINDOW_BYTES_MAX / page_bytes;
    if (pages < WALK_WINDOW_BYTES_FIRST / page_bytes) pages = WALK_WINDOW_BYTES_FIRST / page_bytes;
    if (pages == 0) pages = 1;
    return (uint32_t)(pages < most ? pages : most);
}

static size_t window_bytes(const struct walk_source *s)
{
    return (size_t)s->window_pages * s->page_bytes;
}

int walk__source_init(struct walk_source *s, const struct disk *disk, struct disk_file *file,
                      const struct alloc *alloc, uint32_t page_bytes, uint64_t page_count)
{
    *s = (struct walk_source){.disk = disk,
                              .file = file,
                              .alloc = alloc,
                              .page_bytes = page_bytes,
                              .page_count = page_count};
    s->window_pages = pages_of_window(page_bytes, page_count);
    for (unsigned i = 0; i < WALK_WINDOW_COUNT; i++) {
        s->window[i].data = alloc_new(alloc, window_bytes(s));
        if (s->window[i].data == NULL) return E_NOMEM;
    }
    return 0;
}

void walk__source_deinit(struct walk_source *s)
{
    if (s->alloc == NULL) return;
    for (unsigned i = 0; i < WALK_WINDOW_COUNT; i++)
        alloc_free(s->alloc, s->window[i].data, window_bytes(s));
    alloc_free(s->alloc, s->run, s->run_bytes);
}

static int read_exactly(struct walk_source *s, uint64_t first, uint64_t count, uint8_t *data)
{
    ASSERT(first < s->page_count && count <= s->page_count - first);
    size_t got = 0, len = (size_t)count * s->page_bytes;
    int rc = s->disk->read(s->disk->arg, s->file, first * s->page_bytes, data, len, &got);
    if (rc < 0) return rc;
    return got == len ? 0 : E_IO; /* somebody made the file shorter */
}

static bool holds(const struct walk_window *w, uint64_t first, uint64_t count)
{
    return first >= w->first_page && first + count <= w->first_page + w->page_count;
}

/* The window to refill for `first`, and how many pages to read. */
static struct walk_window *choose(struct walk_source *s, uint64_t first, uint32_t *pages)
{
    struct walk_window *oldest = &s->window[0];
    for (unsigned i = 0; i < WALK_WINDOW_COUNT; i++) {
        struct walk_window *w = &s->window[i];
        if (w->page_count != 0 && w->first_page + w->page_count == first) {
            *pages = w->page_count * 2;
            return w;
        }
        if (w->used_at < oldest->used_at) oldest = w;
    }
    *pages = WALK_WINDOW_BYTES_FIRST / s->page_bytes;
    if (*pages == 0) *pages = 1;
    return oldest;
}

static int fill(struct walk_source *s, uint64_t first, uint64_t count, struct walk_window **out)
{
    uint32_t pages = 0, most = s->window_pages;
    struct walk_window *w = choose(s, first, &pages);
    if (pages < count) pages = (uint32_t)count;
    if (pages > most) pages = most;
    if (pages > s->page_count - first) pages = (uint32_t)(s->page_count - first);
    w->page_count = 0;
    int rc = read_exactly(s, first, pages, w->data);
    if (rc < 0) return rc;
    w->first_page = first;
    w->page_count = pages;
    *out = w;
    return 0;
}

static int long_run(struct walk_source *s, uint64_t first, uint64_t count, const uint8_t **out)
{
    size_t len = (size_t)count * s->page_bytes;
    if (len > s->run_bytes) {
        uint8_t *grown = s->alloc->resize(s->alloc->arg, s->run, s->run_bytes, len);
        if (grown == NULL) return E_NOMEM;
        s->run = grown;
        s->run_bytes = len;
    }
    int rc = read_exactly(s, first, count, s->run);
    if (rc == 0) *out = s->run;
    return rc;
}

int walk__pages(struct walk_source *s, uint64_t first, uint64_t count, const uint8_t **out)
{
    ASSERT(count > 0);
    if (count > s->window_pages) return long_run(s, first, count, out);
    struct walk_window *w = NULL;
    for (unsigned i = 0; i < WALK_WINDOW_COUNT && w == NULL; i++) {
        if (holds(&s->window[i], first, count)) w = &s->window[i];
    }
    if (w == NULL) {
        int rc = fill(s, first, count, &w);
        if (rc < 0) return rc;
    }
    w->used_at = ++s->clock;
    *out = w->data + (first - w->first_page) * s->page_bytes;
    return 0;
}
