#include "planner/cut.h"

#include "planner/chain_cut.h"
#include "planner/layer_class.h"
#include "planner/memo.h"
#include "planner/operations.h"
#include "planner/partition.h"
#include "planner/rank_devices.h"
#include "schedule/generators.h"

#include <stdlib.h>

/*
 * Up to this number of layers pen_partition() is quick; it makes the more even
 * stages.
 */
#define FEW_LAYERS 256u

struct work {
    const struct pen_setting *setting;
    struct pen_plan *plan;
    struct pen_shape shape;
    struct pen__layer_classes classes;
    uint32_t *groups;   /* per part: the slowest of its devices */
    uint32_t *rows;     /* per part: its row of the sums */
    double *sums;       /* per group in use: seconds of the layers before */
    double *bytes;      /* of the layers before */
    double *limits;     /* per part, in the same bytes */
    uint32_t *ranks;    /* per stage of all copies */
    double *held;       /* per rank: bytes of its layers so far */
    uint32_t *num_held; /* per rank: parts */
    uint64_t *memory;   /* per rank: what its devices offer */
    uint32_t *counts;   /* per part: layers, the result */
    uint32_t num_rows;
};

static void release(struct work *work)
{
    free(work->groups);
    free(work->rows);
    free(work->sums);
    free(work->bytes);
    free(work->limits);
    free(work->ranks);
    free(work->held);
    free(work->num_held);
    free(work->memory);
    free(work->counts);
}

static struct pen_shape shape_of(const struct pen_plan *plan)
{
    const struct pen_generator *generator =
        plan->schedule.name == NULL ? NULL
                                    : pen_generator_find(plan->schedule.name);
    struct pen_shape shape = {.placement = PEN_PLACEMENT_LOOP,
                              .num_ranks = plan->degrees[PEN_DEGREE_PP],
                              .num_stages = plan->num_stages,
                              .num_copies = 1,
                              .num_microbatches = plan->num_microbatches,
                              .num_slices = 1};
    if (plan->num_stages == shape.num_ranks)
        shape.placement = PEN_PLACEMENT_LINEAR;
    struct pen_shape other = shape;
    if (generator == NULL)
        return shape;
    other.placement = generator->placement;
    if (other.placement == PEN_PLACEMENT_BIDIRECTIONAL ||
        other.placement == PEN_PLACEMENT_BIDIRECTIONAL_V) {
        other.num_copies = 2;
        other.num_stages *= 2;
        other.num_microbatches *= 2;
    }
    return pen_shape_check(&other, NULL) == PEN_OK ? other : shape;
}

static bool allocate(struct work *work)
{
    size_t num_parts = work->plan->num_stages;
    work->groups = calloc(num_parts, sizeof *work->groups);
    work->rows = calloc(num_parts, sizeof *work->rows);
    work->limits = calloc(num_parts, sizeof *work->limits);
    work->counts = calloc(num_parts, sizeof *work->counts);
    work->ranks = calloc(work->shape.num_stages, sizeof *work->ranks);
    work->held = calloc(work->shape.num_ranks, sizeof *work->held);
    work->num_held = calloc(work->shape.num_ranks, sizeof *work->num_held);
    work->memory = calloc(work->shape.num_ranks, sizeof *work->memory);
    work->bytes = calloc((size_t)work->setting->model->num_layers + 1,
                         sizeof *work->bytes);
    return work->groups != NULL && work->rows != NULL && work->limits != NULL &&
           work->counts != NULL && work->ranks != NULL && work->held != NULL &&
           work->num_held != NULL && work->memory != NULL &&
           work->bytes != NULL;
}

static double flops_of(const struct work *work, uint32_t group)
{
    const struct pen_setting *setting = work->setting;
    return pen_device_peak(&setting->cluster->groups[group].device,
                           setting->number);
}

/* The groups of the parts: of several copies the slowest counts. */
static void find_groups(struct work *work)
{
    uint32_t num_parts = pen_shape_parts(&work->shape);
    for (uint32_t stage = 0; stage < work->shape.num_stages; stage++) {
        uint32_t part = stage % num_parts;
        uint32_t rank = pen_shape_rank_of(&work->shape, stage);
        work->ranks[stage] = rank;
        struct pen__rank_devices devices =
            pen__devices_of(work->setting, work->plan, rank);
        uint32_t group = devices.slowest;
        work->memory[rank] = devices.memory_bytes;
        if (stage < num_parts ||
            flops_of(work, group) < flops_of(work, work->groups[part]))
            work->groups[part] = group;
    }
}

