/*
 * A residual block: y = ReLU(shortcut(x) + convolutions(x)), with a ReLU
 * between the convolutions too.
 *
 *   x --+-- filter 0 -- ReLU -- ... -- filter n-1 -- + -- ReLU -- y
 *       |                                            |
 *       '-- shortcut, or nothing --------------------'
 *
 * The stash has the output of every filter, after its ReLU but for the last
 * one, which has the sum; the hold has the gradients of those outputs.
 */
#include "network/image_layers.h"

#include <stdlib.h>

struct residual {
    struct pen__layer base;
    uint32_t num_filters;
    bool has_shortcut;
    struct pen__filter filters[PEN_IMAGE_MAX_CONVOLUTIONS];
    struct pen__filter shortcut;
    size_t count_in;                              /* numbers of x */
    size_t outputs[PEN_IMAGE_MAX_CONVOLUTIONS];   /* in the stash */
    size_t gradients[PEN_IMAGE_MAX_CONVOLUTIONS]; /* in the hold */
};

static struct residual *residual_of(struct pen__layer *layer)
{
    return (struct residual *)layer;
}

static void free_residual(struct pen__layer *layer)
{
    free(layer);
}

/* The input of filter i. */
static const void *filter_input(const struct residual *self, uint32_t i,
                                const struct pen__pass *pass, const void *x)
{
    return i == 0 ? x : pen__at(pass->stash, self->outputs[i - 1]);
}

/* The forward of a residual block; y is used for the shortcut first. */
static void forward(struct pen__layer *layer, const struct pen__pass *pass,
                    const void *x, void *y)
{
    struct residual *self = residual_of(layer);
    struct pen_engine *engine = pass->engine;
    uint32_t last = self->num_filters - 1;
    void *sum = pen__at(pass->stash, self->outputs[last]);
    const void *past = x;
    for (uint32_t i = 0; i <= last; i++) {
        void *output = pen__at(pass->stash, self->outputs[i]);
        pen__filter_forward(&self->filters[i], pass,
                            filter_input(self, i, pass, x), output);
        if (i < last)
            engine->ops->relu_forward(engine, self->filters[i].count_out,
                                      output, output);
    }
    if (self->has_shortcut) {
        pen__filter_forward(&self->shortcut, pass, x, y);
        past = y;
    }
    engine->ops->add(engine, self->filters[last].count_out, sum, past, sum);
    engine->ops->relu_forward(engine, self->filters[last].count_out, sum, y);
}

static void backward_input(struct pen__layer *layer,
                           const struct pen__pass *pass, const void *x,
                           const void *dy, void *dx)
{
    struct residual *self = residual_of(layer);
    struct pen_engine *engine = pass->engine;
    uint32_t last = self->num_filters - 1;
    void *dsum = pen__at(pass->hold, self->gradients[last]);
    const void *past = dsum;
    (void)x;
    engine->ops->relu_backward(engine, self->filters[last].count_out,
                               pen__at(pass->stash, self->outputs[last]), dy,
                               dsum);
    for (uint32_t i = last; i > 0; i--) {
        void *gradient = pen__at(pass->hold, self->gradients[i - 1]);
        pen__filter_backward_input(&self->filters[i], pass,
                                   pen__at(pass->hold, self->gradients[i]),
                                   gradient);
        engine->ops->relu_backward(engine, self->filters[i - 1].count_out,
                                   pen__at(pass->stash, self->outputs[i - 1]),
                                   gradient, gradient);
    }
    pen__filter_backward_input(&self->filters[0], pass,
                               pen__at(pass->hold, self->gradients[0]), dx);
    if (self->has_shortcut) {
        pen__filter_backward_input(&self->shortcut, pass, dsum,
                                   dx == NULL ? NULL : pass->scratch);
        past = pass->scratch;
    }
    if (dx != NULL)
        engine->ops->add(engine, self->count_in, dx, past, dx);
}

static void backward_weight(struct pen__layer *layer,
                            const struct pen__pass *pass, const void *x,
                            const void *dy)
{
    struct residual *self = residual_of(layer);
    uint32_t last = self->num_filters - 1;
    (void)dy;
    for (uint32_t i = 0; i <= last; i++)
        pen__filter_backward_weight(&self->filters[i], pass,
                                    filter_input(self, i, pass, x),
                                    pen__at(pass->hold, self->gradients[i]));
    if (self->has_shortcut)
        pen__filter_backward_weight(&self->shortcut, pass, x,
                                    pen__at(pass->hold, self->gradients[last]));
}

static const struct pen__layer_ops residual_ops = {
    .free = free_residual,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};

/* Adds the filters; filter i reads the output of filter i - 1. */
static pen_status add_filters(struct residual *self,
                              const struct pen__image_place *place,
                              struct pen_text *why)
{
    const struct pen_image_layer *model = place->model;
    struct pen__image_place between = *place;
    struct pen__layer *base = &self->base;
    pen_status status = PEN_OK;
    if (model->shortcut.outputs > 0) {
        self->has_shortcut = true;
        status = pen__filter_init(place, &model->shortcut, base,
                                  &self->shortcut, why);
    }
    self->num_filters = model->num_convolutions;
    for (uint32_t i = 0; status == PEN_OK && i < self->num_filters; i++) {
        struct pen__filter *filter = &self->filters[i];
        status = pen__filter_init(&between, &model->convolutions[i], base,
                                  filter, why);
        if (status != PEN_OK)
            break;
        const struct pen_image_window *window = &filter->convolution.window;
        size_t numbers = filter->count_out / window->batch;
        size_t bytes = pen__image_bytes(place, numbers);
        self->outputs[i] = pen__take(&base->stash_bytes, bytes);
        self->gradients[i] = pen__take(&base->hold_bytes, bytes);
        base->output_bytes = pen__align(bytes);
        between.image[0] = pen_image_window_steps(window, 0);
        between.image[1] = pen_image_window_steps(window, 1);
    }
    return status;
}

pen_status pen__image_residual_create(const struct pen__image_place *place,
                                      struct pen__layer **out,
                                      struct pen_text *why)
{
    struct residual *self = calloc(1, sizeof *self);
    if (self == NULL)
        return PEN_NOMEM;
    size_t numbers = place->channels * place->image[0] * place->image[1];
    size_t bytes = pen__align(pen__image_bytes(place, numbers));
    self->base.ops = &residual_ops;
    self->count_in = place->network->options.batch * numbers;
    self->base.input_bytes = bytes;
    pen_status status = add_filters(self, place, why);
    if (status != PEN_OK) {
        free(self);
        return status;
    }
    self->base.scratch_bytes = self->has_shortcut ? bytes : 0;
    *out = &self->base;
    return PEN_OK;
}
