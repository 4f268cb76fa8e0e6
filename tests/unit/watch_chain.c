/*
 * A chain of waits is followed to its root, whatever is known of the ranks:
 * stopped, busy, in a collective, in a circle, on another node.
 */
#include "support/support.h"

#include "watch/wait_chain.h"

#include <string.h>

enum { STAGES = 4, MICROBATCHES = 4 };

#define SEC INT64_C(1000000000)

static struct pen__rank_view at(uint32_t rank, uint32_t position,
                                enum pen_board_state state, uint32_t waits_for,
                                char process)
{
    return (struct pen__rank_view){.entry = {.rank = rank,
                                             .row = rank % STAGES,
                                             .pid = 1,
                                             .step = 7,
                                             .position = position,
                                             .state = state,
                                             .waits_for = waits_for,
                                             .since_ns = 6 * SEC},
                                   .process = {.state = process}};
}

/* Position of an op in its row, by its text. */
static uint32_t find(const struct pen_schedule *schedule, uint32_t row,
                     const char *text)
{
    struct pen_text name = PEN_TEXT_EMPTY;
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < schedule->rows[row].count; i++) {
        pen_text_clear(&name);
        pen_op_print(&schedule->rows[row].ops[i], &name);
        if (strcmp(pen_text_string(&name), text) == 0)
            found = i;
    }
    pen_text_release(&name);
    if (found == UINT32_MAX)
        fail_msg("row %u has no %s", row, text);
    return found;
}

static void expect_told(struct pen_schedule *schedule,
                        struct pen__rank_view *ranks, uint32_t count,
                        uint32_t local_rank, const char *expected)
{
    struct pen_text told = PEN_TEXT_EMPTY;
    struct pen__node_view view = {.schedule = schedule,
                                  .host = "a1",
                                  .now_ns = 10 * SEC,
                                  .num_ranks = count,
                                  .ranks = ranks};
    pen__wait_describe(&view, local_rank, &told);
    assert_string_equal(pen_text_string(&told), expected);
    pen_text_release(&told);
}

static void a_chain_ends_at_the_busy_rank(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", STAGES, MICROBATCHES, 1);
    struct pen__rank_view ranks[] = {
        at(0, find(schedule, 0, "0F1"), PEN_BOARD_COMPUTING, PEN_BOARD_NOBODY,
           'R'),
        at(1, find(schedule, 1, "1F1"), PEN_BOARD_WAITING, 0, 'S'),
        at(2, find(schedule, 2, "2F1"), PEN_BOARD_WAITING, 1, 'S'),
    };
    expect_told(schedule, ranks, 3, 2,
                "rank 2 on a1 has waited 4.0 s in 2F1 of step 7 (forward of "
                "stage 2, micro-batch 1) for rank 1, which waits in 1F1 for "
                "rank 0; root of the wait: rank 0 on a1 has been in 0F1 of "
                "step 7 for 4.0 s, state running (forward of stage 0, "
                "micro-batch 1)");
    expect_told(schedule, ranks, 3, 0,
                "root of the wait: rank 0 on a1 has been in 0F1 of step 7 for "
                "4.0 s, state running (forward of stage 0, micro-batch 1)");
    pen_schedule_free(schedule);
}

/* It was waiting when it was stopped, for somebody who has long answered. */
static void a_stopped_rank_is_the_root_even_if_it_waits(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", STAGES, MICROBATCHES, 1);
    struct pen__rank_view ranks[] = {
        at(4, find(schedule, 0, "0B0"), PEN_BOARD_WAITING, 5, 'S'),
        at(5, find(schedule, 1, "1F2"), PEN_BOARD_WAITING, 4, 'T'),
    };
    expect_told(schedule, ranks, 2, 0,
                "rank 4 on a1 has waited 4.0 s in 0B0 of step 7 (backward of "
                "stage 0, micro-batch 0) for rank 5; root of the wait: rank 5 "
                "on a1 has been in 1F2 of step 7 for 4.0 s, state stopped "
                "(forward of stage 1, micro-batch 2)");
    pen_schedule_free(schedule);
}

