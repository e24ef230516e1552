/* States of a simulated disk: nodes, sparse pages shared by reference count, folder entries. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simdisk_int.h"

void *sim_alloc(size_t bytes)
{
    void *block = calloc(1, bytes == 0 ? 1 : bytes);
    if (block == NULL) {
        (void)fprintf(stderr, "simdisk: out of memory\n");
        abort();
    }
    return block;
}

char *sim_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(sim_alloc(bytes), text, bytes);
}

/* --- pages ------------------------------------------------------------------------------------ */

static void page_unref(struct sim_page *p)
{
    if (p != NULL && atomic_fetch_sub(&p->refs, 1) == 1) free(p);
}

/* The page, made writable: present and not shared. */
static struct sim_page *page_own(struct sim_page **slot)
{
    struct sim_page *p = *slot;
    if (p != NULL && atomic_load(&p->refs) == 1) return p;
    struct sim_page *own = sim_alloc(sizeof *own);
    atomic_init(&own->refs, 1);
    if (p != NULL) memcpy(own->data, p->data, sizeof own->data);
    page_unref(p);
    *slot = own;
    return own;
}

void sim_file_resize(struct sim_node *n, uint64_t size_bytes)
{
    size_t count = (size_t)((size_bytes + SIM_PAGE_BYTES - 1) / SIM_PAGE_BYTES);
    for (size_t i = count; i < n->page_count; i++) {
        page_unref(n->pages[i]);
    }
    if (count != n->page_count) {
        struct sim_page **pages = sim_alloc(count * sizeof *pages);
        size_t kept = count < n->page_count ? count : n->page_count;
        if (kept > 0) memcpy(pages, n->pages, kept * sizeof *pages);
        free(n->pages);
        n->pages = pages;
        n->page_count = count;
    }
    size_t tail = size_bytes %
                  SIM_PAGE_BYTES; /* what is cut off must read as zeros when the file grows again */
    if (size_bytes < n->size_bytes && tail != 0 && n->pages[count - 1] != NULL) {
        memset(page_own(&n->pages[count - 1])->data + tail, 0, SIM_PAGE_BYTES - tail);
    }
    n->size_bytes = size_bytes;
}

void sim_file_write(struct sim_node *n, uint64_t offset, const uint8_t *data, size_t len)
{
    if (offset + len > n->size_bytes && len > 0) sim_file_resize(n, offset + len);
    while (len > 0) {
        size_t in_page = offset % SIM_PAGE_BYTES;
        size_t part = SIM_PAGE_BYTES - in_page < len ? SIM_PAGE_BYTES - in_page : len;
        memcpy(page_own(&n->pages[offset / SIM_PAGE_BYTES])->data + in_page, data, part);
        offset += part;
        data += part;
        len -= part;
    }
}

size_t sim_file_read(const struct sim_node *n, uint64_t offset, uint8_t *data, size_t len)
{
    if (offset >= n->size_bytes) return 0;
    if (len > n->size_bytes - offset) len = (size_t)(n->size_bytes - offset);
    for (size_t done = 0; done < len;) {
        size_t in_page = (offset + done) % SIM_PAGE_BYTES;
        size_t part = SIM_PAGE_BYTES - in_page < len - done ? SIM_PAGE_BYTES - in_page : len - done;
        const struct sim_page *p = n->pages[(offset + done) / SIM_PAGE_BYTES];
        if (p == NULL) {
            memset(data + done, 0, part);
        } else {
            memcpy(data + done, p->data + in_page, part);
        }
        done += part;
    }
    return len;
}

/* --- entries ---------------------------------------------------------------------------------- */

struct sim_entry *sim_entry_find(const struct sim_node *dir, const char *name)
{
    for (size_t i = 0; i < dir->entry_count; i++) {
        if (strcmp(dir->entries[i].name, name) == 0) return &dir->entries[i];
    }
    return NULL;
}

void sim_entry_set(struct sim_node *dir, const char *name, size_t node)
{
    struct sim_entry *e = sim_entry_find(dir, name);
    if (e == NULL) {
        struct sim_entry *grown = realloc(dir->entries, (dir->entry_count + 1) * sizeof *grown);
        if (grown == NULL) abort();
        dir->entries = grown;
        e = &grown[dir->entry_count++];
        e->name = sim_strdup(name);
    }
    e->node = node;
}

