#ifndef PEN_VIEW_CALLS_DRAW_H
#define PEN_VIEW_CALLS_DRAW_H

#include "calls/faults.h"
#include "calls/waits.h"

/* The contents of the picture of a job's calls; all borrowed. */
struct pen_calls_picture {
    const struct pen_meetings *meetings;
    const struct pen_call_faults *faults;
    const struct pen_call_waits *waits;
    const char *const *sentences; /* under the title */
    size_t num_sentences;
};

/*
 * Draws one row per rank of the job to a file that ends in .svg, .png or .pdf.
 * Where there is a fault: the calls before it and the fault; else the calls
 * around the longest waiting.
 */
pen_status pen_calls_draw(const struct pen_calls_picture *picture,
                          const char *path, struct pen_text *why);

#endif
