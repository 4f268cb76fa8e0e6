#include "runtime/trainer.h"

#include "base/bug.h"
#include "network/weights.h"
#include "runtime/replicas_internal.h"
#include "runtime/trainer_internal.h"
#include "runtime/transport_group.h"

#include <stdlib.h>

void pen__trainer_release_parts(struct pen_trainer *trainer)
{
    pen__trainer_free_async(trainer);
    pen__trainer_free_ahead(trainer);
    pen__trainer_free_probing(trainer);
    pen_exchange_free(trainer->exchange);
    pen_executor_free(trainer->evaluator);
    pen_executor_free(trainer->executor);
    pen_executor_free(trainer->longest);
    pen_engine_give(trainer->engine, PEN_PLACE_STAGING, trainer->totals,
                    trainer->num_totals * sizeof *trainer->totals);
    if (trainer->options.maker == NULL)
        pen_engine_free(trainer->engine);
    pen_inner_free(trainer->inner);
    pen_transport_group_free(trainer->tensor);
    pen_transport_group_free(trainer->context);
    pen_transport_group_free(trainer->experts);
    pen_schedule_free(trainer->evaluation);
    pen_schedule_free(trainer->own_schedule);
    free(trainer->losses);
    free(trainer->statistics);
    trainer->statistics = NULL;
    trainer->exchange = NULL;
    trainer->evaluator = trainer->executor = trainer->longest = NULL;
    trainer->engine = NULL;
    trainer->tensor = trainer->context = trainer->experts = NULL;
    trainer->inner = NULL;
    trainer->evaluation = trainer->own_schedule = NULL;
    trainer->losses = trainer->totals = NULL;
}

void pen_trainer_free(struct pen_trainer *trainer)
{
    if (trainer == NULL)
        return;
    pen__replicas_free(trainer->replicas);
    pen__trainer_release_parts(trainer);
    pen_transport_close(trainer->own_transport);
    free(trainer);
}

static const struct pen_engine_kind *
kind_of(const struct pen_trainer_options *options)
{
    return options->engine != NULL ? options->engine : pen_engine_kind_at(0);
}

static enum pen_precision
precision_of(const struct pen_trainer_options *options)
{
    return options->is_bf16 ? PEN_PRECISION_BF16 : PEN_PRECISION_F32;
}

static pen_status check_options(const struct pen_trainer_options *options,
                                struct pen_text *why)
{
    if (options->global_batch % options->micro_batch != 0) {
        pen_why(why,
                "--global-batch-size %zu is not a multiple of "
                "--micro-batch-size %zu",
                options->global_batch, options->micro_batch);
        return PEN_INVALID;
    }
    const struct pen_engine_kind *engine = kind_of(options);
    if (!pen_engine_has(engine, precision_of(options))) {
        pen_why(why,
                "--bf16 needs --engine onednn, opencl or cuda; the %s engine "
                "computes "
                "in f32 only",
                engine->name);
        return PEN_INVALID;
    }
    if (options->model->images != NULL && !engine->has_images) {
        pen_why(why,
                "the %s engine has no operations of image networks; use "
                "--engine onednn",
                engine->name);
        return PEN_INVALID;
    }
    pen_status status = pen__trainer_check_model(options, why);
    if (status == PEN_OK && !options->is_forward_only)
        status = pen_lr_schedule_check(&options->rates, why);
    return status;
}

static pen_status make_engine(struct pen_trainer *trainer, struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    if (options->maker != NULL) {
        trainer->engine = options->maker->engine;
        return PEN_OK;
    }
    const struct pen_engine_choice choice = {.dtype = precision_of(options),
                                             .threads = options->threads,
                                             .device = options->device};
    return kind_of(options)->create(&choice, why, &trainer->engine);
}

/* ---- stages ---- */

/* Cuts the shape of a sample to that of a pass. */
static void cut_sample(struct pen_stage *stage)
{
    uint32_t cuts = stage->num_slices * stage->num_parts;
    if (cuts == 1)
        return;
    stage->sample.num_ids /= cuts;
    stage->sample.num_targets /= cuts;
}

