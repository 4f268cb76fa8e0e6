/*
 * The generators that search or pack instead of writing rows by a formula:
 * zb-auto, zb-v, v-half, v-min, hanayo and bitpipe keep all rules at any size
 * and with uneven costs, hold no more than they promise, and idle as their
 * papers or the recorded runs of the same recipe say.
 */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {"zb-auto", "zb-v",   "v-half",
                                    "v-min",   "hanayo", "bitpipe"};
#define NUM_NAMES (sizeof names / sizeof *names)

static struct pen_costs costs_of(double f, double i, double w, double hop)
{
    struct pen_costs costs = unit_costs();
    costs.uniform.forward_sec = f;
    costs.uniform.input_sec = i;
    costs.uniform.weight_sec = w;
    costs.latency_sec = hop;
    return costs;
}

struct result {
    double span;
    double makespan;
    double bubble;
    double peak; /* of the fullest rank */
};

static struct result run(const char *name, uint32_t p, uint32_t m, uint32_t v,
                         double limit, const struct pen_costs *costs)
{
    struct pen_generator_args args = {.ranks = p,
                                      .microbatches = m,
                                      .chunks = v,
                                      .memory_limit = limit,
                                      .costs = costs};
    struct pen_schedule *schedule = make_with(name, &args);
    struct pen_timing *timing = time_of(schedule, costs);
    struct result result = {timing->span_sec, timing->makespan_sec,
                            timing->bubble, 0};
    for (uint32_t rank = 0; rank < p; rank++)
        result.peak = fmax(result.peak, timing->ranks[rank].peak);
    pen_timing_free(timing);
    pen_schedule_free(schedule);
    return result;
}

static struct result run_at_unit_times(const char *name, uint32_t p, uint32_t m,
                                       uint32_t v)
{
    struct pen_costs costs = unit_costs();
    return run(name, p, m, v, 0, &costs);
}

static void expect_about(const char *what, double expected, double found)
{
    if (llround(expected * 1e4) != llround(found * 1e4))
        fail_msg("%s: expected %.4f, found %.6f", what, expected, found);
}

static void expect_verified(const char *name,
                            const struct pen_generator_args *args,
                            uint32_t window)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_verify_options options = {.send_window = window};
    struct pen_schedule *schedule = make_with(name, args);
    if (pen_schedule_verify(schedule, &options, NULL, &why) != PEN_OK)
        fail_msg("%s p=%u m=%u v=%u window %u: %s", name, args->ranks,
                 args->microbatches, args->chunks, window,
                 pen_text_string(&why));
    pen_schedule_free(schedule);
    pen_text_release(&why);
}

static bool is_possible(const char *name, uint32_t p, uint32_t m)
{
    return strcmp(name, "bitpipe") != 0 || (p % 2 == 0 && m % 2 == 0);
}

static void expect_all_verified(uint32_t p, uint32_t m,
                                const struct pen_costs *costs)
{
    for (size_t i = 0; i < NUM_NAMES; i++) {
        struct pen_generator_args args = {
            .ranks = p, .microbatches = m, .costs = costs};
        if (is_possible(names[i], p, m))
            expect_verified(names[i], &args, 0);
    }
    for (uint32_t v = 4; v <= 6; v += 2) {
        struct pen_generator_args args = {
            .ranks = p, .microbatches = m, .chunks = v, .costs = costs};
        expect_verified("hanayo", &args, 0);
    }
}

static void every_size_keeps_all_rules(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    for (uint32_t p = 1; p <= 16; p++) {
        const uint32_t ms[] = {1,         2,     3,         4,        p,
                               p + p % 2, p + 1, 2 * p - 1, 2 * p + 2};
        for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
            expect_all_verified(p, ms[i], &costs);
    }
    for (uint32_t p = 24; p <= 64; p += p / 3) {
        expect_all_verified(p, 7, &costs);
        expect_all_verified(p, p + 6, &costs);
    }
}

