#include "cli/train/layout.h"

#include "cli/train/recompute.h"
#include "cli/train/sizes.h"
#include "cli/train/sleeping.h"
#include "planner/compute.h"
#include "schedule/generators.h"
#include "schedule/restrictions.h"
#include "schedule/verify.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a plan ---- */

/* Refuses a plan that this runtime cannot execute. */
static pen_status check_restrictions(const struct pen_plan *plan,
                                     const struct pen__train_args *args,
                                     struct pen_text *why)
{
    struct pen_training_facts facts = {.sharding = plan->sharding,
                                       .number = plan->number};
    struct pen_recipe other = plan->recipe;
    other.modules &= ~PEN_TRAINED_MODULES;
    if (other.optimizer == PEN_OPTIMIZER_MUON) {
        other.optimizer = PEN_OPTIMIZER_ADAM;
        if (args->numbers.kind != PEN_STEP_RULE_MUON) {
            pen_why(why, "%s is for Muon: give --optimizer muon", args->plan);
            return PEN_INVALID;
        }
    }
    const char *missing = plan->expert_tp != 0           ? "expert_tp"
                          : !pen_recipe_is_plain(&other) ? "a recipe"
                                                         : NULL;
    if (missing != NULL) {
        pen_why(why,
                "the plan has %s, which penstock train does not carry out; "
                "export it (penstock export), or plan with --target penstock",
                missing);
        return PEN_INVALID;
    }
    memcpy(facts.degrees, plan->degrees, sizeof facts.degrees);
    facts.degrees[PEN_DEGREE_TP] = 1; /* checked as --tp is; see prepare.c */
    return pen_restrictions_check(&facts, PEN_REASON_AND_REMEDY, why);
}

/* The plan must agree with what was opened before it was read. */
static pen_status check_workload(const struct pen_plan *plan,
                                 const struct pen__train_args *args,
                                 uint32_t sequence, struct pen_text *why)
{
    if (plan->sequence != sequence) {
        pen_why(why, "%s is for sequences of %u tokens: give --seq-length %u",
                args->plan, plan->sequence, plan->sequence);
        return PEN_INVALID;
    }
    enum pen_number number = args->is_bf16 ? PEN_NUMBER_BF16 : PEN_NUMBER_F32;
    if (plan->number != number) {
        pen_why(why, "%s is for %s: %s --bf16", args->plan,
                pen_number_names[plan->number],
                plan->number == PEN_NUMBER_BF16 ? "give" : "leave out");
        return PEN_INVALID;
    }
    return PEN_OK;
}

/* A plan overrides the options that it has its own word for. */
static void take_plan(struct pen__train_args *args, const struct pen_plan *plan)
{
    args->pipeline_size = plan->degrees[PEN_DEGREE_PP];
    args->tensor_size = plan->degrees[PEN_DEGREE_TP];
    args->context_size = plan->degrees[PEN_DEGREE_CP];
    args->expert_size = plan->degrees[PEN_DEGREE_EP];
    if (plan->has_sequence_parallel)
        args->is_sequence_parallel = true;
    args->chunks = plan->degrees[PEN_DEGREE_VPP];
    args->slices = 0;
    args->pipeline =
        plan->schedule.name != NULL ? plan->schedule.name : plan->schedule.file;
    args->sharding = plan->sharding;
    if (plan->sharding_group > 0)
        args->sharding_group = plan->sharding_group;
    args->micro_batch_size = plan->micro_batch;
    args->modules = plan->recipe.modules;
    args->global_batch_size = pen_plan_global_batch(plan);
    args->replica_batch = args->global_batch_size;
    if (args->logical_replicas == 0)
        args->logical_replicas = plan->logical_replicas;
}

