/* DC-S3GD against plain loops over all replicas in one array. */
#include "support/support.h"

#include "support/sync_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 50 };

static const struct sync_run base = {
    .method = "dc-s3gd",
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 3, .noise = 0.5},
    .optimizer = {.momentum = 0.9},
    .rate = 0.02,
};

static float row[STEPS * REPLICAS * SYNC_COUNT];

/* All replicas in one array, written down from the equations. */
struct model {
    float x[REPLICAS][SYNC_COUNT];
    float updates[REPLICAS][SYNC_COUNT];
    struct sync_moments moments[REPLICAS];
};

static double length(const double *values)
{
    double sum = 0;
    for (size_t k = 0; k < SYNC_COUNT; k++)
        sum += values[k] * values[k];
    return sqrt(sum);
}

/* g~ of a replica, and its D. */
static void compensate(const struct model *it, int i, double lambda, float *g,
                       float *others)
{
    double gradient[SYNC_COUNT], products[SYNC_COUNT];
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        float mean = 0;
        for (int j = 0; j < REPLICAS; j++)
            mean += it->updates[j][k] / REPLICAS;
        others[k] = mean - it->updates[i][k];
        gradient[k] = (double)g[k];
        products[k] = (double)g[k] * (double)g[k] * (double)others[k];
    }
    double size = length(products);
    double strength = size > 0 ? lambda * length(gradient) / size : 0;
    for (size_t k = 0; k < SYNC_COUNT; k++)
        g[k] += (float)(strength * products[k]);
}

static void step_all(struct model *it, const struct sync_run *run,
                     uint64_t step, double lambda)
{
    static struct model next;
    next = *it;
    for (uint32_t i = 0; i < REPLICAS; i++) {
        float g[SYNC_COUNT], others[SYNC_COUNT], before[SYNC_COUNT];
        sync_gradient(&run->problem, i, step, it->x[i], g);
        compensate(it, (int)i, lambda, g, others);
        for (size_t k = 0; k < SYNC_COUNT; k++)
            before[k] = next.x[i][k] += others[k];
        sync_optimizer_step(&run->optimizer, run->rate, step, g,
                            &next.moments[i], next.x[i]);
        for (size_t k = 0; k < SYNC_COUNT; k++)
            next.updates[i][k] = next.x[i][k] - before[k];
    }
    *it = next;
}

static void reference(const struct sync_run *run, double lambda, float *model)
{
    static struct model it;
    memset(&it, 0, sizeof it);
    for (int i = 0; i < REPLICAS; i++)
        sync_start(&run->problem, it.x[i]);
    for (uint64_t step = 1; step <= STEPS; step++) {
        step_all(&it, run, step, lambda);
        memcpy(row + (step - 1) * REPLICAS * SYNC_COUNT, it.x, sizeof it.x);
    }
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        model[k] = 0;
        for (int i = 0; i < REPLICAS; i++)
            model[k] += it.x[i][k] / REPLICAS;
    }
}

static void follows_its_equations(void **state)
{
    (void)state;
    float model[SYNC_COUNT];
    reference(&base, 0.2, model);
    sync_expect_trajectory(&base, row, model, 2e-6);
    struct sync_run run = base;
    run.options[0] = "lambda=0.5";
    reference(&run, 0.5, model);
    sync_expect_trajectory(&run, row, model, 2e-6);
}

/* A common base that moves by the mean of the last updates. */
static void base_trace(const struct sync_run *run)
{
    float common[SYNC_COUNT], g[SYNC_COUNT];
    float x[REPLICAS][SYNC_COUNT], updates[REPLICAS][SYNC_COUNT] = {{0}};
    sync_start(&run->problem, common);
    for (int i = 0; i < REPLICAS; i++)
        memcpy(x[i], common, sizeof common);
    for (uint64_t step = 1; step <= STEPS; step++) {
        for (size_t k = 0; k < SYNC_COUNT; k++)
            for (int i = 0; i < REPLICAS; i++)
                common[k] += updates[i][k] / REPLICAS;
        for (uint32_t i = 0; i < REPLICAS; i++) {
            sync_gradient(&run->problem, i, step, x[i], g);
            for (size_t k = 0; k < SYNC_COUNT; k++) {
                updates[i][k] = -(float)run->rate * g[k];
                x[i][k] = common[k] + updates[i][k];
            }
        }
        memcpy(row + (step - 1) * REPLICAS * SYNC_COUNT, x, sizeof x);
    }
}

