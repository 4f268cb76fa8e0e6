/*
 * The step of a plan as a picture: its schedule, timed with the seconds that
 * are predicted for the layers of its stages.
 */
#include "cli/plan_report.h"
#include "planner/collective.h"

#include <inttypes.h>
#include <stdlib.h>

#define ROW_CELLS 64u /* of a rank, that can be read */
#define FEW_MICROBATCHES 8u
#define GOOD_CELLS 5000u  /* of a picture that is quick to open */
#define MOST_CELLS 20000u /* of one that opens at all */

static uint32_t degree(const struct pen_plan *plan, enum pen_degree which)
{
    return plan->degrees[which];
}

/* The kind of the first device of this rank of the pipeline. */
static uint32_t group_of(const struct pen_setting *setting,
                         const struct pen_plan *plan, uint32_t rank)
{
    const struct pen_cluster *cluster = setting->cluster;
    uint64_t device =
        pen_plan_num_ranks(plan) / degree(plan, PEN_DEGREE_PP) * rank;
    uint32_t group = 0;
    while (group + 1 < cluster->num_groups &&
           device >= cluster->groups[group].count)
        device -= cluster->groups[group++].count;
    return group;
}

/* Later stages are on the ranks again, or, where they turn, on the way back. */
static uint32_t rank_of(const struct pen_plan *plan,
                        const struct pen_generator *generator, uint32_t stage)
{
    uint32_t pp = degree(plan, PEN_DEGREE_PP);
    uint32_t turn = stage % pp;
    bool turns = generator->placement == PEN_PLACEMENT_V ||
                 generator->placement == PEN_PLACEMENT_WAVE;
    return turns && stage / pp % 2 == 1 ? pp - 1 - turn : turn;
}

static void sum_stage(const struct pen_setting *setting,
                      const struct pen_plan *plan, uint32_t group,
                      const struct pen_layer_range *range, struct pen_cost *out,
                      double *boundary_bytes)
{
    *out = (struct pen_cost){.recompute_sec = -1, .pair_sec = -1, .memory = -1};
    for (uint32_t i = range->first; i < range->first + range->count; i++) {
        struct pen_layer_time time;
        struct pen_layer_bytes bytes;
        pen_predict_layer(setting, plan, group, i, range->recompute, &time,
                          &bytes);
        out->forward_sec += time.forward_sec;
        out->input_sec += time.input_sec + time.recompute_sec;
        out->weight_sec += time.weight_sec;
        *boundary_bytes = (double)bytes.output_bytes;
    }
}

/* Reductions and optimizer are those of the rank that is busiest. */
static bool fill_costs(const struct pen_setting *setting,
                       const struct pen_plan_found *found,
                       struct pen_costs *costs)
{
    const struct pen_plan *plan = found->plan;
    const double *spent = found->prediction.spent;
    const struct pen_device *device = &setting->cluster->groups[0].device;
    uint64_t distance = pen_plan_num_ranks(plan) / degree(plan, PEN_DEGREE_PP);
    double vpp = degree(plan, PEN_DEGREE_VPP);
    double bytes = 0;
    costs->items = calloc(plan->num_stages, sizeof *costs->items);
    if (costs->items == NULL)
        return false;
    costs->scope = PEN_COST_PER_STAGE;
    costs->num_items = plan->num_stages;
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        uint32_t rank = rank_of(plan, found->candidate.generator, i);
        sum_stage(setting, plan, group_of(setting, plan, rank),
                  &plan->stages[i], &costs->items[i], &bytes);
        costs->items[i].sync_sec = spent[PEN_SPENDING_REDUCTION] / vpp;
        costs->items[i].step_sec =
            (spent[PEN_SPENDING_UPDATE] + spent[PEN_SPENDING_GATHER]) / vpp;
    }
    if (degree(plan, PEN_DEGREE_PP) == 1)
        return true;
    costs->bytes = bytes / degree(plan, PEN_DEGREE_TP);
    costs->bytes_per_sec =
        pen_message_bandwidth(setting->cluster, device, distance);
    costs->latency_sec =
        pen_message_latency(setting->cluster, device, distance);
    costs->is_blocking = setting->practice.blocks_on_messages;
    return true;
}

