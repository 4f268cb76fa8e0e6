/*
 * Every rule of the verifier refuses the schedules that break it, and says so
 * in these words. tests/negative holds one file per way to break a rule, with
 * the exact message beside it.
 */
#include "support/support.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

#define FOLDER PEN_SOURCE_DIR "/tests/negative/"

struct negative {
    const char *name; /* of the files; its second letter is the rule */
    struct pen_verify_options options;
};

static const struct negative negatives[] = {
    {.name = "v1_forward_twice"},
    {.name = "v1_forward_missing"},
    {.name = "v1_input_without_weight"},
    {.name = "v1_backward_and_weight"},
    {.name = "v2_backward_before_forward"},
    {.name = "v2_weight_before_input"},
    {.name = "v2_backward_of_evicted"},
    {.name = "v2_load_without_evict"},
    {.name = "v2_recompute_behind_backward"},
    {.name = "v2_recompute_of_evicted"},
    {.name = "v2_receive_behind_consumer"},
    {.name = "v2_send_before_producer"},
    {.name = "v3_receives_swapped"},
    {.name = "v3_send_without_receive"},
    {.name = "v3_receive_without_send"},
    {.name = "v3_send_twice"},
    {.name = "v3_send_to_nobody"},
    {.name = "v4_send_behind_its_answer"},
    {.name = "v4_window_full"},
    {.name = "v5_two_stashes", .options = {.memory_limit = 1}},
    {.name = "v6_backward_of_other_version"},
    {.name = "v6_recompute_of_other_version"},
    {.name = "v6_version_dropped"},
    {.name = "v6_version_from_future"},
    {.name = "v6_step_names_wrong_version"},
    {.name = "v7_sync_too_early"},
    {.name = "v7_step_without_sync", .options = {.needs_sync = true}},
    {.name = "v7_step_before_sync"},
    {.name = "v7_step_too_early"},
    {.name = "v7_step_missing"},
    {.name = "v7_step_twice"},
    {.name = "v7_sync_before_all_copies"},
    {.name = "v8_stage_of_other_rank"},
    {.name = "v8_microbatch_of_other_copy"},
    {.name = "v8_step_of_shared_weights"},
};

static void read_text(const char *name, const char *ending,
                      struct pen_text *out)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    char path[512];
    snprintf(path, sizeof path, FOLDER "%s%s", name, ending);
    if (pen_file_read(path, 1 << 20, out, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
}

static void expect_refusal(const struct negative *negative)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text expected = PEN_TEXT_EMPTY;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_finding finding = {.rule = 0};
    read_text(negative->name, ".txt", &text);
    read_text(negative->name, ".expected", &expected);
    struct pen_schedule *schedule = parse(pen_text_string(&text));
    pen_status status =
        pen_schedule_verify(schedule, &negative->options, &finding, &why);
    unsigned rule = (unsigned)(negative->name[1] - '0');
    pen_text_add_string(&why, "\n"); /* a text file ends in one */
    if (status != PEN_INVALID || finding.rule != rule ||
        strcmp(pen_text_string(&why), pen_text_string(&expected)) != 0)
        fail_msg("%s: expected V%u\n%sfound V%u (%s)\n%s", negative->name, rule,
                 pen_text_string(&expected), finding.rule,
                 pen_status_text(status), pen_text_string(&why));
    pen_schedule_free(schedule);
    pen_text_release(&text);
    pen_text_release(&expected);
    pen_text_release(&why);
}

static void each_rule_refuses_what_breaks_it_in_these_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof negatives / sizeof *negatives; i++)
        expect_refusal(&negatives[i]);
}

static void every_rule_is_broken_by_some_file(void **state)
{
    (void)state;
    unsigned seen = 0;
    for (size_t i = 0; i < sizeof negatives / sizeof *negatives; i++)
        seen |= 1u << (negatives[i].name[1] - '0');
    assert_int_equal((1u << (PEN_VERIFY_RULES + 1)) - 2, seen);
}

/* The two rows that the files in tests/negative were made from. */
static const char good[] =
    "# penstock-schedule 1\n"
    "name 1f1b\n"
    "ranks 2 stages 2 microbatches 2 slices 1 copies 1 placement linear\n"
    "rank 0: 0F0 0SA0 0F1 0SA1 0RG0 0B0 0RG1 0B1 0SYNC 0STEP\n"
    "rank 1: 1RA0 1F0 1B0 1SG0 1RA1 1F1 1B1 1SG1 1SYNC 1STEP\n";

static pen_status verify(const struct pen_schedule *schedule,
                         const struct pen_verify_options *options,
                         struct pen_finding *finding)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen_schedule_verify(schedule, options, finding, &why);
    assert_int_equal(status == PEN_OK, why.length == 0);
    pen_text_release(&why);
    return status;
}

static void the_good_schedule_keeps_all_rules(void **state)
{
    (void)state;
    struct pen_schedule *schedule = parse(good);
    const struct pen_verify_options strict = {
        .send_window = 1, .memory_limit = 2, .needs_sync = true};
    struct pen_finding finding = {.rule = 9};
    assert_int_equal(PEN_OK, verify(schedule, NULL, NULL));
    assert_int_equal(PEN_OK, verify(schedule, &strict, &finding));
    assert_int_equal(0, finding.rule);
    pen_schedule_free(schedule);
}

