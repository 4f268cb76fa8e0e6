/*
 * Recomputation as an operation: where R is put, what its forward keeps, and
 * what timer, needs and restrictions make of it.
 */
#include "support/support.h"

#include "schedule/needs.h"
#include "schedule/restrictions.h"

#include <string.h>

static struct pen_schedule *make_recomputed(const char *name, uint32_t ranks,
                                            uint32_t microbatches)
{
    struct pen_costs costs = unit_costs();
    struct pen_generator_args args = {.ranks = ranks,
                                      .microbatches = microbatches,
                                      .recomputes = true,
                                      .costs = &costs};
    return make_with(name, &args);
}

static void expect_row(const struct pen_schedule *schedule, uint32_t rank,
                       const char *expected)
{
    struct pen_text row = PEN_TEXT_EMPTY;
    compute_row(schedule, rank, &row);
    assert_string_equal(expected, pen_text_string(&row));
    pen_text_release(&row);
}

static const struct pen_op *find(const struct pen_row *row,
                                 enum pen_op_kind kind, uint32_t microbatch)
{
    for (uint32_t i = 0; i < row->count; i++)
        if (row->ops[i].kind == kind && row->ops[i].microbatch == microbatch)
            return &row->ops[i];
    fail_msg("no op of kind %d", (int)kind);
    return NULL;
}

static void recomputation_stands_ahead_of_the_gradient(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make_recomputed("1f1b", 2, 2);
    expect_row(schedule, 0, "0F0 0F1 0R0 0B0 0R1 0B1");
    expect_row(schedule, 1, "1F0 1B0 1F1 1B1");
    const struct pen_op *again = find(&schedule->rows[0], PEN_OP_RECOMPUTE, 1);
    assert_int_equal(PEN_OP_RECV_GRAD, again[1].kind);
    assert_int_equal(PEN_OP_BACKWARD, again[2].kind);
    pen_schedule_free(schedule);
    schedule = make_recomputed("zb-h1", 2, 2);
    expect_row(schedule, 0, "0F0 0F1 0R0 0I0 0W0 0R1 0I1 0W1");
    pen_schedule_free(schedule);
}

static void recomputation_stands_ahead_of_a_group(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make_recomputed("dualpipev", 2, 4);
    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        for (uint32_t i = 0; i < row->count; i++)
            if (row->ops[i].kind == PEN_OP_RECOMPUTE)
                assert_int_equal(0, row->ops[i].group);
    }
    struct pen_costs costs = unit_costs();
    pen_timing_free(time_of(schedule, &costs));
    pen_schedule_free(schedule);
}

static void forwards_know_their_recomputation(void **state)
{
    (void)state;
    struct pen_schedule *made = make_recomputed("1f1b", 2, 3);
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_schedule_print(made, &text);
    struct pen_schedule *parsed = parse(pen_text_string(&text));
    for (uint32_t i = 0; i < 3; i++) {
        const struct pen_row *rows = parsed->rows;
        assert_true(pen_op_is_recomputed(find(&rows[0], PEN_OP_FORWARD, i)));
        assert_false(pen_op_is_recomputed(find(&rows[1], PEN_OP_FORWARD, i)));
    }
    assert_true(pen_row_recomputes(&parsed->rows[0], 0));
    assert_false(pen_row_recomputes(&parsed->rows[1], 1));
    pen_text_release(&text);
    pen_schedule_free(parsed);
    pen_schedule_free(made);
}

static void expect_needs(const struct pen_schedule *schedule, uint32_t rank,
                         struct pen_stage_needs expected)
{
    struct pen_stage_needs found =
        pen_row_count_needs(&schedule->shape, &schedule->rows[rank], rank);
    assert_int_equal(expected.stashes, found.stashes);
    assert_int_equal(expected.holds, found.holds);
    assert_int_equal(expected.inputs, found.inputs);
    assert_int_equal(expected.kept, found.kept);
}

/* One stash serves all forwards and, from R to B, each micro-batch. */
static void one_stash_and_an_input_of_each(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make_recomputed("1f1b", 4, 8);
    for (uint32_t rank = 0; rank < 3; rank++)
        expect_needs(schedule, rank,
                     (struct pen_stage_needs){
                         .stashes = 1, .inputs = 4 - rank, .kept = 4 - rank});
    expect_needs(schedule, 3,
                 (struct pen_stage_needs){.stashes = 1, .inputs = 1});
    pen_schedule_free(schedule);
    schedule = make_recomputed("gpipe", 2, 8);
    expect_needs(
        schedule, 0,
        (struct pen_stage_needs){.stashes = 1, .inputs = 8, .kept = 8});
    pen_schedule_free(schedule);
}

