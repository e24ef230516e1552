/* Who waits in the apply half: for a request's entry, for an index, or for something after the entry. */
#include "node/node_apply_int.h"

bool node__waits(void *arg, uint64_t request_id)
{
    const struct node_apply *n = arg;
    ASSERT(n != NULL);
    return map_u64_get(&n->waiters, request_id) != NULL;
}

/* Without memory the waiter is answered at once; its entry may still be applied. */
void node__register(struct node_apply *n, struct node_waiter *w)
{
    ASSERT(!w->read);
    if (w->start_ns == 0) w->start_ns = n->now_ns; /* it came before the first tick */
    if (map_u64_put(&n->waiters, w->request_id, w) < 0) {
        node__apply_reply(n, w, E_NOMEM, NULL);
        return;
    }
    list_push_back(w->no_limit ? &n->unlimited : &n->limited, &w->link);
}

struct node_waiter *node__unregister(struct node_apply *n, uint64_t request_id)
{
    ASSERT(n != NULL);
    if (request_id == 0) return NULL;
    struct node_waiter *w = map_u64_remove(&n->waiters, request_id);
    if (w != NULL) list_remove(&w->link);
    return w;
}

static struct node_waiter *find_in(struct list *head, uint64_t request_id)
{
    struct list *link;
    ASSERT(request_id != 0);
    LIST_EACH(head, link)
    {
        struct node_waiter *w = node__waiter_of(link);
        if (w->request_id == request_id) return w;
    }
    return NULL;
}

/* An answer that is known goes out with the cancel; one output must have room. */
static void answer_held(struct node_apply *n, struct node_waiter *w, int error)
{
    ASSERT(w != NULL);
    struct apply_result *held = w->held;
    w->held = NULL;
    if (held != NULL)
        node__apply_reply(n, w, held->error, held);
    else
        node__apply_reply(n, w, error, NULL);
}

void node__cancel(struct node_apply *n, uint64_t request_id, int error)
{
    ASSERT(error < 0);
    struct node_waiter *w = node__unregister(n, request_id);
    if (w == NULL) {
        w = find_in(&n->reads, request_id);
        if (w == NULL) w = find_in(&n->noted, request_id);
        if (w == NULL) w = find_in(&n->compacting, request_id);
        if (w == NULL) return; /* answered already */
        list_remove(&w->link);
    }
    answer_held(n, w, error);
}

/* Indexes nearly always come in order, so the place is nearly always the end. */
static void insert_read(struct node_apply *n, struct node_waiter *w)
{
    struct list *at = n->reads.prev;
    ASSERT(w->read);
    while (at != &n->reads && node__waiter_of(at)->read_index > w->read_index)
        at = at->prev;
    list_insert_after(at, &w->link);
}

void node__reads_wait(struct node_apply *n, struct node_waiter *chain, raft_index index)
{
    ASSERT(n != NULL);
    while (chain != NULL) {
        struct node_waiter *next = node__chain_next(chain);
        chain->read_index = index;
        insert_read(n, chain);
        chain = next;
    }
}

void node__reads_release(struct node_apply *n)
{
    ASSERT(n->applied >= n->applied_told);
    while (!list_empty(&n->reads)) {
        struct node_waiter *w = node__waiter_of(n->reads.next);
        if (w->read_index > n->applied) return;
        if (node__apply_reserve(n, 1) < 0) return;
        list_remove(&w->link);
        node__apply_reply(n, w, 0, NULL);
    }
}

/* Which of the timeouts it was (server-behaviour.md 12). */
static int timeout_error(const struct node_apply *n, const struct node_waiter *w)
{
    int64_t lost_ns = n->lead_elected_ns - 2 * (int64_t)n->opts.election_ticks * n->opts.tick_ns;
    ASSERT(lost_ns <= n->lead_elected_ns);
    bool during = w->start_ns > lost_ns && w->start_ns < n->lead_elected_ns;
    return during ? E_TIMEOUT_DUE_TO_LEADER_FAIL : E_TIMEOUT;
}

void node__expire(struct node_apply *n)
{
    ASSERT(n->timeout_ns > 0);
    while (!list_empty(&n->limited)) {
        struct node_waiter *w = node__waiter_of(n->limited.next);
        if (n->now_ns - w->start_ns < n->timeout_ns) return;
        if (node__apply_reserve(n, 1) < 0) return;
        (void)map_u64_remove(&n->waiters, w->request_id);
        list_remove(&w->link);
        answer_held(n, w, timeout_error(n, w));
    }
}

void node__hold(struct list *list, struct node_waiter *w, struct apply_result *result)
{
    ASSERT(w->held == NULL);
    w->held = result;
    list_push_back(list, &w->link);
}

void node__answer_list(struct node_apply *n, struct list *list)
{
    ASSERT(list != NULL);
    while (!list_empty(list)) {
        if (node__apply_reserve(n, 1) < 0) return;
        struct node_waiter *w = node__waiter_of(list_pop_front(list));
        answer_held(n, w, E_STOPPED);
    }
}

void node__answer_noted(struct node_apply *n, raft_index index)
{
    ASSERT(index <= n->applied);
    while (!list_empty(&n->noted)) {
        struct node_waiter *w = node__waiter_of(n->noted.next);
        if (w->read_index > index || node__apply_reserve(n, 1) < 0) return;
        list_remove(&w->link);
        answer_held(n, w, E_STOPPED);
    }
}

static void answer_waiting(struct node_apply *n, struct list *list, int error)
{
    ASSERT(error < 0);
    while (!list_empty(list)) {
        if (node__apply_reserve(n, 1) < 0) return;
        struct node_waiter *w = node__waiter_of(list_pop_front(list));
        (void)map_u64_remove(&n->waiters, w->request_id);
        answer_held(n, w, error);
    }
}

void node__answer_all(struct node_apply *n, int error)
{
    ASSERT(error < 0);
    answer_waiting(n, &n->limited, error);
    answer_waiting(n, &n->unlimited, error);
    answer_waiting(n, &n->reads, error);
    answer_waiting(n, &n->noted, error);
    answer_waiting(n, &n->compacting, error);
}
