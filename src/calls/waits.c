#include "calls/waits.h"

#include "base/room.h"
#include "calls/history.h"

#include <stdlib.h>

#define LEAST_SHARE 0.01 /* of the span, which the others wait in the mean */
#define SLOW_LINK 3      /* times the median of the links */

static int64_t begin_of(const struct pen_call_rank *rank,
                        const struct pen_call *call)
{
    return call->begin_ns + rank->shift_ns;
}

/* Counts the ranks of the group that have a file. */
static uint32_t count_recorded(const struct pen_meetings *meetings,
                               uint32_t group)
{
    const struct pen_call_group *of = &meetings->calls->groups[group];
    uint32_t count = 0;
    for (uint32_t i = 0; i < of->count; i++)
        count += pen_calls_find(meetings->calls, of->ranks[i]) != NULL;
    return count;
}

bool pen_meeting_last(const struct pen_meetings *meetings,
                      const struct pen_meeting *meeting, uint32_t *line,
                      int64_t *begin_ns)
{
    const struct pen_call *first = pen_meeting_call(meetings, meeting, 0);
    if (meeting->count < 2 || !pen_call_op_info(first->op)->waits_for_all)
        return false;
    *begin_ns = INT64_MIN;
    *line = meetings->refs[meeting->first].line;
    for (uint32_t i = 0; i < meeting->count; i++) {
        const struct pen_call *call = pen_meeting_call(meetings, meeting, i);
        int64_t begin = begin_of(pen_meeting_rank(meetings, meeting, i), call);
        if (call->begin_ns == 0 || !pen__call_agrees(first, call))
            return false;
        if (begin > *begin_ns) {
            *begin_ns = begin;
            *line = meetings->refs[meeting->first + i].line;
        }
    }
    return true;
}

struct span {
    int64_t first_ns;
    int64_t last_ns;
};

static void add_meeting(const struct pen_meetings *meetings,
                        const struct pen_meeting *meeting,
                        struct pen_call_waits *out, struct span *span)
{
    uint32_t line;
    int64_t last;
    if (!pen_meeting_last(meetings, meeting, &line, &last))
        return;
    out->num_meetings++;
    out->ranks[line].caused++;
    span->last_ns = last > span->last_ns ? last : span->last_ns;
    for (uint32_t i = 0; i < meeting->count; i++) {
        const struct pen_call_rank *rank =
            pen_meeting_rank(meetings, meeting, i);
        int64_t begin = begin_of(rank, pen_meeting_call(meetings, meeting, i));
        span->first_ns = begin < span->first_ns ? begin : span->first_ns;
        double sec = 1e-9 * (double)(last - begin);
        out->ranks[rank - meetings->calls->ranks].waited_sec += sec;
        out->ranks[line].caused_sec += sec;
        out->total_sec += sec;
    }
}

static void add_meetings(const struct pen_meetings *meetings,
                         struct pen_call_waits *out, struct span *span)
{
    uint32_t recorded = 0;
    for (size_t i = 0; i < meetings->count; i++) {
        const struct pen_meeting *meeting = &meetings->list[i];
        if (i == 0 || meeting[-1].group != meeting->group)
            recorded = count_recorded(meetings, meeting->group);
        else if (meeting->count == recorded)
            add_meeting(meetings, meeting, out, span);
    }
}

/* ---- links */

static struct pen_call_link *link_of(struct pen_call_waits *out,
                                     const struct pen_message *message)
{
    struct pen_call_link *last =
        out->num_links == 0 ? NULL : &out->links[out->num_links - 1];
    if (last != NULL && last->from == message->from && last->to == message->to)
        return last;
    last = &out->links[out->num_links++];
    *last = (struct pen_call_link){
        .from = message->from, .to = message->to, .transfer_sec = -1};
    return last;
}

