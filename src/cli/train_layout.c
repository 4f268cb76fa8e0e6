#include "cli/train_layout.h"

#include "planner/compute.h"
#include "schedule/generators.h"
#include "schedule/verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a plan ---- */

/* What a rank of this runtime cannot do is refused, not ignored. */
static pen_status check_degrees(const struct pen_plan *plan,
                                struct pen_text *why)
{
    static const struct {
        enum pen_degree degree;
        const char *name;
    } missing[] = {
        {PEN_DEGREE_TP, "tp"}, {PEN_DEGREE_CP, "cp"}, {PEN_DEGREE_EP, "ep"}};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        if (plan->degrees[missing[i].degree] > 1) {
            pen_why(why,
                    "the plan has %s %u: training here does not share tensors, "
                    "sequences or experts; plan with %s 1, or export it",
                    missing[i].name, plan->degrees[missing[i].degree],
                    missing[i].name);
            return PEN_INVALID;
        }
    return PEN_OK;
}

/* What was opened before the plan was read must be what it says. */
static pen_status check_workload(const struct pen_plan *plan,
                                 const struct pen__train_args *args,
                                 uint32_t sequence, struct pen_text *why)
{
    if (plan->sequence != sequence) {
        pen_why(why, "%s is for sequences of %u tokens: give --seq-length %u",
                args->plan, plan->sequence, plan->sequence);
        return PEN_INVALID;
    }
    if (plan->is_bf16 != args->is_bf16) {
        pen_why(why, "%s is for %s: %s --bf16", args->plan,
                plan->is_bf16 ? "bf16" : "f32",
                plan->is_bf16 ? "give" : "leave out");
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* A plan overrides the options that it has its own word for. */
static void take_plan(struct pen__train_args *args, const struct pen_plan *plan)
{
    args->pipeline_size = plan->degrees[PEN_DEGREE_PP];
    args->chunks = plan->degrees[PEN_DEGREE_VPP];
    args->pipeline =
        plan->schedule.name != NULL ? plan->schedule.name : plan->schedule.file;
    args->is_sharded = plan->sharding == PEN_SHARDING_ZERO1;
    args->micro_batch_size = plan->micro_batch;
    args->global_batch_size = pen_plan_global_batch(plan);
    if (args->logical_replicas == 0)
        args->logical_replicas = plan->logical_replicas;
}

static pen_status open_plan(struct pen__train_layout *layout,
                            struct pen__train_args *args,
                            const struct pen_model *model, uint32_t sequence,
                            uint32_t num_ranks, struct pen_text *why)
{
    if (args->plan == NULL)
        return PEN_OK;
    pen_status status = pen_plan_load(args->plan, &layout->plan, why);
    if (status == PEN_OK)
        status = pen_plan_fits(layout->plan, model, why);
    if (status == PEN_OK)
        status = check_degrees(layout->plan, why);
    if (status == PEN_OK)
        status = check_workload(layout->plan, args, sequence, why);
    if (status != PEN_OK)
        return status;
    if (pen_plan_num_ranks(layout->plan) != num_ranks) {
        pen_why(why, "%s is for %" PRIu64 " ranks, these are %u", args->plan,
                pen_plan_num_ranks(layout->plan), num_ranks);
        return PEN_INVALID;
    }
    take_plan(args, layout->plan);
    return PEN_OK;
}

/* ---- the schedule ---- */

static const char *default_schedule(const struct pen__train_args *args)
{
    return args->chunks > 1 ? "interleaved" : "1f1b";
}

static bool names_a_file(const char *text)
{
    return strchr(text, '.') != NULL || strchr(text, '/') != NULL;
}

/* A file may hold compute ops only. */
static pen_status load_schedule(const char *path, struct pen_schedule **out,
                                struct pen_text *why)
{
    struct pen_schedule *loaded;
    pen_status status = pen_schedule_load(path, &loaded, why);
    if (status != PEN_OK)
        return status;
    if (pen_schedule_has_class(loaded, PEN_OP_CLASS_SYNC)) {
        *out = loaded;
        return PEN_OK;
    }
    status = pen_schedule_lower(loaded, out, why);
    pen_schedule_free(loaded);
    return status;
}

static pen_status find_generator(const char *name,
                                 const struct pen_generator **out,
                                 struct pen_text *why)
{
    *out = pen_generator_find(name);
    if (*out != NULL)
        return PEN_OK;
    pen_why(why,
            "--schedule %s is neither a schedule that `penstock schedule list` "
            "has nor a file",
            name);
    return PEN_INVALID;
}

static pen_status make_schedule(const struct pen__train_args *args,
                                const struct pen_plan *plan,
                                uint32_t num_replicas,
                                const struct pen_costs *costs,
                                struct pen_schedule **out, struct pen_text *why)
{
    const struct pen_generator *generator;
    const char *name =
        args->pipeline != NULL ? args->pipeline : default_schedule(args);
    if (names_a_file(name))
        return load_schedule(name, out, why);
    pen_status status = find_generator(name, &generator, why);
    if (status != PEN_OK)
        return status;
    struct pen_generator_args wanted = {
        .ranks = (uint32_t)args->pipeline_size,
        .microbatches = (uint32_t)(args->global_batch_size /
                                   args->micro_batch_size / num_replicas),
        .chunks = generator->has_chunks ? (uint32_t)args->chunks : 0,
        .slices = 1,
        .costs = costs};
    if (plan != NULL) {
        wanted.slices = plan->schedule.slices > 0 ? plan->schedule.slices : 1;
        wanted.warmup = plan->schedule.warmup;
        wanted.memory_limit = plan->schedule.memory_limit;
        wanted.has_vertical_sync = plan->schedule.has_vertical_sync;
    }
    return pen_generator_make(generator, &wanted, out, why);
}

/* ---- the split ---- */

static pen_status split_layers(struct pen__train_layout *layout,
                               const struct pen__train_args *args,
                               const struct pen_compute *compute,
                               struct pen_text *why)
{
    const struct pen_shape *shape = &layout->schedule->shape;
    uint32_t num_parts = pen_shape_parts(shape);
    layout->parts = calloc(num_parts, sizeof *layout->parts);
    if (layout->parts == NULL)
        return PEN_NOMEM;
    if (layout->plan == NULL)
        return pen_compute_cut(compute, (enum pen_recompute)args->recompute,
                               shape->num_microbatches, layout->parts,
                               num_parts, why);
    if (layout->plan->num_stages != num_parts) {
        pen_why(why, "the plan has %u stages, its schedule %u",
                layout->plan->num_stages, num_parts);
        return PEN_INVALID;
    }
    memcpy(layout->parts, layout->plan->stages,
           num_parts * sizeof *layout->parts);
    return PEN_OK;
}

/* ---- the prediction ---- */

/* Waiting as a share of all ranks' time. */
static double idle_share(const struct pen_timing *timing)
{
    double busy = 0;
    for (uint32_t i = 0; i < timing->num_ranks; i++)
        busy += timing->ranks[i].busy_sec;
    return 1 - busy / (timing->makespan_sec * timing->num_ranks);
}

/* Every operation of every stage takes as long as it sleeps. */
static pen_status sleeping_costs(const struct pen_shape *shape,
                                 int64_t sleep_ns, struct pen_costs *out)
{
    uint32_t count = pen_shape_parts(shape);
    double sec = 1e-9 * (double)sleep_ns;
    pen_costs_init(out);
    out->items = calloc(count, sizeof *out->items);
    if (out->items == NULL)
        return PEN_NOMEM;
    out->scope = PEN_COST_PER_STAGE;
    out->num_items = count;
    for (uint32_t i = 0; i < count; i++)
        out->items[i] = (struct pen_cost){.forward_sec = sec,
                                          .input_sec = sec,
                                          .weight_sec = sec,
                                          .recompute_sec = 0,
                                          .pair_sec = -1,
                                          .memory = -1};
    return PEN_OK;
}

/* A prediction that fails leaves none: the trainer verifies the schedule. */
static void predict(struct pen__train_layout *layout,
                    const struct pen_compute *compute, int64_t sleep_ns)
{
    const struct pen_schedule *schedule = layout->schedule;
    const struct pen_shape *shape = &schedule->shape;
    struct pen_text unused = PEN_TEXT_EMPTY;
    struct pen_timing *timing = NULL;
    struct pen_time_options options = {0};
    pen_status status =
        sleep_ns > 0
            ? sleeping_costs(shape, sleep_ns, &layout->costs)
            : pen_compute_costs(compute, layout->parts, pen_shape_parts(shape),
                                shape->num_ranks,
                                pen_compute_has_whole_backward(schedule),
                                &layout->costs, &unused);
    layout->has_costs = status == PEN_OK;
    if (layout->has_costs &&
        pen_schedule_verify(schedule, NULL, NULL, &unused) == PEN_OK &&
        pen_schedule_time(schedule, &layout->costs, &options, &timing,
                          &unused) == PEN_OK) {
        layout->predicted_bubble = idle_share(timing);
        layout->predicted_sec = timing->makespan_sec;
    }
    if (compute->profile == NULL && sleep_ns == 0) {
        layout->predicted_sec = (double)NAN; /* of no real machine */
        if (layout->has_costs)
            pen_costs_release(&layout->costs);
        layout->has_costs = false;
    }
    pen_timing_free(timing);
    pen_text_release(&unused);
}

/* ---- all together ---- */

static pen_status check_ranks(const struct pen__train_args *args,
                              uint32_t num_ranks, struct pen_text *why)
{
    if (num_ranks % args->pipeline_size == 0)
        return PEN_OK;
    pen_why(why,
            "%u ranks are not a multiple of --pipeline-model-parallel-size "
            "%" PRIu64,
            num_ranks, args->pipeline_size);
    return PEN_INVALID;
}

static pen_status check_batch(const struct pen__train_args *args,
                              uint32_t num_replicas, struct pen_text *why)
{
    uint64_t unit = args->micro_batch_size * num_replicas;
    if (args->global_batch_size % unit == 0)
        return PEN_OK;
    pen_why(why,
            "--global-batch-size %" PRIu64 " is not a multiple of "
            "--micro-batch-size %" PRIu64 " times %u replicas of the pipeline",
            args->global_batch_size, args->micro_batch_size, num_replicas);
    return PEN_INVALID;
}

static pen_status make(struct pen__train_layout *layout,
                       const struct pen__train_args *args,
                       const struct pen_compute *compute, uint32_t num_ranks,
                       struct pen_text *why)
{
    struct pen_costs costs;
    pen_status status = check_ranks(args, num_ranks, why);
    uint32_t num_replicas = num_ranks / (uint32_t)args->pipeline_size;
    if (status == PEN_OK)
        status = check_batch(args, num_replicas, why);
    if (status == PEN_OK)
        status = pen_compute_check(compute, (enum pen_recompute)args->recompute,
                                   why);
    if (status != PEN_OK)
        return status;
    pen_costs_init(&costs);
    status = make_schedule(args, layout->plan, num_replicas, &costs,
                           &layout->schedule, why);
    pen_costs_release(&costs);
    if (status == PEN_OK)
        status = split_layers(layout, args, compute, why);
    if (status == PEN_OK)
        predict(layout, compute, args->sleep_ns);
    return status;
}

pen_status pen__train_layout_init(struct pen__train_layout *layout,
                                  struct pen__train_args *args,
                                  const struct pen_any_model *model,
                                  uint32_t sequence, uint32_t num_ranks,
                                  struct pen_text *why)
{
    struct pen_profile *profile = NULL;
    *layout = (struct pen__train_layout){.predicted_bubble = (double)NAN,
                                         .predicted_sec = (double)NAN};
    if (model->decoder == NULL) /* the trainer has its own way for one rank */
        return PEN_OK;
    pen_status status =
        open_plan(layout, args, model->decoder, sequence, num_ranks, why);
    if (status == PEN_OK && args->profile != NULL)
        status = pen_profile_load(args->profile, &profile, why);
    struct pen_compute compute = {
        .model = model->decoder,
        .profile = profile,
        .micro_batch = (uint32_t)args->micro_batch_size,
        .sequence = sequence,
        .is_bf16 = args->is_bf16,
        .optimizer = args->numbers.kind == PEN_OPTIMIZER_ADAM ? PEN_UPDATE_ADAM
                                                              : PEN_UPDATE_SGD};
    if (status == PEN_OK)
        status = make(layout, args, &compute, num_ranks, why);
    pen_profile_free(profile);
    if (status != PEN_OK)
        pen__train_layout_release(layout);
    return status;
}

void pen__train_layout_release(struct pen__train_layout *layout)
{
    pen_schedule_free(layout->schedule);
    free(layout->parts);
    pen_plan_free(layout->plan);
    if (layout->has_costs)
        pen_costs_release(&layout->costs);
    *layout = (struct pen__train_layout){0};
}
