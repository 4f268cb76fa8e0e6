#ifndef PEN_PLANNER_TIMINGS_H
#define PEN_PLANNER_TIMINGS_H

#include "schedule/generators.h"
#include "schedule/time.h"

/*
 * Schedules that were made once and are timed under many costs. Orders that do
 * not depend on the costs are kept, as many as fit; the others are made anew.
 */
struct pen_timings;

struct pen_timings *pen_timings_create(void);
void pen_timings_free(struct pen_timings *timings);

/* Operations of a schedule that is kept, messages included, at most. */
#define PEN_TIMINGS_MOST_OPS (1u << 20)

/* Schedules that were made so far; all others were kept ones. */
uint64_t pen_timings_made(const struct pen_timings *timings);

/*
 * Times the schedule of these arguments under their costs. timings may be NULL:
 * nothing is kept. Free *out with pen_timing_free().
 */
pen_status pen_timings_run(struct pen_timings *timings,
                           const struct pen_generator *generator,
                           const struct pen_generator_args *args,
                           struct pen_timing **out, struct pen_text *why);

#endif