static void in_a_collective_the_last_is_the_root(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", STAGES, MICROBATCHES, 1);
    uint32_t sync = find(schedule, 0, "0SYNC");
    struct pen__rank_view ranks[] = {
        at(0, sync, PEN_BOARD_COLLECTIVE, PEN_BOARD_NOBODY, 'S'),
        at(4, find(schedule, 0, "0B3"), PEN_BOARD_COMPUTING, PEN_BOARD_NOBODY,
           'R'),
        at(5, find(schedule, 1, "1B1"), PEN_BOARD_COMPUTING, PEN_BOARD_NOBODY,
           'D'),
        at(6, 0, PEN_BOARD_WAITING, 5, 'S'),
    };
    expect_told(
        schedule, ranks, 4, 0,
        "rank 0 on a1 has waited 4.0 s in 0SYNC of step 7 (gradient "
        "synchronisation of stage 0) for all to come, rank 5 being "
        "the least advanced; root of the wait: rank 5 on a1 has been in "
        "1B1 of step 7 for 4.0 s, state in a system call that does not "
        "return (backward of stage 1, micro-batch 1)");
    /* An earlier step counts more than an earlier op. */
    ranks[1].entry.step = 6;
    struct pen__node_view view = {.schedule = schedule,
                                  .host = "a1",
                                  .now_ns = 10 * SEC,
                                  .num_ranks = 4,
                                  .ranks = ranks};
    assert_int_equal(pen__wait_root(&view, 0).local_rank, 1);
    /* Stopped counts more than that. */
    ranks[3].process.state = 'T';
    assert_int_equal(pen__wait_root(&view, 0).local_rank, 3);
    /* Who has finished is not waited for. */
    ranks[3].entry.state = PEN_BOARD_FINISHED;
    assert_int_equal(pen__wait_root(&view, 0).local_rank, 1);
    pen_schedule_free(schedule);
}

static void of_another_node_the_schedule_tells_the_op(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", STAGES, MICROBATCHES, 1);
    struct pen__rank_view ranks[] = {
        at(6, find(schedule, 2, "2RA1"), PEN_BOARD_WAITING, 5, 'S'),
        at(7, find(schedule, 3, "3SYNC"), PEN_BOARD_COLLECTIVE,
           PEN_BOARD_NOBODY, 'S'),
    };
    expect_told(
        schedule, ranks, 2, 0,
        "rank 6 on a1 has waited 4.0 s in 2RA1 of step 7 (receive of "
        "an activation of stage 2, micro-batch 1) for rank 5; root of "
        "the wait: rank 5 or a rank that it waits for, on another node; it "
        "has not reached 1SA1 (send of an activation of stage 1, "
        "micro-batch 1)");
    ranks[0].entry.state = PEN_BOARD_COLLECTIVE;
    expect_told(schedule, ranks, 2, 1,
                "rank 7 on a1 has waited 4.0 s in 3SYNC of step 7 (gradient "
                "synchronisation of stage 3) for all to come; root of the "
                "wait: a rank of another node that has not come");
    ranks[0] = at(6, find(schedule, 2, "2SG1"), PEN_BOARD_WAITING, 5, 'S');
    expect_told(
        schedule, ranks, 1, 0,
        "rank 6 on a1 has waited 4.0 s in 2SG1 of step 7 (send of a "
        "gradient of stage 2, micro-batch 1) for rank 5; root of the "
        "wait: rank 5 or a rank that it waits for, on another node; it has "
        "not reached 1RG1 (receive of a gradient of stage 1, "
        "micro-batch 1)");
    pen_schedule_free(schedule);
}

static void a_circle_is_told_as_one(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", STAGES, MICROBATCHES, 1);
    struct pen__rank_view ranks[] = {
        at(0, find(schedule, 0, "0B0"), PEN_BOARD_WAITING, 1, 'S'),
        at(1, find(schedule, 1, "1F3"), PEN_BOARD_WAITING, 0, 'S'),
    };
    expect_told(schedule, ranks, 2, 0,
                "rank 0 on a1 has waited 4.0 s in 0B0 of step 7 (backward of "
                "stage 0, micro-batch 0) for rank 1, which waits in 1F3 for "
                "rank 0; root of the wait: none, rank 0 waits for ranks that "
                "wait for it");
    pen_schedule_free(schedule);
}

static int64_t moved_ns(struct pen_schedule *schedule,
                        struct pen__rank_view *ranks, uint32_t count)
{
    struct pen__node_view view = {.schedule = schedule,
                                  .host = "a1",
                                  .now_ns = 10 * SEC,
                                  .num_ranks = count,
                                  .ranks = ranks};
    return pen__wait_root(&view, 0).moved_ns;
}

