/*
 * A block of a decoder.
 *
 *   x -> norm -> a -> q, k, v -> attention -> out -> (+ x) -> middle
 *   middle -> norm -> b -> wide -> activation -> inner -> down -> (+ middle) ->
 * y
 *
 * The stash keeps q, k, v, attention, middle and wide; and a, b and inner
 * unless they are computed again, which costs no product.
 */
#include "network/projection.h"

#include <math.h>
#include <stdlib.h>

struct block {
    struct pen__layer base;
    bool keeps_cheap; /* a, b and inner */
    struct pen_norm attention_norm;
    struct pen__projection projection;
    struct pen_attention attention;
    struct pen_linear out;
    struct pen_norm mlp_norm;
    struct pen_linear up;     /* to wide: with the gate before it */
    struct pen_swiglu swiglu; /* without gate: rows and width only */
    bool is_gated;
    struct pen_linear down;

    /* In the stash. */
    size_t mean1, rstd1, projected, attended, lse, middle, mean2, rstd2, wide;
    /* In the stash, or in the scratch when computed again. */
    size_t a, b, inner;
    /* In the hold. */
    size_t middle_gradient, a_gradient, b_gradient, projected_gradient,
        wide_gradient;
    /* In the scratch. */
    size_t inner_gradient, attended_gradient, projection_scratch;
};

static struct block *block_of(struct pen__layer *layer)
{
    return (struct block *)layer;
}

static void free_block(struct pen__layer *layer)
{
    free(layer);
}

/* Where a, b and inner live. */
static void *cheap(const struct block *block, const struct pen__pass *pass,
                   size_t at)
{
    return pen__at(block->keeps_cheap ? pass->stash : pass->scratch, at);
}

static void compute_a(const struct block *block, const struct pen__pass *pass,
                      const void *x)
{
    pass->engine->ops->norm_forward(
        pass->engine, &block->attention_norm, x, cheap(block, pass, block->a),
        pen__at(pass->stash, block->mean1), pen__at(pass->stash, block->rstd1));
}

static void compute_b(const struct block *block, const struct pen__pass *pass)
{
    pass->engine->ops->norm_forward(
        pass->engine, &block->mlp_norm, pen__at(pass->stash, block->middle),
        cheap(block, pass, block->b), pen__at(pass->stash, block->mean2),
        pen__at(pass->stash, block->rstd2));
}

/* The second half of each row of `wide`, where there is a gate. */
static void *up_half(const struct block *block, void *wide)
{
    return (char *)wide + block->swiglu.width * block->projection.shape.element;
}

static void compute_inner(const struct block *block,
                          const struct pen__pass *pass)
{
    struct pen_engine *engine = pass->engine;
    void *wide = pen__at(pass->stash, block->wide);
    void *inner = cheap(block, pass, block->inner);
    if (block->is_gated)
        engine->ops->swiglu_forward(engine, &block->swiglu, wide,
                                    up_half(block, wide), inner);
    else
        engine->ops->gelu_forward(
            engine, block->swiglu.rows * block->swiglu.width, wide, inner);
}

static void attend(const struct block *block, const struct pen__pass *pass)
{
    void *projected = pen__at(pass->stash, block->projected);
    pass->engine->ops->attention_forward(
        pass->engine, &block->attention,
        pen__at(projected, block->projection.q),
        pen__at(projected, block->projection.k),
        pen__at(projected, block->projection.v),
        pen__at(pass->stash, block->attended),
        pen__at(pass->stash, block->lse));
}

/* Without y it fills the stash only. */
static void forward(struct pen__layer *layer, const struct pen__pass *pass,
                    const void *x, void *y)
{
    const struct block *block = block_of(layer);
    struct pen_engine *engine = pass->engine;
    void *middle = pen__at(pass->stash, block->middle);
    compute_a(block, pass, x);
    pen__projection_forward(&block->projection, engine,
                            cheap(block, pass, block->a),
                            pen__at(pass->stash, block->projected));
    attend(block, pass);
    engine->ops->linear_forward(
        engine, &block->out, pen__at(pass->stash, block->attended), x, middle);
    compute_b(block, pass);
    engine->ops->linear_forward(engine, &block->up,
                                cheap(block, pass, block->b), NULL,
                                pen__at(pass->stash, block->wide));
    if (y == NULL && !block->keeps_cheap)
        return;
    compute_inner(block, pass);
    if (y != NULL)
        engine->ops->linear_forward(
            engine, &block->down, cheap(block, pass, block->inner), middle, y);
}

