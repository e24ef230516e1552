/* --initial-cluster: who the first members are, and what ids follow from that (disk-format.md 6). */
#include "server/server_int.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/url.h"

enum { CLUSTER_MEMBERS_MAX = RAFT_MEMBERS_MAX };

static struct member *find_name(struct member *members, size_t count, struct bytes name)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes_eq(members[i].name, name)) return &members[i];
    }
    return NULL;
}

static int add_url(struct arena *a, struct member *m, struct bytes url)
{
    struct bytes *urls = arena_new(a, (m->peer_url_count + 1) * sizeof *urls);
    if (urls == NULL) return E_NOMEM;
    for (size_t i = 0; i < m->peer_url_count; i++)
        urls[i] = m->peer_urls[i];
    urls[m->peer_url_count++] = url;
    m->peer_urls = urls;
    return 0;
}

static bool has_url(const struct member *m, struct bytes url)
{
    for (size_t i = 0; i < m->peer_url_count; i++) {
        if (bytes_eq(m->peer_urls[i], url)) return true;
    }
    return false;
}

/* Takes one NAME=URL. */
static int take_pair(const struct config *c, struct arena *a, struct first_cluster *f,
                     const char *pair, struct errmsg *em)
{
    size_t name_len = strcspn(pair, "=");
    struct url u;
    if (pair[name_len] == '\0') {
        errmsg_set(em, "invalid value \"%s\" for flag -initial-cluster: \"%s\" is not NAME=URL",
                   c->initial_cluster, pair);
        return E_CONFIG;
    }
    struct bytes name = bytes_of(pair, name_len);
    struct bytes url = bytes_str(pair + name_len + 1);
    if (url_parse(&u, url, em) < 0) {
        errmsg_prefix(em, "invalid value \"%s\" for flag -initial-cluster", c->initial_cluster);
        return E_CONFIG;
    }
    for (size_t i = 0; i < f->count; i++) {
        if (!has_url(&f->members[i], url)) continue;
        errmsg_set(em, "initial cluster %s has duplicate url", c->initial_cluster);
        return E_CONFIG;
    }
    struct member *m = find_name(f->members, f->count, name);
    if (m == NULL) {
        if (f->count == CLUSTER_MEMBERS_MAX) return E_TOOBIG;
        m = &f->members[f->count++];
        *m = (struct member){.name = name};
    }
    return add_url(a, m, url);
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct member *)a)->id;
    uint64_t y = ((const struct member *)b)->id;
    return (x > y) - (x < y);
}

/* The own entry must be what this member advertises. */
static int check_own(const struct config *c, const struct member *own, struct errmsg *em)
{
    const struct config_list *mine = &c->initial_advertise_peer_urls;
    if (own == NULL) {
        errmsg_set(em, "couldn't find local name \"%s\" in the initial cluster configuration",
                   c->name);
        return E_CONFIG;
    }
    for (size_t i = 0; i < mine->count; i++) {
        if (has_url(own, bytes_str(mine->items[i]))) continue;
        errmsg_set(em, "--initial-advertise-peer-urls has %s but missing from --initial-cluster=%s",
                   mine->items[i], c->initial_cluster);
        return E_CONFIG;
    }
    if (own->peer_url_count > mine->count) {
        errmsg_set(em,
                   "--initial-cluster has more peer URLs for %s than --initial-advertise-peer-urls",
                   c->name);
        return E_CONFIG;
    }
    return 0;
}

static void set_ids(const struct config *c, struct first_cluster *f)
{
    struct bytes token = bytes_str(c->initial_cluster_token);
    for (size_t i = 0; i < f->count; i++) {
        struct member *m = &f->members[i];
        m->id = member_id(m->peer_urls, m->peer_url_count, token, -1);
        if (bytes_eq(m->name, bytes_str(c->name))) f->own_id = m->id;
    }
    qsort(f->members, f->count, sizeof *f->members, by_id);
}

static int cluster_id_of(struct first_cluster *f, const struct alloc *alloc, struct errmsg *em)
{
    struct membership_content content = {.members = f->members, .member_count = f->count};
    struct membership *m = NULL;
    int rc = membership_new(alloc, &content, &m);
    if (rc < 0) {
        errmsg_set(em, "two members of --initial-cluster have the same peer URLs");
        return rc;
    }
    f->cluster_id = membership_cluster_id(m);
    membership_unref(m);
    return 0;
}

int server__first_cluster(const struct config *c, struct arena *arena, struct first_cluster *out,
                          struct errmsg *em)
{
    struct config_list pairs = {NULL, 0};
    struct first_cluster f = {
        .members = arena_zero(arena, CLUSTER_MEMBERS_MAX * sizeof *f.members)};
    if (f.members == NULL) return E_NOMEM;
    int rc = config_split(arena, c->initial_cluster, &pairs);
    for (size_t i = 0; i < pairs.count && rc == 0; i++)
        rc = take_pair(c, arena, &f, pairs.items[i], em);
    if (rc == 0) rc = check_own(c, find_name(f.members, f.count, bytes_str(c->name)), em);
    if (rc == 0 && f.count > 1) {
        errmsg_set(em,
                   "--initial-cluster names %zu members, and this server runs alone so far; name "
                   "only \"%s\"",
                   f.count, c->name);
        rc = E_UNSUPPORTED;
    }
    if (rc < 0) return rc;
    set_ids(c, &f);
    rc = cluster_id_of(&f, arena->alloc, em);
    if (rc == 0) *out = f;
    return rc;
}
