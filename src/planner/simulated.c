/*
 * Inputs of a simulation out of a prediction: its seconds, but bytes for links.
 */
#include "planner/simulated.h"

#include "planner/expert_rank.h"
#include "planner/operations.h"
#include "planner/predict_work.h"
#include "planner/tensor_rank.h"

#include <stdlib.h>

/* Devices that are a simulated rank each; others are in lockstep. */
static uint32_t ranks_of(const struct pen_setting *setting,
                         const struct pen_plan *plan, enum pen_degree which)
{
    return setting->target == PEN_TARGET_PENSTOCK ? plan->degrees[which] : 1;
}

/* Whether simulated ranks send weights ahead of layers. */
static bool sends_weights(const struct pen__work *work)
{
    return work->setting->target == PEN_TARGET_PENSTOCK &&
           pen__passes_weights(work);
}

/* Whether several simulated ranks have the same layers, and sum at the end. */
static bool has_sums(const struct pen__work *work)
{
    bool has_copies = pen__has_two_copies(work) ||
                      work->generator->placement == PEN_PLACEMENT_CYCLIC;
    uint32_t num_replicas = pen__degree(work->plan, PEN_DEGREE_DP) *
                            ranks_of(work->setting, work->plan, PEN_DEGREE_CP);
    return (has_copies || num_replicas > 1) &&
           (!pen__passes_weights(work) || sends_weights(work));
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

/* The ends of a tied matrix agree after their sums. */
static double tie_of(const struct pen__work *work, uint32_t stage)
{
    return stage == 0 || stage + 1 == work->plan->num_stages ? work->tie_sec
                                                             : 0;
}

/* ---- parameters ---- */

static uint64_t parameters_of(const struct pen__work *work, uint32_t stage)
{
    if (work->measured != NULL)
        return (uint64_t)pen_tensor_rank_parameters(&work->measured->compute,
                                                    &work->plan->stages[stage]);
    return work->stages[stage].bytes.num_parameters;
}

/* Parameters of experts that are dealt out: on one rank of a group, and on its
 * other ranks. */
struct dealt {
    uint64_t here;
    uint64_t elsewhere;
};

static struct dealt dealt_of(const struct pen__work *work, uint32_t stage)
{
    const struct pen_layer_range *range = &work->plan->stages[stage];
    struct dealt out = {.here = 0};
    if (ranks_of(work->setting, work->plan, PEN_DEGREE_EP) == 1)
        return out;
    if (work->measured == NULL) {
        out.here = work->stages[stage].bytes.num_experts;
        return out;
    }
    const struct pen_compute *compute = &work->measured->compute;
    for (uint32_t i = range->first; i < range->first + range->count; i++) {
        out.here += pen_expert_rank_experts(compute, i);
        out.elsewhere += pen_expert_rank_elsewhere(compute, i);
    }
    return out;
}

/* Gradients of an expert from all ranks of a group are added where it is. */
static double join_sec(const struct pen__work *work, const struct dealt *dealt)
{
    if (work->measured == NULL)
        return 0;
    const struct pen_profile *profile = work->measured->compute.profile;
    return (double)dealt->elsewhere *
           profile->updates[PEN_UPDATE_ADD].median_sec;
}

/* `work` has the seconds without the messages that ranks send. */
static void fill_stage(const struct pen__work *work, uint32_t stage,
                       struct pen_simulated_stage *out)
{
    const struct pen_cost *cost = &work->costs.items[stage];
    *out = (struct pen_simulated_stage){.forward_sec = cost->forward_sec,
                                        .input_sec = cost->input_sec,
                                        .weight_sec = cost->weight_sec,
                                        .update_sec = update_of(work, stage)};
    if (has_sums(work)) {
        const struct dealt dealt = dealt_of(work, stage);
        out->num_experts = dealt.here;
        out->num_parameters =
            parameters_of(work, stage) - dealt.here - dealt.elsewhere;
        out->update_sec += tie_of(work, stage) + join_sec(work, &dealt);
    } else if (work->measured == NULL)
        out->update_sec +=
            work->stages[stage].sync_sec + work->stages[stage].gather_sec;
}

/* Experts have messages of their own, of which a list has one kind. */
static pen_status check_groups(const struct pen__work *work,
                               struct pen_text *why)
{
    const struct pen_plan *plan = work->plan;
    bool has_experts = work->setting->model->num_experts > 0;
    if (has_experts && ranks_of(work->setting, plan, PEN_DEGREE_TP) > 1)
        pen_why(why,
                "tp %u of a model with experts: simulate does not know the "
                "messages of such ranks; plan with tp 1",
                plan->degrees[PEN_DEGREE_TP]);
    else if (sends_weights(work) && pen__keeps_experts(work))
        pen_why(why,
                "zero3 with ep %u: simulate does not know which weights such "
                "ranks send ahead of a layer; plan with zero2",
                plan->degrees[PEN_DEGREE_EP]);
    else
        return PEN_OK;
    return PEN_INVALID;
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

/* ---- messages inside layers ---- */

/* Without a profile, a sum reads two arrays and writes one. Every second round
 * of parts is a sum, the others copy the own part, as the planner counts them.
 */
static void count_additions(const struct pen__work *work,
                            struct pen_pass_messages *sent)
{
    uint32_t ranks = pen__degree(work->plan, PEN_DEGREE_TP);
    for (uint32_t i = 0; i < sent->count && ranks > 1; i++) {
        struct pen_message_round *round = &sent->rounds[i];
        double bytes = (double)round->part_bytes[0];
        if (round->way != PEN_WAY_DISTANCES) {
            round->after_sec = pen_bytes_time(
                work->device, (2 + 3.0 * (ranks - 1)) * bytes / 2);
            continue;
        }
        for (uint32_t apart = 1; apart < ranks; apart *= 2)
            round->after_sec += pen_bytes_time(work->device, 3 * bytes);
    }
}

static void fill_messages(const struct pen__work *work,
                          const struct pen_layer_range *stage,
                          struct pen_layer_messages *out)
{
    const struct pen_plan *plan = work->plan;
    const struct pen_compute counted = {
        .model = work->setting->model,
        .micro_batch = plan->micro_batch,
        .sequence = plan->sequence,
        .is_bf16 = work->setting->number == PEN_NUMBER_BF16,
        .tensor_ranks = pen__degree(plan, PEN_DEGREE_TP),
        .cuts_rows = plan->has_sequence_parallel,
        .context_ranks = pen__degree(plan, PEN_DEGREE_CP),
        .expert_ranks = pen__degree(plan, PEN_DEGREE_EP)};
    const struct pen_compute *compute =
        work->measured != NULL ? &work->measured->compute : &counted;
    for (uint32_t i = stage->first; i < stage->first + stage->count; i++) {
        pen_compute_layer_messages(compute, stage, i, &out[i]);
        if (work->measured == NULL) {
            count_additions(work, &out[i].forward);
            count_additions(work, &out[i].input);
            count_additions(work, &out[i].weight);
        }
    }
}

static pen_status make_messages(const struct pen__work *work,
                                struct pen_simulated *out, struct pen_text *why)
{
    uint32_t count = work->setting->model->num_layers;
    out->tensor_ranks = ranks_of(work->setting, work->plan, PEN_DEGREE_TP);
    out->context_ranks = ranks_of(work->setting, work->plan, PEN_DEGREE_CP);
    out->expert_ranks = ranks_of(work->setting, work->plan, PEN_DEGREE_EP);
    if (out->tensor_ranks == 1 && out->context_ranks == 1 &&
        out->expert_ranks == 1)
        return PEN_OK;
    if (out->tensor_ranks > 1 && out->context_ranks > 1) {
        pen_why(why,
                "the plan has tp %u and cp %u, and simulate sends the messages "
                "of one kind of group. Simulate a plan with tp 1 or cp 1; "
                "predict takes both",
                out->tensor_ranks, out->context_ranks);
        return PEN_INVALID;
    }
    out->messages = calloc(count, sizeof *out->messages);
    if (out->messages == NULL) {
        pen_why(why, "no memory for the messages of %u layers", count);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < work->plan->num_stages; i++)
        fill_messages(work, &work->plan->stages[i], out->messages);
    return PEN_OK;
}

/*
 * Parameters that a rank has of each layer, where weights come layer by layer.
 */
static pen_status list_parameters(const struct pen__work *work,
                                  struct pen_simulated *out,
                                  struct pen_text *why)
{
    const struct pen_model *model = work->setting->model;
    const struct pen_compute compute = {
        .model = model, .tensor_ranks = pen__degree(work->plan, PEN_DEGREE_TP)};
    if (!has_sums(work) || !sends_weights(work) || model->images != NULL)
        return PEN_OK;
    out->layer_parameters =
        calloc(model->num_layers, sizeof *out->layer_parameters);
    if (out->layer_parameters == NULL) {
        pen_why(why, "no memory for the weights of %u layers",
                model->num_layers);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < model->num_layers; i++) {
        const struct pen_layer_range layer = {.first = i, .count = 1};
        out->layer_parameters[i] =
            (uint64_t)pen_tensor_rank_parameters(&compute, &layer);
    }
    return PEN_OK;
}

static pen_status make_stages(const struct pen_setting *setting,
                              const struct pen_plan *plan,
                              struct pen_simulated *out, struct pen_text *why)
{
    struct pen_setting apart = *setting;
    struct pen__work work;
    apart.sends_inside = out->messages != NULL;
    apart.sends_weights = out->layer_parameters != NULL;
    apart.memo = NULL;
    out->stages = calloc(out->num_stages, sizeof *out->stages);
    if (out->stages == NULL) {
        pen_why(why, "no memory for %u stages", out->num_stages);
        return PEN_NOMEM;
    }
    pen_status status = pen__work_open(&apart, plan, &work, why);
    if (status == PEN_OK)
        status = pen__make_costs(&work, why);
    for (uint32_t i = 0; status == PEN_OK && i < out->num_stages; i++)
        fill_stage(&work, i, &out->stages[i]);
    pen__work_close(&work);
    return status;
}

/* ---- all together ---- */

/* Takes the costs out of the work. */
static void fill(struct pen__work *work, struct pen_simulated *out)
{
    const struct pen_practice *practice = &work->setting->practice;
    out->message_bytes = work->costs.bytes;
    out->gather_sec = work->gather_sec;
    out->other_sec = pen__other_sec(work);
    out->gradient_bytes = practice->reduction_bytes;
    out->weight_bytes = work->setting->target == PEN_TARGET_PENSTOCK
                            ? sizeof(float) /* masters */
                            : pen_number_bytes(work->setting->number);
    out->is_blocking = work->costs.is_blocking;
    out->is_sharded =
        has_sums(work) && work->plan->sharding != PEN_SHARDING_NONE;
    out->gathers_weights = has_sums(work) && sends_weights(work);
    out->sharding_group = out->gathers_weights ? work->plan->sharding_group : 0;
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
        status = check_groups(&work, why);
    if (status == PEN_OK)
        status = pen__make_costs(&work, why);
    if (status == PEN_OK)
        status = make_messages(&work, &made, why);
    if (status == PEN_OK)
        status = list_parameters(&work, &made, why);
    if (status == PEN_OK)
        status = make_stages(setting, plan, &made, why);
    if (status == PEN_OK)
        status = make_schedule(&work, &made.schedule, why);
    if (status == PEN_OK) {
        fill(&work, &made);
        *out = made;
    } else {
        free(made.layer_parameters);
        free(made.messages);
        free(made.stages);
    }
    pen__work_close(&work);
    return status;
}

void pen_simulated_release(struct pen_simulated *simulated)
{
    free(simulated->stages);
    free(simulated->layer_parameters);
    free(simulated->messages);
    pen_schedule_free(simulated->schedule);
    pen_costs_release(&simulated->costs);
    *simulated = (struct pen_simulated){.num_stages = 0};
}
