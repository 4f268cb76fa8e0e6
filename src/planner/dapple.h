#ifndef PEN_PLANNER_DAPPLE_H
#define PEN_PLANNER_DAPPLE_H

#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/*
 * DAPPLE's planner (Fan et al., PPoPP 2021): stages with replicas on machines
 * of several devices, judged by the latency of a whole synchronous step instead
 * of its slowest stage, so that few micro-batches favour few stages.
 */

#define PEN_DAPPLE_MAX_MACHINES 64u
#define PEN_DAPPLE_MAX_STAGES 8u

/* Where the devices of the next stage are taken from. */
enum pen_dapple_policy {
    PEN_DAPPLE_FRESH_FIRST,   /* machines that nobody uses yet */
    PEN_DAPPLE_APPEND_FIRST,  /* machines that are in use already */
    PEN_DAPPLE_SCATTER_FIRST, /* one after the other from all machines */
    PEN_DAPPLE_POLICIES
};

struct pen_dapple_layer {
    double compute_sec; /* of a micro-batch on one device, both passes */
    double gradient_bytes;
    double output_bytes; /* of a micro-batch */
};

struct pen_dapple_problem {
    const struct pen_dapple_layer *layers;
    uint32_t num_layers;
    uint32_t num_machines;
    uint32_t num_devices; /* of a machine */
    double inner_bytes_per_sec;
    double outer_bytes_per_sec; /* between machines */
    uint32_t num_microbatches;
    uint32_t most_stages;
};

struct pen_dapple_stage {
    uint32_t first_layer;
    uint32_t num_layers;
    uint32_t num_replicas;
    enum pen_dapple_policy policy;
    uint32_t used[PEN_DAPPLE_MAX_MACHINES]; /* devices of each machine */
};

struct pen_dapple_plan {
    double latency_sec;
    uint32_t num_stages;
    struct pen_dapple_stage stages[PEN_DAPPLE_MAX_STAGES];
};

/*
 * Takes so many devices from spare[] of each machine, by a policy; used[] are
 * those that are taken. INFEASIBLE, and nothing changed, when there are fewer.
 */
pen_status pen_dapple_take(enum pen_dapple_policy policy, uint32_t count,
                           const struct pen_dapple_problem *problem,
                           uint32_t *spare, uint32_t *used);

/* The latency of a step with these stages, which hold all layers in order. */
double pen_dapple_latency(const struct pen_dapple_problem *problem,
                          const struct pen_dapple_stage *stages,
                          uint32_t num_stages);

/*
 * The least latency over all cuts into at most most_stages stages, replicas and
 * policies; all devices are used. INVALID when there are too many of them.
 */
pen_status pen_dapple_solve(const struct pen_dapple_problem *problem,
                            struct pen_dapple_plan *out, struct pen_text *why);

#endif