static pen_status open_plan(struct pen__train_layout *layout,
                            struct pen__train_args *args,
                            const struct pen_model *model, uint32_t sequence,
                            struct pen_text *why)
{
    if (args->plan == NULL)
        return PEN_OK;
    pen_status status = pen_plan_load(args->plan, &layout->plan, why);
    if (status == PEN_OK)
        status = pen_plan_fits(layout->plan, model, why);
    if (status == PEN_OK)
        status = check_restrictions(layout->plan, args, why);
    if (status == PEN_OK)
        status = check_workload(layout->plan, args, sequence, why);
    if (status != PEN_OK)
        return status;
    uint64_t planned = pen_plan_num_ranks(layout->plan);
    bool is_rehearsed = args->is_check && layout->num_ranks == 1;
    bool is_smaller = planned < layout->num_ranks && args->moves.count > 0;
    if (planned > UINT32_MAX ||
        (planned != layout->num_ranks && !is_smaller && !is_rehearsed)) {
        pen_why(why,
                "%s is for %" PRIu64 " ranks, but this job has %u; start it "
                "with mpirun -n %" PRIu64,
                args->plan, planned, layout->num_ranks, planned);
        return PEN_INVALID;
    }
    layout->num_ranks = (uint32_t)planned;
    take_plan(args, layout->plan);
    return PEN_OK;
}

/* ---- the schedule ---- */

static const char *default_schedule(const struct pen__train_args *args)
{
    return args->slices > 1                                     ? "seq1f1b"
           : args->chunks > 1                                   ? "interleaved"
           : args->local_updates > 1 && args->pipeline_size > 1 ? "local"
                                                                : "1f1b";
}

static pen_status find_generator(const char *name,
                                 const struct pen_generator **out,
                                 struct pen_text *why)
{
    *out = pen_generator_find(name);
    if (*out != NULL)
        return PEN_OK;
    pen_why(why,
            "--schedule %s is neither a name from `penstock schedule list` "
            "nor a file",
            name);
    return PEN_INVALID;
}

/* Micro-batches of a step in the replica of this rank. */
static uint32_t num_microbatches(const struct pen__train_layout *layout,
                                 const struct pen__train_args *args)
{
    uint64_t count = args->replica_batch / args->micro_batch_size;
    if (layout->num_shares == 0)
        return (uint32_t)(count / pen_mesh_num_groups(&layout->mesh));
    uint32_t replica = args->rank < layout->num_ranks
                           ? pen_mesh_replica(&layout->mesh, args->rank)
                           : 0;
    return (uint32_t)(count / layout->num_logical * layout->shares[replica]);
}

/* Refuses --slices that the schedule, or its file, does not have. */
static pen_status check_slices(const struct pen__train_args *args,
                               const char *name,
                               const struct pen_generator *generator,
                               const struct pen_schedule *file,
                               struct pen_text *why)
{
    if (args->slices == 0)
        return PEN_OK;
    if (file != NULL && file->shape.num_slices != args->slices) {
        pen_why(why,
                "--slices %" PRIu64 ": the schedule in %s has %u; leave the "
                "option out",
                args->slices, name, file->shape.num_slices);
        return PEN_INVALID;
    }
    if (generator != NULL && !generator->has_slices && args->slices > 1) {
        pen_why(why,
                "--slices %" PRIu64 " is for --schedule seq1f1b, not for %s; "
                "leave one of them out",
                args->slices, name);
        return PEN_INVALID;
    }
    return PEN_OK;
}

static const char *schedule_name(const struct pen__train_args *args)
{
    return args->pipeline != NULL ? args->pipeline : default_schedule(args);
}

static pen_status load_schedule(const struct pen__train_args *args,
                                const char *path, struct pen_schedule **out,
                                struct pen_text *why)
{
    struct pen_schedule *made;
    pen_status status = pen_schedule_load_lowered(path, &made, NULL, why);
    if (status != PEN_OK)
        return status;
    status = check_slices(args, path, NULL, made, why);
    if (status == PEN_OK)
        *out = made;
    else
        pen_schedule_free(made);
    return status;
}

