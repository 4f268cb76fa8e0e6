/*
 * Joint steps: steps of pipedream-2bw wait for the gradients of all stages at
 * places where this holds nobody up, without other delays; schedules that read
 * a step too early are refused.
 */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static struct pen_schedule *make_batches(const char *name, uint32_t p,
                                         uint32_t m, uint32_t batches)
{
    struct pen_costs costs = unit_costs();
    struct pen_generator_args args = {
        .ranks = p, .microbatches = m, .batches = batches, .costs = &costs};
    return make_with(name, &args);
}

static struct pen_schedule *join(struct pen_schedule *alone)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *joint = NULL;
    if (pen_schedule_join_steps(alone, &joint, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return joint;
}

static void the_rows_are_those_of_the_drawing(void **state)
{
    static const char *const rows[] = {
        "0F0@0 0SA0 0F1@0 0SA1 0RG0 0B0@0 0F2@0 0SA2 0RG1 0B1@0 0SYNC "
        "0F3@0 0SA3 0RG2 0B2@0 0STEP@1 0F4@1 0SA4 0RG3 0B3@0 0SYNC 0F5@1 0SA5 "
        "0RG4 0B4@1 0RG5 0B5@1 0STEP@2 0SYNC 0STEP@3",
        "1RA0 1F0@0 1B0@0 1SG0 1RA1 1F1@0 1B1@0 1SG1 1SYNC 1RA2 1F2@0 1B2@0 "
        "1SG2 1STEP@1 1RA3 1F3@0 1B3@0 1SG3 1SYNC 1RA4 1F4@1 1B4@1 1SG4 "
        "1STEP@2 1RA5 1F5@1 1B5@1 1SG5 1SYNC 1STEP@3"};
    struct pen_schedule *alone = make_batches("pipedream-2bw", 2, 2, 3);
    struct pen_schedule *joint = join(alone);
    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct pen_text text = PEN_TEXT_EMPTY;
        for (uint32_t i = 0; i < joint->rows[rank].count; i++) {
            pen_text_add_string(&text, i > 0 ? " " : "");
            pen_op_print(&joint->rows[rank].ops[i], &text);
        }
        assert_string_equal(rows[rank], pen_text_string(&text));
        pen_text_release(&text);
    }
    pen_schedule_free(alone);
    pen_schedule_free(joint);
}

/* ---- no deadlock ---- */

/*
 * Ranks that go on as long as they can. Messages are there when they are sent;
 * a STEP waits for all SYNC of its number and, at the first stage, for the
 * values of a matrix that the last one has stepped.
 */
struct walk {
    const struct pen_schedule *schedule;
    uint32_t *at; /* per rank, as the two below */
    uint32_t *syncs;
    uint32_t *steps;
    bool *has_sent; /* per direction, stage and micro-batch */
};

static bool *message(const struct walk *walk, bool is_act, uint32_t from,
                     uint32_t microbatch)
{
    const struct pen_shape *shape = &walk->schedule->shape;
    return &walk->has_sent[((size_t)is_act * shape->num_stages + from) *
                               shape->num_microbatches +
                           microbatch];
}

static bool can_step(const struct walk *walk, uint32_t rank)
{
    uint32_t p = walk->schedule->shape.num_ranks;
    for (uint32_t i = 0; i < p; i++)
        if (walk->syncs[i] <= walk->steps[rank])
            return false;
    return rank > 0 || p == 1 || walk->steps[p - 1] > walk->steps[0];
}

static bool run_op(struct walk *walk, uint32_t rank, const struct pen_op *op)
{
    switch (op->kind) {
    case PEN_OP_SEND_ACT:
    case PEN_OP_SEND_GRAD:
        *message(walk, op->kind == PEN_OP_SEND_ACT, rank, op->microbatch) =
            true;
        return true;
    case PEN_OP_RECV_ACT:
        return *message(walk, true, rank - 1, op->microbatch);
    case PEN_OP_RECV_GRAD:
        return *message(walk, false, rank + 1, op->microbatch);
    case PEN_OP_SYNC_GRAD:
        walk->syncs[rank]++;
        return true;
    case PEN_OP_STEP:
        if (!can_step(walk, rank))
            return false;
        walk->steps[rank]++;
        return true;
    default:
        return true;
    }
}

