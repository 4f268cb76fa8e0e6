#ifndef PEN_TESTS_DELAY_TRACE_H
#define PEN_TESTS_DELAY_TRACE_H

/*
 * Training with delayed weights as the papers write it down, in one process
 * and without a schedule: all weights that ever were are kept, and for every
 * micro-batch each stage is given those that the equation names. Neither the
 * executor nor the versions of the runtime are used.
 *
 * Steps before cures.stale_after are run one by one, each from an empty
 * pipeline, and read what is newest; then the learning rate is divided by
 * (1 + t)^(1 - k/K) in the k-th of K steps, t the delay of the stage in steps.
 *
 * A batch is clipped by the norm of its whole gradient, over all stages, as the
 * weights that it read gave it. Where first and last stage share a matrix, its
 * gradient is the last stage's of the batch plus the first stage's of the same
 * batch; it is stepped once, and both have the result.
 */
#include "runtime/batches.h"
#include "runtime/layout.h"
#include "runtime/lr_schedule.h"
#include "runtime/optimizer.h"
#include "schedule/correction.h"

enum delay_mode {
    DELAY_STASHING,      /* stage s of p at version i - (p-1-s) */
    DELAY_VERTICAL_SYNC, /* all at version i - (p-1) */
    DELAY_DOUBLE_BUFFER, /* batch t at version t-1 */
    DELAY_TWO_GROUPS,    /* first half of the stages so, second at t */
    DELAY_MOMENTUM,      /* predicted along the momentum */
    DELAY_ADAM,          /* predicted along Adam's direction */
    DELAY_AVERAGE,       /* backward estimated, smaller learning rates */
    DELAY_SPIKE,         /* spike compensation and linear prediction */
    DELAY_CYCLIC,        /* worker j reads part k at t or t-1 */
    DELAY_NEWEST         /* backward at t, forward older; both as they are */
};

struct delay_options {
    enum delay_mode mode;
    const struct pen_model *model;
    bool is_bf16;
    const struct pen_layer_range *parts;
    uint32_t num_parts;
    uint32_t num_ranks; /* of a pipeline */
    size_t micro_batch;
    uint32_t period;      /* micro-batches per step and member */
    uint32_t num_members; /* whose gradients are summed */
    uint32_t most_steps;  /* of a segment */
    struct pen_optimizer optimizer;
    struct pen_lr_schedule rates;
    struct pen_cures cures;
    struct pen_batches *batches;
    uint64_t seed;
};

struct delay_trace;

/* Ends the program when something is wrong. */
struct delay_trace *delay_trace_create(const struct delay_options *options);
void delay_trace_free(struct delay_trace *trace);

/*
 * Steps from an empty pipeline to an empty one; their losses, and the norms of
 * their gradients over all stages, by which they are clipped.
 */
void delay_trace_run(struct delay_trace *trace, uint32_t steps, double *losses,
                     double *norms);

struct pen_network *delay_trace_network(struct delay_trace *trace,
                                        uint32_t part);

#endif