void sim_entry_remove(struct sim_node *dir, const char *name)
{
    struct sim_entry *e = sim_entry_find(dir, name);
    if (e == NULL) return;
    free(e->name);
    *e = dir->entries[--dir->entry_count];
}

/* --- images ----------------------------------------------------------------------------------- */

void sim_node_ensure(struct sim_image *im, size_t at, bool is_dir, uint32_t mode)
{
    if (at >= im->node_count) {
        struct sim_node *grown = realloc(im->nodes, (at + 1) * sizeof *grown);
        if (grown == NULL) abort();
        memset(grown + im->node_count, 0, (at + 1 - im->node_count) * sizeof *grown);
        im->nodes = grown;
        im->node_count = at + 1;
    }
    struct sim_node *n = &im->nodes[at];
    if (n->used) return;
    *n = (struct sim_node){.used = true, .is_dir = is_dir, .mode = mode};
}

size_t sim_node_add(struct sim_image *im, bool is_dir, uint32_t mode)
{
    size_t at = im->node_count;
    sim_node_ensure(im, at, is_dir, mode);
    return at;
}

void sim_image_init(struct sim_image *im)
{
    *im = (struct sim_image){0};
    (void)sim_node_add(im, true, 0755);
}

static void node_deinit(struct sim_node *n)
{
    for (size_t i = 0; i < n->page_count; i++) {
        page_unref(n->pages[i]);
    }
    for (size_t i = 0; i < n->entry_count; i++) {
        free(n->entries[i].name);
    }
    free(n->pages);
    free(n->entries);
}

void sim_image_deinit(struct sim_image *im)
{
    for (size_t i = 0; i < im->node_count; i++) {
        node_deinit(&im->nodes[i]);
    }
    free(im->nodes);
    *im = (struct sim_image){0};
}

static void node_copy(struct sim_node *to, const struct sim_node *from)
{
    *to = *from;
    to->pages = sim_alloc(from->page_count * sizeof *to->pages);
    for (size_t i = 0; i < from->page_count; i++) {
        to->pages[i] = from->pages[i];
        if (to->pages[i] != NULL) atomic_fetch_add(&to->pages[i]->refs, 1);
    }
    to->entries = sim_alloc(from->entry_count * sizeof *to->entries);
    for (size_t i = 0; i < from->entry_count; i++) {
        to->entries[i].name = sim_strdup(from->entries[i].name);
        to->entries[i].node = from->entries[i].node;
    }
}

void sim_image_copy(struct sim_image *to, const struct sim_image *from)
{
    to->nodes = sim_alloc(from->node_count * sizeof *to->nodes);
    to->node_count = from->node_count;
    for (size_t i = 0; i < from->node_count; i++) {
        node_copy(&to->nodes[i], &from->nodes[i]);
    }
}

static void apply_rename(struct sim_image *im, const struct sim_record *r)
{
    struct sim_entry *e = sim_entry_find(&im->nodes[r->node], r->name);
    if (e == NULL) return;
    size_t node = e->node;
    sim_entry_remove(&im->nodes[r->node], r->name);
    sim_entry_set(&im->nodes[r->node_to], r->name_to, node);
}

static void apply_create(struct sim_image *im, const struct sim_record *r)
{
    sim_node_ensure(im, r->child, r->kind == SIMDISK_MKDIR, r->mode);
    sim_entry_set(&im->nodes[r->node], r->name, r->child);
}

void sim_image_apply(struct sim_image *im, const struct sim_record *r)
{
    switch (r->kind) {
    case SIMDISK_CREATE:
    case SIMDISK_MKDIR: apply_create(im, r); break;
    case SIMDISK_WRITE: sim_file_write(&im->nodes[r->node], r->offset, r->data, r->len); break;
    case SIMDISK_TRUNCATE: sim_file_resize(&im->nodes[r->node], r->offset); break;
    case SIMDISK_ALLOCATE:
        if (im->nodes[r->node].size_bytes < r->offset) {
            sim_file_resize(&im->nodes[r->node], r->offset);
        }
        break;
    case SIMDISK_RENAME: apply_rename(im, r); break;
    case SIMDISK_UNLINK:
    case SIMDISK_RMDIR: sim_entry_remove(&im->nodes[r->node], r->name); break;
    case SIMDISK_SYNC:
    case SIMDISK_SYNC_DIR:
    case SIMDISK_MARK: break;
    }
}
