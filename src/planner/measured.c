/* Seconds from a profile. The bytes are measured_memory.c. */
#include "planner/measured.h"

#include "planner/expert_rank.h"
#include "schedule/restrictions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool pen__is_measured(const struct pen_setting *setting)
{
    return setting->profile != NULL && setting->target == PEN_TARGET_PENSTOCK;
}

/* ---- whether the profile answers ---- */

/* Layers are measured whole; those of tensor ranks are derived from them. */
static pen_status check_layout(const struct pen_plan *plan,
                               struct pen_text *why)
{
    struct pen_training_facts facts = {.sharding = plan->sharding};
    memcpy(facts.degrees, plan->degrees, sizeof facts.degrees);
    return pen_restrictions_check(&facts, PEN_REASON_ALONE, why);
}

static pen_status check_profile(const struct pen_setting *setting,
                                const struct pen_plan *plan,
                                struct pen_text *why)
{
    const struct pen_profile *profile = setting->profile;
    if (profile->program_bytes == 0) {
        pen_why(why,
                "the profile lacks some bytes of a training; measure it again");
        return PEN_INVALID;
    }
    if (plan->sharding >= PEN_SHARDING_ZERO3) {
        pen_why(why,
                "%s: the profile has no seconds of weights that come in layer "
                "by layer; predict without --profile, or with zero2",
                pen_sharding_names[plan->sharding]);
        return PEN_INVALID;
    }
    if (pen_plan_num_ranks(plan) > 1 && !profile->link.is_there) {
        pen_why(why,
                "the profile has no link; measure it again under mpirun with "
                "at least two ranks");
        return PEN_INVALID;
    }
    return PEN_OK;
}

uint32_t pen__measured_batches(const struct pen_plan *plan,
                               const struct pen_generator *generator)
{
    enum { SETTLED = 4 };
    if (generator->is_synchronous)
        return 0;
    return 2 * (plan->degrees[PEN_DEGREE_PP] / plan->num_microbatches) +
           SETTLED;
}

/* Joins the steps, as trainings do that clip, the default where possible. */
static pen_status join_steps(struct pen_schedule **schedule,
                             struct pen_text *why)
{
    struct pen_schedule *joint = NULL;
    pen_status status = pen_schedule_join_steps(*schedule, &joint, why);
    pen_schedule_free(*schedule);
    *schedule = joint;
    return status;
}

pen_status pen__measured_schedule(const struct pen_plan *plan,
                                  const struct pen_generator *generator,
                                  uint32_t batches, struct pen_schedule **out,
                                  struct pen_text *why)
{
    struct pen_costs costs;
    pen_costs_init(&costs);
    const struct pen_generator_args args = {
        .ranks = plan->degrees[PEN_DEGREE_PP],
        .microbatches = plan->num_microbatches,
        .chunks = generator->has_chunks ? plan->degrees[PEN_DEGREE_VPP] : 0,
        .slices = plan->schedule.slices,
        .batches = batches,
        .warmup = plan->schedule.warmup,
        .memory_limit = plan->schedule.memory_limit,
        .has_vertical_sync = plan->schedule.has_vertical_sync,
        .costs = &costs};
    pen_status status = pen_generator_make(generator, &args, out, why);
    pen_costs_release(&costs);
    if (status == PEN_OK && generator->joins_steps)
        status = join_steps(out, why);
    return status;
}

static pen_status make_schedule(struct pen__measured *measured,
                                const struct pen_plan *plan,
                                const struct pen_generator *generator,
                                struct pen_text *why)
{
    pen_status status = pen__measured_schedule(
        plan, generator, 2 * pen__measured_batches(plan, generator),
        &measured->schedule, why);
    if (status != PEN_OK)
        return status;
    const struct pen_shape *shape = &measured->schedule->shape;
    if (pen_shape_parts(shape) != plan->num_stages) {
        pen_why(why, "the plan has %u stages, but its schedule has %u",
                plan->num_stages, pen_shape_parts(shape));
        return PEN_INVALID;
    }
    measured->has_whole_backward =
        pen_compute_has_whole_backward(measured->schedule);
    measured->compute.num_members *= shape->num_copies;
    return PEN_OK;
}

static void open_compute(const struct pen_setting *setting,
                         const struct pen_plan *plan,
                         const struct pen_profile *profile,
                         struct pen_compute *out)
{
    *out =
        (struct pen_compute){.model = setting->model,
                             .profile = profile,
                             .micro_batch = plan->micro_batch,
                             .sequence = plan->sequence,
                             .is_bf16 = setting->number == PEN_NUMBER_BF16,
                             .modules = plan->recipe.modules,
                             .optimizer = PEN_UPDATE_ADAM,
                             .num_members = plan->degrees[PEN_DEGREE_DP] *
                                            plan->degrees[PEN_DEGREE_CP],
                             .tensor_ranks = plan->degrees[PEN_DEGREE_TP],
                             .cuts_rows = plan->has_sequence_parallel,
                             .expert_ranks = plan->degrees[PEN_DEGREE_EP],
                             .context_ranks = plan->degrees[PEN_DEGREE_CP],
                             .sends_messages = setting->sends_inside,
                             .is_sharded = plan->sharding != PEN_SHARDING_NONE};
}

