/* An intrusive, doubly linked, circular list: the head is a link like the others. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct list {
    struct list *next;
    struct list *prev;
};

/* The object of type `type` whose `member` is at `link`. */
#define LIST_OBJECT(link, type, member) ((type *)((uintptr_t)(link)-offsetof(type, member)))

/* Makes a head empty, or a link alone. */
static inline void list_init(struct list *l)
{
    l->next = l;
    l->prev = l;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

/* Puts `link` behind `place`, which is a head or a link in a list. */
static inline void list_insert_after(struct list *place, struct list *link)
{
    link->prev = place;
    link->next = place->next;
    place->next->prev = link;
    place->next = link;
}

static inline void list_push_front(struct list *head, struct list *link)
{
    list_insert_after(head, link);
}

static inline void list_push_back(struct list *head, struct list *link)
{
    list_insert_after(head->prev, link);
}

/* Takes `link` out of its list; it is then alone, and may be removed again. */
static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* The first link, taken out; NULL when the list is empty. */
static inline struct list *list_pop_front(struct list *head)
{
    if (list_empty(head)) return NULL;
    struct list *link = head->next;
    list_remove(link);
    return link;
}

/* Moves all links of `from` behind the last of `to`; `from` is then empty. */
static inline void list_splice_back(struct list *to, struct list *from)
{
    if (list_empty(from)) return;
    from->next->prev = to->prev;
    from->prev->next = to;
    to->prev->next = from->next;
    to->prev = from->prev;
    list_init(from);
}

/* Walks from first to last; the body must not remove `link` (LIST_EACH_SAFE may: `spare` is a
 * second cursor). */
#define LIST_EACH(head, link) for ((link) = (head)->next; (link) != (head); (link) = (link)->next)
#define LIST_EACH_SAFE(head, link, spare)                                                          \
    for ((link) = (head)->next, (spare) = (link)->next; (link) != (head);                          \
         (link) = (spare), (spare) = (link)->next)

#endif
