/* Operations on rows and elements: a kernel each. */
#include "engine/device/device.h"

static struct pen__norm_sizes norm_sizes(const struct pen_norm *norm)
{
    return (struct pen__norm_sizes){.rows = (long)norm->rows,
                                    .width = (long)norm->width,
                                    .epsilon = (float)norm->epsilon,
                                    .is_layer = norm->kind == PEN_NORM_LAYER,
                                    .has_bias = norm->bias != NULL};
}

static void norm_forward(struct pen_engine *engine, const struct pen_norm *norm,
                         const void *x, void *y, void *mean, void *rstd)
{
    const struct pen__norm_sizes sizes = norm_sizes(norm);
    pen__launch(engine, PEN__KERNEL_norm_forward, (long)norm->rows,
                PEN__AT(x, pen__value_of(norm->gain), pen__value_of(norm->bias),
                        y, mean, rstd),
                &sizes);
}

static void norm_backward_input(struct pen_engine *engine,
                                const struct pen_norm *norm, const void *x,
                                const void *mean, const void *rstd,
                                const void *dy, const void *add, void *dx)
{
    struct pen__norm_sizes sizes = norm_sizes(norm);
    sizes.has_add = add != NULL;
    pen__launch(engine, PEN__KERNEL_norm_backward_input, (long)norm->rows,
                PEN__AT(x, pen__value_of(norm->gain), mean, rstd, dy, add, dx),
                &sizes);
}

static void norm_backward_weight(struct pen_engine *engine,
                                 const struct pen_norm *norm, const void *x,
                                 const void *mean, const void *rstd,
                                 const void *dy)
{
    const struct pen__norm_sizes sizes = norm_sizes(norm);
    pen__launch(engine, PEN__KERNEL_norm_backward_weight,
                pen__groups(norm->width, PEN__LANES),
                PEN__AT(x, mean, rstd, dy, pen__gradient_of(norm->gain),
                        pen__gradient_of(norm->bias)),
                &sizes);
}

/* A kernel of `count` elements in a row. */
static void launch_flat(struct pen_engine *engine, enum pen__kernel kernel,
                        size_t count, const void *const *addresses)
{
    const struct pen__flat_sizes sizes = {(long)count};
    pen__launch(engine, kernel, pen__groups(count, PEN__SHARE), addresses,
                &sizes);
}

static void gelu_forward(struct pen_engine *engine, size_t count, const void *x,
                         void *y)
{
    launch_flat(engine, PEN__KERNEL_gelu_forward, count, PEN__AT(x, y));
}

static void gelu_backward(struct pen_engine *engine, size_t count,
                          const void *x, const void *dy, void *dx)
{
    launch_flat(engine, PEN__KERNEL_gelu_backward, count, PEN__AT(x, dy, dx));
}

static void relu_forward(struct pen_engine *engine, size_t count, const void *x,
                         void *y)
{
    launch_flat(engine, PEN__KERNEL_relu_forward, count, PEN__AT(x, y));
}

static void relu_backward(struct pen_engine *engine, size_t count,
                          const void *y, const void *dy, void *dx)
{
    launch_flat(engine, PEN__KERNEL_relu_backward, count, PEN__AT(y, dy, dx));
}

static void add(struct pen_engine *engine, size_t count, const void *a,
                const void *b, void *sum)
{
    launch_flat(engine, PEN__KERNEL_add, count, PEN__AT(a, b, sum));
}

static struct pen__swiglu_sizes swiglu_sizes(const struct pen_swiglu *swiglu)
{
    return (struct pen__swiglu_sizes){(long)swiglu->rows, (long)swiglu->width,
                                      (long)swiglu->stride};
}

static void swiglu_forward(struct pen_engine *engine,
                           const struct pen_swiglu *swiglu, const void *gate,
                           const void *up, void *y)
{
    const struct pen__swiglu_sizes sizes = swiglu_sizes(swiglu);
    pen__launch(engine, PEN__KERNEL_swiglu_forward,
                pen__groups(swiglu->rows * swiglu->width, PEN__SHARE),
                PEN__AT(gate, up, y), &sizes);
}

static void swiglu_backward(struct pen_engine *engine,
                            const struct pen_swiglu *swiglu, const void *gate,
                            const void *up, const void *dy, void *dgate,
                            void *dup)
{
    const struct pen__swiglu_sizes sizes = swiglu_sizes(swiglu);
    pen__launch(engine, PEN__KERNEL_swiglu_backward,
                pen__groups(swiglu->rows * swiglu->width, PEN__SHARE),
                PEN__AT(gate, up, dy, dgate, dup), &sizes);
}

