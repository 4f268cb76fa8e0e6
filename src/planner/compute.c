#include "planner/compute.h"

#include "core/image_model_cost.h"
#include "planner/context_rank.h"
#include "planner/expert_rank.h"
#include "planner/partition.h"
#include "planner/tensor_rank.h"

#include <stdlib.h>

/* Constants of an assumed machine, for predictions without a profile. */
#define FLOPS_PER_SEC 1e11
#define UPDATE_SEC 3e-9 /* of one element, all that a step does once */

static struct pen_workload workload_of(const struct pen_compute *compute,
                                       enum pen_recompute recompute)
{
    return (struct pen_workload){.batch = compute->micro_batch,
                                 .sequence = compute->sequence,
                                 .element_bytes = compute->is_bf16 ? 2 : 4,
                                 .stat_bytes = 4,
                                 .recompute = recompute,
                                 .modules = compute->modules};
}

/* Returns the work of one rank of a context group: its bytes are right, and it
 * has more pairs of tokens than this. */
static struct pen_workload workload_of_rank(const struct pen_compute *compute,
                                            enum pen_recompute recompute)
{
    struct pen_workload work = workload_of(compute, recompute);
    work.sequence = pen_context_rank_tokens(compute);
    return work;
}

static uint32_t num_layers_of(const struct pen_compute *compute)
{
    return compute->images != NULL ? compute->images->num_layers
                                   : compute->model->num_layers;
}

static void layer_cost(const struct pen_compute *compute, uint32_t layer,
                       const struct pen_workload *work,
                       struct pen_layer_cost *out)
{
    if (compute->images != NULL)
        pen_image_layer_cost(compute->images, layer, work, out);
    else
        pen_model_layer_cost(compute->model, layer, work, out);
}

static double trained_parameters(const struct pen_compute *compute,
                                 const struct pen_layer_range *range)
{
    uint64_t sum = 0;
    if (compute->images == NULL)
        return pen_tensor_rank_parameters(compute, range);
    for (uint32_t i = 0; i < range->count; i++)
        sum += pen_image_layer_parameters(compute->images, range->first + i);
    return (double)sum;
}

static bool is_counted(const struct pen_compute *compute,
                       enum pen_recompute recompute)
{
    return recompute == PEN_RECOMPUTE_SELECTIVE && compute->modules != 0;
}

/* The mode of the profile that a mode is measured as, or counted from. */
static enum pen_recompute measured_mode(const struct pen_compute *compute,
                                        enum pen_recompute recompute)
{
    return is_counted(compute, recompute) ? PEN_RECOMPUTE_NONE : recompute;
}

pen_status pen_compute_check(const struct pen_compute *compute,
                             enum pen_recompute recompute, struct pen_text *why)
{
    const struct pen_profile *profile = compute->profile;
    if (profile == NULL)
        return PEN_OK;
    const struct pen_profile_use use = {.model = compute->model,
                                        .micro_batch = compute->micro_batch,
                                        .sequence = compute->sequence,
                                        .is_bf16 = compute->is_bf16};
    recompute = measured_mode(compute, recompute);
    pen_status status = pen_profile_fits(profile, &use, why);
    if (status != PEN_OK || profile->layers[0].modes[recompute].is_there)
        return status;
    pen_why(why,
            "the profile has no recomputation \"%s\"; measure it again "
            "with --recompute-granularity all",
            pen_recompute_names[recompute]);
    return PEN_INVALID;
}

/*
 * Adds the room for rows from other ranks, less where modules are recomputed.
 */
static void count_rooms(const struct pen_compute *compute,
                        enum pen_recompute recompute,
                        struct pen_compute_bytes *out)
{
    struct pen_expert_room plain, room;
    pen_expert_rank_room(compute, PEN_RECOMPUTE_NONE, &plain);
    pen_expert_rank_room(compute, recompute, &room);
    out->stash -= plain.stash - room.stash;
    out->hold += room.hold - plain.hold;
    out->scratch += room.hold - plain.hold + room.scratch - plain.scratch;
}

