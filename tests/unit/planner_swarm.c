/*
 * Routes of SWARM: equal peers take micro-batches in turn, uneven ones in
 * proportion; each stage sums each micro-batch once whichever peers are lost;
 * and the pace lies between that of plans that do not route and the bound.
 */
#include "support/support.h"

#include "planner/route.h"
#include "planner/swarm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 400u

static uint64_t seed_from_environment(void)
{
    const char *text = getenv("PEN_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 1;
}

/* ---- routes ---- */

static void equal_peers_take_turns(void **state)
{
    (void)state;
    struct pen_route_peer peers[5] = {{0}};
    struct pen_route route = {peers, 5};
    for (uint32_t i = 0; i < 5; i++)
        pen_route_add(&route, i, 0.5);
    for (uint32_t i = 0; i < 50; i++) {
        uint32_t peer = pen_route_take(&route, 3);
        assert_int_equal(i % 5, peer);
        pen_route_learn(&route, peer, 3, 6);
    }
}

static void work_follows_the_speeds(void **state)
{
    (void)state;
    struct pen_route_peer peers[3] = {{0}};
    struct pen_route route = {peers, 3};
    const double speeds[] = {1, 2, 5};
    uint32_t taken[3] = {0};
    for (uint32_t i = 0; i < 3; i++)
        pen_route_add(&route, i, 1);
    for (uint32_t i = 0; i < 8000; i++) {
        uint32_t peer = pen_route_take(&route, 1);
        taken[peer]++;
        pen_route_learn(&route, peer, 1, 1 / speeds[peer]);
    }
    for (uint32_t i = 0; i < 3; i++)
        assert_true(fabs(taken[i] - 1000 * speeds[i]) < 20);
}

static void
new_peers_begin_at_the_least_and_failing_ones_are_banned(void **state)
{
    (void)state;
    struct pen_route_peer peers[3] = {{0}};
    struct pen_route route = {peers, 3};
    assert_int_equal(PEN_ROUTE_NONE, pen_route_take(&route, 1));
    pen_route_add(&route, 0, 1);
    pen_route_add(&route, 1, 1);
    for (uint32_t i = 0; i < 100; i++)
        pen_route_take(&route, 1);
    pen_route_add(&route, 2, 1);
    uint32_t taken = 0;
    for (uint32_t i = 0; i < 30; i++)
        taken += pen_route_take(&route, 1) == 2;
    assert_int_equal(10, taken);
    pen_route_ban(&route, 2);
    pen_route_ban(&route, 0);
    for (uint32_t i = 0; i < 30; i++)
        assert_int_equal(1, pen_route_take(&route, 1));
}

/* ---- swarms ---- */

static struct pen_swarm_job usual_job(const double *speeds, uint32_t peers,
                                      uint32_t stages)
{
    return (struct pen_swarm_job){.num_stages = stages,
                                  .num_microbatches = 64,
                                  .num_steps = 5,
                                  .forward_sec = 1,
                                  .backward_sec = 2,
                                  .message_sec = 0.1,
                                  .state_sec = 5,
                                  .detect_sec = 1,
                                  .speeds = speeds,
                                  .num_peers = peers};
}

static struct pen_swarm simulate(const struct pen_swarm_job *job, uint64_t seed)
{
    struct pen_swarm found;
    assert_int_equal(PEN_OK, pen_swarm_simulate(job, seed, &found));
    return found;
}

static void spread(double *speeds, uint32_t count, double most)
{
    for (uint32_t i = 0; i < count; i++)
        speeds[i] = pow(most, i / (double)(count - 1));
}

/* One peer for each stage and one micro-batch: there and back. */
static void one_micro_batch_takes_the_sum_of_its_passes(void **state)
{
    (void)state;
    const double speeds[] = {2, 2, 2};
    struct pen_swarm_job job = usual_job(speeds, 3, 3);
    job.num_microbatches = 1;
    job.num_steps = 1;
    struct pen_swarm found = simulate(&job, 1);
    assert_true(fabs(found.seconds - (3 * (1 + 2) / 2.0 + 4 * 0.1)) < 1e-9);
    assert_int_equal(0, found.num_again);
}

static void equal_peers_are_as_quick_as_a_fixed_plan(void **state)
{
    (void)state;
    const double speeds[] = {1, 1, 1, 1, 1, 1};
    struct pen_swarm_job job = usual_job(speeds, 6, 3);
    struct pen_swarm found = simulate(&job, 1);
    job.policy = PEN_SWARM_EQUAL;
    assert_true(found.seconds == simulate(&job, 1).seconds);
    assert_true(found.seconds > found.bound_seconds);
    assert_true(found.seconds < 1.15 * found.bound_seconds);
    assert_int_equal(0, found.num_again + found.num_moves);
}

/* Every number of peers and stages, and as many losses as leave one each. */
static void each_stage_sums_each_micro_batch_once(void **state)
{
    (void)state;
    double speeds[8];
    uint32_t complete = 0;
    for (uint32_t peers = 2; peers <= 8; peers++)
        for (uint32_t stages = 1; stages <= peers; stages++)
            for (uint32_t lost = 0; lost <= peers - stages; lost++)
                for (uint64_t draw = 0; draw < 4; draw++) {
                    spread(speeds, peers, 3);
                    struct pen_swarm_job job = usual_job(speeds, peers, stages);
                    job.num_lost = lost;
                    job.num_steps = 2;
                    struct pen_swarm found =
                        simulate(&job, 100 * seed_from_environment() + draw);
                    assert_true(found.seconds >= found.bound_seconds);
                    assert_int_equal(1, found.least_sums);
                    assert_int_equal(1, found.most_sums);
                    complete++;
                }
    printf("%u swarms\n", complete);
}

static void too_few_peers_never_end(void **state)
{
    (void)state;
    const double speeds[] = {1, 2, 3};
    struct pen_swarm_job job = usual_job(speeds, 3, 3);
    job.num_lost = 1;
    struct pen_swarm found = simulate(&job, seed_from_environment());
    assert_true(found.seconds == 0);
}

static double mean_pace(struct pen_swarm_job *job, enum pen_swarm_policy policy)
{
    double pace = 0;
    job->policy = policy;
    for (uint64_t draw = 1; draw <= 40; draw++) {
        struct pen_swarm found = simulate(job, draw);
        pace += found.seconds > 0 ? 1 / found.seconds : 0;
    }
    return pace / 40;
}

static void six_uneven_peers_outlive_two(void **state)
{
    (void)state;
    double speeds[6];
    spread(speeds, 6, 3);
    struct pen_swarm_job job = usual_job(speeds, 6, 2);
    job.num_lost = 2;
    job.num_steps = 20;
    double routed = mean_pace(&job, PEN_SWARM_ROUTED);
    double by_speed = mean_pace(&job, PEN_SWARM_BY_SPEED);
    double equal = mean_pace(&job, PEN_SWARM_EQUAL);
    printf("routed %.5f, by speed %.5f, equal %.5f\n", routed, by_speed, equal);
    assert_true(routed > by_speed && by_speed > equal);
}

static void four_hundred_peers_come_near_the_bound(void **state)
{
    (void)state;
    double speeds[MOST];
    spread(speeds, MOST, 3);
    struct pen_swarm_job job = usual_job(speeds, MOST, 8);
    job.num_microbatches = 4000;
    job.num_steps = 1;
    job.num_lost = 40;
    struct pen_swarm found = simulate(&job, seed_from_environment());
    printf("%.3f of the bound\n", found.bound_seconds / found.seconds);
    assert_true(found.seconds < 1.5 * found.bound_seconds);
    assert_int_equal(1, found.least_sums);
    assert_int_equal(1, found.most_sums);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_peers_take_turns),
        cmocka_unit_test(work_follows_the_speeds),
        cmocka_unit_test(
            new_peers_begin_at_the_least_and_failing_ones_are_banned),
        cmocka_unit_test(one_micro_batch_takes_the_sum_of_its_passes),
        cmocka_unit_test(equal_peers_are_as_quick_as_a_fixed_plan),
        cmocka_unit_test(each_stage_sums_each_micro_batch_once),
        cmocka_unit_test(too_few_peers_never_end),
        cmocka_unit_test(six_uneven_peers_outlive_two),
        cmocka_unit_test(four_hundred_peers_come_near_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
