/* The JSON of members and conf states: any bytes are refused, or read, written and read again to the same.
 *
 * Built with PLANT_OVERFLOW it holds a bug to be found. */
#include <stdint.h>

#include "base/assert.h"
#include "base/json.h"
#include "membership/membership.h"
#include "os/heap.h"

struct pair {
    struct arena arena;
    struct buf first;
    struct buf second;
};

static void pair_init(struct pair *p)
{
    arena_init(&p->arena, &os_heap, 1u << 28);
    buf_init(&p->first, &os_heap, 1u << 28);
    buf_init(&p->second, &os_heap, 1u << 28);
}

static void pair_deinit(struct pair *p)
{
    arena_deinit(&p->arena);
    buf_deinit(&p->first);
    buf_deinit(&p->second);
}

#ifdef PLANT_OVERFLOW
/* The bug: a name is taken to be short. */
static void planted(const struct member *m)
{
    uint8_t name[8];
    if (m->name.len > 0) memcpy(name, m->name.data, m->name.len);
    ASSERT(m->name.len == 0 || name[0] == m->name.data[0]);
}
#else
static void planted(const struct member *m)
{
    (void)m;
}
#endif

static void check_member(struct bytes in)
{
    struct pair p;
    struct member_context c = {0};
    pair_init(&p);
    if (member_decode(in, &p.arena, &c, NULL) == 0) {
        planted(&c.member);
        int rc = member_put_context(&c, &p.first);
        ASSERT(rc == 0);
        struct member_context again = {0};
        rc = member_decode(buf_bytes(&p.first), &p.arena, &again, NULL);
        ASSERT(rc == 0);
        rc = member_put_context(&again, &p.second);
        ASSERT(rc == 0);
        ASSERT(bytes_eq(buf_bytes(&p.first), buf_bytes(&p.second)));
    }
    pair_deinit(&p);
}

static void check_conf_state(struct bytes in)
{
    struct pair p;
    struct pb_conf_state cs;
    pair_init(&p);
    if (membership_conf_state_decode(in, &p.arena, &cs) == 0) {
        int rc = membership_conf_state_put(&cs, &p.first);
        ASSERT(rc == 0);
        rc = membership_conf_state_decode(buf_bytes(&p.first), &p.arena, &cs);
        ASSERT(rc == 0);
        rc = membership_conf_state_put(&cs, &p.second);
        ASSERT(rc == 0);
        ASSERT(bytes_eq(buf_bytes(&p.first), buf_bytes(&p.second)));
    }
    pair_deinit(&p);
}

/* All tokens, and the text of each string. */
static void check_tokens(struct bytes in)
{
    struct json_reader r;
    struct json_token t;
    struct buf text;
    buf_init(&text, &os_heap, 1u << 28);
    json_init(&r, in);
    while (json_next(&r, &t) == 0 && t.kind != JSON_END) {
        if (t.kind != JSON_STRING && t.kind != JSON_KEY) continue;
        int rc = json_unquote(t.text, &text);
        ASSERT(rc == 0);
    }
    ASSERT(json_offset(&r) <= in.len);
    buf_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    check_tokens(bytes_of(data, len));
    check_member(bytes_of(data, len));
    check_conf_state(bytes_of(data, len));
    return 0;
}