static uint64_t num_cells(const struct pen_plan *plan, uint64_t microbatches)
{
    return 2 * microbatches * plan->num_stages;
}

/*
 * All of them if a row of them can be read, else two rounds of the pipeline, or
 * one: as many as are needed to see how it fills, runs and drains.
 */
static uint32_t choose_microbatches(const struct pen_plan *plan)
{
    uint32_t pp = degree(plan, PEN_DEGREE_PP);
    uint32_t all = plan->num_microbatches;
    uint32_t rounds =
        pp < FEW_MICROBATCHES / 2 ? (FEW_MICROBATCHES + pp - 1) / pp : 2;
    if (num_cells(plan, all) <= (uint64_t)ROW_CELLS * pp || all <= pp * rounds)
        rounds = 0;
    uint32_t count = rounds == 0 ? all : pp * rounds;
    if (num_cells(plan, count) > GOOD_CELLS && count > pp)
        count = pp;
    return count;
}

static pen_status make(const struct pen_plan *plan, uint32_t microbatches,
                       const struct pen_generator *generator,
                       const struct pen_costs *costs,
                       struct pen__plan_picture *out, struct pen_text *why)
{
    const struct pen_time_options options = {.with_ops = true};
    struct pen_generator_args args = {
        .ranks = degree(plan, PEN_DEGREE_PP),
        .microbatches = microbatches,
        .chunks = generator->has_chunks ? degree(plan, PEN_DEGREE_VPP) : 0,
        .slices = plan->schedule.slices,
        .batches = plan->schedule.batches,
        .warmup = plan->schedule.warmup,
        .memory_limit = plan->schedule.memory_limit,
        .has_vertical_sync = plan->schedule.has_vertical_sync,
        .costs = costs};
    pen_status status =
        pen_generator_make(generator, &args, &out->schedule, why);
    if (status == PEN_OK)
        status = pen_schedule_time(out->schedule, costs, &options, &out->timing,
                                   why);
    return status;
}

static void tell(const struct pen_plan *plan, uint32_t microbatches,
                 struct pen_text *note)
{
    uint32_t dp = degree(plan, PEN_DEGREE_DP);
    uint64_t devices =
        pen_plan_num_ranks(plan) / degree(plan, PEN_DEGREE_PP) / dp;
    if (dp > 1)
        pen_text_add(note, "One of %u pipelines. ", dp);
    if (devices > 1)
        pen_text_add(note, "Each row is %" PRIu64 " devices. ", devices);
    if (microbatches < plan->num_microbatches)
        pen_text_add(note,
                     "Drawn are %u of %u micro-batches: the middle, which "
                     "repeats, is shorter here, and so the share of the bubble "
                     "is larger.",
                     microbatches, plan->num_microbatches);
}

void pen__plan_picture_init(const struct pen_setting *setting,
                            const struct pen_plan_found *found,
                            struct pen__plan_picture *out)
{
    const struct pen_plan *plan = found->plan;
    const struct pen_generator *generator = found->candidate.generator;
    uint32_t microbatches = choose_microbatches(plan);
    *out = (struct pen__plan_picture){.schedule = NULL};
    pen_text_init(&out->note);
    if (num_cells(plan, microbatches) > MOST_CELLS) {
        pen_text_add(&out->note,
                     "There is no picture: a pipeline of %u stages is too long "
                     "for one.",
                     plan->num_stages);
        return;
    }
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_costs costs;
    pen_costs_init(&costs);
    pen_status status = PEN_NOMEM;
    if (fill_costs(setting, found, &costs))
        status = make(plan, microbatches, generator, &costs, out, &why);
    if (status == PEN_OK) {
        out->item.schedule = out->schedule;
        out->item.timing = out->timing;
        tell(plan, microbatches, &out->note);
    } else {
        pen_text_add(&out->note, "There is no picture: %s",
                     status == PEN_NOMEM ? "out of memory"
                                         : pen_text_string(&why));
    }
    pen_costs_release(&costs);
    pen_text_release(&why);
}

void pen__plan_picture_release(struct pen__plan_picture *picture)
{
    pen_timing_free(picture->timing);
    pen_schedule_free(picture->schedule);
    pen_text_release(&picture->note);
}
