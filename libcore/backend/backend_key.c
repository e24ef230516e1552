/* Stand-ins for keys that LMDB cannot hold; see backend_key.h for the form. */
#include "backend/backend_key.h"

#include <sodium.h>

#include "base/assert.h"
#include "base/endian.h"
#include "base/err.h"

_Static_assert(KEY_HASH_BYTES == crypto_hash_sha256_BYTES, "the hash is a whole SHA-256");
_Static_assert(KEY_HEAD_BYTES + KEY_HASH_BYTES == KEY_STORED_BYTES_MAX, "a stand-in fills a key");

static bool needs_stand_in(size_t len)
{
    return len == 0 || len > KEY_PLAIN_BYTES_MAX;
}

static void make_stand_in(uint8_t *out, struct bytes key)
{
    ASSERT(needs_stand_in(key.len));
    memset(out, 0, KEY_HEAD_BYTES);
    if (key.len != 0) memcpy(out, key.data, KEY_HEAD_BYTES);
    (void)crypto_hash_sha256(out + KEY_HEAD_BYTES, key.data, key.len);
}

void backend__key_store(struct stored_key *s, struct bytes key)
{
    s->is_stand_in = needs_stand_in(key.len);
    s->key = key;
    if (!s->is_stand_in) return;
    make_stand_in(s->stand_in, key);
    s->key = bytes_of(s->stand_in, sizeof s->stand_in);
}

int backend__key_load(struct bytes stored_key, struct bytes stored_value, struct bytes *key,
                      struct bytes *value)
{
    if (stored_key.len != KEY_STORED_BYTES_MAX) {
        *key = stored_key;
        *value = stored_value;
        return 0;
    }
    if (stored_value.len < KEY_LENGTH_BYTES) return E_CORRUPT;
    size_t room = stored_value.len - KEY_LENGTH_BYTES;
    size_t len = endian_load_le32(stored_value.data);
    if (len > room || !needs_stand_in(len)) return E_CORRUPT;
    const uint8_t *text = stored_value.data + KEY_LENGTH_BYTES;
    *key = bytes_of(text, len);
    *value = bytes_of(text + len, room - len);
    return 0;
}

int backend__key_verify(struct bytes stored_key, struct bytes stored_value, struct bytes *key,
                        struct bytes *value)
{
    struct bytes k, v;
    int rc = backend__key_load(stored_key, stored_value, &k, &v);
    if (rc < 0) return rc;
    if (stored_key.len == KEY_STORED_BYTES_MAX) {
        uint8_t again[KEY_STORED_BYTES_MAX];
        make_stand_in(again, k);
        if (memcmp(again, stored_key.data, sizeof again) != 0) return E_CORRUPT;
    }
    *key = k;
    *value = v;
    return 0;
}
