/* The schedule of a plan, timed with the costs of its stages. */
#include "planner/predict_work.h"

#include "planner/collective.h"
#include "planner/compute.h"
#include "planner/timings.h"

#include <stdlib.h>

static pen_status measure_costs(struct pen__work *work, struct pen_text *why)
{
    const struct pen__measured *measured = work->measured;
    pen_status status = pen_compute_costs(
        &measured->compute, work->plan->stages, work->plan->num_stages,
        pen__degree(work->plan, PEN_DEGREE_PP), measured->has_whole_backward,
        &work->costs, why);
    for (uint32_t i = 0; status == PEN_OK && i < work->plan->num_stages; i++) {
        struct pen_cost *item = &work->costs.items[i];
        work->stages[i].update_sec = item->step_sec;
        /* Nothing overlaps with a sum. A synchronous update comes after the
         * norm of all gradients, at the end of the schedule; others are part of
         * it. */
        if (work->generator->is_synchronous)
            item->step_sec = item->sync_sec;
        else
            item->step_sec += item->sync_sec;
        item->sync_sec = 0;
    }
    return status;
}

/*
 * Bytes of one micro-batch between two stages, at most: those of images differ.
 */
static double largest_output(const struct pen__work *work)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i + 1 < work->plan->num_stages; i++)
        if (work->stages[i].bytes.output_bytes > most)
            most = work->stages[i].bytes.output_bytes;
    return (double)most;
}

pen_status pen__make_costs(struct pen__work *work, struct pen_text *why)
{
    if (work->measured != NULL)
        return measure_costs(work, why);
    const struct pen_plan *plan = work->plan;
    struct pen_costs *costs = &work->costs;
    uint64_t distance = (uint64_t)pen__degree(plan, PEN_DEGREE_TP) *
                        pen__degree(plan, PEN_DEGREE_CP) *
                        pen__degree(plan, PEN_DEGREE_DP);
    double stash = 0;
    double held = 0; /* from backward input to backward weight */
    bool is_twice = work->setting->practice.recomputes_twice &&
                    work->generator->splits_backward;
    costs->items = calloc(plan->num_stages, sizeof *costs->items);
    if (costs->items == NULL) {
        pen_why(why, "no memory for the costs of %u stages", plan->num_stages);
        return PEN_NOMEM;
    }
    costs->scope = PEN_COST_PER_STAGE;
    costs->num_items = plan->num_stages;
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        stash += (double)work->stages[i].bytes.stash_bytes;
        held += (double)work->stages[i].bytes.hold_bytes;
    }
    work->activation_bytes = stash / pen__degree(plan, PEN_DEGREE_PP);
    if (stash > 0)
        costs->memory = (struct pen_memory){
            .forward = 1, .input = held / stash - 1, .weight = -held / stash};
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        const struct pen__stage *stage = &work->stages[i];
        costs->items[i] = (struct pen_cost){
            .forward_sec = stage->time.forward_sec,
            .input_sec = stage->time.input_sec + stage->time.recompute_sec,
            .weight_sec = stage->time.weight_sec +
                          (is_twice ? stage->time.recompute_sec : 0),
            .recompute_sec = -1,
            .pair_sec = -1,
            .sync_sec = stage->sync_sec,
            .step_sec = stage->update_sec + stage->gather_sec,
            .memory = work->activation_bytes == 0
                          ? 0
                          : (double)stage->bytes.stash_bytes /
                                work->activation_bytes};
    }
    if (pen__degree(plan, PEN_DEGREE_PP) == 1)
        return PEN_OK;
    /* Each of the tp ranks sends its share; they gather it on the other side.
     */
    struct pen_device_set set = {pen__degree(plan, PEN_DEGREE_TP), 1};
    double bytes = largest_output(work);
    /* This program's ranks have all of it each, and send it as it is. */
    bool is_whole = work->setting->target == PEN_TARGET_PENSTOCK &&
                    !plan->has_sequence_parallel;
    if (!is_whole && !plan->has_sequence_parallel)
        work->gather_sec =
            pen_collective_time(work->setting->cluster, work->device,
                                PEN_COLLECTIVE_GATHER, &set, bytes);
    costs->bytes = is_whole ? bytes : bytes / pen__degree(plan, PEN_DEGREE_TP);
    costs->bytes_per_sec =
        pen_message_bandwidth(work->setting->cluster, work->device, distance);
    costs->latency_sec =
        pen_message_latency(work->setting->cluster, work->device, distance) +
        work->gather_sec;
    costs->is_blocking = work->setting->practice.blocks_on_messages;
    return PEN_OK;
}

