/*
 * Text and schedule are inverse to each other, and a text that is no schedule
 * is refused at the line and column where it goes wrong.
 */
#include "support/support.h"

#include <string.h>

#define MAGIC "# penstock-schedule 1\n"
#define SHAPE                                                                  \
    "ranks 2 stages 2 microbatches 2 slices 1 copies 1 placement linear\n"
#define ROW0 "rank 0: 0F0 0SA0 0F1 0SA1 0RG0 0B0 0RG1 0B1 0SYNC 0STEP\n"
#define ROW1 "rank 1: 1RA0 1F0 1B0 1SG0 1RA1 1F1 1B1 1SG1 1SYNC 1STEP\n"

static void expect_refusal_of(const char *text, size_t length,
                              const char *expected)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    if (pen_schedule_parse(text, length, &schedule, &why) != PEN_INVALID)
        fail_msg("accepted: %s", text);
    assert_string_equal(expected, pen_text_string(&why));
    assert_null(schedule);
    pen_text_release(&why);
    /* Nobody has to listen. */
    assert_int_equal(PEN_INVALID,
                     pen_schedule_parse(text, length, &schedule, NULL));
}

static void expect_refusal(const char *text, const char *expected)
{
    expect_refusal_of(text, strlen(text), expected);
}

/* A refusal inside the row of rank 0 of a schedule with two slices. */
static void expect_op_refusal(const char *row, size_t column, const char *what)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text expected = PEN_TEXT_EMPTY;
    pen_text_add(&text,
                 MAGIC "name x\nranks 1 stages 2 microbatches 2 slices 2 "
                       "copies 1 placement loop\n%s",
                 row);
    pen_text_add(&expected, "line 4, column %zu (rank 0): %s\n  %s\n  ", column,
                 what, row);
    pen_text_add_repeat(&expected, ' ', column - 1);
    pen_text_add_string(&expected, "^");
    expect_refusal(pen_text_string(&text), pen_text_string(&expected));
    pen_text_release(&text);
    pen_text_release(&expected);
}

static void expect_canonical(const char *text)
{
    struct pen_schedule *schedule = parse(text);
    struct pen_text printed = PEN_TEXT_EMPTY;
    pen_schedule_print(schedule, &printed);
    assert_string_equal(text, pen_text_string(&printed));
    pen_text_release(&printed);
    pen_schedule_free(schedule);
}

static void canonical_text_comes_back_unchanged(void **state)
{
    (void)state;
    expect_canonical(MAGIC "name 1f1b\n" SHAPE ROW0 ROW1);
    expect_canonical(MAGIC "name a-B_9.x\n"
                           "ranks 1 stages 1 microbatches 4294967294 slices "
                           "65536 copies 1 placement linear\n"
                           "rules window 7 versions 2 period 3 stale\n"
                           "rank 0: 0F4294967293.65535@4294967294~65535 "
                           "0STEP@0~1 0EV1 0LD1 0R1\n");
    expect_canonical(MAGIC "name empty\n" SHAPE "rank 0:\nrank 1:\n");
    expect_canonical(MAGIC "name two\n"
                           "ranks 2 stages 4 microbatches 2 slices 1 copies 2 "
                           "placement bidirectional\n"
                           "rules stale\nrank 0: 0F0 3F1\nrank 1: 1F0 2F1\n");
}

static void every_generator_prints_what_parses_to_itself(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        const struct pen_generator *generator = pen_generator_at(i);
        struct pen_generator_args args = {
            .ranks = 4, .microbatches = 8, .costs = &costs};
        struct pen_schedule *schedule = NULL;
        if (pen_generator_make(generator, &args, &schedule, NULL) != PEN_OK)
            continue;
        struct pen_text text = PEN_TEXT_EMPTY;
        pen_schedule_print(schedule, &text);
        struct pen_schedule *again = parse(pen_text_string(&text));
        if (!pen_schedule_equal(schedule, again))
            fail_msg("%s does not come back", generator->name);
        expect_canonical(pen_text_string(&text));
        pen_schedule_free(again);
        pen_schedule_free(schedule);
        pen_text_release(&text);
    }
}

