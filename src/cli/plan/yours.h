#ifndef PEN_CLI_PLAN_YOURS_H
#define PEN_CLI_PLAN_YOURS_H

#include "cli/plan/options.h"
#include "planner/changes.h"

/*
 * A command line of Megatron-LM as it is, the best plan for the same model,
 * batch and devices, and the way there. Begin with zeros.
 */
struct pen__yours {
    struct pen__planning planning;
    struct pen_plan *plan;
    struct pen_overlaps overlaps;
    struct pen_prediction prediction; /* of the plan */
    struct pen_plan_ranking *ranking; /* NULL until a better one is searched */
    struct pen_changes changes;
};

/* Reads the line of the arguments and predicts it. Release in either case. */
pen_status pen__yours_predict(struct pen__plan_args *args,
                              struct pen__yours *yours, struct pen_text *why);

/* Searches the best plan, and the changes that lead to it. */
pen_status pen__yours_search(const struct pen__plan_args *args,
                             struct pen__yours *yours, struct pen_text *why);

/* Prints all changes in a line: "--micro-batch-size 1 -> 2, ...". */
void pen__yours_print_way(const struct pen__yours *yours, struct pen_text *out);

void pen__yours_release(struct pen__yours *yours);

#endif
