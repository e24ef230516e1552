/* A member as Go's encoding/json writes and reads it, and its id. */
#include "membership/member.h"

#include "base/assert.h"
#include "base/endian.h"
#include "base/err.h"
#include "base/json.h"
#include "base/sha1.h"
#include "base/text.h"

/* ---- writing -------------------------------------------------------------------------------------- */

static int put_urls(const struct bytes *urls, size_t count, struct buf *out)
{
    if (count == 0) return buf_put_str(out, "null");
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = buf_put_u8(out, i == 0 ? '[' : ',');
        if (rc == 0) rc = text_put_json(out, urls[i]);
    }
    return rc < 0 ? rc : buf_put_u8(out, ']');
}

/* All but the closing brace. */
static int put_fields(const struct member *m, struct buf *out)
{
    int rc = buf_printf(out, "{\"id\":%llu,\"peerURLs\":", (unsigned long long)m->id);
    if (rc == 0) rc = put_urls(m->peer_urls, m->peer_url_count, out);
    if (rc == 0 && m->is_learner) rc = buf_put_str(out, ",\"isLearner\":true");
    if (rc == 0 && m->name.len > 0) {
        rc = buf_put_str(out, ",\"name\":");
        if (rc == 0) rc = text_put_json(out, m->name);
    }
    if (rc == 0 && m->client_url_count > 0) {
        rc = buf_put_str(out, ",\"clientURLs\":");
        if (rc == 0) rc = put_urls(m->client_urls, m->client_url_count, out);
    }
    return rc;
}

int member_put_context(const struct member_context *c, struct buf *out)
{
    size_t len = out->len;
    int rc = put_fields(&c->member, out);
    if (rc == 0 && c->is_promote) rc = buf_put_str(out, ",\"isPromote\":true");
    if (rc == 0) rc = buf_put_u8(out, '}');
    if (rc < 0) out->len = len;
    return rc;
}

int member_put_json(const struct member *m, struct buf *out)
{
    return member_put_context(&(struct member_context){.member = *m}, out);
}

/* ---- reading -------------------------------------------------------------------------------------- */

struct decoder {
    struct json_reader json;
    struct arena *arena;
    struct alloc alloc; /* the arena's face */
    struct member_context value;
};

static int take_text(struct decoder *d, struct bytes raw, struct bytes *out)
{
    struct buf text;
    buf_init(&text, &d->alloc, SIZE_MAX / 2);
    int rc = json_unquote(raw, &text);
    if (rc < 0) return rc;
    *out = buf_bytes(&text);
    return 0;
}

/* Counts the elements of the array that was just opened; the reader comes back to where it is. */
static int count_elements(struct decoder *d, size_t *count)
{
    struct json_reader ahead = d->json;
    struct json_token t;
    *count = 0;
    for (;;) {
        int rc = json_next(&ahead, &t);
        if (rc < 0) return rc;
        if (t.kind == JSON_ARRAY_END) return 0;
        if (t.kind != JSON_STRING && t.kind != JSON_NULL) return E_INVAL;
        if (++*count > MEMBER_URLS_MAX) return E_INVAL;
    }
}

static int take_urls(struct decoder *d, const struct json_token *token, const struct bytes **out,
                     size_t *out_count)
{
    size_t count = 0;
    *out_count = 0;
    if (token->kind != JSON_ARRAY) return token->kind == JSON_NULL ? 0 : E_INVAL;
    int rc = count_elements(d, &count);
    if (rc < 0) return rc;
    struct bytes *urls = arena_zero(d->arena, count * sizeof *urls);
    if (urls == NULL) return E_NOMEM;
    for (size_t i = 0; i <= count; i++) {
        struct json_token t;
        rc = json_next(&d->json, &t);
        ASSERT(rc == 0);
        if (t.kind != JSON_STRING) continue;
        rc = take_text(d, t.text, &urls[i]);
        if (rc < 0) return rc;
    }
    *out = urls;
    *out_count = count;
    return 0;
}

static int take_bool(const struct json_token *token, bool *out)
{
    if (token->kind == JSON_BOOL) *out = token->truth;
    return token->kind == JSON_BOOL || token->kind == JSON_NULL ? 0 : E_INVAL;
}