void pen_compute_share_layers(const struct pen_compute *compute,
                              struct pen_profile *profile)
{
    pen_context_rank_cut(compute, profile);
    pen_tensor_rank_cut(compute, profile);
    pen_expert_rank_cut(compute, profile);
}

void pen_compute_layer_bytes(const struct pen_compute *compute, uint32_t layer,
                             enum pen_recompute recompute,
                             struct pen_compute_bytes *out)
{
    enum pen_layer_kind kind = pen_model_layer_kind(compute->model, layer);
    const struct pen_profile_mode *mode =
        &compute->profile->layers[kind]
             .modes[measured_mode(compute, recompute)];
    *out = (struct pen_compute_bytes){mode->stash_bytes, mode->hold_bytes,
                                      mode->scratch_bytes};
    if (!is_counted(compute, recompute) || kind != PEN_LAYER_BLOCK)
        return;
    struct pen_workload work = workload_of_rank(compute, PEN_RECOMPUTE_NONE);
    struct pen_layer_cost plain, cost;
    pen_model_layer_cost(compute->model, layer, &work, &plain);
    work.recompute = recompute;
    pen_model_layer_cost(compute->model, layer, &work, &cost);
    uint32_t norms =
        pen_recomputed_of(recompute, compute->modules).norms ? 2 : 0;
    out->stash -= pen_tensor_rank_bytes(compute, plain.stash_bytes, 4) -
                  pen_tensor_rank_bytes(compute, cost.stash_bytes, 4 - norms);
    uint64_t held = pen_tensor_rank_bytes(compute, cost.hold_bytes, 4) -
                    pen_tensor_rank_bytes(compute, plain.hold_bytes, 4);
    out->hold += held;
    out->scratch +=
        held + pen_tensor_rank_bytes(compute, cost.again_bytes, norms);
    count_rooms(compute, recompute, out);
}

/* The number of a block among those of a stage, the first of which is 0. */
static uint32_t block_of(const struct pen_layer_range *stage, uint32_t layer)
{
    return layer - (stage->first > 0 ? stage->first : 1);
}

static bool is_block(const struct pen_compute *compute, uint32_t layer)
{
    return compute->images == NULL &&
           pen_model_layer_kind(compute->model, layer) == PEN_LAYER_BLOCK;
}

/*
 * The mode of a layer in a stage; some blocks of full recomputation keep
 * everything.
 */
static enum pen_recompute mode_of(const struct pen_compute *compute,
                                  const struct pen_layer_range *stage,
                                  uint32_t layer)
{
    bool is_kept =
        stage->recompute == PEN_RECOMPUTE_FULL && is_block(compute, layer) &&
        !pen_recompute_covers(&compute->span, block_of(stage, layer));
    return is_kept ? PEN_RECOMPUTE_NONE : stage->recompute;
}

/* Blocks inside a chunk of recomputed ones are computed again to their ends,
 * with one sum more, because the next block reads the output. */
static uint32_t ends_again(const struct pen_compute *compute,
                           const struct pen_layer_range *stage, uint32_t layer,
                           enum pen_layer_pass pass)
{
    return pass == PEN_PASS_INPUT && is_block(compute, layer) &&
           mode_of(compute, stage, layer) == PEN_RECOMPUTE_FULL &&
           pen_recompute_is_inner(&compute->span, block_of(stage, layer));
}

/* Modules that are computed again take their share of a forward. */
static double again_sec(const struct pen_compute *compute, uint32_t layer,
                        const struct pen_profile_mode *mode)
{
    struct pen_workload work = workload_of(compute, PEN_RECOMPUTE_SELECTIVE);
    struct pen_layer_cost cost;
    pen_model_layer_cost(compute->model, layer, &work, &cost);
    return cost.forward_flops > 0 ? mode->passes[PEN_PASS_FORWARD].median_sec *
                                        cost.again_flops / cost.forward_flops
                                  : 0;
}

