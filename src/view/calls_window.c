#include "view/calls_window.h"

#include "calls/waits.h"

#define MOST_BEFORE_FAULT 12u /* meetings */
#define MOST_SHOWN 120u

struct span {
    int64_t first_ns;
    int64_t last_ns;
};

static void add_time(struct span *span, int64_t at_ns)
{
    span->first_ns = at_ns < span->first_ns ? at_ns : span->first_ns;
    span->last_ns = at_ns > span->last_ns ? at_ns : span->last_ns;
}

static void add_call(struct span *span, const struct pen_call_rank *rank,
                     const struct pen_call *call)
{
    if (call == NULL || rank == NULL || call->begin_ns == 0)
        return;
    add_time(span, call->begin_ns + rank->shift_ns);
    if (call->end_ns != 0)
        add_time(span, call->end_ns + rank->shift_ns);
}

static struct span span_of(const struct pen_meetings *meetings,
                           const struct pen_meeting *meeting)
{
    struct span span = {INT64_MAX, INT64_MIN};
    for (uint32_t i = 0; i < meeting->count; i++)
        add_call(&span, pen_meeting_rank(meetings, meeting, i),
                 pen_meeting_call(meetings, meeting, i));
    return span;
}

/*
 * Returns the span of all calls but the first meeting of a group, which waits
 * for the start of processes.
 */
static struct span span_of_all(const struct pen_meetings *meetings)
{
    struct span span = {INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < meetings->count; i++) {
        const struct pen_meeting *meeting = &meetings->list[i];
        bool is_first = i == 0 || meeting[-1].group != meeting->group;
        bool is_only =
            i + 1 == meetings->count || meeting[1].group != meeting->group;
        struct span one = span_of(meetings, meeting);
        if ((is_first && !is_only) || one.first_ns > one.last_ns)
            continue;
        add_time(&span, one.first_ns);
        add_time(&span, one.last_ns);
    }
    for (size_t i = 0; i < meetings->num_messages; i++) {
        const struct pen_message *message = &meetings->messages[i];
        add_call(&span, pen_calls_find(meetings->calls, message->from),
                 message->send);
        add_call(&span, pen_calls_find(meetings->calls, message->to),
                 message->recv);
    }
    return span;
}

/* Finds the meeting that ranks waited for longest. */
static size_t find_longest(const struct pen_meetings *meetings)
{
    size_t longest = 0;
    int64_t most = -1;
    for (size_t i = 1; i < meetings->count; i++) {
        const struct pen_meeting *meeting = &meetings->list[i];
        uint32_t line;
        int64_t last;
        if (meeting[-1].group != meeting->group ||
            !pen_meeting_last(meetings, meeting, &line, &last))
            continue;
        int64_t wait = last - span_of(meetings, meeting).first_ns;
        if (wait > most) {
            most = wait;
            longest = i;
        }
    }
    return longest;
}

/*
 * Keeps the end at this meeting, and at most `most` earlier meetings of its
 * group.
 */
static void cut(const struct pen_meetings *meetings, size_t index, size_t most,
                struct span *span)
{
    const struct pen_meeting *last = &meetings->list[index];
    size_t first = index;
    while (first > 0 && index - first < most &&
           meetings->list[first - 1].group == last->group)
        first--;
    struct span one = span_of(meetings, &meetings->list[first]);
    if (one.first_ns <= one.last_ns && one.last_ns > span->first_ns)
        span->first_ns = one.last_ns;
    one = span_of(meetings, last);
    if (one.first_ns <= one.last_ns && one.last_ns > span->first_ns)
        span->last_ns = one.last_ns;
}

static void set_fault(const struct pen_meetings *meetings,
                      const struct pen_call_fault *fault, struct span *span,
                      struct pen__calls_window *out)
{
    if (fault->meeting != NULL) {
        cut(meetings, (size_t)(fault->meeting - meetings->list),
            MOST_BEFORE_FAULT, span);
        struct span one = span_of(meetings, fault->meeting);
        if (one.first_ns <= one.last_ns)
            out->fault_ns = one.first_ns;
    } else if (fault->right != NULL && fault->right->begin_ns != 0) {
        const struct pen_call_rank *rank =
            pen_calls_find(meetings->calls, fault->right_rank);
        out->fault_ns =
            fault->right->begin_ns + (rank == NULL ? 0 : rank->shift_ns);
    }
}

void pen__calls_window_find(const struct pen_meetings *meetings,
                            const struct pen_call_fault *fault,
                            struct pen__calls_window *out)
{
    struct span span = span_of_all(meetings);
    int64_t first = span.first_ns;
    *out = (struct pen__calls_window){.fault_ns = span.last_ns};
    if (fault != NULL)
        set_fault(meetings, fault, &span, out);
    else if (meetings->count > MOST_SHOWN)
        cut(meetings, find_longest(meetings), MOST_SHOWN, &span);
    if (span.first_ns >= span.last_ns)
        span = (struct span){span.first_ns == INT64_MAX ? 0 : span.first_ns,
                             span.first_ns == INT64_MAX ? 1000
                                                        : span.first_ns + 1000};
    int64_t length = span.last_ns - span.first_ns;
    out->is_cut = span.first_ns > first;
    out->begin_ns = span.first_ns - length / 50;
    out->end_ns = span.last_ns + length / (fault == NULL ? 50 : 6);
    out->sec = 1e-9 * (double)(out->end_ns - out->begin_ns);
}
