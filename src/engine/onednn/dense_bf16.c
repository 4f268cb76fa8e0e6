/*
 * Dense layers in bf16, from the copy of the weight that the optimizer writes.
 * Forward matmul where it likes the copy as it lies, for it is often faster
 * than the inner product; the inner product for the gradient of the input. The
 * gradient of the weight is plain: matmul writes it, and adds the later ones
 * to it.
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
    struct pen__md row_bias; /* bias and weight as matmul wants them */
    struct pen__md any_weight;
    struct pen__md gradient; /* plain */
    struct pen__md turned_target;
};

static void operands_release(struct operands *operands)
{
    pen__md_release(&operands->shape.source);
    pen__md_release(&operands->shape.target);
    pen__md_release(&operands->shape.weight);
    pen__md_release(&operands->add);
    pen__md_release(&operands->bias);
    pen__md_release(&operands->row_bias);
    pen__md_release(&operands->any_weight);
    pen__md_release(&operands->gradient);
    pen__md_release(&operands->turned_target);
}

/* Dense, row after row. */
static dnnl_status_t matrix(struct pen__md *md, size_t rows, size_t columns,
                            dnnl_data_type_t type)
{
    size_t sizes[] = {rows, columns};
    size_t strides[] = {columns, 1};
    return pen__md_init(md, 2, sizes, type, strides);
}

