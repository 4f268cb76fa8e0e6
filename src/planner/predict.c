#include "planner/predict.h"

#include "planner/collective.h"
#include "planner/compute.h"
#include "planner/measured.h"
#include "planner/operations.h"
#include "planner/timings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const pen_spending_names[PEN_SPENDINGS + 1] = {
#define SPENDING_NAME(name, words) words,
    PEN_SPENDING_TABLE(SPENDING_NAME) NULL};

/* A stage on one of its ranks. */
struct stage {
    struct pen_layer_time time;   /* sums of its layers */
    struct pen_layer_bytes bytes; /* sums; the largest working_bytes */
    double sync_sec;
    double gather_sec; /* part of the step behind the optimizer */
    double update_sec;
    double behind_sec; /* of a rank: at least, behind its last backward */
};

/* A plan with all that was found out about it on the way. */
struct work {
    const struct pen_setting *setting;
    const struct pen_plan *plan;
    const struct pen_device *device; /* of the slowest group in use */
    struct stage *stages;
    const struct pen_generator *generator;
    double hop_sec; /* of a message between two stages */
    struct pen_costs costs;
    double activation_bytes;        /* of one A of the costs */
    struct pen__measured *measured; /* NULL: formulas decide */
};

static uint32_t degree(const struct pen_plan *plan, enum pen_degree which)
{
    return plan->degrees[which];
}

/* ---- whether the plan can be ---- */

