/* A convolution and its norm, as part of a layer; see image_layers.h. */
#include "network/image_layers.h"

/* As torch.nn.BatchNorm2d has them, and no config.json changes them. */
static const double norm_epsilon = 1e-5;

static pen_status add_norm(const struct pen__image_place *place,
                           uint32_t first_tensor, struct pen__filter *filter,
                           struct pen_text *why)
{
    struct pen_network *network = place->network;
    struct pen_batch_norm *norm = &filter->norm;
    pen_status status = pen__image_parameter(place, PEN_PARAMETER_VECTORS,
                                             first_tensor + PEN_IMAGE_NORM_GAIN,
                                             &norm->gain, why);
    if (status == PEN_OK)
        status = pen__image_parameter(place, PEN_PARAMETER_VECTORS,
                                      first_tensor + PEN_IMAGE_NORM_BIAS,
                                      &norm->bias, why);
    norm->epsilon = norm_epsilon;
    norm->momentum = PEN_STATISTICS_MOMENTUM;
    norm->running_mean =
        pen_network_statistic(network, first_tensor + PEN_IMAGE_RUNNING_MEAN);
    norm->running_variance = pen_network_statistic(
        network, first_tensor + PEN_IMAGE_RUNNING_VARIANCE);
    filter->num_batches =
        pen_network_statistic(network, first_tensor + PEN_IMAGE_NUM_BATCHES);
    return status;
}

static void lay_out_norm(const struct pen__image_place *place,
                         uint32_t channels, struct pen__layer *layer,
                         struct pen__filter *filter)
{
    enum pen_precision dtype = place->network->options.engine->dtype;
    size_t stats = channels * pen_precision_bytes(pen_precision_master(dtype));
    size_t bytes = filter->count_out * pen_precision_bytes(dtype);
    filter->raw = pen__take(&layer->stash_bytes, bytes);
    filter->mean = pen__take(&layer->stash_bytes, stats);
    filter->rstd = pen__take(&layer->stash_bytes, stats);
    filter->raw_gradient = pen__take(&layer->hold_bytes, bytes);
}

static pen_status check_norm(const struct pen__image_place *place,
                             const struct pen_batch_norm *norm,
                             struct pen_text *why)
{
    if (place->network->options.is_forward_only ||
        norm->batch * norm->positions > 1)
        return PEN_OK;
    pen_why(why,
            "layer %u has one value per channel, too few for the variance "
            "of a norm in training; use a larger batch or larger images",
            place->layer);
    return PEN_INVALID;
}

pen_status pen__filter_init(const struct pen__image_place *place,
                            const struct pen_image_convolution *model,
                            struct pen__layer *layer, struct pen__filter *out,
                            struct pen_text *why)
{
    struct pen_engine *engine = place->network->options.engine;
    size_t batch = place->network->options.batch;
    struct pen_convolution *convolution = &out->convolution;
    struct pen_image_window *window = &convolution->window;
    *out = (struct pen__filter){0};
    *window =
        (struct pen_image_window){.batch = batch,
                                  .channels = model->inputs,
                                  .image = {place->image[0], place->image[1]},
                                  .kernel = {model->kernel, model->kernel},
                                  .stride = {model->stride, model->stride},
                                  .padding = {model->padding, model->padding}};
    size_t positions =
        pen_image_window_steps(window, 0) * pen_image_window_steps(window, 1);
    out->count_out = batch * model->outputs * positions;
    pen_status status =
        pen__image_parameter(place, PEN_PARAMETER_FILTERS, model->first_tensor,
                             &convolution->weight, why);
    if (status == PEN_OK && !model->has_norm)
        status = pen__image_parameter(place, PEN_PARAMETER_VECTORS,
                                      model->first_tensor + 1,
                                      &convolution->bias, why);
    if (status == PEN_OK)
        status = engine->ops->convolution_prepare(engine, convolution, why);
    if (status != PEN_OK || !model->has_norm)
        return status;
    out->norm.batch = batch;
    out->norm.channels = model->outputs;
    out->norm.positions = positions;
    lay_out_norm(place, model->outputs, layer, out);
    status = check_norm(place, &out->norm, why);
    return status == PEN_OK ? add_norm(place, model->first_tensor, out, why)
                            : status;
}

void pen__filter_forward(const struct pen__filter *filter,
                         const struct pen__pass *pass, const void *x, void *y)
{
    struct pen_engine *engine = pass->engine;
    const struct pen_batch_norm *norm = &filter->norm;
    if (norm->gain == NULL) {
        engine->ops->convolution_forward(engine, &filter->convolution, x, y);
        return;
    }
    void *raw = pen__at(pass->stash, filter->raw);
    void *mean = pen__at(pass->stash, filter->mean);
    void *rstd = pen__at(pass->stash, filter->rstd);
    engine->ops->convolution_forward(engine, &filter->convolution, x, raw);
    if (pass->is_forward_only && !pass->measures) {
        engine->ops->batch_norm_recall(engine, norm, mean, rstd);
    } else {
        engine->ops->batch_norm_measure(engine, norm, raw, mean, rstd);
        ++*filter->num_batches;
    }
    engine->ops->batch_norm_forward(engine, norm, raw, mean, rstd, y);
}

void pen__filter_backward_input(const struct pen__filter *filter,
                                const struct pen__pass *pass, const void *dy,
                                void *dx)
{
    struct pen_engine *engine = pass->engine;
    if (filter->norm.gain != NULL) {
        void *raw_gradient = pen__at(pass->hold, filter->raw_gradient);
        engine->ops->batch_norm_backward_input(
            engine, &filter->norm, pen__at(pass->stash, filter->raw),
            pen__at(pass->stash, filter->mean),
            pen__at(pass->stash, filter->rstd), dy, raw_gradient);
        dy = raw_gradient;
    }
    if (dx != NULL)
        engine->ops->convolution_backward_input(engine, &filter->convolution,
                                                dy, dx);
}

void pen__filter_backward_weight(const struct pen__filter *filter,
                                 const struct pen__pass *pass, const void *x,
                                 const void *dy)
{
    struct pen_engine *engine = pass->engine;
    if (filter->norm.gain != NULL) {
        engine->ops->batch_norm_backward_weight(
            engine, &filter->norm, pen__at(pass->stash, filter->raw),
            pen__at(pass->stash, filter->mean),
            pen__at(pass->stash, filter->rstd), dy);
        dy = pen__at(pass->hold, filter->raw_gradient);
    }
    engine->ops->convolution_backward_weight(engine, &filter->convolution, x,
                                             dy);
}
