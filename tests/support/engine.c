#include "support/engine.h"

#include "engine/bf16.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void trial_init(struct trial *trial, struct pen_engine *engine, uint64_t seed,
                size_t largest)
{
    *trial = (struct trial){.engine = engine,
                            .random = {seed},
                            .largest = largest,
                            .moved_input = -1};
}

void trial_release(struct trial *trial)
{
    for (int i = 0; i < trial->num_results; i++)
        free(trial->results[i].numbers);
    pen_engine_await(trial->engine);
    for (int i = 0; i < trial->num_blocks; i++)
        pen_engine_give(trial->engine, PEN_PLACE_STAGING, trial->blocks[i],
                        trial->block_bytes[i]);
    for (int i = 0; i < trial->num_parameters; i++)
        trial->engine->ops->parameter_free(trial->engine, trial->parameters[i]);
}

size_t trial_size(struct trial *trial)
{
    return 1 + pen_random_below(&trial->random, (uint32_t)trial->largest);
}

static void *block(struct trial *trial, size_t bytes)
{
    void *bytes_of = pen_engine_take(trial->engine, PEN_PLACE_STAGING, bytes);
    assert_non_null(bytes_of);
    assert_true(trial->num_blocks < TRIAL_MAX * 2);
    trial->block_bytes[trial->num_blocks] = bytes;
    return trial->blocks[trial->num_blocks++] = bytes_of;
}

static void put(enum pen_precision dtype, void *array, size_t at, double number)
{
    if (dtype == PEN_PRECISION_F64)
        ((double *)array)[at] = number;
    else if (dtype == PEN_PRECISION_F32)
        ((float *)array)[at] = (float)number;
    else
        ((uint16_t *)array)[at] = pen_bf16_from_float((float)number);
}

static double get(enum pen_precision dtype, const void *array, size_t at)
{
    if (dtype == PEN_PRECISION_F64)
        return ((const double *)array)[at];
    if (dtype == PEN_PRECISION_F32)
        return (double)((const float *)array)[at];
    return (double)pen_bf16_to_float(((const uint16_t *)array)[at]);
}

/* In [-1, 1), always a float, so that every engine gets the same number. */
static double random_number(struct trial *trial)
{
    float number = (float)(2 * pen_random_unit(&trial->random) - 1);
    if (trial->is_bf16_exact)
        number = pen_bf16_to_float(pen_bf16_from_float(number));
    return (double)number;
}

static void fill_input(struct trial *trial, enum pen_precision dtype,
                       size_t count, void *array, int *input)
{
    assert_true(trial->num_inputs < TRIAL_MAX);
    *input = trial->num_inputs++;
    trial->input_counts[*input] = count;
    for (size_t i = 0; i < count; i++) {
        double number = random_number(trial);
        if (*input == trial->moved_input && i == trial->moved_element)
            number += trial->moved_by;
        put(dtype, array, i, number);
    }
}

void *trial_input(struct trial *trial, size_t count, int *input)
{
    enum pen_precision dtype = trial->engine->dtype;
    void *array = block(trial, count * pen_precision_bytes(dtype));
    fill_input(trial, dtype, count, array, input);
    return array;
}

