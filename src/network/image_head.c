/*
 * The last layer of a network for images: the average over positions where the
 * model has one, logits, loss. The logits are replaced by their gradient where
 * there will be a backward.
 */
#include "network/image_layers.h"

#include <stdlib.h>

struct head {
    struct pen__layer base;
    struct pen__image_input input;
    bool has_average;
    struct pen_pool average;
    struct pen_linear output;
    struct pen_cross_entropy entropy;

    /* In the stash. */
    size_t pooled;
    size_t logits;
    /* In the hold. */
    size_t pooled_gradient;
};

static struct head *head_of(struct pen__layer *layer)
{
    return (struct head *)layer;
}

static void free_head(struct pen__layer *layer)
{
    free(layer);
}

/* The features that the product reads. */
static const void *features(const struct head *head,
                            const struct pen__pass *pass, const void *x)
{
    return head->has_average ? pen__at(pass->stash, head->pooled)
                             : pen__image_input_at(&head->input, pass, x);
}

static void forward(struct pen__layer *layer, const struct pen__pass *pass,
                    const void *x, void *y)
{
    struct head *head = head_of(layer);
    struct pen_engine *engine = pass->engine;
    void *logits = pen__at(pass->stash, head->logits);
    (void)y;
    pen__image_input_read(&head->input, pass);
    if (head->has_average)
        engine->ops->pool_forward(engine, &head->average, x,
                                  pen__at(pass->stash, head->pooled));
    engine->ops->linear_forward(engine, &head->output, features(head, pass, x),
                                NULL, logits);
    if (pass->microbatch->targets == NULL)
        return;
    struct pen_cross_entropy entropy = head->entropy;
    entropy.count = pass->microbatch->loss_count;
    engine->ops->cross_entropy(engine, &entropy, pass->microbatch->targets,
                               logits, !pass->is_forward_only, pass->loss);
}

static void backward_input(struct pen__layer *layer,
                           const struct pen__pass *pass, const void *x,
                           const void *dy, void *dx)
{
    struct head *head = head_of(layer);
    struct pen_engine *engine = pass->engine;
    const void *logits = pen__at(pass->stash, head->logits);
    void *gradient = pen__at(pass->hold, head->pooled_gradient);
    (void)x;
    (void)dy;
    if (dx == NULL)
        return;
    engine->ops->linear_backward_input(engine, &head->output, logits,
                                       head->has_average ? gradient : dx);
    if (head->has_average)
        engine->ops->pool_backward(engine, &head->average, NULL, gradient, dx);
}

static void backward_weight(struct pen__layer *layer,
                            const struct pen__pass *pass, const void *x,
                            const void *dy)
{
    struct head *head = head_of(layer);
    (void)dy;
    pass->engine->ops->linear_backward_weight(
        pass->engine, &head->output, features(head, pass, x),
        pen__at(pass->stash, head->logits));
}

static const struct pen__layer_ops head_ops = {
    .free = free_head,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};

static void lay_out(struct head *head, const struct pen__image_place *place)
{
    struct pen__layer *base = &head->base;
    struct pen_network *network = place->network;
    size_t logits = pen__image_bytes(place, place->model->outputs);
    pen__image_input_init(place, base, &head->input);
    if (head->has_average) {
        size_t bytes = pen__image_bytes(place, place->channels);
        head->pooled = pen__take(&base->stash_bytes, bytes);
        head->pooled_gradient = pen__take(&base->hold_bytes, bytes);
    }
    head->logits = pen__take(&base->stash_bytes, logits);
    network->logits_at = head->logits;
    network->sizes.logits = logits;
}

pen_status pen__image_head_create(const struct pen__image_place *place,
                                  struct pen__layer **out, struct pen_text *why)
{
    struct head *head = calloc(1, sizeof *head);
    if (head == NULL)
        return PEN_NOMEM;
    size_t batch = place->network->options.batch;
    head->base.ops = &head_ops;
    head->has_average = place->model->has_average;
    head->average = (struct pen_pool){
        .kind = PEN_POOL_AVERAGE,
        .window = {.batch = batch,
                   .channels = place->channels,
                   .image = {place->image[0], place->image[1]},
                   .kernel = {place->image[0], place->image[1]},
                   .stride = {1, 1}}};
    head->entropy = (struct pen_cross_entropy){.rows = batch,
                                               .classes = place->model->outputs,
                                               .ignore = PEN_NO_TARGET};
    pen_status status = pen__image_linear(place, &head->output, why);
    if (status != PEN_OK) {
        free(head);
        return status;
    }
    lay_out(head, place);
    *out = &head->base;
    return PEN_OK;
}
