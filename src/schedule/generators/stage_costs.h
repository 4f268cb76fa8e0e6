#ifndef PEN_SCHEDULE_GENERATORS_STAGE_COSTS_H
#define PEN_SCHEDULE_GENERATORS_STAGE_COSTS_H

#include "schedule/generators.h"

/*
 * The costs of each stage's ops, in whole numbers, for the generators whose
 * order depends on them: with doubles the last bit of a sum would decide a tie,
 * and with it the schedule.
 */
struct pen__stage_cost {
    int64_t forward; /* ticks */
    int64_t input;
    int64_t weight;
    int64_t ahead; /* hop of the activation to the next stage */
    int64_t back;  /* hop of the gradient to the previous stage */
    int64_t forward_memory;
    int64_t input_memory;
    int64_t weight_memory;
};

#define PEN__MEMORY_PER_A 1000000000.0

/*
 * Creates one item per stage of the shape, owned by the caller; free() it.
 * `memory` in A replaces the one in args->costs.
 */
pen_status pen__stage_costs_create(const struct pen_generator_args *args,
                                   const struct pen_shape *shape,
                                   const struct pen_memory *memory,
                                   struct pen__stage_cost **out,
                                   struct pen_text *why);

/* Converts memory in A to a whole number. */
int64_t pen__memory_units(double memory);

#endif
