/*
 * With a profile, a plan for this runtime takes the seconds of the profile and
 * the bytes that the runtime counts; what the profile does not know is refused.
 */
#include "support/support.h"

#include "planner/predict.h"

#include <string.h>

enum { BLOCKS = 4, HIDDEN = 64, VOCAB = 1000, SEQUENCE = 16, LAYERS = 6 };

static struct pen_model *model;
static struct pen_cluster *cluster;

static int load(void **state)
{
    (void)state;
    const char *config =
        "{\"model_type\":\"gpt2\",\"vocab_size\":1000,\"n_positions\":16,"
        "\"n_embd\":64,\"n_layer\":4,\"n_head\":2}";
    const char *host = "name: host\ndevices:\n  - kind: core\n    count: 4\n"
                       "    flops: {f32: 1 TFLOP/s}\n    memory: 1 GiB\n"
                       "    bandwidth: 10 GB/s\nlinks:\n"
                       "  - {level: node, bandwidth: 10 GB/s, latency: 1 us}\n";
    if (pen_model_parse(config, strlen(config), &model, NULL) != PEN_OK)
        return -1;
    return pen_cluster_parse(host, strlen(host), &cluster, NULL) == PEN_OK ? 0
                                                                           : -1;
}

static int unload(void **state)
{
    (void)state;
    pen_model_free(model);
    pen_cluster_free(cluster);
    return 0;
}

/* F 1, I 1, W 1, B 2 of a block in ms; a mode computes 1 ms again. */
static struct pen_profile make_profile(void)
{
    struct pen_profile profile = {.micro_batch = 2,
                                  .sequence = SEQUENCE,
                                  .program_bytes = 1000000,
                                  .link = {true, 0, 1e9}};
    const double passes[] = {1e-3, 1e-3, 1e-3, 2e-3};
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++) {
        struct pen_profile_layer *layer = &profile.layers[kind];
        layer->num_parameters = 10000;
        layer->parameter_bytes = 16 * 10000 + 500;
        layer->engine_bytes = 500;
        layer->passing_bytes = 70;
        layer->largest = 4000;
        layer->output_bytes = 8192;
        for (int mode = 0; mode < PEN_RECOMPUTES; mode++) {
            struct pen_profile_mode *it = &layer->modes[mode];
            it->is_there = mode != PEN_RECOMPUTE_SELECTIVE;
            it->stash_bytes = mode == PEN_RECOMPUTE_FULL ? 8192 : 81920;
            it->hold_bytes = 40960;
            it->scratch_bytes = 1024;
            for (int pass = 0; pass < PEN_PASSES; pass++)
                it->passes[pass].median_sec =
                    kind == PEN_LAYER_BLOCK ? passes[pass] : 0;
            if (kind == PEN_LAYER_BLOCK && mode == PEN_RECOMPUTE_FULL) {
                it->passes[PEN_PASS_INPUT].median_sec += 1e-3;
                it->passes[PEN_PASS_BACKWARD].median_sec += 1e-3;
            }
        }
    }
    /* The embedding alone: a value, its positions, rows of two micro-batches.
     */
    struct pen_profile_layer *first = &profile.layers[PEN_LAYER_EMBEDDING];
    first->num_parameters = SEQUENCE * HIDDEN;
    first->largest = SEQUENCE * HIDDEN;
    first->parameter_bytes = 4 * VOCAB * HIDDEN + 16 * SEQUENCE * HIDDEN +
                             8 * HIDDEN * (2 * 2 * SEQUENCE) + 500;
    assert_int_equal(PEN_OK,
                     pen_profile_hash_model(model, profile.model_hash, NULL));
    return profile;
}

static struct pen_setting setting_of(const struct pen_profile *profile)
{
    struct pen_setting setting = {.model = model,
                                  .cluster = cluster,
                                  .profile = profile,
                                  .global_batch = 8,
                                  .sequence = SEQUENCE,
                                  .number = PEN_NUMBER_F32,
                                  .target = PEN_TARGET_PENSTOCK};
    pen_practice_init(&setting.practice, setting.target, setting.number);
    return setting;
}

/* Layers in equal parts, micro-batches of 2. */
static struct pen_plan *make_plan(uint32_t dp, uint32_t pp, const char *name)
{
    struct pen_plan *plan = pen_plan_create(pp, 1);
    assert_non_null(plan);
    assert_true(pen_plan_set(&plan->schedule.name, name));
    plan->degrees[PEN_DEGREE_DP] = plan->logical_replicas = dp;
    plan->sequence = SEQUENCE;
    plan->micro_batch = 2;
    plan->num_microbatches = 4 / dp;
    for (uint32_t i = 0; i < pp; i++)
        plan->stages[i] = (struct pen_layer_range){.first = i * LAYERS / pp,
                                                   .count = LAYERS / pp};
    return plan;
}

static struct pen_prediction predict(const struct pen_setting *setting,
                                     const struct pen_plan *plan)
{
    struct pen_prediction found;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_predict(setting, plan, &found, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return found;
}

static void expect_refused(const struct pen_setting *setting,
                           const struct pen_plan *plan, const char *expected)
{
    struct pen_prediction found;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_predict(setting, plan, &found, &why));
    assert_string_equal(expected, pen_text_string(&why));
    pen_text_release(&why);
}

