/*
 * Recomputation by modules: attention, norms, MLP and all sets of them change
 * no bit of a loss or a gradient, and take the bytes that the model counts.
 */
#include "support/engine.h"

#include "network_step.h"
#include "support/span.h"

#include <string.h>

enum { BATCH = 2, SEQUENCE = 6, ROWS = BATCH * SEQUENCE, VOCAB = 11 };
enum { MICROBATCHES = 3, MODES = 9 };

static const char *const configs[] = {
    "{\"model_type\":\"gpt2\",\"vocab_size\":11,\"n_positions\":8,"
    "\"n_embd\":64,\"n_layer\":2,\"n_head\":2}",
    "{\"model_type\":\"llama\",\"vocab_size\":11,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,"
    "\"max_position_embeddings\":8,\"rms_norm_eps\":1e-5}",
    "{\"model_type\":\"qwen3\",\"vocab_size\":11,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,"
    "\"head_dim\":32,\"max_position_embeddings\":8}"};
enum { CONFIGS = sizeof configs / sizeof *configs };

/* Every set of the three modules; the empty one is selective without modules.
 */
static unsigned modules_of(int mode)
{
    static const unsigned bits[] = {1u << PEN_MODULE_CORE_ATTENTION,
                                    1u << PEN_MODULE_NORMS,
                                    1u << PEN_MODULE_MLP};
    unsigned modules = 0;
    for (int i = 0; i < 3; i++)
        if ((mode >> i & 1) != 0)
            modules |= bits[i];
    return modules;
}

struct way {
    enum pen_precision dtype;
    uint32_t pieces;
    int mode; /* below MODES - 1: a set of modules; else nothing */
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
                                      const struct way *way)
{
    bool is_plain = way->mode == MODES - 1;
    struct pen_network_options options = {
        .engine = engine,
        .model = model,
        .num_layers = model->num_layers,
        .batch = BATCH,
        .sequence = SEQUENCE,
        .step_rows = MICROBATCHES * ROWS,
        .recompute = is_plain ? PEN_RECOMPUTE_NONE : PEN_RECOMPUTE_SELECTIVE,
        .modules = is_plain ? 0 : modules_of(way->mode),
        .tensor = {.total = way->pieces, .count = way->pieces}};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_network *network = NULL;
    if (pen_network_create(&options, &network, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_int_equal(pen_network_initialize(network, 7), PEN_OK);
    return network;
}

static double step_of(struct pen_network *network, bool is_split)
{
    struct pen_microbatch batches[MICROBATCHES];
    int32_t ids[MICROBATCHES][ROWS], targets[MICROBATCHES][ROWS];
    for (size_t m = 0; m < MICROBATCHES; m++) {
        for (size_t i = 0; i < ROWS; i++) {
            ids[m][i] = (int32_t)((i * i * 7 + m) % VOCAB);
            targets[m][i] = (int32_t)((i * 3 + 5 * m) % VOCAB);
        }
        batches[m] = (struct pen_microbatch){.ids = ids[m],
                                             .targets = targets[m],
                                             .loss_count = MICROBATCHES * ROWS};
    }
    return network_step(network, batches, MICROBATCHES, is_split);
}

static void expect_same(const struct pen_network *plain,
                        const struct pen_network *other, const struct way *way)
{
    struct pen_engine *engine = pen_network_engine(plain);
    for (size_t i = 0; i < pen_network_num_parameters(plain); i++) {
        size_t count = 0;
        const void *left =
            span_of_part(engine, pen_network_parameter(plain, i)->parameter,
                         PEN_PART_GRADIENT, &count);
        const void *right =
            span_of_part(engine, pen_network_parameter(other, i)->parameter,
                         PEN_PART_GRADIENT, &count);
        if (memcmp(left, right, count * sizeof(float)) != 0)
            fail_msg("mode %d, %u pieces: gradient %zu differs", way->mode,
                     way->pieces, i);
    }
}

static void compare(struct pen_engine *engine, int config, struct way way)
{
    struct pen_model *model = model_of(config);
    struct way none = way;
    none.mode = MODES - 1;
    struct pen_network *plain = network_of(engine, model, &none);
    double loss = step_of(plain, false);
    for (way.mode = 0; way.mode < MODES - 1; way.mode++)
        for (int split = 0; split < 2; split++) {
            struct pen_network *other = network_of(engine, model, &way);
            double found = step_of(other, split != 0);
            if (found != loss)
                fail_msg("model %d, mode %d, split %d: loss %.17g, not %.17g",
                         config, way.mode, split, found, loss);
            expect_same(plain, other, &way);
            pen_network_free(other);
        }
    pen_network_free(plain);
    pen_model_free(model);
}

static void no_set_of_modules_changes_a_bit(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    for (int config = 0; config < CONFIGS; config++)
        for (uint32_t pieces = 1; pieces <= 2; pieces++)
            compare(engine, config, (struct way){PEN_PRECISION_F32, pieces, 0});
    pen_engine_free(engine);
}

static void nor_does_it_in_bf16(void **state)
{
    (void)state;
    struct pen_engine *engine = onednn_engine(PEN_PRECISION_BF16, 1);
    for (int config = 0; config < CONFIGS; config++)
        compare(engine, config, (struct way){PEN_PRECISION_BF16, 1, 0});
    pen_engine_free(engine);
}

static void expect_bytes(const struct way *way, const char *what, double found,
                         double counted)
{
    enum { ALIGNMENTS = 2 * 20 * 64 }; /* each array begins on a line */
    if (found < counted || found > counted + ALIGNMENTS)
        fail_msg("mode %d: %s %.0f bytes, counted %.0f", way->mode, what, found,
                 counted);
}

/* Scratch of the whole network: of one block, and what it adds to its hold. */
static void bytes_are_those_the_model_counts(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F32);
    for (int config = 0; config < CONFIGS; config++) {
        struct pen_model *model = model_of(config);
        struct pen_workload work = {.batch = BATCH,
                                    .sequence = SEQUENCE,
                                    .element_bytes = 4,
                                    .stat_bytes = 4};
        struct pen_layer_cost plain, cost;
        struct pen_network_sizes sizes, before;
        struct way way = {PEN_PRECISION_F32, 1, MODES - 1};
        struct pen_network *none = network_of(engine, model, &way);
        pen_network_sizes(none, &before);
        pen_model_layer_cost(model, 1, &work, &plain);
        work.recompute = PEN_RECOMPUTE_SELECTIVE;
        for (way.mode = 0; way.mode < MODES - 1; way.mode++) {
            struct pen_network *it = network_of(engine, model, &way);
            work.modules = modules_of(way.mode);
            pen_model_layer_cost(model, 1, &work, &cost);
            pen_network_sizes(it, &sizes);
            double blocks = model->num_layers - 2;
            double held = (double)(cost.hold_bytes - plain.hold_bytes);
            expect_bytes(
                &way, "stash", (double)sizes.stash,
                (double)before.stash -
                    blocks * (double)(plain.stash_bytes - cost.stash_bytes) -
                    2 * 5 * 64);
            expect_bytes(&way, "hold", (double)sizes.hold,
                         (double)before.hold + blocks * held);
            expect_bytes(&way, "scratch", (double)pen_network_scratch_bytes(it),
                         (double)pen_network_scratch_bytes(none) + held +
                             (double)cost.again_bytes);
            pen_network_free(it);
        }
        pen_network_free(none);
        pen_model_free(model);
    }
    pen_engine_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_set_of_modules_changes_a_bit),
        cmocka_unit_test(nor_does_it_in_bf16),
        cmocka_unit_test(bytes_are_those_the_model_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