static pen_status check_plan(struct work *work, struct pen_text *why)
{
    const struct pen_plan *plan = work->plan;
    const struct pen_layer_range *last = &plan->stages[plan->num_stages - 1];
    uint64_t ranks = pen_plan_num_ranks(plan);
    uint64_t devices = pen_cluster_num_devices(work->setting->cluster);
    if (last->first + last->count != work->setting->model->num_layers) {
        pen_why(why, "the stages have %u layers, the model %u",
                last->first + last->count, work->setting->model->num_layers);
        return PEN_INVALID;
    }
    if (ranks > devices) {
        pen_why(why, "the plan has %llu ranks, the cluster %llu devices",
                (unsigned long long)ranks, (unsigned long long)devices);
        return PEN_INVALID;
    }
    if (plan->schedule.name == NULL) {
        pen_why(why, "a schedule from a file cannot be predicted here; "
                     "`penstock schedule time` does");
        return PEN_INVALID;
    }
    work->generator = pen_generator_find(plan->schedule.name);
    if (work->generator == NULL || work->generator->missing != NULL) {
        pen_why(why,
                "there is no schedule %s; `penstock schedule list` "
                "has them all",
                plan->schedule.name);
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* ---- devices ---- */

static double speed_of(const struct work *work, uint32_t group)
{
    const struct pen_device *device =
        &work->setting->cluster->groups[group].device;
    return pen_device_peak(device, work->setting->number);
}

/*
 * Devices are taken in the order of the cluster, the ranks of one pipeline rank
 * side by side. Where they are of several kinds the slowest counts.
 */
static uint32_t group_of(const struct work *work, uint64_t first,
                         uint64_t count)
{
    const struct pen_cluster *cluster = work->setting->cluster;
    uint32_t slowest = 0;
    uint64_t begin = 0;
    bool is_found = false;
    for (uint32_t i = 0; i < cluster->num_groups; i++) {
        uint64_t end = begin + cluster->groups[i].count;
        if (begin < first + count && first < end &&
            (!is_found || speed_of(work, i) < speed_of(work, slowest))) {
            slowest = i;
            is_found = true;
        }
        begin = end;
    }
    return slowest;
}

static uint32_t group_of_rank(const struct work *work, uint32_t rank)
{
    uint64_t size =
        pen_plan_num_ranks(work->plan) / degree(work->plan, PEN_DEGREE_PP);
    return group_of(work, rank * size, size);
}

/* ---- stages ---- */

/* Which rank of the pipeline has a stage; of several copies, of the first. */
static uint32_t rank_of(const struct work *work, uint32_t stage)
{
    uint32_t pp = degree(work->plan, PEN_DEGREE_PP);
    uint32_t turn = stage % pp;
    bool turns = work->generator->placement == PEN_PLACEMENT_V ||
                 work->generator->placement == PEN_PLACEMENT_WAVE;
    return turns && (stage / pp) % 2 == 1 ? pp - 1 - turn : turn;
}

/* Two pipelines in opposite directions: half of the micro-batches each. */
static bool has_two_copies(const struct work *work)
{
    return work->generator->placement == PEN_PLACEMENT_BIDIRECTIONAL ||
           work->generator->placement == PEN_PLACEMENT_BIDIRECTIONAL_V;
}

/* One matrix of embedding and head, and the head on a rank without it. */
static bool has_second_holder(const struct work *work)
{
    return work->setting->model->has_tied_embeddings && !has_two_copies(work) &&
           rank_of(work, work->plan->num_stages - 1) != rank_of(work, 0);
}

static uint64_t count_tied(const struct pen_model *model)
{
    return (uint64_t)model->vocab *
           (model->embedding_dim > 0 ? model->embedding_dim : model->hidden);
}

/* Blocks differ in experts and in windows. */
enum { VARIANTS = 4 };

static int variant_of(const struct pen_model *model, uint32_t layer)
{
    if (pen_model_layer_kind(model, layer) != PEN_LAYER_BLOCK)
        return 0;
    return (pen_model_block_is_sparse(model, layer - 1) ? 2 : 0) +
           (pen_model_window(model, layer - 1) > 0 ? 1 : 0);
}

/* A layer of each kind and mode is looked at once. */
struct layer_table {
    bool is_there[PEN_LAYER_KINDS][VARIANTS][PEN_RECOMPUTES];
    struct pen_layer_time times[PEN_LAYER_KINDS][VARIANTS][PEN_RECOMPUTES];
    struct pen_layer_bytes bytes[PEN_LAYER_KINDS][VARIANTS][PEN_RECOMPUTES];
};

static void add_layer(const struct pen_layer_time *time,
                      const struct pen_layer_bytes *bytes, double share,
                      struct stage *out)
{
    struct pen_layer_time *sum = &out->time;
    sum->forward_sec += share * time->forward_sec;
    sum->input_sec += share * time->input_sec;
    sum->weight_sec += share * time->weight_sec;
    sum->recompute_sec += share * time->recompute_sec;
    sum->tensor_sec += share * time->tensor_sec;
    sum->context_sec += share * time->context_sec;
    sum->expert_sec += share * time->expert_sec;
    out->bytes.num_parameters += bytes->num_parameters;
    out->bytes.num_experts += bytes->num_experts;
    out->bytes.stash_bytes += bytes->stash_bytes;
    out->bytes.hold_bytes += bytes->hold_bytes;
    out->bytes.output_bytes = bytes->output_bytes;
    if (bytes->working_bytes > out->bytes.working_bytes)
        out->bytes.working_bytes = bytes->working_bytes;
}

static void sum_stage(const struct work *work,
                      const struct pen_layer_range *range, uint32_t group,
                      struct layer_table *table, struct stage *out)
{
    const struct pen_model *model = work->setting->model;
    *out = (struct stage){.sync_sec = 0};
    for (uint32_t i = range->first; i < range->first + range->count; i++) {
        enum pen_layer_kind kind = pen_model_layer_kind(model, i);
        int variant = variant_of(model, i);
        enum pen_recompute mode = range->recompute;
        struct pen_layer_time *time = &table->times[kind][variant][mode];
        struct pen_layer_bytes *bytes = &table->bytes[kind][variant][mode];
        if (!table->is_there[kind][variant][mode])
            pen_predict_layer(work->setting, work->plan, group, i, mode, time,
                              bytes);
        table->is_there[kind][variant][mode] = true;
        add_layer(time, bytes, 1, out);
    }
    if (range->first + range->count == model->num_layers &&
        has_second_holder(work))
        out->bytes.num_parameters +=
            count_tied(model) / degree(work->plan, PEN_DEGREE_TP);
}

/* Gradients and weights of a stage go to the replicas and come back. */
static double replica_time(const struct work *work, enum pen_collective kind,
                           const struct pen_layer_bytes *bytes, double element)
{
    uint64_t ep = degree(work->plan, PEN_DEGREE_EP);
    uint64_t tp = degree(work->plan, PEN_DEGREE_TP);
    uint64_t replicas = (uint64_t)degree(work->plan, PEN_DEGREE_DP) *
                        degree(work->plan, PEN_DEGREE_CP);
    struct pen_device_set all = {replicas, tp};
    struct pen_device_set same = {replicas / ep, tp * ep};
    double shared = (double)(bytes->num_parameters - bytes->num_experts);
    double sec = pen_collective_time(work->setting->cluster, work->device, kind,
                                     &all, shared * element);
    if (bytes->num_experts > 0)
        sec += pen_collective_time(work->setting->cluster, work->device, kind,
                                   &same, (double)bytes->num_experts * element);
    return sec;
}

/* The whole weights pass through every rank, layer by layer. */
static double pass_time(const struct work *work, double bytes)
{
    struct pen_device_set set = {(uint64_t)degree(work->plan, PEN_DEGREE_DP) *
                                     degree(work->plan, PEN_DEGREE_CP),
                                 degree(work->plan, PEN_DEGREE_TP)};
    if (work->setting->practice.gathers_singly)
        set.stride = pen_cluster_node_size(work->setting->cluster);
    return pen_collective_time(work->setting->cluster, work->device,
                               PEN_COLLECTIVE_GATHER, &set, bytes);
}

/* ZeRO-3 whose weights and gradients come and go with every micro-batch. */
static bool passes_weights(const struct work *work)
{
    const struct pen_practice *practice = &work->setting->practice;
    bool is_pipeline = degree(work->plan, PEN_DEGREE_PP) > 1;
    return work->plan->sharding == PEN_SHARDING_ZERO3 &&
           !practice->keeps_gathered &&
           !(practice->gathers_once && is_pipeline);
}

/* Seconds of computing with messages beside it. */
static double pass_beside(double compute_sec, double message_sec)
{
    return fmax(message_sec, compute_sec + PEN_BESIDE_SHARE * message_sec);
}

static void share_weights(const struct work *work, struct stage *stage)
{
    double bytes = (double)stage->bytes.num_parameters;
    double element = pen_number_bytes(work->setting->number);
    double gather = pass_time(work, bytes * element);
    double scatter =
        pass_time(work, bytes * work->setting->practice.reduction_bytes);
    struct pen_layer_time *time = &stage->time;
    double backward = time->input_sec + time->weight_sec + time->recompute_sec;
    double longer = pass_beside(backward, gather + scatter) / backward;
    time->forward_sec = pass_beside(time->forward_sec, gather);
    time->input_sec *= longer;
    time->weight_sec *= longer;
    time->recompute_sec *= longer;
}

static double reduction_time(const struct work *work, const struct stage *stage)
{
    const struct pen_practice *practice = &work->setting->practice;
    if (passes_weights(work))
        return 0; /* done already */
    bool is_cut = work->plan->sharding != PEN_SHARDING_NONE;
    double sec = replica_time(
        work, is_cut ? PEN_COLLECTIVE_GATHER : PEN_COLLECTIVE_REDUCE,
        &stage->bytes, practice->reduction_bytes);
    if (practice->overlaps_gradients)
        sec = fmax(sec / 8, sec - 0.9 * (stage->time.input_sec +
                                         stage->time.weight_sec));
    return sec;
}

static double gather_time(const struct work *work, const struct stage *stage)
{
    const struct pen_practice *practice = &work->setting->practice;
    if (work->plan->sharding == PEN_SHARDING_NONE || passes_weights(work))
        return 0;
    double sec = replica_time(work, PEN_COLLECTIVE_GATHER, &stage->bytes,
                              pen_number_bytes(work->setting->number));
    if (practice->overlaps_parameters)
        sec = fmax(sec / 8, sec - 0.9 * stage->time.forward_sec);
    return sec;
}

/* Weights, and moments twice: read and written. */
#define UPDATE_BYTES 24.0

static double update_time(const struct work *work, const struct stage *stage)
{
    double share = work->plan->sharding == PEN_SHARDING_NONE
                       ? 1
                       : 1.0 / (degree(work->plan, PEN_DEGREE_DP) *
                                (double)degree(work->plan, PEN_DEGREE_CP));
    double bytes = UPDATE_BYTES + work->setting->practice.gradient_bytes;
    if (work->setting->number != PEN_NUMBER_F32)
        bytes += pen_number_bytes(work->setting->number);
    return pen_bytes_time(work->device,
                          share * bytes * (double)stage->bytes.num_parameters);
}

/* Embedding and head with one matrix on two ranks agree on its gradient. */
static double tie_time(const struct work *work)
{
    const struct pen_plan *plan = work->plan;
    if (!has_second_holder(work))
        return 0;
    uint64_t distance =
        (uint64_t)degree(plan, PEN_DEGREE_TP) * degree(plan, PEN_DEGREE_CP) *
        degree(plan, PEN_DEGREE_DP) * (degree(plan, PEN_DEGREE_PP) - 1);
    double bytes = (double)count_tied(work->setting->model) /
                   degree(plan, PEN_DEGREE_TP) *
                   work->setting->practice.reduction_bytes;
    return bytes / pen_message_bandwidth(work->setting->cluster, work->device,
                                         distance);
}

static void sum_stages(struct work *work)
{
    const struct pen_plan *plan = work->plan;
    struct layer_table table;
    uint32_t last = UINT32_MAX;
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        struct stage *stage = &work->stages[i];
        uint32_t group = group_of_rank(work, rank_of(work, i));
        if (group != last)
            memset(&table, 0, sizeof table);
        last = group;
        sum_stage(work, &plan->stages[i], group, &table, stage);
        if (passes_weights(work))
            share_weights(work, stage);
        stage->sync_sec = reduction_time(work, stage);
        stage->gather_sec = gather_time(work, stage);
        stage->update_sec = update_time(work, stage);
    }
    double tie = tie_time(work);
    work->stages[0].sync_sec += tie;
    if (plan->num_stages > 1)
        work->stages[plan->num_stages - 1].sync_sec += tie;
}

static void measure_stages(struct work *work)
{
    for (uint32_t i = 0; i < work->plan->num_stages; i++) {
        const struct pen_layer_range *range = &work->plan->stages[i];
        struct stage *stage = &work->stages[i];
        struct pen_cost cost;
        *stage = (struct stage){.sync_sec = 0};
        pen__measured_stage(work->measured, range, &stage->time, &cost);
        stage->sync_sec = cost.sync_sec;
        stage->update_sec = cost.step_sec;
    }
}

/* ---- the schedule ---- */

/* Whether weight gradients are ops of their own; a small one tells. */
static bool splits_backward(const struct work *work)
{
    struct pen_costs costs;
    struct pen_schedule *schedule = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    bool is_split = false;
    pen_costs_init(&costs);
    struct pen_generator_args args = {
        .ranks = 2,
        .microbatches = 4,
        .chunks = work->generator->has_chunks
                      ? degree(work->plan, PEN_DEGREE_VPP)
                      : 0,
        .costs = &costs};
    if (pen_generator_make(work->generator, &args, &schedule, &why) == PEN_OK)
        is_split = !pen_compute_has_whole_backward(schedule);
    pen_schedule_free(schedule);
    pen_text_release(&why);
    pen_costs_release(&costs);
    return is_split;
}

static pen_status measure_costs(struct work *work, struct pen_text *why)
{
    const struct pen__measured *measured = work->measured;
    pen_status status = pen_compute_costs(
        &measured->compute, work->plan->stages, work->plan->num_stages,
        degree(work->plan, PEN_DEGREE_PP), measured->has_whole_backward,
        &work->costs, why);
    for (uint32_t i = 0; status == PEN_OK && i < work->plan->num_stages; i++) {
        struct pen_cost *item = &work->costs.items[i];
        work->stages[i].update_sec = item->step_sec;
        item->step_sec = item->sync_sec; /* nothing runs beside it */
        item->sync_sec = 0;
    }
    return status;
}

static pen_status make_costs(struct work *work, struct pen_text *why)
{
    if (work->measured != NULL)
        return measure_costs(work, why);
    const struct pen_plan *plan = work->plan;
    struct pen_costs *costs = &work->costs;
    uint64_t distance = (uint64_t)degree(plan, PEN_DEGREE_TP) *
                        degree(plan, PEN_DEGREE_CP) *
                        degree(plan, PEN_DEGREE_DP);
    double stash = 0;
    double held = 0; /* from backward input to backward weight */
    bool is_twice =
        work->setting->practice.recomputes_twice && splits_backward(work);
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
    work->activation_bytes = stash / degree(plan, PEN_DEGREE_PP);
    if (stash > 0)
        costs->memory = (struct pen_memory){
            .forward = 1, .input = held / stash - 1, .weight = -held / stash};
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        const struct stage *stage = &work->stages[i];
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
    if (degree(plan, PEN_DEGREE_PP) == 1)
        return PEN_OK;
    /* Each of the tp ranks sends its share; they gather it on the other side.
     */
    struct pen_device_set set = {degree(plan, PEN_DEGREE_TP), 1};
    double bytes = (double)work->stages[0].bytes.output_bytes;
    double gather =
        plan->has_sequence_parallel
            ? 0
            : pen_collective_time(work->setting->cluster, work->device,
                                  PEN_COLLECTIVE_GATHER, &set, bytes);
    costs->bytes = bytes / degree(plan, PEN_DEGREE_TP);
    costs->bytes_per_sec =
        pen_message_bandwidth(work->setting->cluster, work->device, distance);
    costs->latency_sec =
        pen_message_latency(work->setting->cluster, work->device, distance) +
        gather;
    costs->is_blocking = work->setting->practice.blocks_on_messages;
    work->hop_sec = costs->latency_sec + costs->bytes / costs->bytes_per_sec;
    return PEN_OK;
}

/* Of one batch, or of so many that follow each other. */
static pen_status time_batches(const struct work *work, uint32_t batches,
                               struct pen_timing **out, struct pen_text *why)
{
    if (work->measured != NULL)
        return pen_schedule_time(work->measured->schedule, &work->costs, NULL,
                                 out, why);
    const struct pen_plan *plan = work->plan;
    struct pen_generator_args args = {
        .ranks = degree(plan, PEN_DEGREE_PP),
        .microbatches = plan->num_microbatches,
        .chunks =
            work->generator->has_chunks ? degree(plan, PEN_DEGREE_VPP) : 0,
        .slices = plan->schedule.slices,
        .batches = batches,
        .warmup = plan->schedule.warmup,
        .memory_limit = plan->schedule.memory_limit,
        .has_memory = true,
        .has_vertical_sync = plan->schedule.has_vertical_sync,
        .costs = &work->costs};
    return pen_timings_run(work->setting->timings, work->generator, &args, out,
                           why);
}

/*
 * Where no step waits for the one before, one takes what each batch adds when
 * the pipeline is full.
 */
static pen_status time_schedule(const struct work *work,
                                struct pen_timing **out, double *span_sec,
                                struct pen_text *why)
{
    struct pen_timing *less = NULL;
    uint32_t few =
        degree(work->plan, PEN_DEGREE_PP) / work->plan->num_microbatches + 2;
    bool is_whole = work->generator->is_synchronous || work->measured != NULL;
    pen_status status = time_batches(work, is_whole ? 0 : 2 * few, out, why);
    if (status == PEN_OK && is_whole)
        *span_sec = (*out)->makespan_sec;
    if (status != PEN_OK || is_whole)
        return status;
    status = time_batches(work, few, &less, why);
    if (status == PEN_OK)
        *span_sec = ((*out)->makespan_sec - less->makespan_sec) / few;
    pen_timing_free(less);
    return status;
}

/* ---- what is told ---- */

/*
 * Behind their last backwards the stages of a rank are reduced side by side,
 * and then updated one after the other.
 */
static double behind_of(const struct stage *stage)
{
    return stage->sync_sec + stage->gather_sec + stage->update_sec;
}

/* Sums over the stages of one pipeline rank. */
static void sum_rank(const struct work *work, uint32_t rank, struct stage *out)
{
    uint32_t pp = degree(work->plan, PEN_DEGREE_PP);
    bool has_twin = pp > 1 && has_two_copies(work);
    bool has_all = work->generator->placement == PEN_PLACEMENT_CYCLIC;
    double share = has_all ? 1.0 / pp : has_twin ? 0.5 : 1;
    *out = (struct stage){.behind_sec = INFINITY};
    for (uint32_t i = 0; i < work->plan->num_stages; i++) {
        const struct stage *stage = &work->stages[i];
        bool is_twin = has_twin && pp - 1 - rank_of(work, i) == rank;
        if (rank_of(work, i) != rank && !is_twin && !has_all)
            continue;
        add_layer(&stage->time, &stage->bytes, share, out);
        out->sync_sec += stage->sync_sec;
        out->gather_sec += stage->gather_sec;
        out->update_sec += stage->update_sec;
        out->behind_sec = fmin(out->behind_sec, behind_of(stage));
    }
    out->behind_sec = fmax(out->behind_sec, out->gather_sec + out->update_sec);
}

/* All ranks wait for the norm of the gradients before they step. */
static double measured_span(const struct work *work,
                            const struct pen_timing *timing)
{
    double longest = 0;
    for (uint32_t i = 0; i < degree(work->plan, PEN_DEGREE_PP); i++) {
        struct stage rank;
        sum_rank(work, i, &rank);
        longest = fmax(longest, rank.update_sec);
    }
    return timing->makespan_sec + longest;
}

static double compute_of(const struct work *work, const struct stage *rank)
{
    const struct pen_layer_time *time = &rank->time;
    return work->plan->num_microbatches *
           (time->forward_sec + time->input_sec + time->weight_sec +
            time->recompute_sec);
}

/* The rank that computes longest tells where a step's seconds go. */
static void spend(const struct work *work, double step_sec, double other_sec,
                  struct pen_prediction *out)
{
    struct stage rank;
    struct stage busiest = {.sync_sec = -1};
    double longest = -1;
    for (uint32_t i = 0; i < degree(work->plan, PEN_DEGREE_PP); i++) {
        sum_rank(work, i, &rank);
        double busy = compute_of(work, &rank) + rank.behind_sec;
        if (busy > longest) {
            longest = busy;
            busiest = rank;
        }
    }
    double left = fmax(0, step_sec - other_sec - compute_of(work, &busiest) -
                              busiest.gather_sec - busiest.update_sec);
    const struct pen_layer_time *time = &busiest.time;
    double count = work->plan->num_microbatches;
    double messages = time->tensor_sec + time->context_sec + time->expert_sec;
    double all = time->forward_sec + time->input_sec + time->weight_sec +
                 time->recompute_sec;
    double pure = all > 0 ? fmax(0, 1 - messages / all) : 0;
    double *spent = out->spent;
    spent[PEN_SPENDING_FORWARD] = count * time->forward_sec * pure;
    spent[PEN_SPENDING_BACKWARD] =
        count * (time->input_sec + time->weight_sec) * pure;
    spent[PEN_SPENDING_RECOMPUTE] = count * time->recompute_sec * pure;
    spent[PEN_SPENDING_TENSOR] = count * time->tensor_sec;
    spent[PEN_SPENDING_CONTEXT] = count * time->context_sec;
    spent[PEN_SPENDING_EXPERT] = count * time->expert_sec;
    spent[PEN_SPENDING_REDUCTION] = fmin(left, busiest.sync_sec);
    spent[PEN_SPENDING_GATHER] = busiest.gather_sec;
    spent[PEN_SPENDING_UPDATE] = busiest.update_sec;
    spent[PEN_SPENDING_OTHER] = other_sec;
    spent[PEN_SPENDING_BUBBLE] = left - spent[PEN_SPENDING_REDUCTION];
    out->bubble = spent[PEN_SPENDING_BUBBLE] / step_sec;
}

static void fill_memory(const struct work *work, const struct stage *rank,
                        double stash_bytes, bool has_head,
                        struct pen_plan_memory *out)
{
    const struct pen_plan *plan = work->plan;
    const struct pen_practice *practice = &work->setting->practice;
    double replicas =
        (double)degree(plan, PEN_DEGREE_DP) * degree(plan, PEN_DEGREE_CP);
    double parameters = (double)rank->bytes.num_parameters;
    double shares[PEN_MEMORY_PARTS] = {0};
    for (int i = PEN_MEMORY_WEIGHTS; i <= PEN_MEMORY_OPTIMIZER; i++)
        shares[i] = 1;
    if (plan->sharding >= PEN_SHARDING_ZERO1)
        shares[PEN_MEMORY_OPTIMIZER] = 1 / replicas;
    if (plan->sharding >= PEN_SHARDING_ZERO2)
        shares[PEN_MEMORY_GRADIENTS] = 1 / replicas;
    if (passes_weights(work))
        shares[PEN_MEMORY_WEIGHTS] = 1 / replicas;
    else if (plan->sharding == PEN_SHARDING_ZERO3)
        shares[PEN_MEMORY_GRADIENTS] = 1;
    double element = pen_number_bytes(work->setting->number);
    double boundary = (double)rank->bytes.output_bytes;
    double bytes[PEN_MEMORY_PARTS] = {
        [PEN_MEMORY_WEIGHTS] =
            parameters * element * shares[PEN_MEMORY_WEIGHTS],
        [PEN_MEMORY_GRADIENTS] = parameters * practice->gradient_bytes *
                                 shares[PEN_MEMORY_GRADIENTS],
        [PEN_MEMORY_OPTIMIZER] = parameters * practice->optimizer_bytes *
                                 shares[PEN_MEMORY_OPTIMIZER],
        [PEN_MEMORY_ACTIVATIONS] = stash_bytes * (1 + practice->memory_holes),
        [PEN_MEMORY_LOSS] = has_head ? (double)rank->bytes.working_bytes : 0,
        [PEN_MEMORY_BUFFERS] =
            4 * boundary + (has_head ? 0 : (double)rank->bytes.working_bytes),
        [PEN_MEMORY_OVERHEAD] = practice->overhead_bytes};
    for (int part = 0; part < PEN_MEMORY_PARTS; part++)
        out->bytes[part] = (uint64_t)bytes[part];
    out->count = pen_plan_num_ranks(plan) / degree(plan, PEN_DEGREE_PP);
}

/* Micro-batches that a rank of the pipeline holds, where nothing is timed. */
static double guess_in_flight(const struct work *work, uint32_t rank)
{
    double pp = degree(work->plan, PEN_DEGREE_PP);
    double vpp = degree(work->plan, PEN_DEGREE_VPP);
    double m = work->plan->num_microbatches;
    if (strcmp(work->generator->name, "gpipe") == 0)
        return m;
    if (vpp > 1 && work->generator->placement != PEN_PLACEMENT_V)
        return fmin(m, pp + (pp - 1) / vpp - 2.0 * rank / vpp);
    return fmin(m, vpp > 1 ? pp : pp - rank);
}

/*
 * How far the bytes were off where they could be compared. A plan must fit all
 * the same: close to the brim, allocators slow down before they fail.
 */
#define MEMORY_ERROR 0.1

/* The same with a profile. */
#define MEASURED_MEMORY_ERROR 0.02
#define MEASURED_STEP_ERROR 0.05

/* What the smallest device of a rank of the pipeline has. */
static uint64_t limit_of(const struct work *work, uint32_t rank)
{
    const struct pen_cluster *cluster = work->setting->cluster;
    uint64_t size =
        pen_plan_num_ranks(work->plan) / degree(work->plan, PEN_DEGREE_PP);
    uint64_t begin = 0;
    uint64_t limit = work->setting->memory_limit;
    for (uint32_t i = 0; i < cluster->num_groups; i++) {
        uint64_t has = cluster->groups[i].device.memory_bytes;
        uint64_t end = begin + cluster->groups[i].count;
        if (begin < (rank + 1) * size && rank * size < end &&
            (limit == 0 || has < limit))
            limit = has;
        begin = end;
    }
    return limit;
}

static void fill_rank(const struct work *work, const struct pen_timing *timing,
                      uint32_t index, bool has_head,
                      struct pen_plan_memory *out)
{
    struct stage rank;
    if (work->measured != NULL) {
        out->count =
            pen_plan_num_ranks(work->plan) / degree(work->plan, PEN_DEGREE_PP);
        pen__measured_memory(work->measured, work->plan, index, out);
        return;
    }
    sum_rank(work, index, &rank);
    double stash =
        timing != NULL
            ? timing->ranks[index].peak * work->activation_bytes
            : guess_in_flight(work, index) * (double)rank.bytes.stash_bytes;
    fill_memory(work, &rank, stash, has_head, out);
    if (timing != NULL)
        out->bytes[PEN_MEMORY_WEIGHTS] *= timing->ranks[index].versions;
}

static pen_status tell_memory(const struct work *work,
                              const struct pen_timing *timing,
                              struct pen_prediction *out, struct pen_text *why)
{
    uint32_t pp = degree(work->plan, PEN_DEGREE_PP);
    uint32_t last = rank_of(work, work->plan->num_stages - 1);
    double error =
        work->measured == NULL ? MEMORY_ERROR : MEASURED_MEMORY_ERROR;
    out->fits = true;
    out->memory = calloc(pp, sizeof *out->memory);
    if (out->memory == NULL) {
        pen_why(why, "no memory for the classes of %u ranks", pp);
        return PEN_NOMEM;
    }
    out->num_memory = pp;
    for (uint32_t i = 0; i < pp; i++) {
        fill_rank(work, timing, i, i == last, &out->memory[i]);
        uint64_t bytes = pen_plan_memory_bytes(&out->memory[i]);
        if (bytes > out->peak_bytes) {
            out->peak_bytes = bytes;
            out->fullest = i;
        }
        if ((double)bytes * (1 + error) > (double)limit_of(work, i))
            out->fits = false;
    }
    out->memory_error = error;
    return PEN_OK;
}

static void tell_time(const struct work *work, double span_sec,
                      struct pen_prediction *out)
{
    const struct pen_setting *setting = work->setting;
    const struct pen_plan *plan = work->plan;
    double other = work->measured != NULL
                       ? 0
                       : work->device->constants[PEN_CONSTANT_STEP_SEC];
    double peak = pen_device_peak(work->device, setting->number);
    double batch = (double)pen_plan_global_batch(plan);
    out->step_sec = span_sec + other;
    spend(work, out->step_sec, other, out);
    out->tokens_per_sec = batch * plan->sequence / out->step_sec;
    out->utilisation =
        pen_model_step_flops(setting->model, (uint64_t)batch, plan->sequence) /
        (out->step_sec * peak * (double)pen_plan_num_ranks(plan));
    out->step_error = work->measured == NULL
                          ? pen_device_step_error(work->device)
                          : MEASURED_STEP_ERROR;
}

/* Seconds of the stages before a rank, on the way there and on the way back. */
struct way {
    double there_sec;
    double back_sec;
};

/*
 * A rank waits for the stages before its first one to begin, and they for it to
 * end; of two pipelines in opposite directions, for the nearer end.
 */
static struct way find_way(const struct work *work, uint32_t rank)
{
    uint32_t pp = degree(work->plan, PEN_DEGREE_PP);
    struct way way = {0, 0};
    if (work->generator->has_slices) /* a part of a micro-batch goes ahead */
        return way;
    if (has_two_copies(work) && rank > pp - 1 - rank)
        rank = pp - 1 - rank;
    for (uint32_t i = 0; i < rank; i++) {
        const struct pen_layer_time *time = &work->stages[i].time;
        way.there_sec += time->forward_sec;
        way.back_sec += time->input_sec + time->recompute_sec;
        if (!work->generator->splits_backward)
            way.back_sec += time->weight_sec;
    }
    return way;
}

/* No rank ends before it has done its part and those before it theirs. */
static double bound_span(const struct work *work)
{
    double most = 0;
    struct stage first;
    sum_rank(work, 0, &first);
    for (uint32_t i = 0; i < degree(work->plan, PEN_DEGREE_PP); i++) {
        struct stage rank;
        sum_rank(work, i, &rank);
        struct way way = find_way(work, i);
        double compute = compute_of(work, &rank);
        if (!work->generator->is_synchronous) { /* all the time */
            most = fmax(most, compute + rank.gather_sec + rank.update_sec);
            continue;
        }
        double needed = compute; /* before the others can end */
        if (work->generator->splits_backward)
            needed -= work->plan->num_microbatches * rank.time.weight_sec;
        most = fmax(most, way.there_sec + compute + rank.behind_sec);
        most = fmax(most,
                    way.there_sec + needed + way.back_sec + first.behind_sec);
    }
    return most;
}

static pen_status open_work(const struct pen_setting *setting,
                            const struct pen_plan *plan, struct work *work,
                            struct pen_text *why)
{
    *work = (struct work){.setting = setting,
                          .plan = plan,
                          .device = &setting->cluster->groups[0].device};
    pen_costs_init(&work->costs);
    pen_status status = check_plan(work, why);
    if (status != PEN_OK)
        return status;
    uint32_t slowest = group_of(work, 0, pen_plan_num_ranks(plan));
    work->device = &setting->cluster->groups[slowest].device;
    work->stages = calloc(plan->num_stages, sizeof *work->stages);
    if (work->stages == NULL) {
        pen_why(why, "no memory for %u stages", plan->num_stages);
        return PEN_NOMEM;
    }
    if (!pen__is_measured(setting)) {
        sum_stages(work);
        return PEN_OK;
    }
    status = pen__measured_create(setting, plan, work->generator,
                                  &work->measured, why);
    if (status == PEN_OK)
        measure_stages(work);
    return status;
}

static void close_work(struct work *work)
{
    free(work->stages);
    pen__measured_free(work->measured);
    pen_costs_release(&work->costs);
}

pen_status pen_predict(const struct pen_setting *setting,
                       const struct pen_plan *plan, struct pen_prediction *out,
                       struct pen_text *why)
{
    struct work work;
    struct pen_timing *timing = NULL;
    struct pen_prediction found = {.step_sec = 0};
    double span_sec = 0;
    pen_status status = open_work(setting, plan, &work, why);
    if (status == PEN_OK)
        status = make_costs(&work, why);
    if (status == PEN_OK)
        status = time_schedule(&work, &timing, &span_sec, why);
    if (status == PEN_OK)
        status = tell_memory(&work, timing, &found, why);
    /* The ends of a short run may be a little shorter than its middle. */
    if (status == PEN_OK && work.measured != NULL)
        span_sec = measured_span(&work, timing);
    else if (status == PEN_OK && !work.generator->is_synchronous)
        span_sec = fmax(span_sec, bound_span(&work));
    if (status == PEN_OK) {
        tell_time(&work, span_sec, &found);
        *out = found;
    } else
        pen_prediction_release(&found);
    pen_timing_free(timing);
    close_work(&work);
    return status;
}

pen_status pen_predict_bound(const struct pen_setting *setting,
                             const struct pen_plan *plan,
                             struct pen_prediction *out, struct pen_text *why)
{
    if (pen__is_measured(setting)) /* whose schedules are small */
        return pen_predict(setting, plan, out, why);
    struct work work;
    struct pen_prediction found = {.step_sec = 0};
    pen_status status = open_work(setting, plan, &work, why);
    if (status == PEN_OK)
        status = tell_memory(&work, NULL, &found, why);
    if (status == PEN_OK) {
        tell_time(&work, bound_span(&work), &found);
        *out = found;
    } else
        pen_prediction_release(&found);
    close_work(&work);
    return status;
}

void pen_prediction_release(struct pen_prediction *prediction)
{
    free(prediction->memory);
    *prediction = (struct pen_prediction){.step_sec = 0};
}

bool pen_prediction_store(const struct pen_prediction *prediction,
                          struct pen_plan *plan)
{
    struct pen_plan_memory *memory =
        calloc(prediction->num_memory + 1, sizeof *memory);
    if (memory == NULL)
        return false;
    memcpy(memory, prediction->memory, prediction->num_memory * sizeof *memory);
    free(plan->predicted.memory);
    plan->predicted = (struct pen_plan_prediction){
        .is_there = true,
        .step_sec = prediction->step_sec,
        .step_error = prediction->step_error,
        .memory_error = prediction->memory_error,
        .bubble = prediction->bubble,
        .utilisation = prediction->utilisation,
        .tokens_per_sec = prediction->tokens_per_sec,
        .memory = memory,
        .num_memory = prediction->num_memory};
    return true;
}

void pen_practice_init(struct pen_practice *practice, enum pen_target target,
                       enum pen_number number)
{
    bool is_mixed = number != PEN_NUMBER_F32;
    *practice = (struct pen_practice){
        .has_fused_attention = target != PEN_TARGET_PENSTOCK,
        .has_fused_gate = target != PEN_TARGET_DEEPSPEED,
        .has_fused_norm = true,
        .fuses_accumulation = target != PEN_TARGET_DEEPSPEED,
        .overlaps_gradients = true,
        .overlaps_parameters = true,
        .blocks_on_messages =
            target == PEN_TARGET_MEGATRON || target == PEN_TARGET_DEEPSPEED,
        .gradient_bytes = 4,
        .reduction_bytes = target == PEN_TARGET_DEEPSPEED && is_mixed ? 2 : 4,
        .optimizer_bytes = is_mixed ? 12 : 8,
        .overhead_bytes = 2.5e9,
        .memory_holes = 0.2};
    if (target == PEN_TARGET_TORCHTITAN) {
        practice->recomputes_twice = true;
        practice->selects_products = true;
        practice->gathers_once = true;
        practice->memory_holes = 0; /* its segments grow where they are */
    }
}
