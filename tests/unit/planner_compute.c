/*
 * Costs of stages are sums of what their layers took, cuts follow from them,
 * and a schedule is timed by them.
 */
#include "support/support.h"

#include "planner/compute.h"

#include <stdio.h>
#include <string.h>

static struct pen_model *load_gpt2(void)
{
    struct pen_model *model = NULL;
    if (pen_model_load("preset:gpt2", &model, NULL) != PEN_OK)
        fail_msg("preset:gpt2 does not load");
    return model;
}

/* F 1, I 2, W 3, B 4 of a block in ms; the head ten times as much. */
static struct pen_profile make_profile(const struct pen_model *model)
{
    struct pen_profile profile = {.micro_batch = 2, .sequence = 16};
    const double scale[] = {0.1, 1, 10};
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++) {
        struct pen_profile_mode *mode = &profile.layers[kind].modes[0];
        mode->is_there = true;
        for (int pass = 0; pass < PEN_PASSES; pass++)
            mode->passes[pass].median_sec = 1e-3 * (pass + 1) * scale[kind];
    }
    profile.updates[PEN_UPDATE_CLEAR].median_sec = 1e-12;
    profile.updates[PEN_UPDATE_NORM].median_sec = 2e-12;
    profile.updates[PEN_UPDATE_ADAM].median_sec = 3e-12;
    profile.updates[PEN_UPDATE_SGD].median_sec = 7e-12;
    assert_int_equal(PEN_OK,
                     pen_profile_hash_model(model, profile.model_hash, NULL));
    return profile;
}

static struct pen_compute compute_of(const struct pen_model *model,
                                     const struct pen_profile *profile)
{
    return (struct pen_compute){.model = model,
                                .profile = profile,
                                .micro_batch = 2,
                                .sequence = 16,
                                .optimizer = PEN_UPDATE_ADAM};
}

static void a_stage_is_the_sum_of_its_layers(void **state)
{
    (void)state;
    struct pen_model *model = load_gpt2();
    struct pen_profile profile = make_profile(model);
    struct pen_compute compute = compute_of(model, &profile);
    struct pen_layer_range stage = {.first = 11, .count = 3};
    struct pen_cost cost;
    pen_compute_stage(&compute, &stage, false, &cost);
    expect_close(12e-3, cost.forward_sec, "F of two blocks and the head");
    expect_close(24e-3, cost.input_sec, "I");
    expect_close(36e-3, cost.weight_sec, "W");
    pen_compute_stage(&compute, &stage, true, &cost);
    expect_close(48e-3, cost.input_sec + cost.weight_sec, "B");
    expect_close(36e-3, cost.weight_sec, "W inside B");

    /* Two blocks, the last norm, and the tied matrix. */
    double elements = 2 * 7087872.0 + 2 * 768.0 + 50257.0 * 768;
    expect_close(6e-12 * elements, cost.step_sec, "Adam");
    compute.optimizer = PEN_UPDATE_SGD;
    pen_compute_stage(&compute, &stage, true, &cost);
    expect_close(10e-12 * elements, cost.step_sec, "SGD");

    /* All layers in one stage: the matrix is there once. */
    stage = (struct pen_layer_range){.count = 14};
    pen_compute_stage(&compute, &stage, true, &cost);
    expect_close(10e-12 * (double)model->num_parameters, cost.step_sec,
                 "one stage");
    pen_model_free(model);
}

static void a_model_is_cut_by_what_was_measured(void **state)
{
    (void)state;
    struct pen_model *model = load_gpt2();
    struct pen_profile profile = make_profile(model);
    struct pen_compute compute = compute_of(model, &profile);
    struct pen_layer_range stages[4];
    /* Blocks take 5 ms, the head 50 and the embedding 0.5: 0.5 + 60 | 50. */
    assert_int_equal(PEN_OK, pen_compute_cut(&compute, PEN_RECOMPUTE_NONE, 8,
                                             stages, 2, NULL));
    assert_int_equal(0, stages[0].first);
    assert_int_equal(12, stages[0].count);
    assert_int_equal(12, stages[1].first);
    assert_int_equal(2, stages[1].count);

    /* An optimizer that takes most of a step moves the cut. */
    profile.updates[PEN_UPDATE_ADAM].median_sec = 1e-6;
    assert_int_equal(PEN_OK, pen_compute_cut(&compute, PEN_RECOMPUTE_NONE, 8,
                                             stages, 2, NULL));
    assert_int_equal(10, stages[0].count);
    pen_model_free(model);
}