static void blanks_and_comments_are_forgiven(void **state)
{
    (void)state;
    struct pen_schedule *plain = parse(MAGIC "name 1f1b\n" SHAPE ROW0 ROW1);
    struct pen_schedule *loose = parse(
        "# penstock-schedule 1 \r\n\n# by hand\n  name\t1f1b\r\n"
        "ranks  2 stages 2\tmicrobatches 2 slices 1 copies 1 placement linear "
        "\r\n\n"
        "  rank 0:0F0  0SA0 0F1 0SA1 0RG0 0B0 0RG1 0B1 0SYNC 0STEP \r\n"
        "   # between\n" ROW1 "# behind\n\n");
    assert_true(pen_schedule_equal(plain, loose));
    pen_schedule_free(plain);
    pen_schedule_free(loose);
}

static void the_first_line_is_the_magic(void **state)
{
    (void)state;
    const char *what = "a schedule must begin with '# penstock-schedule 1', 2, "
                       "3, 4 or 5, or have "
                       "operations only, a line per rank, as F0 F1 B0 B1";
    struct pen_text expected = PEN_TEXT_EMPTY;
    pen_text_add(&expected, "line 1, column 1: %s\n  \n  ^", what);
    expect_refusal("", pen_text_string(&expected));
    expect_refusal("\n" MAGIC, pen_text_string(&expected));
    pen_text_release(&expected);
    expect_refusal("# penstock-schedule 12\n",
                   "line 1, column 22: unexpected text at the end of the line\n"
                   "  # penstock-schedule 12\n"
                   "                       ^");
    expect_refusal(
        "# penstock-schedul",
        "line 1, column 1: a schedule must begin with '# "
        "penstock-schedule 1', 2, 3, 4 or 5, or have operations only, a line "
        "per rank, as F0 F1 B0 B1\n"
        "  # penstock-schedul\n"
        "  ^");
    expect_refusal_of(
        "\0\x1b\xff", 3,
        "line 1, column 1: a schedule must begin with '# "
        "penstock-schedule 1', 2, 3, 4 or 5, or have operations only, a "
        "line per rank, as F0 F1 B0 B1\n"
        "  ???\n"
        "  ^");
}

/* Rows without a header are the schedule of this header and these rows. */
static void expect_bare(const char *rows, const char *shape, const char *full)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = parse(rows);
    pen_text_add(&text, MAGIC "name own\n%s\n%s", shape, full);
    struct pen_text printed = PEN_TEXT_EMPTY;
    pen_schedule_print(schedule, &printed);
    assert_string_equal(pen_text_string(&text), pen_text_string(&printed));
    pen_schedule_free(schedule);
    pen_text_release(&printed);
    pen_text_release(&text);
}

static void sizes_follow_from_rows_without_a_header(void **state)
{
    (void)state;
    expect_bare("F0 F1 B0 B1\nF0 B0 F1 B1\n",
                "ranks 2 stages 2 microbatches 2 slices 1 copies 1 placement "
                "linear",
                "rank 0: 0F0 0F1 0B0 0B1\nrank 1: 1F0 1B0 1F1 1B1\n");
    expect_bare("\n# mine\n\n  F0  I0\tW0\r\n# end\n",
                "ranks 1 stages 1 microbatches 1 slices 1 copies 1 placement "
                "linear",
                "rank 0: 0F0 0I0 0W0\n");
    expect_bare("rank 0: 0F0 2F0\nrank 1: 1F0 3F0",
                "ranks 2 stages 4 microbatches 1 slices 1 copies 1 placement "
                "loop",
                "rank 0: 0F0 2F0\nrank 1: 1F0 3F0\n");
    expect_bare("0F0 3F0\n1F0 2F0\n",
                "ranks 2 stages 4 microbatches 1 slices 1 copies 1 placement v",
                "rank 0: 0F0 3F0\nrank 1: 1F0 2F0\n");
    expect_bare("F0 F0.1 B0.1 B0 SYNC STEP\n",
                "ranks 1 stages 1 microbatches 1 slices 2 copies 1 placement "
                "linear",
                "rank 0: 0F0 0F0.1 0B0.1 0B0 0SYNC 0STEP\n");
}

