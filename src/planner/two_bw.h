#ifndef PEN_PLANNER_TWO_BW_H
#define PEN_PLANNER_TWO_BW_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * PipeDream-2BW's planner (Narayanan et al., ICML 2021): all stages have the
 * same number of replicas, the width; width times depth are all devices. Every
 * depth, micro-batch and mode of recomputation is tried.
 */

/* One micro-batch size with one mode of recomputation. */
struct pen_2bw_mode {
    uint32_t micro_batch; /* samples */
    bool recomputes;
    const double *layer_sec; /* per layer: of a micro-batch, both passes */
    double activation_bytes; /* of all layers */
    double input_bytes;      /* of a stage: what a recomputation starts from */
};

struct pen_2bw_problem {
    uint32_t num_layers;
    const double *parameter_bytes; /* per layer */
    const struct pen_2bw_mode *modes;
    uint32_t num_modes;
    uint32_t num_devices;
    uint32_t global_batch; /* samples of a step */
    double memory_bytes;   /* of a device */
    double bytes_per_sec;
};

struct pen_2bw_plan {
    uint32_t width;
    uint32_t depth;
    uint32_t mode;             /* in problem->modes */
    uint32_t num_microbatches; /* of a step and replica */
    double samples_per_sec;
    double stage_sec;    /* of a micro-batch in the slowest stage */
    double memory_bytes; /* of a device */
};

/*
 * The most samples per second of all that fit; depths need as many layers, and
 * batches must be divided by width times micro-batch. Layers are cut so that
 * the slowest stage is fastest. INFEASIBLE when nothing fits.
 */
pen_status pen_2bw_solve(const struct pen_2bw_problem *problem,
                         struct pen_2bw_plan *out, struct pen_text *why);

#endif
