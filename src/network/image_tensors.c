/* See image_tensors.h. */
#include "network/image_tensors.h"

#include "base/bug.h"
#include "network/images.h"
#include "network/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* fan-in: what one output reads; fan-out: what one input reaches. */
static double filter_deviation(const struct pen_image_model *model,
                               const struct pen_image_tensor *tensor)
{
    bool is_resnet = model->family == PEN_IMAGE_FAMILY_RESNET;
    uint64_t channels = tensor->shape[is_resnet ? 0 : 1];
    return sqrt(2 / (double)(channels * tensor->shape[2] * tensor->shape[3]));
}

void pen__image_fill(const struct pen_image_model *model, uint64_t seed,
                     const struct pen__fill *fill)
{
    const struct pen_image_tensor *tensor =
        &model->tensors[fill->slice->tensor];
    const struct pen_image_layer *layer = &model->layers[tensor->layer];
    if (tensor->part == PEN_IMAGE_FILTERS)
        pen__fill_normal(fill, seed, filter_deviation(model, tensor));
    else if (layer->inputs > 0) /* a dense layer, its bias too */
        pen__fill_uniform(fill, seed, 1 / sqrt(layer->inputs));
    else
        pen__fill_constant(fill, tensor->part == PEN_IMAGE_NORM_GAIN ? 1 : 0);
}

static bool is_count(const struct pen_image_tensor *tensor)
{
    return tensor->part == PEN_IMAGE_NUM_BATCHES;
}

static size_t bytes_of(const struct pen_network *network,
                       const struct pen_image_tensor *tensor)
{
    enum pen_precision stat =
        pen_precision_master(network->options.engine->dtype);
    return tensor->is_trained ? 0
           : is_count(tensor)
               ? sizeof(uint64_t)
               : tensor->num_elements * pen_precision_bytes(stat);
}

/* The tensors of the network are *first to *end - 1. */
static void range_of(const struct pen_network *network, uint32_t *first,
                     uint32_t *end)
{
    const struct pen_image_layer *layers =
        &network->image_model->layers[network->options.first_layer];
    const struct pen_image_layer *last =
        &layers[network->options.num_layers - 1];
    *first = layers->first_tensor;
    *end = last->first_tensor + last->num_tensors;
}

/* Where a tensor begins in the block, or would. */
static size_t offset_of(const struct pen_network *network, uint32_t tensor)
{
    uint32_t first, end;
    size_t at = 0;
    range_of(network, &first, &end);
    PEN_BUG_UNLESS(tensor >= first && tensor <= end);
    for (uint32_t i = first; i < tensor; i++)
        pen__take(&at, bytes_of(network, &network->image_model->tensors[i]));
    return at;
}

void *pen_network_statistic(struct pen_network *network, uint32_t tensor)
{
    PEN_BUG_UNLESS(!network->image_model->tensors[tensor].is_trained);
    return pen__at(network->statistics, offset_of(network, tensor));
}

void *pen_network_statistics(struct pen_network *network, size_t *bytes)
{
    *bytes = network->statistic_bytes;
    return network->statistics;
}

pen_status pen__image_statistics_create(struct pen_network *network,
                                        struct pen_text *why)
{
    uint32_t first, end;
    range_of(network, &first, &end);
    size_t bytes = offset_of(network, end) + 64; /* never none */
    network->statistic_bytes = bytes;
    network->statistics =
        pen_engine_take(network->options.engine, PEN_PLACE_STAGING, bytes);
    if (network->statistics == NULL) {
        pen_why(why, "no memory for %zu bytes of running statistics", bytes);
        return PEN_NOMEM;
    }
    pen__image_statistics_reset(network);
    return PEN_OK;
}

void pen__image_statistics_reset(struct pen_network *network)
{
    const struct pen_image_tensor *tensors = network->image_model->tensors;
    uint32_t first, end;
    range_of(network, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        if (tensors[i].is_trained)
            continue;
        bool is_variance = tensors[i].part == PEN_IMAGE_RUNNING_VARIANCE;
        const struct pen_tensor_slice slice = {
            .tensor = i,
            .piece =
                pen_tensor_piece_whole(tensors[i].num_dims, tensors[i].shape)};
        const struct pen__fill fill = {&slice, slice.piece,
                                       network->options.engine->dtype ==
                                           PEN_PRECISION_F64,
                                       pen_network_statistic(network, i), 0};
        if (is_count(&tensors[i]))
            *(uint64_t *)fill.plain = 0;
        else
            pen__fill_constant(&fill, is_variance ? 1 : 0);
    }
}

static void load_stats(const struct pen_network *network,
                       const struct pen_safetensor *from, size_t count,
                       void *to)
{
    if (network->options.engine->dtype != PEN_PRECISION_F64) {
        pen_dtype_to_float(from->dtype, from->bytes, count, to);
        return;
    }
    size_t bytes = pen_dtype_bits(from->dtype) / 8;
    for (size_t i = 0; i < count; i++) {
        float value;
        pen_dtype_to_float(from->dtype, from->bytes + i * bytes, 1, &value);
        ((double *)to)[i] = (double)value;
    }
}

pen_status pen_network_load_statistics(struct pen_network *network,
                                       const struct pen_weights *weights,
                                       struct pen_text *why)
{
    const struct pen_image_model *model = network->image_model;
    uint32_t first, end;
    if (model == NULL)
        return PEN_OK;
    range_of(network, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        const struct pen_safetensor *found = NULL;
        if (model->tensors[i].is_trained)
            continue;
        pen_status status =
            pen_weights_find_image_tensor(weights, model, i, &found, why);
        if (status != PEN_OK)
            return status;
        void *to = pen_network_statistic(network, i);
        if (is_count(&model->tensors[i]))
            memcpy(to, found->bytes, sizeof(uint64_t));
        else
            load_stats(network, found, model->tensors[i].num_elements, to);
    }
    return PEN_OK;
}
