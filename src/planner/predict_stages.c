/* Seconds and bytes of each stage of a plan. */
#include "planner/predict_work.h"

#include "planner/collective.h"
#include "planner/layer_operations.h"
#include "planner/memo.h"
#include "planner/operations.h"
#include "planner/rank_devices.h"

#include <math.h>
#include <string.h>

/* Which rank of the pipeline has a stage; of several copies, of the first. */
uint32_t pen__rank_of(const struct pen__work *work, uint32_t stage)
{
    uint32_t pp = pen__degree(work->plan, PEN_DEGREE_PP);
    uint32_t turn = stage % pp;
    bool turns = work->generator->placement == PEN_PLACEMENT_V ||
                 work->generator->placement == PEN_PLACEMENT_WAVE;
    return turns && (stage / pp) % 2 == 1 ? pp - 1 - turn : turn;
}

/* Two pipelines in opposite directions: half of the micro-batches each. */
bool pen__has_two_copies(const struct pen__work *work)
{
    return work->generator->placement == PEN_PLACEMENT_BIDIRECTIONAL ||
           work->generator->placement == PEN_PLACEMENT_BIDIRECTIONAL_V;
}

/*
 * Whether embedding and head share a matrix, and the head is on a rank without
 * the embedding.
 */
static bool has_second_holder(const struct pen__work *work)
{
    return work->setting->model->has_tied_embeddings &&
           !pen__has_two_copies(work) &&
           pen__rank_of(work, work->plan->num_stages - 1) !=
               pen__rank_of(work, 0);
}

static uint64_t count_tied(const struct pen_model *model)
{
    return (uint64_t)model->vocab *
           (model->embedding_dim > 0 ? model->embedding_dim : model->hidden);
}

/* Variants of a layer: blocks differ in kind. */
enum { VARIANTS = PEN_MAX_BLOCK_KINDS };

static uint32_t variant_of(const struct pen_model *model, uint32_t layer)
{
    if (pen_model_layer_kind(model, layer) != PEN_LAYER_BLOCK)
        return 0;
    return pen_model_block_kind(model, layer - 1);
}

/* A layer of each kind and mode is looked at once. */
struct layer_table {
    bool is_there[PEN_LAYER_KINDS][VARIANTS][PEN_RECOMPUTES];
    struct pen_layer_time times[PEN_LAYER_KINDS][VARIANTS][PEN_RECOMPUTES];
    struct pen_layer_bytes bytes[PEN_LAYER_KINDS][VARIANTS][PEN_RECOMPUTES];
};

static void add_layer(const struct pen_layer_time *time,
                      const struct pen_layer_bytes *bytes, double share,
                      struct pen__stage *out)
{
    pen__layer_time_add(time, share, &out->time);
    out->bytes.num_parameters += bytes->num_parameters;
    out->bytes.num_experts += bytes->num_experts;
    out->bytes.stash_bytes += bytes->stash_bytes;
    out->bytes.hold_bytes += bytes->hold_bytes;
    out->bytes.output_bytes = bytes->output_bytes;
    if (bytes->working_bytes > out->bytes.working_bytes)
        out->bytes.working_bytes = bytes->working_bytes;
}

static void sum_stage(const struct pen__work *work,
                      const struct pen_layer_range *range, uint32_t group,
                      struct layer_table *table, struct pen__stage *out)
{
    const struct pen_model *model = work->setting->model;
    *out = (struct pen__stage){.sync_sec = 0};
    for (uint32_t i = range->first; i < range->first + range->count; i++) {
        enum pen_layer_kind kind = pen_model_layer_kind(model, i);
        uint32_t variant = variant_of(model, i);
        enum pen_recompute mode = range->recompute;
        struct pen_layer_time *time = &table->times[kind][variant][mode];
        struct pen_layer_bytes *bytes = &table->bytes[kind][variant][mode];
        bool is_known = table->is_there[kind][variant][mode];
        if (!is_known || model->images != NULL) /* whose layers all differ */
            pen__layer_recall(work->setting, work->plan, group, i, mode, time,
                              bytes);
        table->is_there[kind][variant][mode] = true;
        add_layer(time, bytes, 1, out);
    }
    if (range->first + range->count == model->num_layers &&
        has_second_holder(work))
        out->bytes.num_parameters +=
            count_tied(model) / pen__degree(work->plan, PEN_DEGREE_TP);
}

/* Bytes of one weight on its way to the ranks that compute with it. */
static double gathered_bytes(const struct pen__work *work)
{
    return work->plan->recipe.gathers_narrow
               ? pen_number_product_bytes(work->setting->number)
               : pen_number_bytes(work->setting->number);
}

