/*
 * What comes out of a search: a ranking, less memory for more time, fewer
 * devices, reasons against neighbours, and what was left out.
 */
#include "support/setting.h"
#include "support/support.h"

#include "planner/explain.h"
#include "planner/relax.h"

#include <math.h>
#include <string.h>

static struct pen_plan_ranking *
search(const struct pen_setting *setting,
       const struct pen_plan_search_options *options)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_plan_ranking *ranking = NULL;
    if (pen_plan_search(setting, options, &ranking, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return ranking;
}

static void a_ranking_is_ordered_and_fits(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2-xl", "preset:a100-40*16", PEN_TARGET_TORCHTITAN, 64, 1024);
    const struct pen_plan_search_options options = {.top = 20};
    struct pen_plan_ranking *ranking = search(&setting, &options);
    assert_int_equal(20, ranking->num_found);
    assert_true(ranking->is_complete);
    for (uint32_t i = 0; i < ranking->num_found; i++) {
        const struct pen_plan_found *found = &ranking->found[i];
        assert_true(found->prediction.fits);
        assert_true(found->plan->predicted.is_there);
        expect_close(found->prediction.step_sec,
                     found->plan->predicted.step_sec,
                     "what the plan says of itself");
        assert_int_equal(64, pen_plan_global_batch(found->plan));
        if (i > 0)
            assert_true(ranking->found[i - 1].prediction.step_sec <=
                        found->prediction.step_sec);
    }
    pen_plan_ranking_free(ranking);
    release_setting(&setting);
}

/* The last stages of a pipeline hold less: they need not recompute. */
static void stages_that_have_room_do_not_recompute(void **state)
{
    (void)state;
    const struct pen_plan_search_options options = {
        .filter = {.degrees = {[PEN_DEGREE_PP] = 4, [PEN_DEGREE_DP] = 1},
                   .micro_batch = 1,
                   .generator = pen_generator_find("1f1b")},
        .top = 1};
    static const double limits[] = {10e9, 11e9, 12e9, 14e9, 16e9, 20e9};
    unsigned num_mixed = 0;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct pen_setting setting =
            make_setting("preset:gpt2-xl", "preset:h100-sxm*4",
                         PEN_TARGET_PENSTOCK, 16, 1024);
        struct pen_plan_ranking *ranking = NULL;
        setting.memory_limit = (uint64_t)limits[i];
        if (pen_plan_search(&setting, &options, &ranking, NULL) == PEN_OK) {
            double before = ranking->found[0].prediction.step_sec;
            pen_plan_ranking_relax(&setting, &options, ranking);
            const struct pen_plan_found *found = &ranking->found[0];
            const struct pen_layer_range *stages = found->plan->stages;
            bool is_mixed = stages[0].recompute != stages[3].recompute;
            assert_true(found->prediction.fits);
            expect_close(found->prediction.step_sec,
                         found->plan->predicted.step_sec, "its own prediction");
            assert_true(is_mixed ? found->prediction.step_sec < before
                                 : found->prediction.step_sec == before);
            if (is_mixed) {
                num_mixed++;
                assert_int_equal(PEN_RECOMPUTE_NONE, stages[3].recompute);
                assert_true(stages[0].count < stages[2].count);
            }
        }
        pen_plan_ranking_free(ranking);
        release_setting(&setting);
    }
    assert_true(num_mixed > 0);
}

/* A free search is never behind one whose degrees are given. */
static void what_is_open_includes_what_is_given(void **state)
{
    (void)state;
    struct pen_setting setting =
        make_setting("preset:llama-3.1-70b", "preset:h100-sxm*64",
                     PEN_TARGET_MEGATRON, 128, 8192);
    struct pen_plan_search_options options = {.top = 1};
    struct pen_plan_ranking *open = search(&setting, &options);
    static const uint32_t given[][2] = {{1, 1}, {2, 1}, {2, 2}, {4, 1},
                                        {4, 2}, {8, 1}, {8, 2}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        options.filter.degrees[PEN_DEGREE_TP] = given[i][0];
        options.filter.degrees[PEN_DEGREE_CP] = given[i][1];
        struct pen_plan_ranking *one = NULL;
        if (pen_plan_search(&setting, &options, &one, NULL) != PEN_OK)
            continue;
        assert_true(open->found[0].prediction.step_sec <=
                    one->found[0].prediction.step_sec);
        pen_plan_ranking_free(one);
    }
    pen_plan_ranking_free(open);
    release_setting(&setting);
}

