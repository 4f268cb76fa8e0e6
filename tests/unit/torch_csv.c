/*
 * PyTorch's schedule file is read strictly and written so that it comes back;
 * what it cannot say is refused with the op in the way.
 */
#include "support/support.h"

#include "schedule/torch_csv.h"

#include <string.h>

#define SAMPLES PEN_SOURCE_DIR "/tests/interop/samples/"

static struct pen_schedule *read_csv(const char *text)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    if (pen_torch_csv_parse(text, strlen(text), &schedule, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return schedule;
}

static void expect_refusal(const char *text, const char *expected)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    if (pen_torch_csv_parse(text, strlen(text), &schedule, &why) != PEN_INVALID)
        fail_msg("accepted: %s", text);
    assert_string_equal(expected, pen_text_string(&why));
    assert_null(schedule);
    pen_text_release(&why);
}

static void expect_written(const struct pen_schedule *schedule,
                           const char *expected)
{
    struct pen_text out = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_torch_csv_print(schedule, &out, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    assert_string_equal(expected, pen_text_string(&out));
    pen_text_release(&out);
}

/* The refusal begins with these words. */
static void expect_not_written(struct pen_schedule *schedule,
                               const char *expected)
{
    struct pen_text out = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_torch_csv_print(schedule, &out, &why) != PEN_INVALID)
        fail_msg("written: %s", pen_text_string(&out));
    if (strncmp(expected, pen_text_string(&why), strlen(expected)) != 0)
        fail_msg("expected %s\nfound %s", expected, pen_text_string(&why));
    assert_int_equal(0, out.length);
    pen_text_release(&why);
    pen_schedule_free(schedule);
}

static void expect_placement(const char *text, enum pen_placement_kind kind,
                             const char *torch_class)
{
    struct pen_schedule *schedule = read_csv(text);
    assert_int_equal(kind, schedule->shape.placement);
    assert_string_equal(torch_class, pen_torch_csv_class(schedule));
    pen_schedule_free(schedule);
}

