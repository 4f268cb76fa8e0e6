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

static void free_array(struct pen_engine *engine,
                       const struct pen_parameter *parameter, REAL *array)
{
    if (array != NULL)
        ((struct pen__reference *)engine)->parameter_bytes -=
            parameter->count * sizeof(REAL);
    free(array);
}

static void parameter_free(struct pen_engine *engine,
                           struct pen_parameter *parameter)
{
    if (parameter == NULL)
        return;
    if (parameter->is_gradient_placed)
        parameter->parts[PEN_PART_GRADIENT] = NULL;
    if (parameter->is_value_placed)
        parameter->parts[PEN_PART_VALUE] = NULL;
    for (int part = 0; part <= PEN_PART_MOMENT2; part++)
        free_array(engine, parameter, parameter->parts[part]);
    for (int i = 0; i < parameter->num_copies; i++)
        free_array(engine, parameter, parameter->copies[i]);
    free_array(engine, parameter, parameter->second);
    free(parameter);
}

/* Parts first to end - 1. */
static pen_status add_parts(struct pen_engine *engine,
                            struct pen_parameter *parameter, int first, int end)
{
    for (int part = first; part < end; part++) {
        if ((part == PEN_PART_GRADIENT && parameter->shape.has_no_room) ||
            (part == PEN_PART_VALUE && parameter->shape.has_no_value))
            continue;
        parameter->parts[part] = array_of(engine, parameter);
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
    (void)why;
    struct pen_parameter *parameter = calloc(1, sizeof *parameter);
    if (parameter == NULL)
        return PEN_NOMEM;
    parameter->shape = *shape;
    parameter->count = shape->rows * shape->columns;
    pen_status status = add_parts(
        engine, parameter, 0, shape->is_value_only ? 1 : 2 + shape->moments);
    if (status == PEN_OK)
        *out = parameter;
    else
        parameter_free(engine, parameter);
    return status;
}

static pen_status parameter_add_moments(struct pen_engine *engine,
                                        struct pen_parameter *parameter,
                                        int moments, struct pen_text *why)
{
    (void)why;
    PEN_BUG_UNLESS(parameter->shape.moments == 0);
    parameter->shape.moments = moments;
    return add_parts(engine, parameter, PEN_PART_MOMENT1,
                     PEN_PART_MOMENT1 + moments);
}

static pen_status parameter_add_copy(struct pen_engine *engine,
                                     struct pen_parameter *parameter,
                                     struct pen_text *why)
{
    if (parameter->num_copies == MAX_COPIES) {
        pen_why(why, "the reference engine keeps at most %d copies of a weight",
                MAX_COPIES);
        return PEN_INVALID;
    }
    REAL *copy = array_of(engine, parameter);
    if (copy == NULL)
        return PEN_NOMEM;
    parameter->copies[parameter->num_copies++] = copy;
    return PEN_OK;
}

static void parameter_swap(struct pen_engine *engine,
                           struct pen_parameter *parameter, int copy)
{
    (void)engine;
    PEN_BUG_UNLESS(copy < parameter->num_copies);
    REAL *value = parameter->parts[PEN_PART_VALUE];
    parameter->parts[PEN_PART_VALUE] = parameter->copies[copy];
    parameter->copies[copy] = value;
}

static void parameter_put(struct pen_engine *engine,
                          struct pen_parameter *parameter, int copy)
{
    (void)engine;
    PEN_BUG_UNLESS(copy < parameter->num_copies);
    memcpy(parameter->copies[copy], parameter->parts[PEN_PART_VALUE],
           parameter->count * sizeof(REAL));
}

static void parameter_shape(const struct pen_parameter *parameter,
                            struct pen_parameter_shape *out)
{
    *out = parameter->shape;
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

/*
 * Places a part of a parameter in the caller's memory, or in memory of its own.
 */
static pen_status place(struct pen_engine *engine,
                        struct pen_parameter *parameter, int part, void *at)
{
    parameter->parts[part] = at != NULL ? at : array_of(engine, parameter);
    return parameter->parts[part] == NULL ? PEN_NOMEM : PEN_OK;
}

static pen_status gradient_place(struct pen_engine *engine,
                                 struct pen_parameter *parameter, void *at,
                                 struct pen_text *why)
{
    (void)why;
    PEN_BUG_UNLESS((parameter->is_gradient_placed && at != NULL) ||
                   parameter->parts[PEN_PART_GRADIENT] == NULL);
    parameter->is_gradient_placed = at != NULL;
    return place(engine, parameter, PEN_PART_GRADIENT, at);
}

static size_t value_bytes(const struct pen_engine *engine,
                          const struct pen_parameter *parameter)
{
    (void)engine;
    return parameter->count * sizeof(REAL);
}

static pen_status value_place(struct pen_engine *engine,
                              struct pen_parameter *parameter, void *at,
                              struct pen_text *why)
{
    (void)why;
    PEN_BUG_UNLESS(parameter->parts[PEN_PART_VALUE] == NULL);
    parameter->is_value_placed = at != NULL;
    return place(engine, parameter, PEN_PART_VALUE, at);
}

static pen_status gradient_add_second(struct pen_engine *engine,
                                      struct pen_parameter *parameter,
                                      struct pen_text *why)
{
    (void)why;
    PEN_BUG_UNLESS(parameter->second == NULL &&
                   !parameter->shape.is_value_only);
    parameter->second = array_of(engine, parameter);
    return parameter->second == NULL ? PEN_NOMEM : PEN_OK;
}

static void gradient_swap(struct pen_engine *engine,
                          struct pen_parameter *parameter)
{
    (void)engine;
    PEN_BUG_UNLESS(parameter->second != NULL);
    REAL *first = parameter->parts[PEN_PART_GRADIENT];
    parameter->parts[PEN_PART_GRADIENT] = parameter->second;
    parameter->second = first;
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
