/* A load of puts, gets, ranges or txns for any etcd endpoint, and what it cost the server.
 *
 * Closed loop: each of C connections keeps M requests in flight until N have been answered. Open loop (--rate): request i
 * is due at start + i / rate whatever the server does, and its time counts from then, not from when it could be sent: a
 * server that stalls is charged for all that should have been sent meanwhile ("coordinated omission" is what a meter does
 * that waits politely). The result is one line of JSON.
 *
 * Usage: load --op put|get|range|txn|http --port P [--host A] [--pid P] [--conns C] [--inflight M] [--threads T]
 *             [--count N] [--rate R] [--keys K] [--key-bytes B] [--value-bytes B] [--range-keys K] [--txn-puts K]
 *             [--first N] [--shuffled] [--serializable] [--path /FILE] */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "lib/h2.h"
#include "lib/hist.h"
#include "lib/process.h"
#include "lib/requests.h"

enum { THREADS_MAX = 16, EVENTS_MAX = 256, CONNS_MAX = 10000, INFLIGHT_MAX = 100000 };

struct options {
    struct requests requests;
    const char *host;
    uint64_t port, pid, conns, inflight, threads, count, rate, first;
};

/* One thread's share. Request i of thread t is number first + i * threads + t of the whole run. */
struct worker {
    const struct options *o;
    pthread_t thread;
    unsigned index;
    struct h2 **conns;
    size_t conn_count;
    int epoll;
    uint64_t start_ns;
    uint64_t count, started, ended, failed;
    uint64_t bytes;
    uint64_t end_ns;
    uint64_t
        batch_ns; /* the time of the events being handled: answers that came together ended together */
    size_t conn_next; /* of an open loop */
    uint8_t *body;
    struct hist hist;
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/* --- one thread ------------------------------------------------------------------------------------ */

/* A request's tag is the time from which it counts. */
static void on_done(void *arg, uint64_t tag, bool ok, uint64_t bytes)
{
    struct worker *w = arg;
    w->ended++;
    w->failed += !ok;
    w->bytes += bytes;
    hist_add(&w->hist, w->batch_ns > tag ? w->batch_ns - tag : 0);
}

static bool start_one(struct worker *w, struct h2 *c, uint64_t since_ns)
{
    const struct options *o = w->o;
    if (!h2_room(c, requests_bytes_max(&o->requests))) return false;
    uint64_t number = o->first + w->started * o->threads + w->index;
    h2_start(c, w->body, requests_make(&o->requests, number, w->body), since_ns);
    w->started++;
    return true;
}

static void fill(struct worker *w, struct h2 *c)
{
    if (w->o->rate == 0) {
        uint64_t now = now_ns();
        while (w->started < w->count && start_one(w, c, now))
            continue;
    }
    (void)h2_flush(c);
}

static uint64_t due_ns(const struct worker *w)
{
    double seconds = (double)(w->started * w->o->threads + w->index) / (double)w->o->rate;
    return w->start_ns + (uint64_t)(seconds * 1e9);
}

/* Starts what is due, each on the next connection with room; what finds none stays due. */
static void start_due(struct worker *w)
{
    uint64_t now = now_ns();
    size_t without_room = 0;
    while (w->started < w->count && due_ns(w) <= now && without_room < w->conn_count) {
        struct h2 *c = w->conns[w->conn_next];
        w->conn_next = (w->conn_next + 1) % w->conn_count;
        without_room = start_one(w, c, due_ns(w)) ? 0 : without_room + 1;
        if (without_room == 0) (void)h2_flush(c);
    }
}

static int wait_for_events(struct worker *w, struct epoll_event *events)
{
    struct timespec timeout = {1, 0};
    if (w->o->rate != 0 && w->started < w->count) {
        uint64_t now = now_ns();
        uint64_t due = due_ns(w);
        uint64_t left = due > now ? due - now : 0;
        if (left < 1000000000) timeout = (struct timespec){0, (long)left};
    }
    return epoll_pwait2(w->epoll, events, EVENTS_MAX, &timeout, NULL);
}

static void watch(struct worker *w, size_t i, int how)
{
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = i};
    if (epoll_ctl(w->epoll, how, h2_fd(w->conns[i]), &e) != 0) {
        perror("load: epoll_ctl");
        exit(1);
    }
}

static void on_event(struct worker *w, size_t i)
{
    if (h2_read(w->conns[i])) {
        fill(w, w->conns[i]);
        return;
    }
    fprintf(stderr, "load: the server has closed a connection\n");
    exit(1);
}

