/*
 * The parts of the trainer that depend on the kind of its model; everything
 * else depends on the shape of a sample.
 */
#include "core/image_model_cost.h"
#include "network/images.h"
#include "runtime/trainer_internal.h"

#include <inttypes.h>

/* ---- decoders ---- */

/* As wide as the stream it changes nothing. */
static uint32_t subspace_of(const struct pen_trainer_options *options)
{
    return options->model->decoder != NULL &&
                   options->subspace < options->model->decoder->hidden
               ? options->subspace
               : 0;
}

/* The pieces of every layer that are here. */
static struct pen_tensor_share share_of(const struct pen_trainer *trainer)
{
    uint32_t total = trainer->options.logical_tensor;
    uint32_t count = total / pen_layout_group_size(&trainer->layout);
    return (struct pen_tensor_share){
        .total = total,
        .first = trainer->layout.place.at[PEN_AXIS_TENSOR] * count,
        .count = count,
        .group = trainer->tensor,
        .cuts_rows = total > 1 && trainer->options.cuts_rows};
}

static pen_status check_subspace(const struct pen_trainer_options *options,
                                 struct pen_text *why)
{
    const struct pen_model *model = options->model->decoder;
    uint32_t width = options->subspace;
    const char *reason = NULL;
    if (width == 0 || width == model->hidden)
        return PEN_OK;
    if (width > model->hidden) {
        pen_why(why,
                "--compress-stages subspace:%u is wider than the residual "
                "stream of the model, which has %u numbers per token. Use at "
                "most %u",
                width, model->hidden, model->hidden);
        return PEN_INVALID;
    }
    if (model->num_experts > 0)
        reason = "needs a model without experts. Drop it, or use int8";
    else
        reason = pen__trainer_find_conflict(
            options, PEN__WITH_PIECES | PEN__WITH_PARTS | PEN__WITH_SLICES |
                         PEN__WITH_METHOD);
    if (reason == NULL)
        return PEN_OK;
    pen_why(why, "--compress-stages subspace:%u %s", width, reason);
    return PEN_INVALID;
}

/* The packed numbers are the host's, and a step of a rank that keeps all of
 * them brings them back to the weights (network/pruned.h). */
static pen_status check_sparsity(const struct pen_trainer_options *options,
                                 struct pen_text *why)
{
    const struct pen_schedule *schedule = options->schedule;
    const char *reason = pen__trainer_find_conflict(
        options, PEN__WITH_PIECES | PEN__WITH_METHOD);
    if (options->sparsity <= 0)
        return PEN_OK;
    if (options->model->decoder->num_experts > 0)
        reason = "needs a model without experts. Drop it";
    else if (options->sleeps != NULL)
        reason = "needs an engine that computes. Use --engine onednn";
    else if (options->sharding != PEN_SHARDING_NONE)
        reason = "keeps little state that could be sharded, and cannot be "
                 "combined with it. Drop it, or --sharding and "
                 "--use-distributed-optimizer";
    else if (options->optimizer.kind == PEN_STEP_RULE_MUON)
        reason = "keeps single elements of matrices, and Muon steps whole "
                 "ones. Use --optimizer adam or sgd";
    else if (schedule != NULL &&
             (schedule->rules.period != 0 || schedule->rules.is_optimistic))
        reason = "needs a synchronous --schedule whose steps wait for the norm "
                 "of gradients. Use --schedule 1f1b";
    if (reason == NULL)
        return PEN_OK;
    pen_why(why, "--sparsity %g %s", options->sparsity, reason);
    return PEN_INVALID;
}

