/*
 * The last layer: norm, logits, loss.
 *
 * The forward replaces the logits by their gradient where there will be a
 * backward, for the loss has no other use for them.
 */
#include "network/decoder.h"

#include <stdlib.h>

struct head {
    struct pen__layer base;
    struct pen_norm norm;
    struct pen_linear output;
    struct pen_cross_entropy entropy;

    /* In the stash. */
    size_t normed;
    size_t mean;
    size_t rstd;
    size_t logits;
    /* In the hold. */
    size_t normed_gradient;
};

static struct head *head_of(struct pen__layer *layer)
{
    return (struct head *)layer;
}

static void free_head(struct pen__layer *layer)
{
    free(layer);
}

static void forward(struct pen__layer *layer, const struct pen__pass *pass,
                    const void *x, void *y)
{
    struct head *head = head_of(layer);
    struct pen_engine *engine = pass->engine;
    void *normed = pen__at(pass->stash, head->normed);
    void *logits = pen__at(pass->stash, head->logits);
    (void)y;
    engine->ops->norm_forward(engine, &head->norm, x, normed,
                              pen__at(pass->stash, head->mean),
                              pen__at(pass->stash, head->rstd));
    engine->ops->linear_forward(engine, &head->output, normed, NULL, logits);
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
    void *gradient = pen__at(pass->hold, head->normed_gradient);
    (void)dy;
    engine->ops->linear_backward_input(
        engine, &head->output, pen__at(pass->stash, head->logits), gradient);
    if (dx != NULL)
        engine->ops->norm_backward_input(
            engine, &head->norm, x, pen__at(pass->stash, head->mean),
            pen__at(pass->stash, head->rstd), gradient, NULL, dx);
}

static void backward_weight(struct pen__layer *layer,
                            const struct pen__pass *pass, const void *x,
                            const void *dy)
{
    struct head *head = head_of(layer);
    struct pen_engine *engine = pass->engine;
    (void)dy;
    engine->ops->linear_backward_weight(engine, &head->output,
                                        pen__at(pass->stash, head->normed),
                                        pen__at(pass->stash, head->logits));
    engine->ops->norm_backward_weight(
        engine, &head->norm, x, pen__at(pass->stash, head->mean),
        pen__at(pass->stash, head->rstd),
        pen__at(pass->hold, head->normed_gradient));
}

static const struct pen__layer_ops head_ops = {
    .free = free_head,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};

static void lay_out(struct head *head, const struct pen__shape *shape)
{
    struct pen__layer *base = &head->base;
    size_t width = shape->rows * shape->hidden * shape->element;
    bool has_mean = head->norm.kind == PEN_NORM_LAYER;
    base->input_bytes = pen__align(width);
    head->normed = pen__take(&base->stash_bytes, width);
    head->mean =
        pen__take(&base->stash_bytes, has_mean ? shape->rows * shape->stat : 0);
    head->rstd = pen__take(&base->stash_bytes, shape->rows * shape->stat);
    head->logits =
        pen__take(&base->stash_bytes,
                  shape->rows * head->entropy.classes * shape->element);
    head->normed_gradient = pen__take(&base->hold_bytes, width);
}

/* A tied matrix is the embedding's, or a copy where that is elsewhere. */
static pen_status find_matrix(struct pen_network *network, uint32_t layer,
                              struct pen_parameter **out, struct pen_text *why)
{
    if (!network->options.model->has_tied_embeddings)
        return pen__add_part(network, layer, PEN_PARAMETER_DENSE, PEN_PART_HEAD,
                             out, why);
    if (network->options.first_layer > 0) {
        pen_status status = pen__add_part(network, 0, PEN_PARAMETER_DENSE,
                                          PEN_PART_TOKEN_EMBEDDING, out, why);
        network->tied_end = *out;
        return status;
    }
    *out = network->parameters[0].parameter;
    return PEN_OK;
}

pen_status pen__head_create(struct pen_network *network, uint32_t layer,
                            struct pen__layer **out, struct pen_text *why)
{
    struct pen__shape shape = pen__shape_of(&network->options);
    struct pen_engine *engine = network->options.engine;
    struct head *head = calloc(1, sizeof *head);
    if (head == NULL)
        return PEN_NOMEM;
    head->base.ops = &head_ops;
    head->output.rows = shape.rows;
    head->entropy =
        (struct pen_cross_entropy){.rows = shape.rows,
                                   .classes = network->options.model->vocab,
                                   .ignore = PEN_NO_TARGET};
    pen_status status =
        pen__add_norm(network, layer, PEN_PART_FINAL_NORM,
                      PEN_PART_FINAL_NORM_BIAS, shape.rows, &head->norm, why);
    if (status == PEN_OK)
        status = find_matrix(network, layer, &head->output.weight, why);
    if (status == PEN_OK)
        status = engine->ops->linear_prepare(engine, &head->output, why);
    if (status != PEN_OK) {
        free(head);
        return status;
    }
    lay_out(head, &shape);
    network->logits_at = head->logits;
    network->sizes.logits = shape.rows * head->entropy.classes * shape.element;
    *out = &head->base;
    return PEN_OK;
}