static void *run_worker(void *arg)
{
    struct worker *w = arg;
    struct epoll_event events[EVENTS_MAX];
    for (size_t i = 0; i < w->conn_count; i++) {
        watch(w, i, EPOLL_CTL_ADD);
        fill(w, w->conns[i]);
    }
    while (w->ended < w->count) {
        if (w->o->rate != 0) start_due(w);
        int n = wait_for_events(w, events);
        w->batch_ns = now_ns();
        for (int i = 0; i < n; i++)
            on_event(w, events[i].data.u64);
    }
    w->end_ns = now_ns();
    return NULL;
}

static void make_worker(struct worker *w, const struct options *o, unsigned index)
{
    char authority[64];
    snprintf(authority, sizeof authority, "%s:%u", o->host, (unsigned)o->port);
    struct h2_opts opts = {.authority = authority,
                           .path = requests_path(&o->requests),
                           .grpc = o->requests.op != OP_HTTP,
                           .inflight = o->inflight,
                           .done = on_done,
                           .arg = w};
    w->o = o;
    w->index = index;
    w->count = o->count / o->threads + (index < o->count % o->threads);
    w->conn_count = o->conns / o->threads + (index < o->conns % o->threads);
    w->conns = calloc(w->conn_count, sizeof(struct h2 *));
    w->body = malloc(requests_bytes_max(&o->requests));
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (w->conns == NULL || w->body == NULL || w->epoll < 0) {
        perror("load");
        exit(1);
    }
    for (size_t i = 0; i < w->conn_count; i++)
        w->conns[i] = h2_connect(o->host, (uint16_t)o->port, &opts);
}

static void free_worker(struct worker *w)
{
    for (size_t i = 0; i < w->conn_count; i++)
        h2_close(w->conns[i]);
    free(w->conns);
    free(w->body);
}

/* --- the whole ------------------------------------------------------------------------------------- */

static void print(const struct options *o, const struct worker *all, uint64_t wall_ns,
                  const struct process_use *before, const struct process_use *after, double own_cpu)
{
    const struct hist *h = &all->hist;
    double seconds = (double)wall_ns * 1e-9;
    double hundred_thousands = (double)o->count / 1e5;
    printf("{\"requests\":%llu,\"failed\":%llu,\"seconds\":%.4f,\"rate\":%.0f",
           (unsigned long long)o->count, (unsigned long long)all->failed, seconds,
           (double)o->count / seconds);
    printf(",\"mean_us\":%.1f,\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,"
           "\"max_us\":%.1f",
           (double)hist_mean(h) / 1e3, (double)hist_quantile(h, 0.5) / 1e3,
           (double)hist_quantile(h, 0.9) / 1e3, (double)hist_quantile(h, 0.99) / 1e3,
           (double)hist_quantile(h, 0.999) / 1e3, (double)h->max_ns / 1e3);
    printf(",\"answer_bytes\":%llu,\"client_cpu\":%.3f", (unsigned long long)all->bytes,
           own_cpu / hundred_thousands);
    if (o->pid != 0) {
        printf(",\"server_cpu\":%.3f", (after->cpu_s - before->cpu_s) / hundred_thousands);
        printf(",\"rss_kib\":%llu,\"rss_before_kib\":%llu,\"peak_kib\":%llu,\"anon_kib\":%llu",
               (unsigned long long)after->rss_kib, (unsigned long long)before->rss_kib,
               (unsigned long long)after->peak_kib, (unsigned long long)after->anon_kib);
    }
    printf("}\n");
}

static void run(const struct options *o, struct worker *workers)
{
    struct process_use before, after, own_before, own_after;
    bool there = o->pid == 0 || process_use((pid_t)o->pid, &before);
    (void)process_use(0, &own_before);
    uint64_t start = now_ns();
    for (unsigned i = 0; i < o->threads; i++) {
        workers[i].start_ns = start;
        if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0) exit(1);
    }
    uint64_t end = start;
    for (unsigned i = 0; i < o->threads; i++) {
        struct worker *w = &workers[i];
        pthread_join(w->thread, NULL);
        if (w->end_ns > end) end = w->end_ns;
        if (i == 0) continue;
        hist_merge(&workers[0].hist, &w->hist);
        workers[0].failed += w->failed;
        workers[0].bytes += w->bytes;
    }
    if (!there || (o->pid != 0 && !process_use((pid_t)o->pid, &after))) {
        fprintf(stderr, "load: no process %llu\n", (unsigned long long)o->pid);
        exit(1);
    }
    (void)process_use(0, &own_after);
    print(o, workers, end - start, &before, &after, own_after.cpu_s - own_before.cpu_s);
}

