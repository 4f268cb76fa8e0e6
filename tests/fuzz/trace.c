/* A trace that is accepted keeps its bounds and is written as it was read. */
#include "core/trace.h"
#include "base/bug.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_trace(const struct pen_rank_trace *trace, const uint8_t *data,
                        size_t size)
{
    const struct pen_trace_head *head = &trace->head;
    size_t bytes = (size_t)head->num_events * sizeof *trace->events;
    PEN_BUG_UNLESS(sizeof *head + bytes <= size);
    PEN_BUG_UNLESS(memcmp(head, data, sizeof *head) == 0);
    PEN_BUG_UNLESS(memcmp(trace->events, data + sizeof *head, bytes) == 0);
    PEN_BUG_UNLESS(pen_trace_head_check(head, NULL) == PEN_OK);
    PEN_BUG_UNLESS(strlen(head->host) < sizeof head->host);
    for (uint64_t i = 0; i < head->num_events; i++) {
        const struct pen_trace_event *event = &trace->events[i];
        PEN_BUG_UNLESS(pen_trace_event_check(event, head, NULL) == PEN_OK);
        PEN_BUG_UNLESS(event->end_ns + head->clock_offset_ns <=
                       2 * PEN_TRACE_MAX_NS);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pen_rank_trace trace = {.events = NULL};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_rank_trace_parse(data, size, &trace, &why) == PEN_OK)
        check_trace(&trace, data, size);
    else
        PEN_BUG_UNLESS(why.length > 0 && trace.events == NULL);
    pen_rank_trace_release(&trace);
    pen_text_release(&why);
    return 0;
}
