/*
 * Asynchronous schedules: golden rows, weight versions held, no bubble behind
 * the first fill, and the verifier's consent over a sweep of sizes.
 */
#include "support/support.h"

#include <string.h>

static const char *const two_buffers_rows[] = {
    "0F0@0 0F1@0 0F2@0 0F3@0 0B0@0 0F4@0 0B1@0 0F5@0 0B2@0 0F6@0 0B3@0"
    " 0STEP@1 0F7@0 0B4@0 0F8@1 0B5@0 0F9@1 0B6@0 0F10@1 0B7@0 0STEP@2"
    " 0F11@1 0B8@1 0B9@1 0B10@1 0B11@1 0STEP@3",
    "1F0@0 1F1@0 1F2@0 1B0@0 1F3@0 1B1@0 1F4@0 1B2@0 1F5@0 1B3@0"
    " 1STEP@1 1F6@0 1B4@0 1F7@0 1B5@0 1F8@1 1B6@0 1F9@1 1B7@0 1STEP@2"
    " 1F10@1 1B8@1 1F11@1 1B9@1 1B10@1 1B11@1 1STEP@3",
    "2F0@0 2F1@0 2B0@0 2F2@0 2B1@0 2F3@0 2B2@0 2F4@0 2B3@0 2STEP@1"
    " 2F5@0 2B4@0 2F6@0 2B5@0 2F7@0 2B6@0 2F8@1 2B7@0 2STEP@2 2F9@1"
    " 2B8@1 2F10@1 2B9@1 2F11@1 2B10@1 2B11@1 2STEP@3",
    "3F0@0 3B0@0 3F1@0 3B1@0 3F2@0 3B2@0 3F3@0 3B3@0 3STEP@1 3F4@0"
    " 3B4@0 3F5@0 3B5@0 3F6@0 3B6@0 3F7@0 3B7@0 3STEP@2 3F8@1 3B8@1"
    " 3F9@1 3B9@1 3F10@1 3B10@1 3F11@1 3B11@1 3STEP@3"};

static const char *const stashing_rows[] = {
    "0F0@0 0F1@0 0F2@0 0F3@0 0B0@0 0F4@1 0B1@0 0F5@2 0B2@0 0F6@3 0B3@0"
    " 0F7@4 0B4@1 0B5@2 0B6@3 0B7@4",
    "1F0@0 1F1@0 1F2@0 1B0@0 1F3@1 1B1@0 1F4@2 1B2@0 1F5@3 1B3@1 1F6@4"
    " 1B4@2 1F7@5 1B5@3 1B6@4 1B7@5",
    "2F0@0 2F1@0 2B0@0 2F2@1 2B1@0 2F3@2 2B2@1 2F4@3 2B3@2 2F5@4 2B4@3"
    " 2F6@5 2B5@4 2F7@6 2B6@5 2B7@6",
    "3F0@0 3B0@0 3F1@1 3B1@1 3F2@2 3B2@2 3F3@3 3B3@3 3F4@4 3B4@4 3F5@5"
    " 3B5@5 3F6@6 3B6@6 3F7@7 3B7@7"};

static const char *const newest_rows[] = {
    "0F0@0 0F1@0 0F2@0 0F3@0 0F4@0 0F5@0 0F6@0 0F7@0 0F8@0 0B0@0 0B1@0"
    " 0B2@0 0STEP@1 0B3@1 0B4@1 0B5@1 0STEP@2 0B6@2 0B7@2 0B8@2 0STEP@3",
    "1F0@0 1F1@0 1F2@0 1F3@0 1F4@0 1F5@0 1F6@0 1F7@0 1F8@0 1B0@0 1B1@0"
    " 1B2@0 1STEP@1 1B3@1 1B4@1 1B5@1 1STEP@2 1B6@2 1B7@2 1B8@2 1STEP@3",
    "2F0@0 2F1@0 2F2@0 2F3@0 2F4@0 2F5@0 2B0@0 2B1@0 2B2@0 2STEP@1 2F6@1"
    " 2F7@1 2F8@1 2B3@1 2B4@1 2B5@1 2STEP@2 2B6@2 2B7@2 2B8@2 2STEP@3",
    "3F0@0 3F1@0 3F2@0 3B0@0 3B1@0 3B2@0 3STEP@1 3F3@1 3F4@1 3F5@1 3B3@1"
    " 3B4@1 3B5@1 3STEP@2 3F6@2 3F7@2 3F8@2 3B6@2 3B7@2 3B8@2 3STEP@3"};

