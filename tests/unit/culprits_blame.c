/*
 * Who is to blame for a longer step is who was made slower: traces of known
 * causes (a rank, a link, sums, several) of several schedules, and what the
 * seconds of ranks alone tell.
 */
#include "culprits/blame.h"
#include "support/folder.h"
#include "support/support.h"
#include "support/synthetic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HEAD                                                                   \
    "{\"format\":\"penstock-costs\",\"version\":1,\"f\":0.002,\"i\":0.003,"    \
    "\"w\":0.001,\"step\":0.001,\"comm\":0.0001"

static struct pen_costs costs_of(const char *rest)
{
    struct pen_costs costs = unit_costs();
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_text_add(&text, HEAD "%s}", rest);
    if (pen_costs_parse_json(text.bytes, text.length, &costs, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&text);
    pen_text_release(&why);
    return costs;
}

static double seconds_of(const struct pen_trace *trace)
{
    int64_t first_ns = INT64_MAX;
    int64_t last_ns = INT64_MIN;
    for (uint32_t i = 0; i < trace->num_ranks; i++) {
        const struct pen_rank_trace *rank = &trace->ranks[i];
        for (uint64_t k = 0; k < rank->head.num_events; k++) {
            int64_t offset_ns = rank->head.clock_offset_ns;
            int64_t ready_ns = rank->events[k].ready_ns + offset_ns;
            int64_t end_ns = rank->events[k].end_ns + offset_ns;
            first_ns = ready_ns < first_ns ? ready_ns : first_ns;
            last_ns = end_ns > last_ns ? end_ns : last_ns;
        }
    }
    return (double)(last_ns - first_ns) * 1e-9;
}

struct made {
    struct pen_run_figures figures;
    struct pen_trace *trace;
    double *step_sec;
};

/* A run of one step under these costs, one of each replica. */
static struct made run(const struct pen_schedule *schedule,
                       const char *const *truth, uint32_t replicas)
{
    struct pen_costs costs[2];
    struct made made = {.trace = NULL};
    struct synthetic synthetic = {.schedule = schedule,
                                  .truth = costs,
                                  .num_replicas = replicas,
                                  .num_steps = 1};
    struct pen_text why = PEN_TEXT_EMPTY;
    for (uint32_t i = 0; i < replicas; i++)
        costs[i] = costs_of(truth[i]);
    if (write_synthetic(&synthetic, folder, &why) != PEN_OK ||
        pen_trace_load(folder, &made.trace, &why) != PEN_OK)
        fail_msg("%s: %s", schedule->name, pen_text_string(&why));
    for (uint32_t i = 0; i < replicas; i++)
        pen_costs_release(&costs[i]);
    pen_text_release(&why);
    made.step_sec = malloc(sizeof *made.step_sec);
    made.step_sec[0] = seconds_of(made.trace);
    made.figures = (struct pen_run_figures){.step_sec = made.step_sec,
                                            .num_steps = 1,
                                            .num_ranks = made.trace->num_ranks,
                                            .trace = made.trace};
    return made;
}

static void release(struct made *made)
{
    pen_trace_free(made->trace);
    free(made->step_sec);
}

/* What is told of a run of which one replica has this for its costs. */
static struct pen_blame blame_of(const struct pen_schedule *schedule,
                                 const char *truth, uint32_t replicas,
                                 struct pen_text *words)
{
    const char *const plain_truth[] = {",\"sync\":0.001", ",\"sync\":0.001"};
    const char *const disturbed_truth[] = {truth, ",\"sync\":0.001"};
    struct made plain = run(schedule, plain_truth, replicas);
    struct made disturbed = run(schedule, disturbed_truth, replicas);
    struct pen_blame blame;
    assert_int_equal(PEN_OK, pen_blame_find(&disturbed.figures, &plain.figures,
                                            schedule, &blame));
    if (words != NULL)
        pen_blame_tell(&disturbed.figures, &plain.figures, schedule, words);
    assert_true(blame.num_chain > 0);
    pen_blame_release(&blame);
    release(&plain);
    release(&disturbed);
    return blame;
}

/* Costs in which this rank's ops take so many times as long. */
static void slow_rank(uint32_t rank, uint32_t ranks, double factor,
                      struct pen_text *out)
{
    pen_text_add_string(out, ",\"sync\":0.001,\"ranks\":[");
    if (rank > 0)
        pen_text_add(out, "{\"count\":%u},", rank);
    pen_text_add(out, "{\"f\":%.6f,\"i\":%.6f,\"w\":%.6f}", 0.002 * factor,
                 0.003 * factor, 0.001 * factor);
    if (rank + 1 < ranks)
        pen_text_add(out, ",{\"count\":%u}", ranks - rank - 1);
    pen_text_add_string(out, "]");
}

static const struct {
    const char *name;
    uint32_t chunks;
} kinds[] = {{"1f1b", 1},  {"gpipe", 1}, {"zb-h1", 1},
             {"zb-h2", 1}, {"zb-v", 2},  {"interleaved", 2}};

static void a_slow_rank_is_found_in_every_schedule(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct pen_schedule *schedule =
            make(kinds[i].name, 4, 12, kinds[i].chunks);
        for (uint32_t rank = 0; rank < 4; rank++) {
            struct pen_text truth = PEN_TEXT_EMPTY;
            slow_rank(rank, 4, 2, &truth);
            struct pen_blame blame =
                blame_of(schedule, pen_text_string(&truth), 1, NULL);
            assert_int_equal(PEN_BLAME_RANK, blame.kind);
            assert_int_equal(rank, blame.rank);
            /* Its optimizer is as fast as before. */
            if (blame.factor < 1.9 || blame.factor > 2 + 1e-9)
                fail_msg("%s: rank %u takes %g times as long", kinds[i].name,
                         rank, blame.factor);
            expect_close(1, blame.share, kinds[i].name);
            expect_close(blame.longer_sec, blame.seconds, kinds[i].name);
            pen_text_release(&truth);
        }
        pen_schedule_free(schedule);
    }
}

