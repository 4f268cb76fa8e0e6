/*
 * Optimistic steps in the byte code: gates of rows, the text form, what the
 * verifier refuses, and the seconds of a step.
 */
#include "schedule/generators.h"
#include "schedule/time.h"
#include "schedule/verify.h"
#include "support/support.h"

#include <string.h>

#define HEAD                                                                   \
    "# penstock-schedule 3\nname x\n"                                          \
    "ranks 2 stages 2 microbatches 2 slices 1 copies 1 placement linear\n"     \
    "rules optimistic\n"
#define ROW1 "rank 1: 1RA0 1F0 1B0 1SG0 1RA1 1F1 1B1 1SG1 1SYNC 1STEP\n"

static void a_gate_is_before_the_first_backward(void **state)
{
    (void)state;
    uint32_t gates[4];
    struct pen_schedule *schedule = make("zb-h2", 4, 8, 0);
    assert_int_equal(PEN_OK, pen_schedule_find_gates(schedule, gates));
    for (uint32_t rank = 0; rank < 4; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        uint32_t forwards = 0;
        for (uint32_t i = 0; i < gates[rank]; i++)
            forwards += row->ops[i].kind == PEN_OP_FORWARD;
        assert_int_equal(2 * (3 - rank) + 1, forwards);
        assert_true(row->ops[gates[rank]].kind == PEN_OP_RECV_GRAD ||
                    row->ops[gates[rank]].kind == PEN_OP_BACKWARD_INPUT);
    }
    assert_int_equal(
        7, pen_row_count_sends(schedule, 0, gates[0], PEN_OP_SEND_ACT, 1));
    pen_schedule_free(schedule);
    schedule = make("zb-h1", 4, 8, 0);
    assert_int_equal(PEN_OK, pen_schedule_find_gates(schedule, gates));
    for (uint32_t rank = 0; rank < 4; rank++)
        assert_int_equal(0, gates[rank]);
    pen_schedule_free(schedule);
}

/* Rank 0 sends its first activation behind its own gate. */
static void no_gate_stands_behind_a_message_that_does_not_leave(void **state)
{
    (void)state;
    uint32_t gates[2];
    struct pen_schedule *schedule = parse(
        HEAD "rank 0: 0F0 0F1 0SYNC 0SA0 0SA1 0RG0 0B0 0RG1 0B1 0STEP\n" ROW1);
    assert_int_equal(PEN_OK, pen_schedule_find_gates(schedule, gates));
    assert_int_equal(2, gates[0]);
    assert_int_equal(0, gates[1]);
    pen_schedule_free(schedule);
    schedule = parse(HEAD "rank 0: 0F0 0SA0 0F1 0RG0 0SA1 0B0 0RG1 0B1 0SYNC "
                          "0STEP\n" ROW1);
    assert_int_equal(PEN_OK, pen_schedule_find_gates(schedule, gates));
    assert_int_equal(3, gates[0]);
    assert_int_equal(2, gates[1]);
    pen_schedule_free(schedule);
}

static void the_rule_is_printed_and_read(void **state)
{
    (void)state;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = make("zb-h2", 2, 4, 0);
    pen_schedule_print(schedule, &text);
    assert_true(
        strncmp(pen_text_string(&text), "# penstock-schedule 3\n", 22) == 0);
    assert_non_null(strstr(pen_text_string(&text), "\nrules optimistic\n"));
    struct pen_schedule *again = parse(pen_text_string(&text));
    assert_true(pen_schedule_equal(schedule, again));
    again->rules.is_optimistic = false;
    assert_false(pen_schedule_equal(schedule, again));
    pen_text_release(&text);
    pen_schedule_free(schedule);
    pen_schedule_free(again);
    schedule = make("zb-h2", 1, 4, 0);
    assert_false(schedule->rules.is_optimistic);
    pen_schedule_free(schedule);
}

static void nothing_is_computed_behind_a_step(void **state)
{
    (void)state;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = parse(
        "# penstock-schedule 3\nname x\n"
        "ranks 1 stages 2 microbatches 1 slices 1 copies 1 placement loop\n"
        "rules optimistic\nrank 0: 0F0 1F0 1B0 1SYNC 1STEP 0B0 0SYNC 0STEP\n");
    assert_int_equal(PEN_INVALID,
                     pen_schedule_verify(schedule, NULL, NULL, &why));
    assert_non_null(strstr(pen_text_string(&why),
                           "V7: rank 0, position 5, 0B0: a STEP of this rank"));
    schedule->rules.is_optimistic = false;
    assert_int_equal(PEN_OK, pen_schedule_verify(schedule, NULL, NULL, NULL));
    pen_text_release(&why);
    pen_schedule_free(schedule);
}

static void a_step_takes_the_span(void **state)
{
    (void)state;
    struct pen_costs costs;
    struct pen_timing *timing = NULL;
    struct pen_schedule *schedule = make("zb-h2", 4, 8, 0);
    pen_costs_init(&costs);
    assert_int_equal(PEN_OK,
                     pen_schedule_time(schedule, &costs, NULL, &timing, NULL));
    assert_true(timing->step_sec == timing->span_sec &&
                timing->span_sec < timing->makespan_sec);
    pen_timing_free(timing);
    schedule->rules.is_optimistic = false;
    assert_int_equal(PEN_OK,
                     pen_schedule_time(schedule, &costs, NULL, &timing, NULL));
    assert_true(timing->step_sec == timing->makespan_sec);
    pen_timing_free(timing);
    pen_costs_release(&costs);
    pen_schedule_free(schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gate_is_before_the_first_backward),
        cmocka_unit_test(no_gate_stands_behind_a_message_that_does_not_leave),
        cmocka_unit_test(the_rule_is_printed_and_read),
        cmocka_unit_test(nothing_is_computed_behind_a_step),
        cmocka_unit_test(a_step_takes_the_span),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
