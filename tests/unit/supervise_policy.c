/* Which ends of a launch are worth a restart, when, and how often. */
#include "support/support.h"

#include "base/file.h"
#include "supervise/policy.h"
#include "supervise/progress.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SEC INT64_C(1000000000)

static int exit_status(int code)
{
    return code << 8;
}

static enum pen_cause cause_of(int status, const char *error)
{
    struct pen_fault fault = PEN_FAULT_UNKNOWN;
    pen_fault_read_status(&fault, status, error);
    return fault.cause;
}

static void each_exit_has_its_cause(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *error;
        enum pen_cause cause;
    } cases[] = {
        {0, "", PEN_CAUSE_DONE},
        {1 << 8, "", PEN_CAUSE_FAILED},
        {1 << 8, "penstock: error: no such file", PEN_CAUSE_REFUSED},
        {1 << 8, "penstock: error: x: No space left on device",
         PEN_CAUSE_DISK_FULL},
        {1 << 8, "penstock: error: the gradient is not finite",
         PEN_CAUSE_NOT_FINITE},
        {2 << 8, "", PEN_CAUSE_USAGE},
        {65 << 8, "", PEN_CAUSE_DAMAGED},
        {69 << 8, "", PEN_CAUSE_RANK_DIED},
        {76 << 8, "", PEN_CAUSE_HANG},
        {127 << 8, "", PEN_CAUSE_NOT_STARTED},
        {137 << 8, "", PEN_CAUSE_RANK_DIED},
        {9 << 8, "", PEN_CAUSE_FAILED},
        {SIGKILL, "", PEN_CAUSE_LAUNCHER_DIED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(
            pen_cause_name(cause_of(cases[i].status, cases[i].error)),
            pen_cause_name(cases[i].cause));
}

static void the_code_of_a_launcher_has_the_signal_of_a_rank(void **state)
{
    (void)state;
    struct pen_fault fault = PEN_FAULT_UNKNOWN;
    pen_fault_read_status(&fault, exit_status(128 + SIGSEGV), "");
    assert_int_equal(fault.signal, SIGSEGV);
    assert_int_equal(fault.exit_code, 128 + SIGSEGV);
}

/* The table of docs/supervise.md: | `name` | ... | restart or stop | */
static void the_documentation_has_the_same_table(void **state)
{
    (void)state;
    struct pen_text page = PEN_TEXT_EMPTY;
    assert_int_equal(pen_file_read(PEN_SOURCE_DIR "/docs/supervise.md",
                                   (size_t)1 << 20, &page, NULL),
                     PEN_OK);
    for (int i = 0; i < PEN_NUM_CAUSES; i++) {
        char row[64];
        snprintf(row, sizeof row, "\n| `%s` |",
                 pen_cause_name((enum pen_cause)i));
        const char *at = strstr(pen_text_string(&page), row);
        if (at == NULL)
            fail_msg("no row for %s", row);
        const char *end = strchr(at + 1, '\n');
        const char *word = pen_cause_is_retried((enum pen_cause)i)
                               ? "| restart |"
                               : "| stop |";
        assert_memory_equal(end - strlen(word), word, strlen(word));
    }
    pen_text_release(&page);
}

static struct pen_fault death_at(int64_t step, int64_t rank, int64_t number)
{
    struct pen_fault fault = PEN_FAULT_UNKNOWN;
    fault.cause = PEN_CAUSE_RANK_DIED;
    fault.step = step;
    fault.rank = rank;
    fault.signal = number;
    return fault;
}

static void the_same_step_fails_three_times(void **state)
{
    (void)state;
    struct pen_policy policy;
    assert_true(pen_policy_init(&policy, 100, 1000));
    struct pen_fault fault = death_at(7, 2, SIGSEGV);
    assert_true(pen_policy_decide(&policy, &fault, false, 1).restarts);
    assert_true(pen_policy_decide(&policy, &fault, false, 2).restarts);
    struct pen_fault other = death_at(7, 1, SIGSEGV); /* begins anew */
    assert_true(pen_policy_decide(&policy, &other, false, 3).restarts);
    assert_true(pen_policy_decide(&policy, &fault, false, 4).restarts);
    assert_true(pen_policy_decide(&policy, &fault, false, 5).restarts);
    struct pen_decision last = pen_policy_decide(&policy, &fault, false, 6);
    assert_false(last.restarts);
    assert_int_equal(last.cause, PEN_CAUSE_SAME_STEP);
    pen_policy_release(&policy);
}

static void a_killed_launcher_is_no_fault_of_a_step(void **state)
{
    (void)state;
    struct pen_policy policy;
    assert_true(pen_policy_init(&policy, 100, 1000));
    struct pen_fault fault = death_at(7, PEN_UNKNOWN, SIGKILL);
    fault.cause = PEN_CAUSE_LAUNCHER_DIED;
    for (int i = 0; i < 5; i++)
        assert_true(pen_policy_decide(&policy, &fault, false, i).restarts);
    pen_policy_release(&policy);
}

static void restarts_are_counted_within_the_window(void **state)
{
    (void)state;
    struct pen_policy policy;
    assert_true(pen_policy_init(&policy, 2, 10));
    for (int i = 0; i < 8; i++) { /* every 6 s: two within 10 s */
        struct pen_fault fault = death_at(i, 0, SIGKILL);
        assert_true(pen_policy_decide(&policy, &fault, true, 6 * i).restarts);
    }
    struct pen_fault fault = death_at(9, 0, SIGKILL);
    struct pen_decision last = pen_policy_decide(&policy, &fault, true, 43);
    assert_false(last.restarts);
    assert_int_equal(last.cause, PEN_CAUSE_TOO_MANY);
    pen_policy_release(&policy);
    assert_true(pen_policy_init(&policy, 0, 10));
    assert_false(pen_policy_decide(&policy, &fault, true, 0).restarts);
    pen_policy_release(&policy);
}

static void restarts_without_progress_wait_longer_and_longer(void **state)
{
    (void)state;
    static const double delays[] = {0, 0, 1, 2, 4, 8, 16, 32, 60, 60};
    struct pen_policy policy;
    assert_true(pen_policy_init(&policy, 100, 1000));
    for (int i = 0; i < 10; i++) {
        struct pen_fault fault = death_at(i, 0, SIGKILL);
        assert_true(pen_policy_decide(&policy, &fault, false, i).delay_sec ==
                    delays[i]);
    }
    struct pen_fault fault = death_at(20, 0, SIGKILL);
    assert_true(pen_policy_decide(&policy, &fault, true, 11).delay_sec == 0);
    pen_policy_release(&policy);
}

static void idle_ranks_are_warned_of_and_ended_late(void **state)
{
    (void)state;
    struct pen_progress progress;
    pen_progress_start(&progress, SEC);
    assert_int_equal(pen_progress_judge(&progress, 61 * SEC),
                     PEN_PROGRESS_FINE);
    assert_int_equal(pen_progress_judge(&progress, 62 * SEC),
                     PEN_PROGRESS_WARN);
    assert_int_equal(pen_progress_judge(&progress, 600 * SEC),
                     PEN_PROGRESS_FINE);
    assert_int_equal(pen_progress_judge(&progress, 602 * SEC),
                     PEN_PROGRESS_STUCK);
    /* Ranks that compute are slow, and no more. */
    pen_progress_work(&progress, 300 * SEC, 602 * SEC);
    assert_int_equal(pen_progress_judge(&progress, 610 * SEC),
                     PEN_PROGRESS_FINE);
}

static void steps_of_a_minute_have_a_hundred_minutes(void **state)
{
    (void)state;
    struct pen_progress progress;
    int64_t now = SEC;
    pen_progress_start(&progress, now);
    for (int i = 0; i < 4; i++)
        pen_progress_commit(&progress, now += 60 * SEC);
    int64_t last = now;
    for (int i = 0; i < 99; i++) {
        now += 60 * SEC;
        pen_progress_work(&progress, now, now);
        assert_int_equal(pen_progress_judge(&progress, now), PEN_PROGRESS_FINE);
    }
    now = last + 6001 * SEC;
    pen_progress_work(&progress, now, now);
    assert_int_equal(pen_progress_judge(&progress, now), PEN_PROGRESS_STUCK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_exit_has_its_cause),
        cmocka_unit_test(the_code_of_a_launcher_has_the_signal_of_a_rank),
        cmocka_unit_test(the_documentation_has_the_same_table),
        cmocka_unit_test(the_same_step_fails_three_times),
        cmocka_unit_test(a_killed_launcher_is_no_fault_of_a_step),
        cmocka_unit_test(restarts_are_counted_within_the_window),
        cmocka_unit_test(restarts_without_progress_wait_longer_and_longer),
        cmocka_unit_test(idle_ranks_are_warned_of_and_ended_late),
        cmocka_unit_test(steps_of_a_minute_have_a_hundred_minutes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
