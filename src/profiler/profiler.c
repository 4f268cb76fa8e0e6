/*
 * A profile in three loops: modes of recomputation, chains, rounds. A model of
 * a few blocks is one chain. For a larger one two pieces are measured, one with
 * the embedding and one with the head:
 *
 *   embedding block ... block        block ... block head
 *   `-- chain 0 ------------'        `-- chain 1 -------'
 */
#include "profiler/profiler.h"

#include "base/bug.h"
#include "profiler/chain.h"

#include <stdio.h>
#include <string.h>

enum { WHOLE_BLOCKS = 16, PIECE_BLOCKS = 8, MOST_CHAINS = 2 };

struct piece {
    uint32_t first_layer;
    uint32_t num_layers;
};

struct profiler {
    const struct pen_profiler_options *options;
    struct piece pieces[MOST_CHAINS];
    uint32_t num_pieces;
    uint32_t num_rounds; /* of all, those before the first sample included */
    uint32_t num_done;
    struct pen__chain_samples samples; /* passes of one mode */
    struct pen_profile *profile;
};

static pen_status make_engine(const struct pen_profiler_options *options,
                              struct pen_engine **out, struct pen_text *why)
{
    const struct pen_engine_choice choice = {
        .dtype = options->is_bf16 ? PEN_PRECISION_BF16 : PEN_PRECISION_F32,
        .threads = options->threads,
        .device = options->device};
    return options->engine->create(&choice, why, out);
}

static void cut_pieces(struct profiler *profiler)
{
    uint32_t num_layers = profiler->options->model->num_layers;
    profiler->num_pieces = 1;
    profiler->pieces[0].num_layers = num_layers;
    if (profiler->options->model->num_blocks <= WHOLE_BLOCKS ||
        profiler->options->model->images != NULL)
        return;
    profiler->num_pieces = 2;
    profiler->pieces[0].num_layers = PIECE_BLOCKS + 1;
    profiler->pieces[1] =
        (struct piece){.first_layer = num_layers - PIECE_BLOCKS - 1,
                       .num_layers = PIECE_BLOCKS + 1};
}

/*
 * Notes the program with its libraries: the resident memory without the chain.
 */
static void note_program(struct profiler *profiler,
                         const struct pen__chain *chain)
{
    if (profiler->options->resident_bytes == NULL)
        return;
    size_t resident = profiler->options->resident_bytes();
    size_t known = pen__chain_bytes(chain);
    uint64_t *most = &profiler->profile->program_bytes;
    if (resident > known && resident - known > *most)
        *most = resident - known;
}

/* ---- seconds ---- */

static void release_samples(struct pen__chain_samples *samples)
{
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++)
        for (int pass = 0; pass < PEN_PASSES; pass++)
            pen__samples_release(&samples->passes[kind][pass]);
    for (int update = 0; update < PEN_UPDATES; update++)
        pen__samples_release(&samples->updates[update]);
}

/* Makes room for all modes in the updates, which do not depend on them. */
static pen_status init_samples(struct profiler *profiler)
{
    struct pen__chain_samples *samples = &profiler->samples;
    size_t count = (size_t)profiler->options->num_rounds * MOST_CHAINS;
    bool is_right = true;
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++)
        for (int pass = 0; pass < PEN_PASSES; pass++)
            is_right = pen__samples_init(&samples->passes[kind][pass], count) &&
                       is_right;
    for (int update = 0; update < PEN_UPDATES; update++)
        is_right = pen__samples_init(&samples->updates[update],
                                     count * PEN_RECOMPUTES) &&
                   is_right;
    return is_right ? PEN_OK : PEN_NOMEM;
}

static void tell_progress(struct profiler *profiler)
{
    const struct pen_profiler_options *options = profiler->options;
    profiler->num_done++;
    if (options->progress != NULL)
        options->progress(options->context, profiler->num_done,
                          profiler->num_rounds);
}

static pen_status measure_piece(struct profiler *profiler,
                                const struct piece *piece,
                                enum pen_recompute mode, struct pen_text *why)
{
    const struct pen_profiler_options *options = profiler->options;
    struct pen_engine *engine = NULL;
    struct pen__chain chain;
    pen_status status = make_engine(options, &engine, why);
    if (status != PEN_OK)
        return status;
    status = pen__chain_init(&chain, options, engine, mode, piece->first_layer,
                             piece->num_layers, why);
    if (status == PEN_OK) {
        pen__chain_round(&chain, NULL);
        tell_progress(profiler);
        for (uint32_t i = 0; i < options->num_rounds; i++) {
            pen__chain_round(&chain, &profiler->samples);
            tell_progress(profiler);
        }
        for (uint32_t i = 0; i < options->num_rounds; i++)
            pen__chain_add(&chain, &profiler->samples);
        for (uint32_t i = 0; i < options->num_rounds; i++)
            pen__chain_clear(&chain, &profiler->samples);
        note_program(profiler, &chain);
        pen__chain_release(&chain);
    }
    pen_engine_free(engine);
    return status;
}