/* Sections of local updates are whole in stages (network/local.c). */
static pen_status check_sections(const struct pen_trainer_options *options,
                                 struct pen_text *why)
{
    const struct pen_model *model = options->model->decoder;
    const struct pen_schedule *schedule = options->schedule;
    uint32_t parts = schedule == NULL || options->parts == NULL
                         ? 1
                         : pen_shape_parts(&schedule->shape);
    const char *reason = pen__trainer_find_conflict(
        options, PEN__WITH_PIECES | PEN__WITH_PARTS | PEN__WITH_SLICES |
                     PEN__WITH_METHOD);
    if (model->num_sections <= 1)
        return PEN_OK;
    if (model->num_experts > 0)
        reason = "needs a model without experts. Drop it";
    else if (options->subspace > 0 || options->sparsity > 0)
        reason = "cannot be combined with --compress-stages subspace:K and "
                 "--sparsity. Drop one of them";
    for (uint32_t i = 0; i + 1 < parts && reason == NULL; i++) {
        const struct pen_layer_range *layers = &options->parts[i];
        uint32_t last = layers->first + layers->count - 1;
        if (!pen_model_has_local_head(model, last))
            reason = "needs stages that end where sections end. Drop "
                     "--stage-layers";
    }
    if (reason == NULL)
        return PEN_OK;
    pen_why(why, "--local-updates %u %s", model->num_sections, reason);
    return PEN_INVALID;
}

/* Gathered rows are handed on with every logical replica. */
static pen_status make_decoder(struct pen_trainer *trainer,
                               const struct pen_layer_range *layers,
                               struct pen_network **out, struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    size_t sequence = options->sample.num_ids;
    struct pen_network_options range = {
        .engine = trainer->engine,
        .model = options->model->decoder,
        .first_layer = layers->first,
        .num_layers = layers->count,
        .batch = options->micro_batch,
        .sequence = sequence,
        .num_slices = trainer->layout.shape.num_slices,
        .step_rows =
            options->global_batch * sequence / trainer->layout.num_logical,
        .recompute = layers->recompute,
        .modules = options->modules,
        .span = options->span,
        .tensor = share_of(trainer),
        .has_no_room = trainer->layout.drops_gradients,
        .has_no_values = trainer->layout.drops_values,
        .router = {.aux = options->router.aux,
                   .z = options->router.z,
                   .capacity = options->router.capacity,
                   .counts_tokens = options->optimizer.router_bias_rate > 0},
        .experts = {.total = trainer->layout.num_experts,
                    .group = trainer->experts},
        .context = {.total = pen_layout_num_parts(&trainer->layout),
                    .part = pen_layout_part(&trainer->layout),
                    .group = trainer->context},
        .subspace = subspace_of(options),
        .sparsity = options->sparsity,
        .is_forward_only = options->is_forward_only};
    return pen_network_create(&range, out, why);
}

/* ---- images ---- */

/* Norms over batches keep statistics, which the last forward here changed. */
static bool has_statistics(const struct pen_image_model *model)
{
    for (uint32_t i = 0; i < model->num_tensors; i++)
        if (!model->tensors[i].is_trained)
            return true;
    return false;
}

static pen_status check_images(const struct pen_trainer_options *options,
                               struct pen_text *why)
{
    uint32_t num_channels = options->model->images->num_channels;
    if (options->sample.channels != num_channels) {
        pen_why(why,
                "the model takes images of %" PRIu32
                " channels, but the data has %" PRIu32,
                num_channels, options->sample.channels);
        return PEN_INVALID;
    }
    if (options->transport != NULL &&
        pen_transport_size(options->transport) > 1 &&
        has_statistics(options->model->images)) {
        pen_why(why,
                "a model with norms over batches has running statistics, which "
                "belong to one process; leave out "
                "--pipeline-model-parallel-size and --stage-replicas, or use a "
                "model without norms");
        return PEN_INVALID;
    }
    if (options->subspace > 0) {
        pen_why(why, "--compress-stages subspace:%u is for text models only",
                options->subspace);
        return PEN_INVALID;
    }
    if (options->sparsity > 0) {
        pen_why(why, "--sparsity is for text models only");
        return PEN_INVALID;
    }
    if (options->logical_tensor > 1) {
        pen_why(why, "--logical-tensor is for text models only");
        return PEN_INVALID;
    }
    if (options->recompute != PEN_RECOMPUTE_NONE) {
        pen_why(why, "--recompute-granularity is for text models only");
        return PEN_INVALID;
    }
    return PEN_OK;
}

