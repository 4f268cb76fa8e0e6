#ifndef PEN_PLANNER_PREDICT_WORK_H
#define PEN_PLANNER_PREDICT_WORK_H

#include "planner/measured.h"
#include "planner/optimizer.h"
#include "planner/predict.h"
#include "schedule/generators.h"
#include "schedule/time.h"

/* Declarations that the files of the prediction share. */

/* A stage on one of its ranks. */
struct pen__stage {
    struct pen_layer_time time;   /* sums of its layers */
    struct pen_layer_bytes bytes; /* sums; the largest working_bytes */
    struct pen__matrix_sums matrices;
    double sync_sec;
    double gather_sec; /* part of the step after the optimizer */
    double update_sec;
    double behind_sec; /* of a rank: at least, after its last backward */
    double wait_sec;   /* in time: of a micro-batch, for weights of others */
};

/* A plan with all that was found out about it on the way. */
struct pen__work {
    const struct pen_setting *setting;
    const struct pen_plan *plan;
    const struct pen_device *device; /* of the slowest group in use */
    struct pen__stage *stages;
    const struct pen_generator *generator;
    struct pen_costs costs;
    double activation_bytes;        /* of one A of the costs */
    double gather_sec;              /* part of the latency: receivers' */
    struct pen__measured *measured; /* NULL: formulas decide */
    double tie_sec; /* in the sums of the first and the last stage */
};

/*
 * Checks the plan and fills all but the costs. End with pen__work_close() in
 * either case.
 */
pen_status pen__work_open(const struct pen_setting *setting,
                          const struct pen_plan *plan, struct pen__work *work,
                          struct pen_text *why);
void pen__work_close(struct pen__work *work);

static inline uint32_t pen__degree(const struct pen_plan *plan,
                                   enum pen_degree which)
{
    return plan->degrees[which];
}

/* The share on the host of all that a rank keeps from forward to backward. */
double pen__offloaded_share(const struct pen__work *work);

/* Which rank of the pipeline has a stage; of several copies, of the first. */
uint32_t pen__rank_of(const struct pen__work *work, uint32_t stage);

/* Two pipelines in opposite directions: half of the micro-batches each. */
bool pen__has_two_copies(const struct pen__work *work);

/* Whether weights pass through all ranks layer by layer. */
bool pen__passes_weights(const struct pen__work *work);

/*
 * Whether experts are dealt out and not sharded: a rank then has a gradient of
 * its experts from each rank of its group.
 */
bool pen__keeps_experts(const struct pen__work *work);

/* Fills the stages of the work: by formulas, or by what was measured. */
void pen__sum_stages(struct pen__work *work);
void pen__measure_stages(struct pen__work *work);

/* Sums over the stages of one pipeline rank. */
void pen__sum_rank(const struct pen__work *work, uint32_t rank,
                   struct pen__stage *out);

/* The costs under which the schedule is timed; released with the work. */
pen_status pen__make_costs(struct pen__work *work, struct pen_text *why);

/*
 * Arguments of the plan's generator, for `batches` batches where they overlap;
 * 0: the plan's own number.
 */
struct pen_generator_args pen__generator_args(const struct pen__work *work,
                                              uint32_t batches);

/* Seconds in which one pipeline rank computes in a step, without messages. */
double pen__busy_sec(const struct pen__work *work,
                     const struct pen__stage *rank);

/* Seconds of a step that belong to no layer, message or optimizer. */
double pen__other_sec(const struct pen__work *work);

/*
 * Whether steps go ahead of the norm of all gradients: this program's trainer
 * does so where the schedule says it, others wait.
 */
bool pen__is_optimistic(const struct pen__work *work);

/* Times the schedule; *span_sec is what one batch takes. Free *out. */
pen_status pen__time_schedule(const struct pen__work *work,
                              struct pen_timing **out, double *span_sec,
                              struct pen_text *why);

/* Fills in the bytes of every rank, as timed or, without a timing, at least. */
pen_status pen__tell_memory(const struct pen__work *work,
                            const struct pen_timing *timing,
                            struct pen_prediction *out, struct pen_text *why);

#endif
