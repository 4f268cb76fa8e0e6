/*
 * A network that takes the sequences of a micro-batch in token slices has the
 * loss and the gradients of one that takes them whole, but for rounding; and
 * the same bits whether its backward is whole or split, and whatever it
 * computes again.
 */
#include "support/engine.h"

#include "network_step.h"
#include "support/span.h"

#include <math.h>

enum { BATCH = 2, VOCAB = 27, MICROBATCHES = 2, MOST_SLICES = 4 };
enum { MOST_ROWS = BATCH * 192 };

#define SIZES                                                                  \
    "\"vocab_size\":27,\"hidden_size\":64,\"intermediate_size\":96,"           \
    "\"num_hidden_layers\":2,\"max_position_embeddings\":192,"                 \
    "\"rms_norm_eps\":1e-5,"

/* The last but one sees few tokens; heads of the last fill tiles of AMX. */
static const char *const configs[] = {
    "{\"model_type\":\"gpt2\",\"vocab_size\":27,\"n_positions\":192,"
    "\"n_embd\":64,\"n_layer\":2,\"n_head\":4}",
    "{\"model_type\":\"llama\"," SIZES
    "\"num_attention_heads\":4,\"num_key_value_heads\":2}",
    "{\"model_type\":\"qwen3\"," SIZES "\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"head_dim\":16}",
    "{\"model_type\":\"mistral\"," SIZES "\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"head_dim\":16,\"sliding_window\":5}",
    "{\"model_type\":\"qwen2\"," SIZES "\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"tie_word_embeddings\":true}"};
enum { CONFIGS = sizeof configs / sizeof *configs };

/* With losses of routers, which count the tokens of whole sequences. */
static const char *const mixtures[] = {
    "{\"model_type\":\"mixtral\"," SIZES "\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"num_local_experts\":4,"
    "\"num_experts_per_tok\":2}",
    "{\"model_type\":\"gpt_oss\"," SIZES "\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"head_dim\":16,\"num_local_experts\":4,"
    "\"num_experts_per_tok\":2,\"sliding_window\":5,\"swiglu_limit\":0.1}"};
enum { MIXTURES = sizeof mixtures / sizeof *mixtures };

struct way {
    size_t sequence;
    uint32_t slices;
    uint32_t pieces;
    enum pen_recompute recompute;
    bool is_split;
};

struct run {
    struct pen_engine *engine;
    struct pen_network *network;
    double loss;
};

/* A slice of a micro-batch, or all of it. */
struct unit {
    int32_t ids[MOST_ROWS];
    int32_t targets[MOST_ROWS];
    struct pen_microbatch microbatch;
    void *stash;
    void *hold;
};

static void fill(struct unit *unit, const struct way *way, size_t microbatch,
                 uint32_t slice)
{
    size_t tokens = way->sequence / way->slices;
    size_t rows = BATCH * way->sequence;
    for (size_t b = 0; b < BATCH; b++)
        for (size_t i = 0; i < tokens; i++) {
            size_t token = b * way->sequence + slice * tokens + i;
            size_t number = microbatch * rows + token;
            unit->ids[b * tokens + i] = (int32_t)(number * number * 7 % VOCAB);
            unit->targets[b * tokens + i] =
                token % 7 == 3 ? PEN_NO_TARGET
                               : (int32_t)((number * 5 + 3) % VOCAB);
        }
    unit->microbatch =
        (struct pen_microbatch){.ids = unit->ids,
                                .targets = unit->targets,
                                .loss_count = (double)(MICROBATCHES * rows),
                                .slice = slice};
}

static void forward(struct run *run, struct unit *unit,
                    const struct pen_network_sizes *sizes)
{
    unit->stash = room(sizes->stash);
    unit->hold = room(sizes->hold);
    pen_network_forward(run->network, &unit->microbatch, unit->stash, NULL,
                        NULL);
    run->loss += pen_network_loss(run->network);
}

static void backward(struct run *run, struct unit *unit, bool is_split)
{
    if (is_split)
        pen_network_backward_input(run->network, &unit->microbatch, unit->stash,
                                   unit->hold, NULL, NULL);
    else
        pen_network_backward(run->network, &unit->microbatch, unit->stash, NULL,
                             NULL);
}