static bool reaches_its_end(const struct pen_schedule *schedule)
{
    const struct pen_shape *shape = &schedule->shape;
    uint32_t p = shape->num_ranks;
    struct walk walk = {
        schedule, calloc(p, sizeof *walk.at), calloc(p, sizeof *walk.syncs),
        calloc(p, sizeof *walk.steps),
        calloc((size_t)2 * p * shape->num_microbatches, sizeof(bool))};
    bool has_moved = true, is_done = true;
    while (has_moved) {
        has_moved = false;
        for (uint32_t rank = 0; rank < p; rank++) {
            const struct pen_row *row = &schedule->rows[rank];
            while (walk.at[rank] < row->count &&
                   run_op(&walk, rank, &row->ops[walk.at[rank]])) {
                walk.at[rank]++;
                has_moved = true;
            }
        }
    }
    for (uint32_t rank = 0; rank < p; rank++)
        is_done = is_done && walk.at[rank] == schedule->rows[rank].count;
    free(walk.at);
    free(walk.syncs);
    free(walk.steps);
    free(walk.has_sent);
    return is_done;
}

/* Versions that ops read, one behind the other. */
static bool reads_the_same(const struct pen_schedule *a,
                           const struct pen_schedule *b)
{
    for (uint32_t rank = 0; rank < a->shape.num_ranks; rank++) {
        uint32_t k = 0;
        for (uint32_t i = 0; i < a->rows[rank].count; i++) {
            if (a->rows[rank].ops[i].kind == PEN_OP_STEP)
                continue;
            while (b->rows[rank].ops[k].kind == PEN_OP_STEP)
                k++;
            if (memcmp(&a->rows[rank].ops[i], &b->rows[rank].ops[k],
                       sizeof(struct pen_op)) != 0)
                return false;
            k++;
        }
    }
    return true;
}

static void all_sizes_are_proved(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 8; p++)
        for (uint32_t m = p > 1 ? p - 1 : 1; m <= 2 * p + 1; m++)
            for (uint32_t batches = 1; batches <= 4; batches++) {
                struct pen_text why = PEN_TEXT_EMPTY;
                struct pen_verify_options options = {.send_window = 1};
                struct pen_schedule *alone =
                    make_batches("pipedream-2bw", p, m, batches);
                struct pen_schedule *joint = join(alone);
                if (pen_schedule_verify(joint, &options, NULL, &why) != PEN_OK)
                    fail_msg("p=%u m=%u: %s", p, m, pen_text_string(&why));
                assert_true(reads_the_same(alone, joint));
                if (!reaches_its_end(joint))
                    fail_msg("p=%u m=%u, %u batches: a deadlock", p, m,
                             batches);
                for (uint32_t rank = 0; rank < p; rank++)
                    assert_int_equal(
                        pen_row_defers_steps(&joint->rows[rank], rank),
                        p > 1 && batches > 1);
                pen_schedule_free(alone);
                pen_schedule_free(joint);
                pen_text_release(&why);
            }
}

/* The timer makes STEPs wait; with m >= p none does for long. */
static void joint_steps_take_no_longer(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    for (uint32_t p = 1; p <= 8; p++)
        for (uint32_t m = p; m <= 3 * p; m++) {
            struct pen_schedule *alone = make_batches("pipedream-2bw", p, m, 6);
            struct pen_schedule *joint = join(alone);
            struct pen_timing *a = time_of(alone, &costs);
            struct pen_timing *b = time_of(joint, &costs);
            expect_close(a->makespan_sec, b->makespan_sec, "makespan");
            pen_timing_free(a);
            pen_timing_free(b);
            pen_schedule_free(alone);
            pen_schedule_free(joint);
        }
}

/* A schedule whose steps wait where they stood pays for it. */
static void steps_at_their_old_place_would_wait(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    struct pen_schedule *alone = make_batches("pipedream-2bw", 4, 8, 6);
    struct pen_timing *a = time_of(alone, &costs);
    alone->rules.is_joint = true;
    struct pen_timing *b = time_of(alone, &costs);
    assert_true(b->makespan_sec > a->makespan_sec + 5 * 3);
    pen_timing_free(a);
    pen_timing_free(b);
    pen_schedule_free(alone);
}

