/*
 * Timing that skips the periodic part gives the same doubles as timing that
 * walks through it, for every generator, under costs that are meant to hurt:
 * uneven ranks, times that almost tie, ops and ranks that take no time, slow
 * and blocking links, windows of all widths.
 */
#include "base/random.h"
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

enum flavour {
    EVEN,
    UNEVEN,
    NEARLY_TIED,
    WHOLE_NUMBERS,
    FULL_OF_ZEROS,
    FLAVOURS
};

static double some_sec(enum flavour flavour, struct pen_random *random)
{
    static const double nearly[] = {1, 1 + 1e-9, 1 + 1e-6, 1 + 1e-3, 1 - 1e-6};
    switch (flavour) {
    case NEARLY_TIED:
        return nearly[pen_random_below(random, 5)];
    case WHOLE_NUMBERS:
        return 1 + pen_random_below(random, 3);
    case FULL_OF_ZEROS:
        return pen_random_below(random, 2) == 0 ? 0 : pen_random_unit(random);
    default:
        return pen_random_unit(random);
    }
}

static struct pen_cost some_cost(enum flavour flavour,
                                 struct pen_random *random)
{
    struct pen_cost cost = {.forward_sec = some_sec(flavour, random),
                            .input_sec = some_sec(flavour, random),
                            .weight_sec = some_sec(flavour, random),
                            .recompute_sec = -1,
                            .pair_sec = -1,
                            .memory = 1 + pen_random_below(random, 3)};
    if (pen_random_below(random, 4) == 0)
        cost.pair_sec = some_sec(flavour, random);
    if (pen_random_below(random, 2) == 0) {
        cost.sync_sec = some_sec(flavour, random);
        cost.step_sec = some_sec(flavour, random);
    }
    return cost;
}

/* Release with pen_costs_release(). */
static void random_costs(struct pen_random *random,
                         const struct pen_shape *shape, struct pen_costs *costs)
{
    enum flavour flavour = (enum flavour)pen_random_below(random, FLAVOURS);
    pen_costs_init(costs);
    costs->uniform = some_cost(flavour, random);
    if (flavour != EVEN) {
        bool is_per_rank = pen_random_below(random, 2) == 0;
        costs->scope = is_per_rank ? PEN_COST_PER_RANK : PEN_COST_PER_STAGE;
        costs->num_items =
            is_per_rank ? shape->num_ranks : pen_shape_parts(shape);
        costs->items = calloc(costs->num_items, sizeof *costs->items);
        assert_non_null(costs->items);
        for (uint32_t i = 0; i < costs->num_items; i++)
            costs->items[i] = some_cost(flavour, random);
    }
    if (pen_random_below(random, 2) == 0)
        costs->latency_sec = some_sec(flavour, random);
    if (pen_random_below(random, 3) == 0) {
        costs->bytes = 1;
        costs->bytes_per_sec = 0.5 + 4 * pen_random_unit(random);
    }
    costs->is_blocking = pen_random_below(random, 4) == 0;
}

static void expect_same(double full, double quick, const char *what,
                        const char *name, uint32_t rank)
{
    if (full != quick)
        fail_msg("%s, rank %u, %s: %.17g s in full, %.17g s extrapolated", name,
                 rank, what, full, quick);
}

/* Returns whether the quick one was extrapolated. */
static bool compare(const struct pen_schedule *schedule,
                    const struct pen_timer *timer,
                    const struct pen_costs *costs)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_timing *full = NULL;
    struct pen_timing *quick = NULL;
    if (pen_timer_run(timer, costs, true, &full, &why) != PEN_OK ||
        pen_timer_run(timer, costs, false, &quick, &why) != PEN_OK)
        fail_msg("%s: %s", schedule->name, pen_text_string(&why));
    const char *name = schedule->name;
    expect_same(full->makespan_sec, quick->makespan_sec, "makespan", name, 0);
    expect_same(full->span_sec, quick->span_sec, "span", name, 0);
    expect_same(full->bubble, quick->bubble, "bubble", name, 0);
    for (uint32_t rank = 0; rank < full->num_ranks; rank++) {
        const struct pen_rank_time *a = &full->ranks[rank];
        const struct pen_rank_time *b = &quick->ranks[rank];
        expect_same(a->start_sec, b->start_sec, "start", name, rank);
        expect_same(a->end_sec, b->end_sec, "end", name, rank);
        expect_same(a->busy_sec, b->busy_sec, "busy", name, rank);
        expect_same(a->idle_sec, b->idle_sec, "idle", name, rank);
        expect_same(a->peak, b->peak, "peak", name, rank);
        assert_int_equal(a->versions, b->versions);
    }
    assert_false(full->is_extrapolated);
    bool is_extrapolated = quick->is_extrapolated;
    pen_timing_free(full);
    pen_timing_free(quick);
    pen_text_release(&why);
    return is_extrapolated;
}

