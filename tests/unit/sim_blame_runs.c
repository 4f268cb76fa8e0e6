/*
 * Runs of the simulated runtime in which one thing was made slower: it is the
 * one that is blamed, with traces and without.
 */
#include "culprits/blame.h"
#include "support/sim_setting.h"
#include "support/support.h"

static struct pen_sim_result run(struct sim_setting *setting,
                                 const struct pen_disturbances *disturbances,
                                 bool with_trace)
{
    struct pen_sim_result result;
    struct pen_text why = PEN_TEXT_EMPTY;
    setting->simulation.disturbances = disturbances;
    setting->simulation.with_trace = with_trace;
    if (pen_simulate(&setting->simulation, &result, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_false(result.is_stuck);
    pen_text_release(&why);
    return result;
}

static struct pen_blame blame_of(struct sim_setting *setting,
                                 const struct pen_disturbances *disturbances,
                                 bool with_trace)
{
    struct pen_sim_result plain = run(setting, NULL, with_trace);
    struct pen_sim_result disturbed = run(setting, disturbances, with_trace);
    struct pen_blame blame;
    struct pen_run_figures before = pen_sim_result_figures(&plain);
    struct pen_run_figures after = pen_sim_result_figures(&disturbed);
    assert_int_equal(
        PEN_OK, pen_blame_find(&after, &before, setting->schedule, &blame));
    pen_blame_release(&blame);
    pen_sim_result_release(&plain);
    pen_sim_result_release(&disturbed);
    return blame;
}

static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"};

static void a_slow_rank_is_blamed(void **state)
{
    (void)state;
    static struct pen_disturbances slow;
    slow =
        (struct pen_disturbances){.slow_ranks = {{5, 2}}, .num_slow_ranks = 1};
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        struct sim_setting setting;
        sim_setting_begin(&setting, schedules[i]);
        for (int with_trace = 0; with_trace < 2; with_trace++) {
            struct pen_blame blame = blame_of(&setting, &slow, with_trace);
            assert_int_equal(PEN_BLAME_RANK, blame.kind);
            assert_int_equal(5, blame.rank);
            assert_true(blame.share > 0.9);
            assert_true(blame.factor > 1.9 && blame.factor < 2.01);
        }
        sim_setting_end(&setting);
    }
}

static void a_slow_link_is_blamed(void **state)
{
    (void)state;
    static struct pen_disturbances slow;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct sim_setting setting;
    sim_setting_begin(&setting, "1f1b");
    slow = (struct pen_disturbances){.jitter = 0};
    assert_int_equal(PEN_OK,
                     pen_disturbances_add_slow_link(&slow, "rank-6=50", &why));
    for (int with_trace = 0; with_trace < 2; with_trace++) {
        struct pen_blame blame = blame_of(&setting, &slow, with_trace);
        assert_int_equal(PEN_BLAME_LINK, blame.kind);
        /* All of its messages are slow, those that come and those that go. */
        assert_true(blame.rank == 6 || blame.to == 6);
        if (with_trace != 0) {
            assert_int_equal(6, blame.end);
            assert_true(blame.end_share > 0.9);
        }
    }
    pen_text_release(&why);
    sim_setting_end(&setting);
}

/* Hardly any bytes in the pipeline, 4 MB to sum. */
static void slow_sums_are_blamed(void **state)
{
    (void)state;
    static struct pen_disturbances slow;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct sim_setting setting;
    sim_setting_begin(&setting, "1f1b");
    setting.simulation.message_bytes = 100;
    slow = (struct pen_disturbances){.jitter = 0};
    assert_int_equal(PEN_OK,
                     pen_disturbances_add_slow_link(&slow, "rank-6=50", &why));
    for (int with_trace = 0; with_trace < 2; with_trace++) {
        struct pen_blame blame = blame_of(&setting, &slow, with_trace);
        assert_int_equal(PEN_BLAME_SUMS, blame.kind);
        assert_int_equal(6 % SIM_ROWS, blame.rank % SIM_ROWS);
        assert_true(blame.share > 0.9);
    }
    pen_text_release(&why);
    sim_setting_end(&setting);
}

static void nobody_is_blamed_for_the_same_run(void **state)
{
    (void)state;
    struct sim_setting setting;
    sim_setting_begin(&setting, "1f1b");
    for (int with_trace = 0; with_trace < 2; with_trace++) {
        struct pen_blame blame = blame_of(&setting, NULL, with_trace);
        assert_int_equal(PEN_BLAME_NOBODY, blame.kind);
        assert_true(blame.longer_sec == 0);
    }
    sim_setting_end(&setting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_rank_is_blamed),
        cmocka_unit_test(a_slow_link_is_blamed),
        cmocka_unit_test(slow_sums_are_blamed),
        cmocka_unit_test(nobody_is_blamed_for_the_same_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
