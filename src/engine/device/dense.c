/* Products with a weight, and the refusal of convolutions. */
#include "engine/device/device.h"

static pen_status linear_prepare(struct pen_engine *engine,
                                 const struct pen_linear *linear,
                                 struct pen_text *why)
{
    (void)engine;
    (void)linear;
    (void)why;
    return PEN_OK;
}

struct pen__product_sizes pen__plain_product(size_t rows, size_t columns,
                                             size_t depth)
{
    return (struct pen__product_sizes){.rows = (long)rows,
                                       .columns = (long)columns,
                                       .depth = (long)depth,
                                       .c_row = (long)columns,
                                       .heads = 1,
                                       .a_share = 1,
                                       .b_share = 1,
                                       .scale = 1,
                                       .add_scale = 1};
}

long pen__tiles_of(const struct pen__product_sizes *sizes)
{
    return pen__groups((size_t)sizes->rows, PEN__TILE) *
           pen__groups((size_t)sizes->columns, PEN__TILE);
}

static void linear_forward(struct pen_engine *engine,
                           const struct pen_linear *linear, const void *x,
                           const void *add, void *y)
{
    size_t inputs = linear->weight->shape.columns;
    size_t outputs = linear->weight->shape.rows;
    struct pen__product_sizes sizes =
        pen__plain_product(linear->rows, outputs, inputs);
    sizes.a_row = sizes.b_row = (long)inputs;
    sizes.a_depth = sizes.b_depth = 1;
    sizes.b_is_master = 1;
    sizes.has_bias = linear->bias != NULL;
    sizes.has_add = add != NULL;
    pen__launch(engine, PEN__KERNEL_product, pen__tiles_of(&sizes),
                PEN__AT(x, pen__value_of(linear->weight),
                        pen__value_of(linear->bias), add, y),
                &sizes);
}

static void linear_backward_input(struct pen_engine *engine,
                                  const struct pen_linear *linear,
                                  const void *dy, void *dx)
{
    size_t inputs = linear->weight->shape.columns;
    size_t outputs = linear->weight->shape.rows;
    struct pen__product_sizes sizes =
        pen__plain_product(linear->rows, inputs, outputs);
    sizes.a_row = (long)outputs;
    sizes.a_depth = 1;
    sizes.b_row = 1;
    sizes.b_depth = (long)inputs;
    sizes.b_is_master = 1;
    pen__launch(engine, PEN__KERNEL_product, pen__tiles_of(&sizes),
                PEN__AT(dy, pen__value_of(linear->weight), NULL, NULL, dx),
                &sizes);
}

static void linear_backward_weight(struct pen_engine *engine,
                                   const struct pen_linear *linear,
                                   const void *x, const void *dy)
{
    size_t inputs = linear->weight->shape.columns;
    size_t outputs = linear->weight->shape.rows;
    struct pen__product_sizes sizes =
        pen__plain_product(outputs, inputs, linear->rows);
    sizes.a_row = 1;
    sizes.a_depth = (long)outputs;
    sizes.b_row = 1;
    sizes.b_depth = (long)inputs;
    sizes.c_is_master = sizes.is_added = 1;
    pen__launch(engine, PEN__KERNEL_product, pen__tiles_of(&sizes),
                PEN__AT(dy, x, NULL, NULL, pen__gradient_of(linear->weight)),
                &sizes);
    if (linear->bias == NULL)
        return;
    const struct pen__columns_sizes columns = {.rows = (long)linear->rows,
                                               .columns = (long)outputs};
    pen__launch(engine, PEN__KERNEL_column_sums,
                pen__groups(outputs, PEN__LANES),
                PEN__AT(dy, pen__gradient_of(linear->bias)), &columns);
}

static pen_status convolution_prepare(struct pen_engine *engine,
                                      const struct pen_convolution *convolution,
                                      struct pen_text *why)
{
    (void)convolution;
    pen_why(why,
            "the %s engine has no convolutions; train a network of images "
            "with --engine onednn",
            engine->ops->name);
    return PEN_INVALID;
}

void pen__device_set_dense(struct pen_engine_ops *ops)
{
    ops->linear_prepare = linear_prepare;
    ops->linear_forward = linear_forward;
    ops->linear_backward_input = linear_backward_input;
    ops->linear_backward_weight = linear_backward_weight;
    ops->convolution_prepare = convolution_prepare;
}