static pen_status open_measured(struct pen__measured *measured,
                                const struct pen_setting *setting,
                                const struct pen_plan *plan,
                                const struct pen_generator *generator,
                                struct pen_text *why)
{
    pen_status status = check_layout(plan, why);
    if (status == PEN_OK)
        status = check_profile(setting, plan, why);
    if (status == PEN_OK)
        status = pen_profile_at(setting->profile, plan->micro_batch,
                                &measured->profile, why);
    if (status != PEN_OK)
        return status;
    open_compute(setting, plan, &measured->profile, &measured->compute);
    pen_compute_share_layers(&measured->compute, &measured->profile);
    for (uint32_t i = 0; status == PEN_OK && i < plan->num_stages; i++)
        if (i == 0 || plan->stages[i].recompute != plan->stages[0].recompute)
            status = pen_compute_check(&measured->compute,
                                       plan->stages[i].recompute, why);
    return status == PEN_OK ? make_schedule(measured, plan, generator, why)
                            : status;
}

pen_status pen__measured_create(const struct pen_setting *setting,
                                const struct pen_plan *plan,
                                const struct pen_generator *generator,
                                struct pen__measured **out,
                                struct pen_text *why)
{
    struct pen__measured *measured = calloc(1, sizeof *measured);
    if (measured == NULL) {
        pen_why(why, "no memory for a profile");
        return PEN_NOMEM;
    }
    pen_status status = open_measured(measured, setting, plan, generator, why);
    if (status == PEN_OK)
        *out = measured;
    else
        pen__measured_free(measured);
    return status;
}

void pen__measured_free(struct pen__measured *measured)
{
    if (measured == NULL)
        return;
    pen_schedule_free(measured->schedule);
    free(measured);
}

/* ---- seconds ---- */

/* The seconds that a mode adds to the backward are those of recomputation. */
static void time_range(const struct pen_compute *compute,
                       const struct pen_layer_range *range,
                       bool has_whole_backward, struct pen_layer_time *time,
                       struct pen_cost *cost)
{
    struct pen_layer_range plain = *range;
    struct pen_cost without;
    plain.recompute = PEN_RECOMPUTE_NONE;
    pen_compute_stage(compute, range, has_whole_backward, cost);
    *time = (struct pen_layer_time){
        .forward_sec = cost->forward_sec,
        .input_sec = cost->input_sec,
        .weight_sec = cost->weight_sec,
        .tensor_sec =
            pen_compute_inside_sec(compute, range, PEN_COMPUTE_TENSOR),
        .context_sec =
            pen_compute_inside_sec(compute, range, PEN_COMPUTE_CONTEXT),
        .expert_sec =
            pen_compute_inside_sec(compute, range, PEN_COMPUTE_EXPERTS)};
    if (range->recompute == PEN_RECOMPUTE_NONE ||
        !compute->profile->layers[0].modes[PEN_RECOMPUTE_NONE].is_there)
        return;
    pen_compute_stage(compute, &plain, has_whole_backward, &without);
    double again = cost->input_sec + cost->weight_sec - without.input_sec -
                   without.weight_sec;
    time->recompute_sec = fmin(fmax(0, again), cost->input_sec);
    time->input_sec -= time->recompute_sec;
}

void pen__measured_stage(const struct pen__measured *measured,
                         const struct pen_layer_range *range,
                         struct pen_layer_time *time, struct pen_cost *cost)
{
    time_range(&measured->compute, range, measured->has_whole_backward, time,
               cost);
}

bool pen__measured_layer(const struct pen_setting *setting,
                         const struct pen_plan *plan, uint32_t layer,
                         enum pen_recompute recompute,
                         struct pen_layer_time *time,
                         struct pen_layer_bytes *bytes)
{
    struct pen_profile profile;
    struct pen_compute compute;
    struct pen_cost cost;
    const struct pen_layer_range range = {
        .first = layer, .count = 1, .recompute = recompute};
    struct pen_compute_bytes kept;
    if (pen_profile_at(setting->profile, plan->micro_batch, &profile, NULL) !=
        PEN_OK)
        return false;
    open_compute(setting, plan, &profile, &compute);
    pen_compute_share_layers(&compute, &profile);
    if (pen_compute_check(&compute, recompute, NULL) != PEN_OK)
        return false;
    const struct pen_profile_layer *it =
        &profile.layers[pen_model_layer_kind(setting->model, layer)];
    time_range(&compute, &range, true, time, &cost);
    pen_compute_layer_bytes(&compute, layer, recompute, &kept);
    *bytes = (struct pen_layer_bytes){
        .num_parameters = it->num_parameters,
        .num_experts = pen_expert_rank_experts(&compute, layer),
        .stash_bytes = kept.stash,
        .output_bytes = profile.layers[PEN_LAYER_BLOCK].output_bytes,
        .working_bytes = kept.scratch + it->engine_bytes + it->passing_bytes};
    return true;
}
