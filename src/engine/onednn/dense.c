/*
 * Dense layers. oneDNN's inner product serves all three passes from one layout
 * of the weight. Its matmul is often the faster one and reads the same layout
 * forward, but wants a second one for the gradient of the input and a plain one
 * for that of the weight: it is taken forward, where the layouts agree.
 */
#include "base/bug.h"
#include "engine/onednn/onednn.h"

#include <stdlib.h>

void pen__dense_free(struct pen__dense *dense)
{
    while (dense != NULL) {
        struct pen__dense *next = dense->next;
        for (int i = 0; i < PEN__DENSE_PRODUCTS; i++)
            pen__product_release(&dense->products[i]);
        free(dense);
        dense = next;
    }
}

static struct pen__dense *prepared(const struct pen_linear *linear)
{
    struct pen__dense *dense = linear->weight->dense;
    while (dense != NULL &&
           (dense->rows != linear->rows || dense->bias != linear->bias))
        dense = dense->next;
    return dense;
}

/* Descriptors of all operands; shared by the passes. */
struct operands {
    struct pen__product_shape shape;
    struct pen__md add;
    struct pen__md bias;
    struct pen__md gradient;
    struct pen__md row_bias; /* bias and weight as matmul wants them */
    struct pen__md any_weight;
};

static void operands_release(struct operands *operands)
{
    pen__md_release(&operands->shape.source);
    pen__md_release(&operands->shape.target);
    pen__md_release(&operands->shape.weight);
    pen__md_release(&operands->add);
    pen__md_release(&operands->bias);
    pen__md_release(&operands->gradient);
    pen__md_release(&operands->row_bias);
    pen__md_release(&operands->any_weight);
}

static dnnl_status_t operands_init(const struct pen__onednn *self,
                                   const struct pen_linear *linear,
                                   struct operands *out)
{
    const struct pen_parameter *weight = linear->weight;
    bool is_float = self->engine.dtype == PEN_PRECISION_F32;
    dnnl_data_type_t type = is_float ? dnnl_f32 : dnnl_bf16;
    size_t source[] = {linear->rows, weight->shape.columns};
    size_t target[] = {linear->rows, weight->shape.rows};
    size_t source_strides[] = {weight->shape.columns, 1};
    size_t target_strides[] = {weight->shape.rows, 1};
    size_t turned[] = {weight->shape.columns, weight->shape.rows};
    size_t row[] = {1, weight->shape.rows};
    size_t one = 1;
    *out = (struct operands){0};
    dnnl_status_t status =
        pen__md_init(&out->shape.source, 2, source, type, source_strides);
    if (status == dnnl_success)
        status =
            pen__md_init(&out->shape.target, 2, target, type, target_strides);
    if (status == dnnl_success)
        status = pen__md_init(&out->add, 2, target, type, target_strides);
    if (status == dnnl_success && linear->bias != NULL)
        status =
            pen__md_init(&out->bias, 1, &weight->shape.rows, dnnl_f32, &one);
    if (status == dnnl_success && linear->bias != NULL)
        status = pen__md_init(&out->row_bias, 2, row, dnnl_f32, target_strides);
    if (status == dnnl_success)
        status = pen__md_init(&out->any_weight, 2, turned, type, NULL);
    if (status == dnnl_success)
        status = pen__md_copy(
            &out->shape.weight,
            pen__md_of(is_float ? &weight->float_md : &weight->half_md));
    if (status == dnnl_success)
        status = pen__md_copy(&out->gradient, pen__md_of(&weight->float_md));
    if (status != dnnl_success)
        operands_release(out);
    return status;
}

/* The arguments of a forward product, made by either primitive. */
static pen_status bind_forward(struct pen__onednn *self,
                               const struct pen__product_shape *shape,
                               dnnl_primitive_desc_t description,
                               struct pen_text *why, struct pen__product *out)
{
    int ids[5] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    PEN__MD mds[5] = {
        pen__md_of(&shape->source),
        dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0),
        pen__md_of(&shape->target)};
    int count = 3;
    if (shape->bias.is_set) {
        ids[count] = DNNL_ARG_BIAS;
        mds[count++] = pen__md_of(&shape->bias);
    }
    if (shape->add.is_set) {
        ids[count] = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
        mds[count++] = pen__md_of(&shape->add);
    }
    return pen__product_init(self, description, count, ids, mds, why, out);
}

