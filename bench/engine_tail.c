/*
 * The tail of a train step: every operation of GPT-2 124M that is no dense
 * product, by itself.
 *
 *   build/release/bench/engine_tail [f32|bf16 [batch [sequence [threads]]]]
 *
 * One line per operation, tab separated: dtype, batch, sequence, threads,
 * operation, calls in a step, milliseconds of all its calls (median of seven
 * rounds), and GB/s of what it has to read and write at least. Layers follow
 * each other in memory as in a step, so that the caches hold what they would
 * hold there. The last line is the sum.
 */
#include "measure.h"

#include "engine/engine.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 12, WIDTH = 768, HEADS = 12, WORDS = 50257, POSITIONS = 1024 };
enum { ROUNDS = 7 };

struct tail {
    struct pen_engine *engine;
    const struct pen_engine_ops *ops;
    size_t batch;
    size_t sequence;
    size_t rows;
    size_t unit;            /* bytes of an element */
    char *in[LAYERS + 1];   /* rows x 4 WIDTH each, as are the next two */
    char *out[LAYERS + 1];  /* what a forward leaves */
    char *back[LAYERS + 1]; /* gradients */
    char *logits;
    float *stats[LAYERS + 1]; /* rows x (2 + HEADS) */
    int32_t *ids;
    struct pen_parameter *words;
    struct pen_parameter *gathered;
    struct pen_parameter *positions;
    struct pen_parameter *gain;
    struct pen_parameter *bias;
    struct pen_parameter *biases[4];  /* of the layer's products */
    struct pen_parameter *thin[4];    /* weights of one input */
    struct pen_parameter *weights[4]; /* of one layer */
};

static const size_t outputs[] = {3 * WIDTH, WIDTH, 4 * WIDTH, WIDTH};
static const size_t inputs[] = {WIDTH, WIDTH, WIDTH, 4 * WIDTH};

static void *filled(size_t bytes)
{
    uint16_t *block = small_numbers(bytes);
    for (size_t i = 0; i < bytes / 2; i += 3)
        block[i] |= 0x8000; /* both signs */
    return block;
}

static struct pen_parameter *parameter(struct tail *tail,
                                       enum pen_parameter_use use, size_t rows,
                                       size_t columns)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_parameter_shape shape = {
        .use = use, .rows = rows, .columns = columns, .moments = 2};
    struct pen_parameter *made = NULL;
    stop_unless(tail->ops->parameter_create(tail->engine, &shape, &why,
                                            &made) == PEN_OK,
                pen_text_string(&why));
    double squares;
    tail->ops->gradient_sum_squares(tail->engine, made, &squares); /* touches */
    return made;
}

static struct pen_attention attention_of(const struct tail *tail)
{
    return (struct pen_attention){.batch = tail->batch,
                                  .sequence = tail->sequence,
                                  .heads = HEADS,
                                  .kv_heads = HEADS,
                                  .head_size = WIDTH / HEADS,
                                  .scale = 1 / sqrt(WIDTH / HEADS),
                                  .q_stride = 3 * WIDTH,
                                  .kv_stride = 3 * WIDTH};
}

static struct pen_linear thin_linear(const struct tail *tail, int which)
{
    return (struct pen_linear){.rows = tail->rows,
                               .weight = tail->thin[which],
                               .bias = tail->biases[which]};
}

