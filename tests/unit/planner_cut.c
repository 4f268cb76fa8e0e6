/*
 * Chains are cut as well as trying every cut finds, on unequal devices and
 * under limits; plans are cut by the devices that their stages lie on.
 */
#include "support/setting.h"
#include "support/support.h"

#include "base/random.h"
#include "planner/candidate.h"
#include "planner/chain_cut.h"
#include "planner/cut.h"

#include <math.h>

#define LAYERS 9u
#define PARTS 4u

struct trial {
    double sums[PARTS * (LAYERS + 1)];
    uint32_t rows[PARTS];
    double bytes[LAYERS + 1];
    double limits[PARTS];
    struct pen__chain_cut chain;
};

static void make_trial(struct pen_random *random, struct trial *trial)
{
    for (uint32_t row = 0; row < PARTS; row++) {
        double *sums = &trial->sums[row * (LAYERS + 1)];
        double slow = 1 + 3 * pen_random_unit(random);
        sums[0] = 0;
        for (uint32_t i = 0; i < LAYERS; i++)
            sums[i + 1] = sums[i] + slow * (0.1 + pen_random_unit(random));
        trial->rows[row] = pen_random_below(random, row + 1);
        trial->limits[row] = 1 + 6 * pen_random_unit(random);
    }
    trial->bytes[0] = 0;
    for (uint32_t i = 0; i < LAYERS; i++)
        trial->bytes[i + 1] = trial->bytes[i] + pen_random_unit(random);
    trial->chain = (struct pen__chain_cut){
        .num_layers = LAYERS,
        .num_parts = 1 + pen_random_below(random, PARTS),
        .sums = trial->sums,
        .rows = trial->rows,
        .bytes = pen_random_below(random, 2) == 0 ? NULL : trial->bytes,
        .limits = trial->limits};
}

/* Seconds of layers begin to end - 1 as this part; infinite: too large. */
static double part_sec(const struct trial *trial, uint32_t part, uint32_t begin,
                       uint32_t end)
{
    const double *sums = &trial->sums[trial->rows[part] * (LAYERS + 1)];
    if (trial->chain.bytes != NULL &&
        trial->bytes[end] - trial->bytes[begin] > trial->limits[part])
        return INFINITY;
    return sums[end] - sums[begin];
}

/* The slowest part of the best cut of the layers from `begin` on. */
static double try_all(const struct trial *trial, uint32_t part, uint32_t begin)
{
    if (part == trial->chain.num_parts - 1)
        return begin < LAYERS ? part_sec(trial, part, begin, LAYERS) : INFINITY;
    double least = INFINITY;
    for (uint32_t end = begin + 1; end < LAYERS; end++)
        least = fmin(least, fmax(part_sec(trial, part, begin, end),
                                 try_all(trial, part + 1, end)));
    return least;
}

static void chains_are_cut_as_well_as_can_be(void **state)
{
    (void)state;
    struct pen_random random = {.state = 11};
    unsigned num_refused = 0;
    for (unsigned i = 0; i < 2000; i++) {
        struct trial trial;
        uint32_t counts[PARTS] = {0};
        make_trial(&random, &trial);
        double least = try_all(&trial, 0, 0);
        pen_status status = pen__chain_cut(&trial.chain, counts, NULL);
        if (isinf(least)) {
            assert_int_equal(PEN_INFEASIBLE, status);
            num_refused++;
            continue;
        }
        assert_int_equal(PEN_OK, status);
        uint32_t at = 0;
        double slowest = 0;
        for (uint32_t part = 0; part < trial.chain.num_parts; part++) {
            assert_true(counts[part] > 0);
            slowest =
                fmax(slowest, part_sec(&trial, part, at, at + counts[part]));
            at += counts[part];
        }
        assert_int_equal(LAYERS, at);
        if (slowest > least * (1 + 1e-8))
            fail_msg("trial %u: the slowest part takes %.12g, it could %.12g",
                     i, slowest, least);
    }
    assert_true(num_refused > 50 && num_refused < 1000);
}