/*
 * As matmul, whose weight is inputs x outputs: *is_made only if it likes the
 * bytes of our weight as they lie.
 */
static pen_status try_matmul(struct pen__onednn *self,
                             const struct operands *operands, bool has_add,
                             struct pen_text *why, struct pen__product *out,
                             bool *is_made)
{
    struct pen__product_shape shape = operands->shape;
    struct pen__md turned = {0};
    dnnl_primitive_desc_t description = NULL;
    pen_status status = PEN_OK;
    *is_made = false;
    shape.bias = operands->row_bias;
    shape.weight = operands->any_weight;
    if (has_add)
        shape.add = operands->add;
    if (pen__md_turn(&turned, &operands->shape.weight) == dnnl_success &&
        pen__matmul(self->library, &shape, false, &description) ==
            dnnl_success &&
        pen__md_is_equal(
            dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0),
            pen__md_of(&turned))) {
        status = bind_forward(self, &shape, description, why, out);
        *is_made = true;
    }
    if (description != NULL)
        dnnl_primitive_desc_destroy(description);
    pen__md_release(&turned);
    return status;
}

static pen_status make_forward(struct pen__onednn *self,
                               const struct operands *operands, bool has_add,
                               struct pen_text *why, struct pen__product *out)
{
    bool is_made;
    pen_status status = try_matmul(self, operands, has_add, why, out, &is_made);
    if (is_made)
        return status;
    struct pen__product_shape shape = operands->shape;
    dnnl_primitive_desc_t description;
    shape.bias = operands->bias;
    if (has_add)
        shape.add = operands->add;
    dnnl_status_t made = pen__inner_product(self->library, PEN__FORWARD, &shape,
                                            NULL, &description);
    if (made != dnnl_success)
        return pen__refused(made, "a forward product", why);
    status = bind_forward(self, &shape, description, why, out);
    dnnl_primitive_desc_destroy(description);
    return status;
}

/* One of the two backward passes. */
static pen_status make_backward(struct pen__onednn *self,
                                const struct operands *operands,
                                enum pen__pass pass, dnnl_primitive_desc_t hint,
                                struct pen_text *why, struct pen__product *out)
{
    bool is_weight = pass == PEN__BACKWARD_WEIGHT;
    struct pen__product_shape shape = operands->shape;
    if (is_weight)
        shape.weight = operands->gradient;
    dnnl_primitive_desc_t description;
    dnnl_status_t made =
        pen__inner_product(self->library, pass, &shape, hint, &description);
    if (made != dnnl_success)
        return pen__refused(made, "a backward product", why);
    int ids[] = {is_weight ? DNNL_ARG_SRC : DNNL_ARG_DIFF_SRC,
                 is_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
                 DNNL_ARG_DIFF_DST};
    PEN__MD mds[] = {pen__md_of(&shape.source), pen__md_of(&shape.weight),
                     pen__md_of(&shape.target)};
    pen_status status =
        pen__product_init(self, description, 3, ids, mds, why, out);
    dnnl_primitive_desc_destroy(description);
    return status;
}

static pen_status make_products(struct pen__onednn *self,
                                const struct operands *operands,
                                struct pen_text *why, struct pen__dense *dense)
{
    struct pen__product *products = dense->products;
    dnnl_primitive_desc_t hint;
    dnnl_status_t made = pen__inner_product(self->library, PEN__FORWARD,
                                            &operands->shape, NULL, &hint);
    if (made != dnnl_success)
        return pen__refused(made, "a forward product", why);
    pen_status status =
        make_forward(self, operands, false, why, &products[PEN__DENSE_FORWARD]);
    if (status == PEN_OK)
        status = make_forward(self, operands, true, why,
                              &products[PEN__DENSE_FORWARD_ADD]);
    if (status == PEN_OK)
        status = make_backward(self, operands, PEN__BACKWARD_INPUT, hint, why,
                               &products[PEN__DENSE_BACKWARD_INPUT]);
    if (status == PEN_OK)
        status = make_backward(self, operands, PEN__BACKWARD_WEIGHT, hint, why,
                               &products[PEN__DENSE_BACKWARD_WEIGHT]);
    dnnl_primitive_desc_destroy(hint);
    return status;
}

