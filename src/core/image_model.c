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

static void add_dense_layers(struct pen_image_model *model, uint32_t inputs)
{
    char prefix[32];
    for (uint32_t i = 0; i < model->num_dense; i++) {
        snprintf(prefix, sizeof prefix, "dense.%u.", i);
        inputs = add_dense(model, PEN_IMAGE_LAYER_DENSE, prefix, inputs,
                           model->dense_sizes[i]);
    }
    add_dense(model, PEN_IMAGE_LAYER_HEAD, "classifier.", inputs,
              model->num_labels);
}

static void add_mlp(struct pen_image_model *model)
{
    add_dense_layers(model, model->num_channels * model->image_size *
                                model->image_size);
}

/* Every convolution keeps the size, every pool halves it, rounding down. */
static void add_cnn(struct pen_image_model *model)
{
    uint32_t channels = model->num_channels;
    uint32_t size = model->image_size;
    char prefix[32];
    for (uint32_t i = 0; i < model->num_stages; i++) {
        struct pen_image_layer *layer =
            add_layer(model, PEN_IMAGE_LAYER_CONVOLUTION);
        layer->num_convolutions = 1;
        layer->convolutions[0] =
            (struct pen_image_convolution){.inputs = channels,
                                           .outputs = model->stage_sizes[i],
                                           .kernel = model->kernel_size,
                                           .stride = 1,
                                           .padding = model->kernel_size / 2};
        layer->pool_kernel = layer->pool_stride = 2;
        snprintf(prefix, sizeof prefix, "conv.%u.", i);
        add_convolution(model, prefix, &layer->convolutions[0]);
        end_layer(model, layer);
        channels = model->stage_sizes[i];
        size /= 2;
    }
    add_dense_layers(model, channels * size * size);
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

/* He et al., CVPR 2016, figure 5: two convolutions, or three. */
static void choose_convolutions(const struct pen_image_model *model,
                                uint32_t inputs, uint32_t outputs,
                                uint32_t stride, struct pen_image_layer *layer)
{
    struct pen_image_convolution *it = layer->convolutions;
    if (!model->is_bottleneck) {
        layer->num_convolutions = 2;
        it[0] = normed(inputs, outputs, 3, stride);
        it[1] = normed(outputs, outputs, 3, 1);
        return;
    }
    bool is_early = model->has_downsample_in_bottleneck;
    uint32_t inner = outputs / REDUCTION;
    layer->num_convolutions = 3;
    it[0] = normed(inputs, inner, 1, is_early ? stride : 1);
    it[1] = normed(inner, inner, 3, is_early ? 1 : stride);
    it[2] = normed(inner, outputs, 1, 1);
}

static void add_residual(struct pen_image_model *model, const char *prefix,
                         uint32_t inputs, uint32_t outputs, uint32_t stride)
{
    struct pen_image_layer *layer = add_layer(model, PEN_IMAGE_LAYER_RESIDUAL);
    char name[PEN_TENSOR_NAME_SIZE];
    choose_convolutions(model, inputs, outputs, stride, layer);
    if (inputs != outputs || stride != 1) {
        layer->shortcut = normed(inputs, outputs, 1, stride);
        snprintf(name, sizeof name, "%sshortcut.", prefix);
        add_convolution(model, name, &layer->shortcut);
    }
    for (uint32_t i = 0; i < layer->num_convolutions; i++) {
        snprintf(name, sizeof name, "%slayer.%u.", prefix, i);
        add_convolution(model, name, &layer->convolutions[i]);
    }
    end_layer(model, layer);
}

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
            add_residual(model, prefix, channels, model->stage_sizes[stage],
                         is_halved ? 2 : 1);
            channels = model->stage_sizes[stage];
        }
    add_dense(model, PEN_IMAGE_LAYER_HEAD, "classifier.1.", channels,
              model->num_labels);
    model->layers[model->num_layers - 1].has_average = true;
}

/* As many as there can be: a few too many for a basic ResNet. */
static pen_status make_room(struct pen_image_model *model, struct pen_text *why)
{
    size_t num_layers = model->num_stages + model->num_dense + 2;
    for (uint32_t i = 0; i < model->num_stages; i++)
        num_layers += model->depths[i];
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
    pen_status status = make_room(model, why);
    if (status != PEN_OK) {
        pen_image_model_free(model);
        return status;
    }
    if (model->family == PEN_IMAGE_FAMILY_RESNET)
        add_resnet(model);
    else if (model->family == PEN_IMAGE_FAMILY_CNN)
        add_cnn(model);
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