static void wrong_rows_without_a_header_are_refused(void **state)
{
    (void)state;
    expect_refusal("F0 1F1\n",
                   "line 1, column 4 (rank 0): the first operation has no "
                   "stage, so none may have one, as F3\n  F0 1F1\n     ^");
    expect_refusal("0F0 F1\n",
                   "line 1, column 5 (rank 0): the first operation has a "
                   "stage, as 0F3, so all of them need one\n  0F0 F1\n"
                   "      ^");
    expect_refusal("F1 B1\n", "no operation is of micro-batch 0; "
                              "micro-batches are counted from 0, as in F0 F1 "
                              "B0 B1");
    expect_refusal("F0 B9\n", "a micro-batch has the number 9, but there are "
                              "only 2 operations; micro-batches are counted "
                              "from 0");
    expect_refusal("0F0\n2F0\n", "line 1, column 1 (rank 0): 3 stages cannot "
                                 "be divided evenly among 2 lines\n  0F0\n"
                                 "  ^");
    expect_refusal("1F0\n0F0\n", "line 1, column 1 (rank 0): stage 1 belongs "
                                 "to rank 1\n  1F0\n  ^");
    expect_refusal("rank 1: F0\n",
                   "line 1, column 1 (rank 0): ranks must be listed in order "
                   "from 0, each once\n  rank 1: F0\n  ^");
    /* All of them, up to a point. */
    expect_refusal("F0 Fx\nZ0 B0\n",
                   "line 1, column 5 (rank 0): expected the number of a "
                   "micro-batch of this schedule\n  F0 Fx\n      ^\n"
                   "line 2, column 1 (rank 1): expected F, B, I, W, R, SA, RA, "
                   "SG, RG, EV, LD, SYNC or STEP\n  Z0 B0\n  ^");
}

static void a_wrong_name_is_refused(void **state)
{
    (void)state;
    const char *what = "a name has 1 to 63 letters, digits, '.', '_' or '-'";
    struct pen_text expected = PEN_TEXT_EMPTY;
    pen_text_add(&expected, "line 2, column 6: %s\n  name a/b\n       ^", what);
    expect_refusal(MAGIC "name a/b\n", pen_text_string(&expected));
    pen_text_clear(&expected);
    pen_text_add(&expected, "line 2, column 5: %s\n  name\n      ^", what);
    expect_refusal(MAGIC "name\n", pen_text_string(&expected));
    pen_text_clear(&expected);
    pen_text_add(&expected,
                 "line 2, column 6: %s\n  name "
                 "01234567890123456789012345678901...\n       ^",
                 what);
    expect_refusal(MAGIC "name 0123456789012345678901234567890123456789012345"
                         "678901234567890123\n",
                   pen_text_string(&expected));
    pen_text_release(&expected);
    expect_refusal(MAGIC "name a b\n",
                   "line 2, column 8: unexpected text at the end of the line\n"
                   "  name a b\n"
                   "         ^");
    expect_refusal(MAGIC "names a\n", "line 2, column 1: expected the word "
                                      "'name'\n  names a\n  ^");
    expect_refusal(MAGIC, "line 1, column 22: expected 'name ...'\n"
                          "  # penstock-schedule 1\n"
                          "                       ^");
}