/* A second gradient is computed beside the first and then added to it. */
static size_t second_gradient_bytes(const struct pen_parameter *weight)
{
    return (weight->count * sizeof(float) + 63) / 64 * 64;
}

static pen_status linear_prepare(struct pen_engine *engine,
                                 const struct pen_linear *linear,
                                 struct pen_text *why)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    if (prepared(linear) != NULL)
        return PEN_OK;
    struct operands operands;
    dnnl_status_t made = operands_init(self, linear, &operands);
    if (made != dnnl_success)
        return pen__refused(made, "a dense layer of this size", why);
    struct pen__dense *dense = calloc(1, sizeof *dense);
    pen_status status =
        dense == NULL ? PEN_NOMEM : make_products(self, &operands, why, dense);
    size_t largest = 0;
    for (int i = 0; status == PEN_OK && i < PEN__DENSE_PRODUCTS; i++)
        if (dense->products[i].scratch_bytes > largest)
            largest = dense->products[i].scratch_bytes;
    if (status == PEN_OK)
        status = pen__scratch_grow(
            self, second_gradient_bytes(linear->weight) + largest, why);
    operands_release(&operands);
    if (status != PEN_OK) {
        pen__dense_free(dense);
        return status;
    }
    dense->rows = linear->rows;
    dense->bias = linear->bias;
    dense->next = linear->weight->dense;
    linear->weight->dense = dense;
    return PEN_OK;
}

static const void *weight_of(const struct pen_linear *linear)
{
    return linear->weight->half != NULL
               ? (const void *)linear->weight->half
               : (const void *)linear->weight->parts[PEN_PART_VALUE];
}

static void linear_forward(struct pen_engine *engine,
                           const struct pen_linear *linear, const void *x,
                           const void *add, void *y)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    struct pen__dense *dense = prepared(linear);
    PEN_BUG_UNLESS(dense != NULL);
    const void *pointers[5] = {x, weight_of(linear), y};
    int count = 3;
    if (linear->bias != NULL)
        pointers[count++] = linear->bias->parts[PEN_PART_VALUE];
    if (add != NULL)
        pointers[count++] = add;
    pen__product_run(self,
                     &dense->products[add == NULL ? PEN__DENSE_FORWARD
                                                  : PEN__DENSE_FORWARD_ADD],
                     pointers, self->scratch);
}

static void linear_backward_input(struct pen_engine *engine,
                                  const struct pen_linear *linear,
                                  const void *dy, void *dx)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    struct pen__dense *dense = prepared(linear);
    PEN_BUG_UNLESS(dense != NULL);
    const void *pointers[] = {dx, weight_of(linear), dy};
    pen__product_run(self, &dense->products[PEN__DENSE_BACKWARD_INPUT],
                     pointers, self->scratch);
}

static void linear_backward_weight(struct pen_engine *engine,
                                   const struct pen_linear *linear,
                                   const void *x, const void *dy)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    struct pen_parameter *weight = linear->weight;
    struct pen__dense *dense = prepared(linear);
    PEN_BUG_UNLESS(dense != NULL);
    bool is_first = weight->is_gradient_zero;
    float *gradient = weight->parts[PEN_PART_GRADIENT];
    float *to = is_first ? gradient : (float *)self->scratch;
    const void *pointers[] = {x, to, dy};
    pen__product_run(self, &dense->products[PEN__DENSE_BACKWARD_WEIGHT],
                     pointers, self->scratch + second_gradient_bytes(weight));
    if (!is_first)
        self->rows->accumulate(engine, weight->count, to, gradient);
    weight->is_gradient_zero = false;
    if (linear->bias != NULL)
        self->rows->add_columns(engine, linear->rows, weight->shape.rows, dy,
                                pen__gradient(linear->bias));
}

void pen__dense_ops(struct pen_engine_ops *ops)
{
    ops->linear_prepare = linear_prepare;
    ops->linear_forward = linear_forward;
    ops->linear_backward_input = linear_backward_input;
    ops->linear_backward_weight = linear_backward_weight;
}
