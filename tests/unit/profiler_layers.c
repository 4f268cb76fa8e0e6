/*
 * A profile of a model has every layer, pass and mode that was asked for, and
 * its bytes are those of the network.
 */
#include "support/support.h"

#include "network/network.h"
#include "profiler/profiler.h"
#include "profiler/samples.h"

#include <stdio.h>
#include <string.h>

enum { ROUNDS = PEN_PROFILER_LEAST_ROUNDS, BATCH = 2, SEQUENCE = 8 };

static struct pen_model *make_model(unsigned blocks)
{
    char config[256];
    struct pen_model *model = NULL;
    snprintf(config, sizeof config,
             "{\"model_type\":\"gpt2\",\"vocab_size\":37,\"n_positions\":16,"
             "\"n_embd\":24,\"n_layer\":%u,\"n_head\":3}",
             blocks);
    assert_int_equal(PEN_OK,
                     pen_model_parse(config, strlen(config), &model, NULL));
    return model;
}

struct progress {
    uint32_t calls;
    uint32_t done;
    uint32_t total;
};

static void note_progress(void *context, uint32_t done, uint32_t total)
{
    struct progress *progress = context;
    progress->calls++;
    progress->done = done;
    progress->total = total;
}

static struct pen_profiler_options options_of(const struct pen_model *model,
                                              struct progress *progress)
{
    return (struct pen_profiler_options){.model = model,
                                         .engine = pen_engine_find("reference"),
                                         .threads = 1,
                                         .micro_batch = BATCH,
                                         .sequence = SEQUENCE,
                                         .num_rounds = ROUNDS,
                                         .modes = {true, true, true},
                                         .progress = note_progress,
                                         .context = progress};
}