static void a_wrong_shape_is_refused(void **state)
{
    (void)state;
    const char *number =
        "expected a number in its range, without leading zeros";
    struct pen_text expected = PEN_TEXT_EMPTY;
    pen_text_add(&expected, "line 3, column 7: %s\n  ranks 02\n        ^",
                 number);
    expect_refusal(MAGIC "name x\nranks 02\n", pen_text_string(&expected));
    pen_text_clear(&expected);
    pen_text_add(&expected, "line 3, column 7: %s\n  ranks 65536\n        ^",
                 number);
    expect_refusal(MAGIC "name x\nranks 65536\n", pen_text_string(&expected));
    pen_text_clear(&expected);
    pen_text_add(&expected, "line 3, column 7: %s\n  ranks -1\n        ^",
                 number);
    expect_refusal(MAGIC "name x\nranks -1\n", pen_text_string(&expected));
    pen_text_release(&expected);
    expect_refusal(MAGIC "name x\nranks 2 parts 2\n",
                   "line 3, column 9: expected the word 'stages'\n"
                   "  ranks 2 parts 2\n"
                   "          ^");
    expect_refusal(MAGIC "name x\nranks 2 stages 2 microbatches 2 slices 1 "
                         "copies 1 placement ring\n",
                   "line 3, column 61: a placement is linear, loop, v, wave, "
                   "bidirectional, bidirectional-v or cyclic\n"
                   "  ...s 2 slices 1 copies 1 placement ring\n"
                   "                                     ^");
    expect_refusal(MAGIC "name x\nranks 2 stages 3 microbatches 2 slices 1 "
                         "copies 1 placement linear\n",
                   "line 3, column 1: placement linear on 2 ranks has 2 "
                   "stages, not 3\n"
                   "  ranks 2 stages 3 microbatches 2 ...\n"
                   "  ^");
    expect_refusal(MAGIC "name x\nranks 0 stages 2 microbatches 2 slices 1 "
                         "copies 1 placement loop\n",
                   "line 3, column 1: ranks, stages, microbatches and slices "
                   "must be at least 1\n"
                   "  ranks 0 stages 2 microbatches 2 ...\n"
                   "  ^");
    expect_refusal(MAGIC "name x\n# no more\n",
                   "line 3, column 10: expected 'ranks ...'\n"
                   "  # no more\n"
                   "           ^");
}

static void wrong_rules_are_refused(void **state)
{
    (void)state;
    expect_refusal(MAGIC "name x\n" SHAPE "rules period 2 window 3\n",
                   "line 4, column 16: rules are 'window N', 'versions N', "
                   "'period N' and 'stale', in this order\n"
                   "  rules period 2 window 3\n"
                   "                 ^");
    expect_refusal(MAGIC "name x\n" SHAPE "rules window 0\n",
                   "line 4, column 14: expected a number of at least 1\n"
                   "  rules window 0\n"
                   "               ^");
    expect_refusal(MAGIC "name x\n" SHAPE "rules versions\n",
                   "line 4, column 15: expected a number of at least 1\n"
                   "  rules versions\n"
                   "                ^");
}

static void rows_come_in_order_each_once(void **state)
{
    (void)state;
    expect_refusal(
        MAGIC "name x\n" SHAPE ROW1,
        "line 4, column 1: ranks must be listed in order from 0, each "
        "once\n"
        "  rank 1: 1RA0 1F0 1B0 1SG0 1RA1 1...\n"
        "  ^");
    expect_refusal(MAGIC "name x\n" SHAPE "rank 0: 0F0\n",
                   "line 4, column 12: the text ends before the last rank\n"
                   "  rank 0: 0F0\n"
                   "             ^");
    expect_refusal(MAGIC "name x\n" SHAPE "rank 0:\nrank 1:\nrank 2:\n",
                   "line 6, column 1: unexpected text after the last rank\n"
                   "  rank 2:\n"
                   "  ^");
    expect_refusal(
        MAGIC "name x\n" SHAPE "rank 0 0F0\n",
        "line 4, column 7 (rank 0): expected ':' after the number of "
        "the rank\n"
        "  rank 0 0F0\n"
        "        ^");
    expect_refusal(MAGIC "name x\n" SHAPE "rank 0:\nrow 1:\n",
                   "line 5, column 1: expected the word 'rank'\n"
                   "  row 1:\n"
                   "  ^");
}