/* Numbers the groups in use, with each mode of recomputation. */
static void find_rows(struct work *work)
{
    const struct pen_layer_range *stages = work->plan->stages;
    for (uint32_t part = 0; part < work->plan->num_stages; part++) {
        uint32_t other = 0;
        while (work->groups[other] != work->groups[part] ||
               stages[other].recompute != stages[part].recompute)
            other++;
        work->rows[part] = other < part ? work->rows[other] : work->num_rows++;
    }
}

static bool fill_sums(struct work *work)
{
    const struct pen_model *model = work->setting->model;
    size_t width = (size_t)model->num_layers + 1;
    work->sums = calloc(width * work->num_rows, sizeof *work->sums);
    if (work->sums == NULL)
        return false;
    uint32_t next = 0;
    for (uint32_t part = 0; part < work->plan->num_stages; part++) {
        if (work->rows[part] != next)
            continue;
        struct pen__class_costs costs;
        double *row = &work->sums[width * next++];
        pen__class_costs_find(work->setting, work->plan, work->groups[part],
                              work->plan->stages[part].recompute,
                              &work->classes, &costs);
        for (uint32_t layer = 0; layer < model->num_layers; layer++)
            row[layer + 1] =
                row[layer] + costs.seconds[pen__layer_class(model, layer)];
    }
    return true;
}

/*
 * Bytes of the layers before each one, as if as many micro-batches were under
 * way as there are ranks; what a rank really holds scales them.
 */
static void fill_bytes(struct work *work, enum pen_recompute recompute)
{
    const struct pen_plan *plan = work->plan;
    const struct pen_model *model = work->setting->model;
    struct pen__class_costs costs;
    pen__class_costs_find(work->setting, plan, work->groups[0], recompute,
                          &work->classes, &costs);
    double per_parameter = pen__parameter_bytes(
        work->setting, &plan->recipe, plan->sharding,
        (double)plan->degrees[PEN_DEGREE_DP] * plan->degrees[PEN_DEGREE_CP]);
    uint32_t pp = plan->degrees[PEN_DEGREE_PP];
    double in_flight =
        plan->num_microbatches < pp ? plan->num_microbatches : pp;
    for (uint32_t layer = 0; layer < model->num_layers; layer++) {
        const struct pen_layer_bytes *bytes =
            &costs.bytes[pen__layer_class(model, layer)];
        work->bytes[layer + 1] = work->bytes[layer] +
                                 (double)bytes->num_parameters * per_parameter +
                                 (double)bytes->stash_bytes * in_flight;
    }
}

/* Bytes that a rank holds whatever its layers are. */
static double fixed_bytes(const struct pen_plan_memory *memory)
{
    return (double)memory->bytes[PEN_MEMORY_OVERHEAD] +
           (double)memory->bytes[PEN_MEMORY_LOSS] +
           (double)memory->bytes[PEN_MEMORY_BUFFERS];
}

static void sum_held(struct work *work)
{
    uint32_t num_parts = pen_shape_parts(&work->shape);
    for (uint32_t stage = 0; stage < work->shape.num_stages; stage++) {
        const struct pen_layer_range *range =
            &work->plan->stages[stage % num_parts];
        uint32_t rank = work->ranks[stage];
        work->held[rank] += work->bytes[range->first + range->count] -
                            work->bytes[range->first];
        work->num_held[rank]++;
    }
}

/* The most bytes of each part of a rank, from its predicted memory. */
static double limit_of(const struct work *work, uint32_t rank,
                       const struct pen_prediction *predicted)
{
    const struct pen_plan_memory *memory = &predicted->memory[rank];
    double fixed = fixed_bytes(memory);
    /* A plan fits if it does even where the prediction is off. */
    double room =
        (double)work->memory[rank] / (1 + predicted->memory_margin) - fixed;
    double used = (double)pen_plan_memory_bytes(memory) - fixed;
    return used > 0 ? room * work->held[rank] / used / work->num_held[rank] : 0;
}

static void fill_limits(struct work *work,
                        const struct pen_prediction *predicted)
{
    uint32_t num_parts = pen_shape_parts(&work->shape);
    sum_held(work);
    for (uint32_t stage = 0; stage < work->shape.num_stages; stage++) {
        uint32_t rank = work->ranks[stage];
        double limit = limit_of(work, rank, predicted);
        uint32_t part = stage % num_parts;
        if (stage < num_parts || limit < work->limits[part])
            work->limits[part] = limit;
    }
}