static void tail_init(struct tail *tail)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    tail->ops = tail->engine->ops;
    tail->rows = tail->batch * tail->sequence;
    tail->unit = pen_precision_bytes(tail->engine->dtype);
    for (int layer = 0; layer <= LAYERS; layer++) {
        tail->in[layer] = filled(tail->rows * 4 * WIDTH * tail->unit);
        tail->out[layer] = filled(tail->rows * 4 * WIDTH * tail->unit);
        tail->back[layer] = filled(tail->rows * 4 * WIDTH * tail->unit);
        tail->stats[layer] = filled(tail->rows * (2 + HEADS) * sizeof(float));
    }
    tail->logits = filled(tail->rows * WORDS * tail->unit);
    tail->ids = calloc(tail->rows, sizeof *tail->ids);
    stop_unless(tail->ids != NULL, "no memory");
    for (size_t row = 0; row < tail->rows; row++)
        tail->ids[row] = (int32_t)(row * 48271 % WORDS);
    tail->words = parameter(tail, PEN_PARAMETER_DENSE, WORDS, WIDTH);
    tail->gathered = parameter(tail, PEN_PARAMETER_VECTORS, tail->rows, WIDTH);
    tail->positions = parameter(tail, PEN_PARAMETER_VECTORS, POSITIONS, WIDTH);
    tail->gain = parameter(tail, PEN_PARAMETER_VECTORS, 1, WIDTH);
    tail->bias = parameter(tail, PEN_PARAMETER_VECTORS, 1, WIDTH);
    for (int i = 0; i < 4; i++) {
        tail->biases[i] = parameter(tail, PEN_PARAMETER_VECTORS, 1, outputs[i]);
        tail->thin[i] = parameter(tail, PEN_PARAMETER_DENSE, outputs[i], 1);
        tail->weights[i] =
            parameter(tail, PEN_PARAMETER_DENSE, outputs[i], inputs[i]);
        struct pen_linear linear = thin_linear(tail, i);
        stop_unless(tail->ops->linear_prepare(tail->engine, &linear, &why) ==
                        PEN_OK,
                    pen_text_string(&why));
    }
    struct pen_attention attention = attention_of(tail);
    stop_unless(tail->ops->attention_prepare(tail->engine, &attention, &why) ==
                    PEN_OK,
                pen_text_string(&why));
}

static void tail_release(struct tail *tail)
{
    struct pen_parameter *all[] = {tail->words, tail->gathered, tail->positions,
                                   tail->gain, tail->bias};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        tail->ops->parameter_free(tail->engine, all[i]);
    for (int i = 0; i < 4; i++) {
        tail->ops->parameter_free(tail->engine, tail->biases[i]);
        tail->ops->parameter_free(tail->engine, tail->thin[i]);
        tail->ops->parameter_free(tail->engine, tail->weights[i]);
    }
    for (int layer = 0; layer <= LAYERS; layer++) {
        free(tail->in[layer]);
        free(tail->out[layer]);
        free(tail->back[layer]);
        free(tail->stats[layer]);
    }
    free(tail->logits);
    free(tail->ids);
    pen_engine_free(tail->engine);
}

static void embed(struct tail *tail, int layer)
{
    struct pen_embedding embedding = {.rows = tail->rows,
                                      .sequence = tail->sequence,
                                      .tokens = tail->words,
                                      .positions = tail->positions};
    tail->ops->embedding_forward(tail->engine, &embedding, tail->ids,
                                 tail->out[layer]);
}

/* As a tied embedding does: rows gathered by word, added at the end. */
static void embed_backward(struct tail *tail, int layer)
{
    struct pen_embedding embedding = {.rows = tail->rows,
                                      .sequence = tail->sequence,
                                      .tokens = tail->gathered,
                                      .positions = tail->positions};
    int32_t *own = (int32_t *)tail->stats[layer];
    for (size_t row = 0; row < tail->rows; row++)
        own[row] = (int32_t)row;
    tail->ops->embedding_backward(tail->engine, &embedding, own,
                                  tail->back[layer]);
    tail->ops->gradient_add_rows(
        tail->engine, tail->words, 0, tail->rows, tail->ids,
        tail->ops->parameter_read(tail->engine, tail->gathered,
                                  PEN_PART_GRADIENT, 0, tail->rows * WIDTH,
                                  NULL));
}

static struct pen_norm norm_of(const struct tail *tail)
{
    return (struct pen_norm){PEN_NORM_LAYER, tail->rows, WIDTH,
                             1e-5,           tail->gain, tail->bias};
}

static void norm(struct tail *tail, int layer)
{
    struct pen_norm norm = norm_of(tail);
    float *stats = tail->stats[layer];
    tail->ops->norm_forward(tail->engine, &norm, tail->in[layer],
                            tail->out[layer], stats, stats + tail->rows);
}