/* Ranks that share the experts of a rank: with those of its tensor group. */
static uint64_t expert_ranks(const struct pen_plan *plan)
{
    return (uint64_t)pen_expert_tp(plan->degrees, plan->expert_tp) *
           pen__degree(plan, PEN_DEGREE_EP);
}

/* Gradients and weights of a stage go to the replicas and come back. */
static double replica_time(const struct pen__work *work,
                           enum pen_collective_kind kind,
                           const struct pen_layer_bytes *bytes, double element)
{
    const struct pen_plan *plan = work->plan;
    struct pen_device_set all = {
        (uint64_t)pen__num_owners(plan->degrees, plan->expert_tp, PEN__COMMON),
        pen__degree(plan, PEN_DEGREE_TP)};
    struct pen_device_set same = {(uint64_t)pen__num_owners(plan->degrees,
                                                            plan->expert_tp,
                                                            PEN__OF_EXPERTS),
                                  expert_ranks(plan)};
    double shared = (double)(bytes->num_parameters - bytes->num_experts);
    double sec = 0;
    if (shared > 0)
        sec += pen_collective_time(work->setting->cluster, work->device, kind,
                                   &all, shared * element);
    if (bytes->num_experts > 0)
        sec += pen_collective_time(work->setting->cluster, work->device, kind,
                                   &same, (double)bytes->num_experts * element);
    return sec;
}

/* The whole weights pass through every rank, layer by layer. */
static double pass_time(const struct pen__work *work, double bytes)
{
    struct pen_device_set set = {
        (uint64_t)pen__degree(work->plan, PEN_DEGREE_DP) *
            pen__degree(work->plan, PEN_DEGREE_CP),
        pen__degree(work->plan, PEN_DEGREE_TP)};
    if (work->setting->practice.gathers_singly)
        set.stride = pen_cluster_node_size(work->setting->cluster);
    return pen_collective_time(work->setting->cluster, work->device,
                               PEN_COLLECTIVE_GATHER, &set, bytes);
}

/* Returns the seconds of weights on their way, within the replicas that have
 * all of them together. */
static double weights_time(const struct pen__work *work, double bytes)
{
    const struct pen_plan *plan = work->plan;
    struct pen_device_set set = {plan->sharding_group,
                                 pen__degree(plan, PEN_DEGREE_TP)};
    if (plan->sharding_group == 0)
        return pass_time(work, bytes);
    return pen_collective_time(work->setting->cluster, work->device,
                               PEN_COLLECTIVE_GATHER, &set, bytes);
}

/* Returns those of new values, after a step, from owners to the ranks of other
 * groups that keep a copy. */
static double spread_time(const struct pen__work *work,
                          const struct pen__stage *stage)
{
    const struct pen_plan *plan = work->plan;
    uint64_t replicas = (uint64_t)pen__degree(plan, PEN_DEGREE_DP) *
                        pen__degree(plan, PEN_DEGREE_CP);
    uint32_t group = plan->sharding_group;
    if (group == 0 || group == replicas)
        return 0;
    struct pen_device_set set = {
        replicas / group, (uint64_t)group * pen__degree(plan, PEN_DEGREE_TP)};
    return pen_collective_time(
        work->setting->cluster, work->device, PEN_COLLECTIVE_GATHER, &set,
        (double)stage->bytes.num_parameters / group * gathered_bytes(work));
}

/*
 * Whether weights and gradients come and go with every micro-batch, as ZeRO-3
 * has them.
 */
bool pen__passes_weights(const struct pen__work *work)
{
    const struct pen_practice *practice = &work->setting->practice;
    bool is_pipeline = pen__degree(work->plan, PEN_DEGREE_PP) > 1;
    return work->plan->sharding == PEN_SHARDING_ZERO3 &&
           !(practice->gathers_once && is_pipeline);
}

bool pen__keeps_experts(const struct pen__work *work)
{
    return work->setting->practice.has_worst_routing &&
           pen__degree(work->plan, PEN_DEGREE_EP) > 1;
}

/* Weights that come to replicas at the end of a step, none layer by layer. */
static struct pen_layer_bytes weights_at_end(const struct pen__work *work,
                                             const struct pen__stage *stage)
{
    struct pen_layer_bytes bytes = stage->bytes;
    if (!pen__passes_weights(work))
        return bytes;
    bytes.num_experts = pen__keeps_experts(work) ? bytes.num_experts : 0;
    bytes.num_parameters = bytes.num_experts;
    return bytes;
}