static void add_measured(const struct pen_profile_mode *mode,
                         bool has_whole_backward, struct pen_cost *sum)
{
    const struct pen_measured *passes = mode->passes;
    double weight = passes[PEN_PASS_WEIGHT].median_sec;
    double input = passes[PEN_PASS_INPUT].median_sec;
    if (has_whole_backward) {
        double whole = passes[PEN_PASS_BACKWARD].median_sec;
        weight = weight < whole ? weight : whole;
        input = whole - weight;
    }
    sum->forward_sec += passes[PEN_PASS_FORWARD].median_sec;
    sum->input_sec += input;
    sum->weight_sec += weight;
}

static void add_counted(const struct pen_compute *compute, uint32_t layer,
                        enum pen_recompute recompute, struct pen_cost *sum)
{
    struct pen_workload work = workload_of(compute, recompute);
    struct pen_layer_cost cost;
    layer_cost(compute, layer, &work, &cost);
    double again = recompute == PEN_RECOMPUTE_FULL && is_block(compute, layer)
                       ? cost.forward_flops
                       : cost.again_flops;
    sum->forward_sec += cost.forward_flops / FLOPS_PER_SEC;
    sum->input_sec += (cost.input_flops + again) / FLOPS_PER_SEC;
    sum->weight_sec += cost.weight_flops / FLOPS_PER_SEC;
}

/* Parameters of a stage that other ranks of an expert group step. */
static double elsewhere(const struct pen_compute *compute,
                        const struct pen_layer_range *range)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; compute->images == NULL && i < range->count; i++)
        sum += pen_expert_rank_elsewhere(compute, range->first + i);
    return (double)sum;
}

/* Seconds of the work that a step does once for each element. Each rank clears
 * gradients that are dealt out, too. */
static double update_sec(const struct pen_compute *compute,
                         const struct pen_layer_range *range)
{
    double count = trained_parameters(compute, range);
    double own = count - elsewhere(compute, range);
    if (compute->is_sharded && compute->num_members > 1)
        own = count / compute->num_members;
    if (compute->profile == NULL)
        return UPDATE_SEC * own;
    const struct pen_measured *updates = compute->profile->updates;
    double clear_sec = updates[PEN_UPDATE_CLEAR].median_sec;
    double cleared = compute->is_sharded ? own : count;
    return cleared * clear_sec + own * (updates[PEN_UPDATE_NORM].median_sec +
                                        updates[compute->optimizer].median_sec);
}

/*
 * Each member sums an equal share, which it gets from all others; then the sum
 * goes to them or, where each steps its share, the new values do.
 */
static double sum_sec(const struct pen_profile *profile, double count,
                      uint32_t num_members)
{
    enum { WAYS = 2 };
    double others = count * (num_members - 1) / num_members;
    return others * (WAYS * sizeof(float) / profile->link.bytes_per_sec +
                     profile->updates[PEN_UPDATE_ADD].median_sec);
}

/* Experts are summed over sources here and then over groups. */
static double reduction_sec(const struct pen_compute *compute,
                            const struct pen_layer_range *range)
{
    const struct pen_profile *profile = compute->profile;
    uint32_t num_members = compute->num_members;
    if (num_members <= 1 || profile == NULL || !profile->link.is_there)
        return 0;
    double count = trained_parameters(compute, range);
    double away = elsewhere(compute, range);
    if (away == 0)
        return sum_sec(profile, count, num_members);
    uint32_t sources = compute->expert_ranks;
    double here = away / (sources - 1);
    return sum_sec(profile, count - away - here, num_members) +
           away * profile->updates[PEN_UPDATE_ADD].median_sec +
           sum_sec(profile, here, num_members / sources);
}

static double group_sec(const struct pen_compute *compute,
                        const struct pen_layer_range *stage, uint32_t layer,
                        enum pen_layer_pass pass, enum pen_compute_group group)
{
    enum pen_layer_kind kind = pen_model_layer_kind(compute->model, layer);
    enum pen_recompute mode = mode_of(compute, stage, layer);
    switch (group) {
    case PEN_COMPUTE_TENSOR:
        return pen_tensor_rank_sec(compute, kind, mode, pass) +
               pen_tensor_rank_gate_sec(compute, layer, pass);
    case PEN_COMPUTE_CONTEXT:
        return pen_context_rank_sec(compute, kind, mode, pass);
    case PEN_COMPUTE_EXPERTS:
        return pen_expert_rank_sec(compute, layer, mode, pass);
    case PEN_COMPUTE_GROUPS:
        break;
    }
    return 0;
}