/* Takes the value of `key`, which begins with `token`. */
static int take_field(struct decoder *d, const struct json_token *key,
                      const struct json_token *token)
{
    struct member *m = &d->value.member;
    bool null = token->kind == JSON_NULL;
    if (json_key_is(key, "id")) return null ? 0 : json_uint(token, &m->id);
    if (json_key_is(key, "isLearner")) return take_bool(token, &m->is_learner);
    if (json_key_is(key, "isPromote")) return take_bool(token, &d->value.is_promote);
    if (json_key_is(key, "peerURLs")) {
        return take_urls(d, token, &m->peer_urls, &m->peer_url_count);
    }
    if (json_key_is(key, "clientURLs")) {
        return take_urls(d, token, &m->client_urls, &m->client_url_count);
    }
    if (!json_key_is(key, "name")) return json_skip(&d->json, token);
    if (token->kind == JSON_STRING) return take_text(d, token->text, &m->name);
    return null ? 0 : E_INVAL;
}

static int take_object(struct decoder *d)
{
    struct json_token key;
    struct json_token value;
    int rc = json_next(&d->json, &key);
    if (rc < 0) return rc;
    if (key.kind != JSON_OBJECT) return E_INVAL;
    for (;;) {
        rc = json_next(&d->json, &key);
        if (rc < 0) return rc;
        if (key.kind == JSON_OBJECT_END) break;
        rc = json_next(&d->json, &value);
        if (rc == 0) rc = take_field(d, &key, &value);
        if (rc < 0) return rc;
    }
    return json_next(&d->json, &key);
}

int member_decode(struct bytes json, struct arena *arena, struct member_context *out,
                  struct errmsg *em)
{
    struct decoder d = {.arena = arena, .alloc = arena_alloc(arena)};
    json_init(&d.json, json);
    int rc = take_object(&d);
    if (rc == E_NOMEM) return rc;
    if (rc < 0) {
        errmsg_set(em, "not a member as JSON at byte %zu", json_offset(&d.json));
        return E_INVAL;
    }
    *out = d.value;
    return 0;
}

/* ---- ids ------------------------------------------------------------------------------------------ */

/* The URL that comes behind (`last`, `last_i`) in order of text, then place; `count` when none does. */
static size_t next_url(const struct bytes *urls, size_t count, const struct bytes *last,
                       size_t last_i)
{
    size_t best = count;
    for (size_t i = 0; i < count; i++) {
        int c = last == NULL ? 1 : bytes_cmp(urls[i], *last);
        bool behind = c > 0 || (c == 0 && i > last_i);
        if (behind && (best == count || bytes_cmp(urls[i], urls[best]) < 0)) best = i;
    }
    return best;
}

uint64_t member_id(const struct bytes *peer_urls, size_t peer_url_count, struct bytes token,
                   int64_t now_s)
{
    struct sha1 hash;
    uint8_t out[SHA1_BYTES];
    sha1_init(&hash);
    size_t at = next_url(peer_urls, peer_url_count, NULL, 0);
    while (at < peer_url_count) {
        sha1_update(&hash, peer_urls[at]);
        at = next_url(peer_urls, peer_url_count, &peer_urls[at], at);
    }
    sha1_update(&hash, token);
    if (now_s >= 0) {
        char text[24];
        size_t at_digit = sizeof text;
        uint64_t v = (uint64_t)now_s;
        do {
            text[--at_digit] = (char)('0' + v % 10);
            v /= 10;
        } while (v > 0);
        sha1_update(&hash, bytes_of(text + at_digit, sizeof text - at_digit));
    }
    sha1_final(&hash, out);
    return endian_load_be64(out);
}

size_t member_id_text(uint64_t id, char out[MEMBER_ID_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    size_t len = id == 0 ? 1 : (size_t)(64 - __builtin_clzll(id) + 3) / 4;
    for (size_t i = 0; i < len; i++) {
        out[i] = digits[id >> 4 * (len - 1 - i) & 15];
    }
    out[len] = 0;
    return len;
}

int member_id_parse(struct bytes text, uint64_t *out)
{
    return text_parse_uint(text, 16, out, NULL);
}
