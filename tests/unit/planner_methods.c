/*
 * The smaller methods of the literature give what their formulas say: fronts of
 * Pareto, PipeDream-2BW, DAPPLE and the order of devices.
 */
#include "support/support.h"

#include "base/random.h"
#include "planner/dapple.h"
#include "planner/device_order.h"
#include "planner/pareto.h"
#include "planner/two_bw.h"

#include <math.h>
#include <string.h>

/* ---- Pareto ---- */

static bool beats(const struct pen_pareto_point *a,
                  const struct pen_pareto_point *b)
{
    bool is_better = a->time_sec < b->time_sec || a->bytes < b->bytes;
    return a->time_sec <= b->time_sec && a->bytes <= b->bytes &&
           (is_better || a->label < b->label);
}

static void points_that_nothing_beats_stay(void **state)
{
    (void)state;
    struct pen_random random = {.state = 1};
    for (int i = 0; i < 500; i++) {
        struct pen_pareto_point all[20];
        struct pen_pareto_point kept[20];
        uint32_t n = pen_random_below(&random, 21);
        for (uint32_t j = 0; j < n; j++)
            all[j] = (struct pen_pareto_point){pen_random_below(&random, 9),
                                               pen_random_below(&random, 9), j};
        memcpy(kept, all, n * sizeof *all);
        uint32_t count = pen_pareto_reduce(kept, n);
        uint32_t expected = 0;
        for (uint32_t j = 0; j < n; j++) {
            bool is_beaten = false;
            for (uint32_t k = 0; k < n; k++)
                is_beaten = is_beaten || (k != j && beats(&all[k], &all[j]));
            expected += is_beaten ? 0 : 1;
            for (uint32_t k = 0; k < count && !is_beaten; k++)
                is_beaten = kept[k].label == all[j].label;
            assert_true(is_beaten); /* or kept */
        }
        assert_int_equal(expected, count);
        for (uint32_t j = 1; j < count; j++)
            assert_true(kept[j - 1].time_sec < kept[j].time_sec);
    }
}

/* ---- PipeDream-2BW ---- */

static void width_and_depth_follow_memory_and_network(void **state)
{
    (void)state;
    const double sec[] = {1, 1, 1, 1};
    const double slower[] = {1.5, 1.5, 1.5, 1.5};
    const double bytes[] = {10, 10, 10, 10};
    const struct pen_2bw_mode modes[] = {{1, false, sec, 40, 1},
                                         {1, true, slower, 40, 1}};
    struct pen_2bw_problem problem = {.num_layers = 4,
                                      .parameter_bytes = bytes,
                                      .modes = modes,
                                      .num_modes = 2,
                                      .num_devices = 4,
                                      .global_batch = 16,
                                      .memory_bytes = 1000,
                                      .bytes_per_sec = 1e9};
    struct pen_2bw_plan plan;
    assert_int_equal(PEN_OK, pen_2bw_solve(&problem, &plan, NULL));
    assert_int_equal(4, plan.width);
    assert_int_equal(4, plan.num_microbatches);
    expect_close(1, plan.samples_per_sec, "four samples in four seconds");
    expect_close(120, plan.memory_bytes, "two versions and activations");
    problem.bytes_per_sec = 2; /* a reduction of 30 s in 4 micro-batches */
    assert_int_equal(PEN_OK, pen_2bw_solve(&problem, &plan, NULL));
    assert_int_equal(2, plan.width);
    expect_close(1. / 1.5, plan.samples_per_sec, "2 layers and a message");
    problem.bytes_per_sec = 1e9;
    problem.memory_bytes = 34; /* 2 * 40 / 4 + 40 / 4 + 4 */
    assert_int_equal(PEN_OK, pen_2bw_solve(&problem, &plan, NULL));
    assert_int_equal(4, plan.depth);
    assert_int_equal(1, plan.mode);
    problem.memory_bytes = 33;
    struct pen_text why = PEN_TEXT_EMPTY;
    assert_int_equal(PEN_INFEASIBLE, pen_2bw_solve(&problem, &plan, &why));
    assert_string_equal("no width and depth of 4 devices fit",
                        pen_text_string(&why));
    pen_text_release(&why);
}

/* ---- DAPPLE ---- */

static const struct pen_dapple_layer dapple_layers[] = {
    {4, 8, 2}, {2, 40, 6}, {6, 100, 0}};

static struct pen_dapple_problem dapple_problem(uint32_t machines)
{
    return (struct pen_dapple_problem){.layers = dapple_layers,
                                       .num_layers = 3,
                                       .num_machines = machines,
                                       .num_devices = 2,
                                       .inner_bytes_per_sec = 100,
                                       .outer_bytes_per_sec = 10,
                                       .num_microbatches = 5,
                                       .most_stages = 3};
}

static void policies_take_their_devices(void **state)
{
    (void)state;
    static const uint32_t expected[][4] = {
        {0, 2, 1, 0}, {1, 2, 0, 0}, {0, 1, 1, 1}};
    const struct pen_dapple_problem problem = dapple_problem(4);
    for (int policy = 0; policy < PEN_DAPPLE_POLICIES; policy++) {
        uint32_t spare[] = {1, 2, 2, 2};
        uint32_t used[4];
        assert_int_equal(PEN_OK, pen_dapple_take((enum pen_dapple_policy)policy,
                                                 3, &problem, spare, used));
        assert_memory_equal(expected[policy], used, sizeof used);
        assert_int_equal(2 - used[1], spare[1]);
        assert_int_equal(PEN_INFEASIBLE,
                         pen_dapple_take((enum pen_dapple_policy)policy, 5,
                                         &problem, spare, used));
    }
}