static double peak_of(const struct pen_schedule *schedule, const char *memory,
                      uint32_t rank)
{
    struct pen_costs costs = unit_costs();
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_memory_read(memory, &costs.memory, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    struct pen_timing *timing = time_of(schedule, &costs);
    double peak = timing->ranks[rank].peak;
    pen_timing_free(timing);
    return peak;
}

/* Rank s of 1F1B has p - s inputs; R makes the stash of one of them. */
static void timer_counts_inputs_and_one_stash(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make_recomputed("1f1b", 4, 16);
    for (uint32_t rank = 0; rank < 3; rank++) {
        double inputs = 0.125 * (4 - rank - 1);
        expect_close(1, peak_of(schedule, "f=1,w=-1", rank), "inputs free");
        expect_close(1 + inputs, peak_of(schedule, "f=1,r=0.875,w=-1", rank),
                     "with inputs");
        expect_close(1 + inputs,
                     peak_of(schedule, "f=0.125,r=0.875,w=-1", rank),
                     "with what a forward keeps");
    }
    expect_close(1, peak_of(schedule, "f=1,r=0.875,w=-1", 3), "without R");
    pen_schedule_free(schedule);
}

/*
 *   rank 0   F0 F1 R0 .  B0 B0 R1 B1 B1
 *   rank 1   .  F0 B0 B0 F1 B1 B1          as long as without R
 */
static void timer_fills_the_wait(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    struct pen_schedule *schedule = make_recomputed("1f1b", 2, 2);
    struct pen_timing *timing = time_of(schedule, &costs);
    expect_close(9, timing->makespan_sec, "makespan");
    expect_close(2 * (1 + 1 + 2), timing->ranks[0].busy_sec, "F, R and B");
    expect_close(2 * (1 + 2), timing->ranks[1].busy_sec, "F and B");
    pen_timing_free(timing);
    pen_schedule_free(schedule);
}

static void expect_refused(const char *name, const char *reason)
{
    struct pen_costs costs = unit_costs();
    struct pen_generator_args args = {
        .ranks = 4, .microbatches = 8, .recomputes = true, .costs = &costs};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    assert_int_equal(PEN_INVALID, pen_generator_make(pen_generator_find(name),
                                                     &args, &schedule, &why));
    assert_string_equal(reason, pen_text_string(&why));
    pen_text_release(&why);
}

static void some_schedules_cannot_have_it(void **state)
{
    (void)state;
    expect_refused("bpipe", "bpipe moves stashes to another rank, so that it "
                            "cannot recompute them");
    expect_refused("pipemare",
                   "pipemare has backwards with other weights than their "
                   "forward, so that it cannot recompute them");
}

static void expect_restricted(const struct pen_training_facts *facts,
                              const char *reason)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INVALID, pen_restrictions_check(
                                      facts, PEN_REASON_AND_REMEDY, &why));
    assert_string_equal(reason, pen_text_string(&why));
    pen_text_release(&why);
}

static void training_recomputes_once_and_with_its_weights(void **state)
{
    (void)state;
    struct pen_training_facts facts = {.schedule = "xpipe",
                                       .has_recomputed = true,
                                       .correction = PEN_CORRECTION_ADAM};
    expect_restricted(&facts,
                      "the schedule recomputes stages (R), but xpipe does not "
                      "keep the weights of a forward; use a schedule without "
                      "R");
    facts = (struct pen_training_facts){
        .schedule = "own", .has_recomputed = true, .computes_twice = true};
    expect_restricted(&facts,
                      "--recompute-granularity full: the schedule own "
                      "recomputes whole stages (R) already; leave it out, or "
                      "use a schedule without R");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recomputation_stands_ahead_of_the_gradient),
        cmocka_unit_test(recomputation_stands_ahead_of_a_group),
        cmocka_unit_test(forwards_know_their_recomputation),
        cmocka_unit_test(one_stash_and_an_input_of_each),
        cmocka_unit_test(timer_counts_inputs_and_one_stash),
        cmocka_unit_test(timer_fills_the_wait),
        cmocka_unit_test(some_schedules_cannot_have_it),
        cmocka_unit_test(training_recomputes_once_and_with_its_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
