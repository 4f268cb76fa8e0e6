#ifndef PEN_SCHEDULE_SEARCH_BOUND_H
#define PEN_SCHEDULE_SEARCH_BOUND_H

#include "schedule/search_problem.h"

/* Ticks below which no candidate of the problem can bring the span. */
int64_t pen__span_bound(const struct pen__problem *problem);

/*
 * Returns the memory in A without which no candidate exists: one micro-batch.
 */
double pen__memory_bound(const struct pen__problem *problem);

#endif
