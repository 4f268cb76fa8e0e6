/* Text from a model: a forward pass, and a draw from what it expects. */
#include "runtime/generator.h"

#include "core/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct pen_text_generator {
    struct pen_text_generator_options options;
    struct pen_random random;
    size_t sequence;
    size_t vocab;
    void *stash;
    int32_t *ids; /* of the context, zeros after it: attention is causal */
    void *row;    /* of logits, as the engine has them; staging, as ids */
    float *logits;
    uint32_t *order;
};

static size_t stash_bytes(const struct pen_text_generator *generator)
{
    struct pen_network_sizes sizes;
    pen_network_sizes(generator->options.network, &sizes);
    return sizes.stash;
}

static size_t id_bytes(const struct pen_text_generator *generator)
{
    return generator->sequence * sizeof *generator->ids;
}

static size_t row_bytes(const struct pen_text_generator *generator)
{
    return generator->vocab *
           pen_precision_bytes(
               pen_network_engine(generator->options.network)->dtype);
}

void pen_text_generator_free(struct pen_text_generator *generator)
{
    if (generator == NULL)
        return;
    struct pen_engine *engine = pen_network_engine(generator->options.network);
    pen_engine_give(engine, PEN_PLACE_ENGINE, generator->stash,
                    stash_bytes(generator));
    pen_engine_give(engine, PEN_PLACE_STAGING, generator->ids,
                    id_bytes(generator));
    pen_engine_give(engine, PEN_PLACE_STAGING, generator->row,
                    row_bytes(generator));
    free(generator->logits);
    free(generator->order);
    free(generator);
}

pen_status
pen_text_generator_create(const struct pen_text_generator_options *options,
                          size_t sequence, struct pen_text_generator **out)
{
    struct pen_text_generator *generator = calloc(1, sizeof *generator);
    if (generator == NULL)
        return PEN_NOMEM;
    struct pen_engine *engine = pen_network_engine(options->network);
    generator->options = *options;
    generator->random.state = options->seed;
    generator->sequence = sequence;
    generator->vocab = pen_network_model(options->network)->vocab;
    generator->stash =
        pen_engine_take(engine, PEN_PLACE_ENGINE, stash_bytes(generator));
    generator->ids =
        pen_engine_take(engine, PEN_PLACE_STAGING, id_bytes(generator));
    generator->row =
        pen_engine_take(engine, PEN_PLACE_STAGING, row_bytes(generator));
    generator->logits = calloc(generator->vocab, sizeof *generator->logits);
    generator->order = calloc(generator->vocab, sizeof *generator->order);
    if (generator->stash == NULL || generator->ids == NULL ||
        generator->row == NULL || generator->logits == NULL ||
        generator->order == NULL) {
        pen_text_generator_free(generator);
        return PEN_NOMEM;
    }
    *out = generator;
    return PEN_OK;
}

static size_t most_likely(const float *logits, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* Moves the token at `root` down until no child is heavier. */
static void sift(const float *weights, uint32_t *order, size_t count,
                 size_t root)
{
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count)
            return;
        if (child + 1 < count &&
            weights[order[child + 1]] > weights[order[child]])
            child++;
        if (!(weights[order[child]] > weights[order[root]]))
            return;
        uint32_t token = order[root];
        order[root] = order[child];
        order[child] = token;
        root = child;
    }
}

/*
 * Puts the heaviest tokens that together reach `share` at the end of `order`
 * and returns how many they are: a heap that stops early.
 */
static size_t select_nucleus(const float *weights, uint32_t *order,
                             size_t count, double share)
{
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t root = count / 2; root-- > 0;)
        sift(weights, order, count, root);
    double sum = 0;
    size_t left = count;
    while (left > 0 && sum < share) {
        left--;
        uint32_t token = order[0];
        order[0] = order[left];
        order[left] = token;
        sum += (double)weights[token];
        sift(weights, order, left, 0);
    }
    return count - left;
}

uint32_t pen_text_generator_draw(float *logits, uint32_t *order, size_t count,
                                 double temperature, double top_p,
                                 struct pen_random *random)
{
    size_t best = most_likely(logits, count);
    if (temperature <= 0)
        return (uint32_t)best;
    double highest = (double)logits[best];
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        logits[i] = (float)exp(((double)logits[i] - highest) / temperature);
        sum += (double)logits[i];
    }
    size_t kept = select_nucleus(logits, order, count, top_p * sum);
    double total = 0;
    for (size_t i = count - kept; i < count; i++)
        total += (double)logits[order[i]];
    double draw = pen_random_unit(random) * total;
    for (size_t i = count; i-- > count - kept;) {
        draw -= (double)logits[order[i]];
        if (draw < 0)
            return order[i];
    }
    return (uint32_t)best;
}

/* The logits of one position, as floats. */
static void read_logits(struct pen_text_generator *generator, size_t position)
{
    struct pen_network *network = generator->options.network;
    struct pen_engine *engine = pen_network_engine(network);
    const char *all = pen_network_logits(network, generator->stash);
    engine->ops->copy(engine, all + position * row_bytes(generator),
                      generator->row, row_bytes(generator));
    pen_engine_await(engine);
    pen_dtype_to_float(engine->dtype == PEN_PRECISION_BF16 ? PEN_DTYPE_BF16
                                                           : PEN_DTYPE_F32,
                       generator->row, generator->vocab, generator->logits);
}

uint32_t pen_text_generator_next(struct pen_text_generator *generator,
                                 const uint32_t *tokens, size_t count)
{
    if (count > generator->sequence) {
        tokens += count - generator->sequence;
        count = generator->sequence;
    }
    memset(generator->ids, 0, generator->sequence * sizeof *generator->ids);
    for (size_t i = 0; i < count; i++)
        generator->ids[i] = (int32_t)tokens[i];
    struct pen_microbatch batch = {.ids = generator->ids};
    pen_network_forward(generator->options.network, &batch, generator->stash,
                        NULL, NULL);
    read_logits(generator, count - 1);
    return pen_text_generator_draw(
        generator->logits, generator->order, generator->vocab,
        generator->options.temperature, generator->options.top_p,
        &generator->random);
}