/* Rows are cut where that is quicker or saves memory that is short. */
static void rows_are_cut_where_it_helps(void **state)
{
    (void)state;
    struct pen_setting setting =
        make_setting("preset:gpt2-medium", "preset:h100-sxm*4",
                     PEN_TARGET_PENSTOCK, 16, 1024);
    const struct pen_plan_search_options options = {
        .filter = {.degrees = {[PEN_DEGREE_TP] = 4}, .micro_batch = 4},
        .top = 4};
    struct pen_plan_ranking *ranking = search(&setting, &options);
    const struct pen_plan_found *best = &ranking->found[0];
    assert_true(best->plan->has_sequence_parallel);
    struct pen_candidate whole = best->candidate;
    struct pen_prediction prediction;
    struct pen_plan *plan;
    whole.cuts_rows = false;
    assert_int_equal(PEN_OK, pen_candidate_predict(&setting, &whole, true,
                                                   &plan, &prediction, NULL));
    assert_false(plan->has_sequence_parallel);
    assert_true(best->prediction.step_sec < prediction.step_sec);
    assert_true(best->prediction.peak_bytes < prediction.peak_bytes);
    pen_prediction_release(&prediction);
    pen_plan_free(plan);
    pen_plan_ranking_free(ranking);
    release_setting(&setting);
}

/* Prime numbers of devices and layers: some devices stay idle. */
static void devices_may_be_left_over(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2-xl", "preset:h100-sxm*97", PEN_TARGET_MEGATRON, 96, 1024);
    const struct pen_plan_search_options options = {.top = 1};
    struct pen_plan_ranking *ranking = search(&setting, &options);
    assert_int_equal(96, pen_plan_num_ranks(ranking->found[0].plan));
    pen_plan_ranking_free(ranking);
    release_setting(&setting);
}

static void expect_front(const struct pen_plan_ranking *front)
{
    for (uint32_t i = 1; i < front->num_found; i++) {
        assert_true(front->found[i].prediction.peak_bytes <
                    front->found[i - 1].prediction.peak_bytes);
        assert_true(front->found[i].prediction.step_sec >=
                    front->found[i - 1].prediction.step_sec);
    }
}

static void a_front_trades_time_for_memory(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2-xl", "preset:a100-40*16", PEN_TARGET_MEGATRON, 64, 1024);
    struct pen_plan_search_options options = {.top = 6};
    struct pen_plan_ranking *front = NULL;
    struct pen_plan_ranking *best = search(&setting, &options);
    assert_int_equal(
        PEN_OK, pen_plan_search_front(&setting, &options, NULL, &front, NULL));
    assert_true(front->num_found >= 3);
    expect_front(front);
    expect_close(best->found[0].prediction.step_sec,
                 front->found[0].prediction.step_sec, "the first");
    pen_plan_ranking_free(front);
    /* The least work: points that are too slow are left out. */
    options.seconds = 1e-6;
    assert_int_equal(PEN_OK,
                     pen_plan_search_front(&setting, &options, &best->found[0],
                                           &front, NULL));
    expect_front(front);
    expect_close(best->found[0].prediction.step_sec,
                 front->found[0].prediction.step_sec, "the first as given");
    pen_plan_ranking_free(front);
    pen_plan_ranking_free(best);
    release_setting(&setting);
}

/* "What changes with 48 instead of 64?" */
static void fewer_devices_are_planned_too(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2-xl", "preset:h100-sxm*64", PEN_TARGET_MEGATRON, 192, 1024);
    const struct pen_plan_search_options options = {.top = 1, .num_fewer = 3};
    struct pen_plan_ranking *ranking = search(&setting, &options);
    static const uint64_t expected[] = {48, 32, 24};
    assert_int_equal(64, pen_plan_num_ranks(ranking->found[0].plan));
    assert_int_equal(3, ranking->num_fewer);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(expected[i],
                         pen_plan_num_ranks(ranking->fewer[i].plan));
    pen_plan_ranking_free(ranking);
    release_setting(&setting);
}

