/* Clocks of hosts that do not agree; the assumption is in waits.h. */
#include "base/room.h"
#include "calls/waits.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_MEETINGS 4u
#define LEAST_SHIFT_NS 1000000 /* clocks of hosts agree to a millisecond */

/*
 * Returns the end of a call or, where it is not recorded, the begin of the
 * next.
 */
static int64_t end_of(const struct pen_call_rank *rank,
                      const struct pen_call *call)
{
    if (call->end_ns != 0)
        return call->end_ns;
    const struct pen_call *next = call + 1;
    return next < rank->calls + rank->count ? next->begin_ns : 0;
}

/* How far the clocks of two ranks differ, by the calls they made together. */
struct pair {
    int64_t *differences; /* of the ends */
    size_t count;
    size_t impossible; /* meetings that one left before the other came */
};

static void add_meeting(struct pair *pair, const struct pen_call_rank *a,
                        const struct pen_call *x, const struct pen_call_rank *b,
                        const struct pen_call *y)
{
    int64_t x_end = end_of(a, x);
    int64_t y_end = end_of(b, y);
    if (x->begin_ns == 0 || y->begin_ns == 0 || x_end == 0 || y_end == 0)
        return;
    pair->differences[pair->count++] = x_end - y_end;
    pair->impossible += x->begin_ns > y_end || y->begin_ns > x_end;
}

static int compare_ns(const void *a, const void *b)
{
    const int64_t *x = a;
    const int64_t *y = b;
    return (*x > *y) - (*x < *y);
}

static void shift(struct pen_call_rank *rank, struct pair *pair)
{
    if (pair->count < LEAST_MEETINGS || 2 * pair->impossible <= pair->count)
        return;
    qsort(pair->differences, pair->count, sizeof *pair->differences,
          compare_ns);
    int64_t median = pair->differences[pair->count / 2];
    if (median > LEAST_SHIFT_NS || median < -LEAST_SHIFT_NS)
        rank->shift_ns = median;
}

static bool is_same_host(const struct pen_call_rank *a,
                         const struct pen_call_rank *b)
{
    return a->host[0] != '\0' && strcmp(a->host, b->host) == 0;
}

static void look_at(struct pair *pair, const struct pen_meetings *meetings,
                    uint32_t line)
{
    const struct pen_call_rank *ranks = meetings->calls->ranks;
    for (size_t i = 0; i < meetings->count; i++) {
        const struct pen_meeting *meeting = &meetings->list[i];
        const struct pen_call *first = pen_meeting_call(meetings, meeting, 0);
        const struct pen_call *other =
            pen_meeting_find(meetings, meeting, ranks[line].rank);
        if (pen_meeting_rank(meetings, meeting, 0) == ranks && other != NULL &&
            pen_call_op_info(first->op)->waits_for_all)
            add_meeting(pair, &ranks[0], first, &ranks[line], other);
    }
}

pen_status pen_calls_align(struct pen_calls *calls,
                           const struct pen_meetings *meetings,
                           struct pen_text *why)
{
    struct pair pair = {
        .differences = pen_room(meetings->count + 1, sizeof *pair.differences)};
    if (pair.differences == NULL) {
        pen_why(why, "out of memory for the clocks of %u ranks",
                calls->num_ranks);
        return PEN_NOMEM;
    }
    for (uint32_t line = 1; line < calls->num_ranks; line++) {
        if (is_same_host(&calls->ranks[0], &calls->ranks[line]))
            continue;
        pair.count = 0;
        pair.impossible = 0;
        look_at(&pair, meetings, line);
        shift(&calls->ranks[line], &pair);
    }
    free(pair.differences);
    return PEN_OK;
}
