#include "core/image_model_cost.h"

enum { USUAL_SIZE = 224 }; /* of images that may have any */

uint64_t pen_image_extent_numbers(const struct pen_image_extent *extent)
{
    return extent->channels * extent->height * extent->width;
}

static uint64_t steps(uint64_t size, uint32_t kernel, uint32_t stride,
                      uint32_t padding)
{
    uint64_t padded = size + 2 * (uint64_t)padding;
    return padded < kernel ? 0 : (padded - kernel) / stride + 1;
}

struct pen_image_extent
pen_image_convolved(const struct pen_image_convolution *convolution,
                    const struct pen_image_extent *in)
{
    uint32_t kernel = convolution->kernel;
    uint32_t stride = convolution->stride;
    uint32_t padding = convolution->padding;
    return (struct pen_image_extent){convolution->outputs,
                                     steps(in->height, kernel, stride, padding),
                                     steps(in->width, kernel, stride, padding)};
}

/* Returns the extent of a layer's output. */
static struct pen_image_extent pass(const struct pen_image_layer *layer,
                                    struct pen_image_extent extent)
{
    for (uint32_t i = 0; i < layer->num_convolutions; i++)
        extent = pen_image_convolved(&layer->convolutions[i], &extent);
    if (layer->pool_kernel > 0) {
        extent.height = steps(extent.height, layer->pool_kernel,
                              layer->pool_stride, layer->pool_padding);
        extent.width = steps(extent.width, layer->pool_kernel,
                             layer->pool_stride, layer->pool_padding);
    }
    if (layer->outputs > 0)
        extent = (struct pen_image_extent){layer->outputs, 1, 1};
    return extent;
}

void pen_image_layer_extents(const struct pen_image_model *model,
                             uint32_t layer, struct pen_image_extent *in,
                             struct pen_image_extent *out)
{
    uint32_t size = model->image_size == 0 ? USUAL_SIZE : model->image_size;
    struct pen_image_extent extent = {model->num_channels, size, size};
    for (uint32_t i = 0; i < layer; i++)
        extent = pass(&model->layers[i], extent);
    *in = extent;
    *out = pass(&model->layers[layer], extent);
}

uint64_t pen_image_layer_parameters(const struct pen_image_model *model,
                                    uint32_t layer)
{
    const struct pen_image_layer *it = &model->layers[layer];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < it->num_tensors; i++) {
        const struct pen_image_tensor *tensor =
            &model->tensors[it->first_tensor + i];
        sum += tensor->is_trained ? tensor->num_elements : 0;
    }
    return sum;
}

/* ---- flops ---- */

/*
 * Returns the flops for one image; *extent changes from the input to the
 * output.
 */
static double convolve(const struct pen_image_convolution *it,
                       struct pen_image_extent *extent)
{
    *extent = pen_image_convolved(it, extent);
    return 2.0 * (double)(extent->height * extent->width) * it->outputs *
           it->inputs * it->kernel * it->kernel;
}

static double forward_flops(const struct pen_image_layer *layer,
                            struct pen_image_extent extent)
{
    struct pen_image_extent around = extent;
    double sum = 2.0 * layer->inputs * layer->outputs;
    for (uint32_t i = 0; i < layer->num_convolutions; i++)
        sum += convolve(&layer->convolutions[i], &extent);
    if (layer->shortcut.outputs > 0)
        sum += convolve(&layer->shortcut, &around);
    return sum;
}

double pen_image_model_step_flops(const struct pen_image_model *model,
                                  uint64_t batch, uint32_t height,
                                  uint32_t width)
{
    struct pen_image_extent extent = {model->num_channels, height, width};
    double sum = 0;
    for (uint32_t i = 0; i < model->num_layers; i++) {
        sum += (i == 0 ? 2 : 3) * forward_flops(&model->layers[i], extent);
        extent = pass(&model->layers[i], extent);
    }
    return sum * (double)batch;
}

/* ---- bytes ---- */

/* Numbers of one image that the layer keeps, its input apart. */
static uint64_t kept_numbers(const struct pen_image_layer *layer,
                             struct pen_image_extent extent)
{
    uint64_t sum = layer->outputs;
    if (layer->has_average)
        sum += layer->inputs;
    if (layer->shortcut.outputs > 0) {
        struct pen_image_extent around =
            pen_image_convolved(&layer->shortcut, &extent);
        sum += pen_image_extent_numbers(&around);
    }
    for (uint32_t i = 0; i < layer->num_convolutions; i++) {
        const struct pen_image_convolution *it = &layer->convolutions[i];
        extent = pen_image_convolved(it, &extent);
        sum += (it->has_norm ? 2 : 1) * pen_image_extent_numbers(&extent);
    }
    return sum;
}

void pen_image_layer_cost(const struct pen_image_model *model, uint32_t layer,
                          const struct pen_workload *workload,
                          struct pen_layer_cost *out)
{
    const struct pen_image_layer *it = &model->layers[layer];
    struct pen_image_extent in;
    struct pen_image_extent after;
    pen_image_layer_extents(model, layer, &in, &after);
    double flops = (double)workload->batch * forward_flops(it, in);
    uint64_t bytes = workload->batch * workload->element_bytes;
    uint64_t kept = kept_numbers(it, in);
    bool is_head = layer == model->num_layers - 1;
    *out = (struct pen_layer_cost){
        .forward_flops = flops,
        .input_flops = layer == 0 ? 0 : flops,
        .weight_flops = flops,
        .output_bytes = is_head ? 0 : bytes * pen_image_extent_numbers(&after),
        .stash_bytes = bytes * (pen_image_extent_numbers(&in) + kept),
        .hold_bytes = bytes * kept};
}