static pen_status measure_mode(struct profiler *profiler,
                               enum pen_recompute mode, struct pen_text *why)
{
    struct pen__chain_samples *samples = &profiler->samples;
    pen_status status = PEN_OK;
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++)
        for (int pass = 0; pass < PEN_PASSES; pass++)
            samples->passes[kind][pass].count = 0;
    for (uint32_t i = 0; status == PEN_OK && i < profiler->num_pieces; i++)
        status = measure_piece(profiler, &profiler->pieces[i], mode, why);
    if (status != PEN_OK)
        return status;
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++) {
        struct pen_profile_mode *out =
            &profiler->profile->layers[kind].modes[mode];
        for (int pass = 0; pass < PEN_PASSES; pass++)
            if (samples->passes[kind][pass].count > 0)
                out->passes[pass] =
                    pen__samples_measure(&samples->passes[kind][pass]);
        out->is_there = true;
    }
    return PEN_OK;
}

/* ---- bytes ---- */

/*
 * Returns the memory that a round takes and gives back: engines can only guess
 * the allocations of a library. The round before it brings in the memory that
 * stays.
 */
static size_t passing_bytes(const struct profiler *profiler,
                            struct pen__chain *chain)
{
    const struct pen_profiler_options *options = profiler->options;
    const struct pen_engine *engine = pen_network_engine(chain->network);
    if (options->resident_bytes == NULL || options->peak_bytes == NULL)
        return engine->ops->passing_bytes(engine);
    pen__chain_round(chain, NULL);
    size_t before = options->resident_bytes();
    pen__chain_round(chain, NULL);
    size_t peak = options->peak_bytes();
    return peak > before ? peak - before : 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Adds one layer alone: sums, and the most of what layers use in turn. */
static pen_status add_sizes(struct profiler *profiler, uint32_t number,
                            enum pen_recompute mode,
                            struct pen_profile_layer *layer,
                            struct pen_text *why)
{
    struct pen_engine *engine = NULL;
    struct pen__chain chain;
    struct pen_network_sizes sizes;
    struct pen_profile_mode *it = &layer->modes[mode];
    pen_status status = make_engine(profiler->options, &engine, why);
    if (status != PEN_OK)
        return status;
    size_t before =
        engine->ops->memory_bytes(engine) - engine->ops->scratch_bytes(engine);
    status = pen__chain_init(&chain, profiler->options, engine, mode, number, 1,
                             why);
    if (status == PEN_OK) {
        pen_network_sizes(chain.network, &sizes);
        uint64_t scratch = engine->ops->scratch_bytes(engine);
        layer->num_parameters += chain.num_parameters;
        layer->parameter_bytes +=
            engine->ops->memory_bytes(engine) - before - scratch;
        layer->engine_bytes = larger(layer->engine_bytes, scratch);
        layer->passing_bytes =
            larger(layer->passing_bytes, passing_bytes(profiler, &chain));
        layer->largest = larger(layer->largest, chain.largest);
        layer->output_bytes = larger(layer->output_bytes, sizes.output);
        it->stash_bytes += sizes.stash;
        it->hold_bytes += sizes.hold;
        it->scratch_bytes =
            larger(it->scratch_bytes, pen_network_scratch_bytes(chain.network));
        pen__chain_release(&chain);
    }
    pen_engine_free(engine);
    return status;
}

/* Takes the means of `count` layers, rounded up so that their sum has room. */
static void divide_sizes(struct pen_profile_layer *layer,
                         enum pen_recompute mode, uint32_t count)
{
    struct pen_profile_mode *it = &layer->modes[mode];
    uint64_t *const sums[] = {&layer->num_parameters, &layer->parameter_bytes,
                              &it->stash_bytes, &it->hold_bytes};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        *sums[i] = (*sums[i] + count - 1) / count;
    if (layer->largest > layer->num_parameters) /* of a mean, no more */
        layer->largest = layer->num_parameters;
    layer->parameter_bytes += layer->engine_bytes;
}

/*
 * Sizes a layer: the first of the blocks; in an image network, where blocks
 * differ, their mean.
 */
static pen_status size_layer(struct profiler *profiler,
                             enum pen_layer_kind kind, enum pen_recompute mode,
                             struct pen_text *why)
{
    const struct pen_model *model = profiler->options->model;
    struct pen_profile_layer *out = &profiler->profile->layers[kind];
    struct pen_profile_layer layer = {.num_parameters = 0};
    bool is_mean = model->images != NULL && kind == PEN_LAYER_BLOCK;
    uint32_t number =
        kind == PEN_LAYER_HEAD ? model->num_layers - 1 : (uint32_t)kind;
    uint32_t count = is_mean ? model->num_blocks : 1;
    pen_status status = PEN_OK;
    memcpy(layer.modes, out->modes, sizeof layer.modes);
    layer.modes[mode].stash_bytes = layer.modes[mode].hold_bytes = 0;
    layer.modes[mode].scratch_bytes = 0;
    for (uint32_t i = 0; status == PEN_OK && i < count; i++)
        status = add_sizes(profiler, number + i, mode, &layer, why);
    if (status == PEN_OK && count > 0)
        divide_sizes(&layer, mode, count);
    if (status == PEN_OK)
        *out = layer;
    return status;
}

static pen_status size_layers(struct profiler *profiler,
                              enum pen_recompute mode, struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (int kind = 0; status == PEN_OK && kind < PEN_LAYER_KINDS; kind++)
        status = size_layer(profiler, (enum pen_layer_kind)kind, mode, why);
    return status;
}

/* ---- both ---- */

static pen_status describe(const struct pen_profiler_options *options,
                           struct pen_profile *out, struct pen_text *why)
{
    struct pen_text library = PEN_TEXT_EMPTY;
    if (options->engine->describe != NULL)
        options->engine->describe(options->device, &library);
    snprintf(out->engine, sizeof out->engine, "%s", options->engine->name);
    snprintf(out->library, sizeof out->library, "%s",
             library.length > 0 ? pen_text_string(&library) : "none");
    snprintf(out->family, sizeof out->family, "%s",
             pen_model_type(options->model));
    pen_text_release(&library);
    out->is_bf16 = options->is_bf16;
    out->num_threads = (uint32_t)options->threads;
    out->micro_batch = options->micro_batch;
    out->sequence = options->sequence;
    out->num_rounds = options->num_rounds;
    return pen_profile_hash_model(options->model, out->model_hash, why);
}

static pen_status run(struct profiler *profiler, struct pen_text *why)
{
    const struct pen_profiler_options *options = profiler->options;
    uint32_t num_modes = 0;
    for (int mode = 0; mode < PEN_RECOMPUTES; mode++)
        num_modes += options->modes[mode];
    profiler->num_rounds =
        num_modes * profiler->num_pieces * (options->num_rounds + 1);
    pen_status status = describe(options, profiler->profile, why);
    for (int i = 0; status == PEN_OK && i < PEN_RECOMPUTES; i++) {
        enum pen_recompute mode = (enum pen_recompute)i;
        if (!options->modes[mode])
            continue;
        status = size_layers(profiler, mode, why);
        if (status == PEN_OK)
            status = measure_mode(profiler, mode, why);
    }
    for (int update = 0; status == PEN_OK && update < PEN_UPDATES; update++)
        profiler->profile->updates[update] =
            pen__samples_measure(&profiler->samples.updates[update]);
    return status;
}

uint64_t pen_profiler_least_bytes(const struct pen_profiler_options *options)
{
    /* Value, gradient, two moments; in bf16 a copy of the value. */
    const uint64_t parameter_bytes = 4 * sizeof(float);
    const uint64_t copy_bytes = options->is_bf16 ? sizeof(uint16_t) : 0;
    struct profiler profiler = {.options = options};
    uint64_t most = 0;
    if (options->model->images != NULL)
        return 0;
    cut_pieces(&profiler);
    for (uint32_t i = 0; i < profiler.num_pieces; i++) {
        const struct piece *piece = &profiler.pieces[i];
        uint64_t count = 0;
        for (uint32_t k = 0; k < piece->num_layers; k++)
            count += pen_model_layer_parameters(options->model,
                                                piece->first_layer + k);
        most = larger(most, count);
    }
    return most * (parameter_bytes + copy_bytes);
}

pen_status pen_profiler_run(const struct pen_profiler_options *options,
                            struct pen_profile *out, struct pen_text *why)
{
    PEN_BUG_UNLESS(options->num_rounds >= PEN_PROFILER_LEAST_ROUNDS);
    struct pen_profile profile = *out;
    struct profiler profiler = {.options = options, .profile = &profile};
    cut_pieces(&profiler);
    pen_status status = init_samples(&profiler);
    if (status == PEN_OK)
        status = run(&profiler, why);
    release_samples(&profiler.samples);
    if (status == PEN_OK)
        *out = profile;
    else if (status == PEN_NOMEM && why != NULL && why->length == 0)
        pen_why(why, "out of memory; use a smaller --micro-batch-size");
    return status;
}

pen_status pen_profiler_run_more(const struct pen_profiler_options *options,
                                 struct pen_profile *profile,
                                 struct pen_text *why)
{
    PEN_BUG_UNLESS(profile->num_more < PEN_PROFILE_MORE);
    struct pen_profile found = *profile;
    pen_status status = pen_profiler_run(options, &found, why);
    if (status != PEN_OK)
        return status;
    struct pen_profile_size *size = &profile->more[profile->num_more++];
    size->micro_batch = options->micro_batch;
    memcpy(size->layers, found.layers, sizeof size->layers);
    return PEN_OK;
}
