/*
 * Local updates (2012.03837): a section of a model learns as the last section
 * of an ordinary model that ends there with the same head, bit for bit, and no
 * gradient passes to the section before it; evaluations compute no heads.
 */
#include "support/engine.h"

#include "network_step.h"
#include "support/span.h"

#include <stdio.h>
#include <string.h>

enum { BATCH = 2, SEQUENCE = 5, ROWS = BATCH * SEQUENCE, VOCAB = 11 };
enum { BATCHES = 2, STEP_ROWS = BATCHES * ROWS, BLOCKS = 5, MOST = 16384 };

/* Up to the number of blocks. */
static const char *const configs[] = {
    "{\"model_type\":\"gpt2\",\"vocab_size\":11,\"n_positions\":8,"
    "\"n_embd\":32,\"n_head\":2,\"tie_word_embeddings\":false,"
    "\"n_layer\":",
    "{\"model_type\":\"llama\",\"vocab_size\":11,\"hidden_size\":32,"
    "\"intermediate_size\":48,\"max_position_embeddings\":8,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,"
    "\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":false,"
    "\"num_hidden_layers\":"};
enum { CONFIGS = sizeof configs / sizeof *configs };

struct way {
    enum pen_precision dtype;
    int config;
    uint32_t sections;
    enum pen_recompute recompute;
    bool is_split;
};

struct bench {
    const struct way *way;
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_network *network;
    int32_t ids[BATCHES][ROWS], targets[BATCHES][ROWS];
    struct pen_microbatch batches[BATCHES];
};

static struct pen_model *model_of(int config, uint32_t blocks,
                                  uint32_t sections)
{
    char text[512];
    struct pen_model *model = NULL;
    int length = snprintf(text, sizeof text, "%s%u}", configs[config], blocks);
    assert_int_equal(pen_model_parse(text, (size_t)length, &model, NULL),
                     PEN_OK);
    assert_int_equal(pen_model_add_local_heads(model, sections, NULL), PEN_OK);
    return model;
}

static struct pen_network *network_of(const struct bench *bench,
                                      const struct pen_model *model)
{
    const struct pen_network_options options = {.engine = bench->engine,
                                                .model = model,
                                                .num_layers = model->num_layers,
                                                .batch = BATCH,
                                                .sequence = SEQUENCE,
                                                .step_rows = STEP_ROWS,
                                                .recompute =
                                                    bench->way->recompute,
                                                .span = {.chunk = 2}};
    struct pen_network *network = NULL;
    assert_int_equal(pen_network_create(&options, &network, NULL), PEN_OK);
    assert_int_equal(pen_network_initialize(network, 7), PEN_OK);
    return network;
}

static void bench_init(struct bench *bench, const struct way *way)
{
    *bench = (struct bench){.way = way, .engine = onednn_engine(way->dtype, 1)};
    bench->model = model_of(way->config, BLOCKS, way->sections);
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
    bench->network = network_of(bench, bench->model);
}

static void bench_release(struct bench *bench)
{
    pen_network_free(bench->network);
    pen_model_free(bench->model);
    pen_engine_free(bench->engine);
}

/* The part that a head in the middle has for one of a model's head. */
static enum pen_part local_part(enum pen_part part)
{
    return part == PEN_PART_HEAD              ? PEN_PART_LOCAL_HEAD
           : part == PEN_PART_FINAL_NORM      ? PEN_PART_LOCAL_NORM
           : part == PEN_PART_FINAL_NORM_BIAS ? PEN_PART_LOCAL_NORM_BIAS
                                              : part;
}

/*
 * The parameter of the network for one of a shorter model: its head is that of
 * the section which ends with the last block.
 */
static const struct pen_network_parameter *
like(const struct bench *bench, const struct pen_model *shorter,
     const struct pen_network_parameter *it)
{
    struct pen_tensor_info info;
    pen_model_tensor(shorter, it->slices[0].tensor, &info);
    uint32_t layer = info.layer;
    enum pen_part part = info.form->part;
    if (layer == shorter->num_layers - 1 &&
        layer < bench->model->num_blocks + 1) {
        layer--;
        part = local_part(part);
    }
    uint32_t tensor = pen_model_find_part(bench->model, layer, part);
    assert_true(tensor < bench->model->num_tensors);
    for (size_t i = 0; i < pen_network_num_parameters(bench->network); i++) {
        const struct pen_network_parameter *found =
            pen_network_parameter(bench->network, i);
        if (found->slices[0].tensor == tensor)
            return found;
    }
    fail_msg("no parameter has tensor %u", tensor);
    return NULL;
}

static void copy_values(const struct bench *bench,
                        const struct pen_model *shorter, struct pen_network *to)
{
    float plain[MOST];
    for (size_t i = 0; i < pen_network_num_parameters(to); i++) {
        const struct pen_network_parameter *it = pen_network_parameter(to, i);
        assert_true(pen_network_count(it) <= MOST);
        pen_network_export(bench->network, like(bench, shorter, it),
                           PEN_PART_VALUE, plain);
        pen_network_import(to, it, PEN_PART_VALUE, plain);
    }
}