/* Seconds of computing that overlaps with messages. */
static double pass_beside(double compute_sec, double message_sec)
{
    return fmax(message_sec, compute_sec + PEN_BESIDE_SHARE * message_sec);
}

static void share_weights(const struct pen__work *work,
                          struct pen__stage *stage)
{
    const struct pen_layer_bytes kept = weights_at_end(work, stage);
    double bytes = (double)(stage->bytes.num_parameters - kept.num_parameters);
    double gather = weights_time(work, bytes * gathered_bytes(work));
    double scatter =
        pass_time(work, bytes * work->setting->practice.reduction_bytes);
    struct pen_layer_time *time = &stage->time;
    double backward = time->input_sec + time->weight_sec + time->recompute_sec;
    double longer = pass_beside(backward, gather + scatter) / backward;
    double forward = time->forward_sec;
    time->forward_sec = pass_beside(forward, gather);
    stage->wait_sec = time->forward_sec - forward + backward * (longer - 1);
    time->input_sec *= longer;
    time->weight_sec *= longer;
    time->recompute_sec *= longer;
}

double pen__offloaded_share(const struct pen__work *work)
{
    double blocks = (double)work->setting->model->num_blocks /
                    pen__degree(work->plan, PEN_DEGREE_PP);
    return fmin(1, work->plan->recipe.offload_blocks / blocks);
}

/*
 * Activations that a stage keeps go to the host and come back; the copies take
 * no compute units.
 */
static void offload(const struct pen__work *work, struct pen__stage *stage)
{
    double bytes =
        (double)stage->bytes.stash_bytes * pen__offloaded_share(work);
    double sec = bytes / work->device->constants[PEN_CONSTANT_HOST_RATE];
    struct pen_layer_time *time = &stage->time;
    time->forward_sec = fmax(time->forward_sec, sec);
    time->input_sec = fmax(time->input_sec, sec - time->weight_sec);
}

static double reduction_time(const struct pen__work *work,
                             const struct pen__stage *stage)
{
    const struct pen_practice *practice = &work->setting->practice;
    const struct pen_layer_bytes bytes = weights_at_end(work, stage);
    bool is_cut = work->plan->sharding != PEN_SHARDING_NONE &&
                  !pen__needs_whole_gradients(work->plan);
    double sec = replica_time(
        work, is_cut ? PEN_COLLECTIVE_GATHER : PEN_COLLECTIVE_REDUCE, &bytes,
        practice->reduction_bytes);
    if (practice->overlaps_gradients)
        sec = fmax(sec / 8, sec - 0.9 * (stage->time.input_sec +
                                         stage->time.weight_sec));
    return sec;
}

static double gather_time(const struct pen__work *work,
                          const struct pen__stage *stage)
{
    const struct pen_practice *practice = &work->setting->practice;
    const struct pen_layer_bytes bytes = weights_at_end(work, stage);
    if (work->plan->sharding == PEN_SHARDING_NONE)
        return 0;
    double sec =
        replica_time(work, PEN_COLLECTIVE_GATHER, &bytes, gathered_bytes(work));
    if (practice->overlaps_parameters)
        sec = fmax(sec / 8, sec - 0.9 * stage->time.forward_sec);
    return pen__passes_weights(work) ? sec + spread_time(work, stage) : sec;
}

/* Embedding and head with one matrix on two ranks agree on its gradient. */
static double tie_time(const struct pen__work *work)
{
    const struct pen_plan *plan = work->plan;
    if (!has_second_holder(work))
        return 0;
    uint64_t distance = (uint64_t)pen__degree(plan, PEN_DEGREE_TP) *
                        pen__degree(plan, PEN_DEGREE_CP) *
                        pen__degree(plan, PEN_DEGREE_DP) *
                        (pen__degree(plan, PEN_DEGREE_PP) - 1);
    double bytes = (double)count_tied(work->setting->model) /
                   pen__degree(plan, PEN_DEGREE_TP) *
                   work->setting->practice.reduction_bytes;
    return bytes / pen_message_bandwidth(work->setting->cluster, work->device,
                                         distance);
}

/* Work that a stage does together with its replicas. */
static void share_stage(const struct pen__work *work, struct pen__stage *stage)
{
    if (work->plan->recipe.offload_blocks > 0)
        offload(work, stage);
    if (pen__passes_weights(work) && !work->setting->sends_weights)
        share_weights(work, stage);
    stage->sync_sec = reduction_time(work, stage);
    stage->gather_sec = gather_time(work, stage);
    stage->update_sec =
        pen__optimizer_sec(work->setting, work->plan, work->device,
                           &stage->bytes, &stage->matrices);
}

