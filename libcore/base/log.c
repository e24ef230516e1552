/* Hands an event to the sink, if there is one. */
#include "base/log.h"

void log_emit(const struct log *l, const struct log_event *event)
{
    if (l != NULL && l->emit != NULL) l->emit(l->arg, event);
}