static void wrong_ops_are_refused_where_they_go_wrong(void **state)
{
    (void)state;
    const char *stage = "expected the number of a stage of this schedule";
    const char *kind =
        "expected F, B, I, W, R, SA, RA, SG, RG, EV, LD, SYNC or STEP";
    const char *microbatch =
        "expected the number of a micro-batch of this schedule";
    const char *slice = "expected the number of a slice of this schedule";
    const char *space = "expected a space after an op";
    const char *zero =
        "slice 0 and group 0 are the default and must be omitted";
    expect_op_refusal("rank 0: 0F0 F1", 13, stage);
    expect_op_refusal("rank 0: 0F0 2F1", 13, stage);
    expect_op_refusal("rank 0: 00F1", 9, stage);
    expect_op_refusal("rank 0: 99999999999999999999F1", 9, stage);
    expect_op_refusal("rank 0: 0X0", 10, kind);
    expect_op_refusal("rank 0: 0f0", 10, kind);
    expect_op_refusal("rank 0: 0", 10, kind);
    expect_op_refusal("rank 0: 0SAA0", 10, kind);
    expect_op_refusal("rank 0: 0F2", 11, microbatch);
    expect_op_refusal("rank 0: 0F", 11, microbatch);
    expect_op_refusal("rank 0: 0F01", 11, microbatch);
    expect_op_refusal("rank 0: 0F0.2", 13, slice);
    expect_op_refusal("rank 0: 0F0.", 13, slice);
    expect_op_refusal("rank 0: 0F0@", 13, "expected the number of a version");
    expect_op_refusal("rank 0: 0F0~65536", 13,
                      "expected the number of a group");
    expect_op_refusal("rank 0: 0F0~1@1", 14, space);
    expect_op_refusal("rank 0: 0F0,0F1", 12, space);
    expect_op_refusal("rank 0: 0SYNC0", 14, space);
    expect_op_refusal("rank 0: 0STEP.1", 14, space);
    expect_op_refusal("rank 0: 0F0.0", 9, zero);
    expect_op_refusal("rank 0: 0F0 1F1~0", 13, zero);
}

static void a_long_row_is_shown_around_the_place(void **state)
{
    (void)state;
    expect_refusal(MAGIC "name x\n" SHAPE
                         "rank 0: 0F0 0SA0 0F1 0SA1 0RG0 0B0 0RG1 0Q1 0SYNC "
                         "0STEP 0STEP 0STEP 0STEP 0STEP\n",
                   "line 4, column 42 (rank 0): expected F, B, I, W, R, SA, "
                   "RA, SG, RG, EV, LD, SYNC or STEP\n"
                   "  ...F0 0SA0 0F1 0SA1 0RG0 0B0 0RG1 0Q1 0SYNC 0STEP 0STEP "
                   "0STEP 0STEP...\n"
                   "                                     ^");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_text_comes_back_unchanged),
        cmocka_unit_test(every_generator_prints_what_parses_to_itself),
        cmocka_unit_test(blanks_and_comments_are_forgiven),
        cmocka_unit_test(the_first_line_is_the_magic),
        cmocka_unit_test(sizes_follow_from_rows_without_a_header),
        cmocka_unit_test(wrong_rows_without_a_header_are_refused),
        cmocka_unit_test(a_wrong_name_is_refused),
        cmocka_unit_test(a_wrong_shape_is_refused),
        cmocka_unit_test(wrong_rules_are_refused),
        cmocka_unit_test(rows_come_in_order_each_once),
        cmocka_unit_test(wrong_ops_are_refused_where_they_go_wrong),
        cmocka_unit_test(a_long_row_is_shown_around_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
