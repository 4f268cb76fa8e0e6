/* Parameters as plain row-major arrays, and the optimizers. */

/* Zeroed and resident, for a step must not be the first to need it. */
static REAL *array_of(struct pen_engine *engine,
                      const struct pen_parameter *parameter)
{
    size_t bytes = parameter->count * sizeof(REAL);
    REAL *array = malloc(bytes);
    if (array == NULL)
        return NULL;
    memset(array, 0, bytes);
    ((struct pen__reference *)engine)->parameter_bytes += bytes;
    return array;
}

static void drop_array(struct pen_engine *engine,
                       const struct pen_parameter *parameter, REAL *array)
{
    if (array != NULL)
        ((struct pen__reference *)engine)->parameter_bytes -=
            parameter->count * sizeof(REAL);
    free(array);
}

#include "engine/plain_parameter_of_real.h"

static pen_status parameter_create(struct pen_engine *engine,
                                   const struct pen_parameter_shape *shape,
                                   struct pen_text *why,
                                   struct pen_parameter **out)
{
    (void)why;
    return create_plain(engine, shape, out);
}

static void parameter_put(struct pen_engine *engine,
                          struct pen_parameter *parameter, int copy)
{
    (void)engine;
    PEN_BUG_UNLESS(copy < parameter->num_copies);
    memcpy(parameter->copies[copy], parameter->parts[PEN_PART_VALUE],
           parameter->count * sizeof(REAL));
}

/* Where element (row, column) lies in a plain array. */
static size_t plain_at(const struct pen_parameter *parameter,
                       enum pen_parameter_order order, size_t row,
                       size_t column)
{
    return order == PEN_ORDER_ROWS ? row * parameter->shape.columns + column
                                   : column * parameter->shape.rows + row;
}

static void parameter_import(struct pen_engine *engine,
                             struct pen_parameter *parameter,
                             enum pen_parameter_part part,
                             enum pen_parameter_order order, const void *plain)
{
    (void)engine;
    const REAL *from = plain;
    REAL *to = parameter->parts[part];
    for (size_t row = 0; row < parameter->shape.rows; row++)
        for (size_t column = 0; column < parameter->shape.columns; column++)
            *to++ = from[plain_at(parameter, order, row, column)];
}

static void parameter_export(struct pen_engine *engine,
                             struct pen_parameter *parameter,
                             enum pen_parameter_part part,
                             enum pen_parameter_order order, void *plain)
{
    (void)engine;
    const REAL *from = parameter->parts[part];
    REAL *to = plain;
    for (size_t row = 0; row < parameter->shape.rows; row++)
        for (size_t column = 0; column < parameter->shape.columns; column++)
            to[plain_at(parameter, order, row, column)] = *from++;
}

static void *parameter_read(struct pen_engine *engine,
                            struct pen_parameter *parameter,
                            enum pen_parameter_part part, size_t first,
                            size_t count, void *staging)
{
    (void)engine;
    (void)staging;
    PEN_BUG_UNLESS(first + count <= parameter->count);
    return parameter->parts[part] + first;
}

static void parameter_value_changed(struct pen_engine *engine,
                                    struct pen_parameter *parameter)
{
    (void)engine;
    (void)parameter;
}

static void gradient_clear(struct pen_engine *engine,
                           struct pen_parameter *parameter)
{
    (void)engine;
    memset(parameter->parts[PEN_PART_GRADIENT], 0,
           parameter->count * sizeof(REAL));
}

static void gradient_add_rows(struct pen_engine *engine,
                              struct pen_parameter *parameter, int32_t first,
                              size_t count, const int32_t *rows,
                              const void *from)
{
    (void)engine;
    size_t width = parameter->shape.columns;
    for (size_t row = 0; row < count; row++) {
        const REAL *in = (const REAL *)from + row * width;
        size_t at = (size_t)(rows[row] - first);
        if (at >= parameter->shape.rows)
            continue;
        REAL *to = parameter->parts[PEN_PART_GRADIENT] + at * width;
        for (size_t i = 0; i < width; i++)
            to[i] += in[i];
    }
}

static void gradient_sum_squares(struct pen_engine *engine,
                                 struct pen_parameter *parameter, double *out)
{
    (void)engine;
    const REAL *gradient = parameter->parts[PEN_PART_GRADIENT];
    double sum = 0;
    for (size_t i = 0; i < parameter->count; i++)
        sum += (double)gradient[i] * (double)gradient[i];
    *out = sum;
}

/* Loshchilov and Hutter, ICLR 2019, algorithm 2. */
static void adamw_step(struct pen_engine *engine,
                       struct pen_parameter *parameter,
                       const struct pen_adamw *adamw)
{
    (void)engine;
    PEN_BUG_UNLESS(parameter->shape.moments == 2);
    double steps = (double)adamw->step;
    REAL rate = (REAL)(adamw->learning_rate / (1 - pow(adamw->beta1, steps)));
    REAL correction = (REAL)(1 / sqrt(1 - pow(adamw->beta2, steps)));
    REAL keep = (REAL)(1 - adamw->learning_rate * adamw->weight_decay);
    REAL beta1 = (REAL)adamw->beta1;
    REAL beta2 = (REAL)adamw->beta2;
    REAL *value = parameter->parts[PEN_PART_VALUE];
    REAL *first = parameter->parts[PEN_PART_MOMENT1];
    REAL *second = parameter->parts[PEN_PART_MOMENT2];
    for (size_t i = 0; i < parameter->count; i++) {
        REAL gradient = parameter->parts[PEN_PART_GRADIENT][i] *
                        (REAL)adamw->gradient_scale;
        first[i] = beta1 * first[i] + (1 - beta1) * gradient;
        second[i] = beta2 * second[i] + (1 - beta2) * gradient * gradient;
        value[i] = keep * value[i] - rate * first[i] /
                                         (FN(sqrt)(second[i]) * correction +
                                          (REAL)adamw->epsilon);
    }
}

static void sgd_step(struct pen_engine *engine, struct pen_parameter *parameter,
                     const struct pen_sgd *sgd)
{
    (void)engine;
    PEN_BUG_UNLESS(sgd->momentum == 0 || parameter->shape.moments >= 1);
    REAL momentum = (REAL)sgd->momentum;
    REAL *value = parameter->parts[PEN_PART_VALUE];
    REAL *first = parameter->parts[PEN_PART_MOMENT1];
    for (size_t i = 0; i < parameter->count; i++) {
        REAL gradient =
            parameter->parts[PEN_PART_GRADIENT][i] * (REAL)sgd->gradient_scale +
            (REAL)sgd->weight_decay * value[i];
        REAL move = gradient;
        if (sgd->momentum != 0) {
            first[i] = momentum * first[i] + gradient;
            move = sgd->is_nesterov ? gradient + momentum * first[i] : first[i];
        }
        value[i] -= (REAL)sgd->learning_rate * move;
    }
}