static pen_status make_stage(struct pen_trainer *trainer, uint32_t number,
                             struct pen_stage *stage, struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    const struct pen_shape *shape = &trainer->layout.shape;
    uint32_t part = pen_shape_part_of_stage(shape, number);
    const struct pen_layer_range *layers = &options->parts[part];
    bool is_last = part + 1 == pen_shape_parts(shape);
    *stage = (struct pen_stage){.stage = number,
                                .part = part,
                                .reads_data = part == 0 || is_last ||
                                              shape->is_local ||
                                              trainer->options.subspace > 0,
                                .has_head = is_last,
                                .sample = options->sample,
                                .num_slices = shape->num_slices,
                                .micro_batch = options->micro_batch};
    stage->num_parts = pen_layout_num_parts(&trainer->layout);
    stage->sequence_part = pen_layout_part(&trainer->layout);
    cut_sample(stage);
    if (options->maker == NULL)
        return pen__trainer_make_network(trainer, layers, stage, why);
    pen_status status = options->maker->make(options->maker->context, part,
                                             &stage->network, why);
    if (status != PEN_OK)
        return status;
    pen_network_sizes(stage->network, &stage->sizes);
    stage->sizes.input = stage->sizes.output = options->maker->message_bytes;
    return PEN_OK;
}

/* Whether the weights of a stage are on this rank, and it keeps them. */
static bool keeps_stage(const struct pen_layout *layout, uint32_t stage)
{
    return pen_shape_rank_of(&layout->shape, stage) == layout->row &&
           pen_shape_keeper(&layout->shape, stage) == stage;
}

static uint32_t count_stages(const struct pen_layout *layout)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < layout->shape.num_stages; i++)
        count += keeps_stage(layout, i);
    return count;
}

static pen_status make_stages(struct pen_trainer *trainer,
                              struct pen_stage **out, uint32_t *num_stages,
                              struct pen_text *why)
{
    const struct pen_shape *shape = &trainer->layout.shape;
    uint32_t num = count_stages(&trainer->layout);
    PEN_BUG_UNLESS(num > 0); /* placements leave no rank without a stage */
    struct pen_stage *stages = calloc(num, sizeof *stages);
    pen_status status = stages == NULL ? PEN_NOMEM : PEN_OK;
    uint32_t count = 0;
    for (uint32_t i = 0; i < shape->num_stages && status == PEN_OK; i++)
        if (keeps_stage(&trainer->layout, i))
            status = make_stage(trainer, i, &stages[count++], why);
    if (status == PEN_OK) {
        *out = stages;
        *num_stages = count;
        return PEN_OK;
    }
    for (uint32_t i = 0; i < count; i++)
        pen_stage_release(&stages[i]);
    free(stages);
    return status;
}

/* ---- hooks of the executor ---- */

static void on_poll(void *context)
{
    struct pen_trainer *trainer = context;
    if (trainer->exchange != NULL)
        pen_exchange_poll(trainer->exchange);
    if (trainer->replicas != NULL)
        pen__replicas_poll(trainer->replicas);
    if (trainer->is_joint)
        pen__trainer_poll_joint(trainer);
    pen__trainer_poll_ahead(trainer);
}

static bool is_busy(void *context)
{
    const struct pen_trainer *trainer = context;
    return trainer->replicas != NULL ||
           trainer->ahead.state == PEN__AHEAD_SUMMING ||
           trainer->joint.state != PEN__JOINT_IDLE ||
           (trainer->exchange != NULL &&
            pen_exchange_is_busy(trainer->exchange));
}

static void on_visit(void *context, struct pen_stage *stage, uint32_t layer,
                     uint32_t next)
{
    struct pen_trainer *trainer = context;
    if (trainer->exchange != NULL)
        pen_exchange_visit(trainer->exchange, stage, layer, next);
}

static void on_enter(void *context, struct pen_stage *stage, uint32_t layer)
{
    struct pen_trainer *trainer = context;
    if (trainer->exchange != NULL)
        pen_exchange_enter(trainer->exchange, stage, layer);
}

static void on_layer(void *context, struct pen_stage *stage, uint32_t layer)
{
    struct pen_trainer *trainer = context;
    if (trainer->exchange != NULL)
        pen_exchange_layer(trainer->exchange, stage, layer);
}

static void on_open(void *context, struct pen_stage *stage, uint32_t number)
{
    struct pen_trainer *trainer = context;
    if (trainer->exchange != NULL)
        pen_exchange_open(trainer->exchange, stage, number);
}

/* Where a stage only sleeps, once the last micro-batch of a logical replica has
 * its gradients. */
static void sum_copies(struct pen_trainer *trainer,
                       const struct pen_stage *stage, uint32_t number)
{
    uint32_t users = pen_shape_users(&trainer->layout.shape, stage->stage);
    uint32_t per_replica = trainer->num_per_step * users /
                           pen_layout_share(&trainer->layout, stage->part);
    if ((number + 1) % per_replica == 0)
        pen_inner_sum_copies(trainer->inner, stage->part);
}

