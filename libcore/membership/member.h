/* One member: its value, its JSON, its id.
 *
 * JSON is Go's, byte for byte: rows of the members table, contexts of conf changes, the body of /members.
 *
 *   {"id":N,"peerURLs":["..."],"isLearner":true,"name":"...","clientURLs":["..."]}
 *
 * id and peerURLs (null without any) always, the others only when set. */
#ifndef MEMBERSHIP_MEMBER_H
#define MEMBERSHIP_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/errmsg.h"

struct member {
    uint64_t id;
    struct bytes name; /* empty: has not started yet */
    const struct bytes *peer_urls;
    size_t peer_url_count;
    const struct bytes *client_urls;
    size_t client_url_count;
    bool is_learner;
};

/* What the context of a conf change says. */
struct member_context {
    struct member member;
    bool is_promote; /* not a new member but a learner that becomes a voter */
};

/* Bounds of what is read back: more than any real cluster has. */
enum { MEMBER_URLS_MAX = 1024 };

/* Appends the JSON. Errors as buf_reserve(). */
int member_put_json(const struct member *m, struct buf *out);
/* Appends the context of a conf change: the same with `"isPromote":true` at the end when it is one. */
int member_put_context(const struct member_context *c, struct buf *out);

/* Reads either; unknown names are skipped, names compare without case, a null list is an empty one (all as
 * Go). Strings live in `arena`. Errors: E_INVAL no such JSON, `em` says where; E_NOMEM. */
int member_decode(struct bytes json, struct arena *arena, struct member_context *out,
                  struct errmsg *em);

/* The id of a new member: SHA-1 over its sorted URLs, `token`, and, when it is added by a request (then the
 * token is empty), the decimal Unix time; first 8 bytes, big-endian. `now_s` < 0: none. */
uint64_t member_id(const struct bytes *peer_urls, size_t peer_url_count, struct bytes token,
                   int64_t now_s);

/* Ids as text: lower-case hex without leading zeros, zero-terminated. Returns the length. */
enum { MEMBER_ID_TEXT_BYTES = 17 };
size_t member_id_text(uint64_t id, char out[MEMBER_ID_TEXT_BYTES]);
/* 1 to 16 hex digits of either case (leading zeros are fine). Errors: E_INVAL. */
int member_id_parse(struct bytes text, uint64_t *out);

#endif
