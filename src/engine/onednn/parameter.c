/* Parameters: which layout their copies lie in, and how they come and go. */
#include "base/bug.h"
#include "engine/host_memory.h"
#include "engine/onednn/onednn.h"

#include <stdlib.h>
#include <string.h>

/*
 * Layouts are chosen for this many rows whatever the micro-batch is, so that
 * they depend on the shape of the weight alone.
 */
enum { NOMINAL_ROWS = 512 };

/*
 * The library's inner product takes twice as long as its plain matrix product
 * for the gradient of the input where the outputs are many (heads), from the
 * layout that it likes best. Where the weight is plain, the inner product uses
 * the matrix product.
 */
static bool wants_plain_copy(const struct pen_parameter_shape *shape)
{
    return shape->rows > 8 * shape->columns;
}

/* The layout that the forward inner product likes, if it is one we can write.
 */
static bool blocked_copy(struct pen__onednn *self,
                         struct pen_parameter *parameter)
{
    const struct pen_parameter_shape *shape = &parameter->shape;
    struct pen__product_shape any = {0};
    size_t source[] = {NOMINAL_ROWS, shape->columns};
    size_t target[] = {NOMINAL_ROWS, shape->rows};
    size_t weight[] = {shape->rows, shape->columns};
    size_t source_strides[] = {shape->columns, 1};
    size_t target_strides[] = {shape->rows, 1};
    dnnl_primitive_desc_t description;
    bool is_made =
        pen__md_init(&any.source, 2, source, dnnl_bf16, source_strides) ==
            dnnl_success &&
        pen__md_init(&any.target, 2, target, dnnl_bf16, target_strides) ==
            dnnl_success &&
        pen__md_init(&any.weight, 2, weight, dnnl_bf16, NULL) == dnnl_success &&
        pen__inner_product(self->library, PEN__FORWARD, &any, NULL,
                           &description) == dnnl_success;
    pen__md_release(&any.source);
    pen__md_release(&any.target);
    pen__md_release(&any.weight);
    if (!is_made)
        return false;
    PEN__MD liked =
        dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0);
    bool is_blocked = pen__md_paired_lanes(liked, &parameter->lanes,
                                           &parameter->half_block) &&
                      parameter->lanes <= PEN__MAX_LANES &&
                      pen__md_copy(&parameter->half_md, liked) == dnnl_success;
    dnnl_primitive_desc_destroy(description);
    return is_blocked;
}

static pen_status make_copy(struct pen__onednn *self,
                            struct pen_parameter *parameter,
                            struct pen_text *why)
{
    const struct pen_parameter_shape *shape = &parameter->shape;
    if (wants_plain_copy(shape) || !blocked_copy(self, parameter)) {
        size_t sizes[] = {shape->rows, shape->columns};
        size_t strides[] = {shape->columns, 1};
        dnnl_status_t plain =
            pen__md_init(&parameter->half_md, 2, sizes, dnnl_bf16, strides);
        if (plain != dnnl_success)
            return pen__refused(plain, "a weight of this size", why);
        parameter->lanes = 1;
        parameter->half_block = shape->columns;
    }
    parameter->half_count = (shape->rows + parameter->lanes - 1) /
                            parameter->lanes * parameter->half_block;
    if (shape->has_no_value)
        return PEN_OK;
    parameter->half = pen__zeroed(parameter->half_count * sizeof(uint16_t));
    return parameter->half == NULL ? PEN_NOMEM : PEN_OK;
}

/* A value, with its copy in bf16 where there is one. */
static size_t bytes_of_value(const struct pen_parameter *parameter)
{
    return parameter->count * sizeof(float) +
           parameter->half_count * sizeof(uint16_t);
}

