/*
 * Blocks that write to a subspace of the residual stream (2506.01260): stages
 * that send k of its d numbers have the bits of one network, what they
 * reconstruct is what was there, no gradient of a weight misses what was left
 * out, and optimizers keep the weights in the subspace.
 */
#include "support/engine.h"

#include "network/weights.h"
#include "network_step.h"
#include "runtime/optimizer.h"
#include "support/span.h"

#include <string.h>

enum { BATCH = 2, SEQUENCE = 5, ROWS = BATCH * SEQUENCE, VOCAB = 11 };
enum { HIDDEN = 32, BLOCKS = 3, STAGES = 3, MOST_LAYERS = BLOCKS + 2 };

#define SIZES                                                                  \
    "\"vocab_size\":11,\"hidden_size\":32,\"intermediate_size\":48,"           \
    "\"num_hidden_layers\":3,\"max_position_embeddings\":8,"                   \
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,"                     \
    "\"rms_norm_eps\":1e-5"

static const char *const configs[] = {
    "{\"model_type\":\"gpt2\",\"vocab_size\":11,\"n_positions\":8,"
    "\"n_embd\":32,\"n_layer\":3,\"n_head\":2}",
    "{\"model_type\":\"llama\"," SIZES "}",
    "{\"model_type\":\"qwen2\"," SIZES ",\"tie_word_embeddings\":true}"};
enum { CONFIGS = sizeof configs / sizeof *configs };

struct way {
    enum pen_precision dtype;
    int config;
    size_t width; /* 0: the whole stream */
    enum pen_recompute recompute;
    bool is_split;
};

static struct pen_model *model_of(int config)
{
    struct pen_model *model = NULL;
    assert_int_equal(
        pen_model_parse(configs[config], strlen(configs[config]), &model, NULL),
        PEN_OK);
    return model;
}