/* Generates the schedule; `batches` is for those whose steps overlap. */
static pen_status generate_schedule(const struct pen__train_args *args,
                                    const struct pen_plan *plan,
                                    uint32_t microbatches, uint32_t batches,
                                    struct pen_schedule **out,
                                    struct pen_text *why)
{
    const struct pen_generator *generator;
    struct pen_costs costs;
    const char *name = schedule_name(args);
    if (pen__train_schedule_is_file(name))
        return load_schedule(args, name, out, why);
    pen_status status = find_generator(name, &generator, why);
    if (status == PEN_OK)
        status = check_slices(args, name, generator, NULL, why);
    if (status != PEN_OK)
        return status;
    pen_costs_init(&costs);
    struct pen_generator_args wanted = {
        .ranks = (uint32_t)args->pipeline_size,
        .microbatches = microbatches,
        .batches = batches,
        .chunks = generator->has_chunks ? (uint32_t)args->chunks : 0,
        .slices = args->slices > 1 ? (uint32_t)args->slices : 1,
        .replicas = args->num_replicated > 0 ? args->replicas : NULL,
        .num_replicated = args->num_replicated,
        .costs = &costs};
    if (plan != NULL) {
        wanted.slices = plan->schedule.slices;
        wanted.warmup = plan->schedule.warmup;
        wanted.memory_limit = plan->schedule.memory_limit;
        wanted.has_vertical_sync = plan->schedule.has_vertical_sync;
    }
    if (wanted.replicas != NULL && !generator->has_replicas) {
        pen_why(why,
                "--stage-replicas %s is for --schedule 1f1b, not for %s; leave "
                "one of them out",
                args->replicas_text, name);
        status = PEN_INVALID;
    }
    if (status == PEN_OK)
        status = pen_generator_make(generator, &wanted, out, why);
    pen_costs_release(&costs);
    return status;
}

/*
 * Steps that overlap wait for each other where a norm or a tied matrix belongs
 * to all stages. Where the schedule cannot do that the trainer says so, in the
 * words of the option.
 */
static pen_status join_steps(struct pen_schedule **schedule)
{
    struct pen_schedule *joint = NULL;
    const struct pen_rules *rules = &(*schedule)->rules;
    if (rules->period == 0 || rules->is_joint)
        return PEN_OK;
    pen_status status = pen_schedule_join_steps(*schedule, &joint, NULL);
    if (status == PEN_OK) {
        pen_schedule_free(*schedule);
        *schedule = joint;
    }
    return status == PEN_INVALID ? PEN_OK : status;
}

static pen_status make_schedule(const struct pen__train_layout *layout,
                                const struct pen__train_args *args,
                                uint32_t batches, struct pen_schedule **out,
                                struct pen_text *why)
{
    struct pen_schedule *made = NULL;
    pen_status status =
        generate_schedule(args, layout->plan, num_microbatches(layout, args),
                          batches, &made, why);
    bool is_clipped = isnan(args->numbers.clip_norm) /* if that can be */ ||
                      args->numbers.clip_norm > 0;
    if (status == PEN_OK && (is_clipped || layout->is_tied))
        status = join_steps(&made);
    if (status == PEN_OK)
        *out = made;
    else
        pen_schedule_free(made);
    return status;
}

/* ---- passes of several steps ---- */

/* Micro-batches of a pass, at most, so that its schedule stays small. */
#define MOST_MICROBATCHES ((uint64_t)1 << 16)
#define MOST_SHARES 4096u

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t until_multiple(uint64_t done, uint64_t interval)
{
    return interval == 0 ? UINT64_MAX : interval - done % interval;
}

/* Steps until the pipeline has to be empty, for a step that may overlap. */
static uint64_t until_stop(const struct pen__train_args *args, uint64_t done)
{
    uint64_t steps = args->train_iters - done;
    steps = smaller(steps, until_multiple(done, args->save_interval));
    return smaller(steps, until_multiple(done, args->eval_interval));
}

static uint64_t most_steps(const struct pen__train_layout *layout,
                           const struct pen__train_args *args)
{
    uint64_t most = MOST_MICROBATCHES / num_microbatches(layout, args);
    return smaller(until_stop(args, 0), most == 0 ? 1 : most);
}

static uint64_t steps_of(const struct pen_schedule *schedule)
{
    return schedule->shape.num_microbatches / schedule->shape.num_copies /
           schedule->rules.period;
}

