/* The search's own machine agrees with the timer, and its bound holds. */
#include "schedule/search.h"
#include "schedule/search_bound.h"
#include "schedule/search_problem.h"
#include "support/support.h"

#include <stdlib.h>

/* Three ranks as uneven as a test can remember. */
static struct pen_costs uneven_costs(struct pen_cost *items,
                                     struct pen_link *links)
{
    struct pen_costs costs = unit_costs();
    for (uint32_t i = 0; i < 3; i++) {
        items[i] = costs.uniform;
        items[i].forward_sec = 1 + 0.25 * i;
        items[i].input_sec = 1.7 - 0.3 * i;
        items[i].weight_sec = 0.9 + 0.1 * i;
        items[i].sync_sec = 0.3;
        items[i].step_sec = 0.2 * i;
    }
    links[0] = (struct pen_link){.from = 1, .to = 2, .latency_sec = 0.6};
    links[1] = (struct pen_link){
        .from = 2, .to = 1, .latency_sec = 0.1, .bytes_per_sec = 4};
    costs.scope = PEN_COST_PER_RANK;
    costs.items = items;
    costs.num_items = 3;
    costs.links = links;
    costs.num_links = 2;
    costs.latency_sec = 0.05;
    costs.bytes = 1;
    costs.memory =
        (struct pen_memory){.forward = 1, .input = -0.5, .weight = -0.5};
    return costs;
}

static void expect_agreement(const char *name, uint32_t chunks,
                             bool is_blocking)
{
    struct pen_cost items[3];
    struct pen_link links[2];
    struct pen_costs costs = uneven_costs(items, links);
    costs.is_blocking = is_blocking;
    struct pen_generator_args args = {.ranks = 3,
                                      .microbatches = 6,
                                      .chunks = chunks,
                                      .has_memory = true,
                                      .costs = &costs};
    struct pen_schedule *schedule = make_with(name, &args);
    struct pen__problem problem;
    struct pen__evaluator *evaluator = NULL;
    struct pen__score score = {.span = 0};
    assert_int_equal(PEN_OK, pen__problem_init(&problem, &schedule->shape,
                                               &costs, 0, 0, NULL));
    assert_int_equal(PEN_OK, pen__evaluator_create(&problem, &evaluator));
    uint8_t *order = malloc(pen__order_size(&problem));
    assert_non_null(order);
    assert_true(pen__order_from_schedule(&problem, schedule, order));
    assert_true(pen__evaluate(evaluator, order, INT64_MAX, &score));

    struct pen_schedule *compute = NULL;
    struct pen_schedule *lowered = NULL;
    assert_int_equal(PEN_OK, pen__order_to_schedule(&problem, order, "again",
                                                    &compute, NULL));
    assert_int_equal(PEN_OK, pen_schedule_lower(compute, &lowered, NULL));
    struct pen_timing *timing = time_of(lowered, &costs);
    expect_close(timing->span_sec, (double)score.span / problem.per_sec, name);
    expect_close(timing->makespan_sec, (double)score.makespan / problem.per_sec,
                 name);
    /* A cap at the span lets it pass, a smaller one does not. */
    assert_true(pen__evaluate(evaluator, order, score.span, &score));
    assert_false(pen__evaluate(evaluator, order, score.span - 1, &score));
    assert_true(pen__span_bound(&problem) <= score.span);

    pen_timing_free(timing);
    pen_schedule_free(lowered);
    pen_schedule_free(compute);
    pen_schedule_free(schedule);
    pen__evaluator_free(evaluator);
    pen__problem_release(&problem);
    free(order);
}

static void evaluation_equals_the_timer(void **state)
{
    (void)state;
    for (int is_blocking = 0; is_blocking < 2; is_blocking++) {
        expect_agreement("gpipe", 0, is_blocking);
        expect_agreement("zb-h1", 0, is_blocking);
        expect_agreement("zb-h2", 0, is_blocking);
        expect_agreement("interleaved", 2, is_blocking);
        expect_agreement("interleaved", 3, is_blocking);
        expect_agreement("zb-v", 0, is_blocking);
        expect_agreement("v-half", 0, is_blocking);
    }
}

/* The closed forms: nothing is shorter than ZB-H1 at its memory, or ZB-V. */
static void bound_meets_published_schedules(void **state)
{
    (void)state;
    struct pen_costs costs = unit_costs();
    costs.memory =
        (struct pen_memory){.forward = 1, .input = -0.5, .weight = -0.5};
    struct pen_shape shape = {.placement = PEN_PLACEMENT_LINEAR,
                              .num_ranks = 4,
                              .num_stages = 4,
                              .num_copies = 1,
                              .num_microbatches = 8,
                              .num_slices = 1};
    struct pen__problem problem;
    assert_int_equal(PEN_OK,
                     pen__problem_init(&problem, &shape, &costs, 4, 0, NULL));
    expect_close(27, (double)pen__span_bound(&problem) / problem.per_sec,
                 "linear, limit p");
    pen__problem_release(&problem);
    shape.placement = PEN_PLACEMENT_V;
    shape.num_stages = 8;
    assert_int_equal(PEN_OK,
                     pen__problem_init(&problem, &shape, &costs, 4, 0, NULL));
    expect_close(24, (double)pen__span_bound(&problem) / problem.per_sec,
                 "v, limit p");
    pen__problem_release(&problem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluation_equals_the_timer),
        cmocka_unit_test(bound_meets_published_schedules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