/* The best plan of 48 has 32 and is not told again as that of 32. */
static void no_number_of_devices_is_told_twice(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2", "preset:h100-sxm*64", PEN_TARGET_MEGATRON, 64, 1024);
    const struct pen_plan_search_options options = {.top = 10, .num_fewer = 6};
    struct pen_plan_ranking *ranking = search(&setting, &options);
    uint64_t used = pen_plan_num_ranks(ranking->found[0].plan);
    assert_true(ranking->num_fewer >= 2);
    for (uint32_t i = 0; i < ranking->num_fewer; i++) {
        uint64_t ranks = pen_plan_num_ranks(ranking->fewer[i].plan);
        assert_true(ranks < used);
        used = ranks;
    }
    pen_plan_ranking_free(ranking);
    release_setting(&setting);
}

/* Far apart, one host computes sooner than several that wait for each other. */
static const char far_apart[] =
    "name: far apart\n"
    "devices:\n"
    "  - {kind: a100-80, count: 8}\n"
    "links:\n"
    "  - {level: all, bandwidth: 10 Mbit/s, latency: 50 ms}\n";

static void devices_that_do_not_help_are_left_out(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting_of("preset:gpt2", far_apart,
                                                 PEN_TARGET_MEGATRON, 16, 1024);
    const struct pen_plan_search_options options = {.top = 1, .num_fewer = 4};
    struct pen_plan_ranking *ranking = search(&setting, &options);
    assert_int_equal(1, pen_plan_num_ranks(ranking->found[0].plan));
    assert_int_equal(0, ranking->num_fewer);
    pen_plan_ranking_free(ranking);
    release_setting(&setting);
}

static void energy_needs_watts(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2", "preset:h100-sxm*8", PEN_TARGET_MEGATRON, 16, 1024);
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_plan_ranking *ranking = NULL;
    const struct pen_plan_search_options options = {
        .top = 1, .objective = PEN_OBJECTIVE_ENERGY};
    struct pen_cluster *cluster = (struct pen_cluster *)setting.cluster;
    cluster->groups[0].device.watts = 0;
    assert_int_equal(PEN_INVALID,
                     pen_plan_search(&setting, &options, &ranking, &why));
    assert_string_equal("the energy of h100-sxm is not known; give its 'watts' "
                        "in the cluster file",
                        pen_text_string(&why));
    pen_text_release(&why);
    release_setting(&setting);
}

static void too_little_memory_is_told(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2-xl", "preset:h100-sxm*2", PEN_TARGET_MEGATRON, 64, 1024);
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_plan_ranking *ranking = NULL;
    const struct pen_plan_search_options options = {.top = 1};
    setting.memory_limit = (uint64_t)3 << 30;
    assert_int_equal(PEN_INFEASIBLE,
                     pen_plan_search(&setting, &options, &ranking, &why));
    assert_non_null(strstr(pen_text_string(&why), "no layout fits"));
    assert_non_null(strstr(pen_text_string(&why), "the device has 3.0 GiB"));
    pen_text_release(&why);
    release_setting(&setting);
}

/* A search that is stopped tells what it did not look at. */
static void what_is_left_out_is_told(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2-xl", "preset:a100-40*16", PEN_TARGET_TORCHTITAN, 64, 1024);
    const struct pen_plan_search_options options = {.top = 20, .max_ops = 1};
    struct pen_plan_ranking *ranking = search(&setting, &options);
    assert_false(ranking->is_complete);
    assert_true(ranking->num_found >= 1);
    assert_true(ranking->counts.left_out > 0);
    assert_true(ranking->counts.least_left > 0);
    pen_plan_ranking_free(ranking);
    release_setting(&setting);
}

