/* Versions: made, shared, read. */
#include "membership/membership.h"

#include "base/assert.h"
#include "base/endian.h"
#include "base/err.h"
#include "base/sha1.h"
#include "membership/membership_int.h"

/* ---- life ----------------------------------------------------------------------------------------- */

int membership__new(const struct alloc *alloc, size_t member_room, size_t removed_room,
                    struct membership **out)
{
    struct membership *v = alloc_new(alloc, sizeof *v);
    if (v == NULL) return E_NOMEM;
    *v = (struct membership){
        .alloc = alloc, .member_room = member_room, .removed_room = removed_room};
    atomic_init(&v->refs, 1);
    arena_init(&v->arena, alloc, SIZE_MAX / 2);
    v->members = arena_zero(&v->arena, member_room * sizeof *v->members);
    v->removed = arena_zero(&v->arena, removed_room * sizeof *v->removed);
    if (v->members == NULL || v->removed == NULL) {
        membership_unref(v);
        return E_NOMEM;
    }
    *out = v;
    return 0;
}

struct membership *membership_ref(struct membership *m)
{
    if (m != NULL) {
        unsigned before = atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
        ASSERT(before > 0);
    }
    return m;
}

void membership_unref(struct membership *m)
{
    if (m == NULL) return;
    unsigned before = atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel);
    ASSERT(before > 0);
    if (before > 1) return;
    arena_deinit(&m->arena);
    alloc_free(m->alloc, m, sizeof *m);
}

/* ---- filling -------------------------------------------------------------------------------------- */

int membership__copy_text(struct membership *v, struct bytes text, struct bytes *out)
{
    struct bytes copy = arena_copy(&v->arena, text);
    if (copy.data == NULL) return E_NOMEM;
    *out = copy;
    return 0;
}

int membership__copy_urls(struct membership *v, const struct bytes *urls, size_t count,
                          const struct bytes **out)
{
    struct bytes *copy = arena_zero(&v->arena, count * sizeof *copy);
    if (copy == NULL) return E_NOMEM;
    for (size_t i = 0; i < count; i++) {
        int rc = membership__copy_text(v, urls[i], &copy[i]);
        if (rc < 0) return rc;
    }
    *out = copy;
    return 0;
}