static void norm_input(struct tail *tail, int layer)
{
    struct pen_norm norm = norm_of(tail);
    float *stats = tail->stats[layer];
    tail->ops->norm_backward_input(tail->engine, &norm, tail->in[layer], stats,
                                   stats + tail->rows, tail->back[layer],
                                   tail->out[layer], tail->out[layer]);
}

static void norm_weight(struct tail *tail, int layer)
{
    struct pen_norm norm = norm_of(tail);
    float *stats = tail->stats[layer];
    tail->ops->norm_backward_weight(tail->engine, &norm, tail->in[layer], stats,
                                    stats + tail->rows, tail->back[layer]);
}

static void gelu(struct tail *tail, int layer)
{
    tail->ops->gelu_forward(tail->engine, tail->rows * 4 * WIDTH,
                            tail->in[layer], tail->out[layer]);
}

static void gelu_back(struct tail *tail, int layer)
{
    tail->ops->gelu_backward(tail->engine, tail->rows * 4 * WIDTH,
                             tail->in[layer], tail->back[layer],
                             tail->out[layer]);
}

static void attend(struct tail *tail, int layer)
{
    struct pen_attention attention = attention_of(tail);
    char *q = tail->in[layer];
    tail->ops->attention_forward(
        tail->engine, &attention, q, q + WIDTH * tail->unit,
        q + 2 * WIDTH * tail->unit, tail->out[layer], tail->stats[layer]);
}

static void attend_back(struct tail *tail, int layer)
{
    struct pen_attention attention = attention_of(tail);
    size_t part = WIDTH * tail->unit;
    char *q = tail->in[layer];
    char *dq = tail->back[layer];
    tail->ops->attention_backward(
        tail->engine, &attention, q, q + part, q + 2 * part, tail->out[layer],
        tail->stats[layer], tail->out[layer], dq, dq + part, dq + 2 * part);
}

static void bias_gradients(struct tail *tail, int layer)
{
    for (int i = 0; i < 4; i++) {
        struct pen_linear linear = thin_linear(tail, i);
        tail->ops->gradient_clear(tail->engine, linear.weight);
        tail->ops->linear_backward_weight(tail->engine, &linear,
                                          tail->in[layer], tail->back[layer]);
    }
}

static void loss(struct tail *tail, int layer)
{
    (void)layer;
    struct pen_cross_entropy entropy = {.rows = tail->rows,
                                        .classes = WORDS,
                                        .ignore = -1,
                                        .count = (double)tail->rows};
    double found;
    tail->ops->cross_entropy(tail->engine, &entropy, tail->ids, tail->logits,
                             true, &found);
}

static const struct pen_adamw adamw = {.learning_rate = 1e-4,
                                       .beta1 = 0.9,
                                       .beta2 = 0.999,
                                       .epsilon = 1e-8,
                                       .weight_decay = 0.1,
                                       .step = 1,
                                       .gradient_scale = 1};

static void step_words(struct tail *tail, int layer)
{
    (void)layer;
    tail->ops->adamw_step(tail->engine, tail->words, &adamw);
}

static void step_layer(struct tail *tail, int layer)
{
    (void)layer;
    for (int i = 0; i < 4; i++)
        tail->ops->adamw_step(tail->engine, tail->weights[i], &adamw);
}

static void squares_words(struct tail *tail, int layer)
{
    double squares;
    (void)layer;
    tail->ops->gradient_sum_squares(tail->engine, tail->words, &squares);
}

static void squares_layer(struct tail *tail, int layer)
{
    double squares;
    (void)layer;
    for (int i = 0; i < 4; i++)
        tail->ops->gradient_sum_squares(tail->engine, tail->weights[i],
                                        &squares);
}

/*
 * Elements that a call reads and writes at least: of the dtype, in units of
 * rows x WIDTH and of logits, and floats in units of a WIDTH x WIDTH weight
 * and of the token table.
 */