static void add_message(const struct pen_meetings *meetings,
                        const struct pen_message *message,
                        struct pen_call_waits *out, struct span *span)
{
    const struct pen_calls *calls = meetings->calls;
    struct pen_call_link *link = link_of(out, message);
    if (message->send == NULL || message->recv == NULL ||
        message->send->begin_ns == 0 || message->recv->begin_ns == 0)
        return;
    const struct pen_call_rank *from = pen_calls_find(calls, message->from);
    const struct pen_call_rank *to = pen_calls_find(calls, message->to);
    int64_t sent = begin_of(from, message->send);
    int64_t ready = begin_of(to, message->recv);
    int64_t begin = sent > ready ? sent : ready;
    span->first_ns = ready < span->first_ns ? ready : span->first_ns;
    span->last_ns = begin > span->last_ns ? begin : span->last_ns;
    link->count++;
    if (sent > ready) {
        double sec = 1e-9 * (double)(sent - ready);
        link->late_sec += sec;
        out->ranks[to - calls->ranks].waited_sec += sec;
        out->ranks[from - calls->ranks].caused_sec += sec;
        out->ranks[from - calls->ranks].caused++;
        out->total_sec += sec;
    }
    if (message->recv->end_ns != 0) {
        int64_t end = message->recv->end_ns + to->shift_ns;
        double sec = end > begin ? 1e-9 * (double)(end - begin) : 0;
        double before = link->transfer_sec < 0 ? 0 : link->transfer_sec;
        link->transfer_sec = before + (sec - before) / (double)link->count;
    }
}

static int compare_transfers(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

/* Finds the slowest of at least three links, if it is far from the others. */
static pen_status find_slow_link(struct pen_call_waits *out)
{
    double *transfers = pen_room(out->num_links + 1, sizeof *transfers);
    size_t count = 0;
    size_t slowest = 0;
    if (transfers == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < out->num_links; i++) {
        if (out->links[i].transfer_sec < 0)
            continue;
        transfers[count++] = out->links[i].transfer_sec;
        if (out->links[i].transfer_sec > out->links[slowest].transfer_sec)
            slowest = i;
    }
    qsort(transfers, count, sizeof *transfers, compare_transfers);
    if (count >= 3) {
        const struct pen_call_link *link = &out->links[slowest];
        double total = link->transfer_sec * (double)link->count;
        if (link->transfer_sec / SLOW_LINK > transfers[count / 2] &&
            total >= LEAST_SHARE * out->span_sec)
            out->slow_link = (uint32_t)slowest;
    }
    free(transfers);
    return PEN_OK;
}

/* ---- both */

/* Finds a rank that causes at least half of the waiting, if that matters. */
static void find_late_line(const struct pen_calls *calls,
                           struct pen_call_waits *out)
{
    uint32_t worst = 0;
    for (uint32_t line = 1; line < calls->num_ranks; line++) {
        if (out->ranks[line].caused_sec > out->ranks[worst].caused_sec)
            worst = line;
    }
    double caused = out->ranks[worst].caused_sec;
    double mean = caused / (calls->num_ranks - 1.0 + 1e-9);
    if (calls->num_ranks > 1 && caused > 0 && 2 * caused >= out->total_sec &&
        mean >= LEAST_SHARE * out->span_sec)
        out->late_line = worst;
}

pen_status pen_call_waits_init(const struct pen_meetings *meetings,
                               struct pen_call_waits *out, struct pen_text *why)
{
    const struct pen_calls *calls = meetings->calls;
    struct span span = {INT64_MAX, INT64_MIN};
    struct pen_call_waits waits = {
        .ranks = pen_room_zero(calls->num_ranks, sizeof *waits.ranks),
        .links = pen_room(meetings->num_messages + 1, sizeof *waits.links),
        .late_line = PEN_CALL_NOBODY,
        .slow_link = PEN_CALL_NOBODY};
    pen_status status =
        waits.ranks == NULL || waits.links == NULL ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK) {
        add_meetings(meetings, &waits, &span);
        for (size_t i = 0; i < meetings->num_messages; i++)
            add_message(meetings, &meetings->messages[i], &waits, &span);
        waits.span_sec = span.last_ns > span.first_ns
                             ? 1e-9 * (double)(span.last_ns - span.first_ns)
                             : 0;
        find_late_line(calls, &waits);
        status = find_slow_link(&waits);
    }
    if (status == PEN_OK) {
        *out = waits;
        return PEN_OK;
    }
    pen_why(why, "out of memory for the waiting of %u ranks", calls->num_ranks);
    pen_call_waits_release(&waits);
    return status;
}

void pen_call_waits_release(struct pen_call_waits *waits)
{
    free(waits->ranks);
    free(waits->links);
    *waits = (struct pen_call_waits){.ranks = NULL};
}
