#ifndef PEN_CALLS_MEETINGS_H
#define PEN_CALLS_MEETINGS_H

#include "calls/calls.h"

/*
 * Calls that belong together. A meeting is one collective: the calls of all
 * ranks with the same group and number. A message is a send and a receive: the
 * n-th of each on the link from one rank to another.
 */

/* A call by the line of its rank in pen_calls. */
struct pen_call_ref {
    uint32_t line;
    uint32_t call;
};

struct pen_meeting {
    uint32_t group;
    uint32_t count; /* of calls, at most one per rank */
    uint64_t number;
    size_t first; /* of its calls in pen_meetings.refs, by rank */
};

struct pen_message {
    uint32_t from; /* ranks of the job */
    uint32_t to;
    uint32_t number;             /* on the link, from 1 */
    const struct pen_call *send; /* NULL: not recorded */
    const struct pen_call *recv;
};

struct pen_meetings {
    const struct pen_calls *calls; /* borrowed */
    struct pen_meeting *list;      /* by group, then number */
    size_t count;
    struct pen_call_ref *refs;
    struct pen_message *messages; /* by link, then number */
    size_t num_messages;
};

pen_status pen_meetings_init(const struct pen_calls *calls,
                             struct pen_meetings *out, struct pen_text *why);
void pen_meetings_release(struct pen_meetings *meetings);

/* Returns the call of a meeting's i-th rank. */
const struct pen_call *pen_meeting_call(const struct pen_meetings *meetings,
                                        const struct pen_meeting *meeting,
                                        uint32_t i);
const struct pen_call_rank *
pen_meeting_rank(const struct pen_meetings *meetings,
                 const struct pen_meeting *meeting, uint32_t i);

/* Returns the call of that rank, or NULL. */
const struct pen_call *pen_meeting_find(const struct pen_meetings *meetings,
                                        const struct pen_meeting *meeting,
                                        uint32_t rank);

#endif