static pen_status on_gradient(void *context, struct pen_stage *stage,
                              uint32_t number)
{
    struct pen_trainer *trainer = context;
    if (trainer->exchange != NULL)
        return pen_exchange_gradient(trainer->exchange, stage, number);
    if (trainer->inner != NULL)
        sum_copies(trainer, stage, number);
    return PEN_OK;
}

static void on_sync(void *context, struct pen_stage *stage)
{
    struct pen_trainer *trainer = context;
    if (trainer->is_joint)
        pen__trainer_joint_sync(trainer, stage);
    else if (trainer->exchange != NULL)
        pen_exchange_sync(trainer->exchange, stage);
}

static void on_op(void *context, uint64_t pass, uint32_t position)
{
    const struct pen_executor_hooks *watch =
        &((struct pen_trainer *)context)->options.watch;
    if (watch->op != NULL)
        watch->op(watch->context, pass, position);
}

static void on_wait(void *context, uint32_t rank)
{
    const struct pen_executor_hooks *watch =
        &((struct pen_trainer *)context)->options.watch;
    if (watch->wait != NULL)
        watch->wait(watch->context, rank);
}

static void on_resume(void *context)
{
    const struct pen_executor_hooks *watch =
        &((struct pen_trainer *)context)->options.watch;
    if (watch->resume != NULL)
        watch->resume(watch->context);
}

static void on_done(void *context, uint64_t pass, uint32_t position,
                    int64_t begin, int64_t ready, int64_t end)
{
    const struct pen_executor_hooks *watch =
        &((struct pen_trainer *)context)->options.watch;
    if (watch->done != NULL)
        watch->done(watch->context, pass, position, begin, ready, end);
}

struct pen_executor_options
pen__trainer_executor_options(struct pen_trainer *trainer)
{
    const struct pen_trainer_options *options = &trainer->options;
    struct pen_executor_options wanted = {
        .transport = options->transport,
        .schedule = options->schedule,
        .layout = trainer->layout,
        .sample = options->sample,
        .micro_batch = options->micro_batch,
        .num_per_step = trainer->num_per_step,
        .step_samples = options->global_batch,
        .step_targets =
            (double)options->global_batch * options->sample.num_targets,
        .sleeps = options->sleeps,
        .inner = trainer->inner,
        .is_phantom = options->phantom != NULL,
        .is_blocking = options->is_blocking,
        .joins_pairs = options->joins_pairs,
        .hooks = {.context = trainer,
                  .poll = on_poll,
                  .is_busy = is_busy,
                  .visit = trainer->layout.drops_values ? on_visit : NULL,
                  .enter = on_enter,
                  .layer = on_layer,
                  .open = on_open,
                  .gradient = on_gradient,
                  .sync = on_sync,
                  .op = on_op,
                  .wait = on_wait,
                  .resume = on_resume,
                  .done = on_done}};
    wanted.code =
        (struct pen_message_code){options->stage_code, options->is_bf16};
    if (trainer->is_asynchronous)
        pen__trainer_hook_async(&wanted.hooks);
    else
        pen__trainer_hook_ahead(&wanted.hooks);
    return wanted;
}

/* ---- making ---- */

/* The ranks along an axis that exchange messages inside layers. Their waits
 * look after all other messages once there is an executor. */
static pen_status make_group(struct pen_trainer *trainer, enum pen_axis axis,
                             enum pen_tag_kind kind, struct pen_group **out)
{
    const struct pen_transport_group_options options = {
        .transport = trainer->options.transport,
        .first = {kind, 0},
        .num_kinds = 1};
    if (trainer->layout.mesh.sizes[axis] == 1)
        return PEN_OK;
    return pen_transport_group_axis(&options, &trainer->layout.mesh, axis, out);
}

/* The replicas that follow each other, with the same row. */
static pen_status make_expert_group(struct pen_trainer *trainer)
{
    const struct pen_layout *layout = &trainer->layout;
    uint32_t count = layout->num_experts;
    const struct pen_transport_group_options options = {
        .transport = trainer->options.transport,
        .first = {PEN_TAG_EXPERT, 0},
        .num_kinds = 1,
        .epoch = layout->mesh.epoch};
    if (count == 1)
        return PEN_OK;
    uint32_t *ranks = calloc(count, sizeof *ranks);
    if (ranks == NULL)
        return PEN_NOMEM;
    for (uint32_t k = 0; k < count; k++)
        ranks[k] = pen_layout_rank_at(
            layout, layout->row, pen_layout_expert_group(layout) * count + k);
    pen_status status = pen_transport_group_create(
        &options, ranks, count, pen_layout_expert(layout), &trainer->experts);
    free(ranks);
    return status;
}