/* ---- who cannot ---- */

static void only_late_readers_can(void **state)
{
    (void)state;
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        const struct pen_generator *generator = pen_generator_at(i);
        struct pen_text why = PEN_TEXT_EMPTY;
        struct pen_schedule *joint = NULL;
        if (generator->is_synchronous)
            continue;
        struct pen_schedule *alone = make_batches(generator->name, 4, 4, 3);
        pen_status status = pen_schedule_join_steps(alone, &joint, &why);
        if (status != (generator->joins_steps ? PEN_OK : PEN_INVALID))
            fail_msg("%s: %s", generator->name, pen_text_string(&why));
        if (status != PEN_OK)
            assert_non_null(
                strstr(pen_text_string(&why), "cannot wait for each other: "));
        pen_schedule_free(alone);
        pen_schedule_free(joint);
        pen_text_release(&why);
    }
}

/* ---- text and verifier ---- */

#define HEAD(version, rules)                                                   \
    "# penstock-schedule " version "\nname x\n"                                \
    "ranks 1 stages 1 microbatches 2 slices 1 copies 1 placement linear\n"     \
    "rules versions 2 period 1" rules "\n"

static void the_text_keeps_the_rule(void **state)
{
    static const char text[] =
        HEAD("2", " joint") "rank 0: 0F0@0 0B0@0 0SYNC 0F1@0 0B1@0 0STEP@1 "
                            "0SYNC 0STEP@2\n";
    struct pen_text printed = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = parse(text);
    (void)state;
    assert_true(schedule->rules.is_joint);
    pen_schedule_print(schedule, &printed);
    assert_string_equal(text, pen_text_string(&printed));
    assert_int_equal(PEN_OK, pen_schedule_verify(schedule, NULL, NULL, NULL));
    pen_schedule_free(schedule);
    pen_text_release(&printed);
}

static void expect_refusal(const char *text, const char *words)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    pen_status status = pen_schedule_parse(text, strlen(text), &schedule, &why);
    if (status == PEN_OK)
        status = pen_schedule_verify(schedule, NULL, NULL, &why);
    assert_int_equal(PEN_INVALID, status);
    if (strstr(pen_text_string(&why), words) == NULL)
        fail_msg("'%s' is not in: %s", words, pen_text_string(&why));
    pen_schedule_free(schedule);
    pen_text_release(&why);
}

static void what_is_wrong_is_refused(void **state)
{
    (void)state;
    expect_refusal(HEAD("1", " joint") "rank 0:\n", "rules are 'window N'");
    expect_refusal(HEAD("6", "") "rank 0:\n", "must begin with");
    expect_refusal(HEAD("2", " joint stale") "rank 0:\n", "'joint'");
    expect_refusal(
        HEAD("2",
             " joint") "rank 0: 0F0@0 0B0@0 0SYNC 0F1@0 0B1@0 0SYNC 0STEP@1 "
                       "0STEP@2\n",
        "V7: rank 0, position 5, 0SYNC: the STEP of the SYNC before "
        "it comes after it");
    expect_refusal(
        HEAD(
            "2",
            " joint") "rank 0: 0F0@0 0B0@0 0STEP@1 0F1@0 0B1@0 0SYNC 0STEP@2\n",
        "V7: rank 0, position 2, 0STEP@1: no SYNC comes before it");
    expect_refusal(
        HEAD("1", "") "rank 0: 0F0@0 0B0@0 0SYNC 0F1@0 0B1@0 0STEP@1 0SYNC "
                      "0STEP@2\n",
        "V7: rank 0, position 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rows_are_those_of_the_drawing),
        cmocka_unit_test(all_sizes_are_proved),
        cmocka_unit_test(joint_steps_take_no_longer),
        cmocka_unit_test(steps_at_their_old_place_would_wait),
        cmocka_unit_test(only_late_readers_can),
        cmocka_unit_test(the_text_keeps_the_rule),
        cmocka_unit_test(what_is_wrong_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