static void a_window_of_1_suffices_at_equal_times(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    for (uint32_t p = 1; p <= 12; p++) {
        for (uint32_t m = 1; m <= 2 * p + 2; m += p) {
            struct pen_generator_args args = {
                .ranks = p, .microbatches = m, .costs = &costs};
            expect_verified("zb-auto", &args, 1);
            expect_verified("zb-v", &args, 1);
            expect_verified("v-half", &args, 1);
            expect_verified("v-min", &args, 1);
        }
    }
}

/* A fixed sequence, from 0 to 1. */
static double next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 33) / 2147483648.0;
}

static void uneven_ranks_keep_all_rules(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (uint32_t round = 0; round < 60; round++) {
        uint32_t p = 2 + 2 * (round % 4);
        struct pen_cost items[8];
        struct pen_costs costs = unit_costs();
        costs.scope = PEN_COST_PER_RANK;
        costs.items = items;
        costs.num_items = p;
        costs.latency_sec = round % 3 * next_random(&seed);
        for (uint32_t rank = 0; rank < p; rank++) {
            items[rank] = costs.uniform;
            items[rank].forward_sec = 3 * next_random(&seed);
            items[rank].input_sec = 3 * next_random(&seed);
            items[rank].weight_sec = 3 * next_random(&seed);
            items[rank].memory = 0.5 + next_random(&seed);
        }
        expect_all_verified(p, 2 * (1 + round % 11), &costs);
    }
}

/* The times a schedule was made for are the times that it gets. */
static void the_window_costs_no_time(void **state)
{
    (void)state;
    struct pen_costs costs = costs_of(1, 1.1, 0.7, 0.15);
    const struct pen_time_options unlimited = {.send_window = 100000};
    for (size_t i = 0; i < NUM_NAMES; i++) {
        struct pen_generator_args args = {
            .ranks = 8, .microbatches = 48, .costs = &costs};
        struct pen_schedule *schedule = make_with(names[i], &args);
        struct pen_timing *own = time_of(schedule, &costs);
        struct pen_timing *free_run = NULL;
        assert_int_equal(PEN_OK, pen_schedule_time(schedule, &costs, &unlimited,
                                                   &free_run, NULL));
        expect_close(free_run->span_sec, own->span_sec, names[i]);
        pen_timing_free(own);
        pen_timing_free(free_run);
        pen_schedule_free(schedule);
    }
}

static void zb_auto_gets_shorter_with_memory(void **state)
{
    (void)state;
    const double spans[] = {27, 26, 25, 24, 24};
    struct pen_costs costs = unit_costs();
    for (uint32_t limit = 4; limit <= 8; limit++) {
        expect_close(spans[limit - 4],
                     run("zb-auto", 4, 8, 1, limit, &costs).span,
                     "span, half of the memory freed at I");
        struct pen_generator_args args = {.ranks = 4,
                                          .microbatches = 8,
                                          .memory_limit = limit,
                                          .has_memory = true,
                                          .costs = &costs};
        struct pen_schedule *schedule = make_with("zb-auto", &args);
        struct pen_timing *timing = time_of(schedule, &costs);
        expect_close(spans[limit - 4], timing->span_sec,
                     "span, all of the memory held to W");
        pen_timing_free(timing);
        pen_schedule_free(schedule);
    }
}

static void zb_auto_stays_within_its_limit(void **state)
{
    (void)state;
    struct pen_costs costs = costs_of(2, 1.7, 1.1, 0.2);
    costs.memory =
        (struct pen_memory){.forward = 1, .input = -0.3, .weight = -0.7};
    for (uint32_t p = 1; p <= 8; p++) {
        for (uint32_t limit = 1; limit <= 2 * p + 2; limit++) {
            struct pen_generator_args args = {.ranks = p,
                                              .microbatches = 3 * p,
                                              .memory_limit = limit,
                                              .has_memory = true,
                                              .costs = &costs};
            struct pen_schedule *schedule = make_with("zb-auto", &args);
            struct pen_verify_options options = {.memory_limit = limit,
                                                 .costs = &costs};
            struct pen_text why = PEN_TEXT_EMPTY;
            if (pen_schedule_verify(schedule, &options, NULL, &why) != PEN_OK)
                fail_msg("%s", pen_text_string(&why));
            pen_text_release(&why);
            pen_schedule_free(schedule);
        }
    }
}