/* Sets facts of the schedule that its name implies and its ops do not show. */
static void note_kind(struct pen__train_layout *layout)
{
    const struct pen_schedule *schedule = layout->schedule;
    const struct pen_generator *generator = pen_generator_find(schedule->name);
    uint32_t period = schedule->rules.period;
    layout->is_asynchronous = period != 0;
    if (period == 0)
        return;
    if (generator != NULL)
        layout->correction = generator->correction;
    layout->most_steps =
        schedule->shape.num_microbatches / schedule->shape.num_copies / period;
    layout->pass_steps = layout->most_steps;
    layout->overlapping_steps += (schedule->shape.num_ranks - 1) / period;
}

/*
 * Refuses a schedule file whose steps a checkpoint, an evaluation or the end
 * would cut.
 */
static pen_status check_file(const struct pen__train_layout *layout,
                             const struct pen__train_args *args, uint64_t steps,
                             struct pen_text *why)
{
    if (steps % layout->most_steps == 0)
        return PEN_OK;
    pen_why(why,
            "%s has %" PRIu64 " steps, but a checkpoint, an evaluation or the "
            "end of the training comes after %" PRIu64
            ": this must be a multiple",
            args->pipeline, layout->most_steps, steps);
    return PEN_INVALID;
}

/*
 * All schedules are kept: another thread, which observes, may still read them.
 */
static pen_status find_schedule(struct pen__train_layout *layout,
                                const struct pen__train_args *args,
                                uint64_t steps, const struct pen_schedule **out,
                                struct pen_text *why)
{
    struct pen_schedule *made;
    *out = layout->schedule;
    if (steps == layout->most_steps)
        return PEN_OK;
    for (size_t i = 0; i < layout->num_shorter; i++)
        if (steps_of(layout->shorter[i]) == steps) {
            *out = layout->shorter[i];
            return PEN_OK;
        }
    struct pen_schedule **grown =
        realloc(layout->shorter, (layout->num_shorter + 1) * sizeof *grown);
    if (grown == NULL)
        return PEN_NOMEM;
    layout->shorter = grown;
    pen_status status =
        make_schedule(layout, args, (uint32_t)steps, &made, why);
    if (status == PEN_OK)
        *out = layout->shorter[layout->num_shorter++] = made;
    return status;
}

pen_status pen__train_layout_set_pass(struct pen__train_layout *layout,
                                      const struct pen__train_args *args,
                                      uint64_t done,
                                      const struct pen_schedule **out,
                                      struct pen_text *why)
{
    *out = NULL;
    if (!layout->is_asynchronous)
        return PEN_OK;
    uint64_t steps =
        done < args->cures.stale_after ? 1 : until_stop(args, done);
    if (pen__train_schedule_is_file(schedule_name(args)))
        return check_file(layout, args, steps, why);
    steps = smaller(steps, layout->most_steps);
    if (steps == layout->pass_steps)
        return PEN_OK;
    layout->pass_steps = steps;
    return find_schedule(layout, args, steps, out, why);
}

static pen_status check_cures(const struct pen__train_layout *layout,
                              const struct pen__train_args *args,
                              struct pen_text *why)
{
    const struct pen_cures *cures = &args->cures;
    const char *option =
        cures->stale_after > 0 ? "--stale-after" : "--stale-discount";
    bool is_file = pen__train_schedule_is_file(schedule_name(args));
    if ((cures->stale_after == 0 && cures->discount_steps == 0) ||
        (layout->is_asynchronous && !is_file))
        return PEN_OK;
    if (layout->is_asynchronous)
        pen_why(why,
                "%s: the file %s has steps of its own; give a --schedule by "
                "name",
                option, args->pipeline);
    else
        pen_why(why,
                "%s: steps of --schedule %s do not overlap; leave it out, or "
                "give --schedule pipedream-2bw",
                option, schedule_name(args));
    return PEN_INVALID;
}

/* ---- the split ---- */

/*
 * Micro-batches of a mean replica: all replicas cut the layers alike, whatever
 * their shares.
 */