static pen_status make_images(struct pen_trainer *trainer,
                              const struct pen_layer_range *layers,
                              struct pen_network **out, struct pen_text *why)
{
    const struct pen_trainer_options *options = &trainer->options;
    struct pen_image_options range = {.engine = trainer->engine,
                                      .model = options->model->images,
                                      .first_layer = layers->first,
                                      .num_layers = layers->count,
                                      .batch = options->micro_batch,
                                      .height = options->sample.height,
                                      .width = options->sample.width,
                                      .is_forward_only =
                                          options->is_forward_only};
    if (trainer->layout.shape.num_slices > 1) {
        pen_why(why, "a schedule with token slices is for text models only; "
                     "make it with --slices 1");
        return PEN_INVALID;
    }
    trainer->num_labels = options->model->images->num_labels;
    return pen_network_create_images(&range, out, why);
}

/* ---- either ---- */

static bool is_for_images(const struct pen_trainer_options *options)
{
    return options->model->images != NULL;
}

pen_status pen__trainer_check_model(const struct pen_trainer_options *options,
                                    struct pen_text *why)
{
    if (is_for_images(options))
        return check_images(options, why);
    pen_status status = check_subspace(options, why);
    if (status == PEN_OK)
        status = check_sections(options, why);
    return status == PEN_OK ? check_sparsity(options, why) : status;
}

uint32_t pen__trainer_num_layers(const struct pen_trainer_options *options)
{
    return is_for_images(options) ? options->model->images->num_layers
                                  : options->model->decoder->num_layers;
}

/* A stage that only sleeps sends what a real one would. */
static void set_boundary(const struct pen_trainer *trainer,
                         struct pen_stage *stage)
{
    const struct pen_trainer_options *options = &trainer->options;
    size_t width = options->is_bf16 ? 2 : sizeof(float);
    uint32_t subspace = subspace_of(options);
    size_t bytes =
        is_for_images(options)
            ? 0
            : options->micro_batch * stage->sample.num_ids * width *
                  (subspace > 0 ? subspace : options->model->decoder->hidden);
    if (options->cuts_rows && options->tensor_size > 1)
        bytes /= options->tensor_size;
    stage->sizes.input = stage->sizes.output = (bytes + 63) / 64 * 64;
}

pen_status pen__trainer_make_network(struct pen_trainer *trainer,
                                     const struct pen_layer_range *layers,
                                     struct pen_stage *stage,
                                     struct pen_text *why)
{
    if (trainer->options.sleeps != NULL) {
        set_boundary(trainer, stage);
        return PEN_OK;
    }
    pen_status status =
        is_for_images(&trainer->options)
            ? make_images(trainer, layers, &stage->network, why)
            : make_decoder(trainer, layers, &stage->network, why);
    if (status == PEN_OK)
        pen_network_sizes(stage->network, &stage->sizes);
    return status;
}

double pen_trainer_step_flops(const struct pen_trainer *trainer)
{
    const struct pen_trainer_options *options = &trainer->options;
    const struct pen_sample_shape *sample = &options->sample;
    return is_for_images(options)
               ? pen_image_model_step_flops(options->model->images,
                                            options->global_batch,
                                            sample->height, sample->width)
               : pen_model_step_flops(options->model->decoder,
                                      options->global_batch, sample->num_ids);
}

size_t pen__trainer_largest_parameter(const struct pen_trainer *trainer)
{
    size_t most = 0;
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        const struct pen_network *network =
            pen_executor_stage(trainer->executor, s)->network;
        size_t count = network == NULL ? 0 : pen_network_largest(network);
        most = count > most ? count : most;
    }
    return most;
}