static size_t bytes_of(const struct pen_parameter *parameter)
{
    bool has_value =
        parameter->parts[PEN_PART_VALUE] != NULL && !parameter->is_value_placed;
    size_t bytes = has_value ? bytes_of_value(parameter) : 0;
    for (int part = PEN_PART_GRADIENT; part <= PEN_PART_MOMENT2; part++)
        if (parameter->parts[part] != NULL &&
            !(part == PEN_PART_GRADIENT && parameter->is_gradient_placed))
            bytes += parameter->count * sizeof(float);
    if (parameter->second != NULL)
        bytes += parameter->count * sizeof(float);
    for (const struct pen__value_copy *it = parameter->copies; it != NULL;
         it = it->next)
        bytes += bytes_of_value(parameter);
    return bytes;
}

static void free_copies(struct pen_parameter *parameter)
{
    while (parameter->copies != NULL) {
        struct pen__value_copy *it = parameter->copies;
        parameter->copies = it->next;
        pen__zeroed_free(it->value, parameter->count * sizeof(float));
        pen__zeroed_free(it->half, parameter->half_count * sizeof(uint16_t));
        free(it);
    }
}

static void parameter_free(struct pen_engine *engine,
                           struct pen_parameter *parameter)
{
    if (parameter == NULL)
        return;
    ((struct pen__onednn *)engine)->parameter_bytes -= bytes_of(parameter);
    free_copies(parameter);
    pen__dense_free(parameter->dense);
    pen__md_release(&parameter->half_md);
    if (parameter->is_gradient_placed)
        parameter->parts[PEN_PART_GRADIENT] = NULL;
    if (parameter->is_value_placed) {
        parameter->parts[PEN_PART_VALUE] = NULL;
        parameter->half = NULL;
    }
    for (int part = 0; part <= PEN_PART_MOMENT2; part++)
        pen__zeroed_free(parameter->parts[part],
                         parameter->count * sizeof(float));
    pen__zeroed_free(parameter->second, parameter->count * sizeof(float));
    pen__zeroed_free(parameter->half, parameter->half_count * sizeof(uint16_t));
    free(parameter);
}

/* Parts first to end - 1. */
static pen_status add_parts(struct pen_parameter *parameter, int first, int end)
{
    for (int part = first; part < end; part++) {
        if ((part == PEN_PART_GRADIENT && parameter->shape.has_no_room) ||
            (part == PEN_PART_VALUE && parameter->shape.has_no_value))
            continue;
        parameter->parts[part] = pen__zeroed(parameter->count * sizeof(float));
        if (parameter->parts[part] == NULL)
            return PEN_NOMEM;
    }
    return PEN_OK;
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
    parameter->count = shape->rows * shape->columns;
    int num_parts = shape->is_value_only ? 1 : 2 + shape->moments;
    pen_status status = add_parts(parameter, 0, num_parts);
    if (status == PEN_OK && shape->use == PEN_PARAMETER_DENSE &&
        engine->dtype == PEN_PRECISION_BF16)
        status = make_copy(self, parameter, why);
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

static pen_status parameter_add_moments(struct pen_engine *engine,
                                        struct pen_parameter *parameter,
                                        int moments, struct pen_text *why)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    (void)why;
    PEN_BUG_UNLESS(parameter->shape.moments == 0);
    self->parameter_bytes -= bytes_of(parameter);
    parameter->shape.moments = moments;
    pen_status status =
        add_parts(parameter, PEN_PART_MOMENT1, PEN_PART_MOMENT1 + moments);
    self->parameter_bytes += bytes_of(parameter);
    return status;
}

static pen_status parameter_add_copy(struct pen_engine *engine,
                                     struct pen_parameter *parameter,
                                     struct pen_text *why)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    struct pen__value_copy **end = &parameter->copies;
    struct pen__value_copy *copy = calloc(1, sizeof *copy);
    (void)why;
    if (copy == NULL)
        return PEN_NOMEM;
    while (*end != NULL)
        end = &(*end)->next;
    *end = copy; /* freed with the parameter from here on */
    self->parameter_bytes += bytes_of_value(parameter);
    copy->value = pen__zeroed(parameter->count * sizeof(float));
    if (parameter->half != NULL)
        copy->half = pen__zeroed(parameter->half_count * sizeof(uint16_t));
    bool is_whole =
        copy->value != NULL && (parameter->half == NULL || copy->half != NULL);
    return is_whole ? PEN_OK : PEN_NOMEM;
}