static struct pen_network *network_of(struct pen_engine *engine,
                                      const struct pen_model *model,
                                      const struct way *way, uint32_t first,
                                      uint32_t count)
{
    const struct pen_network_options options = {.engine = engine,
                                                .model = model,
                                                .first_layer = first,
                                                .num_layers = count,
                                                .batch = BATCH,
                                                .sequence = SEQUENCE,
                                                .step_rows = ROWS,
                                                .recompute = way->recompute,
                                                .subspace = way->width};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_network *network = NULL;
    if (pen_network_create(&options, &network, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    assert_int_equal(pen_network_initialize(network, 7), PEN_OK);
    return network;
}

static struct pen_microbatch batch_of(int32_t *ids, int32_t *targets)
{
    for (size_t i = 0; i < ROWS; i++) {
        ids[i] = (int32_t)(i * i * 7 % VOCAB);
        targets[i] = (int32_t)((i * 3 + 2) % VOCAB);
    }
    return (struct pen_microbatch){
        .ids = ids, .targets = targets, .loss_count = ROWS};
}

/* Outputs of layers, as the model counts them. */
struct seen {
    size_t bytes;
    char outputs[MOST_LAYERS][ROWS * HIDDEN * sizeof(double)];
};

static void see(void *context, bool is_backward, uint32_t layer,
                const void *numbers)
{
    struct seen *seen = context;
    if (!is_backward)
        memcpy(seen->outputs[layer], numbers, seen->bytes);
}

/* ---- stages ---- */

struct stages {
    struct pen_network *networks[STAGES];
    struct pen_network_sizes sizes[STAGES];
    void *stashes[STAGES], *holds[STAGES];
    void *sent[STAGES], *slopes[STAGES]; /* behind a stage */
};

static void make_stages(struct stages *stages, struct pen_engine *engine,
                        const struct pen_model *model, const struct way *way)
{
    static const uint32_t counts[STAGES] = {2, 1, 2};
    for (uint32_t s = 0, first = 0; s < STAGES; first += counts[s++]) {
        stages->networks[s] = network_of(engine, model, way, first, counts[s]);
        pen_network_sizes(stages->networks[s], &stages->sizes[s]);
        stages->stashes[s] = room(stages->sizes[s].stash);
        stages->holds[s] = room(stages->sizes[s].hold);
        stages->sent[s] = room(stages->sizes[s].output);
        stages->slopes[s] = room(stages->sizes[s].output);
    }
}

static void free_stages(struct stages *stages)
{
    for (int s = 0; s < STAGES; s++) {
        pen_network_free(stages->networks[s]);
        free(stages->stashes[s]);
        free(stages->holds[s]);
        free(stages->sent[s]);
        free(stages->slopes[s]);
    }
}

/* The input of each stage is the output that the whole network had. */
static void go_forward(struct stages *stages, struct pen_microbatch *batch,
                       const struct seen *seen)
{
    uint32_t layer = 1;
    for (int s = 0; s < STAGES; s++) {
        bool is_last = s + 1 == STAGES;
        pen_network_forward(stages->networks[s], batch, stages->stashes[s],
                            s == 0 ? NULL : stages->sent[s - 1],
                            is_last ? NULL : stages->sent[s]);
        const void *input =
            pen_network_input(stages->networks[s], stages->stashes[s]);
        if (s > 0 && memcmp(input, seen->outputs[layer], seen->bytes) != 0)
            fail_msg("stage %d does not reconstruct what layer %u gave", s,
                     layer);
        layer += s > 0 ? 1 : 0;
    }
}

static void go_back(struct stages *stages, struct pen_microbatch *batch,
                    bool is_split)
{
    for (int s = STAGES; s-- > 0;) {
        const void *dy = s + 1 == STAGES ? NULL : stages->slopes[s];
        void *dx = s == 0 ? NULL : stages->slopes[s - 1];
        if (!is_split) {
            pen_network_backward(stages->networks[s], batch, stages->stashes[s],
                                 dy, dx);
            continue;
        }
        pen_network_backward_input(stages->networks[s], batch,
                                   stages->stashes[s], stages->holds[s], dy,
                                   dx);
        pen_network_backward_weight(stages->networks[s], batch,
                                    stages->stashes[s], stages->holds[s]);
    }
}

static void hand_over_gathered(struct stages *stages)
{
    size_t count;
    const int32_t *words;
    const void *rows;
    for (int s = 0; s < STAGES; s++)
        pen_network_finish_gradients(stages->networks[s]);
    pen_network_gathered(stages->networks[0], &count, &words, &rows);
    if (rows != NULL)
        pen_network_add_gathered(stages->networks[STAGES - 1], count, words,
                                 rows);
}

static const float *part_of(const struct pen_network *network, size_t index,
                            enum pen_parameter_part part, size_t *count)
{
    return span_of_part(pen_network_engine(network),
                        pen_network_parameter(network, index)->parameter, part,
                        count);
}

/* That the network has the gradients of the whole one. */
static void expect_gradients(const struct pen_network *stage,
                             const struct pen_network *whole)
{
    for (size_t i = 0; i < pen_network_num_parameters(stage); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(stage, i);
        size_t k = 0, count, other;
        while (pen_network_parameter(whole, k)->slices[0].tensor !=
               it->slices[0].tensor)
            k++;
        if (it->is_value_only)
            continue;
        const float *found = part_of(stage, i, PEN_PART_GRADIENT, &count);
        const float *wanted = part_of(whole, k, PEN_PART_GRADIENT, &other);
        assert_int_equal(count, other);
        if (memcmp(found, wanted, count * sizeof *found) != 0)
            fail_msg("tensor %u has another gradient in its stage",
                     it->slices[0].tensor);
    }
}

static void try_stages(const struct way *way)
{
    int32_t ids[ROWS], targets[ROWS];
    struct pen_microbatch batch = batch_of(ids, targets);
    struct pen_engine *engine = onednn_engine(way->dtype, 1);
    struct pen_model *model = model_of(way->config);
    struct pen_network *whole =
        network_of(engine, model, way, 0, model->num_layers);
    size_t element = pen_precision_bytes(way->dtype);
    struct seen *seen = calloc(1, sizeof *seen);
    struct stages stages;
    assert_non_null(seen);
    seen->bytes = ROWS * HIDDEN * element;
    pen_network_set_observer(whole, see, seen);
    double loss = network_step(whole, &batch, 1, way->is_split);
    make_stages(&stages, engine, model, way);
    assert_int_equal(stages.sizes[0].output,
                     (ROWS * way->width * element + 63) / 64 * 64);
    assert_int_equal(stages.sizes[1].input, stages.sizes[0].output);
    for (int s = 0; s < STAGES; s++)
        pen_network_clear_gradients(stages.networks[s]);
    go_forward(&stages, &batch, seen);
    double found = pen_network_loss(stages.networks[STAGES - 1]);
    if (found != loss)
        fail_msg("model %d: loss %.17g, not %.17g", way->config, found, loss);
    go_back(&stages, &batch, way->is_split);
    hand_over_gathered(&stages);
    for (int s = 0; s < STAGES; s++)
        expect_gradients(stages.networks[s], whole);
    free_stages(&stages);
    free(seen);
    pen_network_free(whole);
    pen_model_free(model);
    pen_engine_free(engine);
}

static void stages_have_the_bits_of_one_network(void **state)
{
    (void)state;
    for (int config = 0; config < CONFIGS; config++)
        for (int recompute = 0; recompute < PEN_RECOMPUTES; recompute++)
            for (int split = 0; split < 2; split++)
                try_stages(&(struct way){PEN_PRECISION_F32, config, 13,
                                         (enum pen_recompute)recompute,
                                         split == 1});
}

static void so_they_do_in_bf16(void **state)
{
    (void)state;
    for (int config = 0; config < CONFIGS; config++)
        try_stages(&(struct way){PEN_PRECISION_BF16, config, 1,
                                 PEN_RECOMPUTE_FULL, config == 1});
}

/* ---- what is left out ---- */

static enum pen_part part_in_model(const struct pen_network *network,
                                   const struct pen_network_parameter *it)
{
    struct pen_tensor_info info;
    pen_model_tensor(pen_network_model(network), it->slices[0].tensor, &info);
    return info.form->part;
}

/* The column of the stream that an element belongs to; 0 where it belongs to
 * none. */
static size_t column_of(const struct pen_network *network,
                        const struct pen_network_parameter *it, size_t element)
{
    switch (part_in_model(network, it)) {
    case PEN_PART_ATTENTION_OUT:
    case PEN_PART_DOWN:
        return element / it->columns;
    case PEN_PART_ATTENTION_OUT_BIAS:
    case PEN_PART_DOWN_BIAS:
    case PEN_PART_TOKEN_EMBEDDING:
    case PEN_PART_POSITION_EMBEDDING:
        return element % it->columns;
    default:
        return 0;
    }
}

/* Gradients without a subspace are those with one, and more of those weights
 * that it keeps. */
static void expect_inside(const struct pen_network *network,
                          const struct pen_network *free_one, size_t width)
{
    size_t num_left = 0;
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        size_t count, other;
        const float *kept = part_of(network, i, PEN_PART_GRADIENT, &count);
        const float *all = part_of(free_one, i, PEN_PART_GRADIENT, &other);
        assert_int_equal(count, other);
        for (size_t n = 0; n < count; n++) {
            bool is_out = column_of(network, it, n) >= width;
            num_left += is_out && all[n] != 0;
            if (is_out ? kept[n] != 0
                       : memcmp(&kept[n], &all[n], sizeof *kept) != 0)
                fail_msg("tensor %u, element %zu: gradient %g, not %g",
                         it->slices[0].tensor, n, (double)kept[n],
                         (double)all[n]);
        }
    }
    assert_true(num_left > 0);
}

static void no_weight_reads_what_is_left_out(void **state)
{
    (void)state;
    int32_t ids[ROWS], targets[ROWS];
    struct pen_microbatch batch = batch_of(ids, targets);
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    for (int config = 0; config < CONFIGS; config++) {
        struct way way = {.config = config, .width = 9};
        struct pen_model *model = model_of(config);
        uint32_t all = model->num_layers;
        struct pen_network *kept = network_of(engine, model, &way, 0, all);
        way.width = 0;
        struct pen_network *whole = network_of(engine, model, &way, 0, all);
        for (size_t i = 0; i < pen_network_num_parameters(kept); i++) {
            size_t count;
            const void *values = part_of(kept, i, PEN_PART_VALUE, &count);
            engine->ops->parameter_import(
                engine, pen_network_parameter(whole, i)->parameter,
                PEN_PART_VALUE, PEN_ORDER_ROWS, values);
        }
        double loss = network_step(kept, &batch, 1, false);
        assert_true(network_step(whole, &batch, 1, false) == loss);
        expect_inside(kept, whole, 9);
        pen_network_free(kept);
        pen_network_free(whole);
        pen_model_free(model);
    }
    pen_engine_free(engine);
}

/* ---- optimizers ---- */

/* Weights outside stay as they were: zero, or the token's. */
static void expect_kept(const struct pen_network *network,
                        const struct pen_network *before, size_t width)
{
    size_t num_changed = 0;
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        size_t count;
        const float *now = part_of(network, i, PEN_PART_VALUE, &count);
        const float *was = part_of(before, i, PEN_PART_VALUE, &count);
        for (size_t n = 0; n < count; n++) {
            bool is_out = column_of(network, it, n) >= width;
            num_changed += now[n] != was[n];
            if (is_out && now[n] != was[n])
                fail_msg("tensor %u, element %zu: %g, was %g",
                         it->slices[0].tensor, n, (double)now[n],
                         (double)was[n]);
        }
    }
    assert_true(num_changed > 0);
}