static void zb_v_has_no_bubble_from_2p_minus_1_on(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 8; p++) {
        for (uint32_t m = 2 * p - 1; m <= 4 * p; m++) {
            struct result result = run_at_unit_times("zb-v", p, m, 0);
            expect_close(3.0 * m, result.span, "span");
            expect_close(p, result.peak, "peak");
        }
        struct result fewer = run_at_unit_times("zb-v", p, 2 * p - 2, 0);
        assert_true(fewer.span > 3.0 * (2 * p - 2));
    }
}

static void v_half_and_v_min_hold_what_they_promise(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 24; p++) {
        expect_close(p / 2 + 1, run_at_unit_times("v-half", p, 2 * p, 0).peak,
                     "peak of v-half");
        expect_close((p + 4) / 3, run_at_unit_times("v-min", p, 2 * p, 0).peak,
                     "peak of v-min");
    }
}

/* Of (p-1)T, the bubble of 1F1B; at equal times. */
static void v_half_and_v_min_idle_less_than_1f1b(void **state)
{
    (void)state;
    const uint32_t ps[] = {3, 4, 5, 6, 8};
    for (size_t i = 0; i < sizeof ps / sizeof *ps; i++) {
        uint32_t p = ps[i];
        for (uint32_t m = 2 * p; m <= 4 * p; m += p) {
            struct result half = run_at_unit_times("v-half", p, m, 0);
            struct result min = run_at_unit_times("v-min", p, m, 0);
            double share_half = (half.span - 3.0 * m) / (3.0 * (p - 1));
            double share_min = (min.span - 3.0 * m) / (3.0 * (p - 1));
            if (share_half < 0.275 || share_half > 0.465)
                fail_msg("v-half p=%u m=%u: %.4f", p, m, share_half);
            if (share_min < 0.415 || share_min > 0.645)
                fail_msg("v-min p=%u m=%u: %.4f", p, m, share_min);
        }
    }
}

static void v_schedules_suffer_from_unequal_times(void **state)
{
    (void)state;
    struct pen_costs close = costs_of(1, 1.2, 0.8, 0);
    struct pen_costs apart = costs_of(2, 3, 1, 0);
    expect_about("1f1b", 0.1795, run("1f1b", 8, 32, 1, 0, &close).bubble);
    expect_about("v-min", 0.2575, run("v-min", 8, 32, 0, 0, &close).bubble);
    expect_about("v-half", 0.1070, run("v-half", 8, 32, 0, 0, &close).bubble);
    expect_about("v-min", 0.3962, run("v-min", 8, 32, 0, 0, &apart).bubble);
    expect_about("v-half", 0.1899, run("v-half", 8, 32, 0, 0, &apart).bubble);
    expect_about("zb-v", 0.0657, run("zb-v", 8, 32, 0, 0, &apart).bubble);
}

static void hanayo_idles_less_with_more_waves(void **state)
{
    (void)state;
    const double bubbles[2][3] = {{6, 3.25, 1.625}, {14, 7.5, 3.75}};
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t p = 4u << i;
        for (uint32_t j = 0; j < 3; j++) {
            struct result result = run_at_unit_times("hanayo", p, p, 2u << j);
            expect_close(bubbles[i][j], result.makespan - 3.0 * p, "bubble");
            assert_true(result.peak <= p);
        }
    }
}