static struct pen_schedule *make_batches(const char *name, uint32_t p,
                                         uint32_t m, uint32_t batches)
{
    struct pen_costs costs = unit_costs();
    struct pen_generator_args args = {
        .ranks = p, .microbatches = m, .batches = batches, .costs = &costs};
    return make_with(name, &args);
}

static struct pen_schedule *make_vertical(uint32_t p, uint32_t m)
{
    struct pen_costs costs = unit_costs();
    struct pen_generator_args args = {.ranks = p,
                                      .microbatches = m,
                                      .has_vertical_sync = true,
                                      .costs = &costs};
    return make_with("pipedream", &args);
}

/* Compute ops and, when asked for, STEP. */
static void print_row(const struct pen_schedule *schedule, uint32_t rank,
                      bool with_steps, struct pen_text *out)
{
    const struct pen_row *row = &schedule->rows[rank];
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        if (!pen_op_is_compute(op->kind) &&
            (op->kind != PEN_OP_STEP || !with_steps))
            continue;
        pen_text_add_string(out, out->length > 0 ? " " : "");
        pen_op_print(op, out);
    }
}

static void expect_rows(const struct pen_schedule *schedule,
                        const char *const *rows, bool with_steps)
{
    for (uint32_t rank = 0; rank < schedule->shape.num_ranks; rank++) {
        struct pen_text text = PEN_TEXT_EMPTY;
        print_row(schedule, rank, with_steps, &text);
        assert_string_equal(rows[rank], pen_text_string(&text));
        pen_text_release(&text);
    }
}

static void expect_sound(const struct pen_schedule *schedule)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_verify_options options = {.needs_sync = true};
    if (pen_schedule_verify(schedule, &options, NULL, &why) != PEN_OK)
        fail_msg("%s p=%u m=%u: %s", schedule->name, schedule->shape.num_ranks,
                 schedule->shape.num_microbatches, pen_text_string(&why));
    pen_text_release(&why);
}

/* Idle seconds of every rank, and the peaks and versions held. */
static void expect_times(const struct pen_schedule *schedule, double idle,
                         const double *peaks, const uint32_t *versions)
{
    struct pen_costs costs = unit_costs();
    struct pen_timing *timing = time_of(schedule, &costs);
    for (uint32_t rank = 0; rank < timing->num_ranks; rank++) {
        expect_close(idle, timing->ranks[rank].idle_sec, "idle seconds");
        expect_close(peaks[rank], timing->ranks[rank].peak, "peak");
        assert_int_equal(versions[rank], timing->ranks[rank].versions);
    }
    pen_timing_free(timing);
}

static void two_buffers_match_the_golden_rows(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make_batches("pipedream-2bw", 4, 4, 0);
    expect_rows(schedule, two_buffers_rows, true);
    expect_times(schedule, 45 - 36, (const double[]){4, 3, 2, 1},
                 (const uint32_t[]){2, 2, 2, 2});
    pen_schedule_free(schedule);
}

static void stashing_matches_the_golden_rows(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make_batches("pipedream", 4, 8, 0);
    expect_rows(schedule, stashing_rows, false);
    expect_times(schedule, 9, (const double[]){4, 3, 2, 1},
                 (const uint32_t[]){4, 3, 2, 1});
    pen_schedule_free(schedule);
}

static void backwards_at_the_newest_match_the_golden_rows(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make_batches("timeprest", 4, 3, 3);
    expect_rows(schedule, newest_rows, true);
    expect_times(schedule, 9, (const double[]){9, 9, 6, 3},
                 (const uint32_t[]){1, 1, 1, 1});
    pen_schedule_free(schedule);
}

