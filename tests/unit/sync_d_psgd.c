/* Gossip on a ring against plain loops over all replicas in one array. */
#include "support/support.h"

#include "support/sync_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 50 };

static const struct sync_run base = {
    .method = "d-psgd",
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 5, .noise = 0.5},
    .optimizer = {.momentum = 0.5},
    .rate = 0.05,
};

/* All replicas in one array, written down from the equations. */
static void reference(const struct sync_run *run, float *weights, float *model)
{
    static float x[REPLICAS][SYNC_COUNT], mixed[REPLICAS][SYNC_COUNT];
    static struct sync_moments moments[REPLICAS];
    float g[SYNC_COUNT];
    memset(moments, 0, sizeof moments);
    for (int i = 0; i < REPLICAS; i++)
        sync_start(&run->problem, x[i]);
    for (uint64_t step = 1; step <= STEPS; step++) {
        for (int i = 0; i < REPLICAS; i++)
            for (size_t k = 0; k < SYNC_COUNT; k++)
                mixed[i][k] =
                    (x[i][k] + x[(i + 3) % 4][k] + x[(i + 1) % 4][k]) / 3;
        for (uint32_t i = 0; i < REPLICAS; i++) {
            sync_gradient(&run->problem, i, step, x[i], g);
            sync_optimizer_step(&run->optimizer, run->rate, step, g,
                                &moments[i], mixed[i]);
        }
        memcpy(x, mixed, sizeof x);
        memcpy(weights + (step - 1) * REPLICAS * SYNC_COUNT, x, sizeof x);
    }
    for (size_t k = 0; k < SYNC_COUNT; k++)
        model[k] = (x[0][k] + x[1][k] + x[2][k] + x[3][k]) / REPLICAS;
}

static void follows_its_equations(void **state)
{
    (void)state;
    float *weights = malloc(sizeof(float) * STEPS * REPLICAS * SYNC_COUNT);
    float model[SYNC_COUNT];
    assert_non_null(weights);
    reference(&base, weights, model);
    sync_expect_trajectory(&base, weights, model, 2e-6);
    struct sync_run slow = base; /* the numbers know nothing of speeds */
    slow.slow_ns[2] = 1000000;
    sync_expect_trajectory(&slow, weights, model, 2e-6);
    free(weights);
}

static double mean_at(const struct sync_trace *traces, uint32_t count,
                      uint64_t step, size_t k)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += (double)sync_trace_at(&traces[i], step)[k];
    return sum / count;
}

/* With a rate of 0 from step 20 on there is mixing alone. */
static void mixing_keeps_the_mean(void **state)
{
    (void)state;
    struct sync_run run = base;
    struct sync_trace traces[5];
    run.num_replicas = 5;
    run.still_from = 20;
    run.optimizer.momentum = 0;
    sync_threads_run(&run, traces);
    for (uint64_t step = 20; step <= STEPS; step++)
        for (size_t k = 0; k < SYNC_COUNT; k++)
            assert_float_equal(mean_at(traces, 5, 19, k),
                               mean_at(traces, 5, step, k), 2e-6);
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        float far = sync_trace_at(&traces[0], 19)[k];
        double mean = mean_at(traces, 5, 19, k);
        double before = fabs((double)far - mean);
        double after = fabs((double)sync_trace_at(&traces[0], STEPS)[k] - mean);
        assert_true(after <= 1e-3 * before + 1e-5);
    }
    sync_trace_release(traces, 5);
}

static void mixes_completely_at_once(uint32_t count)
{
    struct sync_run run = base;
    struct sync_trace traces[3];
    run.num_replicas = count;
    run.still_from = 20;
    run.optimizer.momentum = 0;
    sync_threads_run(&run, traces);
    for (uint32_t i = 0; i < count; i++)
        for (size_t k = 0; k < SYNC_COUNT; k++)
            assert_float_equal(mean_at(traces, count, 19, k),
                               (double)sync_trace_at(&traces[i], 20)[k], 2e-6);
    sync_trace_release(traces, count);
}

static void two_and_three_replicas_mix_completely(void **state)
{
    (void)state;
    mixes_completely_at_once(2);
    mixes_completely_at_once(3);
}

static void one_replica_is_the_optimizer(void **state)
{
    (void)state;
    struct sync_run run = base, alone = base;
    run.num_replicas = alone.num_replicas = 1;
    alone.method = "allreduce";
    sync_expect_same_bits(&alone, &run);
}

static void resumes_at_any_step(void **state)
{
    (void)state;
    struct sync_run run = base;
    sync_expect_resumable(&run, 17);
    run.optimizer = (struct sync_optimizer){.is_adam = true};
    sync_expect_resumable(&run, 1);
    run.num_replicas = 2;
    sync_expect_resumable(&run, STEPS);
}

static void sends_what_its_cost_says(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 5; count++) {
        struct sync_run run = base;
        struct sync_trace traces[5];
        run.num_replicas = count;
        sync_threads_run(&run, traces);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal((count > 2 ? 2 : count - 1) * SYNC_COUNT * 4 *
                                 STEPS,
                             traces[i].num_bytes);
        assert_int_equal(STEPS * sync_run_cost(&run).bytes,
                         traces[0].num_bytes);
        sync_trace_release(traces, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equations),
        cmocka_unit_test(mixing_keeps_the_mean),
        cmocka_unit_test(two_and_three_replicas_mix_completely),
        cmocka_unit_test(one_replica_is_the_optimizer),
        cmocka_unit_test(resumes_at_any_step),
        cmocka_unit_test(sends_what_its_cost_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