static void the_shape_is_inferred(void **state)
{
    (void)state;
    struct pen_schedule *schedule =
        read_csv("0F0,0F1,,0B0,0B1\n,1F0,1B0,1F1,1B1\n");
    assert_int_equal(2, schedule->shape.num_ranks);
    assert_int_equal(2, schedule->shape.num_stages);
    assert_int_equal(2, schedule->shape.num_microbatches);
    assert_string_equal("imported", schedule->name);
    struct pen_text row = PEN_TEXT_EMPTY;
    compute_row(schedule, 1, &row);
    assert_string_equal("1F0 1B0 1F1 1B1", pen_text_string(&row));
    pen_text_release(&row);
    expect_written(schedule, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    pen_schedule_free(schedule);
}

static void the_rows_show_the_placement(void **state)
{
    (void)state;
    expect_placement("0F0,0B0\n1F0,1B0", PEN_PLACEMENT_LINEAR,
                     "PipelineScheduleMulti");
    expect_placement("0F0,2F0,2B0,0B0\n1F0,3F0,3B0,1B0", PEN_PLACEMENT_LOOP,
                     "PipelineScheduleMulti");
    expect_placement("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0", PEN_PLACEMENT_V,
                     "ZBVZeroBubble");
    expect_placement("0F0,1F0,2F0,2B0,1B0,0B0", PEN_PLACEMENT_LOOP,
                     "PipelineScheduleMulti");
    /* Stage 4 of 6 sits on rank 1 in a loop and in a V. */
    expect_placement("0F0,5F0,5B0,0B0\n4F0,1F0,1B0,4B0\n2F0,3F0,3B0,2B0",
                     PEN_PLACEMENT_V, "ZBVZeroBubble");
}

static void other_placements_are_refused(void **state)
{
    (void)state;
    expect_refusal("0F0,2F0\n1F0,3F0,0B0\n",
                   "row 2, column 3: stage 0 of 4 is not on this row of 2 in a "
                   "loop (row 1) nor in a V\n"
                   "  1F0,3F0,0B0\n"
                   "          ^");
    expect_refusal("1F0\n0F0\n",
                   "row 1, column 1: stage 1 of 2 is not on this row of 2 in a "
                   "loop (row 2) nor in a V\n"
                   "  1F0\n"
                   "  ^");
    expect_refusal(
        "0F0,2F0\n1F0\n",
        "3 stages cannot be divided evenly among 2 rows; each row is a "
        "rank and must have the same number of stages");
    /* A V and a loop mixed: each stage alone would be fine. */
    expect_refusal("0F0,3F0\n1F0,3B0\n",
                   "row 2, column 2: stage 3 of 4 is not on this row of 2 in a "
                   "loop (row 2) nor in a V\n"
                   "  1F0,3B0\n"
                   "      ^");
}

static void line_ends_and_spaces_are_forgiven(void **state)
{
    (void)state;
    struct pen_schedule *plain = read_csv("0F0,0B0\n1F0,1B0\n");
    struct pen_schedule *other = read_csv("0F0 , 0B0,,\r\n, ,\t1F0,1B0 \r\n");
    struct pen_schedule *open = read_csv("0F0,0B0\n1F0,1B0");
    assert_true(pen_schedule_equal(plain, other));
    assert_true(pen_schedule_equal(plain, open));
    pen_schedule_free(plain);
    pen_schedule_free(other);
    pen_schedule_free(open);
}

static void pairs_become_groups_and_come_back(void **state)
{
    (void)state;
    const char *text = "0F0,(0F1;0B0)OVERLAP_F_B,(0F2;0B1)OVERLAP_F_B,0B2\n";
    struct pen_schedule *schedule = read_csv(text);
    struct pen_text row = PEN_TEXT_EMPTY;
    compute_row(schedule, 0, &row);
    assert_string_equal("0F0 0F1~1 0B0~1 0F2~2 0B1~2 0B2",
                        pen_text_string(&row));
    pen_text_release(&row);
    expect_written(schedule, text);
    pen_schedule_free(schedule);
}

static void wrong_cells_name_row_and_column(void **state)
{
    (void)state;
    const char *cell = "expected a cell such as 0F3: stage, F, B, I or W, "
                       "micro-batch";
    const struct {
        const char *text;
        unsigned row, column;
        const char *what;
        const char *excerpt;
    } cases[] = {
        {"", 1, 1, "the file has no ops", "\n  \n  ^"},
        {"\n", 1, 1, "a row is a rank and needs at least one op", "\n  \n  ^"},
        {"0F0\n,,\n", 2, 3, "a row is a rank and needs at least one op",
         "\n  ,,\n  ^"},
        {"0F0\n\n", 2, 1, "a row is a rank and needs at least one op",
         "\n  \n  ^"},
        {"0F0,x", 1, 2, cell, "\n  0F0,x\n      ^"},
        {"00F0", 1, 1, cell, "\n  00F0\n  ^"},
        {"65535F0", 1, 1, cell, "\n  65535F0\n  ^"},
        {"\"0F0\"", 1, 1, cell, "\n  \"0F0\"\n  ^"},
        {"0F01", 1, 1, "expected the number of a micro-batch",
         "\n  0F01\n    ^"},
        {"0F4294967294", 1, 1, "expected the number of a micro-batch",
         "\n  0F4294967294\n    ^"},
        {"0F", 1, 1, "expected the number of a micro-batch", "\n  0F\n    ^"},
        {"0B0x", 1, 1, "expected ',' after a cell", "\n  0B0x\n     ^"},
        {"0F0;0B0", 1, 1, "expected ',' after a cell", "\n  0F0;0B0\n     ^"},
        {"0SEND_F0", 1, 1,
         "expected F, B, I or W: a compute-only file has no communication",
         "\n  0SEND_F0\n   ^"},
        {"0R0", 1, 1,
         "expected F, B, I or W: a compute-only file has no communication",
         "\n  0R0\n   ^"},
        {"(0B0;0F1)OVERLAP_F_B", 1, 1,
         "the first op of an overlapped pair must be an F",
         "\n  (0B0;0F1)OVERLAP_F_B\n   ^"},
        {"(0F1;0I0)OVERLAP_F_B", 1, 1,
         "the second op of an overlapped pair must be a B",
         "\n  (0F1;0I0)OVERLAP_F_B\n       ^"},
        {"(0F1;0B0)OVERLAP", 1, 1, "expected ')OVERLAP_F_B' after the two ops",
         "\n  (0F1;0B0)OVERLAP\n          ^"},
        {"(0F1)OVERLAP_F_B", 1, 1,
         "expected ';' and a B, as in (0F3;7B1)OVERLAP_F_B",
         "\n  (0F1)OVERLAP_F_B\n      ^"},
        {"(0F1;\n0B0)OVERLAP_F_B", 1, 1, cell, "\n  (0F1;\n       ^"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_text expected = PEN_TEXT_EMPTY;
        pen_text_add(&expected, "row %u, column %u: %s%s", cases[i].row,
                     cases[i].column, cases[i].what, cases[i].excerpt);
        expect_refusal(cases[i].text, pen_text_string(&expected));
        pen_text_release(&expected);
    }
}

static void a_lowered_schedule_is_written_without_communication(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", 2, 2, 1);
    expect_written(schedule, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    pen_schedule_free(schedule);
}

#define HEAD(name, shape) "# penstock-schedule 1\nname " name "\n" shape "\n"
#define LINEAR1 "ranks 1 stages 1 microbatches 2 slices 1 copies 1 "

static void what_the_file_cannot_say_is_refused(void **state)
{
    (void)state;
    expect_not_written(
        parse(HEAD("r", LINEAR1 "placement linear") "rank 0: 0F0 0R0 0B0\n"),
        "PyTorch's schedule file cannot express recomputation, so it "
        "cannot contain r; the first such op is 0R0, op 1 of rank 0\n"
        "  rank 0: 0F0 [0R0] 0B0\n"
        "               ^\n");
    expect_not_written(
        parse(HEAD("bpipe", LINEAR1 "placement linear") "rank 0: 0F0 0EV0\n"),
        "PyTorch's schedule file cannot express eviction of a stash, "
        "so it cannot contain bpipe; the first such op is 0EV0, op 1 "
        "of rank 0\n");
    expect_not_written(
        parse(HEAD("slices", "ranks 1 stages 1 microbatches 1 slices 2 copies "
                             "1 placement linear") "rank 0: 0F0 0F0.1\n"),
        "PyTorch's schedule file cannot express token slices, so it "
        "cannot contain slices; the first such op is 0F0.1, op 1 of "
        "rank 0\n");
    expect_not_written(
        parse(HEAD("pipedream", LINEAR1 "placement linear") "rank 0: 0F0@0\n"),
        "PyTorch's schedule file cannot express versions of the "
        "weights, so it cannot contain pipedream; the first such op is "
        "0F0@0, op 0");
    expect_not_written(
        parse(HEAD("late", LINEAR1 "placement linear") "rules period 1\n"
                                                       "rank 0: 0F0\n"),
        "PyTorch's schedule file cannot express versions of the "
        "weights, so it cannot contain late; the first such op is 0F0, "
        "op 0 of rank 0");
    expect_not_written(
        parse(HEAD("chimera",
                   "ranks 2 stages 4 microbatches 2 slices 1 copies "
                   "2 placement bidirectional") "rank 0: 0F0 3RA1 3F1\n"
                                                "rank 1: 1F0 2F1\n"),
        "PyTorch's schedule file cannot express a second copy of the "
        "model, so it cannot contain chimera; the first such op is "
        "3F1, op 2 of rank 0");
    expect_not_written(
        parse(HEAD("hanayo", "ranks 1 stages 4 microbatches 1 slices 1 copies "
                             "1 placement wave") "rank 0: 0F0 1F0 2F0 3F0\n"),
        "PyTorch's schedule file cannot express a wave of more than "
        "one V, so it cannot contain hanayo; the first such op is 2F0, "
        "op 2 of rank 0");
    expect_not_written(
        parse(
            HEAD("twins", LINEAR1 "placement linear") "rank 0: 0F0~1 0F1~1\n"),
        "PyTorch's schedule file cannot express ops that overlap other "
        "than one F and one B, so it cannot contain twins; the first "
        "such op is 0F0~1, op 0 of rank 0\n");
    expect_not_written(
        parse(HEAD("three",
                   LINEAR1 "placement linear") "rank 0: 0F0~1 0B0~1 0F1~1\n"),
        "PyTorch's schedule file cannot express ops that overlap other "
        "than one F and one B, so it cannot contain three; the first "
        "such op is 0F0~1, op 0 of rank 0\n");
}

static void a_wave_of_one_v_is_a_v(void **state)
{
    (void)state;
    struct pen_schedule *schedule = parse(
        HEAD("hanayo", "ranks 2 stages 4 microbatches 1 slices 1 copies 1 "
                       "placement wave") "rank 0: 0F0 3F0 3B0 0B0\n"
                                         "rank 1: 1F0 2F0 2B0 1B0\n");
    assert_string_equal("ZBVZeroBubble", pen_torch_csv_class(schedule));
    expect_written(schedule, "0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n");
    pen_schedule_free(schedule);
}

static void two_copies_have_no_class(void **state)
{
    (void)state;
    struct pen_schedule *schedule = parse(
        HEAD("chimera", "ranks 2 stages 4 microbatches 2 slices 1 copies 2 "
                        "placement bidirectional") "rank 0:\nrank 1:\n");
    assert_null(pen_torch_csv_class(schedule));
    pen_schedule_free(schedule);
}

/* Reads, lowers, verifies; PEN_OK only when all three agree. */
static pen_status judge(const char *name, struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_schedule *compute = NULL;
    struct pen_schedule *lowered = NULL;
    const struct pen_verify_options options = {.send_window = 0};
    pen_text_add(&path, SAMPLES "%s", name);
    pen_status status =
        pen_schedule_load(pen_text_string(&path), &compute, why);
    if (status == PEN_OK)
        status = pen_schedule_lower(compute, &lowered, why);
    if (status == PEN_OK)
        status = pen_schedule_verify(lowered, &options, NULL, why);
    pen_schedule_free(compute);
    pen_schedule_free(lowered);
    pen_text_release(&path);
    return status;
}

static void samples_are_judged_as_pytorch_judges_them(void **state)
{
    (void)state;
    static const char *const good[] = {
        "1f1b_p2.csv", "zb_p2.csv",        "v_p2.csv",      "overlap_p2.csv",
        "zbv_p4.csv",  "dualpipev_p4.csv", "int1f1b_p4.csv"};
    static const char *const bad[] = {"neg_dead.csv", "neg_nowgrad.csv"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct pen_text why = PEN_TEXT_EMPTY;
        if (judge(good[i], &why) != PEN_OK)
            fail_msg("%s: %s", good[i], pen_text_string(&why));
        pen_text_release(&why);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pen_text why = PEN_TEXT_EMPTY;
        if (judge(bad[i], &why) != PEN_INVALID)
            fail_msg("%s was accepted", bad[i]);
        assert_true(why.length > 0);
        pen_text_release(&why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shape_is_inferred),
        cmocka_unit_test(the_rows_show_the_placement),
        cmocka_unit_test(other_placements_are_refused),
        cmocka_unit_test(line_ends_and_spaces_are_forgiven),
        cmocka_unit_test(pairs_become_groups_and_come_back),
        cmocka_unit_test(wrong_cells_name_row_and_column),
        cmocka_unit_test(a_lowered_schedule_is_written_without_communication),
        cmocka_unit_test(what_the_file_cannot_say_is_refused),
        cmocka_unit_test(a_wave_of_one_v_is_a_v),
        cmocka_unit_test(two_copies_have_no_class),
        cmocka_unit_test(samples_are_judged_as_pytorch_judges_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