static void two_long_batches_of_2bw_read_version_0(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make_batches("pipedream-2bw", 4, 8, 2);
    struct pen_schedule *base = make("1f1b", 4, 16, 1);
    for (uint32_t rank = 0; rank < 4; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        uint32_t done = 0, steps = 0;
        for (uint32_t i = 0; i < row->count; i++) {
            const struct pen_op *op = &row->ops[i];
            if (pen_op_is_compute(op->kind))
                assert_int_equal(0, op->version);
            done += op->kind == PEN_OP_BACKWARD;
            if (op->kind == PEN_OP_STEP)
                assert_int_equal(8 * ++steps, done);
            row->ops[i].version = PEN_OP_CURRENT;
        }
        struct pen_text expected = PEN_TEXT_EMPTY, found = PEN_TEXT_EMPTY;
        compute_row(base, rank, &expected);
        compute_row(schedule, rank, &found);
        assert_string_equal(pen_text_string(&expected),
                            pen_text_string(&found));
        pen_text_release(&expected);
        pen_text_release(&found);
    }
    struct pen_costs costs = unit_costs();
    struct pen_timing *timing = time_of(schedule, &costs);
    expect_close(57, timing->makespan_sec, "makespan");
    pen_timing_free(timing);
    pen_schedule_free(base);
    pen_schedule_free(schedule);
}

static uint32_t forward_version(const struct pen_schedule *schedule,
                                uint32_t rank, uint32_t stage,
                                uint32_t microbatch)
{
    const struct pen_row *row = &schedule->rows[rank];
    for (uint32_t i = 0; i < row->count; i++) {
        const struct pen_op *op = &row->ops[i];
        if (op->kind == PEN_OP_FORWARD && op->stage == stage &&
            op->microbatch == microbatch)
            return op->version;
    }
    fail_msg("no forward of micro-batch %u at stage %u", microbatch, stage);
    return 0;
}

static void a_steady_iteration_of_2bw_changes_version_once(void **state)
{
    (void)state;
    const uint32_t versions[] = {1, 1, 1, 1, 1, 2, 2, 2};
    struct pen_schedule *schedule = make_batches("pipedream-2bw", 4, 8, 4);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(versions[i], forward_version(schedule, 0, 0, 19 + i));
    pen_schedule_free(schedule);
}

static void every_pipedream_backward_has_its_step(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make_batches("pipedream", 4, 8, 0);
    for (uint32_t rank = 0; rank < 4; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        uint32_t backwards = 0, steps = 0;
        for (uint32_t i = 0; i < row->count; i++) {
            backwards += row->ops[i].kind == PEN_OP_BACKWARD;
            if (row->ops[i].kind != PEN_OP_STEP)
                continue;
            assert_int_equal(++steps, row->ops[i].version);
            assert_int_equal(backwards, steps);
        }
        assert_int_equal(8, steps);
    }
    pen_schedule_free(schedule);
}

/* Frees the schedule; `held` gives the versions of rank s of p. */
static void expect_held(struct pen_schedule *schedule,
                        uint32_t (*held)(uint32_t p, uint32_t s))
{
    struct pen_costs costs = unit_costs();
    struct pen_timing *timing = time_of(schedule, &costs);
    uint32_t p = timing->num_ranks;
    for (uint32_t s = 0; s < p; s++) {
        if (held(p, s) != timing->ranks[s].versions)
            fail_msg("%s p=%u rank %u: expected %u versions, found %u",
                     schedule->name, p, s, held(p, s),
                     timing->ranks[s].versions);
    }
    pen_timing_free(timing);
    pen_schedule_free(schedule);
}

static uint32_t one(uint32_t p, uint32_t s)
{
    (void)p, (void)s;
    return 1;
}

static uint32_t two(uint32_t p, uint32_t s)
{
    (void)p, (void)s;
    return 2;
}

static uint32_t all_ranks(uint32_t p, uint32_t s)
{
    (void)s;
    return p;
}

static uint32_t ranks_behind(uint32_t p, uint32_t s)
{
    return p - s;
}

/* The last rank predicts from weights that no STEP overtakes. */
static uint32_t two_but_last(uint32_t p, uint32_t s)
{
    return s + 1 < p ? 2 : 1;
}

