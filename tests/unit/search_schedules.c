/*
 * The search returns legal schedules within the limit, never longer than a
 * generator's, and shorter ones where ranks are uneven.
 */
#include "schedule/search.h"
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct pen_memory half = {
    .forward = 1, .input = -0.5, .weight = -0.5};

/* Searches and verifies; fails the test when nothing is found. */
static struct pen_schedule *search(const struct pen_search_args *args,
                                   struct pen_search_report *report)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_schedule *schedule = NULL;
    if (pen_schedule_search(args, &schedule, report, &why) != PEN_OK)
        fail_msg("p=%u m=%u limit %g: %s", args->ranks, args->microbatches,
                 args->memory_limit, pen_text_string(&why));
    struct pen_verify_options options = {.memory_limit = args->memory_limit,
                                         .costs = args->costs};
    if (pen_schedule_verify(schedule, &options, NULL, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    struct pen_timing *timing = time_of(schedule, args->costs);
    expect_close(timing->span_sec, report->span_sec, "reported span");
    pen_timing_free(timing);
    pen_text_release(&why);
    return schedule;
}

/* Rates printed by Qi et al., ICLR 2024, arXiv 2401.10241, as in bench/. */
static void expect_rate(uint32_t ranks, uint32_t microbatches, double limit,
                        const struct pen_cost *times, double latency,
                        double printed, unsigned placements)
{
    struct pen_costs costs = unit_costs();
    costs.uniform.forward_sec = times->forward_sec;
    costs.uniform.input_sec = times->input_sec;
    costs.uniform.weight_sec = times->weight_sec;
    costs.latency_sec = latency;
    costs.memory = half;
    struct pen_search_args args = {.ranks = ranks,
                                   .microbatches = microbatches,
                                   .placements = placements,
                                   .memory_limit = limit,
                                   .has_memory = true,
                                   .costs = &costs,
                                   .effort = 0.02};
    struct pen_search_report report;
    pen_schedule_free(search(&args, &report));
    double work = microbatches *
                  (times->forward_sec + times->input_sec + times->weight_sec);
    double rate = (report.span_sec - work) / report.span_sec;
    if (rate > printed + 0.00005)
        fail_msg("p=%u m=%u: printed %.4f, found %.4f", ranks, microbatches,
                 printed, rate);
}

static void published_zero_bubble_rates_are_reached(void **state)
{
    (void)state;
    static const struct pen_cost small = {
        .forward_sec = 18.522, .input_sec = 18.086, .weight_sec = 9.337};
    static const struct pen_cost large = {
        .forward_sec = 11.347, .input_sec = 11.248, .weight_sec = 8.132};
    expect_rate(8, 24, 8, &small, 0.601, 0.1585, PEN_SEARCH_LINEAR);
    expect_rate(8, 24, 16, &small, 0.601, 0.0433, PEN_SEARCH_LINEAR);
    /* On a V the same memory gives less than half of the bubble. */
    expect_rate(8, 24, 8, &small, 0.601, 0.0703, PEN_SEARCH_ANY);
    expect_rate(8, 24, 16, &small, 0.601, 0.0433, PEN_SEARCH_ANY);
    expect_rate(16, 48, 16, &large, 0.377, 0.1397, PEN_SEARCH_LINEAR);
}

/* Four ranks, the second half slower, and a slow link in the middle. */
struct uneven {
    struct pen_costs costs;
    struct pen_cost items[4];
    struct pen_link links[2];
};

static void set_uneven(struct uneven *uneven)
{
    uneven->costs = unit_costs();
    for (uint32_t i = 0; i < 4; i++) {
        uneven->items[i] = uneven->costs.uniform;
        uneven->items[i].forward_sec = 1 + 0.3 * i;
        uneven->items[i].input_sec = 1.1 + 0.2 * i;
        uneven->items[i].weight_sec = 1.6 - 0.15 * i;
    }
    uneven->links[0] = (struct pen_link){1, 2, 0.9, 0};
    uneven->links[1] = (struct pen_link){2, 1, 0.9, 0};
    uneven->costs.scope = PEN_COST_PER_RANK;
    uneven->costs.items = uneven->items;
    uneven->costs.num_items = 4;
    uneven->costs.links = uneven->links;
    uneven->costs.num_links = 2;
    uneven->costs.memory = half;
}

static void uneven_ranks_gain_at_every_limit(void **state)
{
    (void)state;
    struct uneven uneven;
    set_uneven(&uneven);
    static const double limits[] = {1, 1.5, 2, 3, 4, 6, 8, 0};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct pen_search_args args = {.ranks = 4,
                                       .microbatches = 10,
                                       .memory_limit = limits[i],
                                       .has_memory = true,
                                       .costs = &uneven.costs,
                                       .effort = 0.05};
        struct pen_search_report report;
        pen_schedule_free(search(&args, &report));
        bool has_start = report.start[0] != '\0';
        if (has_start && report.span_sec > report.start_span_sec)
            fail_msg("limit %g: %s takes %g, the search %g", limits[i],
                     report.start, report.start_span_sec, report.span_sec);
        if (report.span_sec < report.lower_bound_sec * (1 - 1e-9))
            fail_msg("limit %g: %g is below the bound %g", limits[i],
                     report.span_sec, report.lower_bound_sec);
        bool is_tight = limits[i] > 0 && limits[i] <= 2;
        if (is_tight && has_start &&
            report.span_sec > 0.97 * report.start_span_sec)
            fail_msg("limit %g: %s takes %g, the search only %g", limits[i],
                     report.start, report.start_span_sec, report.span_sec);
    }
}

static void same_seed_gives_same_schedule(void **state)
{
    (void)state;
    struct uneven uneven;
    set_uneven(&uneven);
    struct pen_search_args args = {.ranks = 4,
                                   .microbatches = 6,
                                   .memory_limit = 2,
                                   .has_memory = true,
                                   .costs = &uneven.costs,
                                   .effort = 0.02,
                                   .seed = 7};
    struct pen_search_report report;
    struct pen_schedule *first = search(&args, &report);
    struct pen_schedule *second = search(&args, &report);
    assert_true(pen_schedule_equal(first, second));
    pen_schedule_free(first);
    pen_schedule_free(second);
}

static void too_little_memory_is_refused_with_the_least(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    struct pen_search_args args = {
        .ranks = 3, .microbatches = 4, .memory_limit = 0.9, .costs = &costs};
    struct pen_schedule *schedule = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INFEASIBLE,
                     pen_schedule_search(&args, &schedule, NULL, &why));
    assert_non_null(strstr(pen_text_string(&why), "needs 1"));
    assert_null(schedule);
    pen_text_release(&why);
}

/* A limit of one micro-batch is the tightest there is, on any placement. */
static void one_microbatch_of_memory_is_enough(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    static const unsigned placements[] = {PEN_SEARCH_LINEAR, PEN_SEARCH_LOOP,
                                          PEN_SEARCH_V};
    for (size_t i = 0; i < 3; i++) {
        struct pen_search_args args = {.ranks = 5,
                                       .microbatches = 7,
                                       .placements = placements[i],
                                       .memory_limit = 1,
                                       .has_memory = true,
                                       .costs = &costs,
                                       .effort = 0.01};
        struct pen_search_report report;
        pen_schedule_free(search(&args, &report));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_zero_bubble_rates_are_reached),
        cmocka_unit_test(uneven_ranks_gain_at_every_limit),
        cmocka_unit_test(same_seed_gives_same_schedule),
        cmocka_unit_test(too_little_memory_is_refused_with_the_least),
        cmocka_unit_test(one_microbatch_of_memory_is_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