static void without_compensation_the_base_moves_by_the_mean(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.optimizer = (struct sync_optimizer){0};
    run.options[0] = "lambda=0";
    base_trace(&run);
    sync_expect_trajectory(&run, row, NULL, 2e-6);
}

/* The own update of a step, told from the weights before it. */
static void replicas_differ_by_their_last_update_only(void **state)
{
    (void)state;
    struct sync_trace traces[REPLICAS];
    struct sync_run run = base;
    run.optimizer = (struct sync_optimizer){0};
    run.options[0] = "lambda=0";
    sync_threads_run(&run, traces);
    for (uint64_t step = 2; step <= STEPS; step++) {
        float common[REPLICAS][SYNC_COUNT];
        for (uint32_t i = 0; i < REPLICAS; i++) {
            const float *x = sync_trace_at(&traces[i], step);
            float g[SYNC_COUNT];
            sync_gradient(&run.problem, i, step,
                          sync_trace_at(&traces[i], step - 1), g);
            for (size_t k = 0; k < SYNC_COUNT; k++)
                common[i][k] = x[k] + (float)run.rate * g[k];
        }
        for (uint32_t i = 1; i < REPLICAS; i++)
            for (size_t k = 0; k < SYNC_COUNT; k++)
                assert_float_equal(common[0][k], common[i][k], 2e-6f);
    }
    sync_trace_release(traces, REPLICAS);
}

static void alone_it_is_sgd(void **state)
{
    (void)state;
    struct sync_run run = base, sgd = base;
    run.num_replicas = sgd.num_replicas = 1;
    sgd.method = "allreduce";
    sync_expect_close(&sgd, &run, 2e-6);
}

/* Without an update D is zero, and nothing may be divided by its length. */
static void a_step_without_change_stays_finite(void **state)
{
    (void)state;
    struct sync_run run = base;
    struct sync_trace traces[REPLICAS];
    run.rate = 0;
    sync_threads_run(&run, traces);
    for (int i = 0; i < REPLICAS; i++)
        for (size_t k = 0; k < SYNC_COUNT; k++)
            assert_float_equal(sync_trace_at(&traces[i], STEPS)[k],
                               sync_trace_at(&traces[i], 1)[k], 0);
    sync_trace_release(traces, REPLICAS);
}

static void slow_replicas_change_no_number(void **state)
{
    (void)state;
    struct sync_run slow = base;
    slow.slow_ns[1] = 2000000;
    slow.slow_ns[2] = 500000;
    sync_expect_same_bits(&base, &slow);
}

static void resumes_with_an_update_under_way(void **state)
{
    (void)state;
    struct sync_run run = base;
    sync_expect_resumable(&run, 17);
    run.optimizer = (struct sync_optimizer){.is_adam = true};
    run.compress = "random-block:1";
    sync_expect_resumable(&run, 17);
}

static void sends_what_its_cost_says(void **state)
{
    (void)state;
    sync_expect_cost(&base, STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equations),
        cmocka_unit_test(without_compensation_the_base_moves_by_the_mean),
        cmocka_unit_test(replicas_differ_by_their_last_update_only),
        cmocka_unit_test(alone_it_is_sgd),
        cmocka_unit_test(a_step_without_change_stays_finite),
        cmocka_unit_test(slow_replicas_change_no_number),
        cmocka_unit_test(resumes_with_an_update_under_way),
        cmocka_unit_test(sends_what_its_cost_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
