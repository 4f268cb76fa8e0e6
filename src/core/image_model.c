/* The layers and tensors of a model for images, from its settings. */
#include "core/image_model.h"

#include "core/image_model_internal.h"

#include "base/bug.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REDUCTION = 4 }; /* of the channels inside a bottleneck */

static enum pen_role role_of(enum pen_image_part part)
{
    return part == PEN_IMAGE_FILTERS || part == PEN_IMAGE_MATRIX
               ? PEN_ROLE_MATRIX
           : part == PEN_IMAGE_BIAS ? PEN_ROLE_BIAS
                                    : PEN_ROLE_NORM;
}

static bool is_trained(enum pen_image_part part)
{
    return part != PEN_IMAGE_RUNNING_MEAN &&
           part != PEN_IMAGE_RUNNING_VARIANCE && part != PEN_IMAGE_NUM_BATCHES;
}

static void add_tensor(struct pen_image_model *model, enum pen_image_part part,
                       const char *prefix, const char *name, uint32_t num_dims,
                       const uint32_t *shape)
{
    struct pen_image_tensor *tensor = &model->tensors[model->num_tensors++];
    *tensor = (struct pen_image_tensor){.layer = model->num_layers - 1,
                                        .part = part,
                                        .role = role_of(part),
                                        .is_trained = is_trained(part),
                                        .num_dims = num_dims,
                                        .num_elements = 1};
    for (uint32_t i = 0; i < num_dims; i++) {
        tensor->shape[i] = shape[i];
        tensor->num_elements *= shape[i];
    }
    int length =
        snprintf(tensor->name, sizeof tensor->name, "%s%s", prefix, name);
    PEN_BUG_UNLESS(length < (int)sizeof tensor->name);
}

static void add_norm(struct pen_image_model *model, const char *prefix,
                     uint32_t channels)
{
    static const char *const names[] = {
        [PEN_IMAGE_NORM_GAIN] = "normalization.weight",
        [PEN_IMAGE_NORM_BIAS] = "normalization.bias",
        [PEN_IMAGE_RUNNING_MEAN] = "normalization.running_mean",
        [PEN_IMAGE_RUNNING_VARIANCE] = "normalization.running_var",
        [PEN_IMAGE_NUM_BATCHES] = "normalization.num_batches_tracked"};
    for (unsigned i = PEN_IMAGE_NORM_GAIN; i < PEN_IMAGE_NORM_TENSORS; i++)
        add_tensor(model, (enum pen_image_part)i, prefix, names[i],
                   i == PEN_IMAGE_NUM_BATCHES ? 0 : 1, &channels);
}

static void add_convolution(struct pen_image_model *model, const char *prefix,
                            struct pen_image_convolution *it)
{
    const uint32_t shape[] = {it->outputs, it->inputs, it->kernel, it->kernel};
    it->first_tensor = model->num_tensors;
    add_tensor(model, PEN_IMAGE_FILTERS, prefix,
               it->has_norm ? "convolution.weight" : "weight", 4, shape);
    if (it->has_norm)
        add_norm(model, prefix, it->outputs);
    else
        add_tensor(model, PEN_IMAGE_BIAS, prefix, "bias", 1, shape);
}

static struct pen_image_layer *add_layer(struct pen_image_model *model,
                                         enum pen_image_layer_kind kind)
{
    struct pen_image_layer *layer = &model->layers[model->num_layers++];
    *layer = (struct pen_image_layer){.kind = kind,
                                      .first_tensor = model->num_tensors};
    return layer;
}

static void end_layer(struct pen_image_model *model,
                      struct pen_image_layer *layer)
{
    layer->num_tensors = model->num_tensors - layer->first_tensor;
}

/* Returns the channels that come out. */
static uint32_t add_dense(struct pen_image_model *model,
                          enum pen_image_layer_kind kind, const char *prefix,
                          uint32_t inputs, uint32_t outputs)
{
    struct pen_image_layer *layer = add_layer(model, kind);
    const uint32_t shape[] = {outputs, inputs};
    layer->inputs = inputs;
    layer->outputs = outputs;
    add_tensor(model, PEN_IMAGE_MATRIX, prefix, "weight", 2, shape);
    add_tensor(model, PEN_IMAGE_BIAS, prefix, "bias", 1, shape);
    end_layer(model, layer);
    return outputs;
}

static struct pen_image_convolution normed(uint32_t inputs, uint32_t outputs,
                                           uint32_t kernel, uint32_t stride)
{
    return (struct pen_image_convolution){.inputs = inputs,
                                          .outputs = outputs,
                                          .kernel = kernel,
                                          .stride = stride,
                                          .padding = kernel / 2,
                                          .has_norm = true};
}

/* A block of He et al., CVPR 2016, figure 5: two convolutions, or three. */
struct block {
    uint32_t inputs;
    uint32_t outputs;
    uint32_t inner; /* of a bottleneck; 0: none */
    uint32_t stride;
    bool is_early; /* the first of a bottleneck has the stride */
};