static pen_status make_groups(struct pen_trainer *trainer)
{
    pen_status status =
        make_group(trainer, PEN_AXIS_TENSOR, PEN_TAG_TENSOR, &trainer->tensor);
    if (status == PEN_OK)
        status = make_group(trainer, PEN_AXIS_CONTEXT, PEN_TAG_CONTEXT,
                            &trainer->context);
    if (status == PEN_OK)
        status = make_expert_group(trainer);
    struct pen_group *inner = trainer->tensor != NULL    ? trainer->tensor
                              : trainer->context != NULL ? trainer->context
                                                         : trainer->experts;
    bool is_waiting = trainer->options.sleeps != NULL;
    if (status == PEN_OK && inner != NULL &&
        (is_waiting || trainer->options.phantom != NULL))
        status = pen_inner_create(
            inner, trainer->options.inner,
            is_waiting ? pen_shape_parts(&trainer->layout.shape) : 0,
            &trainer->inner);
    return status;
}

void pen__trainer_set_executor(struct pen_trainer *trainer,
                               struct pen_executor *executor)
{
    if (trainer->tensor != NULL)
        pen_transport_group_set_executor(trainer->tensor, executor);
    if (trainer->context != NULL)
        pen_transport_group_set_executor(trainer->context, executor);
    if (trainer->experts != NULL)
        pen_transport_group_set_executor(trainer->experts, executor);
}

static pen_status make_executor(struct pen_trainer *trainer,
                                struct pen_text *why)
{
    struct pen_stage *stages;
    uint32_t num_stages;
    if (pen_layout_is_idle(&trainer->layout))
        return PEN_OK;
    pen_status status = make_groups(trainer);
    struct pen_executor_options options =
        pen__trainer_executor_options(trainer);
    if (status == PEN_OK)
        status = make_stages(trainer, &stages, &num_stages, why);
    if (status == PEN_OK)
        status = pen_executor_create(&options, stages, num_stages,
                                     &trainer->executor, why);
    pen__trainer_set_executor(trainer, trainer->executor);
    return status;
}

/* Adds moments to the parameters that this rank steps. */
static pen_status add_moments(struct pen_trainer *trainer, struct pen_text *why)
{
    struct pen_engine *engine = trainer->engine;
    const struct pen_optimizer *optimizer = &trainer->options.optimizer;
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        struct pen_network *network = pen_trainer_network(trainer, s);
        for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
            if (!pen_exchange_owns(trainer->exchange, s, i))
                continue;
            pen_status status = engine->ops->parameter_add_moments(
                engine, pen_network_parameter(network, i)->parameter,
                pen_optimizer_moments_of(optimizer, network, i), why);
            if (status == PEN_OK)
                status = pen_optimizer_prepare(optimizer, network, i, why);
            if (status != PEN_OK)
                return status;
        }
    }
    return PEN_OK;
}

/* Whether gradients of two steps are there at once. */
static bool defers_steps(const struct pen_trainer *trainer)
{
    return trainer->is_joint &&
           pen_row_defers_steps(
               &trainer->options.schedule->rows[trainer->layout.row],
               pen_executor_stage(trainer->executor, 0)->stage);
}

/* Members that have all values together; 0: each has all. */
static uint32_t count_gathering(const struct pen_trainer *trainer)
{
    uint32_t size = trainer->options.sharding_group;
    if (!trainer->layout.drops_values)
        return 0;
    return size > 0 ? size : pen_layout_copies(&trainer->layout);
}

static pen_status make_exchange(struct pen_trainer *trainer,
                                struct pen_text *why)
{
    if (trainer->executor == NULL || trainer->options.is_forward_only ||
        trainer->options.sleeps != NULL)
        return PEN_OK;
    struct pen_exchange_options options = {
        .transport = trainer->options.transport,
        .executor = trainer->executor,
        .layout = trainer->layout,
        .num_per_step = trainer->num_per_step,
        .is_sharded = trainer->options.sharding != PEN_SHARDING_NONE,
        .drops_gradients = trainer->layout.drops_gradients,
        .gathered_by = count_gathering(trainer),
        .is_fast = trainer->options.has_fast_sums,
        .is_sparse = trainer->options.has_sparse_sums,
        .is_late = trainer->options.has_late_sums,
        .is_joint = trainer->is_joint,
        .has_second = defers_steps(trainer),
        .phantom = trainer->options.phantom};
    pen_status status = pen_exchange_create(&options, &trainer->exchange, why);
    return status == PEN_OK ? add_moments(trainer, why) : status;
}