static void ranks_hold_the_published_versions(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 9; p++) {
        uint32_t m = 3 * p;
        expect_held(make_batches("pipedream", p, m, 0), ranks_behind);
        expect_held(make_vertical(p, m), all_ranks);
        expect_held(make_batches("pipedream-2bw", p, m, 4), two);
        expect_held(make_batches("wpipe", p, m, 4), two);
        expect_held(make_batches("xpipe", p, m, 4), two_but_last);
        expect_held(make_batches("spectrain", p, m, 0), one);
        expect_held(make_batches("pipemare", p, m, 4), one);
        expect_held(make_batches("pb", p, m, 0), one);
        expect_held(make_batches("timeprest", p, m, 4), one);
    }
}

/* Group 2 reads at every forward and backward what its last STEP made. */
static void group_2_of_wpipe_holds_one_version(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make_batches("wpipe", 4, 4, 5);
    for (uint32_t rank = 0; rank < 4; rank++) {
        const struct pen_row *row = &schedule->rows[rank];
        uint32_t newest = 0;
        for (uint32_t i = 0; i < row->count; i++) {
            const struct pen_op *op = &row->ops[i];
            if (op->stage < 4)
                continue;
            if (op->kind == PEN_OP_STEP)
                newest++;
            else if (pen_op_is_compute(op->kind))
                assert_int_equal(newest, op->version);
        }
        assert_int_equal(5, newest);
    }
    pen_schedule_free(schedule);
}

static void xpipe_predicts_once_per_mini_batch(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make_batches("xpipe", 4, 6, 4);
    for (uint32_t s = 0; s < 4; s++) {
        for (uint32_t i = 0; i < 24; i++)
            assert_int_equal(forward_version(schedule, s, s, i - i % 6),
                             forward_version(schedule, s, s, i));
    }
    assert_int_equal(2, forward_version(schedule, 0, 0, 18));
    assert_int_equal(3, forward_version(schedule, 3, 3, 18));
    pen_schedule_free(schedule);
}

static void expect_newest(const struct pen_schedule *schedule, uint32_t s,
                          uint32_t m)
{
    uint32_t behind = schedule->shape.num_ranks - 1 - s, late = 0;
    for (uint32_t i = 0; i < schedule->rows[s].count; i++) {
        const struct pen_op *op = &schedule->rows[s].ops[i];
        uint32_t batch = op->microbatch / m;
        if (op->kind == PEN_OP_BACKWARD)
            assert_int_equal(batch, op->version);
        if (op->kind == PEN_OP_FORWARD && batch - op->version > late)
            late = batch - op->version;
    }
    uint32_t expected = (behind * (m < 3 ? m : 3) + m - 1) / m;
    if (late != expected)
        fail_msg("p=%u m=%u rank %u: forwards are %u steps old, not %u",
                 schedule->shape.num_ranks, m, s, late, expected);
}

/* Long runs, so that the oldest forwards are in them. */
static void timeprest_is_late_in_forwards_alone(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 8; p++) {
        for (uint32_t m = 1; m <= 3 * p; m++) {
            struct pen_schedule *schedule =
                make_batches("timeprest", p, m, 3 * p + 1);
            for (uint32_t s = 0; s < p; s++)
                expect_newest(schedule, s, m);
            pen_schedule_free(schedule);
        }
    }
}

/* One version is kept: a backward cannot read that of its forward. */
static void the_verifier_refuses_an_older_backward(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make_batches("timeprest", 2, 2, 3);
    struct pen_finding finding;
    struct pen_verify_options options = {.needs_sync = true};
    for (uint32_t i = 0; i < schedule->rows[0].count; i++) {
        struct pen_op *op = &schedule->rows[0].ops[i];
        if (op->kind != PEN_OP_BACKWARD || op->version == 0)
            continue;
        op->version--;
        assert_int_equal(PEN_INVALID, pen_schedule_verify(schedule, &options,
                                                          &finding, NULL));
        assert_int_equal(6, finding.rule);
        assert_int_equal(i, finding.position);
        op->version++;
    }
    pen_schedule_free(schedule);
}

static const char *const linear[] = {"pipedream", "pipedream-2bw", "spectrain",
                                     "xpipe",     "pipemare",      "pb"};

