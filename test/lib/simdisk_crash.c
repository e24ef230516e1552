/* Crash images: the trace is done again on the durable state, leaving out or tearing what no sync
 * covers.
 *
 * A file operation at place j is covered when a datasync of the same file follows it within the
 * prefix; an entry operation, when a sync_dir of each folder it touches does. Node numbers are
 * those of the trace, so content that was synced survives under whatever name survived. */
#include <stdlib.h>

#include "base/prng.h"
#include "simdisk_int.h"

struct crash {
    const struct simdisk *d;
    size_t prefix;
    enum simdisk_loss loss;
    struct prng prng;
    size_t *synced_until; /* per node: operations before this place are covered */
    size_t *torn_until;   /* per folder: entry operations before this place survived a tear */
};

static bool is_data(enum simdisk_kind k)
{
    return k == SIMDISK_WRITE || k == SIMDISK_TRUNCATE || k == SIMDISK_ALLOCATE;
}

static bool is_sync(enum simdisk_kind k)
{
    return k == SIMDISK_SYNC || k == SIMDISK_SYNC_DIR;
}

static void find_syncs(struct crash *c)
{
    size_t nodes = c->d->now.node_count;
    c->synced_until = sim_alloc(nodes * sizeof *c->synced_until);
    c->torn_until = sim_alloc(nodes * sizeof *c->torn_until);
    for (size_t i = 0; i < c->prefix; i++) {
        const struct sim_record *r = &c->d->trace[i];
        if (is_sync(r->kind)) c->synced_until[r->node] = i;
    }
    for (size_t n = 0; n < nodes; n++) {
        size_t from = c->synced_until[n];
        c->torn_until[n] = from + (size_t)prng_below(&c->prng, c->prefix - from + 1);
    }
}

/* Each sector of the write is on the disk, or not. */
static void apply_torn_write(struct crash *c, struct sim_node *n, const struct sim_record *r)
{
    for (size_t done = 0; done < r->len;) {
        uint64_t at = r->offset + done;
        size_t part = SIMDISK_SECTOR_BYTES - (size_t)(at % SIMDISK_SECTOR_BYTES);
        if (part > r->len - done) part = r->len - done;
        if ((prng_next(&c->prng) >> 63) != 0) sim_file_write(n, at, r->data + done, part);
        done += part;
    }
}

static void apply_data(struct crash *c, struct sim_image *im, size_t i)
{
    const struct sim_record *r = &c->d->trace[i];
    bool covered = i < c->synced_until[r->node];
    if (covered || c->loss == SIMDISK_KEPT) {
        sim_image_apply(im, r);
    } else if (c->loss == SIMDISK_TORN && r->kind == SIMDISK_WRITE) {
        apply_torn_write(c, &im->nodes[r->node], r);
    } else if (c->loss == SIMDISK_TORN && (prng_next(&c->prng) >> 63) != 0) {
        sim_image_apply(im, r);
    }
}

static void apply_entry(struct crash *c, struct sim_image *im, size_t i)
{
    const struct sim_record *r = &c->d->trace[i];
    const size_t *until = c->loss == SIMDISK_TORN ? c->torn_until : c->synced_until;
    bool survives = i < until[r->node];
    if (r->kind == SIMDISK_RENAME) survives = survives && i < until[r->node_to];
    if (survives || c->loss == SIMDISK_KEPT) {
        sim_image_apply(im, r);
    } else if (r->kind == SIMDISK_CREATE || r->kind == SIMDISK_MKDIR) {
        sim_node_ensure(im, r->child, r->kind == SIMDISK_MKDIR,
                        r->mode); /* there, but without a name */
    }
}

struct simdisk *simdisk_crash(struct simdisk *d, size_t prefix, enum simdisk_loss loss,
                              uint64_t seed)
{
    struct simdisk *out = simdisk_new();
    (void)pthread_mutex_lock(&d->mutex);
    if (prefix > d->trace_count) abort();
    struct crash c = {.d = d, .prefix = prefix, .loss = loss};
    prng_init(&c.prng, seed);
    find_syncs(&c);
    struct sim_image im;
    sim_image_copy(&im, &d->base);
    for (size_t i = 0; i < prefix; i++) {
        enum simdisk_kind k = d->trace[i].kind;
        if (is_data(k)) {
            apply_data(&c, &im, i);
        } else if (!is_sync(k) && k != SIMDISK_MARK) {
            apply_entry(&c, &im, i);
        }
    }
    free(c.synced_until);
    free(c.torn_until);
    (void)pthread_mutex_unlock(&d->mutex);
    sim_image_deinit(&out->base);
    sim_image_deinit(&out->now);
    out->base = im;
    sim_image_copy(&out->now, &im);
    return out;
}

struct simdisk *simdisk_copy(struct simdisk *d)
{
    struct simdisk *out = simdisk_new();
    sim_image_deinit(&out->base);
    sim_image_deinit(&out->now);
    (void)pthread_mutex_lock(&d->mutex);
    sim_image_copy(&out->base, &d->now);
    sim_image_copy(&out->now, &d->now);
    (void)pthread_mutex_unlock(&d->mutex);
    return out;
}