static void try_optimizer(enum pen_step_rule kind, int config)
{
    int32_t ids[ROWS], targets[ROWS];
    struct pen_microbatch batch = batch_of(ids, targets);
    struct pen_engine *engine = onednn_engine(PEN_PRECISION_F32, 1);
    const struct way way = {.config = config, .width = 9};
    struct pen_model *model = model_of(config);
    uint32_t all = model->num_layers;
    struct pen_network *network = network_of(engine, model, &way, 0, all);
    struct pen_network *before = network_of(engine, model, &way, 0, all);
    const struct pen_optimizer optimizer = {.kind = kind,
                                            .beta1 = 0.9,
                                            .beta2 = 0.95,
                                            .epsilon = 1e-8,
                                            .momentum = 0.9,
                                            .muon_scale = 1,
                                            .muon_momentum = 0.95,
                                            .weight_decay = 0.1,
                                            .decay_group = PEN_DECAY_ALL};
    struct pen_text why = PEN_TEXT_EMPTY;
    size_t count = pen_network_num_parameters(network);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(
            engine->ops->parameter_add_moments(
                engine, pen_network_parameter(network, i)->parameter,
                pen_optimizer_moments_of(&optimizer, network, i), &why),
            PEN_OK);
        assert_int_equal(pen_optimizer_prepare(&optimizer, network, i, &why),
                         PEN_OK);
    }
    for (uint64_t step = 1; step <= 5; step++) {
        const struct pen_update update = {
            .learning_rate = 0.01, .step = step, .norm = 1};
        (void)network_step(network, &batch, 1, false);
        for (size_t i = 0; i < count; i++)
            pen_optimizer_step(&optimizer, network, i, &update);
    }
    expect_kept(network, before, 9);
    pen_network_free(network);
    pen_network_free(before);
    pen_model_free(model);
    pen_engine_free(engine);
}