/* Those who waited for it may not have noticed yet that it moved. */
static void a_chain_moves_with_each_of_its_ranks(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", STAGES, MICROBATCHES, 1);
    uint32_t end = schedule->rows[0].count - 1;
    struct pen__rank_view circle[] = {
        at(0, find(schedule, 0, "0B0"), PEN_BOARD_WAITING, 1, 'S'),
        at(1, find(schedule, 1, "1F1"), PEN_BOARD_WAITING, 0, 'S'),
    };
    assert_int_equal(moved_ns(schedule, circle, 2), 6 * SEC);
    circle[1].entry.since_ns = 9 * SEC;
    assert_int_equal(moved_ns(schedule, circle, 2), 9 * SEC);
    struct pen__rank_view all[] = {
        at(0, end, PEN_BOARD_COLLECTIVE, PEN_BOARD_NOBODY, 'S'),
        at(1, end, PEN_BOARD_COLLECTIVE, PEN_BOARD_NOBODY, 'S'),
        at(2, end, PEN_BOARD_COLLECTIVE, PEN_BOARD_NOBODY, 'S'),
    };
    assert_int_equal(moved_ns(schedule, all, 3), 6 * SEC);
    all[2].entry.since_ns = 8 * SEC;
    assert_int_equal(moved_ns(schedule, all, 3), 8 * SEC);
    struct pen__rank_view busy[] = {
        at(0, find(schedule, 0, "0B0"), PEN_BOARD_WAITING, 1, 'S'),
        at(1, find(schedule, 1, "1F1"), PEN_BOARD_COMPUTING, PEN_BOARD_NOBODY,
           'R'),
        at(2, find(schedule, 2, "2F1"), PEN_BOARD_WAITING, 1, 'S'),
    };
    busy[2].entry.since_ns = 9 * SEC; /* not on the way */
    assert_int_equal(moved_ns(schedule, busy, 3), 6 * SEC);
    pen_schedule_free(schedule);
}

static void a_long_chain_is_told_in_short(void **state)
{
    (void)state;
    enum { LONG = 32 };
    struct pen_schedule *schedule = make("1f1b", LONG, LONG, 1);
    struct pen__rank_view ranks[LONG];
    struct pen_text told = PEN_TEXT_EMPTY;
    for (uint32_t i = 0; i < LONG; i++)
        ranks[i] = at(i, 0, i == 0 ? PEN_BOARD_SAVING : PEN_BOARD_WAITING,
                      i == 0 ? PEN_BOARD_NOBODY : i - 1, 'S');
    struct pen__node_view view = {.schedule = schedule,
                                  .host = "a1",
                                  .now_ns = 10 * SEC,
                                  .num_ranks = LONG,
                                  .ranks = ranks};
    pen__wait_describe(&view, LONG - 1, &told);
    assert_non_null(strstr(pen_text_string(&told), "for rank 26, and so on; "));
    assert_non_null(strstr(pen_text_string(&told), "root of the wait: rank 0"));
    assert_true(told.length < 1024);
    pen_text_release(&told);
    pen_schedule_free(schedule);
}

static void outside_a_row_there_is_no_op(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", STAGES, MICROBATCHES, 1);
    struct pen__rank_view rank =
        at(1, PEN_BOARD_NO_OP, PEN_BOARD_SAVING, PEN_BOARD_NOBODY, 'S');
    struct pen_text told = PEN_TEXT_EMPTY;
    pen__place_describe(schedule, &rank.entry, &told);
    assert_string_equal(pen_text_string(&told), "at step 7 (saving)");
    pen_text_clear(&told);
    rank.entry.step = 0;
    rank.entry.state = PEN_BOARD_JOINING;
    pen__place_describe(NULL, &rank.entry, &told);
    assert_string_equal(pen_text_string(&told),
                        "during start-up (in MPI_Init)");
    pen_text_release(&told);
    pen_schedule_free(schedule);
}

static struct pen__rank_view starting(uint32_t rank, enum pen_board_state state,
                                      char process)
{
    struct pen__rank_view view =
        at(rank, PEN_BOARD_NO_OP, state, PEN_BOARD_NOBODY, process);
    view.entry.step = 0;
    return view;
}

/* Before there is a schedule. */
static void in_start_up_the_earliest_is_the_root(void **state)
{
    (void)state;
    struct pen__rank_view ranks[] = {starting(0, PEN_BOARD_JOINING, 'R'),
                                     starting(1, PEN_BOARD_STARTING, 'S'),
                                     starting(2, PEN_BOARD_LOADING, 'D')};
    expect_told(NULL, ranks, 3, 0,
                "rank 0 on a1 has waited 4.0 s during start-up (in MPI_Init) "
                "for all to come, rank 1 being the least advanced; root of the "
                "wait: rank 1 on a1 has been starting for 4.0 s, state "
                "sleeping");
    ranks[1].entry.state = PEN_BOARD_JOINING;
    expect_told(NULL, ranks, 3, 0,
                "rank 0 on a1 has waited 4.0 s during start-up (in MPI_Init) "
                "for all to come, rank 2 being the least advanced; root of the "
                "wait: rank 2 on a1 has been loading the model and the data "
                "for 4.0 s, state in a system call that does not return");
}

