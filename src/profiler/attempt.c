/* Arrays and parameters of one operation on one engine. */
#include "profiler/attempt.h"

#include "base/bug.h"

#include <stdlib.h>

static enum pen_precision master_of(const struct pen__attempt *attempt)
{
    return pen_precision_master(attempt->engine->dtype);
}

static void *take(struct pen__attempt *attempt, size_t bytes)
{
    PEN_BUG_UNLESS(attempt->num_arrays < PEN__ATTEMPT_ARRAYS);
    void *at = pen_engine_take(attempt->engine, PEN_PLACE_STAGING, bytes);
    if (at == NULL) {
        attempt->status = PEN_NOMEM;
        return NULL;
    }
    attempt->arrays[attempt->num_arrays++] = (struct pen__array){at, bytes};
    return at;
}

static float draw(struct pen__attempt *attempt)
{
    double unit = pen_random_unit(&attempt->random);
    return pen_bf16_to_float(pen_bf16_from_float((float)(2 * unit - 1)));
}

double pen__attempt_draw(struct pen__attempt *attempt)
{
    return (double)draw(attempt);
}

static void put(enum pen_precision dtype, void *at, size_t i, float number)
{
    if (dtype == PEN_PRECISION_F64)
        ((double *)at)[i] = (double)number;
    else if (dtype == PEN_PRECISION_F32)
        ((float *)at)[i] = number;
    else
        ((uint16_t *)at)[i] = pen_bf16_from_float(number);
}

void *pen__attempt_output(struct pen__attempt *attempt, size_t count)
{
    return take(attempt, count * pen_precision_bytes(attempt->engine->dtype));
}

void *pen__attempt_input(struct pen__attempt *attempt, size_t count)
{
    void *at = pen__attempt_output(attempt, count);
    for (size_t i = 0; i < count && at != NULL; i++)
        put(attempt->engine->dtype, at, i, draw(attempt));
    return at;
}

void *pen__attempt_stats(struct pen__attempt *attempt, size_t count)
{
    return take(attempt, count * pen_precision_bytes(master_of(attempt)));
}

int32_t *pen__attempt_ids(struct pen__attempt *attempt, size_t count,
                          size_t limit)
{
    int32_t *ids = take(attempt, count * sizeof *ids);
    for (size_t i = 0; i < count && ids != NULL; i++)
        ids[i] = (int32_t)pen_random_below(&attempt->random, (uint32_t)limit);
    return ids;
}

double *pen__attempt_number(struct pen__attempt *attempt)
{
    return take(attempt, sizeof(double));
}

/* Fills a part with numbers; second moments are squares. */
static void fill(struct pen__attempt *attempt, struct pen_parameter *parameter,
                 enum pen_parameter_part part, size_t count, void *plain)
{
    enum pen_precision dtype = master_of(attempt);
    for (size_t i = 0; i < count; i++) {
        float number = draw(attempt) * 0x1p-4f;
        put(dtype, plain, i,
            part == PEN_PART_MOMENT2 ? number * number : number);
    }
    attempt->engine->ops->parameter_import(attempt->engine, parameter, part,
                                           PEN_ORDER_ROWS, plain);
}

struct pen_parameter *pen__attempt_parameter(struct pen__attempt *attempt,
                                             enum pen_parameter_use use,
                                             size_t rows, size_t columns)
{
    PEN_BUG_UNLESS(attempt->num_parameters < PEN__ATTEMPT_PARAMETERS);
    const struct pen_parameter_shape shape = {
        .use = use, .rows = rows, .columns = columns, .moments = 2};
    struct pen_parameter *parameter = NULL;
    void *plain =
        malloc(rows * columns * pen_precision_bytes(master_of(attempt)));
    pen_status status = plain == NULL
                            ? PEN_NOMEM
                            : attempt->engine->ops->parameter_create(
                                  attempt->engine, &shape, NULL, &parameter);
    if (status == PEN_OK) {
        attempt->parameters[attempt->num_parameters++] = parameter;
        for (int part = PEN_PART_VALUE; part <= PEN_PART_MOMENT2; part++)
            fill(attempt, parameter, (enum pen_parameter_part)part,
                 rows * columns, plain);
        attempt->engine->ops->parameter_value_changed(attempt->engine,
                                                      parameter);
    } else {
        attempt->status = status;
    }
    free(plain);
    return parameter;
}

void pen__attempt_keep(struct pen__attempt *attempt, const void *at,
                       size_t count, enum pen_precision dtype)
{
    PEN_BUG_UNLESS(attempt->num_results < PEN__ATTEMPT_ARRAYS);
    attempt->results[attempt->num_results++] =
        (struct pen__result){.at = at, .count = count, .dtype = dtype};
}

void pen__attempt_keep_part(struct pen__attempt *attempt,
                            struct pen_parameter *parameter,
                            enum pen_parameter_part part)
{
    struct pen_parameter_shape shape = {.rows = 0};
    PEN_BUG_UNLESS(attempt->num_results < PEN__ATTEMPT_ARRAYS);
    if (parameter == NULL)
        return;
    attempt->engine->ops->parameter_shape(parameter, &shape);
    attempt->results[attempt->num_results++] =
        (struct pen__result){.parameter = parameter,
                             .part = part,
                             .count = shape.rows * shape.columns,
                             .dtype = master_of(attempt)};
}