static const struct pen_neighbour *
find(const struct pen_explanation *explanation, const char *schedule)
{
    for (uint32_t i = 0; i < explanation->num_neighbours; i++) {
        const struct pen_neighbour *other = &explanation->neighbours[i];
        if (strcmp(other->choice, "schedule") == 0 &&
            strcmp(other->candidate.generator->name, schedule) == 0)
            return other;
    }
    fail_msg("no neighbour has the schedule %s", schedule);
    return NULL;
}

/* Whoever loses does so for a reason. */
static void neighbours_lose_for_a_reason(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2-xl", "preset:a100-40*16", PEN_TARGET_MEGATRON, 64, 1024);
    struct pen_plan_search_options options = {.top = 1};
    options.filter.degrees[PEN_DEGREE_PP] = 4;
    struct pen_plan_ranking *ranking = search(&setting, &options);
    struct pen_explanation *explanation = NULL;
    assert_int_equal(PEN_OK,
                     pen_explain(&setting, &options.filter, &ranking->found[0],
                                 0, &explanation, NULL));
    const struct pen_neighbour *zero_bubble = find(explanation, "zb-h1");
    assert_false(zero_bubble->is_allowed);
    assert_true(zero_bubble->is_predicted);
    assert_non_null(strstr(pen_text_string(&zero_bubble->reason),
                           "megatron does not run zb-h1"));
    unsigned num_choices = 0;
    for (uint32_t i = 0; i < explanation->num_neighbours; i++) {
        const struct pen_neighbour *other = &explanation->neighbours[i];
        if (i == 0 || strcmp(other->choice, other[-1].choice) != 0)
            num_choices++;
        /* pp was given, so a neighbour with another one may win. */
        if (other->is_allowed && other->is_predicted && other->fits &&
            strcmp(other->choice, "pp") != 0)
            assert_true(other->step_sec >=
                        ranking->found[0].prediction.step_sec);
        if (!other->is_allowed || !other->fits)
            assert_true(other->reason.length > 0);
    }
    assert_true(num_choices >= 6);
    pen_explanation_free(explanation);
    pen_plan_ranking_free(ranking);
    release_setting(&setting);
}

/* Twice the arithmetic helps a plan that computes; best first. */
static void what_helps_is_ordered(void **state)
{
    (void)state;
    struct pen_setting setting = make_setting(
        "preset:gpt2-xl", "preset:a100-40*16", PEN_TARGET_MEGATRON, 64, 1024);
    const struct pen_plan_search_options options = {.top = 1};
    struct pen_plan_ranking *ranking = search(&setting, &options);
    struct pen_explanation *explanation = NULL;
    assert_int_equal(PEN_OK,
                     pen_explain(&setting, &options.filter, &ranking->found[0],
                                 10, &explanation, NULL));
    assert_true(explanation->num_helps >= 4);
    assert_string_equal("arithmetic", explanation->helps[0].what);
    assert_true(explanation->helps[0].tokens_per_sec >
                1.2 * ranking->found[0].prediction.tokens_per_sec);
    for (uint32_t i = 1; i < explanation->num_helps; i++)
        assert_true(explanation->helps[i].tokens_per_sec <=
                    explanation->helps[i - 1].tokens_per_sec);
    assert_int_equal(PEN_SPENDING_FORWARD, explanation->limit);
    pen_explanation_free(explanation);
    pen_plan_ranking_free(ranking);
    release_setting(&setting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ranking_is_ordered_and_fits),
        cmocka_unit_test(stages_that_have_room_do_not_recompute),
        cmocka_unit_test(what_is_open_includes_what_is_given),
        cmocka_unit_test(rows_are_cut_where_it_helps),
        cmocka_unit_test(devices_may_be_left_over),
        cmocka_unit_test(a_front_trades_time_for_memory),
        cmocka_unit_test(fewer_devices_are_planned_too),
        cmocka_unit_test(no_number_of_devices_is_told_twice),
        cmocka_unit_test(devices_that_do_not_help_are_left_out),
        cmocka_unit_test(energy_needs_watts),
        cmocka_unit_test(too_little_memory_is_told),
        cmocka_unit_test(what_is_left_out_is_told),
        cmocka_unit_test(neighbours_lose_for_a_reason),
        cmocka_unit_test(what_helps_is_ordered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