static void a_step_is_what_its_layers_took(void **state)
{
    (void)state;
    struct pen_profile profile = make_profile();
    struct pen_setting setting = setting_of(&profile);
    struct pen_plan *plan = make_plan(1, 1, "1f1b");
    struct pen_prediction one = predict(&setting, plan);
    expect_close(4 * 4 * 3e-3, one.step_sec, "four blocks, four times F and B");
    plan->stages[0].recompute = PEN_RECOMPUTE_FULL;
    struct pen_prediction again = predict(&setting, plan);
    expect_close(4 * 4 * 4e-3, again.step_sec, "and F again");
    expect_close(4 * 4 * 1e-3, again.spent[PEN_SPENDING_RECOMPUTE], "that");
    pen_plan_free(plan);
    plan = make_plan(1, 2, "1f1b");
    struct pen_prediction two = predict(&setting, plan);
    /* (p - 1)(F + B) more than its own work, and messages. */
    assert_true(two.step_sec > 5 * 2 * 3e-3);
    assert_true(two.step_sec < 5 * 2 * 3e-3 + 1e-3);
    pen_plan_free(plan);
    pen_prediction_release(&one);
    pen_prediction_release(&again);
    pen_prediction_release(&two);
}

static void replicas_sum_over_the_link(void **state)
{
    (void)state;
    struct pen_profile profile = make_profile();
    profile.updates[PEN_UPDATE_ADD].median_sec = 1e-9;
    profile.updates[PEN_UPDATE_ADAM].median_sec = 1e-6;
    struct pen_setting setting = setting_of(&profile);
    struct pen_plan *plan = make_plan(2, 1, "1f1b");
    const struct pen_layer_range all = {.count = LAYERS};
    double count = (double)pen_model_trained_parameters(model, &all);
    struct pen_prediction whole = predict(&setting, plan);
    plan->sharding = PEN_SHARDING_ZERO1;
    struct pen_prediction shared = predict(&setting, plan);
    double sum = count / 2 * (2 * 4 / 1e9 + 1e-9);
    expect_close(2 * 4 * 3e-3 + sum + count * 1e-6, whole.step_sec, "whole");
    expect_close(2 * 4 * 3e-3 + sum + count / 2 * 1e-6, shared.step_sec,
                 "each steps its half");
    pen_plan_free(plan);
    pen_prediction_release(&whole);
    pen_prediction_release(&shared);
}

static void bytes_are_those_of_the_row(void **state)
{
    (void)state;
    struct pen_profile profile = make_profile();
    struct pen_setting setting = setting_of(&profile);
    struct pen_plan *plan = make_plan(1, 2, "1f1b");
    struct pen_prediction found = predict(&setting, plan);
    const uint64_t *first = found.memory[0].bytes;
    const uint64_t *last = found.memory[1].bytes;
    uint64_t inputs = 2 * 4 * 2 * SEQUENCE;
    /* Two micro-batches in flight on the first rank, one on the last. */
    assert_int_equal(2 * (3 * 81920 + inputs), first[PEN_MEMORY_ACTIVATIONS]);
    assert_int_equal(3 * 81920 + inputs, last[PEN_MEMORY_ACTIVATIONS]);
    assert_int_equal(1000000 + 1024 + 500 + 70, last[PEN_MEMORY_OVERHEAD]);
    assert_int_equal(4 * 30000, last[PEN_MEMORY_GRADIENTS]);
    assert_int_equal(8 * 30000, last[PEN_MEMORY_OPTIMIZER]);
    /* Rows of all tokens of a step, eight sequences. */
    assert_int_equal(4 * VOCAB * HIDDEN + 4 * SEQUENCE * HIDDEN +
                         4 * 2 * 10000 + 8 * HIDDEN * 8 * SEQUENCE,
                     first[PEN_MEMORY_WEIGHTS]);
    uint64_t slots = 2 + 2 + 1;
    assert_int_equal(slots * (8192 + 64) + 4 * (8 * SEQUENCE + 1),
                     first[PEN_MEMORY_BUFFERS]);
    assert_int_equal(slots * (8192 + 64) + 4 * (8 * SEQUENCE + 1) +
                         4 * HIDDEN * 8 * SEQUENCE,
                     last[PEN_MEMORY_BUFFERS]);
    pen_prediction_release(&found);

    pen_plan_free(plan);
    plan = make_plan(1, 2, "zb-h1");
    struct pen_prediction split = predict(&setting, plan);
    assert_true(split.memory[1].bytes[PEN_MEMORY_ACTIVATIONS] >=
                3 * (81920 + 40960));
    assert_true(split.memory_error < 0.05);
    pen_prediction_release(&split);
    pen_plan_free(plan);
}

