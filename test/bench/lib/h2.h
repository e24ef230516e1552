/* The smallest HTTP/2 client that can load a gRPC server.
 *
 * The meter shares its processors with what it measures, so it must cost little: requests are frames written by hand (after
 * the first one the header block is seven bytes), answers are walked frame by frame, and only header blocks go through
 * nghttp2's decoder. One connection belongs to one thread. */
#ifndef BENCH_H2_H
#define BENCH_H2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct h2;

struct h2_opts {
    const char *authority;
    const char *path;
    bool grpc;       /* ok means grpc-status 0; else it means :status 200 */
    size_t inflight; /* requests at a time, at most */
    /* A request has ended; `bytes` of its answer were data. */
    void (*done)(void *arg, uint64_t tag, bool ok, uint64_t bytes);
    void *arg;
};

/* Connects to an IPv4 address, waits for the server's SETTINGS, and makes the socket non-blocking. Ends the process with a
 * line when it cannot. */
struct h2 *h2_connect(const char *address, uint16_t port, const struct h2_opts *opts);
void h2_close(struct h2 *c);
int h2_fd(const struct h2 *c);

/* Whether h2_start() may be called now: a stream is free and the server lets `bytes` of body in. */
bool h2_room(const struct h2 *c, size_t bytes);
/* Queues a request; `tag` comes back with done(). For gRPC `body` is the message without its prefix. */
void h2_start(struct h2 *c, const uint8_t *body, size_t len, uint64_t tag);
size_t h2_inflight(const struct h2 *c);

/* Takes in what has arrived, calling done(). False when the connection is over. */
bool h2_read(struct h2 *c);
/* Sends what is queued; true when all has left. */
bool h2_flush(struct h2 *c);

#endif