static void optimizers_keep_weights_in_the_subspace(void **state)
{
    (void)state;
    for (int config = 0; config < CONFIGS; config++) {
        try_optimizer(PEN_STEP_RULE_ADAM, config);
        try_optimizer(PEN_STEP_RULE_SGD, config);
        try_optimizer(PEN_STEP_RULE_MUON, config);
    }
}

/* ---- weights from files ---- */

static void weights_that_leave_it_are_refused(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    for (int config = 0; config < CONFIGS; config++) {
        const struct way way = {.config = config, .width = 9};
        struct pen_model *model = model_of(config);
        struct pen_network *network =
            network_of(engine, model, &way, 0, model->num_layers);
        uint32_t tensor = pen_model_find_part(model, 1, PEN_PART_DOWN);
        struct pen_tensor_info info;
        pen_model_tensor(model, tensor, &info);
        struct pen_tensor_slice slice = {
            .tensor = tensor,
            .piece =
                pen_tensor_piece_whole(info.form->num_dims, info.form->shape)};
        size_t count = pen_tensor_piece_count(&slice.piece);
        float *values = calloc(count, sizeof *values);
        struct pen_text why = PEN_TEXT_EMPTY;
        assert_non_null(values);
        values[0] = 1;
        assert_int_equal(pen_network_check_slice(network, &slice, values, &why),
                         PEN_OK);
        values[count - 1] = 1;
        assert_int_equal(pen_network_check_slice(network, &slice, values, &why),
                         PEN_INVALID);
        assert_non_null(strstr(pen_text_string(&why), "subspace:9"));
        pen_text_release(&why);
        free(values);
        pen_network_free(network);
        pen_model_free(model);
    }
    pen_engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_have_the_bits_of_one_network),
        cmocka_unit_test(so_they_do_in_bf16),
        cmocka_unit_test(no_weight_reads_what_is_left_out),
        cmocka_unit_test(optimizers_keep_weights_in_the_subspace),
        cmocka_unit_test(weights_that_leave_it_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
