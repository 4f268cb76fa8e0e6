/* EASGD and EAMSGD against plain loops over all replicas in one array. */
#include "support/support.h"

#include "support/sync_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REPLICAS = 4, STEPS = 50 };

static const struct sync_run base = {
    .method = "easgd",
    .interval = 7,
    .num_replicas = MOST_REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 11, .noise = 0.5},
    .optimizer = {.momentum = 0.9},
    .rate = 0.02,
};

struct elastic {
    uint32_t num;
    float alpha;
    float delta; /* below 0: the optimizer of the run */
    float x[MOST_REPLICAS][SYNC_COUNT];
    float v[MOST_REPLICAS][SYNC_COUNT];
    struct sync_moments moments[MOST_REPLICAS];
    float centre[SYNC_COUNT];
};

static void exchange(struct elastic *it)
{
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        float sum = 0;
        for (uint32_t i = 0; i < it->num; i++) {
            float d = it->alpha * (it->x[i][k] - it->centre[k]);
            it->x[i][k] -= d;
            sum += d;
        }
        it->centre[k] += sum;
    }
}

/* The published form: x and v apart, the gradient at x + delta v. */
static void own_step(struct elastic *it, const struct sync_run *run, uint32_t i,
                     uint64_t step)
{
    float at[SYNC_COUNT], g[SYNC_COUNT];
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        it->v[i][k] = it->delta * it->v[i][k];
        at[k] = it->x[i][k] + it->v[i][k];
    }
    sync_gradient(&run->problem, i, step, at, g);
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        g[k] += (float)run->weight_decay * at[k];
        it->x[i][k] = at[k] - (float)run->rate * g[k];
        it->v[i][k] -= (float)run->rate * g[k];
    }
}

static void local_step(struct elastic *it, const struct sync_run *run,
                       uint32_t i, uint64_t step)
{
    float g[SYNC_COUNT];
    if (it->delta >= 0) {
        own_step(it, run, i, step);
        return;
    }
    sync_gradient(&run->problem, i, step, it->x[i], g);
    sync_optimizer_step(&run->optimizer, run->rate, step, g, &it->moments[i],
                        it->x[i]);
}

/* Weights between two steps: of EAMSGD the point ahead. */
static void write_row(const struct elastic *it, uint64_t step, float *weights)
{
    for (uint32_t i = 0; i < it->num; i++)
        for (size_t k = 0; k < SYNC_COUNT; k++)
            weights[((step - 1) * it->num + i) * SYNC_COUNT + k] =
                it->delta >= 0 ? it->x[i][k] + it->delta * it->v[i][k]
                               : it->x[i][k];
}

static void expect_reference(const struct sync_run *run, float alpha,
                             float delta, double tolerance)
{
    struct elastic *it = calloc(1, sizeof *it);
    float *weights = malloc(sizeof(float) * STEPS * MOST_REPLICAS * SYNC_COUNT);
    assert_non_null(it);
    assert_non_null(weights);
    it->num = run->num_replicas;
    it->alpha = alpha;
    it->delta = delta;
    sync_start(&run->problem, it->centre);
    for (uint32_t i = 0; i < it->num; i++)
        memcpy(it->x[i], it->centre, sizeof it->centre);
    for (uint64_t step = 1; step <= STEPS; step++) {
        for (uint32_t i = 0; i < it->num; i++)
            local_step(it, run, i, step);
        if (step % run->interval == 0)
            exchange(it);
        write_row(it, step, weights);
    }
    sync_expect_trajectory(run, weights, it->centre, tolerance);
    free(weights);
    free(it);
}

static void easgd_follows_its_equations(void **state)
{
    (void)state;
    struct sync_run run = base;
    expect_reference(&run, 0.9f / 4, -1, 2e-6);
    run.optimizer = (struct sync_optimizer){.is_adam = true};
    run.options[0] = "beta=0.5";
    expect_reference(&run, 0.5f / 4, -1, 2e-6);
    run.num_replicas = 3;
    expect_reference(&run, 0.5f / 3, -1, 2e-6);
}