static struct pen__value_copy *copy_at(struct pen_parameter *parameter,
                                       int number)
{
    struct pen__value_copy *it = parameter->copies;
    for (int i = 0; i < number && it != NULL; i++)
        it = it->next;
    PEN_BUG_UNLESS(it != NULL);
    return it;
}

static void parameter_swap(struct pen_engine *engine,
                           struct pen_parameter *parameter, int copy)
{
    struct pen__value_copy *with = copy_at(parameter, copy);
    float *value = parameter->parts[PEN_PART_VALUE];
    uint16_t *half = parameter->half;
    (void)engine;
    parameter->parts[PEN_PART_VALUE] = with->value;
    parameter->half = with->half;
    with->value = value;
    with->half = half;
}

static void parameter_put(struct pen_engine *engine,
                          struct pen_parameter *parameter, int copy)
{
    struct pen__value_copy *to = copy_at(parameter, copy);
    (void)engine;
    memcpy(to->value, parameter->parts[PEN_PART_VALUE],
           parameter->count * sizeof(float));
    if (to->half != NULL)
        memcpy(to->half, parameter->half,
               parameter->half_count * sizeof(uint16_t));
}

float *pen__gradient(struct pen_parameter *parameter)
{
    float *gradient = parameter->parts[PEN_PART_GRADIENT];
    if (parameter->is_gradient_zero)
        memset(gradient, 0, parameter->count * sizeof *gradient);
    parameter->is_gradient_zero = false;
    return gradient;
}

static float *part_of(struct pen_parameter *parameter,
                      enum pen_parameter_part part)
{
    return part == PEN_PART_GRADIENT ? pen__gradient(parameter)
                                     : parameter->parts[part];
}

static void *parameter_read(struct pen_engine *engine,
                            struct pen_parameter *parameter,
                            enum pen_parameter_part part, size_t first,
                            size_t count, void *staging)
{
    (void)engine;
    (void)staging;
    PEN_BUG_UNLESS(first + count <= parameter->count);
    return part_of(parameter, part) + first;
}

/* to[column][row] = from[row][column], in tiles that stay in cache. */
static void transpose(const float *from, size_t rows, size_t columns, float *to)
{
    enum { TILE = 32 };
    for (size_t top = 0; top < rows; top += TILE)
        for (size_t left = 0; left < columns; left += TILE) {
            size_t bottom = top + TILE < rows ? top + TILE : rows;
            size_t right = left + TILE < columns ? left + TILE : columns;
            for (size_t row = top; row < bottom; row++)
                for (size_t column = left; column < right; column++)
                    to[column * rows + row] = from[row * columns + column];
        }
}

static void parameter_import(struct pen_engine *engine,
                             struct pen_parameter *parameter,
                             enum pen_parameter_part part,
                             enum pen_parameter_order order, const void *plain)
{
    const struct pen_parameter_shape *shape = &parameter->shape;
    float *to = part_of(parameter, part);
    if (order == PEN_ORDER_ROWS)
        memcpy(to, plain, parameter->count * sizeof *to);
    else
        transpose(plain, shape->columns, shape->rows, to);
    if (part == PEN_PART_VALUE)
        engine->ops->parameter_value_changed(engine, parameter);
}

static void parameter_export(struct pen_engine *engine,
                             struct pen_parameter *parameter,
                             enum pen_parameter_part part,
                             enum pen_parameter_order order, void *plain)
{
    const struct pen_parameter_shape *shape = &parameter->shape;
    const float *from = part_of(parameter, part);
    (void)engine;
    if (order == PEN_ORDER_ROWS)
        memcpy(plain, from, parameter->count * sizeof *from);
    else
        transpose(from, shape->rows, shape->columns, plain);
}

static void gradient_clear(struct pen_engine *engine,
                           struct pen_parameter *parameter)
{
    (void)engine;
    parameter->is_gradient_zero = true;
}

