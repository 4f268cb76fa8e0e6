/*
 * Of width w, depth d and m micro-batches of b samples per step and replica:
 *
 *   t       =  most over stages of  max( computing + messages, reduction / m )
 *   memory  =  2 W / d + A / d + d * input      with recomputation
 *              2 W / d + A                      without: d micro-batches of A /
 * d
 *
 * for two versions of the weights W and activations A of a micro-batch. The
 * plan with the largest b w / t wins.
 */
#include "planner/two_bw.h"

#include "planner/partition.h"

#include <stdlib.h>

static double memory_of(const struct pen_2bw_problem *problem,
                        const struct pen_2bw_mode *mode, uint32_t depth)
{
    double weights = 0;
    for (uint32_t i = 0; i < problem->num_layers; i++)
        weights += problem->parameter_bytes[i];
    if (!mode->recomputes)
        return 2 * weights / depth + mode->activation_bytes;
    return (2 * weights + mode->activation_bytes) / depth +
           depth * mode->input_bytes;
}

/* The slowest stage, given the layers of each. */
static double slowest(const struct pen_2bw_problem *problem,
                      const struct pen_2bw_plan *plan, const uint32_t *counts)
{
    const struct pen_2bw_mode *mode = &problem->modes[plan->mode];
    double hop = 2 * mode->input_bytes / problem->bytes_per_sec;
    double w = plan->width;
    double most = 0;
    uint32_t layer = 0;
    for (uint32_t i = 0; i < plan->depth; i++) {
        double sec = 0;
        double bytes = 0;
        for (uint32_t end = layer + counts[i]; layer < end; layer++) {
            sec += mode->layer_sec[layer];
            bytes += problem->parameter_bytes[layer];
        }
        sec += (i > 0 ? hop : 0) + (i + 1 < plan->depth ? hop : 0);
        double reduce = 2 * (w - 1) / w * bytes / problem->bytes_per_sec /
                        plan->num_microbatches;
        sec = sec > reduce ? sec : reduce;
        most = sec > most ? sec : most;
    }
    return most;
}

/* False when it does not divide or fit. */
static bool try_plan(const struct pen_2bw_problem *problem, uint32_t *counts,
                     struct pen_2bw_plan *plan)
{
    const struct pen_2bw_mode *mode = &problem->modes[plan->mode];
    uint64_t samples = (uint64_t)plan->width * mode->micro_batch;
    const struct pen_partition_problem cut = {.costs = mode->layer_sec,
                                              .num_layers = problem->num_layers,
                                              .num_parts = plan->depth};
    if (samples == 0 || problem->global_batch % samples != 0)
        return false;
    plan->num_microbatches = (uint32_t)(problem->global_batch / samples);
    plan->memory_bytes = memory_of(problem, mode, plan->depth);
    if (plan->num_microbatches < 1 ||
        plan->memory_bytes > problem->memory_bytes ||
        pen_partition(&cut, counts, NULL) != PEN_OK)
        return false;
    plan->stage_sec = slowest(problem, plan, counts);
    plan->samples_per_sec = (double)samples / plan->stage_sec;
    return true;
}

pen_status pen_2bw_solve(const struct pen_2bw_problem *problem,
                         struct pen_2bw_plan *out, struct pen_text *why)
{
    struct pen_2bw_plan best = {0};
    uint32_t *counts = calloc((size_t)problem->num_devices + 1, sizeof *counts);
    if (counts == NULL) {
        pen_why(why, "no memory for %u stages", problem->num_devices);
        return PEN_NOMEM;
    }
    for (uint32_t depth = 1;
         depth <= problem->num_devices && depth <= problem->num_layers;
         depth++) {
        if (problem->num_devices % depth != 0)
            continue;
        for (uint32_t mode = 0; mode < problem->num_modes; mode++) {
            struct pen_2bw_plan plan = {.width = problem->num_devices / depth,
                                        .depth = depth,
                                        .mode = mode};
            if (try_plan(problem, counts, &plan) &&
                plan.samples_per_sec > best.samples_per_sec)
                best = plan;
        }
    }
    free(counts);
    if (best.depth == 0) {
        pen_why(why, "no width and depth of %u devices fit",
                problem->num_devices);
        return PEN_INFEASIBLE;
    }
    *out = best;
    return PEN_OK;
}
