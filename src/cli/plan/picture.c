/*
 * The step of a plan as a picture: its schedule, timed with the seconds that
 * are predicted for the layers of its stages.
 */
#include "cli/plan/report.h"

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

static uint64_t num_cells(const struct pen_plan *plan, uint64_t microbatches)
{
    return 2 * microbatches * plan->num_stages;
}

/*
 * Chooses the micro-batches to draw: all of them if a row of them can be read,
 * else two rounds of the pipeline, or one: as many as show how it fills, runs
 * and drains.
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

static void describe_picture(const struct pen_plan *plan, uint32_t microbatches,
                             double bubble, struct pen_text *note)
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
                     "The picture shows %u of %u micro-batches: the repeating "
                     "middle is shorter, so the bubble looks larger than the "
                     "%.1f %% of the step that it takes.",
                     microbatches, plan->num_microbatches, 100 * bubble);
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
                     "No picture: a pipeline of %u stages is too long for one.",
                     plan->num_stages);
        return;
    }
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_costs costs;
    pen_costs_init(&costs);
    pen_status status = pen_predict_costs(setting, plan, &costs, &why);
    if (status == PEN_OK)
        status = make(plan, microbatches, generator, &costs, out, &why);
    if (status == PEN_OK) {
        out->item.schedule = out->schedule;
        out->item.timing = out->timing;
        out->item.is_bare = true;
        describe_picture(plan, microbatches, found->prediction.bubble,
                         &out->note);
    } else {
        pen_text_add(&out->note, "No picture: %s",
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
