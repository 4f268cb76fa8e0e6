/*
 * A chain on many or odd devices: what is too much is refused, what is large is
 * cut in time, and more kinds than have all their orders tried say so.
 */
#include "support/support.h"

#include "planner/chain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 96 };

static struct pen_chain_layer layers[1000];
static struct pen_chain_seconds seconds[1000];
static struct pen_chain_seconds slow_seconds[1000];

static struct pen_chain_group group_of(uint32_t num_devices)
{
    return (struct pen_chain_group){.seconds = seconds,
                                    .num_devices = num_devices};
}

static struct pen_chain_problem problem_of(const struct pen_chain_group *groups,
                                           uint32_t num_groups)
{
    for (uint32_t i = 0; i < 1000; i++) {
        layers[i] = (struct pen_chain_layer){.state_bytes = 10,
                                             .gradient_bytes = 4,
                                             .stash_bytes = 1,
                                             .output_bytes = 1};
        seconds[i] = (struct pen_chain_seconds){1, 1, 1};
        slow_seconds[i] = (struct pen_chain_seconds){2, 2, 2};
    }
    return (struct pen_chain_problem){.layers = layers,
                                      .num_layers = LAYERS,
                                      .groups = groups,
                                      .num_groups = num_groups,
                                      .num_microbatches = 32,
                                      .most_replicas = 1};
}

