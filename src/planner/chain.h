#ifndef PEN_PLANNER_CHAIN_H
#define PEN_PLANNER_CHAIN_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Cuts a chain of layers into the stages of a pipeline, over devices of several
 * kinds: which layers a stage has, on which kind, with how many replicas. The
 * slowest stage takes as little time per micro-batch as it can, and every stage
 * fits in the memory of its devices.
 */

#define PEN_CHAIN_MAX_LAYERS 65536u
#define PEN_CHAIN_MAX_DEVICES 65536u

/* What a layer is, wherever it runs. */
struct pen_chain_layer {
    uint64_t state_bytes;    /* parameters, gradients and optimizer */
    uint64_t gradient_bytes; /* that replicas reduce, once per step */
    uint64_t stash_bytes;    /* of a micro-batch, forward to backward */
    uint64_t output_bytes;   /* of a micro-batch, to the next layer */
};

/* What a layer takes on one kind of device, for one micro-batch. */
struct pen_chain_seconds {
    double forward_sec;
    double input_sec;
    double weight_sec;
};

/* Devices of one kind that follow each other in the pipeline. */
struct pen_chain_group {
    const struct pen_chain_seconds *seconds; /* per layer */
    uint32_t num_devices;
    uint64_t memory_bytes; /* of a device; 0: not limited */
    /* A message takes latency_sec + bytes / bytes_per_sec. */
    double latency_sec;
    double bytes_per_sec;        /* to other stages; 0: takes no time */
    double reduce_bytes_per_sec; /* among replicas; 0: takes no time */
};

struct pen_chain_problem {
    const struct pen_chain_layer *layers;
    uint32_t num_layers;
    const struct pen_chain_group *groups; /* in the order of the pipeline */
    uint32_t num_groups;
    uint32_t num_microbatches; /* of a step */
    uint32_t most_replicas;    /* of a stage; 1: none is replicated */
    /*
     * Micro-batches that are on their way in a stage, by the number of devices
     * from it to the end of the pipeline, its own included: (devices + 1)
     * numbers. Replicas share them. NULL: as many as devices, as in 1F1B.
     */
    const uint32_t *in_flight;
    bool may_idle;            /* devices may be left out */
    bool has_hidden_messages; /* they overlap with computing; else add to it */
};

struct pen_chain_stage {
    uint32_t first_layer;
    uint32_t num_layers;
    uint32_t group; /* in problem->groups */
    uint32_t num_replicas;
    uint32_t num_in_flight; /* micro-batches of one replica */
    double stage_sec;       /* per micro-batch of the pipeline */
    uint64_t bytes;         /* of one device */
};

struct pen_chain_plan {
    double stage_sec; /* of the slowest stage */
    uint32_t num_stages;
    struct pen_chain_stage *stages;
    bool has_all_orders; /* see pen_chain_solve_any_order() */
    /*
     * Whether the plan is the optimum. Where devices of several kinds may be
     * left out and there are too many to tell how many are, those left out
     * between others count as if they were in use: the plan fits, but one
     * that is faster might, too.
     */
    bool is_exact;
};

/*
 * The optimum with the groups in this order, exactly. A stage with r replicas
 * takes
 *
 *   computing / r  +  2 (r - 1) / r * gradients / rate / micro-batches
 *
 * and messages of 2 (latency + bytes / rate) / r at each of its ends.
 *
 * INVALID when the numbers are out of range or the cells too many to search,
 * INFEASIBLE when nothing fits. On success *out is owned by the caller; free it
 * with pen_chain_plan_free().
 */
pen_status pen_chain_solve(const struct pen_chain_problem *problem,
                           struct pen_chain_plan **out, struct pen_text *why);

/*
 * The same, but groups may stand in any order. Up to five groups all orders
 * are tried. Of more, those by memory and by speed, and then exchanges of
 * neighbours while they help, at most `most_orders` in all; has_all_orders is
 * false then.
 */
pen_status pen_chain_solve_any_order(const struct pen_chain_problem *problem,
                                     uint32_t most_orders,
                                     struct pen_chain_plan **out,
                                     struct pen_text *why);
void pen_chain_plan_free(struct pen_chain_plan *plan);

#endif