/* Whether the same layers were summed. */
static bool is_alike(const struct pen__stage *a, const struct pen__stage *b)
{
    return a->time.forward_sec == b->time.forward_sec &&
           a->time.input_sec == b->time.input_sec &&
           a->time.weight_sec == b->time.weight_sec &&
           a->time.recompute_sec == b->time.recompute_sec &&
           a->time.tensor_sec == b->time.tensor_sec &&
           a->time.context_sec == b->time.context_sec &&
           a->time.expert_sec == b->time.expert_sec &&
           memcmp(&a->bytes, &b->bytes, sizeof a->bytes) == 0;
}

void pen__sum_stages(struct pen__work *work)
{
    const struct pen_plan *plan = work->plan;
    struct layer_table table;
    struct pen__stage alike; /* the sums of the stage before */
    uint32_t last = UINT32_MAX;
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        struct pen__stage *stage = &work->stages[i];
        uint32_t group =
            pen__devices_of(work->setting, plan, pen__rank_of(work, i)).slowest;
        if (group != last)
            memset(table.is_there, 0, sizeof table.is_there);
        last = group;
        sum_stage(work, &plan->stages[i], group, &table, stage);
        if (i > 0 && is_alike(stage, &alike))
            *stage = work->stages[i - 1];
        else {
            alike = *stage;
            pen__matrix_sums_add(work->setting, plan, group, &plan->stages[i],
                                 &stage->matrices);
            share_stage(work, stage);
        }
    }
    work->tie_sec = tie_time(work);
    work->stages[0].sync_sec += work->tie_sec;
    if (plan->num_stages > 1)
        work->stages[plan->num_stages - 1].sync_sec += work->tie_sec;
}

void pen__measure_stages(struct pen__work *work)
{
    for (uint32_t i = 0; i < work->plan->num_stages; i++) {
        const struct pen_layer_range *range = &work->plan->stages[i];
        struct pen__stage *stage = &work->stages[i];
        struct pen_cost cost;
        *stage = (struct pen__stage){.sync_sec = 0};
        pen__measured_stage(work->measured, range, &stage->time, &cost);
        stage->sync_sec = cost.sync_sec;
        stage->update_sec = cost.step_sec;
    }
}

/*
 * After their last backwards the stages of a rank are reduced in parallel, and
 * then updated one after the other.
 */
static double behind_of(const struct pen__stage *stage)
{
    return stage->sync_sec + stage->gather_sec + stage->update_sec;
}

static void add_stage(const struct pen__stage *stage, double share,
                      struct pen__stage *out)
{
    add_layer(&stage->time, &stage->bytes, share, out);
    pen__matrix_sums_join(&stage->matrices, &out->matrices);
    out->wait_sec += share * stage->wait_sec;
    out->sync_sec += stage->sync_sec;
    out->gather_sec += stage->gather_sec;
    out->update_sec += stage->update_sec;
    out->behind_sec = fmin(out->behind_sec, behind_of(stage));
}

/* Sums over the stages of one pipeline rank. */
void pen__sum_rank(const struct pen__work *work, uint32_t rank,
                   struct pen__stage *out)
{
    uint32_t pp = pen__degree(work->plan, PEN_DEGREE_PP);
    uint32_t num_stages = work->plan->num_stages;
    bool has_twin = pp > 1 && pen__has_two_copies(work);
    bool has_all = work->generator->placement == PEN_PLACEMENT_CYCLIC;
    *out = (struct pen__stage){.behind_sec = INFINITY};
    for (uint32_t i = 0; has_all && i < num_stages; i++)
        add_stage(&work->stages[i], 1.0 / pp, out);
    /* Each row of pp stages has one of the rank, and one of its twin. */
    for (uint32_t row = 0; !has_all && row < num_stages; row += pp) {
        uint32_t own = row + pen__rank_of(work, row + rank);
        uint32_t twin = row + pen__rank_of(work, row + pp - 1 - rank);
        if (has_twin && twin < own)
            add_stage(&work->stages[twin], 0.5, out);
        add_stage(&work->stages[own], has_twin ? 0.5 : 1, out);
        if (has_twin && twin > own)
            add_stage(&work->stages[twin], 0.5, out);
    }
    out->behind_sec = fmax(out->behind_sec, out->gather_sec + out->update_sec);
}
