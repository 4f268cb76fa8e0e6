/*
 * The roles of ranks: from the size of the world, the schedule and the options.
 */
#include "runtime/trainer_internal.h"

#include "runtime/reduction.h"
#include "schedule/restrictions.h"
#include "schedule/verify.h"

/* Micro-batches in their order, one at a time. */
static pen_status add_plain_ops(struct pen_schedule *schedule, bool is_training)
{
    pen_status status = PEN_OK;
    for (uint32_t i = 0;
         i < schedule->shape.num_microbatches && status == PEN_OK; i++) {
        status =
            pen_schedule_add(schedule, 0, pen_op_make(PEN_OP_FORWARD, 0, i));
        if (status == PEN_OK && is_training)
            status = pen_schedule_add(schedule, 0,
                                      pen_op_make(PEN_OP_BACKWARD, 0, i));
    }
    if (status == PEN_OK && is_training)
        status = pen_schedule_add(
            schedule, 0,
            pen_op_make(PEN_OP_SYNC_GRAD, 0, PEN_OP_NO_MICROBATCH));
    return status;
}

static pen_status make_plain_schedule(struct pen_trainer *trainer,
                                      uint32_t num_microbatches,
                                      struct pen_text *why)
{
    struct pen_shape shape = {.placement = PEN_PLACEMENT_LINEAR,
                              .num_ranks = 1,
                              .num_stages = 1,
                              .num_copies = 1,
                              .num_microbatches = num_microbatches,
                              .num_slices = 1};
    pen_status status =
        pen_schedule_create("plain", &shape, &trainer->own_schedule, why);
    if (status == PEN_OK)
        status = add_plain_ops(trainer->own_schedule,
                               !trainer->options.is_forward_only);
    trainer->options.schedule = trainer->own_schedule;
    return status;
}

static pen_status make_whole_part(struct pen_trainer *trainer,
                                  struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    uint32_t parts = pen_shape_parts(&options->schedule->shape);
    if (parts != 1) {
        pen_why(why, "the schedule has %u stages, but the layers are not split",
                parts);
        return PEN_INVALID;
    }
    trainer->own_part = (struct pen_layer_range){
        0, pen__trainer_num_layers(options), options->recompute};
    trainer->options.parts = &trainer->own_part;
    return PEN_OK;
}

/* ---- restrictions ---- */

static bool recomputes(const struct pen_trainer *trainer)
{
    for (uint32_t i = 0; i < pen_shape_parts(&trainer->layout.shape); i++)
        if (trainer->options.parts[i].recompute != PEN_RECOMPUTE_NONE)
            return true;
    return false;
}

static bool computes_twice(const struct pen_trainer *trainer)
{
    const struct pen_schedule *schedule = trainer->options.schedule;
    const struct pen_shape *shape = &trainer->layout.shape;
    for (uint32_t s = 0; s < shape->num_stages && schedule->has_recomputation;
         s++) {
        uint32_t part = pen_shape_part_of_stage(shape, s);
        if (trainer->options.parts[part].recompute == PEN_RECOMPUTE_FULL &&
            pen_row_recomputes(&schedule->rows[pen_shape_rank_of(shape, s)], s))
            return true;
    }
    return false;
}

static struct pen_training_facts facts_of(const struct pen_trainer *trainer)
{
    const struct pen_trainer_options *options = &trainer->options;
    const struct pen_optimizer *optimizer = &options->optimizer;
    const struct pen_model *model = options->model->decoder;
    const struct pen_shape *shape = &trainer->layout.shape;
    const struct pen_rules *rules = &options->schedule->rules;
    uint32_t parts = pen_layout_num_parts(&trainer->layout);
    struct pen_training_facts facts = {
        .schedule = options->schedule->name,
        .degrees = {[PEN_DEGREE_EP] = trainer->layout.num_experts},
        .is_asynchronous = rules->period != 0,
        .is_stale = rules->is_stale,
        .is_joint = rules->is_joint,
        .period = rules->period,
        .num_ranks = shape->num_ranks,
        .num_stages = shape->num_stages,
        .num_parts = pen_shape_parts(shape),
        .num_slices = shape->num_slices,
        .is_local = shape->is_local,
        .correction = options->correction,
        .discount_steps = options->cures.discount_steps,
        .predicts = options->cures.predicts,
        .num_versions = rules->versions,
        .sharding = options->sharding,
        .num_members = pen_layout_copies(&trainer->layout) / parts,
        .shape = shape,
        .has_uneven_shares = options->replica_shares != NULL,
        .num_logical = pen_layout_num_sampled(&trainer->layout),
        .micro_batch = options->micro_batch,
        .global_batch = options->global_batch,
        .model = options->maker == NULL ? model : NULL,
        .sequence = options->sample.num_ids,
        .number = options->is_bf16 ? PEN_NUMBER_BF16 : PEN_NUMBER_F32,
        .has_tied_embeddings = model != NULL && model->has_tied_embeddings,
        .recomputes = recomputes(trainer),
        .has_recomputed = options->schedule->has_recomputation,
        .computes_twice = computes_twice(trainer)};
    if (options->is_forward_only)
        return facts;
    facts.clip_norm = optimizer->clip_norm;
    facts.has_optimizer = true;
    facts.is_adam = optimizer->kind == PEN_STEP_RULE_ADAM;
    facts.is_muon = optimizer->kind == PEN_STEP_RULE_MUON;
    facts.is_nesterov = optimizer->is_nesterov;
    facts.momentum = optimizer->momentum;
    return facts;
}