/* The place of the first member whose id is not below `id`. */
static size_t member_place(const struct membership *m, uint64_t id)
{
    size_t low = 0;
    size_t high = m->member_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->members[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static size_t removed_place(const struct membership *m, uint64_t id)
{
    size_t low = 0;
    size_t high = m->removed_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->removed[middle] < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int membership__add(struct membership *v, const struct member *member)
{
    ASSERT(v->member_count < v->member_room);
    size_t at = member_place(v, member->id);
    if (at < v->member_count && v->members[at].id == member->id) return E_INVAL;
    struct member copy = *member;
    int rc = membership__copy_text(v, member->name, &copy.name);
    if (rc == 0) {
        rc = membership__copy_urls(v, member->peer_urls, member->peer_url_count, &copy.peer_urls);
    }
    if (rc == 0) {
        rc = membership__copy_urls(v, member->client_urls, member->client_url_count,
                                   &copy.client_urls);
    }
    if (rc < 0) return rc;
    memmove(v->members + at + 1, v->members + at, (v->member_count - at) * sizeof *v->members);
    v->members[at] = copy;
    v->member_count++;
    return 0;
}

void membership__add_removed(struct membership *v, uint64_t id)
{
    size_t at = removed_place(v, id);
    if (at < v->removed_count && v->removed[at] == id) return;
    ASSERT(v->removed_count < v->removed_room);
    memmove(v->removed + at + 1, v->removed + at, (v->removed_count - at) * sizeof *v->removed);
    v->removed[at] = id;
    v->removed_count++;
}

void membership__remove(struct membership *v, uint64_t id)
{
    size_t at = member_place(v, id);
    ASSERT(at < v->member_count && v->members[at].id == id);
    v->member_count--;
    memmove(v->members + at, v->members + at + 1, (v->member_count - at) * sizeof *v->members);
    membership__add_removed(v, id);
}

struct member *membership__find(struct membership *v, uint64_t id)
{
    size_t at = member_place(v, id);
    return at < v->member_count && v->members[at].id == id ? &v->members[at] : NULL;
}

/* Copies all that is not a list of members or removed ids. */
static int copy_rest(struct membership *v, struct bytes version,
                     const struct membership_downgrade *downgrade)
{
    int rc = membership__copy_text(v, version, &v->version);
    if (rc < 0) return rc;
    v->downgrade = *downgrade;
    return membership__copy_text(v, downgrade->target, &v->downgrade.target);
}

static int fill(struct membership *v, const struct membership_content *content)
{
    for (size_t i = 0; i < content->member_count; i++) {
        int rc = membership__add(v, &content->members[i]);
        if (rc < 0) return rc;
    }
    for (size_t i = 0; i < content->removed_count; i++) {
        membership__add_removed(v, content->removed[i]);
    }
    return copy_rest(v, content->version, &content->downgrade);
}

/* A version with some room beyond its content. */
static int new_with_room(const struct alloc *alloc, const struct membership_content *content,
                         size_t more, struct membership **out)
{
    struct membership *v = NULL;
    int rc =
        membership__new(alloc, content->member_count + more, content->removed_count + more, &v);
    if (rc < 0) return rc;
    rc = fill(v, content);
    if (rc < 0) {
        membership_unref(v);
        return rc;
    }
    *out = v;
    return 0;
}

int membership_new(const struct alloc *alloc, const struct membership_content *content,
                   struct membership **out)
{
    return new_with_room(alloc, content, 0, out);
}

int membership__copy(const struct membership *m, struct membership **out)
{
    const struct membership_content content = {
        .members = m->members,
        .member_count = m->member_count,
        .removed = m->removed,
        .removed_count = m->removed_count,
        .version = m->version,
        .downgrade = m->downgrade,
    };
    return new_with_room(m->alloc, &content, 1, out);
}

/* ---- reading -------------------------------------------------------------------------------------- */

size_t membership_count(const struct membership *m)
{
    return m->member_count;
}

const struct member *membership_at(const struct membership *m, size_t i)
{
    ASSERT(i < m->member_count);
    return &m->members[i];
}

const struct member *membership_find(const struct membership *m, uint64_t id)
{
    size_t at = member_place(m, id);
    return at < m->member_count && m->members[at].id == id ? &m->members[at] : NULL;
}

size_t membership_voter_count(const struct membership *m)
{
    size_t count = 0;
    for (size_t i = 0; i < m->member_count; i++) {
        count += !m->members[i].is_learner;
    }
    return count;
}

size_t membership_removed_count(const struct membership *m)
{
    return m->removed_count;
}

uint64_t membership_removed_at(const struct membership *m, size_t i)
{
    ASSERT(i < m->removed_count);
    return m->removed[i];
}

bool membership_is_removed(const struct membership *m, uint64_t id)
{
    size_t at = removed_place(m, id);
    return at < m->removed_count && m->removed[at] == id;
}

struct bytes membership_version(const struct membership *m)
{
    return m->version;
}

struct membership_downgrade membership_downgrade(const struct membership *m)
{
    return m->downgrade;
}

uint64_t membership_cluster_id(const struct membership *m)
{
    struct sha1 hash;
    uint8_t out[SHA1_BYTES];
    sha1_init(&hash);
    for (size_t i = 0; i < m->member_count; i++) {
        uint8_t id[8];
        endian_store_be64(id, m->members[i].id);
        sha1_update(&hash, bytes_of(id, sizeof id));
    }
    sha1_final(&hash, out);
    return endian_load_be64(out);
}

/* ---- judging requests ----------------------------------------------------------------------------- */

/* Whether `started` of `voters` are a quorum. */
static int enough(size_t started, size_t voters)
{
    return started < voters / 2 + 1 ? E_MEMBER_NOT_ENOUGH_STARTED : 0;
}

/* Voters other than `without` that have started. */
static size_t started_count(const struct membership *m, uint64_t without)
{
    size_t count = 0;
    for (size_t i = 0; i < m->member_count; i++) {
        const struct member *member = &m->members[i];
        count += !member->is_learner && member->name.len > 0 && member->id != without;
    }
    return count;
}

int membership_may_add_voter(const struct membership *m)
{
    size_t voters = membership_voter_count(m) + 1;
    size_t started = started_count(m, 0);
    /* One member may become two: else no cluster could ever grow. */
    if (started == 1 && voters == 2) return 0;
    return enough(started, voters);
}

int membership_may_remove(const struct membership *m, uint64_t id)
{
    const struct member *member = membership_find(m, id);
    if (member != NULL && member->is_learner) return 0;
    return enough(started_count(m, id), membership_voter_count(m) - (member != NULL));
}

int membership_may_promote(const struct membership *m)
{
    /* The learner counts as a voter that has started. */
    return enough(started_count(m, 0) + 1, membership_voter_count(m) + 1);
}