static void a_slow_rank_is_found_among_replicas(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", 4, 8, 1);
    struct pen_text truth = PEN_TEXT_EMPTY;
    slow_rank(2, 4, 1.5, &truth);
    struct pen_blame blame =
        blame_of(schedule, pen_text_string(&truth), 2, NULL);
    assert_int_equal(PEN_BLAME_RANK, blame.kind);
    assert_int_equal(4, blame.rank); /* row 2 of replica 0, row by row */
    expect_close(1, blame.share, "share of the rank");
    pen_text_release(&truth);
    pen_schedule_free(schedule);
}

static void a_slow_link_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct pen_schedule *schedule =
            make(kinds[i].name, 4, 12, kinds[i].chunks);
        struct pen_blame blame =
            blame_of(schedule,
                     ",\"sync\":0.001,\"links\":[{\"from\":1,\"to\":2,"
                     "\"latency\":0.02}]",
                     1, NULL);
        assert_int_equal(PEN_BLAME_LINK, blame.kind);
        assert_int_equal(1, blame.rank);
        assert_int_equal(2, blame.to);
        expect_close(1, blame.share, kinds[i].name);
        pen_schedule_free(schedule);
    }
}

static void slow_sums_are_found(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", 4, 8, 1);
    struct pen_text words = PEN_TEXT_EMPTY;
    struct pen_blame blame = blame_of(schedule, ",\"sync\":0.009", 1, &words);
    assert_int_equal(PEN_BLAME_SUMS, blame.kind);
    expect_close(1, blame.share, "share of the sums");
    expect_close(0.008, blame.longer_sec, "what the step is longer");
    expect_close(9, blame.factor, "what sums take");
    pen_text_release(&words);
    pen_schedule_free(schedule);
}

static void nobody_is_to_blame_for_nothing(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", 4, 8, 1);
    struct pen_text words = PEN_TEXT_EMPTY;
    struct pen_blame blame = blame_of(schedule, ",\"sync\":0.001", 1, &words);
    assert_int_equal(PEN_BLAME_NOBODY, blame.kind);
    assert_string_equal("A step is not longer than undisturbed.\n",
                        pen_text_string(&words));
    pen_text_release(&words);
    pen_schedule_free(schedule);
}

static void one_cause_is_told_in_a_sentence(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("gpipe", 2, 4, 1);
    struct pen_text words = PEN_TEXT_EMPTY;
    /* The last rank adds all of its 4 * 6 ms. */
    blame_of(
        schedule,
        ",\"sync\":0.001,\"ranks\":[{},{\"f\":0.004,\"i\":0.006,\"w\":0.002,"
        "\"step\":0.002,\"sync\":0.001}]",
        1, &words);
    assert_string_equal(
        "Rank 1 computes 2.0 times as long as undisturbed; this causes 100 % "
        "of the 24 ms by which a step is longer.\n",
        pen_text_string(&words));
    pen_text_release(&words);
    pen_schedule_free(schedule);
}