/* All forwards of a micro-batch, then all that goes back. */
static void run_microbatch(struct run *run, const struct way *way, size_t m,
                           struct unit *units)
{
    struct pen_network_sizes sizes;
    pen_network_sizes(run->network, &sizes);
    void *context = way->slices > 1 ? room(sizes.context) : NULL;
    void *slopes = way->slices > 1 ? room(sizes.slopes) : NULL;
    assert_true((sizes.context > 0) == (way->slices > 1));
    for (uint32_t i = 0; i < way->slices; i++) {
        fill(&units[i], way, m, i);
        units[i].microbatch.context = context;
        forward(run, &units[i], &sizes);
    }
    for (uint32_t i = way->slices; i-- > 0;) {
        units[i].microbatch.slopes = slopes;
        backward(run, &units[i], way->is_split);
    }
    for (uint32_t i = way->slices; i-- > 0;) {
        if (way->is_split)
            pen_network_backward_weight(run->network, &units[i].microbatch,
                                        units[i].stash, units[i].hold);
        free(units[i].stash);
        free(units[i].hold);
    }
    free(context);
    free(slopes);
}

static void make_run(struct run *run, const struct pen_model *model,
                     struct pen_engine *engine, const struct way *way)
{
    *run = (struct run){.engine = engine};
    struct pen_network_options options = {
        .engine = engine,
        .model = model,
        .num_layers = model->num_layers,
        .batch = BATCH,
        .sequence = way->sequence,
        .num_slices = way->slices,
        .step_rows = (size_t)MICROBATCHES * BATCH * way->sequence,
        .recompute = way->recompute,
        .router = {.aux = 1, .z = 0.1},
        .tensor = {way->pieces, 0, way->pieces, NULL, false}};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_network_create(&options, &run->network, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    assert_int_equal(pen_network_initialize(run->network, 7), PEN_OK);
    struct unit *units = calloc(MOST_SLICES, sizeof *units);
    assert_non_null(units);
    pen_network_clear_gradients(run->network);
    for (size_t m = 0; m < MICROBATCHES; m++)
        run_microbatch(run, way, m, units);
    pen_network_finish_gradients(run->network);
    free(units);
}

static const float *gradient_of(const struct run *run, size_t index,
                                size_t *count)
{
    return span_of_part(run->engine,
                        pen_network_parameter(run->network, index)->parameter,
                        PEN_PART_GRADIENT, count);
}

/* Of the difference of two vectors; `b` may be NULL. */
static double norm_of(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double number = (double)a[i] - (b == NULL ? 0 : (double)b[i]);
        sum += number * number;
    }
    return sqrt(sum);
}

/* Differences relative to norms; 0 for the same bits. A bias of keys has no
 * gradient but rounding, so the least norm is a part of the largest. */
static void compare(const struct run *run, const struct run *like,
                    double loss_most, double gradient_most)
{
    double largest = 0;
    if (!(fabs(run->loss - like->loss) <= loss_most * like->loss))
        fail_msg("loss %.9g, not %.9g", run->loss, like->loss);
    for (size_t i = 0; i < pen_network_num_parameters(run->network); i++) {
        size_t count = 0;
        const float *expected = gradient_of(like, i, &count);
        largest = fmax(largest, norm_of(expected, NULL, count));
    }
    for (size_t i = 0; i < pen_network_num_parameters(run->network); i++) {
        size_t count = 0, other = 0;
        const float *found = gradient_of(run, i, &count);
        const float *expected = gradient_of(like, i, &other);
        assert_int_equal(count, other);
        double norm = fmax(norm_of(expected, NULL, count), 1e-2 * largest);
        double apart = norm_of(found, expected, count);
        if (!(apart <= gradient_most * norm))
            fail_msg("tensor %u: gradients differ by %g of their norm",
                     pen_network_parameter(run->network, i)->slices[0].tensor,
                     apart / norm);
    }
}