static const struct {
    const char *name;
    void (*run)(struct tail *tail, int layer);
    int calls;
    int per_row;
    int per_logit;
    int per_weight;
    int per_word;
} operations[] = {
    {"embedding", embed, 1, 1, 0, 0, 0},
    {"embedding backward", embed_backward, 1, 1, 0, 0, 0},
    {"norm", norm, 25, 2, 0, 0, 0},
    {"norm backward input", norm_input, 25, 4, 0, 0, 0},
    {"norm backward weight", norm_weight, 25, 2, 0, 0, 0},
    {"gelu", gelu, 12, 8, 0, 0, 0},
    {"gelu backward", gelu_back, 12, 12, 0, 0, 0},
    {"attention", attend, 12, 4, 0, 0, 0},
    {"attention backward", attend_back, 12, 8, 0, 0, 0},
    {"bias gradients", bias_gradients, 12, 9, 0, 0, 0},
    {"cross entropy", loss, 1, 0, 2, 0, 0},
    {"adamw of layers", step_layer, 12, 0, 0, 7 * 12, 0},
    {"adamw of words", step_words, 1, 0, 0, 0, 7},
    {"squares of layers", squares_layer, 12, 0, 0, 12, 0},
    {"squares of words", squares_words, 1, 0, 0, 0, 1},
};

static double gigabytes(const struct tail *tail, size_t at)
{
    double activations =
        (double)tail->rows * ((double)operations[at].per_row * WIDTH +
                              (double)operations[at].per_logit * WORDS);
    double floats = (double)operations[at].per_weight * WIDTH * WIDTH +
                    (double)operations[at].per_word * WORDS * WIDTH;
    return (activations * (double)tail->unit + 4 * floats) *
           operations[at].calls * 1e-9;
}

static double measure(struct tail *tail, size_t at)
{
    double times[ROUNDS];
    for (int round = -1; round < ROUNDS; round++) {
        double begin = now_ms();
        for (int call = 0; call < operations[at].calls; call++)
            operations[at].run(tail, call % LAYERS);
        if (round >= 0)
            times[round] = now_ms() - begin;
    }
    qsort(times, ROUNDS, sizeof times[0], by_size);
    return times[ROUNDS / 2];
}

static void run(enum pen_precision dtype, size_t batch, size_t sequence,
                int threads)
{
    struct tail tail = {.batch = batch, .sequence = sequence};
    struct pen_text why = PEN_TEXT_EMPTY;
    double sum = 0;
    stop_unless(pen_engine_onednn_create(dtype, threads, &why, &tail.engine) ==
                    PEN_OK,
                pen_text_string(&why));
    tail_init(&tail);
    for (size_t at = 0; at < sizeof operations / sizeof operations[0]; at++) {
        double ms = measure(&tail, at);
        sum += ms;
        printf("%s\t%zu\t%zu\t%d\t%s\t%d\t%.2f\t%.1f\n",
               pen_precision_text(dtype), batch, sequence, tail.engine->threads,
               operations[at].name, operations[at].calls, ms,
               gigabytes(&tail, at) / ms * 1e3);
        fflush(stdout);
    }
    printf("%s\t%zu\t%zu\t%d\tsum\t\t%.2f\t\n", pen_precision_text(dtype),
           batch, sequence, tail.engine->threads, sum);
    tail_release(&tail);
}

int main(int argc, char **argv)
{
    size_t batch = argc > 2 ? strtoul(argv[2], NULL, 10) : 4;
    size_t sequence = argc > 3 ? strtoul(argv[3], NULL, 10) : 256;
    int threads = argc > 4 ? atoi(argv[4]) : 0;
    stop_unless(sequence <= POSITIONS, "the sequence is too long");
    if (argc < 2 || strcmp(argv[1], "f32") == 0)
        run(PEN_PRECISION_F32, batch, sequence, threads);
    if (argc < 2 || strcmp(argv[1], "bf16") == 0)
        run(PEN_PRECISION_BF16, batch, sequence, threads);
    return 0;
}
