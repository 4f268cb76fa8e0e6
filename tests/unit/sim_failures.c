/*
 * Whatever fails, and whenever it does, the simulation comes back and says who
 * waits for whom; so it does for a schedule that waits for itself.
 */
#include "support/sim_setting.h"
#include "support/support.h"

#include <stdio.h>

#define GONE 5u /* the rank that fails, or whose link does */

static struct pen_sim_result run(struct sim_setting *setting,
                                 const struct pen_disturbances *disturbances)
{
    struct pen_sim_result result;
    struct pen_text why = PEN_TEXT_EMPTY;
    setting->simulation.disturbances = disturbances;
    if (pen_simulate(&setting->simulation, &result, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return result;
}

static struct pen_sim_result run_failing(struct sim_setting *setting,
                                         const char *name, double at_sec,
                                         const char *background)
{
    static struct pen_disturbances all;
    char words[64];
    snprintf(words, sizeof words, "%s@%.9g", name, at_sec);
    all = (struct pen_disturbances){.seed = 1};
    assert_int_equal(PEN_OK, pen_disturbances_add_failure(&all, words, NULL));
    if (background != NULL)
        assert_int_equal(
            PEN_OK, pen_disturbances_add_background(&all, background, NULL));
    return run(setting, &all);
}

static bool is_waited_for(const struct pen_sim_result *result, uint32_t rank)
{
    for (uint32_t i = 0; i < result->num_ranks; i++)
        if (i != rank && result->waiting_for[i] == rank)
            return true;
    return false;
}

static void whoever_fails_is_waited_for(void **state)
{
    (void)state;
    static const char *const names[] = {"rank-5", "rank-5.node",
                                        "rank-5.node_UP", "rank-5.node_DOWN"};
    struct sim_setting setting;
    sim_setting_begin(&setting, "1f1b");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct pen_sim_result result =
            run_failing(&setting, names[i], 0.03, NULL);
        assert_true(result.is_stuck);
        assert_true(is_waited_for(&result, GONE));
        pen_sim_result_release(&result);
    }
    sim_setting_end(&setting);
}

/* In the pipeline, in sums, while all wait for the norm, between steps. */
static void a_failure_at_any_time_is_survived(void **state)
{
    (void)state;
    static const char *const names[] = {"rank-5", "rank-5.node"};
    struct sim_setting setting;
    sim_setting_begin(&setting, "1f1b");
    struct pen_sim_result plain = run(&setting, NULL);
    double end = plain.step_sec[0] + plain.step_sec[1];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (double at = 0; at < 0.99 * end; at += 0.037 * end) {
            struct pen_sim_result result =
                run_failing(&setting, names[i], at, NULL);
            assert_true(result.is_stuck);
            pen_sim_result_release(&result);
        }
    pen_sim_result_release(&plain);
    sim_setting_end(&setting);
}

static void nobody_waits_for_what_fails_later(void **state)
{
    (void)state;
    struct sim_setting setting;
    sim_setting_begin(&setting, "1f1b");
    struct pen_sim_result plain = run(&setting, NULL);
    struct pen_sim_result result = run_failing(
        &setting, "rank-5", 2 * (plain.step_sec[0] + plain.step_sec[1]), NULL);
    assert_false(result.is_stuck);
    assert_true(plain.step_sec[0] == result.step_sec[0]);
    assert_true(plain.step_sec[1] == result.step_sec[1]);
    pen_sim_result_release(&plain);
    pen_sim_result_release(&result);
    sim_setting_end(&setting);
}

/* Somebody else's messages could go on for ever. */
static void others_do_not_keep_it_alive(void **state)
{
    (void)state;
    struct sim_setting setting;
    sim_setting_begin(&setting, "1f1b");
    struct pen_sim_result result =
        run_failing(&setting, "rank-5", 0.03, "0-1:1MB");
    assert_true(result.is_stuck);
    assert_true(is_waited_for(&result, GONE));
    pen_sim_result_release(&result);
    sim_setting_end(&setting);
}

/* All forwards of a chunk come before those of the next one of the rank. */
static void a_window_that_is_too_small_gets_stuck(void **state)
{
    (void)state;
    struct sim_setting setting;
    struct pen_schedule *schedule = make("breadth-first", SIM_ROWS, 16, 2);
    struct pen_text why = PEN_TEXT_EMPTY;
    sim_setting_take(&setting, schedule);
    struct pen_sim_result result = run(&setting, NULL);
    assert_false(result.is_stuck);
    pen_sim_result_release(&result);
    schedule->rules.send_window = 1;
    assert_int_equal(PEN_INVALID,
                     pen_schedule_verify(schedule, NULL, NULL, &why));
    result = run(&setting, NULL);
    assert_true(result.is_stuck);
    for (uint32_t i = 0; i < SIM_RANKS; i++) {
        uint32_t whom = result.waiting_for[i];
        assert_int_equal(i / SIM_ROWS, whom / SIM_ROWS);
    }
    pen_sim_result_release(&result);
    pen_text_release(&why);
    sim_setting_end(&setting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_fails_is_waited_for),
        cmocka_unit_test(a_failure_at_any_time_is_survived),
        cmocka_unit_test(nobody_waits_for_what_fails_later),
        cmocka_unit_test(others_do_not_keep_it_alive),
        cmocka_unit_test(a_window_that_is_too_small_gets_stuck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