static void expect_idle(const char *name, uint32_t p, uint32_t m,
                        uint32_t batches, struct pen_costs *costs, double idle)
{
    struct pen_generator_args args = {
        .ranks = p, .microbatches = m, .batches = batches, .costs = costs};
    struct pen_schedule *schedule = make_with(name, &args);
    struct pen_timing *timing = time_of(schedule, costs);
    for (uint32_t rank = 0; rank < p; rank++)
        expect_close(idle, timing->ranks[rank].idle_sec, name);
    pen_timing_free(timing);
    pen_schedule_free(schedule);
}

/* One fill and one drain, however long the run is. */
static void a_longer_run_idles_no_longer(void **state)
{
    (void)state;
    const double times[][3] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 3}};
    for (size_t t = 0; t < sizeof times / sizeof *times; t++) {
        struct pen_costs costs = unit_costs();
        costs.uniform.forward_sec = times[t][0];
        costs.uniform.input_sec = times[t][1];
        costs.uniform.weight_sec = times[t][2];
        double round = times[t][0] + times[t][1] + times[t][2];
        for (uint32_t p = 1; p <= 8; p++) {
            for (uint32_t batches = 2; batches <= 18; batches *= 3) {
                for (size_t i = 0; i < sizeof linear / sizeof *linear; i++)
                    expect_idle(linear[i], p, 2 * p, batches, &costs,
                                (p - 1) * round);
                if (t < 2) /* a backward is no longer than two forwards */
                    for (uint32_t m = 1; m <= 2 * p; m++)
                        expect_idle("timeprest", p, m, batches, &costs,
                                    (p - 1) * round);
                expect_idle("wpipe", p, p, batches, &costs,
                            (p - 1) * round / 2);
                expect_idle("wpipe", p, 3 * p, batches, &costs,
                            (p - 1) * round / 2);
            }
        }
    }
}

/* Three batches reach every steady state; peaks do not grow from there. */
static void peaks_are_the_published_ones(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    for (uint32_t p = 1; p <= 8; p++) {
        for (size_t i = 0; i <= sizeof linear / sizeof *linear; i++) {
            bool is_wpipe = i == sizeof linear / sizeof *linear;
            struct pen_schedule *schedule =
                make_batches(is_wpipe ? "wpipe" : linear[i], p, 2 * p, 3);
            struct pen_timing *timing = time_of(schedule, &costs);
            for (uint32_t s = 0; s < p; s++)
                expect_close(is_wpipe ? (3 * p - s) / 2.0 : p - s,
                             timing->ranks[s].peak, schedule->name);
            pen_timing_free(timing);
            pen_schedule_free(schedule);
        }
    }
}

/*
 * SpecTrain predicts floor(k/2) + p-1-k updates ahead in the forward on rank
 * k and floor(k/2) in the backward: the STEPs of that rank until the backward
 * starts on rank 0, when forward and backward take the same time.
 */
static void spectrain_counts_the_steps_ahead(void **state)
{
    (void)state;
    const uint32_t p = 6, microbatch = 12;
    struct pen_costs costs = unit_costs();
    costs.uniform.weight_sec = 0;
    struct pen_schedule *schedule = make_batches("spectrain", p, 30, 0);
    struct pen_time_options options = {.with_ops = true};
    struct pen_timing *timing = NULL;
    assert_int_equal(
        PEN_OK, pen_schedule_time(schedule, &costs, &options, &timing, NULL));
    double leaves = 0;
    for (uint32_t i = 0; i < schedule->rows[0].count; i++) {
        if (schedule->rows[0].ops[i].kind == PEN_OP_BACKWARD &&
            schedule->rows[0].ops[i].microbatch == microbatch)
            leaves = timing->ops[0][i].start_sec;
    }
    for (uint32_t k = 0; k < p; k++) {
        const struct pen_row *row = &schedule->rows[k];
        uint32_t ahead = 0;
        uint32_t found[2] = {0, 0}; /* of the forward, of the backward */
        for (uint32_t i = row->count; i-- > 0;) {
            const struct pen_op *op = &row->ops[i];
            if (op->kind == PEN_OP_STEP)
                ahead += timing->ops[k][i].end_sec < leaves;
            if (op->microbatch == microbatch && pen_op_is_compute(op->kind))
                found[op->kind == PEN_OP_BACKWARD] = ahead;
        }
        assert_int_equal(k / 2 + p - 1 - k, found[0]);
        assert_int_equal(k / 2, found[1]);
    }
    pen_timing_free(timing);
    pen_schedule_free(schedule);
}