/* From dy to the gradient of middle. */
static void backward_mlp(const struct block *block,
                         const struct pen__pass *pass, const void *dy)
{
    struct pen_engine *engine = pass->engine;
    void *wide = pen__at(pass->stash, block->wide);
    void *dwide = pen__at(pass->hold, block->wide_gradient);
    void *dinner = pen__at(pass->scratch, block->inner_gradient);
    void *db = pen__at(pass->hold, block->b_gradient);
    engine->ops->linear_backward_input(engine, &block->down, dy, dinner);
    if (block->is_gated)
        engine->ops->swiglu_backward(engine, &block->swiglu, wide,
                                     up_half(block, wide), dinner, dwide,
                                     up_half(block, dwide));
    else
        engine->ops->gelu_backward(engine,
                                   block->swiglu.rows * block->swiglu.width,
                                   wide, dinner, dwide);
    engine->ops->linear_backward_input(engine, &block->up, dwide, db);
    engine->ops->norm_backward_input(
        engine, &block->mlp_norm, pen__at(pass->stash, block->middle),
        pen__at(pass->stash, block->mean2), pen__at(pass->stash, block->rstd2),
        db, dy, pen__at(pass->hold, block->middle_gradient));
}

/* From the gradient of middle to that of a. */
static void backward_attention(const struct block *block,
                               const struct pen__pass *pass)
{
    struct pen_engine *engine = pass->engine;
    const struct pen__projection *projection = &block->projection;
    void *projected = pen__at(pass->stash, block->projected);
    void *gradient = pen__at(pass->hold, block->projected_gradient);
    void *dattended = pen__at(pass->scratch, block->attended_gradient);
    engine->ops->linear_backward_input(
        engine, &block->out, pen__at(pass->hold, block->middle_gradient),
        dattended);
    engine->ops->attention_backward(
        engine, &block->attention, pen__at(projected, projection->q),
        pen__at(projected, projection->k), pen__at(projected, projection->v),
        pen__at(pass->stash, block->attended), pen__at(pass->stash, block->lse),
        dattended, pen__at(gradient, projection->dq),
        pen__at(gradient, projection->dk), pen__at(gradient, projection->dv));
    pen__projection_backward_input(
        projection, engine, projected, gradient,
        pen__at(pass->scratch, block->projection_scratch),
        pen__at(pass->hold, block->a_gradient));
}

static void backward_input(struct pen__layer *layer,
                           const struct pen__pass *pass, const void *x,
                           const void *dy, void *dx)
{
    const struct block *block = block_of(layer);
    backward_mlp(block, pass, dy);
    backward_attention(block, pass);
    if (dx != NULL)
        pass->engine->ops->norm_backward_input(
            pass->engine, &block->attention_norm, x,
            pen__at(pass->stash, block->mean1),
            pen__at(pass->stash, block->rstd1),
            pen__at(pass->hold, block->a_gradient),
            pen__at(pass->hold, block->middle_gradient), dx);
}

static void backward_weight(struct pen__layer *layer,
                            const struct pen__pass *pass, const void *x,
                            const void *dy)
{
    const struct block *block = block_of(layer);
    struct pen_engine *engine = pass->engine;
    const struct pen_engine_ops *ops = engine->ops;
    if (!block->keeps_cheap) {
        compute_a(block, pass, x);
        compute_b(block, pass);
        compute_inner(block, pass);
    }
    ops->linear_backward_weight(engine, &block->down,
                                cheap(block, pass, block->inner), dy);
    ops->linear_backward_weight(engine, &block->up,
                                cheap(block, pass, block->b),
                                pen__at(pass->hold, block->wide_gradient));
    ops->norm_backward_weight(
        engine, &block->mlp_norm, pen__at(pass->stash, block->middle),
        pen__at(pass->stash, block->mean2), pen__at(pass->stash, block->rstd2),
        pen__at(pass->hold, block->b_gradient));
    ops->linear_backward_weight(engine, &block->out,
                                pen__at(pass->stash, block->attended),
                                pen__at(pass->hold, block->middle_gradient));
    pen__projection_backward_weight(
        &block->projection, engine, cheap(block, pass, block->a),
        pen__at(pass->stash, block->projected),
        pen__at(pass->hold, block->projected_gradient));
    ops->norm_backward_weight(engine, &block->attention_norm, x,
                              pen__at(pass->stash, block->mean1),
                              pen__at(pass->stash, block->rstd1),
                              pen__at(pass->hold, block->a_gradient));
}

static const struct pen__layer_ops block_ops = {
    .free = free_block,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};

static pen_status add_attention(struct block *block,
                                struct pen_network *network, uint32_t layer,
                                struct pen_text *why)
{
    static const enum pen_part weight[] = {PEN_PART_ATTENTION_OUT};
    static const enum pen_part bias[] = {PEN_PART_ATTENTION_OUT_BIAS};
    const struct pen_network_options *options = &network->options;
    const struct pen_model *model = options->model;
    pen_status status = pen__add_norm(
        network, layer, PEN_PART_ATTENTION_NORM, PEN_PART_ATTENTION_NORM_BIAS,
        options->batch * options->sequence, &block->attention_norm, why);
    if (status == PEN_OK)
        status = pen__projection_init(&block->projection, network, layer, why);
    if (status == PEN_OK)
        status =
            pen__add_linear(network, layer, weight, bias, 1, &block->out, why);
    if (status != PEN_OK)
        return status;
    block->attention =
        (struct pen_attention){.batch = options->batch,
                               .sequence = options->sequence,
                               .heads = model->num_heads,
                               .kv_heads = model->num_kv_heads,
                               .head_size = model->head_dim,
                               .window = pen_model_window(model, layer - 1),
                               .scale = 1.0 / sqrt((double)model->head_dim)};
    pen__projection_strides(&block->projection, &block->attention);
    return options->engine->ops->attention_prepare(options->engine,
                                                   &block->attention, why);
}

