/* Parameters as plain arrays of floats on the device, and the optimizers. */
#include "engine/device/device.h"

#include "base/bug.h"

#include <math.h>
#include <stdlib.h>

static float *array_of(struct pen_engine *engine,
                       const struct pen_parameter *parameter)
{
    return pen__device_hold(engine, PEN_PLACE_ENGINE,
                            parameter->count * sizeof(float));
}

static void drop_array(struct pen_engine *engine,
                       const struct pen_parameter *parameter, float *array)
{
    pen__device_drop(engine, PEN_PLACE_ENGINE, array,
                     parameter->count * sizeof(float));
}

#define REAL float
#include "engine/plain_parameter_of_real.h"

static pen_status parameter_create(struct pen_engine *engine,
                                   const struct pen_parameter_shape *shape,
                                   struct pen_text *why,
                                   struct pen_parameter **out)
{
    if (shape->use == PEN_PARAMETER_FILTERS) {
        pen_why(why,
                "the %s engine has no convolutions; train a network of images "
                "with --engine onednn",
                engine->ops->name);
        return PEN_INVALID;
    }
    return create_plain(engine, shape, out);
}

static void parameter_put(struct pen_engine *engine,
                          struct pen_parameter *parameter, int copy)
{
    PEN_BUG_UNLESS(copy < parameter->num_copies);
    engine->ops->copy(engine, parameter->parts[PEN_PART_VALUE],
                      parameter->copies[copy],
                      parameter->count * sizeof(float));
}

/* Where number i of a parameter lies in a plain array. */
static size_t plain_at(const struct pen_parameter *parameter,
                       enum pen_parameter_order order, size_t i)
{
    size_t columns = parameter->shape.columns;
    return order == PEN_ORDER_ROWS
               ? i
               : i % columns * parameter->shape.rows + i / columns;
}

static size_t piece_at(const struct pen_parameter *parameter, size_t first)
{
    size_t left = parameter->count - first;
    return left < PEN__DEVICE_PIECE ? left : PEN__DEVICE_PIECE;
}

static void parameter_import(struct pen_engine *engine,
                             struct pen_parameter *parameter,
                             enum pen_parameter_part part,
                             enum pen_parameter_order order, const void *plain)
{
    float *piece = pen__device_of(engine)->piece;
    for (size_t first = 0; first < parameter->count;
         first += PEN__DEVICE_PIECE) {
        size_t count = piece_at(parameter, first);
        for (size_t i = 0; i < count; i++)
            piece[i] =
                ((const float *)plain)[plain_at(parameter, order, first + i)];
        engine->ops->copy(engine, piece, parameter->parts[part] + first,
                          count * sizeof(float));
        pen_engine_await(engine);
    }
}

static void parameter_export(struct pen_engine *engine,
                             struct pen_parameter *parameter,
                             enum pen_parameter_part part,
                             enum pen_parameter_order order, void *plain)
{
    float *piece = pen__device_of(engine)->piece;
    for (size_t first = 0; first < parameter->count;
         first += PEN__DEVICE_PIECE) {
        size_t count = piece_at(parameter, first);
        engine->ops->copy(engine, parameter->parts[part] + first, piece,
                          count * sizeof(float));
        pen_engine_await(engine);
        for (size_t i = 0; i < count; i++)
            ((float *)plain)[plain_at(parameter, order, first + i)] = piece[i];
    }
}

static void *parameter_read(struct pen_engine *engine,
                            struct pen_parameter *parameter,
                            enum pen_parameter_part part, size_t first,
                            size_t count, void *staging)
{
    PEN_BUG_UNLESS(first + count <= parameter->count && staging != NULL);
    engine->ops->copy(engine, parameter->parts[part] + first, staging,
                      count * sizeof(float));
    return staging;
}

static void parameter_write(struct pen_engine *engine,
                            struct pen_parameter *parameter,
                            enum pen_parameter_part part, size_t first,
                            size_t count, const void *from)
{
    PEN_BUG_UNLESS(first + count <= parameter->count);
    engine->ops->copy(engine, from, parameter->parts[part] + first,
                      count * sizeof(float));
}

