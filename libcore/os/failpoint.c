/* Failpoints of a FAILPOINTS=1 build: gofail's terms, per name.
 *
 * The registry is the one mutable global of the project, because a failpoint stands in the middle
 * of anything and gets no handle; a normal build has neither. */
#include "os/failpoint.h"

#ifdef FAILPOINTS

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text.h"
#include "os/heap.h"

enum { FP_COUNT_MAX = 256, FP_TERMS_MAX = 16, FP_NAME_BYTES_MAX = 64, FP_TEXT_BYTES_MAX = 1024 };

enum fp_action { FP_OFF, FP_RETURN, FP_SLEEP, FP_PANIC, FP_PRINT };

struct fp_term {
    enum fp_action action;
    int64_t count;   /* `N*`: so many times are left; -1: always */
    unsigned chance; /* `P%`; 100: always */
    int64_t sleep_ns;
    char text[FP_TEXT_BYTES_MAX]; /* of return, print, panic */
};

struct fp {
    char name[FP_NAME_BYTES_MAX];
    char terms_text[FP_TEXT_BYTES_MAX];
    struct fp_term *terms; /* NULL: not set, only known */
    size_t term_count;
};

static struct {
    pthread_mutex_t mutex;
    struct fp points[FP_COUNT_MAX]; /* in name order */
    size_t count;
} registry = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* --- terms ------------------------------------------------------------------------------------ */

static bool take_prefix(struct bytes *s, const char *prefix)
{
    size_t n = strlen(prefix);
    if (s->len < n || memcmp(s->data, prefix, n) != 0) return false;
    *s = bytes_of(s->data + n, s->len - n);
    return true;
}

/* `N*` and `P%`, in any order. */
static void take_modifiers(struct bytes *s, struct fp_term *t)
{
    for (;;) {
        size_t digits = 0;
        int64_t n = 0;
        while (digits < s->len && s->data[digits] >= '0' && s->data[digits] <= '9') {
            digits++;
        }
        if (digits == 0 || digits == s->len) return;
        if (text_parse_int(bytes_of(s->data, digits), 10, &n, NULL) < 0) return;
        if (s->data[digits] == '*') {
            t->count = n;
        } else if (s->data[digits] == '%') {
            t->chance = (unsigned)(n > 100 ? 100 : n);
        } else {
            return;
        }
        *s = bytes_of(s->data + digits + 1, s->len - digits - 1);
    }
}

/* `(...)`, the outer quotes of a string taken off; nothing when there is none. False when it does
 * not end. */
static bool take_argument(struct bytes *s, char text[FP_TEXT_BYTES_MAX], bool *given)
{
    *given = take_prefix(s, "(");
    text[0] = 0;
    if (!*given) return true;
    bool quoted = s->len > 0 && s->data[0] == '"';
    size_t end = 0;
    while (end < s->len &&
           !(s->data[end] == ')' && (!quoted || (end > 1 && s->data[end - 1] == '"')))) {
        end++;
    }
    if (end == s->len || end >= FP_TEXT_BYTES_MAX) return false;
    size_t cut = quoted && end >= 2 ? 1 : 0;
    memcpy(text, s->data + cut, end - 2 * cut);
    text[end - 2 * cut] = 0;
    *s = bytes_of(s->data + end + 1, s->len - end - 1);
    return true;
}

/* A duration in Go's words, or milliseconds. */
static bool sleep_argument(const char *text, int64_t *ns)
{
    int64_t ms = 0;
    if (text_parse_int(bytes_str(text), 10, &ms, NULL) == 0) {
        *ns = ms * 1000000;
        return true;
    }
    return text_parse_duration(bytes_str(text), ns, NULL) == 0;
}

static bool take_term(struct bytes *s, struct fp_term *t)
{
    static const struct {
        const char *word;
        enum fp_action action;
    } words[] = {{"off", FP_OFF},
                 {"return", FP_RETURN},
                 {"sleep", FP_SLEEP},
                 {"panic", FP_PANIC},
                 {"print", FP_PRINT}};
    *t = (struct fp_term){.count = -1, .chance = 100};
    take_modifiers(s, t);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        bool given = false;
        if (!take_prefix(s, words[i].word)) continue;
        t->action = words[i].action;
        if (!take_argument(s, t->text, &given)) return false;
        return t->action != FP_SLEEP || (given && sleep_argument(t->text, &t->sleep_ns));
    }
    return false;
}

static int parse_terms(const char *text, struct fp_term **out, size_t *count)
{
    struct bytes s = bytes_str(text);
    struct fp_term *terms = alloc_zero(&os_heap, FP_TERMS_MAX * sizeof *terms);
    size_t n = 0;
    if (terms == NULL) return E_NOMEM;
    bool ok = true;
    do {
        ok = n < FP_TERMS_MAX && take_term(&s, &terms[n]);
        n++;
    } while (ok && take_prefix(&s, "->"));
    if (!ok || s.len > 0) {
        alloc_free(&os_heap, terms, FP_TERMS_MAX * sizeof *terms);
        return E_INVAL;
    }
    *out = terms;
    *count = n;
    return 0;
}

/* --- registry (with the mutex held) ----------------------------------------------------------- */

/* The place of `name`, or where it belongs. */
static size_t place(const char *name)
{
    size_t i = 0;
    while (i < registry.count && strcmp(registry.points[i].name, name) < 0) {
        i++;
    }
    return i;
}