static struct pen_profile run(const struct pen_profiler_options *options)
{
    struct pen_profile profile = {
        .cpu = "some", .num_cores = 1, .num_ranks = 1};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_profiler_run(options, &profile, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    if (pen_profile_check(&profile, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return profile;
}

/* Bytes of a network of all layers. */
static struct pen_network_sizes sizes_of(const struct pen_model *model,
                                         enum pen_recompute recompute)
{
    struct pen_engine *engine = NULL;
    struct pen_network *network = NULL;
    struct pen_network_sizes sizes;
    assert_int_equal(
        PEN_OK, pen_engine_reference_create(PEN_PRECISION_F32, NULL, &engine));
    const struct pen_network_options all = {.engine = engine,
                                            .model = model,
                                            .num_layers = model->num_layers,
                                            .batch = BATCH,
                                            .sequence = SEQUENCE,
                                            .step_rows = BATCH * SEQUENCE,
                                            .recompute = recompute};
    assert_int_equal(PEN_OK, pen_network_create(&all, &network, NULL));
    pen_network_sizes(network, &sizes);
    pen_network_free(network);
    pen_engine_free(engine);
    return sizes;
}

static void expect_bytes(const struct pen_profile *profile,
                         const struct pen_model *model)
{
    for (int mode = 0; mode < PEN_RECOMPUTES; mode++) {
        struct pen_network_sizes sizes =
            sizes_of(model, (enum pen_recompute)mode);
        uint64_t stash = 0;
        uint64_t hold = 0;
        for (uint32_t layer = 0; layer < model->num_layers; layer++) {
            const struct pen_profile_mode *it =
                &profile->layers[pen_model_layer_kind(model, layer)]
                     .modes[mode];
            stash += it->stash_bytes;
            hold += it->hold_bytes;
        }
        assert_int_equal(sizes.stash, stash);
        assert_int_equal(sizes.hold, hold);
    }
}

static void expect_all(unsigned blocks, uint32_t num_chains)
{
    struct pen_model *model = make_model(blocks);
    struct progress progress = {0};
    struct pen_profiler_options options = options_of(model, &progress);
    struct pen_profile profile = run(&options);
    assert_int_equal(3 * num_chains * (ROUNDS + 1), progress.total);
    assert_int_equal(progress.total, progress.calls);
    assert_int_equal(progress.total, progress.done);
    for (int kind = 0; kind < PEN_LAYER_KINDS; kind++) {
        for (int mode = 0; mode < PEN_RECOMPUTES; mode++) {
            const struct pen_profile_mode *it =
                &profile.layers[kind].modes[mode];
            assert_true(it->is_there);
            for (int pass = 0; pass < PEN_PASSES; pass++)
                assert_true(kind != PEN_LAYER_BLOCK ||
                            it->passes[pass].median_sec > 0);
        }
    }
    assert_true(profile.updates[PEN_UPDATE_ADAM].median_sec > 0);
    expect_bytes(&profile, model);
    assert_string_equal("reference", profile.engine);
    assert_string_equal("none", profile.library);
    assert_string_equal("gpt2", profile.family);
    assert_string_equal("some", profile.cpu);
    /* The head trains the tied matrix and the last norm. */
    assert_int_equal(37 * 24 + 2 * 24,
                     profile.layers[PEN_LAYER_HEAD].num_parameters);
    assert_int_equal(16 * 24,
                     profile.layers[PEN_LAYER_EMBEDDING].num_parameters);
    assert_int_equal(pen_model_layer_parameters(model, 1),
                     profile.layers[PEN_LAYER_BLOCK].num_parameters);
    assert_int_equal(BATCH * SEQUENCE * 24 * sizeof(float),
                     profile.layers[PEN_LAYER_BLOCK].output_bytes);
    assert_int_equal(0, profile.layers[PEN_LAYER_HEAD].output_bytes);
    pen_model_free(model);
}

static void a_small_model_is_measured_whole(void **state)
{
    (void)state;
    expect_all(1, 1);
    expect_all(3, 1);
}

static void a_large_model_is_measured_in_two_pieces(void **state)
{
    (void)state;
    expect_all(17, 2);
}

static void one_mode_is_measured_alone(void **state)
{
    (void)state;
    struct pen_model *model = make_model(2);
    struct progress progress = {0};
    struct pen_profiler_options options = options_of(model, &progress);
    options.modes[PEN_RECOMPUTE_NONE] = false;
    options.modes[PEN_RECOMPUTE_SELECTIVE] = false;
    struct pen_profile profile = run(&options);
    const struct pen_profile_mode *modes = profile.layers[0].modes;
    assert_false(modes[PEN_RECOMPUTE_NONE].is_there);
    assert_true(modes[PEN_RECOMPUTE_FULL].is_there);
    assert_int_equal(ROUNDS + 1, progress.calls);
    pen_model_free(model);
}

static void a_sequence_that_is_too_long_is_refused(void **state)
{
    (void)state;
    struct pen_model *model = make_model(2);
    struct progress progress = {0};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_profile profile = {.num_cores = 42};
    struct pen_profiler_options options = options_of(model, &progress);
    options.sequence = 17;
    assert_int_equal(PEN_INVALID, pen_profiler_run(&options, &profile, &why));
    assert_string_equal(
        "the model has 16 positions, too few for sequences of 17 "
        "tokens; use at most 16",
        pen_text_string(&why));
    assert_int_equal(0, profile.micro_batch);
    pen_text_release(&why);
    pen_model_free(model);
}

static void median_and_spread_are_those_of_the_samples(void **state)
{
    (void)state;
    const double seconds[] = {5, 1, 9, 2, 3};
    struct pen__samples samples;
    assert_true(pen__samples_init(&samples, 6));
    for (int i = 0; i < 5; i++)
        pen__samples_add(&samples, seconds[i]);
    struct pen_measured measured = pen__samples_measure(&samples);
    expect_close(3, measured.median_sec, "median of five");
    expect_close(3, measured.spread_sec, "from 2 to 5");
    pen__samples_add(&samples, 4);
    measured = pen__samples_measure(&samples);
    expect_close(3.5, measured.median_sec, "median of six");
    expect_close(4.75 - 2.25, measured.spread_sec, "between samples");
    samples.count = 1;
    measured = pen__samples_measure(&samples);
    expect_close(1, measured.median_sec, "median of one");
    expect_close(0, measured.spread_sec, "spread of one");
    pen__samples_release(&samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_model_is_measured_whole),
        cmocka_unit_test(a_large_model_is_measured_in_two_pieces),
        cmocka_unit_test(one_mode_is_measured_alone),
        cmocka_unit_test(a_sequence_that_is_too_long_is_refused),
        cmocka_unit_test(median_and_spread_are_those_of_the_samples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
