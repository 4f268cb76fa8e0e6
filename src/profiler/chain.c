/*
 * One round of a chain:
 *
 *   F B   F I W   finish   norm   Adam   SGD
 *
 * The network reports when a layer is done, so every layer is measured in its
 * place, after the one that a training runs before it. Gradients are not
 * cleared between rounds: a backward adds to them, as in all but the first
 * micro-batch of a step.
 */
#include "profiler/chain.h"

#include "base/clock.h"
#include "base/random.h"
#include "core/image_model_cost.h"
#include "network/images.h"

#include <stdlib.h>

enum { ALIGNMENT = 64, MOMENTS = 2, MICROBATCHES = 2 };

#define LEARNING_RATE 1e-6

static void layer_is_done(void *context, uint32_t layer)
{
    struct pen__chain *chain = context;
    pen_engine_await(pen_network_engine(chain->network));
    int64_t now = pen_clock_ns();
    chain->layer_ns[layer - chain->first_layer] = now - chain->last_ns;
    chain->last_ns = now;
}

static void *take(struct pen__chain *chain, size_t *end, size_t bytes)
{
    void *at = bytes == 0 ? NULL : chain->arena + *end;
    *end += bytes;
    return at;
}

/*
 * Numbers as a network has them: two bytes of any kind are a bf16 or the upper
 * half of a float, and these are about 0.01.
 */
static void fill(void *bytes, size_t size, struct pen_random *random)
{
    uint16_t *halves = bytes;
    for (size_t i = 0; i < size / sizeof *halves; i++)
        halves[i] = (uint16_t)(0x3c00u | (pen_random_next(random) & 0x81ffu));
}

/* Returns the pixels of one image; 0 for texts. */
static size_t num_pixels(const struct pen_model *model)
{
    struct pen_image_extent in;
    struct pen_image_extent out;
    if (model->images == NULL)
        return 0;
    pen_image_layer_extents(model->images, 0, &in, &out);
    return (size_t)pen_image_extent_numbers(&in);
}