static void choose_convolutions(const struct block *block,
                                struct pen_image_layer *layer)
{
    struct pen_image_convolution *it = layer->convolutions;
    if (block->inner == 0) {
        layer->num_convolutions = 2;
        it[0] = normed(block->inputs, block->outputs, 3, block->stride);
        it[1] = normed(block->outputs, block->outputs, 3, 1);
        return;
    }
    uint32_t first = block->is_early ? block->stride : 1;
    layer->num_convolutions = 3;
    it[0] = normed(block->inputs, block->inner, 1, first);
    it[1] = normed(block->inner, block->inner, 3, block->stride / first);
    it[2] = normed(block->inner, block->outputs, 1, 1);
}

static void add_residual(struct pen_image_model *model, const char *prefix,
                         const struct block *block)
{
    struct pen_image_layer *layer = add_layer(model, PEN_IMAGE_LAYER_RESIDUAL);
    char name[PEN_TENSOR_NAME_SIZE];
    choose_convolutions(block, layer);
    if (block->inputs != block->outputs || block->stride != 1) {
        layer->shortcut =
            normed(block->inputs, block->outputs, 1, block->stride);
        snprintf(name, sizeof name, "%sshortcut.", prefix);
        add_convolution(model, name, &layer->shortcut);
    }
    for (uint32_t i = 0; i < layer->num_convolutions; i++) {
        snprintf(name, sizeof name, "%slayer.%u.", prefix, i);
        add_convolution(model, name, &layer->convolutions[i]);
    }
    end_layer(model, layer);
}

/* ---- MLP and CNN ---- */

static void add_head(struct pen_image_model *model, const char *prefix,
                     uint32_t inputs, bool has_average)
{
    add_dense(model, PEN_IMAGE_LAYER_HEAD, prefix, inputs, model->num_labels);
    model->layers[model->num_layers - 1].has_average = has_average;
}

static void add_mlp(struct pen_image_model *model)
{
    uint32_t inputs =
        model->num_channels * model->image_size * model->image_size;
    char prefix[32];
    for (uint32_t i = 0; i < model->num_dense; i++) {
        snprintf(prefix, sizeof prefix, "dense.%u.", i);
        inputs = add_dense(model, PEN_IMAGE_LAYER_DENSE, prefix, inputs,
                           model->dense_sizes[i]);
    }
    add_head(model, "classifier.", inputs, false);
}

static void add_filters(struct pen_image_model *model, const char *prefix,
                        const struct pen_image_step *step, uint32_t inputs,
                        uint32_t turn)
{
    struct pen_image_layer *layer =
        add_layer(model, PEN_IMAGE_LAYER_CONVOLUTION);
    layer->num_convolutions = 1;
    layer->convolutions[0] =
        (struct pen_image_convolution){.inputs = inputs,
                                       .outputs = step->outputs,
                                       .kernel = step->kernel,
                                       .stride = turn == 0 ? step->stride : 1,
                                       .padding = step->padding,
                                       .has_norm = step->has_norm};
    if (turn == step->repeat - 1) {
        layer->pool_kernel = step->pool_kernel;
        layer->pool_stride = step->pool_stride;
        layer->pool_padding = step->pool_padding;
    }
    add_convolution(model, prefix, &layer->convolutions[0]);
    end_layer(model, layer);
}

/* Adds one layer of a step; its name has the number of its kind. */
static void add_turn(struct pen_image_model *model,
                     const struct pen_image_step *step, uint32_t inputs,
                     uint32_t turn, uint32_t number)
{
    char prefix[32];
    switch (step->kind) {
    case PEN_IMAGE_LAYER_CONVOLUTION:
        snprintf(prefix, sizeof prefix, "conv.%u.", number);
        add_filters(model, prefix, step, inputs, turn);
        break;
    case PEN_IMAGE_LAYER_RESIDUAL: {
        const struct block block = {.inputs = inputs,
                                    .outputs = step->outputs,
                                    .inner = step->inner,
                                    .stride = turn == 0 ? step->stride : 1};
        snprintf(prefix, sizeof prefix, "residual.%u.", number);
        add_residual(model, prefix, &block);
        break;
    }
    case PEN_IMAGE_LAYER_DENSE:
    case PEN_IMAGE_LAYER_HEAD:
        snprintf(prefix, sizeof prefix, "dense.%u.", number);
        add_dense(model, PEN_IMAGE_LAYER_DENSE, prefix, inputs, step->outputs);
        break;
    }
}

/*
 * Adds the layers; first_dense: numbers left of an image when dense layers
 * begin.
 */
static void add_cnn(struct pen_image_model *model, uint32_t first_dense)
{
    uint32_t inputs = model->num_channels;
    uint32_t numbers[PEN_IMAGE_LAYER_HEAD + 1] = {0};
    bool is_dense = false;
    for (uint32_t i = 0; i < model->num_steps; i++) {
        const struct pen_image_step *step = &model->steps[i];
        if (step->kind == PEN_IMAGE_LAYER_DENSE && !is_dense) {
            inputs = first_dense;
            is_dense = true;
        }
        for (uint32_t turn = 0; turn < step->repeat; turn++) {
            add_turn(model, step, inputs, turn, numbers[step->kind]++);
            inputs = step->outputs;
        }
    }
    if (!is_dense && !model->has_average)
        inputs = first_dense;
    add_head(model, "classifier.", inputs, model->has_average);
}