static void many_causes_are_told_together(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", 4, 4, 1);
    struct pen_text words = PEN_TEXT_EMPTY;
    struct pen_blame blame = blame_of(
        schedule,
        ",\"sync\":0.001,\"ranks\":[{\"f\":0.003,\"i\":0.003,\"w\":0.001},"
        "{\"f\":0.003,\"i\":0.003,\"w\":0.001},"
        "{\"f\":0.003,\"i\":0.003,\"w\":0.001},"
        "{\"f\":0.003,\"i\":0.003,\"w\":0.001}]",
        1, &words);
    assert_int_equal(PEN_BLAME_RANK, blame.kind);
    assert_int_equal(4, blame.num_alike);
    assert_true(blame.share < 0.9);
    expect_close(1, blame.alike_share, "share of all ranks");
    assert_string_equal(
        "There are 4 ranks that compute longer than undisturbed; this causes "
        "100 % of the 7 ms by which a step is longer.\nThe largest part, 29 %, "
        "is that rank 1 computes longer.\n",
        pen_text_string(&words));
    pen_text_release(&words);
    pen_schedule_free(schedule);
}

/* ---- what has no schedule of its own ---- */

/* Both ranks of a trace of F and B of two micro-batches, times in ms. */
static struct pen_trace *trace_by_hand(const struct pen_schedule *schedule,
                                       uint32_t count,
                                       const int64_t (*times)[2][4])
{
    struct pen_trace *trace = calloc(1, sizeof *trace);
    trace->num_ranks = 2;
    trace->ranks = calloc(2, sizeof *trace->ranks);
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct pen_rank_trace *to = &trace->ranks[rank];
        to->head = pen_trace_head_make();
        to->head.rank = rank;
        to->head.row = rank;
        to->head.num_ranks = 2;
        to->head.num_ops = schedule->rows[rank].count;
        to->head.num_events = count;
        to->events = calloc(count, sizeof *to->events);
        for (uint32_t i = 0; i < count; i++)
            to->events[i] =
                (struct pen_trace_event){0,
                                         (uint32_t)times[i][rank][0],
                                         times[i][rank][1] * 1000000,
                                         times[i][rank][2] * 1000000,
                                         times[i][rank][3] * 1000000,
                                         0};
    }
    return trace;
}

/* Forward ops only; rank 0 has no room for its third before rank 1 is done. */
static void who_waits_for_room_waits_for_the_receiver(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("gpipe", 2, 3, 1);
    /* rank 0: F0 SA0 F1 SA1 F2 ..., rank 1: RA0 F0 RA1 F1 ... */
    static const int64_t plain_times[][2][4] = {
        {{0, 0, 0, 2}, {1, 0, 2, 4}},
        {{1, 2, 2, 2}, {3, 4, 4, 6}},
        {{2, 2, 2, 4}, {4, 6, 6, 6}},
        {{4, 4, 4, 6}, {4, 6, 6, 6}},
    };
    static const int64_t times[][2][4] = {
        {{0, 0, 0, 2}, {1, 0, 2, 12}},
        {{1, 2, 2, 2}, {3, 12, 12, 14}},
        {{2, 2, 2, 4}, {4, 14, 14, 14}},
        {{4, 4, 12, 16}, {4, 14, 14, 14}},
    };
    uint32_t nobody[] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    uint32_t room[] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, 1};
    uint32_t *waited_for[] = {room, nobody};
    double plain_sec = 0.006;
    double sec = 0.016;
    struct pen_trace *plain_trace = trace_by_hand(schedule, 4, plain_times);
    struct pen_trace *trace = trace_by_hand(schedule, 4, times);
    struct pen_run_figures plain = {.step_sec = &plain_sec,
                                    .num_steps = 1,
                                    .num_ranks = 2,
                                    .trace = plain_trace};
    struct pen_run_figures disturbed = {.step_sec = &sec,
                                        .num_steps = 1,
                                        .num_ranks = 2,
                                        .waited_for = waited_for,
                                        .trace = trace};
    struct pen_blame blame;
    assert_int_equal(PEN_OK,
                     pen_blame_find(&disturbed, &plain, schedule, &blame));
    /* 8 ms of rank 1's F0 and 2 ms of rank 0's F2. */
    assert_int_equal(PEN_BLAME_RANK, blame.kind);
    assert_int_equal(1, blame.rank);
    expect_close(0.8, blame.share, "share of rank 1");
    expect_close(5, blame.factor, "its factor");
    static const struct pen_blame_op chain[] = {
        {0, 0}, {0, 1}, {1, 0}, {0, 3}}; /* F0, its send, F0, F2 */
    assert_int_equal(4, blame.num_chain);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(chain[i].rank, blame.chain[i].rank);
        assert_int_equal(chain[i].event, blame.chain[i].event);
    }
    pen_blame_release(&blame);
    pen_trace_free(plain_trace);
    pen_trace_free(trace);
    pen_schedule_free(schedule);
}

