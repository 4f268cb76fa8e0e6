/* Parameters: which layout they lie in, and how they come and go. */
#include "engine/onednn/onednn.h"

#include <stdlib.h>
#include <string.h>

/*
 * Layouts are chosen for this many rows whatever the micro-batch is, so that
 * they depend on the shape of the weight alone.
 */
enum { NOMINAL_ROWS = 512, ALIGNMENT = 64 };

/* Zeroed, and aligned to a cache line. */
static void *zeroed(size_t bytes)
{
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *block = aligned_alloc(ALIGNMENT, bytes);
    if (block != NULL)
        memset(block, 0, bytes);
    return block;
}

/* Asks for the weight's descriptor that one pass likes best. */
static bool preferred(struct pen__onednn *self,
                      const struct pen_parameter_shape *shape,
                      enum pen__pass pass, dnnl_primitive_desc_t hint,
                      struct pen__md *md, dnnl_primitive_desc_t *out)
{
    bool is_float = self->engine.dtype == PEN_PRECISION_F32;
    dnnl_data_type_t type = is_float ? dnnl_f32 : dnnl_bf16;
    bool is_gradient = pass == PEN__BACKWARD_WEIGHT;
    struct pen__product_shape any = {0};
    size_t source[] = {NOMINAL_ROWS, shape->columns};
    size_t target[] = {NOMINAL_ROWS, shape->rows};
    size_t weight[] = {shape->rows, shape->columns};
    size_t source_strides[] = {shape->columns, 1};
    size_t target_strides[] = {shape->rows, 1};
    bool is_made =
        pen__md_init(&any.source, 2, source, type, source_strides) ==
            dnnl_success &&
        pen__md_init(&any.target, 2, target, type, target_strides) ==
            dnnl_success &&
        pen__md_init(&any.weight, 2, weight, is_gradient ? dnnl_f32 : type,
                     NULL) == dnnl_success &&
        pen__inner_product(self->library, pass, &any, hint, out) ==
            dnnl_success;
    pen__md_release(&any.source);
    pen__md_release(&any.target);
    pen__md_release(&any.weight);
    if (!is_made)
        return false;
    PEN__MD found = dnnl_primitive_desc_query_md(
        *out, is_gradient ? dnnl_query_diff_weights_md : dnnl_query_weights_md,
        0);
    if (pen__md_copy(md, found) == dnnl_success)
        return true;
    dnnl_primitive_desc_destroy(*out);
    return false;
}

/* Does the float layout suit us, and the bf16 one fit beside it? */
static bool layouts_fit(struct pen_parameter *parameter)
{
    PEN__MD floats = pen__md_of(&parameter->float_md);
    if (!pen__md_lanes(floats, &parameter->lanes, &parameter->block))
        return false;
    size_t blocks =
        (parameter->shape.rows + parameter->lanes - 1) / parameter->lanes;
    parameter->count = blocks * parameter->block;
    if (dnnl_memory_desc_get_size(floats) != parameter->count * sizeof(float))
        return false;
    if (!parameter->half_md.is_set)
        return true;
    size_t half_lanes = 0;
    PEN__MD halves = pen__md_of(&parameter->half_md);
    if (!pen__md_paired_lanes(halves, &half_lanes, &parameter->half_block))
        return false;
    parameter->half_count = blocks * parameter->half_block;
    return half_lanes == parameter->lanes &&
           parameter->block % (PEN__PIECE_COLUMNS * half_lanes) == 0 &&
           parameter->half_block >= parameter->block &&
           dnnl_memory_desc_get_size(halves) ==
               parameter->half_count * sizeof(uint16_t);
}

static bool choose_layout(struct pen__onednn *self,
                          struct pen_parameter *parameter)
{
    const struct pen_parameter_shape *shape = &parameter->shape;
    bool is_float = self->engine.dtype == PEN_PRECISION_F32;
    dnnl_primitive_desc_t forward;
    dnnl_primitive_desc_t gradient;
    if (!preferred(self, shape, PEN__FORWARD, NULL,
                   is_float ? &parameter->float_md : &parameter->half_md,
                   &forward))
        return false;
    bool is_found = true;
    if (!is_float) {
        is_found = preferred(self, shape, PEN__BACKWARD_WEIGHT, forward,
                             &parameter->float_md, &gradient);
        if (is_found)
            dnnl_primitive_desc_destroy(gradient);
    }
    dnnl_primitive_desc_destroy(forward);
    return is_found && layouts_fit(parameter);
}

/* What every primitive accepts: rows after rows. */
static dnnl_status_t plain_layout(struct pen__onednn *self,
                                  struct pen_parameter *parameter)
{
    size_t sizes[] = {parameter->shape.rows, parameter->shape.columns};
    size_t strides[] = {parameter->shape.columns, 1};
    pen__md_release(&parameter->float_md);
    pen__md_release(&parameter->half_md);
    parameter->lanes = 1;
    parameter->block = parameter->half_block = parameter->shape.columns;
    parameter->count = parameter->half_count = sizes[0] * sizes[1];
    dnnl_status_t status =
        pen__md_init(&parameter->float_md, 2, sizes, dnnl_f32, strides);
    if (status == dnnl_success && self->engine.dtype == PEN_PRECISION_BF16)
        status =
            pen__md_init(&parameter->half_md, 2, sizes, dnnl_bf16, strides);
    return status;
}