/*
 * Two replicas for the first two layers, on one machine, and two for the last,
 * on the other: block 3, 4 more of it, a message of 6 bytes both ways at 10/s;
 * reductions of 48 and 100 bytes at 100/s, the second with a block to spare.
 */
static void latency_is_that_of_the_formula(void **state)
{
    (void)state;
    struct pen_dapple_problem problem = dapple_problem(2);
    struct pen_dapple_stage stages[] = {
        {.first_layer = 0, .num_layers = 2, .num_replicas = 2, .used = {2, 0}},
        {.first_layer = 2, .num_layers = 1, .num_replicas = 2, .used = {0, 2}}};
    expect_close(4 * 3 + 3 + 3 + 1.2 + .48,
                 pen_dapple_latency(&problem, stages, 2), "on two machines");
    stages[1].used[0] = 1; /* its reduction crosses the network: 10 s */
    stages[1].used[1] = 1;
    expect_close(4 * 3 + 3 + 3 + 1.2 + 7,
                 pen_dapple_latency(&problem, stages, 2), "scattered");
}

static void no_stages_have_less_latency(void **state)
{
    (void)state;
    struct pen_dapple_problem problem = dapple_problem(2);
    struct pen_dapple_plan plan;
    struct pen_random random = {.state = 3};
    assert_int_equal(PEN_OK, pen_dapple_solve(&problem, &plan, NULL));
    expect_close(plan.latency_sec,
                 pen_dapple_latency(&problem, plan.stages, plan.num_stages),
                 "its own stages");
    for (int i = 0; i < 2000; i++) {
        struct pen_dapple_stage stages[3];
        uint32_t spare[] = {2, 2};
        uint32_t layer = 0;
        uint32_t left = 4;
        uint32_t count = 0;
        for (; layer < 3; count++) {
            struct pen_dapple_stage *stage = &stages[count];
            stage->first_layer = layer;
            stage->num_layers = 1 + pen_random_below(&random, 3 - layer);
            layer += stage->num_layers;
            stage->num_replicas =
                layer == 3 ? left
                           : 1 + pen_random_below(&random, left - (3 - layer));
            left -= stage->num_replicas;
            stage->policy = (enum pen_dapple_policy)pen_random_below(
                &random, PEN_DAPPLE_POLICIES);
            assert_int_equal(PEN_OK,
                             pen_dapple_take(stage->policy, stage->num_replicas,
                                             &problem, spare, stage->used));
        }
        assert_true(pen_dapple_latency(&problem, stages, count) >=
                    plan.latency_sec - 1e-9);
    }
    problem.num_machines = 64;
    problem.num_devices = 64;
    struct pen_text why = PEN_TEXT_EMPTY;
    problem.most_stages = 8;
    assert_int_equal(PEN_INVALID, pen_dapple_solve(&problem, &plan, &why));
    assert_string_equal("3 layers on 64 machines of 64 devices in 8 stages "
                        "cannot be searched",
                        pen_text_string(&why));
    pen_text_release(&why);
}

/* ---- the order of devices ---- */

/* Devices of a machine have numbers far from each other. */
static void expect_machines_together(uint32_t num_machines, uint32_t size)
{
    static double links[64 * 64];
    uint32_t order[64];
    uint32_t n = num_machines * size;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++)
            links[a * n + b] = a % num_machines == b % num_machines ? 100 : 1;
    assert_int_equal(PEN_OK, pen_device_order(links, n, order, NULL));
    uint32_t is_met[64] = {0};
    for (uint32_t i = 0; i < n; i++) {
        is_met[order[i]]++;
        assert_int_equal(order[i / size * size] % num_machines,
                         order[i] % num_machines);
    }
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(1, is_met[i]);
}

static void devices_of_a_machine_are_neighbours(void **state)
{
    (void)state;
    expect_machines_together(2, 4);
    expect_machines_together(4, 3);
    expect_machines_together(8, 8);
}

static void halves_have_the_least_between_them(void **state)
{
    (void)state;
    enum { DEVICES = 8 };
    struct pen_random random = {.state = 9};
    for (int i = 0; i < 50; i++) {
        double links[DEVICES * DEVICES] = {0};
        uint32_t order[DEVICES];
        double least = INFINITY;
        double found = 0;
        for (uint32_t a = 0; a < DEVICES; a++)
            for (uint32_t b = 0; b < a; b++)
                links[a * DEVICES + b] = links[b * DEVICES + a] =
                    pen_random_below(&random, 100);
        assert_int_equal(PEN_OK, pen_device_order(links, DEVICES, order, NULL));
        for (uint32_t set = 0; set < 1u << DEVICES; set++) {
            double cut = 0;
            uint32_t size = 0;
            for (uint32_t a = 0; a < DEVICES; a++) {
                size += set >> a & 1;
                for (uint32_t b = 0; b < a; b++)
                    if ((set >> a & 1) != (set >> b & 1))
                        cut += links[a * DEVICES + b];
            }
            if (size == DEVICES / 2)
                least = fmin(least, cut);
        }
        for (uint32_t a = 0; a < DEVICES / 2; a++)
            for (uint32_t b = DEVICES / 2; b < DEVICES; b++)
                found += links[order[a] * DEVICES + order[b]];
        expect_close(least, found, "between the halves");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_that_nothing_beats_stay),
        cmocka_unit_test(width_and_depth_follow_memory_and_network),
        cmocka_unit_test(policies_take_their_devices),
        cmocka_unit_test(latency_is_that_of_the_formula),
        cmocka_unit_test(no_stages_have_less_latency),
        cmocka_unit_test(devices_of_a_machine_are_neighbours),
        cmocka_unit_test(halves_have_the_least_between_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