static void expect_gradient(const struct bench *bench,
                            const struct pen_network_parameter *it,
                            const struct pen_network_parameter *other,
                            uint32_t section)
{
    size_t count, same;
    const float *found =
        span_of_part(bench->engine, it->parameter, PEN_PART_GRADIENT, &count);
    const float *wanted =
        span_of_part(bench->engine, other->parameter, PEN_PART_GRADIENT, &same);
    assert_int_equal(count, same);
    for (size_t k = 0; k < count; k++)
        if (memcmp(&found[k], &wanted[k], sizeof *found) != 0)
            fail_msg("model %d, section %u of %u, tensor %u, element %zu: "
                     "%.9g, not %.9g",
                     bench->way->config, section, bench->way->sections,
                     it->slices[0].tensor, k, (double)found[k],
                     (double)wanted[k]);
}

/* Against the last section of a model that ends where this one does. */
static void try_section(const struct bench *bench, uint32_t section)
{
    uint32_t last = pen_model_section_end(bench->model, section);
    uint32_t first =
        section == 0 ? 0 : pen_model_section_end(bench->model, section - 1) + 1;
    uint32_t blocks = last < BLOCKS ? last : BLOCKS;
    struct pen_model *model = model_of(bench->way->config, blocks, 1);
    struct pen_network *network = network_of(bench, model);
    uint32_t compared = 0;
    copy_values(bench, model, network);
    double loss = network_step(network, (struct pen_microbatch *)bench->batches,
                               BATCHES, bench->way->is_split);
    if (section + 1 == bench->way->sections)
        assert_true(loss ==
                    network_step(bench->network,
                                 (struct pen_microbatch *)bench->batches,
                                 BATCHES, bench->way->is_split));
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        if (it->layer < first)
            continue;
        compared++;
        expect_gradient(bench, like(bench, model, it), it, section);
    }
    assert_true(compared > 0);
    pen_network_free(network);
    pen_model_free(model);
}

static void try_way(const struct way *way)
{
    struct bench bench;
    bench_init(&bench, way);
    network_step(bench.network, bench.batches, BATCHES, way->is_split);
    for (uint32_t section = 0; section < way->sections; section++)
        try_section(&bench, section);
    bench_release(&bench);
}

static void a_section_learns_from_its_own_loss_alone(void **state)
{
    (void)state;
    for (int config = 0; config < CONFIGS; config++)
        for (uint32_t sections = 1; sections <= BLOCKS; sections++)
            for (uint32_t way = 0; way < 3; way++)
                try_way(&(struct way){.config = config,
                                      .sections = sections,
                                      .recompute = (enum pen_recompute)way,
                                      .is_split = (sections + way) % 2 == 1});
}

static void so_it_does_in_bf16(void **state)
{
    (void)state;
    for (int config = 0; config < CONFIGS; config++)
        try_way(&(struct way){.dtype = PEN_PRECISION_BF16,
                              .config = config,
                              .sections = 3,
                              .is_split = config == 1});
}

static void evaluations_compute_no_heads(void **state)
{
    (void)state;
    struct bench bench;
    struct pen_network_sizes sizes;
    bench_init(&bench, &(struct way){.sections = 3});
    struct pen_model *model = model_of(0, BLOCKS, 1);
    struct pen_network *networks[] = {bench.network, network_of(&bench, model)};
    double losses[2];
    bench.batches[0].is_evaluation = true;
    for (int i = 0; i < 2; i++) {
        pen_network_sizes(networks[i], &sizes);
        void *stash = room(sizes.stash);
        pen_network_forward(networks[i], &bench.batches[0], stash, NULL, NULL);
        pen_engine_await(bench.engine);
        losses[i] = pen_network_loss(networks[i]);
        free(stash);
    }
    if (losses[0] != losses[1]) /* the same random weights, too */
        fail_msg("loss %.17g, not %.17g", losses[0], losses[1]);
    pen_network_free(networks[1]);
    pen_model_free(model);
    bench_release(&bench);
}

static void heads_are_tensors_of_their_blocks(void **state)
{
    (void)state;
    struct pen_model *plain = model_of(0, BLOCKS, 1);
    struct pen_model *model = model_of(0, BLOCKS, 3); /* 1 and 2 and 2 blocks */
    struct pen_tensor_info info;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(plain->num_tensors + 6, model->num_tensors);
    assert_int_equal(plain->num_parameters + 2 * (2 * 32 + VOCAB * 32),
                     model->num_parameters);
    for (uint32_t layer = 0; layer < model->num_layers; layer++)
        assert_int_equal(layer == 1 || layer == 3,
                         pen_model_has_local_head(model, layer));
    pen_model_tensor(model, plain->num_tensors + 5, &info);
    assert_string_equal("local_heads.1.weight", info.name);
    assert_int_equal(3, info.layer);
    assert_int_equal(plain->num_tensors + 4,
                     pen_model_find_part(model, 3, PEN_PART_LOCAL_NORM_BIAS));
    assert_int_equal(model->num_tensors,
                     pen_model_find_part(model, 2, PEN_PART_LOCAL_HEAD));
    assert_int_equal(PEN_INVALID,
                     pen_model_add_local_heads(plain, BLOCKS + 1, &why));
    assert_non_null(strstr(pen_text_string(&why), "use at most 5"));
    pen_text_release(&why);
    pen_model_free(model);
    pen_model_free(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_section_learns_from_its_own_loss_alone),
        cmocka_unit_test(so_it_does_in_bf16),
        cmocka_unit_test(evaluations_compute_no_heads),
        cmocka_unit_test(heads_are_tensors_of_their_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
