/* Is the client alive, does it behave, and how do we part: pings, floods, draining.
 *
 * Ping strikes, the texts and the order of GOAWAYs are upstream's (http.md, section 5). */
#include "grpc/grpc_conn_int.h"

#include "base/assert.h"

#define SECOND_NS 1000000000ULL

enum { PING_STRIKES_MAX = 2 };

static const uint64_t PING_IDLE_MIN_NS = 2 * 3600 * SECOND_NS; /* between pings without a call */
static const uint64_t TOLD_OFF_NS = SECOND_NS;                 /* to read our GOAWAY */
static const uint64_t DRAIN_PING_NS = 5 * SECOND_NS;           /* to answer the draining ping */
static const uint8_t DRAIN_PING[8] = {1, 6, 1, 8, 0, 3, 3, 9};
static const uint8_t KEEPALIVE_PING[8] = {0};

static void live_check(struct grpc_conn *c, int rc)
{
    if (rc != 0) c->dead = true;
}

void grpc__live_enhance_calm(struct grpc_conn *c, const char *why)
{
    if (c->close_ns != GRPC_NEVER) return;
    c->close_ns = c->now_ns + TOLD_OFF_NS;
    int32_t last = nghttp2_session_get_last_proc_stream_id(c->session);
    live_check(c,
               nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_ENHANCE_YOUR_CALM,
                                     (const uint8_t *)why, strlen(why)));
}

/* ---- pings of the client ---------------------------------------------------------------------- */

static uint64_t ping_interval_ns(const struct grpc_conn *c)
{
    bool allowed = c->call_count > 0 || c->opts.keepalive_without_calls;
    return allowed ? c->opts.keepalive_min_time_ns : PING_IDLE_MIN_NS;
}

static void ping_judge(struct grpc_conn *c)
{
    uint64_t last = c->ping_seen_ns;
    c->ping_seen_ns = c->now_ns == 0 ? 1 : c->now_ns;
    if (c->sent_since_ping) {
        c->sent_since_ping = false;
        c->strikes = 0;
        return;
    }
    if (last != 0 && c->now_ns - last < ping_interval_ns(c)) c->strikes++;
    if (c->strikes > PING_STRIKES_MAX) grpc__live_enhance_calm(c, "too_many_pings");
}

static void drain_finish(struct grpc_conn *c)
{
    if (c->drained) return;
    c->drained = true;
    c->drain_ns = GRPC_NEVER;
    static const char why[] = "graceful_stop";
    int32_t last = nghttp2_session_get_last_proc_stream_id(c->session);
    live_check(c, nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR,
                                        (const uint8_t *)why, sizeof why - 1));
}

void grpc__live_ping(struct grpc_conn *c, const uint8_t data[8], bool ack)
{
    if (!ack)
        ping_judge(c);
    else if (c->draining && memcmp(data, DRAIN_PING, sizeof DRAIN_PING) == 0)
        drain_finish(c);
}

/* ---- floods of resets ------------------------------------------------------------------------ */

static void credit_top_up(struct grpc_conn *c)
{
    uint64_t tokens = (c->now_ns - c->reset_ns) / SECOND_NS * c->opts.reset_per_s;
    if (tokens == 0) return;
    c->reset_ns += (c->now_ns - c->reset_ns) / SECOND_NS * SECOND_NS;
    uint64_t credit = c->reset_credit + tokens;
    c->reset_credit = credit < c->opts.reset_burst ? (uint32_t)credit : c->opts.reset_burst;
}

void grpc__live_reset(struct grpc_conn *c)
{
    credit_top_up(c);
    if (c->reset_credit > 0)
        c->reset_credit--;
    else
        grpc__live_enhance_calm(c, "too_many_resets");
}

void grpc__live_finished(struct grpc_conn *c)
{
    if (c->reset_credit < c->opts.reset_burst) c->reset_credit++;
}

/* ---- draining ----------------------------------------------------------------------------------- */

void grpc_conn_drain(struct grpc_conn *c, uint64_t now_ns)
{
    c->now_ns = now_ns;
    if (c->draining || c->dead) return;
    c->draining = true;
    c->drain_ns = now_ns + DRAIN_PING_NS;
    /* nghttp2's notice has no debug data; grpc_conn_pull() adds it. Only the notice leaves the door open for
     * streams that are on their way. */
    live_check(c, nghttp2_submit_shutdown_notice(c->session));
}

/* The draining ping follows the notice; nghttp2 would send it before, were it submitted with it. */
void grpc__live_goaway_sent(struct grpc_conn *c)
{
    if (c->close_ns != GRPC_NEVER) c->told_off = true;
    if (!c->draining || c->drained) return;
    live_check(c, nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, DRAIN_PING));
}

/* ---- time ------------------------------------------------------------------------------------- */

static uint64_t later(uint64_t from_ns, uint64_t delay_ns)
{
    return delay_ns < GRPC_NEVER - from_ns ? from_ns + delay_ns : GRPC_NEVER;
}

/* When the client must have said what it began to say. */
static uint64_t half_said_ns(const struct grpc_conn *c)
{
    if (!c->ready) return later(c->born_ns, c->opts.handshake_timeout_ns);
    if (c->req.begun_ns != 0) return later(c->req.begun_ns, c->opts.handshake_timeout_ns);
    return GRPC_NEVER;
}

static uint64_t keepalive_ns(const struct grpc_conn *c)
{
    if (c->ping_sent_ns != 0) return later(c->ping_sent_ns, c->opts.keepalive_timeout_ns);
    return later(c->read_ns, c->opts.keepalive_time_ns);
}

static uint64_t min_ns(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t grpc__live_next(const struct grpc_conn *c)
{
    uint64_t next = min_ns(half_said_ns(c), keepalive_ns(c));
    return min_ns(next, min_ns(c->close_ns, c->drain_ns));
}

void grpc__live_tick(struct grpc_conn *c)
{
    if (c->now_ns >= half_said_ns(c) || c->now_ns >= c->close_ns) c->dead = true;
    if (c->now_ns >= c->drain_ns) drain_finish(c);
    if (c->now_ns < keepalive_ns(c)) return;
    if (c->ping_sent_ns != 0) {
        c->dead = true;
        return;
    }
    c->ping_sent_ns = c->now_ns == 0 ? 1 : c->now_ns;
    live_check(c, nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, KEEPALIVE_PING));
}