static double message_sec(const struct pen_compute *compute,
                          const struct pen_layer_range *stage, uint32_t layer,
                          enum pen_layer_pass pass)
{
    double sum = 0;
    for (int i = 0; i < PEN_COMPUTE_GROUPS && !compute->sends_messages; i++)
        sum +=
            group_sec(compute, stage, layer, pass, (enum pen_compute_group)i);
    return sum;
}

double pen_compute_inside_sec(const struct pen_compute *compute,
                              const struct pen_layer_range *stage,
                              enum pen_compute_group group)
{
    double sum = 0;
    if (compute->profile == NULL || compute->sends_messages)
        return 0;
    for (uint32_t i = stage->first; i < stage->first + stage->count; i++)
        for (int pass = 0; pass < PEN_PASS_BACKWARD; pass++)
            sum +=
                group_sec(compute, stage, i, (enum pen_layer_pass)pass, group);
    return sum;
}

struct pen_context_messages
pen_compute_context_messages(const struct pen_compute *compute,
                             const struct pen_layer_range *stage,
                             enum pen_layer_pass pass)
{
    struct pen_context_messages sum = {.gathers = 0};
    for (uint32_t i = stage->first; i < stage->first + stage->count; i++) {
        struct pen_context_messages sent = pen_context_rank_messages(
            compute, pen_model_layer_kind(compute->model, i),
            mode_of(compute, stage, i), pass);
        sum.gathers += sent.gathers;
        sum.sums += sent.sums;
    }
    return sum;
}

uint32_t pen_compute_tensor_sums(const struct pen_compute *compute,
                                 const struct pen_layer_range *stage,
                                 enum pen_layer_pass pass)
{
    uint32_t sum = 0;
    for (uint32_t i = stage->first; i < stage->first + stage->count; i++) {
        struct pen_tensor_messages sent = pen_tensor_rank_messages(
            compute, pen_model_layer_kind(compute->model, i),
            mode_of(compute, stage, i), pass);
        if (sent.is_added)
            sum += sent.count + ends_again(compute, stage, i, pass);
    }
    return sum;
}

uint32_t pen_compute_tensor_rounds(const struct pen_compute *compute,
                                   const struct pen_layer_range *stage,
                                   enum pen_layer_pass pass)
{
    uint32_t sum = 0;
    for (uint32_t i = stage->first; i < stage->first + stage->count; i++)
        sum += pen_tensor_rank_rounds(compute,
                                      pen_model_layer_kind(compute->model, i),
                                      mode_of(compute, stage, i), pass)
                   .count +
               ends_again(compute, stage, i, pass);
    return sum;
}

uint32_t pen_compute_expert_rounds(const struct pen_compute *compute,
                                   const struct pen_layer_range *stage,
                                   uint32_t layer, enum pen_layer_pass pass)
{
    return pen_expert_rank_messages(compute, layer,
                                    mode_of(compute, stage, layer), pass)
        .rounds;
}

void pen_compute_layer_messages(const struct pen_compute *compute,
                                const struct pen_layer_range *stage,
                                uint32_t layer, struct pen_layer_messages *out)
{
    enum pen_layer_kind kind = pen_model_layer_kind(compute->model, layer);
    enum pen_recompute mode = mode_of(compute, stage, layer);
    *out = (struct pen_layer_messages){.forward = {.count = 0}};
    if (compute->expert_ranks > 1) {
        pen_expert_rank_sends(compute, layer, mode, PEN_PASS_FORWARD,
                              &out->forward);
        pen_expert_rank_sends(compute, layer, mode, PEN_PASS_INPUT,
                              &out->input);
        return;
    }
    if (compute->context_ranks > 1) {
        pen_context_rank_sends(compute, kind, mode, PEN_PASS_FORWARD,
                               &out->forward);
        pen_context_rank_sends(compute, kind, mode, PEN_PASS_INPUT,
                               &out->input);
        return;
    }
    pen_tensor_rank_sends(compute, kind, mode, PEN_PASS_FORWARD, &out->forward);
    pen_tensor_rank_sends(compute, kind, mode, PEN_PASS_INPUT, &out->input);
    pen_tensor_rank_sends(compute, kind, mode, PEN_PASS_WEIGHT, &out->weight);
    pen_tensor_rank_copies(compute, layer, &out->copies);
}

