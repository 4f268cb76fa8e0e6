/* The weights a training begins with. */
#include "network/chain.h"

#include "base/random.h"

#include <math.h>
#include <stdlib.h>

enum { STREAM_STEP = 0x632be5ab }; /* odd, so that streams do not meet soon */

/* Two independent normal numbers (Box-Muller). */
static void draw_pair(struct pen_random *random, double pair[2])
{
    double radius = sqrt(-2 * log(1 - pen_random_unit(random)));
    double angle = 2 * M_PI * pen_random_unit(random);
    pair[0] = radius * cos(angle);
    pair[1] = radius * sin(angle);
}

static void put(void *plain, bool is_double, size_t at, double value)
{
    if (is_double)
        ((double *)plain)[at] = value;
    else
        ((float *)plain)[at] = (float)value;
}

static void fill_normal(struct pen_random random, double deviation,
                        const struct pen_tensor_slice *slice, bool is_double,
                        void *plain)
{
    double pair[2] = {0};
    for (size_t i = 0; i < slice->count; i++) {
        if (i % 2 == 0)
            draw_pair(&random, pair);
        put(plain, is_double, slice->first + i, deviation * pair[i % 2]);
    }
}

static bool writes_to_stream(enum pen_part part)
{
    return part == PEN_PART_ATTENTION_OUT || part == PEN_PART_DOWN;
}

static bool is_gain(enum pen_part part)
{
    return part == PEN_PART_ATTENTION_NORM || part == PEN_PART_MLP_NORM ||
           part == PEN_PART_FINAL_NORM || part == PEN_PART_Q_NORM ||
           part == PEN_PART_K_NORM;
}

static void fill_slice(const struct pen_model *model, uint64_t seed,
                       const struct pen_tensor_slice *slice, bool is_double,
                       void *plain)
{
    struct pen_tensor_info info;
    pen_model_tensor(model, slice->tensor, &info);
    if (info.form->role != PEN_ROLE_MATRIX) {
        for (size_t i = 0; i < slice->count; i++)
            put(plain, is_double, slice->first + i,
                is_gain(info.form->part) ? 1 : 0);
        return;
    }
    double deviation = 0.02;
    if (writes_to_stream(info.form->part))
        deviation /= sqrt(2.0 * model->num_blocks);
    struct pen_random mixer = {.state = seed + (uint64_t)(slice->tensor + 1) *
                                                   STREAM_STEP};
    struct pen_random random = {.state = pen_random_next(&mixer)};
    fill_normal(random, deviation, slice, is_double, plain);
}

pen_status pen_network_initialize(struct pen_network *network, uint64_t seed)
{
    struct pen_engine *engine = network->options.engine;
    enum pen_precision stat = pen_precision_master(engine->dtype);
    for (size_t i = 0; i < network->num_parameters; i++) {
        const struct pen_network_parameter *it = &network->parameters[i];
        void *plain = calloc(it->rows * it->columns, pen_precision_bytes(stat));
        if (plain == NULL)
            return PEN_NOMEM;
        for (size_t k = 0; k < it->num_slices; k++)
            fill_slice(network->options.model, seed, &it->slices[k],
                       stat == PEN_PRECISION_F64, plain);
        engine->ops->parameter_import(engine, it->parameter, PEN_PART_VALUE,
                                      it->order, plain);
        free(plain);
    }
    return PEN_OK;
}