/* Products read the value itself. */
static void parameter_value_changed(struct pen_engine *engine,
                                    struct pen_parameter *parameter)
{
    (void)engine;
    (void)parameter;
}

static void gradient_clear(struct pen_engine *engine,
                           struct pen_parameter *parameter)
{
    struct pen__driver *driver = pen__device_of(engine)->driver;
    driver->ops->clear(driver, parameter->parts[PEN_PART_GRADIENT],
                       parameter->count * sizeof(float));
}

static void gradient_sum_squares(
    struct pen_engine *engine, struct pen_parameter *parameter,
    /* NOLINTNEXTLINE(readability-non-const-parameter): kernels write there */
    double *sum)
{
    struct pen__device_fixed *fixed = pen__device_of(engine)->fixed;
    const struct pen__sum_sizes squares = {.count = (long)parameter->count};
    const struct pen__sum_sizes all = {
        .count = PEN__SUM_GROUPS, .divisor = 1, .is_first = 1};
    pen__launch(engine, PEN__KERNEL_sum_squares, PEN__SUM_GROUPS,
                PEN__AT(parameter->parts[PEN_PART_GRADIENT], fixed->parts),
                &squares);
    pen__launch(engine, PEN__KERNEL_sum_numbers, 1,
                PEN__AT(fixed->parts, &fixed->total, sum), &all);
}

static void adamw_step(struct pen_engine *engine,
                       struct pen_parameter *parameter,
                       const struct pen_adamw *adamw)
{
    PEN_BUG_UNLESS(parameter->shape.moments == 2);
    double steps = (double)adamw->step;
    const struct pen__adamw_sizes sizes = {
        .count = (long)parameter->count,
        .rate = (float)(adamw->learning_rate / (1 - pow(adamw->beta1, steps))),
        .correction = (float)(1 / sqrt(1 - pow(adamw->beta2, steps))),
        .keep = (float)(1 - adamw->learning_rate * adamw->weight_decay),
        .beta1 = (float)adamw->beta1,
        .beta2 = (float)adamw->beta2,
        .epsilon = (float)adamw->epsilon,
        .gradient_scale = (float)adamw->gradient_scale};
    pen__launch(engine, PEN__KERNEL_adamw,
                pen__groups(parameter->count, PEN__SHARE),
                PEN__AT(parameter->parts[PEN_PART_VALUE],
                        parameter->parts[PEN_PART_GRADIENT],
                        parameter->parts[PEN_PART_MOMENT1],
                        parameter->parts[PEN_PART_MOMENT2]),
                &sizes);
}

static void sgd_step(struct pen_engine *engine, struct pen_parameter *parameter,
                     const struct pen_sgd *sgd)
{
    PEN_BUG_UNLESS(sgd->momentum == 0 || parameter->shape.moments >= 1);
    const struct pen__sgd_sizes sizes = {.count = (long)parameter->count,
                                         .rate = (float)sgd->learning_rate,
                                         .momentum = (float)sgd->momentum,
                                         .decay = (float)sgd->weight_decay,
                                         .gradient_scale =
                                             (float)sgd->gradient_scale,
                                         .has_moment = sgd->momentum != 0,
                                         .is_nesterov = sgd->is_nesterov};
    pen__launch(engine, PEN__KERNEL_sgd,
                pen__groups(parameter->count, PEN__SHARE),
                PEN__AT(parameter->parts[PEN_PART_VALUE],
                        parameter->parts[PEN_PART_GRADIENT],
                        parameter->parts[PEN_PART_MOMENT1]),
                &sizes);
}

void pen__device_set_parameters(struct pen_engine_ops *ops)
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
    ops->parameter_write = parameter_write;
    ops->parameter_value_changed = parameter_value_changed;
    ops->gradient_clear = gradient_clear;
    ops->gradient_place = gradient_place;
    ops->value_bytes = value_bytes;
    ops->value_place = value_place;
    ops->gradient_add_second = gradient_add_second;
    ops->gradient_swap = gradient_swap;
    ops->gradient_sum_squares = gradient_sum_squares;
    ops->adamw_step = adamw_step;
    ops->sgd_step = sgd_step;
}