static struct fp *lookup(const char *name)
{
    size_t i = place(name);
    bool there = i < registry.count && strcmp(registry.points[i].name, name) == 0;
    return there ? &registry.points[i] : NULL;
}

static struct fp *lookup_or_add(const char *name)
{
    struct fp *p = lookup(name);
    if (p != NULL || registry.count == FP_COUNT_MAX || strlen(name) >= FP_NAME_BYTES_MAX) return p;
    size_t i = place(name);
    memmove(&registry.points[i + 1], &registry.points[i], (registry.count - i) * sizeof *p);
    registry.count++;
    registry.points[i] = (struct fp){.terms = NULL};
    memcpy(registry.points[i].name, name, strlen(name) + 1);
    return &registry.points[i];
}

static void clear(struct fp *p)
{
    alloc_free(&os_heap, p->terms, FP_TERMS_MAX * sizeof *p->terms);
    p->terms = NULL;
    p->terms_text[0] = 0;
}

static void registry_lock(void)
{
    (void)pthread_mutex_lock(&registry.mutex);
}

static void registry_unlock(void)
{
    (void)pthread_mutex_unlock(&registry.mutex);
}

int failpoint_set(const char *name, const char *terms, struct errmsg *em)
{
    struct fp_term *parsed = NULL;
    size_t count = 0;
    int rc = strlen(terms) < FP_TEXT_BYTES_MAX ? parse_terms(terms, &parsed, &count) : E_INVAL;
    if (rc < 0) {
        errmsg_set(em, "failpoint: could not parse terms");
        return rc;
    }
    registry_lock();
    struct fp *p = lookup_or_add(name);
    if (p != NULL) {
        clear(p);
        p->terms = parsed;
        p->term_count = count;
        memcpy(p->terms_text, terms, strlen(terms) + 1);
    }
    registry_unlock();
    if (p != NULL) return 0;
    alloc_free(&os_heap, parsed, FP_TERMS_MAX * sizeof *parsed);
    errmsg_set(em, "failpoint: too many failpoints, or a name too long");
    return E_INVAL;
}

int failpoint_unset(const char *name)
{
    registry_lock();
    struct fp *p = lookup(name);
    int rc = p == NULL || p->terms == NULL ? E_NOENT : 0;
    if (rc == 0) clear(p);
    registry_unlock();
    return rc;
}

int failpoint_terms(const char *name, struct buf *b)
{
    registry_lock();
    const struct fp *p = lookup(name);
    int rc = p == NULL || p->terms == NULL ? E_NOENT : buf_put_str(b, p->terms_text);
    registry_unlock();
    return rc;
}

int failpoint_list(struct buf *b)
{
    int rc = 0;
    registry_lock();
    for (size_t i = 0; i < registry.count && rc == 0; i++) {
        rc = buf_printf(b, "%s=%s\n", registry.points[i].name, registry.points[i].terms_text);
    }
    registry_unlock();
    return rc;
}

int failpoint_set_all(const char *list, struct errmsg *em)
{
    char item[FP_NAME_BYTES_MAX + FP_TEXT_BYTES_MAX];
    while (*list != 0) {
        size_t len = strcspn(list, ";");
        if (len >= sizeof item) return E_INVAL;
        memcpy(item, list, len);
        item[len] = 0;
        list += len + (list[len] == ';');
        char *equals = strchr(item, '=');
        if (len == 0) continue;
        if (equals == NULL) {
            errmsg_set(em, "failpoint: bad failpoint \"%s\"", item);
            return E_INVAL;
        }
        *equals = 0;
        int rc = failpoint_set(item, equals + 1, em);
        if (rc < 0) return rc;
    }
    return 0;
}

/* --- hits ------------------------------------------------------------------------------------- */

static bool allows(struct fp_term *t)
{
    if (t->count == 0) return false;
    if (t->chance < 100 && randombytes_uniform(100) >= t->chance) return false;
    if (t->count > 0) t->count--;
    return true;
}

static void nap(int64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    (void)nanosleep(&ts, NULL);
}

/* The text outlives the failpoint's terms in the hitting thread. */
static const char *perform(const struct fp_term *t, const char *name)
{
    static _Thread_local char returned[FP_TEXT_BYTES_MAX];
    switch (t->action) {
    case FP_OFF: return NULL;
    case FP_SLEEP: nap(t->sleep_ns); return NULL;
    case FP_PRINT: (void)fprintf(stderr, "failpoint print: %s %s\n", name, t->text); return NULL;
    case FP_PANIC:
        (void)fprintf(stderr, "panic: failpoint panic: %s %s\n", name, t->text);
        _exit(2); /* as a Go panic ends */
    case FP_RETURN: memcpy(returned, t->text, sizeof returned); return returned;
    }
    return NULL;
}

const char *failpoint_hit(const char *name)
{
    struct fp_term chosen;
    bool hit = false;
    registry_lock();
    struct fp *p = lookup_or_add(name);
    for (size_t i = 0; p != NULL && p->terms != NULL && i < p->term_count && !hit; i++) {
        hit = allows(&p->terms[i]);
        if (hit) chosen = p->terms[i];
    }
    registry_unlock();
    return hit ? perform(&chosen, name) : NULL;
}

#else

_Static_assert(1, "a normal build has no registry, and C no empty file");

#endif
