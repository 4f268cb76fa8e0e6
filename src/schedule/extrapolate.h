#ifndef PEN_SCHEDULE_EXTRAPOLATE_H
#define PEN_SCHEDULE_EXTRAPOLATE_H

#include "schedule/machine.h"

/*
 * Runs the program without walking through its periodic part. When it could
 * prove the period, *is_done is set and *run holds the clocks and busy ticks of
 * the whole program (release it); otherwise *run is untouched.
 */
pen_status pen__extrapolate(const struct pen__program *program,
                            const struct pen__ticks *ticks,
                            struct pen__run *run, bool *is_done);

#endif