static void seconds_of_ranks_tell_the_same(void **state)
{
    (void)state;
    struct pen_schedule *schedule = make("1f1b", 4, 8, 1);
    double plain_sec[] = {1, 1};
    double sec[] = {1.8, 1.8};
    struct pen_rank_seconds plain_ranks[8];
    struct pen_rank_seconds ranks[8];
    for (uint32_t i = 0; i < 8; i++) {
        plain_ranks[i] = (struct pen_rank_seconds){.busy_sec = 1.6,
                                                   .pipeline_sec = 0.4,
                                                   .longest_for = i ^ 1u,
                                                   .longest_sec = 0.3};
        ranks[i] = plain_ranks[i];
        ranks[i].pipeline_sec = 2;
    }
    struct pen_run_figures plain = {.step_sec = plain_sec,
                                    .num_steps = 2,
                                    .ranks = plain_ranks,
                                    .num_ranks = 8};
    struct pen_run_figures disturbed = {
        .step_sec = sec, .num_steps = 2, .ranks = ranks, .num_ranks = 8};
    struct pen_text words = PEN_TEXT_EMPTY;

    ranks[6] = plain_ranks[6];
    ranks[6].busy_sec = 3.04; /* 1.44 of the 1.6 s that both are longer */
    pen_blame_tell(&disturbed, &plain, schedule, &words);
    assert_string_equal("Rank 6 (row 2 of pipeline 1) computes 1.9 times as "
                        "long as undisturbed; this causes 90 % of the 800 ms "
                        "by which a step is longer.\n",
                        pen_text_string(&words));

    /* Nobody computes longer; rank 5 waits longest, all come late to sums. */
    pen_text_clear(&words);
    for (uint32_t i = 0; i < 8; i++) {
        ranks[i] = plain_ranks[i];
        ranks[i].sums_sec = 1.6;
    }
    ranks[5].pipeline_sec = 1.6;
    pen_blame_tell(&disturbed, &plain, schedule, &words);
    assert_string_equal(
        "A message from rank 4 (row 0 of pipeline 1) to rank 5 (row 1 of "
        "pipeline 1) takes longer than undisturbed; this causes 75 % of the "
        "800 ms by which a step is longer.\n",
        pen_text_string(&words));

    pen_text_clear(&words);
    ranks[5].pipeline_sec = 0.4;
    ranks[1].sums_sec = 1.61;
    pen_blame_tell(&disturbed, &plain, schedule, &words);
    assert_string_equal(
        "The sum of the gradients of row 1 takes longer than undisturbed; this "
        "causes 100 % of the 800 ms by which a step is longer.\n",
        pen_text_string(&words));

    pen_text_clear(&words);
    memcpy(ranks, plain_ranks, sizeof ranks);
    pen_blame_tell(&disturbed, &plain, schedule, &words);
    assert_string_equal("A step is 800 ms longer than undisturbed, but no "
                        "rank, link or sum alone takes longer.\n",
                        pen_text_string(&words));
    pen_text_release(&words);
    pen_schedule_free(schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_rank_is_found_in_every_schedule),
        cmocka_unit_test(a_slow_rank_is_found_among_replicas),
        cmocka_unit_test(a_slow_link_is_found),
        cmocka_unit_test(slow_sums_are_found),
        cmocka_unit_test(nobody_is_to_blame_for_nothing),
        cmocka_unit_test(one_cause_is_told_in_a_sentence),
        cmocka_unit_test(many_causes_are_told_together),
        cmocka_unit_test(who_waits_for_room_waits_for_the_receiver),
        cmocka_unit_test(seconds_of_ranks_tell_the_same),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