struct pen_generator_args pen__generator_args(const struct pen__work *work,
                                              uint32_t batches)
{
    const struct pen_plan *plan = work->plan;
    return (struct pen_generator_args){
        .ranks = pen__degree(plan, PEN_DEGREE_PP),
        .microbatches = plan->num_microbatches,
        .chunks =
            work->generator->has_chunks ? pen__degree(plan, PEN_DEGREE_VPP) : 0,
        .slices = plan->schedule.slices,
        .batches = batches,
        .warmup = plan->schedule.warmup,
        .memory_limit = plan->schedule.memory_limit,
        .has_memory = true,
        .has_vertical_sync = plan->schedule.has_vertical_sync,
        .costs = &work->costs};
}

/* Times the schedule of the work with fewer batches. */
static pen_status time_measured(const struct pen__work *work, uint32_t batches,
                                struct pen_timing **out, struct pen_text *why)
{
    struct pen_schedule *schedule = NULL;
    pen_status status = pen__measured_schedule(work->plan, work->generator,
                                               batches, &schedule, why);
    if (status == PEN_OK)
        status = pen_schedule_time(schedule, &work->costs, NULL, out, why);
    pen_schedule_free(schedule);
    return status;
}

/* Times one batch, or several that follow each other. */
static pen_status time_batches(const struct pen__work *work, uint32_t batches,
                               bool is_all, struct pen_timing **out,
                               struct pen_text *why)
{
    if (work->measured != NULL && is_all)
        return pen_schedule_time(work->measured->schedule, &work->costs, NULL,
                                 out, why);
    if (work->measured != NULL)
        return time_measured(work, batches, out, why);
    struct pen_generator_args args = pen__generator_args(work, batches);
    return pen_timings_run(work->setting->timings, work->generator, &args, out,
                           why);
}

static uint32_t few_batches(const struct pen__work *work)
{
    if (work->measured != NULL)
        return pen__measured_batches(work->plan, work->generator);
    return pen__degree(work->plan, PEN_DEGREE_PP) /
               work->plan->num_microbatches +
           2;
}

bool pen__is_optimistic(const struct pen__work *work)
{
    return work->setting->target == PEN_TARGET_PENSTOCK &&
           work->generator->is_optimistic &&
           pen__degree(work->plan, PEN_DEGREE_PP) > 1;
}

/*
 * Where no step waits for the one before, one takes what each batch adds when
 * the pipeline is full.
 */
pen_status pen__time_schedule(const struct pen__work *work,
                              struct pen_timing **out, double *span_sec,
                              struct pen_text *why)
{
    struct pen_timing *less = NULL;
    bool is_whole = work->generator->is_synchronous;
    uint32_t few = is_whole ? 0 : few_batches(work);
    pen_status status = time_batches(work, 2 * few, true, out, why);
    if (status == PEN_OK && is_whole)
        *span_sec =
            pen__is_optimistic(work) ? (*out)->step_sec : (*out)->makespan_sec;
    if (status != PEN_OK || is_whole)
        return status;
    status = time_batches(work, few, false, &less, why);
    if (status == PEN_OK)
        *span_sec = ((*out)->makespan_sec - less->makespan_sec) / few;
    pen_timing_free(less);
    return status;
}