static size_t bytes_of(const struct pen_parameter *parameter)
{
    size_t num_parts = 2 + (size_t)parameter->shape.moments;
    size_t halves = parameter->half == NULL ? 0 : parameter->half_count;
    return num_parts * parameter->count * sizeof(float) +
           halves * sizeof(uint16_t);
}

static void parameter_free(struct pen_engine *engine,
                           struct pen_parameter *parameter)
{
    if (parameter == NULL)
        return;
    ((struct pen__onednn *)engine)->parameter_bytes -= bytes_of(parameter);
    pen__dense_free(parameter->dense);
    pen__md_release(&parameter->float_md);
    pen__md_release(&parameter->half_md);
    for (int part = 0; part <= PEN_PART_MOMENT2; part++)
        free(parameter->parts[part]);
    free(parameter->half);
    free(parameter);
}

static pen_status parameter_create(struct pen_engine *engine,
                                   const struct pen_parameter_shape *shape,
                                   struct pen_text *why,
                                   struct pen_parameter **out)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    struct pen_parameter *parameter = calloc(1, sizeof *parameter);
    if (parameter == NULL)
        return PEN_NOMEM;
    parameter->shape = *shape;
    bool is_dense = shape->use == PEN_PARAMETER_DENSE;
    bool has_half = is_dense && engine->dtype == PEN_PRECISION_BF16;
    pen_status status = PEN_OK;
    if (!is_dense || !choose_layout(self, parameter)) {
        dnnl_status_t plain = plain_layout(self, parameter);
        if (plain != dnnl_success)
            status = pen__refused(plain, "a weight of this size", why);
    }
    for (int part = 0; part < 2 + shape->moments && status == PEN_OK; part++) {
        parameter->parts[part] = zeroed(parameter->count * sizeof(float));
        if (parameter->parts[part] == NULL)
            status = PEN_NOMEM;
    }
    if (has_half && status == PEN_OK) {
        parameter->half = zeroed(parameter->half_count * sizeof(uint16_t));
        if (parameter->half == NULL)
            status = PEN_NOMEM;
    }
    self->parameter_bytes += bytes_of(parameter);
    parameter->is_gradient_zero = true;
    if (status == PEN_OK)
        *out = parameter;
    else
        parameter_free(engine, parameter);
    return status;
}

static void parameter_shape(const struct pen_parameter *parameter,
                            struct pen_parameter_shape *out)
{
    *out = parameter->shape;
}

float *pen__gradient(struct pen_parameter *parameter)
{
    float *gradient = parameter->parts[PEN_PART_GRADIENT];
    if (parameter->is_gradient_zero)
        memset(gradient, 0, parameter->count * sizeof *gradient);
    parameter->is_gradient_zero = false;
    return gradient;
}

static void *parameter_span(struct pen_engine *engine,
                            struct pen_parameter *parameter,
                            enum pen_parameter_part part, size_t *count)
{
    (void)engine;
    *count = parameter->count;
    return part == PEN_PART_GRADIENT ? pen__gradient(parameter)
                                     : parameter->parts[part];
}

static size_t plain_at(const struct pen_parameter_shape *shape,
                       enum pen_parameter_order order, size_t row,
                       size_t column)
{
    return order == PEN_ORDER_ROWS ? row * shape->columns + column
                                   : column * shape->rows + row;
}

static void parameter_import(struct pen_engine *engine,
                             struct pen_parameter *parameter,
                             enum pen_parameter_part part,
                             enum pen_parameter_order order, const void *plain)
{
    size_t count;
    float *to = parameter_span(engine, parameter, part, &count);
    for (size_t row = 0; row < parameter->shape.rows; row++)
        for (size_t column = 0; column < parameter->shape.columns; column++)
            to[pen__parameter_at(parameter, row, column)] =
                ((const float *)
                     plain)[plain_at(&parameter->shape, order, row, column)];
    if (part == PEN_PART_VALUE)
        engine->ops->parameter_value_changed(engine, parameter);
}

static void parameter_export(struct pen_engine *engine,
                             struct pen_parameter *parameter,
                             enum pen_parameter_part part,
                             enum pen_parameter_order order, void *plain)
{
    size_t count;
    const float *from = parameter_span(engine, parameter, part, &count);
    for (size_t row = 0; row < parameter->shape.rows; row++)
        for (size_t column = 0; column < parameter->shape.columns; column++)
            ((float *)plain)[plain_at(&parameter->shape, order, row, column)] =
                from[pen__parameter_at(parameter, row, column)];
}

static void gradient_clear(struct pen_engine *engine,
                           struct pen_parameter *parameter)
{
    (void)engine;
    parameter->is_gradient_zero = true;
}

void pen__parameter_ops(struct pen_engine_ops *ops)
{
    ops->parameter_create = parameter_create;
    ops->parameter_free = parameter_free;
    ops->parameter_shape = parameter_shape;
    ops->parameter_import = parameter_import;
    ops->parameter_export = parameter_export;
    ops->parameter_span = parameter_span;
    ops->gradient_clear = gradient_clear;
}
