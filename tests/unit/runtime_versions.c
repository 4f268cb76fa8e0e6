/*
 * Every op of an asynchronous row finds the weights of the version that it
 * names, and a stage holds no more versions than the row asks for.
 */
#include "support/engine.h"

#include "runtime/versions.h"
#include "schedule/memory.h"
#include "support/span.h"

#include <stdlib.h>
#include <string.h>

enum { BATCHES = 12, MOST_RANKS = 6 };

static const char config[] =
    "{\"model_type\":\"llama\",\"vocab_size\":5,\"hidden_size\":4,"
    "\"intermediate_size\":4,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":1,\"num_key_value_heads\":1,"
    "\"max_position_embeddings\":4,\"rms_norm_eps\":1e-5,"
    "\"tie_word_embeddings\":false}";

/* Steps of 1 along a gradient of 1: version n of a weight is -n. */
static const struct pen_optimizer optimizer = {.kind = PEN_STEP_RULE_SGD};
static const struct pen_lr_schedule rates = {.style = PEN_LR_CONSTANT,
                                             .rate = 1};

struct bench {
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_network *network;
};

static void bench_init(struct bench *bench)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    bench->engine = reference_engine(PEN_PRECISION_F32);
    assert_int_equal(
        PEN_OK, pen_model_parse(config, strlen(config), &bench->model, &why));
    struct pen_network_options options = {.engine = bench->engine,
                                          .model = bench->model,
                                          .first_layer = 1,
                                          .num_layers = 1,
                                          .batch = 1,
                                          .sequence = 2,
                                          .step_rows = 2};
    assert_int_equal(PEN_OK,
                     pen_network_create(&options, &bench->network, &why));
    pen_text_release(&why);
}

static void bench_release(struct bench *bench)
{
    pen_network_free(bench->network);
    pen_model_free(bench->model);
    pen_engine_free(bench->engine);
}

static float *first_of(const struct bench *bench, enum pen_parameter_part part,
                       size_t parameter)
{
    size_t count;
    return span_of_part(
        bench->engine,
        pen_network_parameter(bench->network, parameter)->parameter, part,
        &count);
}

/* What the weights are now, as a version. */
static uint32_t version_now(const struct bench *bench)
{
    size_t last = pen_network_num_parameters(bench->network) - 1;
    float value = *first_of(bench, PEN_PART_VALUE, 0);
    assert_true(*first_of(bench, PEN_PART_VALUE, last) == value);
    return (uint32_t)-value;
}

static struct pen_versions *versions_for(const struct bench *bench,
                                         const struct pen_schedule *schedule,
                                         uint32_t rank, uint32_t stage)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_versions *versions = NULL;
    struct pen_versions_options options = {
        .network = bench->network,
        .stage = stage,
        .correction = {.optimizer = &optimizer,
                       .num_stages = 1,
                       .period = schedule->rules.period},
        .rates = &rates};
    if (pen_versions_create(&options, &schedule->rows[rank], &versions, &why) !=
        PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return versions;
}

/* Carries out what the row does to the weights of a stage. */
static void walk(const struct bench *bench, struct pen_versions *versions,
                 const struct pen_row *row, uint32_t stage)
{
    uint32_t newest = 0;
    pen_versions_begin(versions, 0);
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        if (op->stage != stage)
            continue;
        if (op->kind == PEN_OP_STEP) {
            pen_versions_step(versions, op->version, 0);
            newest++;
        } else if (pen_op_is_compute(op->kind)) {
            assert_int_equal(op->version,
                             pen_versions_use(versions, op, op->version));
            assert_int_equal(op->version, version_now(bench));
            pen_versions_unuse(versions);
        }
        assert_int_equal(newest, version_now(bench));
    }
}

static void fill(const struct bench *bench, float value, float gradient)
{
    for (size_t i = 0; i < pen_network_num_parameters(bench->network); i++) {
        *first_of(bench, PEN_PART_VALUE, i) = value;
        *first_of(bench, PEN_PART_GRADIENT, i) = gradient;
    }
}

static void try_rank(const struct pen_schedule *schedule, uint32_t rank)
{
    uint32_t most = 1;
    for (uint32_t s = 0; s < schedule->shape.num_stages; s++) {
        struct bench bench;
        if (pen_shape_rank_of(&schedule->shape, s) != rank)
            continue;
        bench_init(&bench);
        struct pen_versions *versions = versions_for(&bench, schedule, rank, s);
        for (int pass = 0; pass < 2;
             pass++) { /* the second is like the first */
            fill(&bench, 0, 1);
            walk(&bench, versions, &schedule->rows[rank], s);
        }
        uint32_t held = pen_versions_count(versions);
        assert_int_equal(held, pen_versions_most(versions));
        assert_false(pen_versions_predicts(versions));
        most = held > most ? held : most;
        pen_versions_free(versions);
        bench_release(&bench);
    }
    assert_int_equal(most, pen__row_versions(schedule, rank));
}

static void try_schedule(const char *name, uint32_t microbatches,
                         uint32_t ranks, bool has_vertical_sync)
{
    struct pen_costs costs = unit_costs();
    struct pen_generator_args args = {.ranks = ranks,
                                      .microbatches = microbatches,
                                      .batches = BATCHES,
                                      .has_vertical_sync = has_vertical_sync,
                                      .costs = &costs};
    struct pen_schedule *schedule = make_with(name, &args);
    for (uint32_t rank = 0; rank < ranks; rank++)
        try_rank(schedule, rank);
    pen_schedule_free(schedule);
}

static void ops_read_the_versions_they_name(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= MOST_RANKS; p++) {
        try_schedule("pipedream", 1, p, false);
        try_schedule("pipedream", 1, p, true);
        try_schedule("pipedream-2bw", p, p, false);
        try_schedule("wpipe", p, p, false);
        try_schedule("cyclic", p, p, false);
        try_schedule("timeprest", 2, p, false);
    }
}

/* A row that is shorter needs no more, and the longer one comes back. */
static void rows_may_change(void **state)
{
    struct bench bench;
    struct pen_costs costs = unit_costs();
    struct pen_generator_args args = {
        .ranks = 4, .microbatches = 1, .batches = BATCHES, .costs = &costs};
    (void)state;
    struct pen_schedule *longer = make_with("pipedream", &args);
    args.batches = 2;
    struct pen_schedule *shorter = make_with("pipedream", &args);
    bench_init(&bench);
    struct pen_versions *versions = versions_for(&bench, longer, 0, 0);
    assert_int_equal(4, pen_versions_count(versions));
    const struct pen_schedule *const all[] = {shorter, longer, shorter};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(PEN_OK,
                         pen_versions_set_row(versions, &all[i]->rows[0]));
        fill(&bench, 0, 1);
        walk(&bench, versions, &all[i]->rows[0], 0);
    }
    pen_versions_free(versions);
    bench_release(&bench);
    pen_schedule_free(longer);
    pen_schedule_free(shorter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_read_the_versions_they_name),
        cmocka_unit_test(rows_may_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
