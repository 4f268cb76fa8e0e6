#ifndef PEN_PLANNER_MEASURED_H
#define PEN_PLANNER_MEASURED_H

#include "planner/compute.h"
#include "planner/predict.h"
#include "schedule/generators.h"

/*
 * A plan for this runtime as a profile of the machine sees it: seconds that
 * were measured, and the bytes that the runtime will allocate, counted from the
 * rows of its schedule.
 */
struct pen__measured {
    struct pen_profile profile; /* for the micro-batch of the plan */
    struct pen_compute compute; /* with that profile */
    struct pen_schedule
        *schedule; /* asynchronous: of twice the batches below */
    bool has_whole_backward;
};

/*
 * Batches after which the pipeline of an asynchronous schedule is full and each
 * further one takes as long as the one before; 0 for synchronous schedules.
 */
uint32_t pen__measured_batches(const struct pen_plan *plan,
                               const struct pen_generator *generator);

/*
 * The order that the runtime will make, which knows no costs. On success *out
 * is owned by the caller.
 */
pen_status pen__measured_schedule(const struct pen_plan *plan,
                                  const struct pen_generator *generator,
                                  uint32_t batches, struct pen_schedule **out,
                                  struct pen_text *why);

/* Whether the profile decides: it is there, and the runtime is ours. */
bool pen__is_measured(const struct pen_setting *setting);

/*
 * INVALID when the plan is not one that the profile answers; why says what is
 * missing. On success *out is owned by the caller; free it with
 * pen__measured_free().
 */
pen_status pen__measured_create(const struct pen_setting *setting,
                                const struct pen_plan *plan,
                                const struct pen_generator *generator,
                                struct pen__measured **out,
                                struct pen_text *why);
void pen__measured_free(struct pen__measured *measured);

/* Seconds of a stage of the plan; recomputation apart where it is known. */
void pen__measured_stage(const struct pen__measured *measured,
                         const struct pen_layer_range *range,
                         struct pen_layer_time *time, struct pen_cost *cost);

/*
 * As pen_predict_layer(); false, and nothing is set, for micro-batches or modes
 * that the profile does not know.
 */
bool pen__measured_layer(const struct pen_setting *setting,
                         const struct pen_plan *plan, uint32_t layer,
                         enum pen_recompute recompute,
                         struct pen_layer_time *time,
                         struct pen_layer_bytes *bytes);

/* Bytes that one rank of the pipeline holds, in every replica; sets all but
 * count. */
void pen__measured_memory(const struct pen__measured *measured,
                          const struct pen_plan *plan, uint32_t rank,
                          struct pen_plan_memory *out);

#endif