/* Units of p keep the peak and repeat the bubble; one pass does neither. */
static void hanayo_takes_the_faster_form_that_fits(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    struct result units = run("hanayo", 4, 8, 2, 4, &costs);
    expect_close(24 + 12, units.makespan, "units, p=4");
    expect_close(4, units.peak, "peak of units, p=4");
    struct result whole = run("hanayo", 4, 8, 2, 0, &costs);
    expect_close(24 + 8.5, whole.makespan, "one pass, p=4");
    expect_close(5.5, whole.peak, "peak of one pass, p=4");
    units = run("hanayo", 8, 16, 4, 8, &costs);
    expect_close(48 + 15, units.makespan, "units, p=8");
    whole = run("hanayo", 8, 16, 4, 0, &costs);
    expect_close(48 + 14.75, whole.makespan, "one pass, p=8");
}

static void bitpipe_idles_less_than_chimera(void **state)
{
    (void)state;
    const double bubbles[] = {2, 7};
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t p = 4u << i;
        struct result result = run_at_unit_times("bitpipe", p, p, 0);
        expect_close(bubbles[i], result.makespan - 3.0 * p, "bubble");
        assert_true(result.peak <= p);
    }
    for (uint32_t p = 4; p <= 16; p += 2) {
        struct result chimera = run_at_unit_times("chimera", p, p, 0);
        struct result bitpipe = run_at_unit_times("bitpipe", p, p, 0);
        assert_true(bitpipe.makespan < chimera.makespan);
        assert_true(bitpipe.peak <= p);
    }
}

static void expect_refused(const char *name,
                           const struct pen_generator_args *args,
                           pen_status expected, const char *words)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    pen_status status =
        pen_generator_make(pen_generator_find(name), args, &schedule, &why);
    assert_int_equal(expected, status);
    assert_null(schedule);
    if (strstr(pen_text_string(&why), words) == NULL)
        fail_msg("expected '%s' in: %s", words, pen_text_string(&why));
    pen_text_release(&why);
}

static void a_refusal_names_what_works(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    struct pen_generator_args args = {
        .ranks = 4, .microbatches = 8, .memory_limit = 0.5, .costs = &costs};
    expect_refused("zb-auto", &args, PEN_INFEASIBLE, "that works is 1");
    args.memory_limit = 3;
    expect_refused("zb-v", &args, PEN_INFEASIBLE, "that works is 4");
    expect_refused("hanayo", &args, PEN_INFEASIBLE, "that works is 4");
    args.memory_limit = 0;
    args.chunks = 3;
    expect_refused("hanayo", &args, PEN_INVALID, "4 would work");
    args.chunks = 0;
    args.ranks = 3;
    expect_refused("bitpipe", &args, PEN_INVALID, "2 or 4 would work");
    args.ranks = 4;
    args.microbatches = 5;
    expect_refused("bitpipe", &args, PEN_INVALID, "4 or 6 would work");
    costs.memory = (struct pen_memory){.forward = 1, .input = -2, .weight = 1};
    args.has_memory = true;
    expect_refused("zb-auto", &args, PEN_INVALID, "w=1 adds");
    expect_refused("zb-v", &args, PEN_INVALID, "w=1 adds");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_keeps_all_rules),
        cmocka_unit_test(a_window_of_1_suffices_at_equal_times),
        cmocka_unit_test(uneven_ranks_keep_all_rules),
        cmocka_unit_test(the_window_costs_no_time),
        cmocka_unit_test(zb_auto_gets_shorter_with_memory),
        cmocka_unit_test(zb_auto_stays_within_its_limit),
        cmocka_unit_test(zb_v_has_no_bubble_from_2p_minus_1_on),
        cmocka_unit_test(v_half_and_v_min_hold_what_they_promise),
        cmocka_unit_test(v_half_and_v_min_idle_less_than_1f1b),
        cmocka_unit_test(v_schedules_suffer_from_unequal_times),
        cmocka_unit_test(hanayo_idles_less_with_more_waves),
        cmocka_unit_test(hanayo_takes_the_faster_form_that_fits),
        cmocka_unit_test(bitpipe_idles_less_than_chimera),
        cmocka_unit_test(a_refusal_names_what_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
