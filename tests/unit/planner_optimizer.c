/*
 * Optimizers keep the bytes and take the seconds that one computes by hand:
 * Adam, Adam in 8 bits, Adafactor and Muon, with experts and without.
 */
#include "support/layout.h"
#include "support/support.h"

#include "planner/operations.h"
#include "planner/optimizer.h"

#include <string.h>

/* Four blocks of width 1024, keys and values of 256, an MLP of 2816. */
static const char llama[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 1024, "
    "\"intermediate_size\": 2816, \"num_hidden_layers\": 4, "
    "\"num_attention_heads\": 16, \"num_key_value_heads\": 4, "
    "\"vocab_size\": 32000, \"max_position_embeddings\": 2048, "
    "\"tie_word_embeddings\": false}";

#define BLOCKS 4.0
#define ATTENTION (2.0 * 1024 * 1024 + 2.0 * 1024 * 256)
#define MATRICES (BLOCKS * (ATTENTION + 3.0 * 1024 * 2816))
#define TABLES (2.0 * 32000 * 1024)
#define NORMS (BLOCKS * 2 * 1024 + 1024)
#define WEIGHTS (MATRICES + TABLES + NORMS)
#define LARGEST (1024.0 * 2 * 2816) /* gate and up are one */

static void open_layout(struct layout *layout, const char *model,
                        enum pen_optimizer_kind optimizer, uint32_t dp)
{
    layout_init(layout, model, "preset:h100-sxm*64", 1, 1);
    layout->plan->degrees[PEN_DEGREE_DP] = dp;
    layout->plan->sharding = PEN_SHARDING_ZERO1;
    layout->plan->recipe.optimizer = optimizer;
    layout->setting.global_batch = pen_plan_global_batch(layout->plan);
}

static double part_of(const struct layout *layout, enum pen_memory_part part)
{
    struct pen_prediction found;
    layout_predict(layout, &found);
    double bytes = (double)found.memory[0].bytes[part];
    pen_prediction_release(&found);
    return bytes;
}

static double spent_on(const struct layout *layout, enum pen_spending spending)
{
    struct pen_prediction found;
    layout_predict(layout, &found);
    double sec = found.spent[spending];
    pen_prediction_release(&found);
    return sec;
}

/* Whole bytes are what a prediction has. */
static void expect_bytes(double expected, double found, const char *what)
{
    if (found < expected - 1 || found > expected + 1)
        fail_msg("%s: %.1f bytes, not %.1f", what, found, expected);
}

static void states_have_their_bytes(void **state)
{
    (void)state;
    static const double edges = BLOCKS * (2 * (1024 + 1024) + 2 * (1024 + 256) +
                                          (1024 + 2 * 2816) + (2816 + 1024)) +
                                2 * (32000 + 1024);
    const double expected[PEN_OPTIMIZERS] = {
        [PEN_OPTIMIZER_ADAM] = 12 * WEIGHTS,
        [PEN_OPTIMIZER_ADAM8] = (4 + 2 + 2 * 4.0 / 256) * WEIGHTS,
        [PEN_OPTIMIZER_ADAFACTOR] = 4 * WEIGHTS + 4 * (edges + NORMS),
        [PEN_OPTIMIZER_MUON] = 8 * MATRICES + 12 * (WEIGHTS - MATRICES)};
    for (int i = 0; i < PEN_OPTIMIZERS; i++) {
        struct layout layout;
        open_layout(&layout, llama, (enum pen_optimizer_kind)i, 4);
        expect_bytes(expected[i] / 4, part_of(&layout, PEN_MEMORY_OPTIMIZER),
                     "sharded");
        layout.plan->sharding = PEN_SHARDING_NONE;
        expect_bytes(expected[i], part_of(&layout, PEN_MEMORY_OPTIMIZER),
                     "not sharded");
        layout_release(&layout);
    }
}

/* Some rank has the largest matrix, however many there are. */
static void matrices_are_dealt_whole(void **state)
{
    (void)state;
    struct layout layout;
    open_layout(&layout, llama, PEN_OPTIMIZER_MUON, 64);
    expect_bytes(8 * LARGEST + 12 * (WEIGHTS - MATRICES) / 64,
                 part_of(&layout, PEN_MEMORY_OPTIMIZER), "the largest");
    layout_release(&layout);
}

static void the_recipe_comes_first(void **state)
{
    (void)state;
    struct layout layout;
    open_layout(&layout, llama, PEN_OPTIMIZER_ADAM, 4);
    expect_bytes(4 * WEIGHTS, part_of(&layout, PEN_MEMORY_GRADIENTS), "usual");
    layout.plan->recipe.moment_bytes = 4;
    layout.plan->recipe.gradient_bytes = 2;
    expect_bytes(8 * WEIGHTS / 4, part_of(&layout, PEN_MEMORY_OPTIMIZER),
                 "moments in 16 bits");
    expect_bytes(2 * WEIGHTS, part_of(&layout, PEN_MEMORY_GRADIENTS),
                 "gradients in 16 bits");
    layout.plan->recipe.master_bytes = 2;
    expect_bytes(6 * WEIGHTS / 4, part_of(&layout, PEN_MEMORY_OPTIMIZER),
                 "masters, too");
    layout_release(&layout);
}

/* Experts are the same on dp cp tp / (ep etp) ranks. */
static double owners_of(const struct layout *layout, int owner)
{
    return pen__num_owners(layout->plan->degrees, layout->plan->expert_tp,
                           owner);
}

static void experts_have_fewer_owners(void **state)
{
    (void)state;
    struct layout layout;
    open_layout(&layout, "preset:mixtral-8x7b", PEN_OPTIMIZER_ADAM, 8);
    layout.plan->degrees[PEN_DEGREE_EP] = 4;
    double experts = 32 * 8 * 3.0 * 4096 * 14336 / 4;
    double all = (double)layout.model->num_parameters - 4 * experts;
    expect_bytes(12 * (all / 8 + experts / 2),
                 part_of(&layout, PEN_MEMORY_OPTIMIZER), "with experts");
    expect_close(8, owners_of(&layout, PEN__COMMON), "of all");
    expect_close(2, owners_of(&layout, PEN__OF_EXPERTS), "experts");
    layout.plan->degrees[PEN_DEGREE_TP] = 2;
    expect_close(2, owners_of(&layout, PEN__OF_EXPERTS), "cut alike");
    layout.plan->expert_tp = 1;
    expect_close(4, owners_of(&layout, PEN__OF_EXPERTS), "folded");
    layout_release(&layout);
}

/* One unit, 1 TFLOP/s, nothing lost: seconds are flops. */
static void five_rounds_take_their_flops(void **state)
{
    (void)state;
    struct pen_device device = {.kind = "ideal", .memory_bytes_per_sec = 1e18};
    device.flops[PEN_NUMBER_BF16] = 1e12;
    device.constants[PEN_CONSTANT_UNITS] = 1;
    device.constants[PEN_CONSTANT_PRODUCT_SHARE] = 1;
    device.constants[PEN_CONSTANT_BYTES_SHARE] = 1;
    double m = 1024;
    double n = 4096;
    double flops = 5 * (4 * m * m * n + 2 * m * m * m);
    expect_close(flops / 1e12,
                 pen__orthogonal_sec(&device, PEN_NUMBER_BF16, m, n), "wide");
    expect_close(flops / 1e12,
                 pen__orthogonal_sec(&device, PEN_NUMBER_NVFP4, n, m),
                 "narrow, and 16 bits beside products of 4");
    device.constants[PEN_CONSTANT_LAUNCH] = 1;
    expect_close(21, pen__orthogonal_sec(&device, PEN_NUMBER_BF16, 64, 64),
                 "launches");
}

static double orthogonal(const struct layout *layout, double rows,
                         double columns)
{
    return pen__orthogonal_sec(&layout->cluster->groups[0].device,
                               PEN_NUMBER_BF16, rows, columns);
}

static void steps_have_their_seconds(void **state)
{
    (void)state;
    struct layout layout;
    /* Master twice, gradient, weight; and moments, twice. */
    const double bytes[PEN_OPTIMIZERS] = {
        [PEN_OPTIMIZER_ADAM] = (8 + 4 + 2 + 16) * WEIGHTS,
        [PEN_OPTIMIZER_ADAM8] = (8 + 4 + 2 + 4 + 4 * 4.0 / 256) * WEIGHTS,
        [PEN_OPTIMIZER_ADAFACTOR] = (8 + 2 * 4 + 2 + 12) * WEIGHTS,
        [PEN_OPTIMIZER_MUON] = (8 + 4 + 2 + 8) * MATRICES +
                               (8 + 4 + 2 + 16) * (WEIGHTS - MATRICES)};
    for (int i = 0; i < PEN_OPTIMIZERS; i++) {
        open_layout(&layout, llama, (enum pen_optimizer_kind)i, 4);
        double sec =
            pen_bytes_time(&layout.cluster->groups[0].device, bytes[i] / 4);
        if (i == PEN_OPTIMIZER_MUON)
            sec += BLOCKS *
                   (2 * orthogonal(&layout, 1024, 1024) +
                    2 * orthogonal(&layout, 1024, 256) +
                    orthogonal(&layout, 1024, 5632) +
                    orthogonal(&layout, 2816, 1024)) /
                   4;
        expect_close(sec, spent_on(&layout, PEN_SPENDING_UPDATE), "a step");
        layout_release(&layout);
    }
}

/* As if nothing was sharded: each rank must have the whole matrix. */
static void muon_reduces_whole_gradients(void **state)
{
    (void)state;
    struct layout layout;
    open_layout(&layout, llama, PEN_OPTIMIZER_MUON, 16);
    layout.setting.practice.overlaps_gradients = false;
    double muon = spent_on(&layout, PEN_SPENDING_REDUCTION);
    layout.plan->recipe.optimizer = PEN_OPTIMIZER_ADAM;
    double adam = spent_on(&layout, PEN_SPENDING_REDUCTION);
    layout.plan->sharding = PEN_SHARDING_NONE;
    double whole = spent_on(&layout, PEN_SPENDING_REDUCTION);
    expect_close(whole, muon, "all of them");
    assert_true(adam < 0.6 * muon);
    layout_release(&layout);
}

static void muon_has_no_shares_of_gradients(void **state)
{
    (void)state;
    struct layout layout;
    struct pen_prediction found;
    struct pen_text why = PEN_TEXT_EMPTY;
    open_layout(&layout, llama, PEN_OPTIMIZER_MUON, 4);
    layout.plan->sharding = PEN_SHARDING_ZERO2;
    assert_int_equal(PEN_INVALID,
                     pen_predict(&layout.setting, layout.plan, &found, &why));
    assert_non_null(strstr(pen_text_string(&why), "muon steps whole matrices"));
    pen_text_release(&why);
    layout_release(&layout);
}

static void matrices_are_those_of_the_model(void **state)
{
    (void)state;
    static const char *const models[] = {llama, "preset:mixtral-8x7b",
                                         "preset:deepseek-v3", "preset:gpt2"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct layout layout;
        struct pen__matrix_list list;
        open_layout(&layout, models[i], PEN_OPTIMIZER_MUON, 1);
        uint32_t block = layout.model->num_blocks - 1;
        double weights = 0;
        double experts = 0;
        pen__layer_list_matrices(&layout.setting, layout.plan, 0, block + 1,
                                 &list);
        for (uint32_t j = 0; j < list.count; j++) {
            const struct pen__matrix *it = &list.items[j];
            weights += it->count * it->rows * it->columns;
            if (it->is_expert)
                experts += it->count * it->rows * it->columns;
        }
        double all =
            (double)pen_model_layer_parameters(layout.model, block + 1);
        if (weights > all || weights < 0.997 * all)
            fail_msg("%s: %.0f of %.0f weights", models[i], weights, all);
        expect_close(
            (double)pen_model_expert_parameters(layout.model, block + 1),
            experts, "of experts");
        layout_release(&layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_have_their_bytes),
        cmocka_unit_test(matrices_are_dealt_whole),
        cmocka_unit_test(the_recipe_comes_first),
        cmocka_unit_test(experts_have_fewer_owners),
        cmocka_unit_test(five_rounds_take_their_flops),
        cmocka_unit_test(steps_have_their_seconds),
        cmocka_unit_test(muon_reduces_whole_gradients),
        cmocka_unit_test(muon_has_no_shares_of_gradients),
        cmocka_unit_test(matrices_are_those_of_the_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