static pen_status add_mlp(struct block *block, struct pen_network *network,
                          uint32_t layer, struct pen_text *why)
{
    static const enum pen_part up[] = {PEN_PART_GATE, PEN_PART_UP};
    static const enum pen_part up_bias[] = {PEN_PART_GATE_BIAS,
                                            PEN_PART_UP_BIAS};
    static const enum pen_part down[] = {PEN_PART_DOWN};
    static const enum pen_part down_bias[] = {PEN_PART_DOWN_BIAS};
    const struct pen_model *model = network->options.model;
    size_t rows = network->options.batch * network->options.sequence;
    block->is_gated = model->activation == PEN_ACTIVATION_SILU;
    block->swiglu = (struct pen_swiglu){.rows = rows,
                                        .width = model->intermediate,
                                        .stride = (block->is_gated ? 2u : 1u) *
                                                  (size_t)model->intermediate};
    pen_status status =
        pen__add_norm(network, layer, PEN_PART_MLP_NORM, PEN_PART_MLP_NORM_BIAS,
                      rows, &block->mlp_norm, why);
    if (status == PEN_OK)
        status =
            pen__add_linear(network, layer, up, up_bias, 2, &block->up, why);
    if (status == PEN_OK)
        status = pen__add_linear(network, layer, down, down_bias, 1,
                                 &block->down, why);
    return status;
}

static void lay_out_stash(struct block *block, const struct pen__shape *shape)
{
    size_t *end = &block->base.stash_bytes;
    size_t stat = shape->rows * shape->stat;
    size_t mean = block->attention_norm.kind == PEN_NORM_LAYER ? stat : 0;
    size_t row = shape->rows * shape->element;
    const struct pen__projection *projection = &block->projection;
    block->mean1 = pen__take(end, mean);
    block->rstd1 = pen__take(end, stat);
    block->projected = pen__take(end, projection->stash_bytes);
    block->attended = pen__take(end, row * projection->query_width);
    block->lse = pen__take(end, stat * block->attention.heads);
    block->middle = pen__take(end, row * shape->hidden);
    block->mean2 = pen__take(end, mean);
    block->rstd2 = pen__take(end, stat);
    block->wide = pen__take(end, row * block->swiglu.stride);
}

static void lay_out(struct block *block, const struct pen__shape *shape)
{
    struct pen__layer *base = &block->base;
    size_t row = shape->rows * shape->element;
    size_t width = row * shape->hidden;
    base->input_bytes = pen__align(width);
    base->output_bytes = base->input_bytes;
    lay_out_stash(block, shape);
    size_t *keeper =
        block->keeps_cheap ? &base->stash_bytes : &base->scratch_bytes;
    block->a = pen__take(keeper, width);
    block->b = pen__take(keeper, width);
    block->inner = pen__take(keeper, row * block->swiglu.width);

    block->middle_gradient = pen__take(&base->hold_bytes, width);
    block->a_gradient = pen__take(&base->hold_bytes, width);
    block->b_gradient = pen__take(&base->hold_bytes, width);
    block->projected_gradient =
        pen__take(&base->hold_bytes, block->projection.hold_bytes);
    block->wide_gradient =
        pen__take(&base->hold_bytes, row * block->swiglu.stride);

    block->inner_gradient =
        pen__take(&base->scratch_bytes, row * block->swiglu.width);
    block->attended_gradient =
        pen__take(&base->scratch_bytes, row * block->projection.query_width);
    block->projection_scratch =
        pen__take(&base->scratch_bytes, block->projection.scratch_bytes);
}

pen_status pen__block_create(struct pen_network *network, uint32_t layer,
                             struct pen__layer **out, struct pen_text *why)
{
    struct block *block = calloc(1, sizeof *block);
    if (block == NULL)
        return PEN_NOMEM;
    block->base.ops = &block_ops;
    block->keeps_cheap = network->options.recompute != PEN_RECOMPUTE_SELECTIVE;
    pen_status status = add_attention(block, network, layer, why);
    if (status == PEN_OK)
        status = add_mlp(block, network, layer, why);
    if (status != PEN_OK) {
        free(block);
        return status;
    }
    struct pen__shape shape = pen__shape_of(&network->options);
    lay_out(block, &shape);
    *out = &block->base;
    return PEN_OK;
}
