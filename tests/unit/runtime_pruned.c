/*
 * Pruned networks (2302.05045): what is kept of a matrix are its largest
 * elements, and their weights, gradients and moments have the bits of a dense
 * training whose gradients are multiplied by the mask; a share of 0 changes
 * nothing, and files have whole tensors.
 */
#include "support/engine.h"

#include "network_step.h"
#include "runtime/optimizer.h"
#include "support/span.h"

#include <math.h>
#include <string.h>

enum { BATCH = 2, SEQUENCE = 5, ROWS = BATCH * SEQUENCE, VOCAB = 11 };
enum { BATCHES = 2, STEPS = 3, PARTS = 4, MOST = 32 * 128 };

static const char *const configs[] = {
    "{\"model_type\":\"gpt2\",\"vocab_size\":11,\"n_positions\":8,"
    "\"n_embd\":32,\"n_layer\":2,\"n_head\":2}",
    "{\"model_type\":\"llama\",\"vocab_size\":11,\"hidden_size\":32,"
    "\"intermediate_size\":48,\"num_hidden_layers\":2,"
    "\"max_position_embeddings\":8,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"rms_norm_eps\":1e-5}"};
enum { CONFIGS = sizeof configs / sizeof *configs };

struct way {
    enum pen_precision dtype;
    int config;
    double sparsity;
    bool is_split;
    bool is_sgd;
};

struct bench {
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_network *dense, *pruned;
    int32_t ids[BATCHES][ROWS], targets[BATCHES][ROWS];
    struct pen_microbatch batches[BATCHES];
    struct pen_optimizer optimizer;
};

static struct pen_network *network_of(const struct bench *bench,
                                      double sparsity)
{
    const struct pen_network_options options = {
        .engine = bench->engine,
        .model = bench->model,
        .num_layers = bench->model->num_layers,
        .batch = BATCH,
        .sequence = SEQUENCE,
        .step_rows = BATCHES * ROWS,
        .moments = pen_optimizer_moments(&bench->optimizer),
        .sparsity = sparsity};
    struct pen_network *network = NULL;
    assert_int_equal(pen_network_create(&options, &network, NULL), PEN_OK);
    assert_int_equal(pen_network_initialize(network, 7), PEN_OK);
    return network;
}

static void bench_init(struct bench *bench, const struct way *way)
{
    *bench =
        (struct bench){.engine = onednn_engine(way->dtype, 1),
                       .optimizer = {.kind = way->is_sgd ? PEN_STEP_RULE_SGD
                                                         : PEN_STEP_RULE_ADAM,
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .epsilon = 1e-8,
                                     .momentum = 0.9,
                                     .weight_decay = 0.1}};
    assert_int_equal(pen_model_parse(configs[way->config],
                                     strlen(configs[way->config]),
                                     &bench->model, NULL),
                     PEN_OK);
    for (int m = 0; m < BATCHES; m++) {
        for (int i = 0; i < ROWS; i++) {
            bench->ids[m][i] = (i * i * 7 + m) % VOCAB;
            bench->targets[m][i] = (i * 3 + 2 + m) % VOCAB;
        }
        bench->batches[m] =
            (struct pen_microbatch){.ids = bench->ids[m],
                                    .targets = bench->targets[m],
                                    .loss_count = (double)BATCHES * ROWS};
    }
    bench->dense = network_of(bench, 0);
    bench->pruned = network_of(bench, way->sparsity);
}

static void bench_release(struct bench *bench)
{
    pen_network_free(bench->dense);
    pen_network_free(bench->pruned);
    pen_model_free(bench->model);
    pen_engine_free(bench->engine);
}

static bool is_pruned(const struct bench *bench, size_t index)
{
    return pen_network_parameter(bench->pruned, index)->pruned != NULL;
}

