/* Inside simdisk*.c: the state of a simulated disk. */
#ifndef TEST_LIB_SIMDISK_INT_H
#define TEST_LIB_SIMDISK_INT_H

#include <pthread.h>

#include "simdisk.h"

enum { SIM_PAGE_BYTES = 4096, SIM_PATH_BYTES_MAX = 4096 };

/* A page of a file, shared between images until one of them writes; NULL stands for zeros. */
struct sim_page {
    _Atomic unsigned refs;
    uint8_t data[SIM_PAGE_BYTES];
};

struct sim_entry {
    char *name;
    size_t node; /* index of the node it names */
};

/* A file or a folder; named by its index, which is the same in an image and in all later images of
 * it. */
struct sim_node {
    bool used;
    bool is_dir;
    uint32_t mode;
    uint64_t size_bytes;
    struct sim_page **pages; /* files */
    size_t page_count;
    struct sim_entry *entries; /* folders */
    size_t entry_count;
};

/* One state of the whole disk; node 0 is the root folder. */
struct sim_image {
    struct sim_node *nodes;
    size_t node_count;
};

/* What the trace keeps of an operation: enough to do it again on an image. */
struct sim_record {
    enum simdisk_kind kind;
    char *path;
    char *path_to;
    size_t node;    /* the file, or the folder that holds the name (or that is synced) */
    char *name;     /* in folder `node` */
    size_t node_to; /* RENAME: the folder that gets the name */
    char *name_to;
    size_t child; /* CREATE, MKDIR: the node that came into being */
    uint32_t mode;
    uint64_t offset;
    uint8_t *data;
    size_t len;
};

struct disk_file {
    size_t node;
    bool writable;
    bool locked;
    char *path;
    struct disk_file *next; /* open handles of the disk */
};

struct simdisk {
    struct disk face;
    pthread_mutex_t mutex;
    pthread_cond_t unlocked;
    struct sim_image base; /* durable, before the trace */
    struct sim_image now;
    struct sim_record *trace;
    size_t trace_count;
    size_t trace_cap;
    struct disk_file *open;
    struct simdisk_fault fault;
    size_t fault_seen; /* operations counted since it was set */
    size_t fault_struck;
};

void *sim_alloc(size_t bytes); /* zeroed; aborts without memory */
char *sim_strdup(const char *text);

/* --- images (simdisk_image.c) ----------------------------------------------------------------- */

void sim_image_init(struct sim_image *im);
void sim_image_deinit(struct sim_image *im);
void sim_image_copy(struct sim_image *to, const struct sim_image *from);
/* The index of a new node. */
size_t sim_node_add(struct sim_image *im, bool is_dir, uint32_t mode);
/* Makes node `at` exist (as one that was added in another image). */
void sim_node_ensure(struct sim_image *im, size_t at, bool is_dir, uint32_t mode);
void sim_file_write(struct sim_node *n, uint64_t offset, const uint8_t *data, size_t len);
size_t sim_file_read(const struct sim_node *n, uint64_t offset, uint8_t *data, size_t len);
void sim_file_resize(struct sim_node *n, uint64_t size_bytes);
/* NULL when the folder has no such name. */
struct sim_entry *sim_entry_find(const struct sim_node *dir, const char *name);
void sim_entry_set(struct sim_node *dir, const char *name, size_t node);
void sim_entry_remove(struct sim_node *dir, const char *name);

/* Does a traced operation again; entry operations that find no entry do nothing. */
void sim_image_apply(struct sim_image *im, const struct sim_record *r);

/* --- for simdisk_load() (simdisk.c) ----------------------------------------------------------- */

/* Puts a part of a file's content in place, durable at once; offset 0 makes it anew with
 * `size_bytes`. */
void simdisk__put_page(struct simdisk *d, const char *path, uint64_t size_bytes, uint64_t offset,
                       struct bytes content);
void simdisk__put_dir(struct simdisk *d, const char *path);

#endif