static void what_one_window_refuses_a_wider_one_accepts(void **state)
{
    (void)state;
    struct pen_text text = PEN_TEXT_EMPTY;
    read_text("v4_window_full", ".txt", &text);
    struct pen_schedule *schedule = parse(pen_text_string(&text));
    const struct pen_verify_options wide = {.send_window = 2};
    assert_int_equal(PEN_INVALID, verify(schedule, NULL, NULL));
    assert_int_equal(PEN_OK, verify(schedule, &wide, NULL));
    pen_schedule_free(schedule);
    pen_text_release(&text);
}

/* Breadth-first holds back a whole chunk on the link that wraps around. */
static void breadth_first_needs_a_window_of_m_over_p(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("breadth-first", 4, 8, 2);
    struct pen_finding finding = {.rule = 0};
    const struct pen_verify_options narrow = {.send_window = 1};
    const struct pen_verify_options wide = {.send_window = 2};
    assert_int_equal(PEN_INVALID, verify(schedule, &narrow, &finding));
    assert_int_equal(4, finding.rule);
    assert_int_equal(PEN_OK, verify(schedule, &wide, NULL));
    pen_schedule_free(schedule);
}

/* All receives first: legal, and every message waits a long time. */
static void a_rank_may_post_all_its_receives_first(void **state)
{
    (void)state;
    const uint32_t m = 70000;
    struct pen_shape shape = {.placement = PEN_PLACEMENT_LINEAR,
                              .num_ranks = 2,
                              .num_stages = 2,
                              .num_copies = 1,
                              .num_microbatches = m,
                              .num_slices = 1};
    struct pen_schedule *schedule = NULL;
    assert_int_equal(PEN_OK,
                     pen_schedule_create("early", &shape, &schedule, NULL));
    static const enum pen_op_kind phases[2][4] = {
        {PEN_OP_FORWARD, PEN_OP_SEND_ACT, PEN_OP_RECV_GRAD, PEN_OP_BACKWARD},
        {PEN_OP_RECV_ACT, PEN_OP_FORWARD, PEN_OP_BACKWARD, PEN_OP_SEND_GRAD}};
    for (uint32_t rank = 0; rank < 2; rank++) {
        for (size_t phase = 0; phase < 4; phase++) {
            for (uint32_t i = 0; i < m; i++)
                pen_schedule_add(schedule, rank,
                                 pen_op_make(phases[rank][phase], rank, i));
        }
        pen_schedule_add(schedule, rank,
                         pen_op_make(PEN_OP_STEP, rank, PEN_OP_NO_MICROBATCH));
    }
    assert_int_equal(PEN_OK, verify(schedule, NULL, NULL));
    struct pen_costs costs = unit_costs();
    struct pen_timing *timing = time_of(schedule, &costs);
    /* Sends follow the last op of their kind, so nothing overlaps. */
    expect_close(m * 6.0, timing->makespan_sec, "makespan");
    pen_timing_free(timing);
    pen_schedule_free(schedule);
}

static void huge_numbers_do_not_overflow(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned rule;
    } cases[] = {
        {"# penstock-schedule 1\nname huge\n"
         "ranks 1 stages 1 microbatches 1 slices 2 copies 1 placement linear\n"
         "rules period 2147483648\n"
         "rank 0: 0F0 0F0.1 0B0.1 0B0 0STEP\n",
         7},
        {"# penstock-schedule 1\nname huge\n"
         "ranks 1 stages 1 microbatches 1 slices 2 copies 1 placement linear\n"
         "rules period 2147483648\n"
         "rank 0: 0F0 0F0.1 0B0.1 0B0\n", /* no STEP is due in this run */
         0},
        {"# penstock-schedule 1\nname huge\n"
         "ranks 1 stages 1 microbatches 4294967294 slices 65536 copies 1 "
         "placement linear\n"
         "rank 0: 0F0 0B0 0STEP\n",
         1},
        {"# penstock-schedule 1\nname huge\n"
         "ranks 2 stages 4 microbatches 4294967294 slices 65536 copies 2 "
         "placement bidirectional\n"
         "rank 0:\nrank 1:\n",
         1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_schedule *schedule = parse(cases[i].text);
        struct pen_finding finding = {.rule = 0};
        verify(schedule, NULL, &finding);
        assert_int_equal(cases[i].rule, finding.rule);
        pen_schedule_free(schedule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_refuses_what_breaks_it_in_these_words),
        cmocka_unit_test(every_rule_is_broken_by_some_file),
        cmocka_unit_test(the_good_schedule_keeps_all_rules),
        cmocka_unit_test(what_one_window_refuses_a_wider_one_accepts),
        cmocka_unit_test(breadth_first_needs_a_window_of_m_over_p),
        cmocka_unit_test(a_rank_may_post_all_its_receives_first),
        cmocka_unit_test(huge_numbers_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
