/* Rows that upstream wrote, and the HashKV answers that upstream gave for them: every folder of golden/datadir and
 * golden/snapshot that lists its rows (db.tsv: table, key in hex, length of value, value in hex) is loaded, and each revision
 * in expected.json hashed. */
#include <dirent.h>
#include <json-c/json.h>
#include <string.h>

#include "kit.h"
#include "shared.h"

enum { FOLDER_BYTES = 512, NAME_BYTES = FOLDER_BYTES + 32, TEXT_BYTES_MAX = 64 * 1024 * 1024 };

static enum table table_of(const char *name)
{
    for (int t = 0; t < TABLE_COUNT; t++) {
        if (strcmp(table_name((enum table)t), name) == 0) return (enum table)t;
    }
    return TABLE_COUNT;
}

static int hex_digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* In place; returns the span. */
static struct bytes unhex(char *text)
{
    size_t n = strlen(text) / 2;
    for (size_t i = 0; i < n; i++) {
        text[i] = (char)(hex_digit(text[2 * i]) * 16 + hex_digit(text[2 * i + 1]));
    }
    return bytes_of(text, n);
}

static const char *field(char **line)
{
    char *at = *line, *end = strpbrk(at, "\t\n");
    *line = end == NULL ? at + strlen(at) : end + 1;
    if (end != NULL) *end = 0;
    return at;
}

/* Puts the rows into the backend; false when the listing cuts values short. */
static bool fill(struct kit *k, char *text)
{
    const struct backend *b = &k->backend.face;
    struct backend_tx *tx;
    assert_int_equal(b->begin(b->arg, &tx, &k->em), 0);
    bool whole = true;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        enum table t = table_of(field(&line));
        char *key = line;
        field(&line);
        size_t len = strtoul(field(&line), NULL, 10);
        assert_true(t < TABLE_COUNT);
        struct bytes rev = unhex(key), value = unhex(line);
        whole = whole && value.len == len;
        assert_int_equal(b->put(tx, t, rev, value, &k->em), 0);
    }
    assert_int_equal(b->commit(tx, &k->em), 0);
    return whole;
}

static int64_t number(struct json_object *o, const char *name)
{
    struct json_object *v = NULL;
    assert_true(json_object_object_get_ex(o, name, &v));
    return json_object_get_int64(v);
}

static void check_answer(struct kit *k, const char *folder, struct json_object *want)
{
    struct mvcc_hash_answer a;
    struct json_object *error = NULL;
    int64_t rev = number(want, "rev");
    int rc = kit_hash(k, rev, &a);
    if (json_object_object_get_ex(want, "error", &error)) {
        bool future = strstr(json_object_get_string(error), "future") != NULL;
        assert_int_equal(rc, future ? E_FUTURE_REV : E_COMPACTED);
        return;
    }
    assert_int_equal(rc, 0);
    if (a.hash != (uint32_t)number(want, "hash"))
        print_error("%s at %lld\n", folder, (long long)rev);
    assert_int_equal(a.hash, (uint32_t)number(want, "hash"));
    assert_int_equal(a.compact_rev, number(want, "compactRevision"));
    assert_int_equal(a.hash_rev, number(want, "hashRevision"));
}

/* The answer of Maintenance.Hash, where upstream was asked for it. */
static void check_hash(struct kit *k, const char *folder, struct json_object *db)
{
    struct json_object *want = NULL;
    if (!json_object_object_get_ex(db, "hash_rpc", &want) || json_object_get_int64(want) == 0)
        return;
    const struct backend *b = &k->backend.face;
    struct backend_read *r;
    uint32_t got;
    assert_int_equal(b->read_begin(b->arg, &r, &k->em), 0);
    assert_int_equal(mvcc_hash_all(b, r, &got), 0);
    b->read_end(r);
    if (got != (uint32_t)json_object_get_int64(want)) print_error("Hash of %s\n", folder);
    assert_int_equal(got, (uint32_t)json_object_get_int64(want));
}

/* What xz unpacks from `path`; NULL when there is no xz. */
static char *read_xz(const char *path)
{
    char command[SHARED_PATH_BYTES_MAX + 16];
    snprintf(command, sizeof command, "xz -dc '%s'", path);
    FILE *f = popen(command, "r");
    char *text = f == NULL ? NULL : malloc(TEXT_BYTES_MAX);
    size_t n = text == NULL ? 0 : fread(text, 1, TEXT_BYTES_MAX - 1, f);
    if (f != NULL) pclose(f);
    if (n == 0) {
        free(text);
        return NULL;
    }
    text[n] = 0;
    return text;
}

/* `folder` is relative to ../shared; returns how many answers were compared. */
static size_t check_folder(const char *folder)
{
    char rows[SHARED_PATH_BYTES_MAX], answers[SHARED_PATH_BYTES_MAX], name[NAME_BYTES];
    char *text = NULL;
    size_t n = 0, len;
    snprintf(name, sizeof name, "%s/db.tsv", folder);
    if (shared_find(name, rows)) text = shared_read(rows, &len);
    snprintf(name, sizeof name, "%s/db.tsv.xz", folder);
    if (text == NULL && shared_find(name, rows)) text = read_xz(rows);
    if (text == NULL) return 0;
    snprintf(name, sizeof name, "%s/expected.json", folder);
    if (!shared_find(name, answers)) {
        free(text);
        return 0;
    }
    struct json_object *top = json_object_from_file(answers), *db = NULL, *list = NULL;
    assert_non_null(top);
    if (!json_object_object_get_ex(top, "db", &db)) db = top;
    struct kit k;
    kit_prepare(&k);
    if (json_object_object_get_ex(db, "hashkv", &list) && fill(&k, text)) {
        kit_open(&k);
        for (; n < json_object_array_length(list); n++) {
            check_answer(&k, folder, json_object_array_get_idx(list, n));
        }
        check_hash(&k, folder, db);
        mvcc_free(k.m);
    }
    fake_backend_deinit(&k.backend);
    free(text);
    json_object_put(top);
    return n;
}

static size_t check_below(const char *parent)
{
    char path[SHARED_PATH_BYTES_MAX], name[FOLDER_BYTES];
    size_t n = 0;
    if (!shared_find(parent, path)) return 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (e->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%s/%s", parent, e->d_name);
        n += check_folder(name);
    }
    closedir(d);
    return n;
}

static void hashes_of_data_dirs(void **state)
{
    char path[SHARED_PATH_BYTES_MAX];
    (void)state;
    SHARED_OR_SKIP("golden/datadir", path);
    size_t n = check_below("golden/datadir") + check_below("golden/datadir/v36-cluster3") +
               check_below("golden/datadir/v37-cluster3") +
               check_below("golden/datadir/v36-promote") +
               check_below("golden/datadir/v37-promote");
    print_message("%zu answers\n", n);
    assert_true(n >= 100);
}

static void hashes_of_snapshots(void **state)
{
    char path[SHARED_PATH_BYTES_MAX];
    (void)state;
    SHARED_OR_SKIP("golden/snapshot", path);
    size_t n = check_below("golden/snapshot") + check_below("golden/restore");
    print_message("%zu answers\n", n);
    assert_true(n >= 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_of_data_dirs),
        cmocka_unit_test(hashes_of_snapshots),
    };
    return cmocka_run_group_tests_name("mvcc golden", tests, NULL, NULL);
}