static pen_status gradient_place(struct pen_engine *engine,
                                 struct pen_parameter *parameter, void *at,
                                 struct pen_text *why)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    (void)why;
    bool is_other = parameter->is_gradient_placed && at != NULL;
    PEN_BUG_UNLESS(is_other || parameter->parts[PEN_PART_GRADIENT] == NULL);
    if (is_other)
        parameter->is_gradient_zero = false;
    self->parameter_bytes -= bytes_of(parameter);
    parameter->is_gradient_placed = at != NULL;
    parameter->parts[PEN_PART_GRADIENT] =
        at != NULL ? at : pen__zeroed(parameter->count * sizeof(float));
    self->parameter_bytes += bytes_of(parameter);
    return parameter->parts[PEN_PART_GRADIENT] == NULL ? PEN_NOMEM : PEN_OK;
}

/* Returns where the bf16 copy begins, after the value. */
static size_t half_at(const struct pen_parameter *parameter)
{
    enum { LINE = 64 };
    return (parameter->count * sizeof(float) + LINE - 1) / LINE * LINE;
}

static size_t value_bytes(const struct pen_engine *engine,
                          const struct pen_parameter *parameter)
{
    (void)engine;
    return half_at(parameter) + parameter->half_count * sizeof(uint16_t);
}

static pen_status value_place(struct pen_engine *engine,
                              struct pen_parameter *parameter, void *at,
                              struct pen_text *why)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    size_t halves = parameter->half_count * sizeof(uint16_t);
    (void)why;
    PEN_BUG_UNLESS(parameter->parts[PEN_PART_VALUE] == NULL);
    self->parameter_bytes -= bytes_of(parameter);
    parameter->is_value_placed = at != NULL;
    parameter->parts[PEN_PART_VALUE] =
        at != NULL ? at : pen__zeroed(parameter->count * sizeof(float));
    if (halves > 0)
        parameter->half = at != NULL ? (void *)((char *)at + half_at(parameter))
                                     : pen__zeroed(halves);
    self->parameter_bytes += bytes_of(parameter);
    bool is_whole = parameter->parts[PEN_PART_VALUE] != NULL &&
                    (halves == 0 || parameter->half != NULL);
    return is_whole ? PEN_OK : PEN_NOMEM;
}

static pen_status gradient_add_second(struct pen_engine *engine,
                                      struct pen_parameter *parameter,
                                      struct pen_text *why)
{
    (void)why;
    PEN_BUG_UNLESS(parameter->second == NULL &&
                   !parameter->shape.is_value_only);
    parameter->second = pen__zeroed(parameter->count * sizeof(float));
    parameter->is_second_zero = true;
    if (parameter->second == NULL)
        return PEN_NOMEM;
    ((struct pen__onednn *)engine)->parameter_bytes +=
        parameter->count * sizeof(float);
    return PEN_OK;
}

static void gradient_swap(struct pen_engine *engine,
                          struct pen_parameter *parameter)
{
    float *first = parameter->parts[PEN_PART_GRADIENT];
    bool is_first_zero = parameter->is_gradient_zero;
    (void)engine;
    PEN_BUG_UNLESS(parameter->second != NULL);
    parameter->parts[PEN_PART_GRADIENT] = parameter->second;
    parameter->is_gradient_zero = parameter->is_second_zero;
    parameter->second = first;
    parameter->is_second_zero = is_first_zero;
}

void pen__parameter_ops(struct pen_engine_ops *ops)
{
    ops->parameter_create = parameter_create;
    ops->parameter_free = parameter_free;
    ops->parameter_shape = parameter_shape;
    ops->parameter_add_moments = parameter_add_moments;
    ops->parameter_add_copy = parameter_add_copy;
    ops->parameter_swap = parameter_swap;
    ops->parameter_put = parameter_put;
    ops->parameter_import = parameter_import;
    ops->parameter_export = parameter_export;
    ops->parameter_read = parameter_read;
    ops->parameter_write = pen_host_parameter_write;
    ops->gradient_clear = gradient_clear;
    ops->gradient_place = gradient_place;
    ops->value_bytes = value_bytes;
    ops->value_place = value_place;
    ops->gradient_add_second = gradient_add_second;
    ops->gradient_swap = gradient_swap;
}