static enum request_op op_named(const char *name)
{
    static const char *const NAMES[] = {"put", "get", "range", "txn", "http"};
    for (int i = 0; i < 5; i++)
        if (strcmp(name, NAMES[i]) == 0) return (enum request_op)i;
    fprintf(stderr, "load: --op must be put, get, range, txn or http, not '%s'\n", name);
    exit(2);
}

/* Options that are numbers, and where they go. */
static const struct {
    const char *name;
    size_t offset;
} NUMBERS[] = {{"port", offsetof(struct options, port)},
               {"pid", offsetof(struct options, pid)},
               {"conns", offsetof(struct options, conns)},
               {"inflight", offsetof(struct options, inflight)},
               {"threads", offsetof(struct options, threads)},
               {"count", offsetof(struct options, count)},
               {"rate", offsetof(struct options, rate)},
               {"first", offsetof(struct options, first)},
               {"keys", offsetof(struct options, requests.key_space)},
               {"key-bytes", offsetof(struct options, requests.key_bytes)},
               {"value-bytes", offsetof(struct options, requests.value_bytes)},
               {"range-keys", offsetof(struct options, requests.range_keys)},
               {"txn-puts", offsetof(struct options, requests.txn_puts)}};

enum { NUMBER_COUNT = sizeof NUMBERS / sizeof *NUMBERS };

static void take_number(struct options *o, int which, const char *value)
{
    char *end = NULL;
    uint64_t n = strtoull(value, &end, 10);
    if (end == value || *end != '\0') {
        fprintf(stderr, "load: --%s: '%s' is not a number\n", NUMBERS[which].name, value);
        exit(2);
    }
    memcpy((char *)o + NUMBERS[which].offset, &n, sizeof n);
}

static void take_option(struct options *o, int which, const char *value)
{
    switch (which) {
    case 'o': o->requests.op = op_named(value); break;
    case 'h': o->host = value; break;
    case 'f': o->requests.path = value; break;
    case 's': o->requests.shuffled = true; break;
    case 'z': o->requests.serializable = true; break;
    case '?': exit(2);
    default: take_number(o, which - 256, value); break;
    }
}

static const char *check(struct options *o)
{
    const char *wrong = requests_check(&o->requests);
    if (wrong != NULL) return wrong;
    if (o->port == 0 || o->port > 65535) return "--port must be 1 to 65535";
    if (o->conns == 0 || o->conns > CONNS_MAX) return "--conns must be 1 to 10000";
    if (o->inflight == 0 || o->inflight > INFLIGHT_MAX) return "--inflight must be 1 to 100000";
    if (o->threads == 0 || o->threads > THREADS_MAX) return "--threads must be 1 to 16";
    if (o->threads > o->conns) return "--threads must be at most --conns";
    if (o->count == 0) return "--count must be at least 1";
    if (requests_bytes_max(&o->requests) > VALUE_BYTES_MAX) return "a request may have 60000 bytes";
    return NULL;
}

static void parse(int argc, char **argv, struct options *o)
{
    struct option known[NUMBER_COUNT + 6] = {
        {"op", 1, NULL, 'o'},       {"host", 1, NULL, 'h'},         {"path", 1, NULL, 'f'},
        {"shuffled", 0, NULL, 's'}, {"serializable", 0, NULL, 'z'}, {NULL, 0, NULL, 0}};
    for (int i = 0; i < NUMBER_COUNT; i++)
        known[5 + i] = (struct option){NUMBERS[i].name, 1, NULL, 256 + i};
    int which = 0;
    while ((which = getopt_long(argc, argv, "", known, NULL)) != -1)
        take_option(o, which, optarg);
    const char *wrong = check(o);
    if (wrong == NULL) return;
    fprintf(stderr, "load: %s\n", wrong);
    exit(2);
}

int main(int argc, char **argv)
{
    struct options o = {.requests = {.key_space = 1000000,
                                     .key_bytes = 8,
                                     .value_bytes = 256,
                                     .range_keys = 1000,
                                     .txn_puts = 8,
                                     .path = "/"},
                        .host = "127.0.0.1",
                        .conns = 1,
                        .inflight = 1,
                        .threads = 1,
                        .count = 10000};
    parse(argc, argv, &o);
    struct worker *workers = calloc(o.threads, sizeof *workers);
    if (workers == NULL) return 1;
    for (unsigned i = 0; i < o.threads; i++)
        make_worker(&workers[i], &o, i);
    run(&o, workers);
    bool failed = workers[0].failed > 0;
    for (unsigned i = 0; i < o.threads; i++)
        free_worker(&workers[i]);
    free(workers);
    return failed ? 1 : 0;
}
