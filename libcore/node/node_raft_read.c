/* Rounds of reads: one at a time; who comes during a round waits for the next (server-behaviour.md 12). */
#include "node/node_raft_int.h"

static void put_be64(uint8_t *at, uint64_t v)
{
    ASSERT(at != NULL);
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(v >> (8 * (7 - i)));
}

static uint64_t get_be64(const uint8_t *at)
{
    ASSERT(at != NULL);
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | at[i];
    return v;
}

int node_raft_read(struct node_raft *n, struct node_waiter *waiter)
{
    ASSERT(waiter->request_id != 0);
    if (n->stopping) return E_STOPPED;
    if (n->read_count >= NODE_WAITING_MAX) return E_TOO_MANY_REQUESTS;
    waiter->start_ns = n->now_ns;
    waiter->read = true;
    waiter->held = NULL;
    list_push_back(&n->next_round, &waiter->link);
    n->read_count++;
    return 0;
}

/* Asks raft for the read index; without a leader or memory the next resend tries again. */
static void send_round(struct node_raft *n)
{
    ASSERT(n->round_id != 0);
    n->round_sent_ns = n->now_ns;
    struct rcbuf *context = rcbuf_new(n->alloc, 8);
    if (context == NULL) return;
    put_be64(context->data, n->round_id);
    (void)raft_read_index(n->core, context);
    rcbuf_unref(context);
}

static void begin_round(struct node_raft *n)
{
    ASSERT(list_empty(&n->round));
    list_splice_back(&n->round, &n->next_round);
    n->round_confirm = n->confirm_wanted;
    n->confirm_wanted = false;
    n->round_id = node_ids_next(n->opts.ids);
    n->round_start_ns = n->now_ns;
    n->round_resend = false;
    send_round(n);
}

void node__reads_pump(struct node_raft *n)
{
    ASSERT(n->round_id != 0 || list_empty(&n->round));
    if (n->round_id == 0 && (!list_empty(&n->next_round) || n->confirm_wanted)) {
        begin_round(n);
    } else if (n->round_id != 0 && n->round_resend) {
        n->round_resend = false;
        send_round(n);
    }
}

static void end_round(struct node_raft *n)
{
    ASSERT(list_empty(&n->round));
    n->round_id = 0;
    n->round_confirm = false;
}

/* Room for read_count outputs must be there. */
void node__reads_fail_list(struct node_raft *n, struct list *head, int error)
{
    ASSERT(error < 0);
    struct list *link;
    while ((link = list_pop_front(head)) != NULL) {
        node__out_error(n, node__waiter_of(link), error);
        ASSERT(n->read_count > 0);
        n->read_count--;
    }
}

void node__reads_leader_changed(struct node_raft *n)
{
    ASSERT(n->had_leader);
    node__reads_fail_list(n, &n->round, E_LEADER_CHANGED);
    if (n->round_confirm) n->confirm_wanted = true;
    end_round(n);
}

void node__reads_tick(struct node_raft *n)
{
    ASSERT(n->timeout_ns > 0);
    if (n->round_id == 0) return;
    if (n->now_ns - n->round_start_ns >= n->timeout_ns) {
        if (node__out_reserve(n, n->read_count) < 0) return;
        node__reads_fail_list(n, &n->round, E_TIMEOUT);
        if (n->round_confirm) n->confirm_wanted = true;
        end_round(n);
    } else if (n->now_ns - n->round_sent_ns >= NODE__READ_RESEND_NS) {
        n->round_resend = true;
    }
}

static size_t list_length(const struct list *head)
{
    ASSERT(head != NULL);
    size_t count = 0;
    for (const struct list *l = head->next; l != head; l = l->next)
        count++;
    return count;
}

/* One output must have room. */
void node__reads_answered(struct node_raft *n, const struct raft_read *read)
{
    ASSERT(read->context != NULL);
    struct bytes id = rcbuf_bytes(read->context);
    /* Answers to earlier rounds, and second answers to this one, are nobody's. */
    if (id.len != 8 || n->round_id == 0 || get_be64(id.data) != n->round_id) return;
    n->read_count -= list_length(&n->round);
    node__out_note(n, (struct node_to_apply){.kind = NODE_READ_OK,
                                             .index = read->index,
                                             .waiter = node__chain_from_list(&n->round),
                                             .confirm = n->round_confirm});
    end_round(n);
}

static bool cancel_in(struct node_raft *n, struct list *head, uint64_t request_id, int error)
{
    struct list *link;
    ASSERT(error < 0);
    LIST_EACH(head, link)
    {
        struct node_waiter *w = node__waiter_of(link);
        if (w->request_id != request_id) continue;
        list_remove(link);
        n->read_count--;
        node__out_error(n, w, error);
        return true;
    }
    return false;
}

bool node__reads_cancel(struct node_raft *n, uint64_t request_id, int error)
{
    ASSERT(request_id != 0);
    return cancel_in(n, &n->round, request_id, error) ||
           cancel_in(n, &n->next_round, request_id, error);
}
