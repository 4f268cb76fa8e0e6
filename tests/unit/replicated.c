/*
 * Stages with ranks of their own: where they are, who does which micro-batch,
 * and 1F1B on them.
 */
#include "support/support.h"

#include <string.h>

/* All lists of up to 4 stages with up to 4 ranks each. */
enum { MOST_PARTS = 4, MOST_REPLICAS = 4 };

typedef void visit(const uint32_t *replicas, uint32_t num_parts);

static void for_each_list(visit *hook)
{
    uint32_t replicas[MOST_PARTS];
    for (uint32_t parts = 1; parts <= MOST_PARTS; parts++) {
        uint32_t count = 1;
        for (uint32_t i = 0; i < parts; i++)
            count *= MOST_REPLICAS;
        for (uint32_t number = 0; number < count; number++) {
            uint32_t left = number;
            for (uint32_t i = 0; i < parts; i++, left /= MOST_REPLICAS)
                replicas[i] = 1 + left % MOST_REPLICAS;
            hook(replicas, parts);
        }
    }
}

static struct pen_shape shape_of(const uint32_t *replicas, uint32_t num_parts,
                                 uint32_t rounds)
{
    struct pen_shape shape = {.num_slices = 1};
    assert_int_equal(PEN_OK,
                     pen_shape_replicate(&shape, replicas, num_parts, NULL));
    shape.num_microbatches = rounds * shape.num_copies;
    assert_int_equal(PEN_OK, pen_shape_check(&shape, NULL));
    return shape;
}

/* Every rank has one part; its stages and its copies lead to each other. */
static void check_places(const uint32_t *replicas, uint32_t num_parts)
{
    struct pen_shape shape = shape_of(replicas, num_parts, 2);
    uint32_t first = 0;
    assert_int_equal(num_parts, pen_shape_parts(&shape));
    for (uint32_t part = 0; part < num_parts; part++) {
        assert_int_equal(replicas[part], pen_shape_members(&shape, part));
        assert_int_equal(0, shape.num_copies % replicas[part]);
        uint32_t stages = 0;
        for (uint32_t k = 0; k < replicas[part]; k++) {
            uint32_t rank = first + k;
            uint32_t keeper = PEN_NO_STAGE;
            for (uint32_t copy = 0; copy < shape.num_copies; copy++) {
                uint32_t stage = pen_shape_stage_at(&shape, rank, copy, 0);
                if (stage == PEN_NO_STAGE)
                    continue;
                keeper = keeper == PEN_NO_STAGE ? stage : keeper;
                stages++;
                assert_int_equal(rank, pen_shape_rank_of(&shape, stage));
                assert_int_equal(part, pen_shape_part_of_stage(&shape, stage));
                assert_int_equal(copy, pen_shape_copy_of_stage(&shape, stage));
                assert_int_equal(k, pen_shape_member_of_stage(&shape, stage));
                assert_int_equal(keeper, pen_shape_keeper(&shape, stage));
                assert_int_equal(shape.num_copies / replicas[part],
                                 pen_shape_users(&shape, stage));
            }
        }
        assert_int_equal(shape.num_copies, stages);
        first += replicas[part];
    }
    assert_int_equal(shape.num_ranks, first);
}

static void ranks_and_stages_lead_to_each_other(void **state)
{
    (void)state;
    for_each_list(check_places);
}

static struct pen_schedule *make_replicated(const uint32_t *replicas,
                                            uint32_t num_parts, uint32_t rounds)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_costs costs = unit_costs();
    struct pen_shape shape = shape_of(replicas, num_parts, rounds);
    struct pen_schedule *schedule = NULL;
    const struct pen_generator_args args = {.ranks = shape.num_ranks,
                                            .microbatches =
                                                shape.num_microbatches,
                                            .replicas = replicas,
                                            .num_replicated = num_parts,
                                            .costs = &costs};
    if (pen_generator_make(pen_generator_find("1f1b"), &args, &schedule,
                           &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    return schedule;
}

/* Of the ops of one kind, how many does a rank of a part have? */
static uint32_t count_ops(const struct pen_row *row, enum pen_op_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < row->count; i++)
        count += row->ops[i].kind == kind;
    return count;
}

/* The verifier wants each micro-batch of each part once; ranks share evenly. */
static void check_schedule(const uint32_t *replicas, uint32_t num_parts)
{
    for (uint32_t rounds = 1; rounds <= 3; rounds++) {
        struct pen_text why = PEN_TEXT_EMPTY;
        struct pen_schedule *schedule =
            make_replicated(replicas, num_parts, rounds);
        const struct pen_shape *shape = &schedule->shape;
        const struct pen_verify_options strict = {.needs_sync = true};
        if (pen_schedule_verify(schedule, &strict, NULL, &why) != PEN_OK)
            fail_msg("%s", pen_text_string(&why));
        for (uint32_t rank = 0; rank < shape->num_ranks; rank++) {
            const struct pen_row *row = &schedule->rows[rank];
            uint32_t part = pen_shape_part_of_stage(shape, row->ops[0].stage);
            uint32_t share = shape->num_microbatches / replicas[part];
            assert_int_equal(share, count_ops(row, PEN_OP_FORWARD));
            assert_int_equal(share, count_ops(row, PEN_OP_BACKWARD));
            assert_int_equal(1, count_ops(row, PEN_OP_SYNC_GRAD));
            assert_int_equal(1, count_ops(row, PEN_OP_STEP));
        }
        pen_schedule_free(schedule);
    }
}