static int compare_sizes(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The magnitude of the kept-largest element; no two are equal. */
static float least_of(const float *values, size_t count, size_t kept)
{
    float sizes[MOST];
    assert_true(count <= MOST && kept > 0 && kept < count);
    for (size_t i = 0; i < count; i++)
        sizes[i] = fabsf(values[i]);
    qsort(sizes, count, sizeof *sizes, compare_sizes);
    assert_true(sizes[kept - 1] > sizes[kept]);
    return sizes[kept - 1];
}

/* Sets small weights of the dense network to zero. */
static void prune(const struct bench *bench)
{
    for (size_t i = 0; i < pen_network_num_parameters(bench->dense); i++) {
        struct pen_parameter *parameter =
            pen_network_parameter(bench->dense, i)->parameter;
        size_t count;
        float *values =
            span_of_part(bench->engine, parameter, PEN_PART_VALUE, &count);
        if (!is_pruned(bench, i))
            continue;
        float least = least_of(
            values, count,
            pen_network_count(pen_network_parameter(bench->pruned, i)));
        for (size_t k = 0; k < count; k++)
            values[k] = fabsf(values[k]) < least ? 0 : values[k];
        bench->engine->ops->parameter_value_changed(bench->engine, parameter);
    }
}

/* And their gradients. */
static void mask_gradients(const struct bench *bench)
{
    for (size_t i = 0; i < pen_network_num_parameters(bench->dense); i++) {
        struct pen_parameter *parameter =
            pen_network_parameter(bench->dense, i)->parameter;
        size_t count;
        const float *values =
            span_of_part(bench->engine, parameter, PEN_PART_VALUE, &count);
        float *gradient =
            span_of_part(bench->engine, parameter, PEN_PART_GRADIENT, &count);
        for (size_t k = 0; k < count && is_pruned(bench, i); k++)
            gradient[k] = values[k] == 0 ? 0 : gradient[k];
    }
}

static void expect_part(const struct bench *bench, size_t index,
                        enum pen_parameter_part part)
{
    float found[MOST], wanted[MOST];
    const struct pen_network_parameter *it =
        pen_network_parameter(bench->pruned, index);
    size_t count = pen_network_plain_count(it);
    assert_true(count <= MOST);
    pen_network_export(bench->pruned, it, part, found);
    pen_network_export(bench->dense, pen_network_parameter(bench->dense, index),
                       part, wanted);
    for (size_t k = 0; k < count; k++)
        if (memcmp(&found[k], &wanted[k], sizeof *found) != 0 &&
            (found[k] != 0 || wanted[k] != 0)) /* zeros have a sign */
            fail_msg("part %d of tensor %u, element %zu of %zu: %.9g, not %.9g",
                     (int)part, it->slices[0].tensor, k, count,
                     (double)found[k], (double)wanted[k]);
}

static void expect_same(const struct bench *bench)
{
    int parts = 2 + pen_optimizer_moments(&bench->optimizer);
    for (size_t i = 0; i < pen_network_num_parameters(bench->pruned); i++)
        for (int part = 0; part < parts; part++)
            expect_part(bench, i, (enum pen_parameter_part)part);
}

static void take_step(const struct bench *bench, struct pen_network *network,
                      uint64_t step)
{
    const struct pen_update update = {.learning_rate = 1e-2, .step = step};
    for (size_t i = 0; i < pen_network_num_parameters(network); i++)
        pen_optimizer_step(&bench->optimizer, network, i, &update);
}

static void try_way(const struct way *way)
{
    struct bench bench;
    bench_init(&bench, way);
    prune(&bench);
    for (uint64_t step = 1; step <= STEPS; step++) {
        double found =
            network_step(bench.pruned, bench.batches, BATCHES, way->is_split);
        double wanted =
            network_step(bench.dense, bench.batches, BATCHES, way->is_split);
        if (found != wanted)
            fail_msg("model %d: loss %.17g, not %.17g", way->config, found,
                     wanted);
        mask_gradients(&bench);
        expect_same(&bench);
        take_step(&bench, bench.pruned, step);
        take_step(&bench, bench.dense, step);
        expect_same(&bench);
    }
    bench_release(&bench);
}

static void kept_elements_have_the_bits_of_masked_training(void **state)
{
    (void)state;
    for (int config = 0; config < CONFIGS; config++)
        for (int way = 0; way < 4; way++)
            try_way(&(struct way){PEN_PRECISION_F32, config,
                                  way < 2 ? 0.9 : 0.3, way % 2 == 1, way > 2});
}

static void so_they_do_in_bf16(void **state)
{
    (void)state;
    for (int config = 0; config < CONFIGS; config++)
        try_way(
            &(struct way){PEN_PRECISION_BF16, config, 0.8, config == 1, false});
}

static void a_share_of_0_prunes_nothing(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, &(struct way){.dtype = PEN_PRECISION_F32});
    for (size_t i = 0; i < pen_network_num_parameters(bench.pruned); i++)
        assert_false(is_pruned(&bench, i));
    bench_release(&bench);
}