/* It computes, and has not noticed yet. */
static void a_rank_that_does_not_wait_names_the_stopped_one(void **state)
{
    (void)state;
    struct pen__rank_view ranks[] = {starting(0, PEN_BOARD_LOADING, 'R'),
                                     starting(1, PEN_BOARD_LOADING, 'T')};
    expect_told(NULL, ranks, 2, 0,
                "root of the wait: rank 1 on a1 has been loading the model and "
                "the data for 4.0 s, state stopped");
    ranks[1].entry.state = PEN_BOARD_FINISHED;
    expect_told(NULL, ranks, 2, 0,
                "root of the wait: rank 0 on a1 has been loading the model and "
                "the data for 4.0 s, state running");
}

/* No rank of another node is to blame where there is none. */
static void on_one_node_no_other_node_is_named(void **state)
{
    (void)state;
    struct pen_text told = PEN_TEXT_EMPTY;
    struct pen__rank_view ranks[] = {
        at(0, PEN_BOARD_NO_OP, PEN_BOARD_COLLECTIVE, PEN_BOARD_NOBODY, 'S'),
        at(1, PEN_BOARD_NO_OP, PEN_BOARD_COLLECTIVE, PEN_BOARD_NOBODY, 'S')};
    uint32_t chain[2];
    struct pen__node_view view = {.host = "a1",
                                  .now_ns = 10 * SEC,
                                  .num_ranks = 2,
                                  .ranks = ranks,
                                  .is_whole_job = true,
                                  .chain = chain};
    pen__wait_describe(&view, 1, &told);
    assert_string_equal(
        pen_text_string(&told),
        "rank 1 on a1 has waited 4.0 s at step 7 (in a collective operation) "
        "for all to come; root of the wait: none, all ranks have come and none "
        "of them continues");
    struct pen__root root = pen__wait_root(&view, 1);
    assert_int_equal(root.kind, PEN__ROOT_ALL);
    assert_int_equal(root.num_chain, 2);
    ranks[0].entry.state = PEN_BOARD_FINISHED;
    pen_text_clear(&told);
    pen__wait_describe(&view, 1, &told);
    assert_string_equal(
        pen_text_string(&told),
        "rank 1 on a1 has waited 4.0 s at step 7 (in a collective operation) "
        "for all to come; root of the wait: rank 0 on a1 has left the job");
    pen_text_release(&told);
}

static void expect_end(const char *stat, char letter, const char *words)
{
    struct pen_text end = PEN_TEXT_EMPTY;
    struct pen__process process = pen__process_parse(stat);
    pen__process_add_end(&process, &end);
    assert_int_equal(process.state, letter);
    assert_string_equal(pen_text_string(&end), words);
    pen_text_release(&end);
}

static void the_kernel_tells_state_and_end(void **state)
{
    (void)state;
#define FIELDS_4_TO_51                                                         \
    "1 1 1 0 -1 4228108 87 0 0 0 0 0 0 0 20 0 1 0 400 0 0 1844674407370955 "   \
    "0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 "
    expect_end("12 (penstock) Z " FIELDS_4_TO_51 "9\n", 'Z', "signal 9");
    expect_end("12 (a) b) Z " FIELDS_4_TO_51 "256\n", 'Z', "exit code 1");
    expect_end("12 (penstock) R " FIELDS_4_TO_51 "0\n", 'R',
               "signal or exit unknown");
    expect_end("12 (penstock) T 1 1", 'T', "signal or exit unknown");
    expect_end("12 (penstock", 0, "signal or exit unknown");
    expect_end("12 (penstock) ", 0, "signal or exit unknown");
    expect_end("", 0, "signal or exit unknown");
    assert_int_equal(
        pen__process_parse("12 (penstock) R " FIELDS_4_TO_51 "0\n").start, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_ends_at_the_busy_rank),
        cmocka_unit_test(a_stopped_rank_is_the_root_even_if_it_waits),
        cmocka_unit_test(in_a_collective_the_last_is_the_root),
        cmocka_unit_test(of_another_node_the_schedule_tells_the_op),
        cmocka_unit_test(a_circle_is_told_as_one),
        cmocka_unit_test(a_chain_moves_with_each_of_its_ranks),
        cmocka_unit_test(a_long_chain_is_told_in_short),
        cmocka_unit_test(outside_a_row_there_is_no_op),
        cmocka_unit_test(in_start_up_the_earliest_is_the_root),
        cmocka_unit_test(a_rank_that_does_not_wait_names_the_stopped_one),
        cmocka_unit_test(on_one_node_no_other_node_is_named),
        cmocka_unit_test(the_kernel_tells_state_and_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