static void eamsgd_follows_its_equations(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.method = "eamsgd";
    run.rate = 0.002;
    expect_reference(&run, 0.9f / 4, 0.99f, 2e-6);
    run.weight_decay = 0.1;
    run.options[0] = "momentum=0.8";
    run.rate = 0.02;
    expect_reference(&run, 0.9f / 4, 0.8f, 2e-6);
}

static void without_force_replicas_are_alone(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.options[0] = "beta=0";
    expect_reference(&run, 0, -1, 0);
}

/* d = (x - c) / 2: replica and centre meet half-way. */
static void half_a_force_averages_replica_and_centre(void **state)
{
    (void)state;
    struct sync_run run = base;
    struct sync_trace with, without;
    run.num_replicas = 1;
    run.num_steps = run.interval;
    run.options[0] = "beta=0.5";
    sync_threads_run(&run, &with);
    run.options[0] = "beta=0";
    sync_threads_run(&run, &without);
    const float *centre = without.consistent; /* where it began */
    const float *x = sync_trace_at(&without, run.interval);
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        double half = ((double)x[k] + (double)centre[k]) / 2;
        assert_true(fabs(half - (double)with.consistent[k]) <= 2e-6);
        assert_true(
            fabs(half - (double)sync_trace_at(&with, run.interval)[k]) <= 2e-6);
    }
    sync_trace_release(&with, 1);
    sync_trace_release(&without, 1);
}

/* What replicas lose the centre has. */
static void an_exchange_keeps_the_sum(void **state)
{
    (void)state;
    struct sync_run run = base;
    struct sync_trace with[MOST_REPLICAS], without[MOST_REPLICAS];
    run.num_steps = run.interval;
    sync_threads_run(&run, with);
    run.options[0] = "beta=0";
    sync_threads_run(&run, without);
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        double kept = (double)with[0].consistent[k];
        double was = (double)without[0].consistent[k];
        for (uint32_t i = 0; i < run.num_replicas; i++) {
            kept += (double)sync_trace_at(&with[i], run.interval)[k];
            was += (double)sync_trace_at(&without[i], run.interval)[k];
        }
        assert_true(fabs(kept - was) <= 2e-6 * fmax(1, fabs(was)));
    }
    sync_trace_release(with, run.num_replicas);
    sync_trace_release(without, run.num_replicas);
}

static void with_a_compressor_that_keeps_all_it_is_the_same(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.compress = "random-block:100";
    sync_expect_close(&base, &run, 2e-6);
}

static void a_slow_replica_changes_nothing(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.interval = 3;
    struct sync_run slow = run;
    slow.slow_ns[1] = 500000;
    sync_expect_same_bits(&run, &slow);
}

static void resumes_between_exchanges(void **state)
{
    (void)state;
    struct sync_run run = base;
    sync_expect_resumable(&run, 17);
    sync_expect_resumable(&run, 21); /* the sum is under way */
    run.method = "eamsgd";
    run.rate = 0.002;
    sync_expect_resumable(&run, 17);
    run.compress = "random-block:1";
    sync_expect_resumable(&run, 17);
}

static void sends_what_it_says(void **state)
{
    (void)state;
    struct sync_run run = base;
    sync_expect_cost(&run, 7);
    run.method = "eamsgd";
    run.compress = "random-block:1";
    sync_expect_cost(&run, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(easgd_follows_its_equations),
        cmocka_unit_test(eamsgd_follows_its_equations),
        cmocka_unit_test(without_force_replicas_are_alone),
        cmocka_unit_test(half_a_force_averages_replica_and_centre),
        cmocka_unit_test(an_exchange_keeps_the_sum),
        cmocka_unit_test(with_a_compressor_that_keeps_all_it_is_the_same),
        cmocka_unit_test(a_slow_replica_changes_nothing),
        cmocka_unit_test(resumes_between_exchanges),
        cmocka_unit_test(sends_what_it_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