static pen_status check_restrictions(const struct pen_trainer *trainer,
                                     struct pen_text *why)
{
    const struct pen_schedule *schedule = trainer->options.schedule;
    struct pen_training_facts facts = facts_of(trainer);
    pen_status status =
        pen_restrictions_check(&facts, PEN_REASON_AND_REMEDY, why);
    if (status == PEN_OK)
        status = pen_restrictions_check_row(schedule, trainer->layout.row, why);
    if (status == PEN_OK)
        status = pen_transport_check_tags(
            trainer->options.transport,
            (schedule->shape.num_stages *
                 (trainer->layout.num_experts > 1 ? 2u : 1u) +
             1) *
                PEN_REDUCTION_LANES,
            why);
    return status;
}

/* ---- the layout ---- */

static pen_status check_batch(const struct pen_trainer *trainer,
                              struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    const struct pen_layout *layout = &trainer->layout;
    size_t wanted = options->global_batch / options->micro_batch /
                    pen_layout_num_sampled(layout) *
                    pen_layout_copy_share(layout) * layout->shape.num_copies;
    if (layout->shape.num_microbatches % wanted == 0)
        return PEN_OK;
    pen_why(why,
            "the schedule has %u micro-batches, but --global-batch-size "
            "%zu in %u replicas of the pipeline makes %zu of "
            "--micro-batch-size %zu here",
            layout->shape.num_microbatches, options->global_batch,
            pen_mesh_num_groups(&layout->mesh), wanted, options->micro_batch);
    return PEN_INVALID;
}

static pen_status check_schedule(const struct pen_trainer *trainer,
                                 struct pen_text *why)
{
    struct pen_verify_options options = {
        .needs_sync = pen_layout_copies(&trainer->layout) > 1};
    if (trainer->own_schedule != NULL || trainer->options.is_verified)
        return PEN_OK;
    return pen_schedule_verify(trainer->options.schedule, &options, NULL, why);
}

/* Every layer in one part, and in order. */
static pen_status check_parts(const struct pen_trainer *trainer,
                              struct pen_text *why)
{
    const struct pen_layer_range *parts = trainer->options.parts;
    uint32_t count = pen_shape_parts(&trainer->layout.shape);
    uint32_t next = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i].first != next || parts[i].count == 0) {
            pen_why(why,
                    "stage %u has layers %u to %u, but must begin at layer %u",
                    i, parts[i].first, parts[i].first + parts[i].count, next);
            return PEN_INVALID;
        }
        next += parts[i].count;
    }
    if (next == pen__trainer_num_layers(&trainer->options))
        return PEN_OK;
    pen_why(why, "the stages have %u layers, but the model has %u", next,
            pen__trainer_num_layers(&trainer->options));
    return PEN_INVALID;
}

bool pen_trainer_drops_gradients(const struct pen_trainer_options *options,
                                 uint32_t num_copies)
{
    bool has_gradients = options->sleeps == NULL && options->maker == NULL &&
                         options->phantom == NULL &&
                         !options->is_forward_only &&
                         options->model->decoder != NULL;
    uint32_t parts = options->context_size > 1 ? options->context_size : 1;
    uint32_t num_sampled = num_copies / parts;
    bool is_one_sum = options->logical_replicas == num_sampled ||
                      options->logical_replicas == 0;
    return options->sharding >= PEN_SHARDING_ZERO2 && has_gradients &&
           !options->has_late_sums && num_copies > 1 && is_one_sum &&
           options->global_batch == options->micro_batch * num_sampled &&
           options->schedule->shape.num_slices <= 1 &&
           options->schedule->shape.placement != PEN_PLACEMENT_REPLICATED;
}