/* The matrix of both ends, and two blocks of others. */
static void gradients_of_others_take_turns(void **state)
{
    (void)state;
    struct pen_profile profile = make_profile();
    struct pen_setting setting = setting_of(&profile);
    struct pen_plan *plan = make_plan(4, 1, "1f1b");
    struct pen_profile_layer *head = &profile.layers[PEN_LAYER_HEAD];
    head->num_parameters = VOCAB * HIDDEN + 10000;
    head->parameter_bytes = 16 * head->num_parameters + 500;
    head->largest = VOCAB * HIDDEN;
    plan->sharding = PEN_SHARDING_ZERO1;
    struct pen_prediction kept = predict(&setting, plan);
    plan->sharding = PEN_SHARDING_ZERO2;
    struct pen_prediction dropped = predict(&setting, plan);
    const uint64_t *before = kept.memory[0].bytes;
    const uint64_t *after = dropped.memory[0].bytes;
    uint64_t all = VOCAB * HIDDEN + 5 * 10000 + SEQUENCE * HIDDEN;
    assert_int_equal(4 * all, before[PEN_MEMORY_GRADIENTS]);
    assert_int_equal(4 * (VOCAB * HIDDEN + 20000), after[PEN_MEMORY_GRADIENTS]);
    for (int part = 0; part < PEN_MEMORY_PARTS; part++)
        if (part != PEN_MEMORY_GRADIENTS)
            assert_int_equal(before[part], after[part]);
    expect_close(kept.step_sec, dropped.step_sec, "time of a step");
    pen_prediction_release(&kept);
    pen_prediction_release(&dropped);
    pen_plan_free(plan);
}

static void a_limit_is_kept_by_two_in_a_hundred(void **state)
{
    (void)state;
    struct pen_profile profile = make_profile();
    struct pen_setting setting = setting_of(&profile);
    struct pen_plan *plan = make_plan(1, 1, "1f1b");
    struct pen_prediction found = predict(&setting, plan);
    uint64_t bytes = found.peak_bytes;
    pen_prediction_release(&found);
    setting.memory_limit = bytes + bytes / 40;
    found = predict(&setting, plan);
    assert_true(found.fits);
    pen_prediction_release(&found);
    setting.memory_limit = bytes + bytes / 80;
    found = predict(&setting, plan);
    assert_false(found.fits);
    pen_prediction_release(&found);
    pen_plan_free(plan);
}

static void what_was_not_measured_is_refused(void **state)
{
    (void)state;
    struct pen_profile profile = make_profile();
    struct pen_setting setting = setting_of(&profile);
    struct pen_plan *plan = make_plan(2, 1, "1f1b");
    plan->micro_batch = 3;
    expect_refused(
        &setting, plan,
        "the profile is for micro-batches of 2 sequences of 16 tokens, "
        "not for 3 of 16; measure it again");
    plan->micro_batch = 2;
    plan->stages[0].recompute = PEN_RECOMPUTE_SELECTIVE;
    expect_refused(&setting, plan,
                   "the profile has no recomputation \"selective\"; measure it "
                   "again with --recompute-granularity all");
    plan->stages[0].recompute = PEN_RECOMPUTE_NONE;
    plan->degrees[PEN_DEGREE_TP] = 3;
    plan->degrees[PEN_DEGREE_DP] = plan->logical_replicas = 1;
    expect_refused(&setting, plan, "tp 3 is not a power of two");
    plan->degrees[PEN_DEGREE_TP] = 1;
    plan->degrees[PEN_DEGREE_DP] = plan->logical_replicas = 2;
    plan->sharding = PEN_SHARDING_ZERO3;
    expect_refused(&setting, plan,
                   "zero3: the profile has no seconds of weights that come in "
                   "layer by layer; predict without --profile, or with zero2");
    plan->sharding = PEN_SHARDING_NONE;
    profile.link.is_there = false;
    expect_refused(
        &setting, plan,
        "the profile has no link; measure it again under mpirun with "
        "at least two ranks");
    profile.link.is_there = true;
    profile.program_bytes = 0;
    expect_refused(
        &setting, plan,
        "the profile lacks some bytes of a training; measure it again");
    pen_plan_free(plan);
}

static void other_runtimes_do_not_ask_it(void **state)
{
    (void)state;
    struct pen_profile profile = make_profile();
    struct pen_setting with = setting_of(&profile);
    struct pen_setting without = setting_of(NULL);
    with.target = without.target = PEN_TARGET_MEGATRON;
    struct pen_plan *plan = make_plan(1, 1, "1f1b");
    struct pen_prediction one = predict(&with, plan);
    struct pen_prediction other = predict(&without, plan);
    expect_close(other.step_sec, one.step_sec, "seconds");
    assert_int_equal(other.peak_bytes, one.peak_bytes);
    pen_prediction_release(&one);
    pen_prediction_release(&other);
    pen_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_what_its_layers_took),
        cmocka_unit_test(replicas_sum_over_the_link),
        cmocka_unit_test(bytes_are_those_of_the_row),
        cmocka_unit_test(gradients_of_others_take_turns),
        cmocka_unit_test(a_limit_is_kept_by_two_in_a_hundred),
        cmocka_unit_test(what_was_not_measured_is_refused),
        cmocka_unit_test(other_runtimes_do_not_ask_it)};
    return cmocka_run_group_tests(tests, load, unload);
}