/* Cuts with pen_partition(), which takes a cost per layer. */
static pen_status cut_evenly(struct work *work, bool is_limited,
                             struct pen_text *why)
{
    uint32_t num_layers = work->setting->model->num_layers;
    uint32_t num_parts = work->plan->num_stages;
    double costs[FEW_LAYERS];
    uint64_t bytes[FEW_LAYERS];
    uint64_t *limits = calloc(num_parts, sizeof *limits);
    if (limits == NULL) {
        pen_why(why, "no memory to cut %u layers", num_layers);
        return PEN_NOMEM;
    }
    for (uint32_t i = 0; i < num_layers; i++) {
        costs[i] = work->sums[i + 1] - work->sums[i];
        bytes[i] = (uint64_t)(work->bytes[i + 1] - work->bytes[i]);
    }
    for (uint32_t part = 0; part < num_parts; part++)
        limits[part] =
            work->limits[part] > 0 ? (uint64_t)work->limits[part] : 0;
    const struct pen_partition_problem problem = {
        .costs = costs,
        .num_layers = num_layers,
        .num_parts = num_parts,
        .bytes = is_limited ? bytes : NULL,
        .limits = is_limited ? limits : NULL};
    pen_status status = pen_partition(&problem, work->counts, why);
    free(limits);
    return status;
}

static pen_status cut(struct work *work, bool is_limited, struct pen_text *why)
{
    uint32_t num_layers = work->setting->model->num_layers;
    if (work->num_rows == 1 && num_layers <= FEW_LAYERS)
        return cut_evenly(work, is_limited, why);
    const struct pen__chain_cut chain = {.num_layers = num_layers,
                                         .num_parts = work->plan->num_stages,
                                         .sums = work->sums,
                                         .rows = work->rows,
                                         .bytes =
                                             is_limited ? work->bytes : NULL,
                                         .limits = work->limits};
    return pen__chain_cut(&chain, work->counts, why);
}

static void store_stage(struct pen_plan *plan, uint32_t stage, uint32_t count)
{
    uint32_t first = 0;
    if (stage > 0)
        first = plan->stages[stage - 1].first + plan->stages[stage - 1].count;
    plan->stages[stage].first = first;
    plan->stages[stage].count = count;
}

/* Cuts with the recomputation that each stage of the plan has. */
static pen_status run(const struct pen_setting *setting, struct pen_plan *plan,
                      const struct pen_prediction *predicted,
                      struct pen_text *why)
{
    struct work work = {
        .setting = setting, .plan = plan, .shape = shape_of(plan)};
    pen_status status = PEN_NOMEM;
    pen__layer_classes_find(setting->model, &work.classes);
    if (allocate(&work)) {
        find_groups(&work);
        find_rows(&work);
        if (fill_sums(&work))
            status = PEN_OK;
    }
    if (status != PEN_OK)
        pen_why(why, "no memory to cut %u layers", setting->model->num_layers);
    if (status == PEN_OK && predicted != NULL) {
        fill_bytes(&work, plan->stages[0].recompute);
        fill_limits(&work, predicted);
    }
    if (status == PEN_OK)
        status = cut(&work, predicted != NULL, why);
    if (status == PEN_OK)
        for (uint32_t i = 0; i < plan->num_stages; i++)
            store_stage(plan, i, work.counts[i]);
    release(&work);
    return status;
}

pen_status pen_cut(const struct pen_setting *setting, struct pen_plan *plan,
                   enum pen_recompute recompute, struct pen_text *why)
{
    const uint16_t *counts = pen__cut_recall(setting, plan, recompute);
    for (uint32_t i = 0; i < plan->num_stages; i++)
        plan->stages[i].recompute = recompute;
    if (counts != NULL) {
        for (uint32_t i = 0; i < plan->num_stages; i++)
            store_stage(plan, i, counts[i]);
        return PEN_OK;
    }
    pen_status status = run(setting, plan, NULL, why);
    if (status == PEN_OK)
        pen__cut_keep(setting, plan, recompute);
    return status;
}

pen_status pen_cut_to_fit(const struct pen_setting *setting,
                          struct pen_plan *plan,
                          const struct pen_prediction *predicted,
                          struct pen_text *why)
{
    return run(setting, plan, predicted, why);
}

pen_status pen_cut_by_stage(const struct pen_setting *setting,
                            struct pen_plan *plan, struct pen_text *why)
{
    return run(setting, plan, NULL, why);
}