static void try_ways(const struct pen_model *model, struct pen_engine *engine,
                     size_t sequence, uint32_t slices, uint32_t pieces)
{
    bool is_bf16 = engine->dtype == PEN_PRECISION_BF16;
    const struct way whole = {sequence, 1, pieces, PEN_RECOMPUTE_NONE, false};
    struct run like, first;
    make_run(&like, model, engine, &whole);
    struct way way = whole;
    way.slices = slices;
    make_run(&first, model, engine, &way);
    compare(&first, &like, is_bf16 ? 5e-3 : 1e-6, is_bf16 ? 5e-2 : 1e-5);
    for (int recompute = 0; recompute < PEN_RECOMPUTES; recompute++)
        for (int split = 0; split < 2; split++) {
            struct run again;
            way.recompute = (enum pen_recompute)recompute;
            way.is_split = split == 1;
            make_run(&again, model, engine, &way);
            compare(&again, &first, 0, 0);
            pen_network_free(again.network);
        }
    pen_network_free(first.network);
    pen_network_free(like.network);
}

/* Slices of 80 tokens: attention has blocks of 64. */
static void try_models(enum pen_precision dtype, bool is_reference)
{
    for (int i = 0; i < CONFIGS; i++) {
        struct pen_model *model = NULL;
        assert_int_equal(
            pen_model_parse(configs[i], strlen(configs[i]), &model, NULL),
            PEN_OK);
        struct pen_engine *engine =
            is_reference ? reference_engine(dtype) : onednn_engine(dtype, 1);
        try_ways(model, engine, 16, 4, 1);
        try_ways(model, engine, 12, 3, 2);
        if (!is_reference)
            try_ways(model, engine, 160, 2, 1);
        pen_engine_free(engine);
        pen_model_free(model);
    }
}

static void so_do_those_of_mixtures(void **state)
{
    (void)state;
    for (int i = 0; i < MIXTURES; i++) {
        struct pen_model *model = NULL;
        assert_int_equal(
            pen_model_parse(mixtures[i], strlen(mixtures[i]), &model, NULL),
            PEN_OK);
        struct pen_engine *engine = i == 0
                                        ? reference_engine(PEN_PRECISION_F32)
                                        : onednn_engine(PEN_PRECISION_F32, 1);
        try_ways(model, engine, 16, 4, 1);
        try_ways(model, engine, 12, 3, 2);
        pen_engine_free(engine);
        pen_model_free(model);
    }
}

static void slices_agree_with_whole_sequences(void **state)
{
    (void)state;
    try_models(PEN_PRECISION_F32, true);
}

static void so_they_do_in_the_fast_engine(void **state)
{
    (void)state;
    try_models(PEN_PRECISION_F32, false);
}

static void so_they_do_in_bf16(void **state)
{
    (void)state;
    try_models(PEN_PRECISION_BF16, false);
}

static void slices_that_are_not_equal_are_refused(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    struct pen_model *model = NULL;
    struct pen_network *network = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(
        pen_model_parse(configs[0], strlen(configs[0]), &model, NULL), PEN_OK);
    struct pen_network_options options = {.engine = engine,
                                          .model = model,
                                          .num_layers = model->num_layers,
                                          .batch = 1,
                                          .sequence = 10,
                                          .num_slices = 4};
    assert_int_equal(pen_network_create(&options, &network, &why), PEN_INVALID);
    assert_string_equal(pen_text_string(&why),
                        "sequences of 10 tokens cannot be cut into 4 equal "
                        "slices; use a number of --slices that divides them");
    pen_text_release(&why);
    pen_model_free(model);
    pen_engine_free(engine);
}

static void capacities_are_refused(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    struct pen_model *model = NULL;
    struct pen_network *network = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(
        pen_model_parse(mixtures[0], strlen(mixtures[0]), &model, NULL),
        PEN_OK);
    struct pen_network_options options = {.engine = engine,
                                          .model = model,
                                          .num_layers = model->num_layers,
                                          .batch = 1,
                                          .sequence = 8,
                                          .num_slices = 2,
                                          .router = {.capacity = 1}};
    assert_int_equal(pen_network_create(&options, &network, &why), PEN_INVALID);
    assert_string_equal(pen_text_string(&why),
                        "--moe-expert-capacity-factor chooses among all tokens "
                        "of a micro-batch, of which a pass with --slices has "
                        "some. Drop one of them");
    pen_text_release(&why);
    pen_model_free(model);
    pen_engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_agree_with_whole_sequences),
        cmocka_unit_test(so_they_do_in_the_fast_engine),
        cmocka_unit_test(so_they_do_in_bf16),
        cmocka_unit_test(so_do_those_of_mixtures),
        cmocka_unit_test(slices_that_are_not_equal_are_refused),
        cmocka_unit_test(capacities_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
