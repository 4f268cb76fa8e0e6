#ifndef PEN_SCHEDULE_PATH_H
#define PEN_SCHEDULE_PATH_H

#include "schedule/machine.h"
#include "schedule/time.h"

/*
 * Fills timing->path: the chain of ops, from the first to the one that ends
 * last, in which each waits for nothing but the one before it. The run must
 * have recorded its ops.
 */
pen_status pen__critical_path(const struct pen_schedule *schedule,
                              const struct pen__run *run,
                              struct pen_timing *timing);

#endif
