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

size_t pen__rotary_size(const struct pen_model *model)
{
    return model->kv_lora_rank > 0 ? model->qk_rope_dim : model->head_dim;
}

/* The pair that turns so often over the original positions. */
static double pair_of_turns(const struct pen_model *model, double turns)
{
    const struct pen_rope *rope = &model->rope;
    return (double)pen__rotary_size(model) *
           log((double)rope->original_positions / (turns * 2 * M_PI)) /
           (2 * log(rope->theta));
}

/*
 * YaRN (arXiv 2309.00071): pairs that turn at least beta_fast times stay, those
 * that turn at most beta_slow times are divided, with a linear passage.
 */
static double yarn_frequency(const struct pen_model *model, size_t pair,
                             double frequency)
{
    const struct pen_rope *rope = &model->rope;
    double last = (double)pen__rotary_size(model) - 1;
    double low = pair_of_turns(model, rope->beta_fast);
    double high = pair_of_turns(model, rope->beta_slow);
    low = fmax(rope->has_exact_ends ? low : floor(low), 0);
    high = fmin(rope->has_exact_ends ? high : ceil(high), last);
    if (high == low)
        high += 0.001;
    double divided = fmin(fmax(((double)pair - low) / (high - low), 0), 1);
    return frequency * (1 - divided) + frequency / rope->factor * divided;
}

static double yarn_mscale(double factor, double share)
{
    return factor <= 1 ? 1 : 0.1 * share * log(factor) + 1;
}

/* The factor that YaRN puts on cosines and sines. */
static double length_of(const struct pen_rope *rope)
{
    if (rope->kind != PEN_ROPE_YARN)
        return 1;
    if (rope->attention_factor > 0)
        return rope->attention_factor;
    if (rope->mscale > 0 && rope->mscale_all_dim > 0)
        return yarn_mscale(rope->factor, rope->mscale) /
               yarn_mscale(rope->factor, rope->mscale_all_dim);
    return yarn_mscale(rope->factor, 1);
}

double pen__attention_scale(const struct pen_model *model)
{
    const struct pen_rope *rope = &model->rope;
    double scale = 1 / sqrt((double)model->head_dim);
    if (rope->kind != PEN_ROPE_YARN || rope->mscale_all_dim <= 0 ||
        model->kv_lora_rank == 0)
        return scale;
    double length = yarn_mscale(rope->factor, rope->mscale_all_dim);
    return scale * length * length;
}

static double frequency_of(const struct pen_model *model, size_t pair)
{
    const struct pen_rope *rope = &model->rope;
    double frequency =
        pow(rope->theta, -2.0 * (double)pair / (double)pen__rotary_size(model));
    if (rope->kind == PEN_ROPE_LINEAR)
        return frequency / rope->factor;
    if (rope->kind == PEN_ROPE_LLAMA3)
        return llama3_frequency(rope, frequency);
    if (rope->kind == PEN_ROPE_YARN)
        return yarn_frequency(model, pair, frequency);
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
    size_t half = pen__rotary_size(model) / 2;
    double length = length_of(&model->rope);
    for (size_t pair = 0; pair < half; pair++) {
        double frequency = frequency_of(model, pair);
        for (size_t position = 0; position < sequence; position++) {
            size_t at = position * half + pair;
            double angle = (double)position * frequency;
            put(tables, stat, at, length * cos(angle));
            put(tables, stat, sequence * half + at, length * sin(angle));
        }
    }
}

/*
 * Fills the tables in staging, and copies them to where operations read them.
 */
pen_status pen__rotary_tables(struct pen_network *network)
{
    const struct pen_network_options *options = &network->options;
    struct pen_engine *engine = options->engine;
    enum pen_precision stat = pen_precision_master(engine->dtype);
    size_t bytes = options->sequence * (pen__rotary_size(options->model) / 2) *
                   2 * pen_precision_bytes(stat);
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