bool pen_trainer_drops_values(const struct pen_trainer_options *options,
                              uint32_t num_copies)
{
    return options->sharding >= PEN_SHARDING_ZERO3 && num_copies > 1 &&
           options->sharding_group != 1 && !options->is_forward_only;
}

/* Ranks of a tensor group. */
static uint32_t group_size(const struct pen_trainer *trainer)
{
    uint32_t size = trainer->options.tensor_size;
    return size == 0 ? 1 : size;
}

/* Parts of a sequence. */
static uint32_t num_parts(const struct pen_trainer *trainer)
{
    uint32_t parts = trainer->options.context_size;
    return parts == 0 ? 1 : parts;
}

static pen_status place_rank(struct pen_trainer *trainer, uint32_t rank,
                             uint32_t size, struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    struct pen_layout *layout = &trainer->layout;
    layout->shape = options->schedule->shape;
    layout->parts = options->parts;
    uint32_t per_pipeline =
        layout->shape.num_ranks * group_size(trainer) * num_parts(trainer);
    if (size % per_pipeline != 0) {
        pen_why(why, "%u ranks are not a multiple of the %u of a pipeline",
                size, per_pipeline);
        return PEN_INVALID;
    }
    uint32_t epoch = layout->mesh.epoch;
    bool is_idle = rank >= size;
    layout->mesh = pen_mesh_split(
        pen_mesh_fill(options->order, layout->shape.num_ranks, size),
        PEN_AXIS_TENSOR, group_size(trainer));
    layout->mesh =
        pen_mesh_split(layout->mesh, PEN_AXIS_CONTEXT, num_parts(trainer));
    layout->mesh.epoch = epoch;
    if (!is_idle)
        layout->place = pen_mesh_place_of(&layout->mesh, rank);
    layout->replica =
        is_idle ? PEN_NO_REPLICA : pen_mesh_replica(&layout->mesh, rank);
    layout->row = is_idle ? 0 : pen_mesh_row(&layout->mesh, rank);
    layout->num_logical = options->logical_replicas != 0
                              ? options->logical_replicas * num_parts(trainer)
                              : pen_layout_copies(layout);
    layout->shares = options->replica_shares;
    layout->num_experts = options->expert_size > 1 ? options->expert_size : 1;
    layout->drops_gradients =
        pen_trainer_drops_gradients(options, pen_layout_copies(layout));
    layout->drops_values =
        pen_trainer_drops_values(options, pen_layout_copies(layout));
    return PEN_OK;
}

const char *
pen__trainer_find_conflict(const struct pen_trainer_options *options,
                           unsigned conflicts)
{
    const struct pen_schedule *schedule = options->schedule;
    bool is_cut = options->tensor_size > 1 || options->logical_tensor > 1;
    if ((conflicts & PEN__WITH_PIECES) != 0 && is_cut)
        return "cannot be combined with tensor parallelism. Drop it, or "
               "--tensor-model-parallel-size and --logical-tensor";
    if ((conflicts & PEN__WITH_PARTS) != 0 && options->context_size > 1)
        return "cannot be combined with --context-parallel-size. Drop one of "
               "them";
    if ((conflicts & PEN__WITH_SLICES) != 0 && schedule != NULL &&
        schedule->shape.num_slices > 1)
        return "cannot be combined with token slices. Drop it, or --slices";
    if ((conflicts & PEN__WITH_METHOD) != 0 && options->world != NULL)
        return "needs replicas that sum gradients at every step. Drop it, or "
               "--sync and --compress";
    return NULL;
}