static const uint32_t rank_counts[] = {1,  2,  3,  4,  5,  6,  7,  8,  9, 10,
                                       11, 12, 13, 14, 15, 16, 24, 32, 64};

static void sweep_microbatches(const char *name, uint32_t p, uint32_t least)
{
    const uint32_t counts[] = {1, 2, 3, p - 1, p, p + 1, 2 * p, 3 * p + 1};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (counts[i] < least || counts[i] == 0)
            continue;
        struct pen_schedule *schedule = make_batches(name, p, counts[i], 0);
        expect_sound(schedule);
        pen_schedule_free(schedule);
    }
}

static void the_verifier_accepts_all_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rank_counts / sizeof *rank_counts; i++) {
        uint32_t p = rank_counts[i];
        sweep_microbatches("pipedream", p, 1);
        sweep_microbatches("pipedream-2bw", p, p - 1);
        sweep_microbatches("spectrain", p, 1);
        sweep_microbatches("xpipe", p, 1);
        sweep_microbatches("pipemare", p, 1);
        sweep_microbatches("pb", p, 1);
        sweep_microbatches("timeprest", p, 1);
        sweep_microbatches("wpipe", p, p);
        struct pen_schedule *vertical = make_vertical(p, 2 * p + 1);
        expect_sound(vertical);
        pen_schedule_free(vertical);
        for (uint32_t steps = 1; steps <= 3; steps++) {
            struct pen_schedule *cyclic =
                make_batches("cyclic", p, p * steps, 0);
            expect_sound(cyclic);
            pen_schedule_free(cyclic);
        }
    }
}

static void expect_refused(const char *name, uint32_t p, uint32_t m,
                           uint32_t batches, const char *words)
{
    struct pen_costs costs = unit_costs();
    struct pen_generator_args args = {
        .ranks = p, .microbatches = m, .batches = batches, .costs = &costs};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    assert_int_equal(PEN_INVALID, pen_generator_make(pen_generator_find(name),
                                                     &args, &schedule, &why));
    assert_null(schedule);
    if (strstr(pen_text_string(&why), words) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", words, pen_text_string(&why));
    pen_text_release(&why);
}

static void refusals_say_what_would_work(void **state)
{
    (void)state;
    expect_refused("pipedream-2bw", 8, 6, 0, "at least 7 micro-batches");
    expect_refused("wpipe", 8, 7, 0, "at least 8 micro-batches");
    expect_refused("wpipe", 40000, 40000, 0, "at most 32767 ranks");
    expect_refused("cyclic", 4, 10, 0, "8 would work");
    expect_refused("cyclic", 4, 3, 0, "4 would work");
    expect_refused("cyclic", 256, 256, 0, "at most 255");
    expect_refused("pipedream", 2, UINT32_MAX - 1, 3, "too many");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_buffers_match_the_golden_rows),
        cmocka_unit_test(stashing_matches_the_golden_rows),
        cmocka_unit_test(backwards_at_the_newest_match_the_golden_rows),
        cmocka_unit_test(two_long_batches_of_2bw_read_version_0),
        cmocka_unit_test(a_steady_iteration_of_2bw_changes_version_once),
        cmocka_unit_test(every_pipedream_backward_has_its_step),
        cmocka_unit_test(ranks_hold_the_published_versions),
        cmocka_unit_test(timeprest_is_late_in_forwards_alone),
        cmocka_unit_test(the_verifier_refuses_an_older_backward),
        cmocka_unit_test(group_2_of_wpipe_holds_one_version),
        cmocka_unit_test(xpipe_predicts_once_per_mini_batch),
        cmocka_unit_test(a_longer_run_idles_no_longer),
        cmocka_unit_test(peaks_are_the_published_ones),
        cmocka_unit_test(spectrain_counts_the_steps_ahead),
        cmocka_unit_test(the_verifier_accepts_all_sizes),
        cmocka_unit_test(refusals_say_what_would_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
