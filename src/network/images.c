/* Makes the network of a model for images, or a range of its layers. */
#include "network/images.h"

#include "network/image_layers.h"
#include "network/image_tensors.h"

#include <stdlib.h>

static pen_status check(const struct pen_image_options *options,
                        struct pen_text *why)
{
    const struct pen_image_model *model = options->model;
    size_t size = model->image_size;
    if (options->batch == 0) {
        pen_why(why, "a micro-batch needs at least one image");
        return PEN_INVALID;
    }
    if (options->num_layers == 0 || options->first_layer >= model->num_layers ||
        options->num_layers > model->num_layers - options->first_layer) {
        pen_why(why, "layers %u to %u are beyond the model's %u layers",
                options->first_layer,
                options->first_layer + options->num_layers, model->num_layers);
        return PEN_INVALID;
    }
    if (size > 0 && ((options->height > 0 && options->height != size) ||
                     (options->width > 0 && options->width != size))) {
        pen_why(why, "the model is for images of %zu x %zu, not of %zu x %zu",
                size, size, options->height, options->width);
        return PEN_INVALID;
    }
    if (size == 0 && (options->height == 0 || options->width == 0)) {
        pen_why(why, "the model takes images of any size; give the size");
        return PEN_INVALID;
    }
    return PEN_OK;
}

static void walk(size_t image[2], uint32_t kernel, uint32_t stride,
                 uint32_t padding)
{
    const struct pen_image_window window = {.image = {image[0], image[1]},
                                            .kernel = {kernel, kernel},
                                            .stride = {stride, stride},
                                            .padding = {padding, padding}};
    image[0] = pen_image_window_steps(&window, 0);
    image[1] = pen_image_window_steps(&window, 1);
}

/* Advances the place to the layer's output. */
static void advance(struct pen__image_place *place)
{
    const struct pen_image_layer *model = place->model;
    for (uint32_t i = 0; i < model->num_convolutions; i++) {
        const struct pen_image_convolution *it = &model->convolutions[i];
        walk(place->image, it->kernel, it->stride, it->padding);
        place->channels = it->outputs;
    }
    if (model->pool_kernel > 0)
        walk(place->image, model->pool_kernel, model->pool_stride,
             model->pool_padding);
    if (model->outputs > 0) {
        place->channels = model->outputs;
        place->image[0] = place->image[1] = 1;
    }
}

static pen_status create_layer(const struct pen__image_place *place,
                               struct pen__layer **out, struct pen_text *why)
{
    switch (place->model->kind) {
    case PEN_IMAGE_LAYER_CONVOLUTION:
        return pen__image_convolution_create(place, out, why);
    case PEN_IMAGE_LAYER_RESIDUAL:
        return pen__image_residual_create(place, out, why);
    case PEN_IMAGE_LAYER_DENSE:
        return pen__image_dense_create(place, out, why);
    case PEN_IMAGE_LAYER_HEAD:
        break;
    }
    return pen__image_head_create(place, out, why);
}

static pen_status build(struct pen_network *network, size_t height,
                        size_t width, struct pen_text *why)
{
    const struct pen_image_model *model = network->image_model;
    uint32_t first = network->options.first_layer;
    uint32_t count = network->options.num_layers;
    struct pen__image_place place = {.network = network,
                                     .channels = model->num_channels,
                                     .image = {height, width}};
    network->layers = calloc(count, sizeof *network->layers);
    if (network->layers == NULL)
        return PEN_NOMEM;
    pen_status status = pen__image_statistics_create(network, why);
    for (uint32_t k = 0; status == PEN_OK && k < first + count; k++) {
        place.layer = k;
        place.model = &model->layers[k];
        place.is_first = k == 0;
        if (k >= first)
            status = create_layer(&place, &network->layers[k - first], why);
        advance(&place);
    }
    return status == PEN_OK ? pen__network_seal(network, why) : status;
}

pen_status pen_network_create_images(const struct pen_image_options *options,
                                     struct pen_network **out,
                                     struct pen_text *why)
{
    const struct pen_image_model *model = options->model;
    pen_status status = check(options, why);
    if (status != PEN_OK)
        return status;
    struct pen_network *network = calloc(1, sizeof *network);
    if (network == NULL)
        return PEN_NOMEM;
    network->image_model = model;
    network->options = (struct pen_network_options){
        .engine = options->engine,
        .first_layer = options->first_layer,
        .num_layers = options->num_layers,
        .batch = options->batch,
        .sequence = 1,
        .moments = options->moments,
        .is_forward_only = options->is_forward_only};
    bool is_fixed = model->image_size > 0;
    status = build(network, is_fixed ? model->image_size : options->height,
                   is_fixed ? model->image_size : options->width, why);
    if (status != PEN_OK) {
        pen_network_free(network);
        return status;
    }
    *out = network;
    return PEN_OK;
}

const struct pen_image_model *
pen_network_image_model(const struct pen_network *network)
{
    return network->image_model;
}