struct pen_parameter *trial_parameter(struct trial *trial,
                                      enum pen_parameter_use use, size_t rows,
                                      size_t columns, int *input)
{
    enum pen_precision dtype = pen_precision_master(trial->engine->dtype);
    struct pen_parameter_shape shape = {
        .use = use, .rows = rows, .columns = columns, .moments = 2};
    struct pen_parameter *parameter = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (trial->engine->ops->parameter_create(trial->engine, &shape, &why,
                                             &parameter) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    void *plain = block(trial, rows * columns * pen_precision_bytes(dtype));
    fill_input(trial, dtype, rows * columns, plain, input);
    trial->engine->ops->parameter_import(trial->engine, parameter,
                                         PEN_PART_VALUE, PEN_ORDER_ROWS, plain);
    assert_true(trial->num_parameters < TRIAL_MAX);
    return trial->parameters[trial->num_parameters++] = parameter;
}

void *trial_slopes(struct trial *trial, size_t count)
{
    enum pen_precision dtype = trial->engine->dtype;
    void *array = block(trial, count * pen_precision_bytes(dtype));
    for (size_t i = 0; i < count; i++)
        put(dtype, array, i, random_number(trial));
    return array;
}

void *trial_stat_slopes(struct trial *trial, size_t count)
{
    enum pen_precision dtype = pen_precision_master(trial->engine->dtype);
    void *array = block(trial, count * pen_precision_bytes(dtype));
    for (size_t i = 0; i < count; i++)
        put(dtype, array, i, random_number(trial));
    return array;
}

int32_t *trial_ids(struct trial *trial, size_t rows, size_t classes)
{
    int32_t *ids = block(trial, rows * sizeof *ids);
    for (size_t row = 0; row < rows; row++)
        ids[row] = (int32_t)pen_random_below(&trial->random, (uint32_t)classes);
    return ids;
}

void trial_prepare(struct trial *trial, const struct pen_linear *linear)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (trial->engine->ops->linear_prepare(trial->engine, linear, &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
}

static void *room(struct trial *trial, enum pen_precision dtype, size_t count)
{
    void *array = block(trial, count * pen_precision_bytes(dtype));
    for (size_t i = 0; i < count; i++)
        put(dtype, array, i, 77);
    return array;
}

void *trial_room(struct trial *trial, size_t count)
{
    return room(trial, trial->engine->dtype, count);
}

void *trial_stat_room(struct trial *trial, size_t count)
{
    return room(trial, pen_precision_master(trial->engine->dtype), count);
}

static void keep(struct trial *trial, const char *name, int input,
                 enum pen_precision dtype, size_t count, const void *array)
{
    double *numbers = malloc(count * sizeof *numbers);
    assert_non_null(numbers);
    pen_engine_await(trial->engine);
    for (size_t i = 0; i < count; i++)
        numbers[i] = get(dtype, array, i);
    assert_true(trial->num_results < TRIAL_MAX);
    trial->results[trial->num_results++] =
        (struct trial_result){name, input, count, numbers};
}

void trial_output(struct trial *trial, const char *name, size_t count,
                  const void *y, const void *slopes)
{
    enum pen_precision dtype = trial->engine->dtype;
    keep(trial, name, -1, dtype, count, y);
    for (size_t i = 0; i < count; i++)
        trial->loss += get(dtype, y, i) * get(dtype, slopes, i);
}

void trial_gradient(struct trial *trial, const char *name, int input,
                    size_t count, const void *gradient)
{
    keep(trial, name, input, trial->engine->dtype, count, gradient);
}

void trial_parameter_part(struct trial *trial, const char *name, int input,
                          struct pen_parameter *parameter,
                          enum pen_parameter_part part)
{
    const struct pen_engine_ops *ops = trial->engine->ops;
    enum pen_precision dtype = pen_precision_master(trial->engine->dtype);
    struct pen_parameter_shape shape;
    ops->parameter_shape(parameter, &shape);
    size_t count = shape.rows * shape.columns;
    void *plain = block(trial, count * pen_precision_bytes(dtype));
    ops->parameter_export(trial->engine, parameter, part, PEN_ORDER_ROWS,
                          plain);
    keep(trial, name, input, dtype, count, plain);
}

void trial_stats(struct trial *trial, const char *name, size_t count,
                 const void *stats)
{
    keep(trial, name, -1, pen_precision_master(trial->engine->dtype), count,
         stats);
}

void trial_number(struct trial *trial, const char *name, const double *number)
{
    keep(trial, name, -1, PEN_PRECISION_F64, 1, number);
}

double *trial_double(struct trial *trial)
{
    return block(trial, sizeof(double));
}

double relative_distance(size_t count, const double *truth, const double *found)
{
    double apart = 0;
    double size = 0;
    for (size_t i = 0; i < count; i++) {
        apart += (truth[i] - found[i]) * (truth[i] - found[i]);
        size += truth[i] * truth[i];
    }
    return size == 0 ? sqrt(apart) : sqrt(apart / size);
}

struct pen_engine *reference_engine(enum pen_precision dtype)
{
    struct pen_engine *engine = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_engine_reference_create(dtype, &why, &engine) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return engine;
}

struct pen_engine *onednn_engine(enum pen_precision dtype, int threads)
{
    struct pen_engine *engine = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_engine_onednn_create(dtype, threads, &why, &engine) != PEN_OK)
        print_message("skipped: %s\n", pen_text_string(&why));
    pen_text_release(&why);
    return engine;
}