static void turn(struct pen_engine *engine, const struct pen_rotary *rotary,
                 void *x, float direction)
{
    const struct pen__rotary_sizes sizes = {
        .rows = (long)rotary->rows,
        .sequence = (long)rotary->sequence,
        .heads = (long)rotary->heads,
        .half_size = (long)rotary->head_size / 2,
        .stride = (long)rotary->stride,
        .step = (long)(rotary->step > 0 ? rotary->step : rotary->head_size),
        .has_neighbours = rotary->has_neighbours,
        .direction = direction};
    size_t count = rotary->rows * rotary->heads * (rotary->head_size / 2);
    pen__launch(engine, PEN__KERNEL_rotary, pen__groups(count, PEN__SHARE),
                PEN__AT(rotary->cosines, rotary->sines, x), &sizes);
}

static void rotary_forward(struct pen_engine *engine,
                           const struct pen_rotary *rotary, void *x)
{
    turn(engine, rotary, x, 1);
}

static void rotary_backward(struct pen_engine *engine,
                            const struct pen_rotary *rotary, void *dx)
{
    turn(engine, rotary, dx, -1);
}

static void copy_columns(struct pen_engine *engine,
                         const struct pen_columns *columns, const void *x,
                         void *y)
{
    const struct pen__groups_sizes sizes = {
        .rows = (long)columns->rows,
        .groups = (long)columns->groups,
        .width = (long)columns->width,
        .zeros = (long)columns->zeros,
        .from_stride = (long)columns->from_stride,
        .from_step = (long)columns->from_step,
        .to_stride = (long)columns->to_stride,
        .to_step = (long)columns->to_step};
    size_t places = columns->to_step == 0 ? 1 : columns->groups;
    size_t count = columns->rows * places * (columns->width + columns->zeros);
    pen__launch(engine, PEN__KERNEL_copy_columns,
                pen__groups(count, PEN__SHARE), PEN__AT(x, y), &sizes);
}

static struct pen__embedding_sizes
embedding_sizes(const struct pen_embedding *embedding)
{
    return (struct pen__embedding_sizes){
        .rows = (long)embedding->rows,
        .sequence = (long)embedding->sequence,
        .width = (long)embedding->tokens->shape.columns,
        .words = (long)embedding->tokens->shape.rows,
        .first = embedding->first,
        .has_positions = embedding->positions != NULL};
}

static void embedding_forward(struct pen_engine *engine,
                              const struct pen_embedding *embedding,
                              const int32_t *ids, void *y)
{
    const struct pen__embedding_sizes sizes = embedding_sizes(embedding);
    size_t count = embedding->rows * embedding->tokens->shape.columns;
    pen__launch(engine, PEN__KERNEL_embedding_forward,
                pen__groups(count, PEN__SHARE),
                PEN__AT(pen__value_of(embedding->tokens),
                        pen__value_of(embedding->positions), ids, y),
                &sizes);
}

static void embedding_backward(struct pen_engine *engine,
                               const struct pen_embedding *embedding,
                               const int32_t *ids, const void *dy)
{
    const struct pen__embedding_sizes sizes = embedding_sizes(embedding);
    size_t width = embedding->tokens->shape.columns;
    pen__launch(engine, PEN__KERNEL_embedding_backward,
                pen__groups(width, PEN__LANES),
                PEN__AT(ids, dy, pen__gradient_of(embedding->tokens)), &sizes);
    if (embedding->positions != NULL)
        pen__launch(engine, PEN__KERNEL_embedding_positions,
                    pen__groups(embedding->sequence * width, PEN__SHARE),
                    PEN__AT(dy, pen__gradient_of(embedding->positions)),
                    &sizes);
}

static void gradient_add_rows(struct pen_engine *engine,
                              struct pen_parameter *parameter, int32_t first,
                              size_t count, const int32_t *rows,
                              const void *from)
{
    const struct pen__embedding_sizes sizes = {
        .rows = (long)count,
        .width = (long)parameter->shape.columns,
        .words = (long)parameter->shape.rows,
        .first = first,
        .is_master = 1};
    pen__launch(engine, PEN__KERNEL_embedding_backward,
                pen__groups(parameter->shape.columns, PEN__LANES),
                PEN__AT(rows, from, pen__gradient_of(parameter)), &sizes);
}

void pen__device_set_rows(struct pen_engine_ops *ops)
{
    ops->norm_forward = norm_forward;
    ops->norm_backward_input = norm_backward_input;
    ops->norm_backward_weight = norm_backward_weight;
    ops->gelu_forward = gelu_forward;
    ops->gelu_backward = gelu_backward;
    ops->relu_forward = relu_forward;
    ops->relu_backward = relu_backward;
    ops->add = add;
    ops->swiglu_forward = swiglu_forward;
    ops->swiglu_backward = swiglu_backward;
    ops->rotary_forward = rotary_forward;
    ops->rotary_backward = rotary_backward;
    ops->copy_columns = copy_columns;
    ops->embedding_forward = embedding_forward;
    ops->embedding_backward = embedding_backward;
    ops->gradient_add_rows = gradient_add_rows;
}