static struct pen_chain_plan *solve(const struct pen_chain_problem *problem)
{
    struct pen_chain_plan *plan = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen_chain_solve_any_order(problem, 20, &plan, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
    return plan;
}

/* Twice the speed, twice the layers: two slow devices and two fast ones. */
static void faster_devices_get_more_layers(void **state)
{
    (void)state;
    struct pen_chain_group groups[] = {group_of(2), group_of(2)};
    struct pen_chain_problem problem = problem_of(groups, 2);
    groups[1].seconds = slow_seconds;
    struct pen_chain_plan *plan = solve(&problem);
    expect_close(96, plan->stage_sec, "the slowest stage");
    assert_int_equal(4, plan->num_stages);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(plan->stages[i].group == 0 ? 32 : 16,
                         plan->stages[i].num_layers);
    pen_chain_plan_free(plan);
}

/* The first stages hold the most micro-batches: memory belongs there. */
static void larger_devices_come_first(void **state)
{
    (void)state;
    struct pen_chain_group groups[] = {group_of(2), group_of(2)};
    struct pen_chain_problem problem = problem_of(groups, 2);
    groups[0].memory_bytes = 24 * 12; /* two micro-batches */
    groups[1].memory_bytes = 24 * 14; /* four */
    struct pen_chain_plan *plan = solve(&problem);
    expect_close(72, plan->stage_sec, "the slowest stage");
    assert_int_equal(1, plan->stages[0].group);
    assert_int_equal(0, plan->stages[3].group);
    assert_int_equal(4, plan->stages[0].num_in_flight);
    assert_int_equal(24 * 14, plan->stages[0].bytes);
    assert_true(plan->has_all_orders);
    pen_chain_plan_free(plan);
}

/* Five devices and three layers: two stages are replicated, or two idle. */
static void fewer_layers_than_devices(void **state)
{
    (void)state;
    const struct pen_chain_group group = group_of(5);
    struct pen_chain_problem problem = problem_of(&group, 1);
    struct pen_chain_plan *plan = NULL;
    problem.num_layers = 3;
    assert_int_equal(PEN_INFEASIBLE, pen_chain_solve(&problem, &plan, NULL));
    problem.may_idle = true;
    assert_int_equal(PEN_OK, pen_chain_solve(&problem, &plan, NULL));
    expect_close(3, plan->stage_sec, "with two idle");
    pen_chain_plan_free(plan);
    problem.most_replicas = 5;
    assert_int_equal(PEN_OK, pen_chain_solve(&problem, &plan, NULL));
    expect_close(9.0 / 5, plan->stage_sec, "all as replicas");
    assert_int_equal(1, plan->num_stages);
    pen_chain_plan_free(plan);
}

static void a_thousand_layers_on_many_devices(void **state)
{
    (void)state;
    const struct pen_chain_group group = group_of(512);
    struct pen_chain_problem problem = problem_of(&group, 1);
    problem.num_layers = 1000;
    struct pen_chain_plan *plan = solve(&problem);
    expect_close(6, plan->stage_sec, "two layers at most");
    assert_int_equal(512, plan->num_stages);
    pen_chain_plan_free(plan);
}

static void many_kinds_say_that_orders_are_left_out(void **state)
{
    (void)state;
    struct pen_chain_group groups[24];
    for (uint32_t i = 0; i < 24; i++) {
        groups[i] = group_of(1);
        groups[i].memory_bytes = 4 * 10 + 4 * (i + 1);
    }
    struct pen_chain_problem problem = problem_of(groups, 24);
    struct pen_chain_plan *plan = solve(&problem);
    expect_close(12, plan->stage_sec, "four layers on each");
    assert_false(plan->has_all_orders);
    for (uint32_t i = 0; i < 24; i++)
        assert_int_equal(23 - i, plan->stages[i].group);
    pen_chain_plan_free(plan);
}

/* A hundred kinds, some too small for any layer. */
static void idle_devices_of_many_kinds(void **state)
{
    (void)state;
    struct pen_chain_group groups[100];
    for (uint32_t i = 0; i < 100; i++) {
        groups[i] = group_of(2);
        groups[i].memory_bytes = i % 2 == 0 ? 5 : 20 * 210;
    }
    struct pen_chain_problem problem = problem_of(groups, 100);
    problem.num_layers = 1000;
    problem.num_microbatches = 400;
    problem.may_idle = true;
    struct pen_chain_plan *plan = NULL;
    assert_int_equal(PEN_OK, pen_chain_solve(&problem, &plan, NULL));
    assert_false(plan->is_exact);
    expect_close(30, plan->stage_sec, "ten layers on each of a hundred");
    for (uint32_t i = 0; i < plan->num_stages; i++) {
        assert_int_equal(1, plan->stages[i].group % 2);
        assert_true(plan->stages[i].bytes <= 20 * 210);
    }
    pen_chain_plan_free(plan);
}

static void expect_refusal(const struct pen_chain_problem *problem,
                           pen_status status, const char *expected)
{
    struct pen_chain_plan *plan = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(status,
                     pen_chain_solve_any_order(problem, 1, &plan, &why));
    assert_string_equal(expected, pen_text_string(&why));
    assert_null(plan);
    pen_text_release(&why);
}

static void what_cannot_be_cut_is_told(void **state)
{
    (void)state;
    struct pen_chain_group group = group_of(2);
    struct pen_chain_problem problem = problem_of(&group, 1);
    problem.num_layers = 0;
    expect_refusal(&problem, PEN_INVALID,
                   "0 layers on 1 groups with 32 micro-batches");
    problem.num_layers = 4;
    group.memory_bytes = 20;
    expect_refusal(&problem, PEN_INFEASIBLE,
                   "no cut of 4 layers on 2 devices fits in memory");
    layers[1].stash_bytes = UINT64_MAX;
    expect_refusal(&problem, PEN_INVALID,
                   "layer 1 has more than 35184372088832 bytes");
    layers[1].stash_bytes = 0;
    seconds[3].weight_sec = NAN;
    expect_refusal(&problem, PEN_INVALID,
                   "layer 3 takes 1, 1 and nan s on group 0");
    seconds[3].weight_sec = 0;
    group.num_devices = 65536;
    problem.num_layers = 1000;
    expect_refusal(&problem, PEN_INVALID,
                   "1000 layers on 65536 devices are too many to cut");
    problem.num_groups = 0;
    expect_refusal(&problem, PEN_INVALID,
                   "there is no order of 0 groups to try");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faster_devices_get_more_layers),
        cmocka_unit_test(larger_devices_come_first),
        cmocka_unit_test(fewer_layers_than_devices),
        cmocka_unit_test(a_thousand_layers_on_many_devices),
        cmocka_unit_test(many_kinds_say_that_orders_are_left_out),
        cmocka_unit_test(idle_devices_of_many_kinds),
        cmocka_unit_test(what_cannot_be_cut_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