void pen_compute_stage(const struct pen_compute *compute,
                       const struct pen_layer_range *stage,
                       bool has_whole_backward, struct pen_cost *out)
{
    struct pen_cost sum = {.recompute_sec = -1, .pair_sec = -1, .memory = -1};
    for (uint32_t i = 0; i < stage->count; i++) {
        uint32_t layer = stage->first + i;
        if (compute->profile == NULL) {
            add_counted(compute, layer, mode_of(compute, stage, layer), &sum);
            continue;
        }
        const struct pen_profile_mode *mode =
            &compute->profile
                 ->layers[pen_model_layer_kind(compute->model, layer)]
                 .modes[measured_mode(compute, mode_of(compute, stage, layer))];
        add_measured(mode, has_whole_backward, &sum);
        sum.forward_sec += message_sec(compute, stage, layer, PEN_PASS_FORWARD);
        sum.input_sec += message_sec(compute, stage, layer, PEN_PASS_INPUT);
        sum.weight_sec += message_sec(compute, stage, layer, PEN_PASS_WEIGHT);
        if (is_counted(compute, stage->recompute))
            sum.input_sec += again_sec(compute, layer, mode);
    }
    sum.sync_sec = reduction_sec(compute, stage);
    sum.step_sec = update_sec(compute, stage);
    *out = sum;
}

bool pen_compute_has_whole_backward(const struct pen_schedule *schedule)
{
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++)
        for (uint32_t i = 0; i < schedule->rows[rank].count; i++)
            if (schedule->rows[rank].ops[i].kind == PEN_OP_BACKWARD)
                return true;
    return false;
}

uint64_t pen_compute_stash_bytes(const struct pen_compute *compute,
                                 const struct pen_layer_range *stage)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < stage->count; i++) {
        uint32_t layer = stage->first + i;
        enum pen_recompute mode = mode_of(compute, stage, layer);
        struct pen_workload work = workload_of_rank(compute, mode);
        struct pen_layer_cost cost;
        if (mode == PEN_RECOMPUTE_FULL && is_block(compute, layer) &&
            pen_recompute_is_inner(&compute->span, block_of(stage, layer)))
            continue;
        layer_cost(compute, stage->first + i, &work, &cost);
        sum += cost.stash_bytes;
    }
    return sum;
}

uint64_t pen_compute_boundary_bytes(const struct pen_compute *compute)
{
    struct pen_workload work = workload_of_rank(compute, PEN_RECOMPUTE_NONE);
    uint32_t count = compute->images == NULL ? 1 : num_layers_of(compute);
    uint64_t most = 0;
    for (uint32_t layer = 0; layer < count; layer++) {
        struct pen_layer_cost cost;
        layer_cost(compute, layer, &work, &cost);
        most = cost.output_bytes > most ? cost.output_bytes : most;
    }
    if (compute->cuts_rows && compute->tensor_ranks > 1)
        most /= compute->tensor_ranks;
    return most;
}

/* Seconds of one layer in a step of `num_microbatches` micro-batches. */
static double layer_sec(const struct pen_compute *compute, uint32_t layer,
                        enum pen_recompute recompute, uint32_t num_microbatches)
{
    const struct pen_layer_range stage = {
        .first = layer, .count = 1, .recompute = recompute};
    struct pen_cost cost;
    pen_compute_stage(compute, &stage, true, &cost);
    return (cost.forward_sec + cost.input_sec + cost.weight_sec) *
               num_microbatches +
           cost.step_sec;
}

