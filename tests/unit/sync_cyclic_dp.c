/* Cyclic data parallelism against SGD with a delay of one, in plain loops. */
#include "support/support.h"

#include "support/sync_run.h"

#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 50 };

static const struct sync_run base = {
    .method = "cyclic-dp",
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 3, .noise = 0.5},
    .optimizer = {.momentum = 0.9, .is_nesterov = true},
    .rate = 0.01,
};

static void mean_gradient(const struct sync_run *run, uint64_t step,
                          const float *x, float *out)
{
    float g[SYNC_COUNT];
    memset(out, 0, sizeof g);
    for (uint32_t i = 0; i < run->num_replicas; i++) {
        sync_gradient(&run->problem, i, step, x, g);
        for (size_t k = 0; k < SYNC_COUNT; k++)
            out[k] += g[k] / (float)run->num_replicas;
    }
}

/* Weights are kept of all steps; x[0] is the start, and x[1] like it. */
static void expect_delay_of_one(const struct sync_run *run)
{
    static float x[STEPS + 1][SYNC_COUNT], rows[STEPS * 8 * SYNC_COUNT];
    struct sync_moments moments = {{0}, {0}};
    float mean[SYNC_COUNT];
    sync_start(&run->problem, x[0]);
    memcpy(x[1], x[0], sizeof x[1]);
    for (uint64_t t = 2; t <= STEPS; t++) {
        memcpy(x[t], x[t - 1], sizeof x[t]);
        mean_gradient(run, t - 1, x[t - 2], mean);
        sync_optimizer_step(&run->optimizer, run->rate, t - 1, mean, &moments,
                            x[t]);
    }
    for (uint64_t t = 1; t <= STEPS; t++)
        for (uint32_t i = 0; i < run->num_replicas; i++)
            memcpy(rows + ((t - 1) * run->num_replicas + i) * SYNC_COUNT, x[t],
                   sizeof x[t]);
    sync_expect_trajectory(run, rows, x[STEPS], 2e-6);
}

static void is_sgd_with_a_delay_of_one(void **state)
{
    (void)state;
    struct sync_run run = base;
    for (run.num_replicas = 1; run.num_replicas <= 5; run.num_replicas++)
        expect_delay_of_one(&run);
    run = base;
    run.optimizer = (struct sync_optimizer){0};
    expect_delay_of_one(&run);
}

static void takes_any_optimizer(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.optimizer = (struct sync_optimizer){.is_adam = true};
    expect_delay_of_one(&run);
}

static void replicas_have_the_same_bits(void **state)
{
    (void)state;
    struct sync_trace traces[REPLICAS];
    sync_threads_run(&base, traces);
    for (int i = 1; i < REPLICAS; i++)
        assert_memory_equal(traces[0].weights, traces[i].weights,
                            sizeof(float) * STEPS * SYNC_COUNT);
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

static void resumes_with_a_gradient_under_way(void **state)
{
    (void)state;
    sync_expect_resumable(&base, 1);
    sync_expect_resumable(&base, 17);
}

/* Every hop is one message. */
static void sends_what_its_cost_says(void **state)
{
    (void)state;
    struct sync_trace traces[REPLICAS];
    sync_expect_cost(&base, STEPS);
    sync_threads_run(&base, traces);
    for (int i = 0; i < REPLICAS; i++)
        assert_int_equal(traces[i].num_messages, 2 * (REPLICAS - 1) * STEPS);
    sync_trace_release(traces, REPLICAS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_sgd_with_a_delay_of_one),
        cmocka_unit_test(takes_any_optimizer),
        cmocka_unit_test(replicas_have_the_same_bits),
        cmocka_unit_test(slow_replicas_change_no_number),
        cmocka_unit_test(resumes_with_a_gradient_under_way),
        cmocka_unit_test(sends_what_its_cost_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