static dnnl_status_t operands_init(const struct pen_linear *linear,
                                   struct operands *out)
{
    const struct pen_parameter *weight = linear->weight;
    size_t inputs = weight->shape.columns;
    size_t outputs = weight->shape.rows;
    size_t turned[] = {inputs, outputs};
    size_t one = 1;
    *out = (struct operands){0};
    dnnl_status_t status =
        matrix(&out->shape.source, linear->rows, inputs, dnnl_bf16);
    if (status == dnnl_success)
        status = matrix(&out->shape.target, linear->rows, outputs, dnnl_bf16);
    if (status == dnnl_success)
        status = matrix(&out->add, linear->rows, outputs, dnnl_bf16);
    if (status == dnnl_success && linear->bias != NULL)
        status = pen__md_init(&out->bias, 1, &outputs, dnnl_f32, &one);
    if (status == dnnl_success && linear->bias != NULL)
        status = matrix(&out->row_bias, 1, outputs, dnnl_f32);
    if (status == dnnl_success)
        status = pen__md_init(&out->any_weight, 2, turned, dnnl_bf16, NULL);
    if (status == dnnl_success)
        status = pen__md_copy(&out->shape.weight, pen__md_of(&weight->half_md));
    if (status == dnnl_success)
        status = matrix(&out->gradient, outputs, inputs, dnnl_f32);
    if (status == dnnl_success)
        status = pen__md_turn(&out->turned_target, &out->shape.target);
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
 * bytes of our weight as they lie, or they are plain, which no other likes
 * better.
 */
static pen_status try_matmul(struct pen__onednn *self,
                             const struct operands *operands, bool is_plain,
                             bool has_add, struct pen_text *why,
                             struct pen__product *out, bool *is_made)
{
    struct pen__product_shape shape = operands->shape;
    struct pen__md turned = {0};
    dnnl_primitive_desc_t description = NULL;
    pen_status status = PEN_OK;
    *is_made = false;
    if (pen__md_turn(&turned, &operands->shape.weight) != dnnl_success)
        return PEN_OK;
    shape.bias = operands->row_bias;
    shape.weight = is_plain ? turned : operands->any_weight;
    if (has_add)
        shape.add = operands->add;
    if (pen__matmul(self->library, &shape, false, &description) ==
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
                               const struct operands *operands, bool is_plain,
                               bool has_add, struct pen_text *why,
                               struct pen__product *out)
{
    bool is_made;
    pen_status status =
        try_matmul(self, operands, is_plain, has_add, why, out, &is_made);
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

static pen_status make_backward_input(struct pen__onednn *self,
                                      const struct operands *operands,
                                      struct pen_text *why,
                                      struct pen__product *out)
{
    const struct pen__product_shape *shape = &operands->shape;
    dnnl_primitive_desc_t hint;
    dnnl_primitive_desc_t description;
    dnnl_status_t made =
        pen__inner_product(self->library, PEN__FORWARD, shape, NULL, &hint);
    if (made == dnnl_success) {
        made = pen__inner_product(self->library, PEN__BACKWARD_INPUT, shape,
                                  hint, &description);
        dnnl_primitive_desc_destroy(hint);
    }
    if (made != dnnl_success)
        return pen__refused(made, "the gradient of an input", why);
    const int ids[] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST};
    PEN__MD const mds[] = {pen__md_of(&shape->source),
                           pen__md_of(&shape->weight),
                           pen__md_of(&shape->target)};
    pen_status status =
        pen__product_init(self, description, 3, ids, mds, why, out);
    dnnl_primitive_desc_destroy(description);
    return status;
}

/* outputs x inputs = dy^T x */
static pen_status make_backward_weight(struct pen__onednn *self,
                                       const struct operands *operands,
                                       bool is_added, struct pen_text *why,
                                       struct pen__product *out)
{
    struct pen__product_shape shape = {.source = operands->turned_target,
                                       .weight = operands->shape.source,
                                       .target = operands->gradient};
    dnnl_primitive_desc_t description;
    dnnl_status_t made =
        pen__matmul(self->library, &shape, is_added, &description);
    if (made != dnnl_success)
        return pen__refused(made, "the gradient of a weight", why);
    const int ids[] = {DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SRC};
    PEN__MD const mds[] = {pen__md_of(&shape.weight), pen__md_of(&shape.target),
                           pen__md_of(&shape.source)};
    pen_status status =
        pen__product_init(self, description, 3, ids, mds, why, out);
    dnnl_primitive_desc_destroy(description);
    return status;
}

static pen_status make_products(struct pen__onednn *self,
                                const struct operands *operands, bool is_plain,
                                struct pen_text *why, struct pen__dense *dense)
{
    struct pen__product *products = dense->products;
    pen_status status = make_forward(self, operands, is_plain, false, why,
                                     &products[PEN__DENSE_FORWARD]);
    if (status == PEN_OK)
        status = make_forward(self, operands, is_plain, true, why,
                              &products[PEN__DENSE_FORWARD_ADD]);
    if (status == PEN_OK)
        status = make_backward_input(self, operands, why,
                                     &products[PEN__DENSE_BACKWARD_INPUT]);
    if (status == PEN_OK)
        status = make_backward_weight(self, operands, false, why,
                                      &products[PEN__DENSE_BACKWARD_WEIGHT]);
    if (status == PEN_OK)
        status =
            make_backward_weight(self, operands, true, why,
                                 &products[PEN__DENSE_BACKWARD_WEIGHT_ADD]);
    return status;
}

/*
 * The library writes the kernels of its matrix product, megabytes of them, when
 * it first multiplies, and each thread what it keeps for itself: not in the
 * first step.
 */
static pen_status write_kernels(struct pen__onednn *self, struct pen_text *why)
{
    enum { SIZE = 64 };
    size_t rows = (size_t)self->engine.threads * SIZE;
    uint16_t *zeros = calloc(2 * rows * SIZE, sizeof *zeros);
    struct pen__product product = {0};
    struct pen__product_shape shape = {0};
    dnnl_primitive_desc_t description = NULL;
    if (zeros == NULL)
        return PEN_NOMEM;
    dnnl_status_t made = matrix(&shape.source, rows, SIZE, dnnl_bf16);
    if (made == dnnl_success)
        made = matrix(&shape.weight, SIZE, SIZE, dnnl_bf16);
    if (made == dnnl_success)
        made = matrix(&shape.target, rows, SIZE, dnnl_bf16);
    if (made == dnnl_success)
        made = pen__matmul(self->library, &shape, false, &description);
    pen_status status =
        made == dnnl_success
            ? bind_forward(self, &shape, description, why, &product)
            : pen__refused(made, "a small product", why);
    if (status == PEN_OK)
        status = pen__scratch_grow(self, product.scratch_bytes, why);
    if (status == PEN_OK)
        pen__product_run(self, &product,
                         (const void *[]){zeros, zeros, zeros + rows * SIZE},
                         self->scratch);
    free(zeros);
    pen__product_release(&product);
    if (description != NULL)
        dnnl_primitive_desc_destroy(description);
    pen__md_release(&shape.source);
    pen__md_release(&shape.weight);
    pen__md_release(&shape.target);
    return status;
}

/* Notes the operands that pass through the library's buffers, column-major. */
static pen_status note_packing(struct pen__onednn *self,
                               const struct pen_linear *linear,
                               const struct pen__dense *dense,
                               struct pen_text *why)
{
    const size_t unit = sizeof(uint16_t);
    size_t rows = linear->rows;
    size_t inputs = linear->weight->shape.columns;
    size_t outputs = linear->weight->shape.rows;
    bool is_packing = false;
    for (int i = 0; i < PEN__DENSE_PRODUCTS; i++)
        is_packing = is_packing || dense->products[i].is_packing;
    if (dense->products[PEN__DENSE_FORWARD].is_packing)
        pen__packing_note(self, unit, outputs, rows, inputs);
    if (dense->products[PEN__DENSE_BACKWARD_INPUT].is_packing)
        pen__packing_note(self, unit, inputs, rows, outputs);
    if (dense->products[PEN__DENSE_BACKWARD_WEIGHT].is_packing)
        pen__packing_note(self, unit, inputs, outputs, rows);
    if (!is_packing || self->has_kernels)
        return PEN_OK;
    self->has_kernels = true;
    return write_kernels(self, why);
}

static pen_status prepare_rows(struct pen__onednn *self,
                               const struct pen_linear *linear,
                               struct pen_text *why)
{
    if (prepared(linear) != NULL)
        return PEN_OK;
    struct operands operands;
    dnnl_status_t made = operands_init(linear, &operands);
    if (made != dnnl_success)
        return pen__refused(made, "a dense layer of this size", why);
    struct pen__dense *dense = calloc(1, sizeof *dense);
    pen_status status =
        dense == NULL ? PEN_NOMEM
                      : make_products(self, &operands,
                                      linear->weight->lanes == 1, why, dense);
    size_t largest = 0;
    for (int i = 0; status == PEN_OK && i < PEN__DENSE_PRODUCTS; i++)
        if (dense->products[i].scratch_bytes > largest)
            largest = dense->products[i].scratch_bytes;
    if (status == PEN_OK)
        status = pen__scratch_grow(self, largest, why);
    if (status == PEN_OK)
        status = note_packing(self, linear, dense, why);
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

/* The largest power of two that is not more. */
static size_t largest_power(size_t rows)
{
    size_t power = 1;
    while (power <= rows / 2)
        power *= 2;
    return power;
}

/* A primitive is for one number of rows: any number is a sum of powers of two.
 */
static pen_status linear_prepare(struct pen_engine *engine,
                                 const struct pen_linear *linear,
                                 struct pen_text *why)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    if (!linear->is_ragged)
        return prepare_rows(self, linear, why);
    struct pen_linear part = *linear;
    pen_status status = PEN_OK;
    for (part.rows = largest_power(linear->rows);
         status == PEN_OK && part.rows > 0; part.rows /= 2)
        status = prepare_rows(self, &part, why);
    return status;
}

/* The first rows that one primitive takes; false when none are left. */
struct part {
    struct pen_linear linear;
    size_t first;
    size_t end;
};

static bool next_part(struct part *part)
{
    part->first += part->linear.rows;
    if (part->first == part->end)
        return false;
    part->linear.rows = part->linear.is_ragged
                            ? largest_power(part->end - part->first)
                            : part->end - part->first;
    return true;
}

static struct part parts_of(const struct pen_linear *linear)
{
    struct part part = {.linear = *linear, .end = linear->rows};
    part.linear.rows = 0;
    return part;
}

static const void *row_of(const void *matrix, size_t row, size_t columns)
{
    return matrix == NULL ? NULL : (const uint16_t *)matrix + row * columns;
}

static void forward(struct pen__onednn *self, const struct pen_linear *linear,
                    const void *x, const void *add, const void *y)
{
    struct pen__dense *dense = prepared(linear);
    PEN_BUG_UNLESS(dense != NULL);
    const void *pointers[5] = {x, linear->weight->half, y};
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

static void linear_forward(struct pen_engine *engine,
                           const struct pen_linear *linear, const void *x,
                           const void *add, void *y)
{
    const struct pen_parameter_shape *shape = &linear->weight->shape;
    for (struct part part = parts_of(linear); next_part(&part);)
        forward((struct pen__onednn *)engine, &part.linear,
                row_of(x, part.first, shape->columns),
                row_of(add, part.first, shape->rows),
                row_of(y, part.first, shape->rows));
}

static void backward_input(struct pen__onednn *self,
                           const struct pen_linear *linear, const void *dy,
                           const void *dx)
{
    struct pen__dense *dense = prepared(linear);
    PEN_BUG_UNLESS(dense != NULL);
    const void *pointers[] = {dx, linear->weight->half, dy};
    pen__product_run(self, &dense->products[PEN__DENSE_BACKWARD_INPUT],
                     pointers, self->scratch);
}

static void linear_backward_input(struct pen_engine *engine,
                                  const struct pen_linear *linear,
                                  const void *dy, void *dx)
{
    const struct pen_parameter_shape *shape = &linear->weight->shape;
    for (struct part part = parts_of(linear); next_part(&part);)
        backward_input((struct pen__onednn *)engine, &part.linear,
                       row_of(dy, part.first, shape->rows),
                       row_of(dx, part.first, shape->columns));
}

static void backward_weight(struct pen__onednn *self,
                            const struct pen_linear *linear, const void *x,
                            const void *dy)
{
    struct pen_parameter *weight = linear->weight;
    struct pen__dense *dense = prepared(linear);
    PEN_BUG_UNLESS(dense != NULL);
    const void *pointers[] = {x, weight->parts[PEN_PART_GRADIENT], dy};
    pen__product_run(self,
                     &dense->products[weight->is_gradient_zero
                                          ? PEN__DENSE_BACKWARD_WEIGHT
                                          : PEN__DENSE_BACKWARD_WEIGHT_ADD],
                     pointers, self->scratch);
    weight->is_gradient_zero = false;
    if (linear->bias != NULL)
        self->rows->add_columns(&self->engine, linear->rows, weight->shape.rows,
                                dy, pen__gradient(linear->bias));
}

static void linear_backward_weight(struct pen_engine *engine,
                                   const struct pen_linear *linear,
                                   const void *x, const void *dy)
{
    const struct pen_parameter_shape *shape = &linear->weight->shape;
    for (struct part part = parts_of(linear); next_part(&part);)
        backward_weight((struct pen__onednn *)engine, &part.linear,
                        row_of(x, part.first, shape->columns),
                        row_of(dy, part.first, shape->rows));
}

void pen__dense_bf16_ops(struct pen_engine_ops *ops)
{
    ops->linear_prepare = linear_prepare;
    ops->linear_forward = linear_forward;
    ops->linear_backward_input = linear_backward_input;
    ops->linear_backward_weight = linear_backward_weight;
}
