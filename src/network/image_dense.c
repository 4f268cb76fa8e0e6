/* A dense layer of a network for images: y = ReLU(x W^T + bias). */
#include "network/image_layers.h"

#include <stdlib.h>

struct dense {
    struct pen__layer base;
    struct pen__image_input input;
    struct pen_linear linear;
    size_t count_out;
    size_t raw;          /* in the stash: before the ReLU */
    size_t raw_gradient; /* in the hold */
};

static struct dense *dense_of(struct pen__layer *layer)
{
    return (struct dense *)layer;
}

static void free_dense(struct pen__layer *layer)
{
    free(layer);
}

static void forward(struct pen__layer *layer, const struct pen__pass *pass,
                    const void *x, void *y)
{
    struct dense *self = dense_of(layer);
    struct pen_engine *engine = pass->engine;
    void *raw = pen__at(pass->stash, self->raw);
    pen__image_input_read(&self->input, pass);
    engine->ops->linear_forward(engine, &self->linear,
                                pen__image_input_at(&self->input, pass, x),
                                NULL, raw);
    engine->ops->relu_forward(engine, self->count_out, raw, y);
}

/* The ReLU's input and output serve equally: the same elements are positive. */
static void backward_input(struct pen__layer *layer,
                           const struct pen__pass *pass, const void *x,
                           const void *dy, void *dx)
{
    struct dense *self = dense_of(layer);
    struct pen_engine *engine = pass->engine;
    void *gradient = pen__at(pass->hold, self->raw_gradient);
    (void)x;
    engine->ops->relu_backward(engine, self->count_out,
                               pen__at(pass->stash, self->raw), dy, gradient);
    if (dx != NULL)
        engine->ops->linear_backward_input(engine, &self->linear, gradient, dx);
}

static void backward_weight(struct pen__layer *layer,
                            const struct pen__pass *pass, const void *x,
                            const void *dy)
{
    struct dense *self = dense_of(layer);
    (void)dy;
    pass->engine->ops->linear_backward_weight(
        pass->engine, &self->linear, pen__image_input_at(&self->input, pass, x),
        pen__at(pass->hold, self->raw_gradient));
}

static const struct pen__layer_ops dense_ops = {
    .free = free_dense,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};

pen_status pen__image_dense_create(const struct pen__image_place *place,
                                   struct pen__layer **out,
                                   struct pen_text *why)
{
    struct dense *self = calloc(1, sizeof *self);
    if (self == NULL)
        return PEN_NOMEM;
    struct pen__layer *base = &self->base;
    base->ops = &dense_ops;
    pen_status status = pen__image_linear(place, &self->linear, why);
    if (status != PEN_OK) {
        free(self);
        return status;
    }
    size_t bytes = pen__image_bytes(place, place->model->outputs);
    self->count_out = self->linear.rows * place->model->outputs;
    pen__image_input_init(place, base, &self->input);
    self->raw = pen__take(&base->stash_bytes, bytes);
    self->raw_gradient = pen__take(&base->hold_bytes, bytes);
    base->output_bytes = pen__align(bytes);
    *out = base;
    return PEN_OK;
}