static uint32_t mean_microbatches(const struct pen__train_layout *layout,
                                  const struct pen__train_args *args)
{
    uint64_t count = args->replica_batch / args->micro_batch_size;
    uint64_t mean = count / layout->num_shares;
    return mean == 0 ? 1 : (uint32_t)mean;
}

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
    if (layout->plan == NULL) {
        pen_status status = pen_compute_cut(
            compute, (enum pen_recompute)args->recompute,
            layout->num_shares == 0 ? shape->num_microbatches
                                    : mean_microbatches(layout, args),
            layout->parts, num_parts, why);
        if (status == PEN_OK && compute->images == NULL)
            status = pen__train_set_sections(compute->model, layout->parts,
                                             num_parts, why);
        if (status == PEN_OK)
            status = pen__train_set_layers(args, layout->parts, num_parts,
                                           compute->images != NULL
                                               ? compute->images->num_layers
                                               : compute->model->num_layers,
                                           why);
        return status == PEN_OK ? pen__train_recompute_set(args, layout->parts,
                                                           num_parts, why)
                                : status;
    }
    if (layout->plan->num_stages != num_parts) {
        pen_why(why, "the plan has %u stages, but its schedule has %u",
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
    return 1 - busy / (timing->step_sec * timing->num_ranks);
}

/*
 * Predicts the step, or nothing where that fails: the trainer verifies the
 * schedule.
 */
static void predict(struct pen__train_layout *layout,
                    const struct pen_compute *compute, int64_t sleep_ns)
{
    const struct pen_schedule *schedule = layout->schedule;
    const struct pen_shape *shape = &schedule->shape;
    struct pen_text unused = PEN_TEXT_EMPTY;
    struct pen_timing *timing = NULL;
    struct pen_time_options options = {0};
    /* A rank also waits inside layers, which is not part of a stage's costs. */
    bool has_bubble = layout->mesh.sizes[PEN_AXIS_CONTEXT] == 1 &&
                      layout->mesh.sizes[PEN_AXIS_TENSOR] == 1 &&
                      compute->expert_ranks <= 1;
    pen_status status =
        sleep_ns > 0
            ? pen__train_sleeping_costs(shape, sleep_ns, &layout->costs)
            : pen_compute_costs(compute, layout->parts, pen_shape_parts(shape),
                                shape->num_ranks,
                                pen_compute_has_whole_backward(schedule),
                                &layout->costs, &unused);
    layout->has_costs = status == PEN_OK;
    if (layout->has_costs &&
        pen_schedule_verify(schedule, NULL, NULL, &unused) == PEN_OK &&
        pen_schedule_time(schedule, &layout->costs, &options, &timing,
                          &unused) == PEN_OK) {
        if (has_bubble)
            layout->predicted_bubble = idle_share(timing);
        layout->predicted_sec = timing->step_sec;
        if (layout->is_asynchronous)
            layout->predicted_sec /= (double)layout->most_steps;
    }
    bool is_uneven = layout->num_shares > 0; /* and so are the machines */
    bool is_known = compute->profile != NULL || sleep_ns > 0;
    if (!is_known || is_uneven)
        layout->predicted_sec = (double)NAN;
    if (is_uneven)
        layout->predicted_bubble = (double)NAN;
    if (!is_known) { /* of no real machine */
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
    uint64_t tensor = args->tensor_size, context = args->context_size;
    if (num_ranks % (args->pipeline_size * tensor * context) == 0)
        return PEN_OK;
    pen_why(why,
            "%u ranks are not a multiple of --pipeline-model-parallel-size "
            "%" PRIu64,
            num_ranks, args->pipeline_size);
    if (tensor > 1)
        pen_why(why, " times --tensor-model-parallel-size %" PRIu64, tensor);
    if (context > 1)
        pen_why(why, " times --context-parallel-size %" PRIu64, context);
    return PEN_INVALID;
}

/*
 * Logical replicas are dealt out in proportion. Where those of the run are no
 * multiple of the shares, there are as many as shares.
 */
static pen_status take_shares(struct pen__train_layout *layout,
                              const struct pen__train_args *args,
                              struct pen_text *why)
{
    struct pen_text reason = PEN_TEXT_EMPTY;
    const char *text = args->replica_shares;
    uint32_t num_replicas = pen_mesh_num_replicas(&layout->mesh);
    uint64_t total = 0;
    if (text == NULL)
        return PEN_OK;
    pen_status status = pen_replicas_parse(text, strlen(text), layout->shares,
                                           &layout->num_shares, &reason);
    pen_text_release(&reason);
    for (uint32_t i = 0; i < layout->num_shares; i++)
        total += layout->shares[i];
    if (status != PEN_OK || total == 0 || total > MOST_SHARES) {
        pen_why(why,
                "--replica-shares %s: expected 2 to %u whole numbers with "
                "commas between them, as 3,1, whose sum is at most %u",
                text, PEN_MAX_REPLICATED, MOST_SHARES);
        return PEN_INVALID;
    }
    if (layout->num_shares != num_replicas) {
        pen_why(why,
                "--replica-shares %s has %u shares, but there are %u replicas "
                "of the pipeline; give one for each",
                text, layout->num_shares, num_replicas);
        return PEN_INVALID;
    }
    bool is_multiple =
        args->logical_replicas > 0 && args->logical_replicas % total == 0;
    layout->num_logical =
        (uint32_t)(is_multiple ? args->logical_replicas : total);
    for (uint32_t i = 0; i < layout->num_shares; i++)
        layout->shares[i] *= layout->num_logical / (uint32_t)total;
    return PEN_OK;
}

static pen_status check_batch(const struct pen__train_args *args,
                              uint32_t num_replicas, struct pen_text *why)
{
    uint64_t unit = args->micro_batch_size * num_replicas;
    if (args->replica_batch % unit == 0)
        return PEN_OK;
    pen_why(why,
            "--global-batch-size %" PRIu64 " is not a multiple of "
            "--micro-batch-size %" PRIu64 " times %" PRIu64 " %s",
            args->global_batch_size, args->micro_batch_size,
            num_replicas * (args->global_batch_size / args->replica_batch),
            args->replica_shares == NULL ? "replicas of the pipeline"
                                         : "logical replicas");
    return PEN_INVALID;
}

static pen_status check_sleep(const struct pen__train_layout *layout,
                              const struct pen__train_args *args,
                              struct pen_text *why)
{
    if (!args->is_sleeping || layout->has_costs)
        return PEN_OK;
    pen_why(why,
            "--engine %s: stage times are unknown; give --profile FILE or "
            "--engine sleep:DURATION",
            args->engine_name);
    return PEN_INVALID;
}

static pen_status make(struct pen__train_layout *layout,
                       const struct pen__train_args *args,
                       const struct pen_compute *compute, struct pen_text *why)
{
    pen_status status = check_ranks(args, layout->num_ranks, why);
    layout->mesh = pen_mesh_split(
        pen_mesh_fill((enum pen_mesh_order)args->mapping,
                      (uint32_t)args->pipeline_size, layout->num_ranks),
        PEN_AXIS_TENSOR, (uint32_t)args->tensor_size);
    layout->mesh = pen_mesh_split(layout->mesh, PEN_AXIS_CONTEXT,
                                  (uint32_t)args->context_size);
    uint32_t num_replicas = pen_mesh_num_groups(&layout->mesh);
    if (status == PEN_OK)
        status = take_shares(layout, args, why);
    if (status == PEN_OK)
        status = check_batch(
            args, layout->num_shares == 0 ? num_replicas : layout->num_logical,
            why);
    if (status == PEN_OK)
        status = pen_compute_check(compute, (enum pen_recompute)args->recompute,
                                   why);
    if (status != PEN_OK)
        return status;
    struct pen_compute shared = *compute;
    layout->is_tied = compute->images == NULL &&
                      compute->model->has_tied_embeddings &&
                      args->pipeline_size > 1;
    shared.modules = args->modules;
    status = make_schedule(layout, args, (uint32_t)most_steps(layout, args),
                           &layout->schedule, why);
    if (status == PEN_OK) {
        note_kind(layout);
        status = check_cures(layout, args, why);
    }
    if (status == PEN_OK) {
        shared.num_members = pen_mesh_num_replicas(&layout->mesh) *
                             layout->schedule->shape.num_copies;
        shared.is_sharded = args->sharding != PEN_SHARDING_NONE;
        status = split_layers(layout, args, &shared, why);
    }
    if (status == PEN_OK)
        predict(layout, &shared, args->sleep_ns);
    if (status == PEN_OK)
        status = check_sleep(layout, args, why);
    if (status == PEN_OK && args->is_sleeping && compute->images == NULL &&
        args->tensor_size * args->context_size * args->expert_size > 1)
        status = pen__train_sleeping_set(layout, &shared, args->sleep_ns, why);
    return status;
}

/* A profile of several micro-batch sizes is read for that of the run. */
static pen_status load_profile(const struct pen__train_args *args,
                               struct pen_profile **out, struct pen_text *why)
{
    struct pen_profile *profile;
    pen_status status = pen_profile_load(args->profile, &profile, why);
    if (status != PEN_OK)
        return status;
    if (profile->num_more > 0)
        status = pen_profile_at(profile, (uint32_t)args->micro_batch_size,
                                profile, why);
    if (status == PEN_OK)
        *out = profile;
    else
        pen_profile_free(profile);
    return status;
}

/* Stages that step by themselves do not know the norm of all gradients. */
static void choose_clipping(const struct pen__train_layout *layout,
                            struct pen__train_args *args)
{
    if (isnan(args->numbers.clip_norm))
        args->numbers.clip_norm =
            layout->is_asynchronous && !layout->schedule->rules.is_joint ? 0
                                                                         : 1;
}

/* Refuses options on stages with a plan, which has stages of its own. */
static pen_status check_stage_options(const struct pen__train_args *args,
                                      struct pen_text *why)
{
    bool recomputes = args->recompute_stages != NULL;
    if (args->plan != NULL && args->recompute_num_layers > 0) {
        pen_why(why,
                "--recompute-num-layers %" PRIu64
                ": a plan says what its stages recompute; leave the option out",
                args->recompute_num_layers);
        return PEN_INVALID;
    }
    if (args->plan == NULL || (!recomputes && args->stage_layers == NULL))
        return PEN_OK;
    pen_why(why, "--%s %s: %s has its own; leave the option out",
            recomputes ? "recompute-stages" : "stage-layers",
            recomputes ? args->recompute_stages : args->stage_layers,
            args->plan);
    return PEN_INVALID;
}

/*
 * Refuses plans, profiles and recomputation, which are about text, for images.
 */
static pen_status check_images(const struct pen__train_args *args,
                               struct pen_text *why)
{
    const char *option = NULL;
    if (args->recompute_stages != NULL)
        option = "recompute-stages";
    else if (args->recompute != PEN_RECOMPUTE_NONE)
        option = "recompute-granularity";
    else if (args->plan != NULL)
        option = "plan";
    else if (args->slices > 1)
        option = "slices";
    else if (args->profile != NULL && pen__train_has_stages(args))
        option = "profile";
    if (option == NULL)
        return PEN_OK;
    pen_why(why, "--%s is for text models only; leave it out", option);
    return PEN_INVALID;
}

pen_status pen__train_layout_init(struct pen__train_layout *layout,
                                  struct pen__train_args *args,
                                  const struct pen_any_model *model,
                                  uint32_t sequence, uint32_t num_ranks,
                                  struct pen_text *why)
{
    struct pen_profile *profile = NULL;
    *layout = (struct pen__train_layout){.predicted_bubble = (double)NAN,
                                         .predicted_sec = (double)NAN,
                                         .num_ranks = num_ranks,
                                         .overlapping_steps = 1};
    pen_status status = check_stage_options(args, why);
    if (status == PEN_OK && model->decoder == NULL)
        status = check_images(args, why);
    if (status != PEN_OK)
        return status;
    if (model->decoder == NULL && !pen__train_has_stages(args)) {
        choose_clipping(layout, args);
        status = check_cures(layout, args, why);
        return status == PEN_OK ? check_sleep(layout, args, why) : status;
    }
    status = open_plan(layout, args, model->decoder, sequence, why);
    if (status == PEN_OK && args->profile != NULL)
        status = load_profile(args, &profile, why);
    struct pen_compute compute = {
        .model = model->decoder,
        .profile = profile,
        .images = model->images,
        .micro_batch = (uint32_t)args->micro_batch_size,
        .sequence = sequence,
        .is_bf16 = args->is_bf16,
        .modules = args->modules,
        .span = args->span,
        .optimizer = args->numbers.kind == PEN_STEP_RULE_SGD ? PEN_UPDATE_SGD
                                                             : PEN_UPDATE_ADAM,
        .tensor_ranks = (uint32_t)args->tensor_size,
        .cuts_rows = args->is_sequence_parallel,
        .context_ranks = (uint32_t)args->context_size,
        .expert_ranks = (uint32_t)args->expert_size};
    if (status == PEN_OK && profile != NULL && compute.model != NULL)
        pen_compute_share_layers(&compute, profile);
    if (status == PEN_OK)
        status = make(layout, args, &compute, why);
    pen_profile_free(profile);
    if (status == PEN_OK)
        choose_clipping(layout, args);
    else
        pen__train_layout_release(layout);
    return status;
}

struct pen_trainer_options pen__train_layout_options(
    const struct pen__train_layout *layout, const struct pen__train_args *args,
    const struct pen_any_model *model, struct pen_sample_shape sample)
{
    return (struct pen_trainer_options){
        .model = model,
        .sample = sample,
        .engine = args->engine,
        .device = args->engine_device,
        .is_bf16 = args->is_bf16,
        .micro_batch = args->micro_batch_size,
        .global_batch = args->replica_batch,
        .recompute = (enum pen_recompute)args->recompute,
        .modules = args->modules,
        .span = args->span,
        .schedule = layout->schedule,
        .parts = layout->parts,
        .correction = layout->correction,
        .cures = args->cures,
        .order = (enum pen_mesh_order)args->mapping,
        .num_ranks = layout->num_ranks,
        .logical_replicas = (uint32_t)args->logical_replicas,
        .replica_shares = layout->num_shares > 0 ? layout->shares : NULL,
        .logical_tensor = (uint32_t)args->logical_tensor,
        .cuts_rows = args->is_sequence_parallel,
        .sharding = (enum pen_sharding)args->sharding,
        .sharding_group = (uint32_t)args->sharding_group,
        .tensor_size = (uint32_t)args->tensor_size,
        .context_size = (uint32_t)args->context_size,
        .expert_size = (uint32_t)args->expert_size,
        .router = args->router,
        .has_fast_sums = args->has_fast_sums,
        .has_sparse_sums = args->has_sparse_sums,
        .stage_code = args->stage_code,
        .subspace = args->subspace,
        .sparsity = args->sparsity,
        .sleeps = !args->is_sleeping      ? NULL
                  : layout->inner != NULL ? layout->sleeps.items
                                          : layout->costs.items,
        .inner = layout->inner,
        .optimizer = args->numbers,
        .rates = args->schedule,
        .on_nan = (enum pen_on_nan)args->on_nan};
}

uint64_t pen__train_layout_members(const struct pen__train_layout *layout)
{
    return (uint64_t)pen_mesh_num_groups(&layout->mesh) *
           layout->schedule->shape.num_copies;
}

uint64_t pen__train_layout_replicas(const struct pen__train_layout *layout,
                                    uint64_t kept)
{
    if (layout->schedule == NULL)
        return kept;
    if (layout->num_shares > 0)
        return layout->num_logical;
    uint64_t members = pen__train_layout_members(layout);
    uint64_t share = kept / members;
    bool is_whole = share > 0 && kept % members == 0;
    bool can_sum = layout->is_asynchronous
                       ? share == 1
                       : members == 1 || (share & (share - 1)) == 0;
    return is_whole && can_sum ? kept : members;
}

void pen__train_layout_release(struct pen__train_layout *layout)
{
    pen_schedule_free(layout->schedule);
    for (size_t i = 0; i < layout->num_shorter; i++)
        pen_schedule_free(layout->shorter[i]);
    free(layout->shorter);
    free(layout->parts);
    pen_plan_free(layout->plan);
    pen__train_sleeping_release(layout);
    if (layout->has_costs)
        pen_costs_release(&layout->costs);
    *layout = (struct pen__train_layout){0};
}
