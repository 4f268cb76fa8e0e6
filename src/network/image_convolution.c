/* Convolution, norm if any, ReLU, max pool if any. */
#include "network/image_layers.h"

#include <stdlib.h>

struct convolution {
    struct pen__layer base;
    struct pen__image_input input;
    struct pen__filter filter;
    bool has_pool;
    struct pen_pool pool;
    /* In the stash: what goes into the pool or, without one, the ReLU. */
    size_t active;
    size_t active_gradient; /* in the hold: of what goes into the ReLU */
};

static struct convolution *convolution_of(struct pen__layer *layer)
{
    return (struct convolution *)layer;
}

static void free_convolution(struct pen__layer *layer)
{
    free(layer);
}

static void forward(struct pen__layer *layer, const struct pen__pass *pass,
                    const void *x, void *y)
{
    struct convolution *self = convolution_of(layer);
    struct pen_engine *engine = pass->engine;
    void *active = pen__at(pass->stash, self->active);
    pen__image_input_read(&self->input, pass);
    pen__filter_forward(&self->filter, pass,
                        pen__image_input_at(&self->input, pass, x), active);
    engine->ops->relu_forward(engine, self->filter.count_out, active,
                              self->has_pool ? active : y);
    if (self->has_pool)
        engine->ops->pool_forward(engine, &self->pool, active, y);
}

static void backward_input(struct pen__layer *layer,
                           const struct pen__pass *pass, const void *x,
                           const void *dy, void *dx)
{
    struct convolution *self = convolution_of(layer);
    struct pen_engine *engine = pass->engine;
    void *active = pen__at(pass->stash, self->active);
    void *gradient = pen__at(pass->hold, self->active_gradient);
    (void)x;
    if (self->has_pool)
        engine->ops->pool_backward(engine, &self->pool, active, dy, gradient);
    /* Before the ReLU or after it: the same ones are positive. */
    engine->ops->relu_backward(engine, self->filter.count_out, active,
                               self->has_pool ? gradient : dy, gradient);
    pen__filter_backward_input(&self->filter, pass, gradient, dx);
}

static void backward_weight(struct pen__layer *layer,
                            const struct pen__pass *pass, const void *x,
                            const void *dy)
{
    struct convolution *self = convolution_of(layer);
    (void)dy;
    pen__filter_backward_weight(&self->filter, pass,
                                pen__image_input_at(&self->input, pass, x),
                                pen__at(pass->hold, self->active_gradient));
}

static const struct pen__layer_ops convolution_ops = {
    .free = free_convolution,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};

/* Without a pool, windows of one position, which change no size. */
static void add_pool(const struct pen_image_layer *model,
                     const struct pen__filter *filter, struct pen_pool *out)
{
    const struct pen_image_window *under = &filter->convolution.window;
    bool has_pool = model->pool_kernel > 0;
    size_t kernel = has_pool ? model->pool_kernel : 1;
    size_t stride = has_pool ? model->pool_stride : 1;
    *out = (struct pen_pool){
        .kind = PEN_POOL_MAX,
        .window = {.batch = under->batch,
                   .channels = model->convolutions[0].outputs,
                   .image = {pen_image_window_steps(under, 0),
                             pen_image_window_steps(under, 1)},
                   .kernel = {kernel, kernel},
                   .stride = {stride, stride},
                   .padding = {model->pool_padding, model->pool_padding}}};
}

pen_status pen__image_convolution_create(const struct pen__image_place *place,
                                         struct pen__layer **out,
                                         struct pen_text *why)
{
    struct convolution *self = calloc(1, sizeof *self);
    if (self == NULL)
        return PEN_NOMEM;
    struct pen__layer *base = &self->base;
    base->ops = &convolution_ops;
    pen__image_input_init(place, base, &self->input);
    pen_status status = pen__filter_init(place, &place->model->convolutions[0],
                                         base, &self->filter, why);
    if (status != PEN_OK) {
        free(self);
        return status;
    }
    self->has_pool = place->model->pool_kernel > 0;
    add_pool(place->model, &self->filter, &self->pool);
    const struct pen_image_window *window = &self->pool.window;
    size_t pixels = window->channels * window->image[0] * window->image[1];
    size_t active_bytes = pen__image_bytes(place, pixels);
    self->active = pen__take(&base->stash_bytes, active_bytes);
    self->active_gradient = pen__take(&base->hold_bytes, active_bytes);
    base->output_bytes = pen__align(pen__image_bytes(
        place, window->channels * pen_image_window_steps(window, 0) *
                   pen_image_window_steps(window, 1)));
    *out = base;
    return PEN_OK;
}
