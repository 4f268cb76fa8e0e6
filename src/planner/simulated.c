/* What a simulation takes of a prediction: its seconds, but bytes for links. */
#include "planner/simulated.h"

#include "planner/predict_work.h"
#include "planner/tensor_rank.h"

#include <stdlib.h>

/* Whether several simulated ranks have the same layers, and sum at the end. */
static bool has_sums(const struct pen__work *work)
{
    bool has_copies = pen__has_two_copies(work) ||
                      work->generator->placement == PEN_PLACEMENT_CYCLIC;
    return (has_copies || pen__degree(work->plan, PEN_DEGREE_DP) > 1) &&
           !pen__passes_weights(work);
}

/* A measured step has the way of a shared matrix in it, which is sent here. */
static double update_of(const struct pen__work *work, uint32_t stage)
{
    struct pen_layer_time time;
    struct pen_cost cost;
    if (work->measured == NULL)
        return work->stages[stage].update_sec;
    pen__measured_stage(work->measured, &work->plan->stages[stage], &time,
                        &cost);
    return cost.step_sec;
}

/* The ends of a tied matrix agree behind their sums. */
static double tie_of(const struct pen__work *work, uint32_t stage)
{
    return stage == 0 || stage + 1 == work->plan->num_stages ? work->tie_sec
                                                             : 0;
}

static uint64_t parameters_of(const struct pen__work *work, uint32_t stage)
{
    if (work->measured != NULL)
        return (uint64_t)pen_tensor_rank_parameters(&work->measured->compute,
                                                    &work->plan->stages[stage]);
    return work->stages[stage].bytes.num_parameters;
}

static void fill_stage(const struct pen__work *work, uint32_t stage,
                       struct pen_simulated_stage *out)
{
    const struct pen_cost *cost = &work->costs.items[stage];
    *out = (struct pen_simulated_stage){.forward_sec = cost->forward_sec,
                                        .input_sec = cost->input_sec,
                                        .weight_sec = cost->weight_sec,
                                        .update_sec = update_of(work, stage)};
    if (has_sums(work)) {
        out->num_parameters = parameters_of(work, stage);
        out->update_sec += tie_of(work, stage);
    } else if (work->measured == NULL)
        out->update_sec +=
            work->stages[stage].sync_sec + work->stages[stage].gather_sec;
}

static pen_status check_schedule(const struct pen__work *work,
                                 struct pen_text *why)
{
    if (work->generator->is_synchronous)
        return PEN_OK;
    pen_why(why,
            "steps of %s overlap, which simulate does not support; use "
            "`penstock schedule time`",
            work->generator->name);
    return PEN_INVALID;
}

static pen_status make_schedule(const struct pen__work *work,
                                struct pen_schedule **out, struct pen_text *why)
{
    struct pen_generator_args args = pen__generator_args(work, 0);
    struct pen_costs unknown; /* as to the runtime, whose order is simulated */
    pen_costs_init(&unknown);
    if (work->measured != NULL) {
        args.costs = &unknown;
        args.has_memory = false;
    }
    pen_status status = pen_generator_make(work->generator, &args, out, why);
    pen_costs_release(&unknown);
    if (status != PEN_OK)
        return status;
    uint32_t num_parts = pen_shape_parts(&(*out)->shape);
    if (num_parts == work->plan->num_stages)
        return PEN_OK;
    pen_why(why, "the plan has %u stages, but its schedule has %u",
            work->plan->num_stages, num_parts);
    pen_schedule_free(*out);
    return PEN_INVALID;
}

/* Takes the costs out of the work. */
static void fill(struct pen__work *work, struct pen_simulated *out)
{
    const struct pen_practice *practice = &work->setting->practice;
    for (uint32_t i = 0; i < out->num_stages; i++)
        fill_stage(work, i, &out->stages[i]);
    out->message_bytes = work->costs.bytes;
    out->gather_sec = work->gather_sec;
    out->other_sec = pen__other_sec(work);
    out->gradient_bytes = practice->reduction_bytes;
    out->weight_bytes = pen_number_bytes(work->setting->number);
    out->is_blocking = work->costs.is_blocking;
    out->is_sharded =
        has_sums(work) && work->plan->sharding != PEN_SHARDING_NONE;
    out->overlaps_gradients = practice->overlaps_gradients;
    out->costs = work->costs;
    pen_costs_init(&work->costs);
}

pen_status pen_predict_simulated(const struct pen_setting *setting,
                                 const struct pen_plan *plan,
                                 struct pen_simulated *out,
                                 struct pen_text *why)
{
    struct pen__work work;
    struct pen_simulated made = {.num_stages = plan->num_stages};
    pen_status status = pen__work_open(setting, plan, &work, why);
    if (status == PEN_OK)
        status = check_schedule(&work, why);
    if (status == PEN_OK)
        status = pen__make_costs(&work, why);
    if (status == PEN_OK) {
        made.stages = calloc(made.num_stages, sizeof *made.stages);
        if (made.stages == NULL) {
            pen_why(why, "no memory for %u stages", made.num_stages);
            status = PEN_NOMEM;
        }
    }
    if (status == PEN_OK)
        status = make_schedule(&work, &made.schedule, why);
    if (status == PEN_OK) {
        fill(&work, &made);
        *out = made;
    } else
        free(made.stages);
    pen__work_close(&work);
    return status;
}

void pen_simulated_release(struct pen_simulated *simulated)
{
    free(simulated->stages);
    pen_schedule_free(simulated->schedule);
    pen_costs_release(&simulated->costs);
    *simulated = (struct pen_simulated){.num_stages = 0};
}
