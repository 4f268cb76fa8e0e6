/*
 * A search of any placement is never worse than a search of one of them:
 * settings by dice, with little memory and with much, even and uneven ranks.
 */
#include "support/support.h"

#include "base/random.h"
#include "schedule/search.h"
#include "support/seed.h"

#include <math.h>
#include <stdlib.h>

#define NUM_SETTINGS 40u  /* every day */
#define ALL_SETTINGS 500u /* with PEN_LONG */

static double some_sec(struct pen_random *random)
{
    return 0.25 * (1 + pen_random_below(random, 8));
}

/* Release with pen_costs_release(). */
static void random_costs(struct pen_random *random, uint32_t ranks,
                         struct pen_costs *costs)
{
    pen_costs_init(costs);
    costs->latency_sec = 0.125 * pen_random_below(random, 4);
    bool is_even = pen_random_below(random, 2) == 0;
    costs->scope = is_even ? PEN_COST_UNIFORM : PEN_COST_PER_RANK;
    costs->num_items = is_even ? 0 : ranks;
    costs->items = calloc(ranks, sizeof *costs->items);
    assert_non_null(costs->items);
    for (uint32_t r = 0; r < ranks; r++) {
        costs->items[r] = costs->uniform;
        costs->items[r].forward_sec = some_sec(random);
        costs->items[r].input_sec = some_sec(random);
        costs->items[r].weight_sec = some_sec(random);
    }
    if (is_even)
        costs->uniform = costs->items[0];
    costs->memory =
        (struct pen_memory){.forward = 1, .input = -0.5, .weight = -0.5};
}

/* Span of the best schedule; INFINITY when none fits. */
static double span_of(const struct pen_search_args *args, unsigned placements)
{
    struct pen_search_args own = *args;
    struct pen_schedule *schedule = NULL;
    struct pen_search_report report;
    own.placements = placements;
    pen_status status = pen_schedule_search(&own, &schedule, &report, NULL);
    pen_schedule_free(schedule);
    assert_true(status == PEN_OK || status == PEN_INFEASIBLE);
    if (status == PEN_OK && !report.is_start &&
        report.span_sec < report.lower_bound_sec - 1e-9)
        fail_msg("span %g is below the bound %g", report.span_sec,
                 report.lower_bound_sec);
    return status == PEN_OK ? report.span_sec : (double)INFINITY;
}

static void check_setting(struct pen_random *random)
{
    static const unsigned all[] = {PEN_SEARCH_LINEAR, PEN_SEARCH_LOOP,
                                   PEN_SEARCH_V};
    struct pen_costs costs;
    uint32_t ranks = 2 + pen_random_below(random, 4);
    random_costs(random, ranks, &costs);
    const struct pen_search_args args = {
        .ranks = ranks,
        .microbatches = 2 + pen_random_below(random, 9),
        .memory_limit = 1 + 0.5 * pen_random_below(random, 2 * ranks),
        .has_memory = true,
        .costs = &costs,
        .effort = 0.01,
        .seed = pen_random_next(random)};
    double any = span_of(&args, PEN_SEARCH_ANY);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double one = span_of(&args, all[i]);
        if (any > one)
            fail_msg("%u ranks, %u micro-batches, limit %g, seed %llu: any "
                     "takes %g s, placement %u alone %g s",
                     ranks, args.microbatches, args.memory_limit,
                     (unsigned long long)args.seed, any, all[i], one);
    }
    pen_costs_release(&costs);
}

static void any_placement_is_never_worse_than_one(void **state)
{
    (void)state;
    uint64_t seeds[MOST_SEEDS];
    size_t count = seeds_of("search_placements", seeds);
    for (size_t i = 0; i < count; i++) {
        struct pen_random random = {seeds[i]};
        uint32_t settings = is_long_run() ? ALL_SETTINGS : NUM_SETTINGS;
        for (uint32_t k = 0; k < settings; k++)
            check_setting(&random);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_placement_is_never_worse_than_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