static size_t align(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static pen_status make_arena(struct pen__chain *chain, size_t rows,
                             struct pen_text *why)
{
    struct pen_network_sizes sizes;
    pen_network_sizes(chain->network, &sizes);
    size_t id_bytes = align(rows * sizeof(int32_t));
    size_t pixel_bytes = align(rows * num_pixels(chain->model) * sizeof(float));
    size_t bytes = sizes.stash + sizes.hold + sizes.input + 2 * sizes.output +
                   2 * id_bytes + pixel_bytes + ALIGNMENT;
    chain->arena = pen_engine_take(pen_network_engine(chain->network),
                                   PEN_PLACE_STAGING, bytes);
    chain->arena_bytes = bytes;
    if (chain->arena == NULL) {
        pen_why(why, "no memory for %.1f MB of activations",
                1e-6 * (double)bytes);
        return PEN_NOMEM;
    }
    size_t end = 0;
    chain->stash = take(chain, &end, sizes.stash);
    chain->hold = take(chain, &end, sizes.hold);
    chain->dx = take(chain, &end, sizes.input);
    chain->y = take(chain, &end, sizes.output);
    chain->dy = take(chain, &end, sizes.output);
    chain->ids = take(chain, &end, id_bytes);
    chain->targets = take(chain, &end, id_bytes);
    chain->pixels = take(chain, &end, pixel_bytes);
    chain->squares = take(chain, &end, ALIGNMENT);
    return PEN_OK;
}

/* Fills the inputs that would come from the neighbours and from the data. */
static void fill_inputs(struct pen__chain *chain, size_t rows)
{
    struct pen_network_sizes sizes;
    struct pen_random random = {.state = 1};
    uint32_t vocab = chain->model->vocab;
    size_t pixels = rows * num_pixels(chain->model);
    pen_network_sizes(chain->network, &sizes);
    if (sizes.input > 0) {
        chain->x = pen_network_input(chain->network, chain->stash);
        fill(chain->x, sizes.input, &random);
    }
    if (sizes.output > 0)
        fill(chain->dy, sizes.output, &random);
    for (size_t i = 0; i < rows; i++) {
        chain->ids[i] = (int32_t)pen_random_below(&random, vocab);
        chain->targets[i] = (int32_t)pen_random_below(&random, vocab);
    }
    for (size_t i = 0; i < pixels; i++)
        chain->pixels[i] = (float)pen_random_below(&random, 256) / 128 - 1;
}

static void count_parameters(struct pen__chain *chain)
{
    for (size_t i = 0; i < pen_network_num_parameters(chain->network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(chain->network, i);
        uint64_t count = it->is_value_only ? 0 : pen_network_count(it);
        chain->num_parameters += count;
        if (count > chain->largest)
            chain->largest = count;
    }
}

static pen_status make_network(struct pen__chain *chain,
                               const struct pen_profiler_options *options,
                               struct pen_engine *engine,
                               enum pen_recompute recompute,
                               struct pen_text *why)
{
    const struct pen_network_options text = {
        .engine = engine,
        .model = options->model,
        .first_layer = chain->first_layer,
        .num_layers = chain->num_layers,
        .batch = options->micro_batch,
        .sequence = options->sequence,
        .step_rows =
            MICROBATCHES * (size_t)options->micro_batch * options->sequence,
        .moments = MOMENTS,
        .recompute = recompute};
    if (options->model->images == NULL)
        return pen_network_create(&text, &chain->network, why);
    struct pen_image_extent in;
    struct pen_image_extent out;
    pen_image_layer_extents(options->model->images, 0, &in, &out);
    const struct pen_image_options images = {.engine = engine,
                                             .model = options->model->images,
                                             .first_layer = chain->first_layer,
                                             .num_layers = chain->num_layers,
                                             .batch = options->micro_batch,
                                             .height = in.height,
                                             .width = in.width,
                                             .moments = MOMENTS};
    return pen_network_create_images(&images, &chain->network, why);
}

pen_status pen__chain_init(struct pen__chain *chain,
                           const struct pen_profiler_options *options,
                           struct pen_engine *engine,
                           enum pen_recompute recompute, uint32_t first_layer,
                           uint32_t num_layers, struct pen_text *why)
{
    size_t rows = (size_t)options->micro_batch * options->sequence;
    *chain = (struct pen__chain){.model = options->model,
                                 .first_layer = first_layer,
                                 .num_layers = num_layers};
    pen_status status = make_network(chain, options, engine, recompute, why);
    if (status == PEN_OK)
        status = pen_network_initialize(chain->network, 1);
    if (status == PEN_OK)
        status = make_arena(chain, rows, why);
    if (status == PEN_OK)
        status = pen_mirror_init(&chain->mirror, engine,
                                 pen_network_largest(chain->network));
    if (status == PEN_OK) {
        chain->layer_ns = calloc(num_layers, sizeof *chain->layer_ns);
        status = chain->layer_ns == NULL ? PEN_NOMEM : PEN_OK;
    }
    if (status != PEN_OK) {
        pen__chain_release(chain);
        return status;
    }
    chain->num_rows = (double)rows;
    fill_inputs(chain, rows);
    count_parameters(chain);
    pen_network_set_progress(chain->network, layer_is_done, chain);
    return PEN_OK;
}

void pen__chain_release(struct pen__chain *chain)
{
    pen_mirror_release(&chain->mirror);
    if (chain->network != NULL)
        pen_engine_give(pen_network_engine(chain->network), PEN_PLACE_STAGING,
                        chain->arena, chain->arena_bytes);
    pen_network_free(chain->network);
    free(chain->layer_ns);
    *chain = (struct pen__chain){.network = NULL};
}

/* ---- passes ---- */

static void start(struct pen__chain *chain)
{
    chain->last_ns = pen_clock_ns();
}

/* Adds the mean over all layers of a kind as the sample of this round. */
static void add_pass(const struct pen__chain *chain, enum pen_layer_pass pass,
                     struct pen__chain_samples *samples)
{
    const struct pen_model *model = chain->model;
    double sums[PEN_LAYER_KINDS] = {0};
    uint32_t counts[PEN_LAYER_KINDS] = {0};
    if (samples == NULL)
        return;
    for (uint32_t i = 0; i < chain->num_layers; i++) {
        enum pen_layer_kind kind =
            pen_model_layer_kind(model, chain->first_layer + i);
        sums[kind] += 1e-9 * (double)chain->layer_ns[i];
        counts[kind]++;
    }
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++)
        if (counts[kind] > 0)
            pen__samples_add(&samples->passes[kind][pass],
                             sums[kind] / counts[kind]);
}

static void forward(struct pen__chain *chain, struct pen_microbatch *microbatch)
{
    start(chain);
    pen_network_forward(chain->network, microbatch, chain->stash, chain->x,
                        chain->y);
}

size_t pen__chain_bytes(const struct pen__chain *chain)
{
    const struct pen_engine *engine = pen_network_engine(chain->network);
    return engine->ops->memory_bytes(engine) + chain->arena_bytes +
           pen_network_scratch_bytes(chain->network);
}

/* ---- what a step does once ---- */

static void clear(struct pen__chain *chain,
                  const struct pen_network_parameter *it)
{
    struct pen_engine *engine = pen_network_engine(chain->network);
    engine->ops->gradient_clear(engine, it->parameter);
}

static void square(struct pen__chain *chain,
                   const struct pen_network_parameter *it)
{
    struct pen_engine *engine = pen_network_engine(chain->network);
    engine->ops->gradient_sum_squares(engine, it->parameter, chain->squares);
}

static void adam(struct pen__chain *chain,
                 const struct pen_network_parameter *it)
{
    struct pen_engine *engine = pen_network_engine(chain->network);
    const struct pen_adamw adamw = {.learning_rate = LEARNING_RATE,
                                    .beta1 = 0.9,
                                    .beta2 = 0.999,
                                    .epsilon = 1e-8,
                                    .weight_decay = 0.1,
                                    .step = chain->step,
                                    .gradient_scale = 1};
    engine->ops->adamw_step(engine, it->parameter, &adamw);
}

static void descend(struct pen__chain *chain,
                    const struct pen_network_parameter *it)
{
    struct pen_engine *engine = pen_network_engine(chain->network);
    const struct pen_sgd sgd = {.learning_rate = LEARNING_RATE,
                                .momentum = 0.9,
                                .weight_decay = 0.1,
                                .gradient_scale = 1};
    engine->ops->sgd_step(engine, it->parameter, &sgd);
}

/*
 * Adds one half of the gradient to the other, twice: each element has its turn.
 */
static void add(struct pen__chain *chain,
                const struct pen_network_parameter *it)
{
    const struct pen_mirror_piece piece = {.parameter = it->parameter,
                                           .part = PEN_PART_GRADIENT,
                                           .count = pen_network_count(it)};
    float *to = pen_mirror_show(&chain->mirror, &piece);
    size_t half = piece.count / 2;
    const float *from = to + half;
    for (int turn = 0; turn < 2; turn++)
        for (size_t i = 0; i < half; i++)
            to[i] += from[i];
    pen_mirror_put(&chain->mirror);
}

static void update(struct pen__chain *chain, enum pen_update_kind what,
                   struct pen__chain_samples *samples)
{
    static void (*const updates[])(struct pen__chain *,
                                   const struct pen_network_parameter *) = {
        [PEN_UPDATE_CLEAR] = clear,
        [PEN_UPDATE_NORM] = square,
        [PEN_UPDATE_ADAM] = adam,
        [PEN_UPDATE_SGD] = descend,
        [PEN_UPDATE_ADD] = add};
    int64_t begin = pen_clock_ns();
    for (size_t i = 0; i < pen_network_num_parameters(chain->network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(chain->network, i);
        if (!it->is_value_only)
            updates[what](chain, it);
    }
    pen_engine_await(pen_network_engine(chain->network));
    int64_t taken = pen_clock_ns() - begin;
    if (samples != NULL)
        pen__samples_add(&samples->updates[what],
                         1e-9 * (double)taken / (double)chain->num_parameters);
}

void pen__chain_round(struct pen__chain *chain,
                      struct pen__chain_samples *samples)
{
    struct pen_network *network = chain->network;
    struct pen_microbatch microbatch = {.ids = chain->ids,
                                        .pixels = chain->pixels,
                                        .targets = chain->targets,
                                        .loss_count = chain->num_rows};
    chain->step++;

    forward(chain, &microbatch);
    add_pass(chain, PEN_PASS_FORWARD, samples);
    start(chain);
    pen_network_backward(network, &microbatch, chain->stash, chain->dy,
                         chain->dx);
    add_pass(chain, PEN_PASS_BACKWARD, samples);

    forward(chain, &microbatch);
    start(chain);
    pen_network_backward_input(network, &microbatch, chain->stash, chain->hold,
                               chain->dy, chain->dx);
    add_pass(chain, PEN_PASS_INPUT, samples);
    start(chain);
    pen_network_backward_weight(network, &microbatch, chain->stash,
                                chain->hold);
    add_pass(chain, PEN_PASS_WEIGHT, samples);

    pen_network_finish_gradients(network);
    pen_network_clear_gathered(network);
    update(chain, PEN_UPDATE_NORM, samples);
    update(chain, PEN_UPDATE_ADAM, samples);
    update(chain, PEN_UPDATE_SGD, samples);
}

void pen__chain_clear(struct pen__chain *chain,
                      struct pen__chain_samples *samples)
{
    update(chain, PEN_UPDATE_CLEAR, samples);
}

void pen__chain_add(struct pen__chain *chain,
                    struct pen__chain_samples *samples)
{
    update(chain, PEN_UPDATE_ADD, samples);
}
