#include "core/image_model_cost.h"

/* Height and width of what goes into a layer, then of what comes out. */
struct extent {
    uint64_t height;
    uint64_t width;
};

static uint64_t steps(uint64_t size, uint32_t kernel, uint32_t stride,
                      uint32_t padding)
{
    uint64_t padded = size + 2 * (uint64_t)padding;
    return padded < kernel ? 0 : (padded - kernel) / stride + 1;
}

static struct extent walk(struct extent in, uint32_t kernel, uint32_t stride,
                          uint32_t padding)
{
    return (struct extent){steps(in.height, kernel, stride, padding),
                           steps(in.width, kernel, stride, padding)};
}

/* Of one image. */
static double convolve(const struct pen_image_convolution *it,
                       struct extent *extent)
{
    *extent = walk(*extent, it->kernel, it->stride, it->padding);
    return 2.0 * (double)(extent->height * extent->width) * it->outputs *
           it->inputs * it->kernel * it->kernel;
}

static double forward_flops(const struct pen_image_layer *layer,
                            struct extent *extent)
{
    struct extent around = *extent;
    double sum = 2.0 * layer->inputs * layer->outputs;
    for (uint32_t i = 0; i < layer->num_convolutions; i++)
        sum += convolve(&layer->convolutions[i], extent);
    if (layer->shortcut.outputs > 0)
        sum += convolve(&layer->shortcut, &around);
    if (layer->pool_kernel > 0)
        *extent = walk(*extent, layer->pool_kernel, layer->pool_stride,
                       layer->pool_padding);
    return sum;
}

double pen_image_model_step_flops(const struct pen_image_model *model,
                                  uint64_t batch, uint32_t height,
                                  uint32_t width)
{
    struct extent extent = {height, width};
    double sum = 0;
    for (uint32_t i = 0; i < model->num_layers; i++)
        sum += (i == 0 ? 2 : 3) * forward_flops(&model->layers[i], &extent);
    return sum * (double)batch;
}
