#ifndef PEN_CLI_TRAIN_LAYOUT_H
#define PEN_CLI_TRAIN_LAYOUT_H

#include "cli/train_options.h"
#include "core/plan.h"
#include "schedule/time.h"

/*
 * How a training is spread over ranks: the schedule and the layers of its
 * stages, from the options.
 */
struct pen__train_layout {
    struct pen_plan *plan;         /* NULL: the options alone decide */
    struct pen_schedule *schedule; /* lowered */
    struct pen_layer_range *parts;
    bool has_costs;          /* as below */
    struct pen_costs costs;  /* of the schedule, as predicted */
    double predicted_bubble; /* NaN: not known */
    double predicted_sec;    /* of a step, with a profile; else NaN */
};

/* A plan sets options in args. On success release it. */
pen_status pen__train_layout_init(struct pen__train_layout *layout,
                                  struct pen__train_args *args,
                                  const struct pen_any_model *model,
                                  uint32_t sequence, uint32_t num_ranks,
                                  struct pen_text *why);
void pen__train_layout_release(struct pen__train_layout *layout);

#endif