/* The setting of Megatron-LM's issue 1757: two RTX 3080 and two RTX 4090. */
static const char *const two_and_two =
    "name: two-and-two\n"
    "devices:\n"
    "  - kind: rtx3080\n"
    "    count: 2\n"
    "    flops: {f32: 29.8 TFLOP/s, bf16: 59.5 TFLOP/s}\n"
    "    memory: 10 GiB\n"
    "    bandwidth: 760 GB/s\n"
    "  - kind: rtx4090\n"
    "    count: 2\n"
    "    flops: {f32: 82.6 TFLOP/s, bf16: 165.2 TFLOP/s}\n"
    "    memory: 24 GiB\n"
    "    bandwidth: 1008 GB/s\n"
    "links:\n"
    "  - {level: node, bandwidth: 31 GB/s, latency: 10 us}\n";

static void quick_devices_get_more_layers(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting_of("preset:gpt2-xl", two_and_two,
                                                 PEN_TARGET_MEGATRON, 64, 1024);
    struct pen_candidate candidate = {.degrees = {1, 1, 1, 1, 1, 1},
                                      .micro_batch = 1,
                                      .num_microbatches = 64,
                                      .recompute = PEN_RECOMPUTE_FULL,
                                      .generator = pen_generator_find("1f1b")};
    candidate.degrees[PEN_DEGREE_PP] = 4;
    struct pen_plan *plan = NULL;
    struct pen_plan *even = NULL;
    struct pen_prediction uneven_time;
    struct pen_prediction even_time;
    assert_int_equal(PEN_OK,
                     pen_candidate_plan(&setting, &candidate, &plan, NULL));
    assert_int_equal(PEN_OK,
                     pen_candidate_plan(&setting, &candidate, &even, NULL));
    for (uint32_t i = 0; i < 4; i++) {
        static const uint32_t counts[] = {13, 12, 12, 13};
        even->stages[i].first =
            i == 0 ? 0 : even->stages[i - 1].first + even->stages[i - 1].count;
        even->stages[i].count = counts[i];
    }
    assert_true(plan->stages[2].count > 3 * plan->stages[1].count / 2);
    assert_int_equal(PEN_OK, pen_predict(&setting, plan, &uneven_time, NULL));
    assert_int_equal(PEN_OK, pen_predict(&setting, even, &even_time, NULL));
    if (uneven_time.step_sec > 0.85 * even_time.step_sec)
        fail_msg("cut by speed %.3f s, evenly %.3f s", uneven_time.step_sec,
                 even_time.step_sec);
    pen_prediction_release(&uneven_time);
    pen_prediction_release(&even_time);
    pen_plan_free(plan);
    pen_plan_free(even);
    release_setting(&setting);
}

/* First stages hold more micro-batches: they give layers away. */
static void full_stages_give_layers_away(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting("preset:gpt2-xl", "preset:h200*4",
                                              PEN_TARGET_MEGATRON, 64, 1024);
    struct pen_candidate candidate = {.degrees = {1, 1, 1, 1, 1, 1},
                                      .micro_batch = 4,
                                      .num_microbatches = 16,
                                      .generator = pen_generator_find("1f1b")};
    candidate.degrees[PEN_DEGREE_PP] = 4;
    struct pen_plan *plan = NULL;
    struct pen_prediction prediction;
    assert_int_equal(PEN_OK, pen_candidate_predict(&setting, &candidate, true,
                                                   &plan, &prediction, NULL));
    uint32_t before = plan->stages[0].count;
    uint64_t peak = prediction.peak_bytes;
    assert_int_equal(0, prediction.fullest);
    pen_prediction_release(&prediction);
    pen_plan_free(plan);
    setting.memory_limit = peak; /* without what it may be off by */
    assert_int_equal(PEN_OK, pen_candidate_predict(&setting, &candidate, true,
                                                   &plan, &prediction, NULL));
    assert_true(prediction.fits);
    assert_true(prediction.peak_bytes <= setting.memory_limit);
    assert_true(plan->stages[0].count < before);
    pen_prediction_release(&prediction);
    pen_plan_free(plan);
    release_setting(&setting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_are_cut_as_well_as_can_be),
        cmocka_unit_test(quick_devices_get_more_layers),
        cmocka_unit_test(full_stages_give_layers_away)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