static void every_micro_batch_of_a_stage_is_done_once(void **state)
{
    (void)state;
    for_each_list(check_schedule);
}

static void with_one_rank_each_it_is_1f1b(void **state)
{
    (void)state;
    const uint32_t ones[] = {1, 1, 1, 1};
    struct pen_schedule *plain = make("1f1b", 4, 8, 0);
    struct pen_schedule *other = make_replicated(ones, 4, 8);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(plain->rows[rank].count, other->rows[rank].count);
        for (uint32_t i = 0; i < plain->rows[rank].count; i++) {
            assert_int_equal(plain->rows[rank].ops[i].kind,
                             other->rows[rank].ops[i].kind);
            assert_int_equal(plain->rows[rank].ops[i].microbatch,
                             other->rows[rank].ops[i].microbatch);
        }
    }
    pen_schedule_free(plain);
    pen_schedule_free(other);
}

/* One stage takes 3 s, the other 1 s: three ranks for one keep up. */
static void a_stage_that_takes_longer_gets_more_ranks(void **state)
{
    (void)state;
    const uint32_t replicas[] = {3, 1};
    struct pen_cost items[2];
    for (int i = 0; i < 2; i++)
        items[i] = (struct pen_cost){.forward_sec = i == 0 ? 3 : 1,
                                     .input_sec = i == 0 ? 3 : 1,
                                     .weight_sec = i == 0 ? 3 : 1,
                                     .recompute_sec = -1,
                                     .pair_sec = -1,
                                     .memory = -1};
    struct pen_costs costs = unit_costs();
    costs.scope = PEN_COST_PER_STAGE;
    costs.items = items;
    costs.num_items = 2;
    struct pen_schedule *schedule = make_replicated(replicas, 2, 32);
    struct pen_timing *timing = time_of(schedule, &costs);
    /* 96 micro-batches of 3 s on the last rank; the first waits for a forward,
     * the last backward goes on for 6 s. */
    assert_true(timing->makespan_sec >= 96 * 3 + 3);
    assert_true(timing->makespan_sec <= 96 * 3 + 3 + 3 * 9);
    pen_timing_free(timing);
    pen_schedule_free(schedule);
}

static void the_text_form_keeps_them(void **state)
{
    (void)state;
    const uint32_t replicas[] = {2, 1, 4};
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = make_replicated(replicas, 3, 2);
    pen_schedule_print(schedule, &text);
    assert_non_null(strstr(
        pen_text_string(&text),
        "# penstock-schedule 4\nname 1f1b\nranks 7 stages 12 "
        "microbatches 8 slices 1 copies 4 placement replicated 2,1,4\n"));
    struct pen_schedule *again = parse(pen_text_string(&text));
    assert_true(pen_schedule_equal(schedule, again));
    pen_schedule_free(again);
    pen_schedule_free(schedule);
    pen_text_release(&text);
}

static void expect_refused(const char *text, const char *words)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    assert_int_equal(PEN_INVALID,
                     pen_schedule_parse(text, strlen(text), &schedule, &why));
    if (strstr(pen_text_string(&why), words) == NULL)
        fail_msg("expected '%s' in '%s'", words, pen_text_string(&why));
    pen_text_release(&why);
}

static void other_numbers_are_refused(void **state)
{
    (void)state;
    static const char head[] = "# penstock-schedule 4\nname x\n";
    static const struct {
        const char *line;
        const char *words;
    } cases[] = {
        {"ranks 4 stages 6 microbatches 3 slices 1 copies 3 placement "
         "replicated\n",
         "as 3,1"},
        {"ranks 4 stages 6 microbatches 3 slices 1 copies 3 placement "
         "replicated 3,0\n",
         "as 3,1"},
        {"ranks 4 stages 6 microbatches 3 slices 1 copies 3 placement "
         "replicated 3,1,\n",
         "as 3,1"},
        {"ranks 4 stages 6 microbatches 3 slices 1 copies 3 placement "
         "replicated 3;1\n",
         "as 3,1"},
        {"ranks 4 stages 6 microbatches 3 slices 1 copies 3 placement "
         "replicated 99999999999,1\n",
         "as 3,1"},
        {"ranks 4 stages 6 microbatches 3 slices 1 copies 3 placement "
         "replicated 65535,65535\n",
         "least common multiple"},
        {"ranks 5 stages 6 microbatches 3 slices 1 copies 3 placement "
         "replicated 3,1\n",
         "make 4 ranks, 6 stages and 3 copies"},
        {"ranks 4 stages 2 microbatches 3 slices 1 copies 1 placement "
         "replicated 3,1\n",
         "make 4 ranks, 6 stages and 3 copies"},
        {"ranks 4 stages 6 microbatches 4 slices 1 copies 3 placement "
         "replicated 3,1\n",
         "cannot be divided evenly"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pen_text text = PEN_TEXT_EMPTY;
        pen_text_add(&text, "%s%s", head, cases[i].line);
        expect_refused(pen_text_string(&text), cases[i].words);
        pen_text_release(&text);
    }
    expect_refused("# penstock-schedule 3\nname x\nranks 4 stages 6 "
                   "microbatches 3 slices 1 copies 3 placement replicated "
                   "3,1\n",
                   "a placement is linear");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_and_stages_lead_to_each_other),
        cmocka_unit_test(every_micro_batch_of_a_stage_is_done_once),
        cmocka_unit_test(with_one_rank_each_it_is_1f1b),
        cmocka_unit_test(a_stage_that_takes_longer_gets_more_ranks),
        cmocka_unit_test(the_text_form_keeps_them),
        cmocka_unit_test(other_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
