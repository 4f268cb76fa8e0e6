/*
 * Angles of rotary positions. Pair i of a head of size d turns by
 * position * theta^(-2i/d); long contexts divide the slow ones by a factor.
 */
#include "network/decoder.h"

#include <math.h>
#include <stdlib.h>

/*
 * Llama 3: wavelengths below original / high stay, those above original / low
 * are divided, and between the two lies a linear passage.
 */
static double llama3_frequency(const struct pen_rope *rope, double frequency)
{
    double turns = (double)rope->original_positions * frequency / (2 * M_PI);
    if (turns >= rope->high_freq_factor)
        return frequency;
    if (turns <= rope->low_freq_factor)
        return frequency / rope->factor;
    double share = (turns - rope->low_freq_factor) /
                   (rope->high_freq_factor - rope->low_freq_factor);
    return (1 - share) * frequency / rope->factor + share * frequency;
}

static double frequency_of(const struct pen_model *model, size_t pair)
{
    const struct pen_rope *rope = &model->rope;
    double frequency =
        pow(rope->theta, -2.0 * (double)pair / (double)model->head_dim);
    if (rope->kind == PEN_ROPE_LINEAR)
        return frequency / rope->factor;
    if (rope->kind == PEN_ROPE_LLAMA3)
        return llama3_frequency(rope, frequency);
    return frequency;
}

static void put(void *table, enum pen_precision stat, size_t at, double value)
{
    if (stat == PEN_PRECISION_F64)
        ((double *)table)[at] = value;
    else
        ((float *)table)[at] = (float)value;
}

static void fill(const struct pen_model *model, size_t sequence,
                 enum pen_precision stat, void *tables)
{
    size_t half = model->head_dim / 2;
    for (size_t pair = 0; pair < half; pair++) {
        double frequency = frequency_of(model, pair);
        for (size_t position = 0; position < sequence; position++) {
            size_t at = position * half + pair;
            double angle = (double)position * frequency;
            put(tables, stat, at, cos(angle));
            put(tables, stat, sequence * half + at, sin(angle));
        }
    }
}

/* They are filled in staging, and copied to where operations read them. */
pen_status pen__rotary_tables(struct pen_network *network)
{
    const struct pen_network_options *options = &network->options;
    struct pen_engine *engine = options->engine;
    enum pen_precision stat = pen_precision_master(engine->dtype);
    size_t bytes = options->sequence * (options->model->head_dim / 2) * 2 *
                   pen_precision_bytes(stat);
    void *staging = pen_engine_take(engine, PEN_PLACE_STAGING, bytes);
    void *tables = pen_engine_take(engine, PEN_PLACE_ENGINE, bytes);
    network->tables = tables;
    network->table_bytes = bytes;
    if (staging != NULL && tables != NULL) {
        fill(options->model, options->sequence, stat, staging);
        engine->ops->copy(engine, staging, tables, bytes);
        pen_engine_await(engine);
    }
    pen_engine_give(engine, PEN_PLACE_STAGING, staging, bytes);
    return staging == NULL || tables == NULL ? PEN_NOMEM : PEN_OK;
}
