/* Versions shared between threads: readers take and drop references while a writer goes on; run under TSan. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "membership/membership.h"

enum { READERS = 3, CHANGES = 300 };

struct shared {
    pthread_mutex_t mutex; /* of `now` and `ended` */
    struct membership *now;
    bool ended;
};

static void *heap_resize(void *arg, void *old, size_t old_bytes, size_t new_bytes)
{
    (void)arg;
    (void)old_bytes;
    if (new_bytes > 0) return realloc(old, new_bytes);
    free(old);
    return NULL;
}

static const struct alloc heap = {.resize = heap_resize};

/* A reference to the present version; NULL when the writer has ended. */
static struct membership *take(struct shared *s)
{
    pthread_mutex_lock(&s->mutex);
    struct membership *m = s->ended ? NULL : membership_ref(s->now);
    pthread_mutex_unlock(&s->mutex);
    return m;
}

/* Reads versions, each of which must be whole: its member count is in its cluster version. */
static void *read_on(void *arg)
{
    struct shared *s = arg;
    size_t bad = 0;
    for (struct membership *m = take(s); m != NULL; m = take(s)) {
        struct bytes version = membership_version(m);
        size_t want = version.len == 0 ? 0 : (size_t)(version.data[0] - '0');
        bad += want != membership_count(m);
        membership_unref(m);
    }
    return (void *)(uintptr_t)bad;
}

static void install(struct shared *s, struct membership *next)
{
    pthread_mutex_lock(&s->mutex);
    struct membership *old = s->now;
    s->now = next;
    pthread_mutex_unlock(&s->mutex);
    membership_unref(old);
}

/* A version with `count` members that says so. */
static struct membership *version_of(size_t count)
{
    struct member members[9] = {{0}};
    const char text[2] = {(char)('0' + count), 0};
    for (size_t i = 0; i < count; i++) {
        members[i].id = i + 1;
    }
    const struct membership_content content = {
        .members = members, .member_count = count, .version = bytes_str(text)};
    struct membership *m = NULL;
    assert_int_equal(0, membership_new(&heap, &content, &m));
    return m;
}

static void test_readers_see_whole_versions(void **state)
{
    (void)state;
    struct shared s = {.now = version_of(0)};
    pthread_t readers[READERS];
    pthread_mutex_init(&s.mutex, NULL);
    for (size_t i = 0; i < READERS; i++) {
        assert_int_equal(0, pthread_create(&readers[i], NULL, read_on, &s));
    }
    for (size_t i = 0; i < CHANGES; i++) {
        install(&s, version_of(i % 9));
    }
    pthread_mutex_lock(&s.mutex);
    s.ended = true;
    pthread_mutex_unlock(&s.mutex);
    for (size_t i = 0; i < READERS; i++) {
        void *bad = NULL;
        assert_int_equal(0, pthread_join(readers[i], &bad));
        assert_null(bad);
    }
    membership_unref(s.now);
    pthread_mutex_destroy(&s.mutex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readers_see_whole_versions),
    };
    return cmocka_run_group_tests_name("membership: share", tests, NULL, NULL);
}
