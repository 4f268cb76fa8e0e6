#ifndef PEN_TESTS_RANDOM_PLAN_H
#define PEN_TESTS_RANDOM_PLAN_H

#include "base/random.h"
#include "core/plan.h"

/* A plan by dice, with its model. */
struct random_plan {
    struct pen_model *model;
    struct pen_plan *plan;
};

/*
 * A plan that passes its check and that the exporter of this name
 * ("megatron", "torchtitan@0.2.2") takes, perhaps with notes: of any family
 * that it has, any degrees that cut its model, stages of any lengths, any
 * schedule, and a recipe in two of three. The program ends when memory does.
 */
void random_plan_make(struct pen_random *random, const char *target,
                      struct random_plan *out);
void random_plan_release(struct random_plan *random_plan);

#endif
