#ifndef PEN_CORE_RUN_EVENTS_H
#define PEN_CORE_RUN_EVENTS_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The events that interrupted a run, as penstock supervise wrote them: JSON
 * lines (docs/formats.md, "Events of a supervisor").
 */

#define PEN_RUN_CAUSE_SIZE 32u

/* A launch that failed. Counts are -1 and reals NaN where not known. */
struct pen_run_fault {
    double time_sec; /* since 1970 */
    int64_t epoch;   /* of the launch */
    int64_t step;    /* the newest that was committed */
    int64_t failed_step;
    int64_t rank;
    int64_t signal;
    double lost_sec; /* until the first step after it was committed; 0 where an
                        earlier fault of the same series has them */
    int64_t redone_steps;
    char cause[PEN_RUN_CAUSE_SIZE];
};

struct pen_run_events {
    struct pen_run_fault *faults;
    size_t num_faults;
    uint64_t num_restarts;
    int64_t epoch;    /* of the last launch */
    double lost_sec;  /* of faults and changes of the ranks that are over */
    double begin_sec; /* of the first event and the last one, since 1970 */
    double end_sec;
    bool is_over; /* the last one says that the run has ended */
};

/*
 * Reads the events. A malformed line is refused with its number; a last line
 * without its newline, events of other names and further keys are ignored. On
 * success *out is owned by the caller.
 */
pen_status pen_run_events_load(const char *path, struct pen_run_events **out,
                               struct pen_text *why);
pen_status pen_run_events_parse(const char *text, size_t length,
                                struct pen_run_events **out,
                                struct pen_text *why);
void pen_run_events_free(struct pen_run_events *events);

#endif
