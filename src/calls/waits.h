#ifndef PEN_CALLS_WAITS_H
#define PEN_CALLS_WAITS_H

#include "calls/meetings.h"

/*
 * Finds which rank waited for which. In a collective that needs all ranks, each
 * of them waits until the last has called; a receive waits until the send is
 * called. The first meeting of a group is left out: it waits for the start of
 * the processes or of the recorder. Operations with a root are left out, too,
 * since they do not keep all ranks waiting.
 *
 * Clocks. Ranks of one host have one clock. Between hosts clocks are believed
 * unless most collectives would have ended on one rank before the other began;
 * then the rank's times are moved so that the ends agree in the median. A
 * smaller difference of clocks is not seen and counts as waiting.
 */

#define PEN_CALL_NOBODY UINT32_MAX

struct pen_call_rank_waits {
    double waited_sec;
    double caused_sec; /* the others' waiting for it */
    uint64_t caused;   /* meetings and messages it came last to */
};

struct pen_call_link {
    uint32_t from; /* ranks */
    uint32_t to;
    uint64_t count;
    double late_sec;     /* sends called after their receives */
    double transfer_sec; /* mean, of those with a recorded end; -1: none */
};

struct pen_call_waits {
    struct pen_call_rank_waits *ranks; /* by line of pen_calls */
    struct pen_call_link *links;
    size_t num_links;
    size_t num_meetings; /* that were judged */
    double total_sec;    /* waiting of all ranks */
    double span_sec;     /* from the first judged begin to the last */
    uint32_t late_line;  /* that causes most of it, or PEN_CALL_NOBODY */
    uint32_t slow_link;  /* far slower than the others, or PEN_CALL_NOBODY */
};

/* Sets shift_ns of the ranks; the meetings must be of these calls. */
pen_status pen_calls_align(struct pen_calls *calls,
                           const struct pen_meetings *meetings,
                           struct pen_text *why);

pen_status pen_call_waits_init(const struct pen_meetings *meetings,
                               struct pen_call_waits *out,
                               struct pen_text *why);
void pen_call_waits_release(struct pen_call_waits *waits);

/* Finds when the last rank called; false where the meeting is not judged. */
bool pen_meeting_last(const struct pen_meetings *meetings,
                      const struct pen_meeting *meeting, uint32_t *line,
                      int64_t *begin_ns);

#endif