static void flops_cut_where_nothing_was_measured(void **state)
{
    (void)state;
    struct pen_model *model = load_gpt2();
    struct pen_compute compute = compute_of(model, NULL);
    struct pen_layer_range stages[14];
    assert_int_equal(PEN_OK, pen_compute_cut(&compute, PEN_RECOMPUTE_FULL, 64,
                                             stages, 2, NULL));
    /* The head has the products of 5.4 blocks, and is not computed again. */
    assert_true(stages[0].count >= 9 && stages[0].count <= 10);
    assert_int_equal(PEN_RECOMPUTE_FULL, stages[1].recompute);
    struct pen_cost none;
    struct pen_cost full;
    struct pen_layer_range block = {.first = 1, .count = 1};
    pen_compute_stage(&compute, &block, true, &none);
    block.recompute = PEN_RECOMPUTE_FULL;
    pen_compute_stage(&compute, &block, true, &full);
    expect_close(none.input_sec + none.forward_sec, full.input_sec,
                 "I with recomputation");
    assert_int_equal(PEN_INVALID, pen_compute_cut(&compute, PEN_RECOMPUTE_NONE,
                                                  1, stages, 15, NULL));
    pen_model_free(model);
}

static void a_profile_predicts_a_schedule(void **state)
{
    (void)state;
    struct pen_model *model = load_gpt2();
    struct pen_profile profile = make_profile(model);
    struct pen_compute compute = compute_of(model, &profile);
    struct pen_layer_range stages[2] = {{.first = 0, .count = 12},
                                        {.first = 12, .count = 2}};
    struct pen_costs costs;
    profile.link = (struct pen_profile_link){
        .is_there = true, .latency_sec = 1e-4, .bytes_per_sec = 1e9};
    assert_int_equal(
        PEN_OK, pen_compute_costs(&compute, stages, 2, 2, true, &costs, NULL));
    expect_close(2 * 16 * 768 * 4.0, costs.bytes, "bytes of a boundary");
    expect_close(2, costs.items[0].memory + costs.items[1].memory,
                 "activations");
    struct pen_cost alone;
    pen_compute_stage(&compute, &stages[0], true, &alone);
    expect_close(alone.step_sec + 1e-4 + 4e-9 * 50257 * 768,
                 costs.items[0].step_sec, "step with the tied matrix");
    struct pen_schedule *schedule = make("1f1b", 2, 4, 1);
    struct pen_timing *timing = time_of(schedule, &costs);
    struct pen_schedule *split = make("zb-h1", 2, 4, 1);
    assert_true(pen_compute_has_whole_backward(schedule));
    assert_false(pen_compute_has_whole_backward(split));
    pen_schedule_free(split);
    /* What rank 0 ends with, along its longest path: F0, there and back, B0 F2
     * B1 F3, there and back, B3. Both ways take F and B of stage 1. */
    double hop = 1e-4 + costs.bytes / 1e9;
    double there_and_back = hop + 11e-3 + 44e-3 + hop;
    double end = 3 * 11.1e-3 + 3 * 44.4e-3 + 2 * there_and_back +
                 costs.items[0].step_sec;
    expect_close(end, timing->ranks[0].end_sec, "end of rank 0");
    pen_timing_free(timing);
    pen_schedule_free(schedule);
    pen_costs_release(&costs);
    pen_model_free(model);
}

static void what_was_not_measured_is_told(void **state)
{
    (void)state;
    struct pen_model *model = load_gpt2();
    struct pen_profile profile = make_profile(model);
    struct pen_compute compute = compute_of(model, &profile);
    struct pen_layer_range stages[1] = {
        {.count = 14, .recompute = PEN_RECOMPUTE_SELECTIVE}};
    struct pen_costs costs;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_compute_costs(&compute, stages, 1, 1,
                                                    true, &costs, &why));
    assert_string_equal(
        "the profile has no recomputation \"selective\"; measure it "
        "again with --recompute-granularity all",
        pen_text_string(&why));
    pen_text_clear(&why);
    stages[0].recompute = PEN_RECOMPUTE_NONE;
    compute.micro_batch = 3;
    assert_int_equal(PEN_INVALID, pen_compute_costs(&compute, stages, 1, 1,
                                                    true, &costs, &why));
    assert_string_equal(
        "the profile is for micro-batches of 2 sequences of 16 tokens, "
        "not for 3 of 16; measure it again",
        pen_text_string(&why));
    pen_text_release(&why);
    pen_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_is_the_sum_of_its_layers),
        cmocka_unit_test(a_model_is_cut_by_what_was_measured),
        cmocka_unit_test(flops_cut_where_nothing_was_measured),
        cmocka_unit_test(a_profile_predicts_a_schedule),
        cmocka_unit_test(what_was_not_measured_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