/*
 * Lists the steps: every convolution keeps the size, every pool halves it,
 * rounding down.
 */
static void list_steps(struct pen_image_model *model)
{
    for (uint32_t i = 0; i < model->num_stages; i++)
        model->steps[model->num_steps++] =
            (struct pen_image_step){.kind = PEN_IMAGE_LAYER_CONVOLUTION,
                                    .outputs = model->stage_sizes[i],
                                    .repeat = 1,
                                    .stride = 1,
                                    .kernel = model->kernel_size,
                                    .padding = model->kernel_size / 2,
                                    .pool_kernel = 2,
                                    .pool_stride = 2};
    for (uint32_t i = 0; i < model->num_dense; i++)
        model->steps[model->num_steps++] =
            (struct pen_image_step){.kind = PEN_IMAGE_LAYER_DENSE,
                                    .outputs = model->dense_sizes[i],
                                    .repeat = 1};
}

/* ---- ResNet ---- */

static void add_resnet(struct pen_image_model *model)
{
    struct pen_image_layer *stem =
        add_layer(model, PEN_IMAGE_LAYER_CONVOLUTION);
    stem->num_convolutions = 1;
    stem->convolutions[0] =
        normed(model->num_channels, model->embedding_size, 7, 2);
    stem->pool_kernel = 3;
    stem->pool_stride = 2;
    stem->pool_padding = 1;
    add_convolution(model, "resnet.embedder.embedder.", &stem->convolutions[0]);
    end_layer(model, stem);
    uint32_t channels = model->embedding_size;
    char prefix[64];
    for (uint32_t stage = 0; stage < model->num_stages; stage++)
        for (uint32_t i = 0; i < model->depths[stage]; i++) {
            bool is_halved =
                i == 0 && (stage > 0 || model->has_downsample_in_first_stage);
            snprintf(prefix, sizeof prefix,
                     "resnet.encoder.stages.%u.layers.%u.", stage, i);
            uint32_t outputs = model->stage_sizes[stage];
            const struct block block = {
                .inputs = channels,
                .outputs = outputs,
                .inner = model->is_bottleneck ? outputs / REDUCTION : 0,
                .stride = is_halved ? 2 : 1,
                .is_early = model->has_downsample_in_bottleneck};
            add_residual(model, prefix, &block);
            channels = outputs;
        }
    add_head(model, "classifier.1.", channels, true);
}

/*
 * Makes room for the most layers there can be: a few too many for a basic
 * ResNet.
 */
static pen_status make_room(struct pen_image_model *model, struct pen_text *why)
{
    size_t num_layers = model->num_stages + model->num_dense + 2;
    for (uint32_t i = 0; i < model->num_stages; i++)
        num_layers += model->depths[i];
    for (uint32_t i = 0; i < model->num_steps; i++)
        num_layers += model->steps[i].repeat;
    const size_t convolutions = PEN_IMAGE_MAX_CONVOLUTIONS + 1;
    size_t most = convolutions * PEN_IMAGE_NORM_TENSORS;
    model->layers = calloc(num_layers, sizeof *model->layers);
    model->tensors = calloc(num_layers * most, sizeof *model->tensors);
    if (model->layers != NULL && model->tensors != NULL)
        return PEN_OK;
    pen_why(why, "no memory for a model of %zu layers", num_layers);
    return PEN_NOMEM;
}

pen_status pen__image_model_create(const struct pen_image_model *settings,
                                   struct pen_image_model **out,
                                   struct pen_text *why)
{
    struct pen_image_model *model = malloc(sizeof *model);
    if (model == NULL) {
        pen_why(why, "no memory for a model");
        return PEN_NOMEM;
    }
    *model = *settings;
    uint32_t first_dense = 0;
    pen_status status = PEN_OK;
    if (model->family == PEN_IMAGE_FAMILY_CNN) {
        if (model->kernel_size > 0)
            list_steps(model);
        status = pen__image_steps_check(model, &first_dense, why);
    }
    if (status == PEN_OK)
        status = make_room(model, why);
    if (status != PEN_OK) {
        pen_image_model_free(model);
        return status;
    }
    if (model->family == PEN_IMAGE_FAMILY_RESNET)
        add_resnet(model);
    else if (model->family == PEN_IMAGE_FAMILY_CNN)
        add_cnn(model, first_dense);
    else
        add_mlp(model);
    for (uint32_t i = 0; i < model->num_tensors; i++)
        if (model->tensors[i].is_trained)
            model->num_parameters += model->tensors[i].num_elements;
    *out = model;
    return PEN_OK;
}

void pen_image_model_free(struct pen_image_model *model)
{
    if (model == NULL)
        return;
    free(model->layers);
    free(model->tensors);
    free(model);
}