static void fill_stages(const uint32_t *counts, enum pen_recompute recompute,
                        struct pen_layer_range *stages, uint32_t num_stages)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < num_stages; i++) {
        stages[i] = (struct pen_layer_range){
            .first = first, .count = counts[i], .recompute = recompute};
        first += counts[i];
    }
}

pen_status pen_compute_cut(const struct pen_compute *compute,
                           enum pen_recompute recompute,
                           uint32_t num_microbatches,
                           struct pen_layer_range *stages, uint32_t num_stages,
                           struct pen_text *why)
{
    uint32_t num_layers = num_layers_of(compute);
    double *costs = calloc(num_layers, sizeof *costs);
    uint32_t *counts = calloc((size_t)num_stages + 1, sizeof *counts);
    pen_status status = PEN_NOMEM;
    if (costs == NULL || counts == NULL)
        pen_why(why, "no memory to cut %u layers", num_layers);
    else
        status = pen_compute_check(compute, recompute, why);
    if (status == PEN_OK) {
        for (uint32_t layer = 0; layer < num_layers; layer++)
            costs[layer] =
                layer_sec(compute, layer, recompute, num_microbatches);
        const struct pen_partition_problem problem = {
            .costs = costs, .num_layers = num_layers, .num_parts = num_stages};
        status = pen_partition(&problem, counts, why);
    }
    if (status == PEN_OK)
        fill_stages(counts, recompute, stages, num_stages);
    free(costs);
    free(counts);
    return status;
}

static pen_status check_stages(const struct pen_compute *compute,
                               const struct pen_layer_range *stages,
                               uint32_t num_stages, struct pen_text *why)
{
    bool is_met[PEN_RECOMPUTES] = {false};
    pen_status status = PEN_OK;
    for (uint32_t i = 0; status == PEN_OK && i < num_stages; i++) {
        if (!is_met[stages[i].recompute])
            status = pen_compute_check(compute, stages[i].recompute, why);
        is_met[stages[i].recompute] = true;
    }
    return status;
}

/* The head's stage trains a tied matrix; the embedding's gets it each step. */
static void add_tied(const struct pen_compute *compute, struct pen_cost *first,
                     struct pen_cost *last)
{
    const struct pen_model *model = compute->model;
    const struct pen_profile *profile = compute->profile;
    if (first == last || profile == NULL || !profile->link.is_there ||
        !model->has_tied_embeddings)
        return;
    double bytes = 4.0 * (double)pen_tensor_rank_share(
                             compute, (uint64_t)model->hidden * model->vocab);
    double seconds =
        profile->link.latency_sec + bytes / profile->link.bytes_per_sec;
    first->step_sec += seconds;
    last->step_sec += seconds;
}

pen_status pen_compute_costs(const struct pen_compute *compute,
                             const struct pen_layer_range *stages,
                             uint32_t num_stages, uint32_t num_ranks,
                             bool has_whole_backward, struct pen_costs *out,
                             struct pen_text *why)
{
    pen_status status = check_stages(compute, stages, num_stages, why);
    if (status != PEN_OK)
        return status;
    struct pen_cost *items = calloc(num_stages, sizeof *items);
    if (items == NULL) {
        pen_why(why, "no memory for the costs of %u stages", num_stages);
        return PEN_NOMEM;
    }
    double total = 0;
    for (uint32_t i = 0; i < num_stages; i++)
        total += (double)pen_compute_stash_bytes(compute, &stages[i]);
    for (uint32_t i = 0; i < num_stages; i++) {
        pen_compute_stage(compute, &stages[i], has_whole_backward, &items[i]);
        items[i].memory = (double)pen_compute_stash_bytes(compute, &stages[i]) *
                          num_ranks / total;
    }
    add_tied(compute, &items[0], &items[num_stages - 1]);
    pen_costs_init(out);
    out->scope = PEN_COST_PER_STAGE;
    out->items = items;
    out->num_items = num_stages;
    out->bytes = (double)pen_compute_boundary_bytes(compute);
    if (compute->profile != NULL && compute->profile->link.is_there) {
        out->latency_sec = compute->profile->link.latency_sec;
        out->bytes_per_sec = compute->profile->link.bytes_per_sec;
    }
    return PEN_OK;
}