/* Refuses what cannot train sequences that are cut into parts. */
static pen_status check_context(const struct pen_trainer *trainer,
                                struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    const struct pen_schedule *schedule = options->schedule;
    uint32_t parts = num_parts(trainer), tokens = options->sample.num_ids;
    const char *reason = pen__trainer_find_conflict(
        options, PEN__WITH_SLICES | PEN__WITH_METHOD);
    if (options->model->decoder == NULL)
        reason = "is for text models only. Drop it";
    else if ((parts & (parts - 1)) != 0)
        reason = "is not a power of two. Use 2, 4 or 8";
    else if (schedule->rules.period != 0)
        reason = "needs a synchronous schedule. Use --schedule 1f1b, or drop "
                 "it";
    else if (options->replica_shares != NULL)
        reason = "cannot be combined with uneven shares. Drop it, or "
                 "--replica-shares";
    else if (options->phantom == NULL &&
             (options->maker != NULL ||
              (options->sleeps != NULL && options->inner == NULL)))
        reason = "needs an engine that computes. Drop it, or use --engine "
                 "onednn";
    else if ((options->sleeps != NULL || options->phantom != NULL) &&
             options->tensor_size > 1)
        reason = "with --tensor-model-parallel-size needs an engine that "
                 "computes. Drop one of them, or use --engine onednn";
    else if (tokens % (2 * parts) != 0)
        reason = "needs a --seq-length that twice this number divides";
    if (reason == NULL)
        return PEN_OK;
    pen_why(why, "--context-parallel-size %u %s", parts, reason);
    return PEN_INVALID;
}

static pen_status check_sharding_group(const struct pen_trainer *trainer,
                                       struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    if (options->is_forward_only)
        return PEN_OK;
    return pen_sharding_group_check(options->sharding, options->sharding_group,
                                    pen_layout_copies(&trainer->layout), why);
}

/* Weights that owners send layer by layer exclude some options. */
static pen_status check_values(const struct pen_trainer *trainer,
                               struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    const char *needs = NULL;
    if (!trainer->layout.drops_values)
        return PEN_OK;
    if (options->model->decoder == NULL)
        needs = "a text model";
    else if (options->phantom == NULL &&
             (options->sleeps != NULL || options->maker != NULL))
        needs = "an engine that computes, as --engine onednn";
    if (needs == NULL)
        return PEN_OK;
    pen_why(why, "--sharding zero3 needs %s. Or use --sharding zero1", needs);
    return PEN_INVALID;
}

/* Experts that are dealt out exclude some options; the table of restrictions
 * has more. */
static pen_status check_experts(const struct pen_trainer *trainer,
                                struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    const char *reason =
        pen__trainer_find_conflict(options, PEN__WITH_PARTS | PEN__WITH_METHOD);
    if (options->model->decoder == NULL)
        reason = "is for text models only. Drop it";
    else if ((options->sleeps != NULL || options->maker != NULL) &&
             options->tensor_size > 1)
        reason = "with --tensor-model-parallel-size needs an engine that "
                 "computes. Drop one of them, or use --engine onednn";
    if (reason == NULL)
        return PEN_OK;
    pen_why(why, "--expert-model-parallel-size %u %s", options->expert_size,
            reason);
    return PEN_INVALID;
}

pen_status pen__trainer_make_layout(struct pen_trainer *trainer, uint32_t rank,
                                    uint32_t num_ranks, struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    pen_status status = PEN_OK;
    if (options->schedule == NULL)
        status = make_plain_schedule(
            trainer,
            (uint32_t)(options->global_batch / options->micro_batch /
                       (num_ranks / group_size(trainer) / num_parts(trainer))),
            why);
    if (status == PEN_OK && options->parts == NULL)
        status = make_whole_part(trainer, why);
    if (status == PEN_OK)
        status = place_rank(trainer, rank, num_ranks, why);
    if (status == PEN_OK)
        status = check_parts(trainer, why);
    if (status == PEN_OK && num_parts(trainer) > 1)
        status = check_context(trainer, why);
    if (status == PEN_OK && options->expert_size > 1)
        status = check_experts(trainer, why);
    if (status == PEN_OK)
        status = check_sharding_group(trainer, why);
    if (status == PEN_OK)
        status = check_values(trainer, why);
    if (status == PEN_OK)
        status = check_restrictions(trainer, why);
    if (status == PEN_OK)
        status = check_batch(trainer, why);
    if (status == PEN_OK)
        status = check_schedule(trainer, why);
    if (status != PEN_OK)
        return status;
    trainer->num_per_step =
        (uint32_t)(options->global_batch / options->micro_batch /
                   pen_layout_num_sampled(&trainer->layout)) *
        pen_layout_copy_share(&trainer->layout);
    trainer->is_asynchronous = options->schedule->rules.period != 0;
    trainer->is_joint =
        trainer->is_asynchronous && options->schedule->rules.is_joint;
    return PEN_OK;
}