/* Matrices of blocks; not tables, head, norms and biases. */
static void matrices_of_blocks_are_pruned(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, &(struct way){.dtype = PEN_PRECISION_F32,
                                     .config = 1,
                                     .sparsity = 0.75});
    for (size_t i = 0; i < pen_network_num_parameters(bench.pruned); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(bench.pruned, i);
        bool is_end =
            it->layer == 0 || it->layer + 1 == bench.model->num_layers;
        assert_int_equal(!is_end && it->role == PEN_ROLE_MATRIX,
                         is_pruned(&bench, i));
        if (is_pruned(&bench, i))
            assert_int_equal(pen_network_plain_count(it) / 4,
                             pen_network_count(it));
    }
    bench_release(&bench);
}

/* A file has zeros where nothing is kept; reading it keeps the same again. */
static void files_bring_back_all_parts(void **state)
{
    (void)state;
    struct bench bench;
    float plain[MOST];
    bench_init(&bench,
               &(struct way){.dtype = PEN_PRECISION_F32, .sparsity = 0.9});
    network_step(bench.pruned, bench.batches, BATCHES, false);
    take_step(&bench, bench.pruned, 1);
    struct pen_network *other = network_of(&bench, 0.9);
    for (size_t i = 0; i < pen_network_num_parameters(other); i++)
        for (int part = 0; part < PARTS; part++) {
            pen_network_export(bench.pruned,
                               pen_network_parameter(bench.pruned, i),
                               (enum pen_parameter_part)part, plain);
            pen_network_import(other, pen_network_parameter(other, i),
                               (enum pen_parameter_part)part, plain);
        }
    pen_network_free(bench.dense);
    bench.dense = other;
    expect_same(&bench);
    network_step(bench.pruned, bench.batches, BATCHES, false);
    network_step(other, bench.batches, BATCHES, false);
    take_step(&bench, bench.pruned, 2);
    take_step(&bench, other, 2);
    expect_same(&bench);
    bench_release(&bench);
}

static void only_engines_of_the_host_prune(void **state)
{
    (void)state;
    struct bench bench;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_network *network = NULL;
    bench_init(&bench, &(struct way){.dtype = PEN_PRECISION_F32});
    struct pen_engine *wide = NULL;
    assert_int_equal(
        pen_engine_reference_create(PEN_PRECISION_F64, NULL, &wide), PEN_OK);
    const struct pen_network_options options = {.engine = wide,
                                                .model = bench.model,
                                                .num_layers =
                                                    bench.model->num_layers,
                                                .batch = BATCH,
                                                .sequence = SEQUENCE,
                                                .step_rows = ROWS,
                                                .sparsity = 0.5};
    assert_int_equal(pen_network_create(&options, &network, &why), PEN_INVALID);
    assert_null(network);
    assert_non_null(strstr(pen_text_string(&why), "Use --engine onednn"));
    pen_text_release(&why);
    pen_engine_free(wide);
    bench_release(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_elements_have_the_bits_of_masked_training),
        cmocka_unit_test(so_they_do_in_bf16),
        cmocka_unit_test(a_share_of_0_prunes_nothing),
        cmocka_unit_test(matrices_of_blocks_are_pruned),
        cmocka_unit_test(files_bring_back_all_parts),
        cmocka_unit_test(only_engines_of_the_host_prune),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