pen_status pen__trainer_make_parts(struct pen_trainer *trainer,
                                   struct pen_text *why)
{
    const struct pen_transport *transport = trainer->options.transport;
    pen_status status = pen__trainer_make_layout(
        trainer, pen_transport_rank(transport),
        trainer->options.num_ranks != 0 ? trainer->options.num_ranks
                                        : pen_transport_size(transport),
        why);
    if (status == PEN_OK)
        status = make_engine(trainer, why);
    if (status == PEN_OK)
        status = make_executor(trainer, why);
    if (status == PEN_OK)
        status = make_exchange(trainer, why);
    if (status == PEN_OK)
        status = pen__trainer_make_totals(trainer);
    if (status == PEN_OK && trainer->is_asynchronous)
        status = pen__trainer_make_async(trainer, why);
    if (status == PEN_OK)
        status = pen__trainer_make_ahead(trainer, why);
    if (status == PEN_OK)
        status = pen__trainer_make_probing(trainer, why);
    return status;
}

pen_status pen_trainer_create(const struct pen_trainer_options *options,
                              struct pen_trainer **out, struct pen_text *why)
{
    pen_status status = check_options(options, why);
    if (status != PEN_OK)
        return status;
    struct pen_trainer *trainer = calloc(1, sizeof *trainer);
    if (trainer == NULL)
        return PEN_NOMEM;
    trainer->options = *options;
    if (options->transport == NULL) {
        status = pen_transport_open_alone(&trainer->own_transport);
        trainer->options.transport = trainer->own_transport;
    }
    if (status == PEN_OK)
        status = pen__trainer_make_parts(trainer, why);
    if (status == PEN_OK)
        *out = trainer;
    else
        pen_trainer_free(trainer);
    return status;
}

pen_status pen_trainer_check(const struct pen_trainer_options *options,
                             uint32_t rank, uint32_t num_ranks,
                             struct pen_text *why)
{
    struct pen_trainer trainer = {.options = *options};
    pen_status status = check_options(options, why);
    if (status == PEN_OK)
        status = pen__trainer_make_layout(&trainer, rank, num_ranks, why);
    pen_schedule_free(trainer.own_schedule);
    return status;
}

/* ---- asking ---- */

uint32_t pen_trainer_num_stages(const struct pen_trainer *trainer)
{
    return trainer->executor == NULL
               ? 0
               : pen_executor_num_stages(trainer->executor);
}

struct pen_network *pen_trainer_network(struct pen_trainer *trainer,
                                        uint32_t stage)
{
    return pen_executor_stage(trainer->executor, stage)->network;
}

const struct pen_layout *pen_trainer_layout(const struct pen_trainer *trainer)
{
    return &trainer->layout;
}

struct pen_trainer_progress
pen_trainer_progress(const struct pen_trainer *trainer)
{
    return trainer->progress;
}

pen_status pen_trainer_initialize(struct pen_trainer *trainer, uint64_t seed)
{
    pen_status status = PEN_OK;
    for (uint32_t s = 0;
         s < pen_trainer_num_stages(trainer) && status == PEN_OK; s++)
        if (pen_trainer_network(trainer, s) != NULL)
            status =
                pen_network_initialize(pen_trainer_network(trainer, s), seed);
    return status;
}

pen_status pen_trainer_load_weights(struct pen_trainer *trainer,
                                    const struct pen_weights *weights,
                                    struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (uint32_t s = 0;
         s < pen_trainer_num_stages(trainer) && status == PEN_OK; s++)
        if (pen_trainer_network(trainer, s) != NULL)
            status =
                pen_network_load(pen_trainer_network(trainer, s), weights, why);
    return status;
}

void pen_trainer_sleep(struct pen_trainer *trainer, double seconds)
{
    pen_executor_sleep(trainer->executor, seconds);
}

void pen_trainer_exchange(struct pen_trainer *trainer,
                          const struct pen_message_round *round)
{
    pen_inner_simulate(trainer->inner, round);
}