struct tally {
    unsigned tried;
    unsigned extrapolated;
};

static void try_schedule(struct pen_schedule *schedule,
                         struct pen_random *random, unsigned times,
                         struct tally *tally)
{
    /* Half of them with the narrowest window that works, or a wide one. */
    if (pen_random_below(random, 2) == 0) {
        uint32_t given = schedule->rules.send_window;
        schedule->rules.send_window = pen_random_below(random, 2) == 0 ? 1 : 7;
        if (pen_schedule_verify(schedule, NULL, NULL, NULL) != PEN_OK)
            schedule->rules.send_window = given;
    }
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_timer *timer = NULL;
    if (pen_timer_create(schedule, 0, &timer, &why) != PEN_OK)
        fail_msg("%s: %s", schedule->name, pen_text_string(&why));
    for (unsigned i = 0; i < times; i++) {
        struct pen_costs costs;
        random_costs(random, &schedule->shape, &costs);
        tally->tried++;
        tally->extrapolated += compare(schedule, timer, &costs);
        pen_costs_release(&costs);
    }
    pen_timer_free(timer);
    pen_text_release(&why);
}

static void try_generator(const struct pen_generator *generator,
                          struct pen_random *random, struct tally *tally)
{
    static const uint32_t ranks[] = {1, 2, 3, 4, 6, 8};
    struct pen_costs costs = unit_costs();
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        for (unsigned n = 0; n < 3; n++) {
            uint32_t m =
                ranks[i] * (8 + pen_random_below(random, 1 + 400 / ranks[i]));
            struct pen_generator_args args = {
                .ranks = ranks[i],
                .microbatches = m,
                .chunks = pen_random_below(random, 3),
                .slices = pen_random_below(random, 3),
                .costs = &costs};
            struct pen_schedule *schedule = NULL;
            if (pen_generator_make(generator, &args, &schedule, NULL) != PEN_OK)
                continue;
            try_schedule(schedule, random, 8, tally);
            pen_schedule_free(schedule);
        }
    }
}

static void skipping_the_period_changes_no_bit(void **state)
{
    (void)state;
    struct pen_random random = {1};
    struct tally all = {0, 0};
    for (size_t i = 0; pen_generator_at(i) != NULL; i++) {
        const struct pen_generator *generator = pen_generator_at(i);
        struct tally tally = {0, 0};
        try_generator(generator, &random, &tally);
        print_message("%-14s %4u of %4u extrapolated\n", generator->name,
                      tally.extrapolated, tally.tried);
        all.tried += tally.tried;
        all.extrapolated += tally.extrapolated;
    }
    print_message("%-14s %4u of %4u extrapolated\n", "all", all.extrapolated,
                  all.tried);
    assert_true(all.extrapolated * 3 > all.tried);
}

/* The schedules that the planner asks for at scale are all extrapolated. */
static void long_runs_with_even_costs_are_always_extrapolated(void **state)
{
    (void)state;
    static const char *const names[] = {"1f1b", "zb-h1", "zb-h2", "zb-auto",
                                        "pipedream"};
    static const uint32_t ranks[] = {1, 2, 4, 8, 16};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (size_t k = 0; k < sizeof ranks / sizeof *ranks; k++) {
            struct pen_costs costs = unit_costs();
            struct pen_schedule *schedule =
                make(names[i], ranks[k], 200 + 3 * ranks[k], 0);
            struct pen_timing *timing = time_of(schedule, &costs);
            if (!timing->is_extrapolated)
                fail_msg("%s on %u ranks is walked through", names[i],
                         ranks[k]);
            pen_timing_free(timing);
            pen_schedule_free(schedule);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(skipping_the_period_changes_no_bit),
        cmocka_unit_test(long_runs_with_even_costs_are_always_extrapolated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
