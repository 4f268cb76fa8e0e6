/* PALSGD against plain loops over all replicas in one array. */
#include "support/support.h"

#include "base/random.h"
#include "support/sync_run.h"

#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 50 };

static const struct sync_run base = {
    .method = "palsgd",
    .interval = 7,
    .options = {"prob=0.3", "alpha=2"},
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 3, .noise = 0.5},
    .optimizer = {.is_adam = true},
    .rate = 0.05,
};

static bool is_pulled(uint64_t seed, uint64_t step, uint32_t replica)
{
    struct pen_random a = {step}, b = {~replica};
    struct pen_random of = {seed ^ pen_random_next(&a) ^ pen_random_next(&b)};
    return pen_random_unit(&of) < 0.3;
}

/* All replicas in one array, written down from the equations. */
static void reference(const struct sync_run *run, bool is_instead,
                      float *weights, float *model)
{
    static float x[REPLICAS][SYNC_COUNT];
    static struct sync_moments moments[REPLICAS];
    const float lr = 0.7f, mu = 0.9f, c = (float)(2 * run->rate / 0.3);
    float theta[SYNC_COUNT], velocity[SYNC_COUNT] = {0}, g[SYNC_COUNT];
    memset(moments, 0, sizeof moments);
    sync_start(&run->problem, theta);
    for (int i = 0; i < REPLICAS; i++)
        memcpy(x[i], theta, sizeof theta);
    for (uint64_t step = 1; step <= STEPS; step++) {
        for (uint32_t i = 0; i < REPLICAS; i++) {
            bool pulled = is_pulled(run->problem.seed, step, i);
            sync_gradient(&run->problem, i, step, x[i], g);
            if (!pulled || !is_instead)
                sync_optimizer_step(&run->optimizer, run->rate, step, g,
                                    &moments[i], x[i]);
            for (size_t k = 0; k < SYNC_COUNT && pulled; k++)
                x[i][k] = (1 - c) * x[i][k] + c * theta[k];
        }
        for (size_t k = 0; k < SYNC_COUNT && step % run->interval == 0; k++) {
            float moved = 0;
            for (int i = 0; i < REPLICAS; i++)
                moved += (theta[k] - x[i][k]) / REPLICAS;
            velocity[k] = mu * velocity[k] + moved;
            theta[k] -= lr * (moved + mu * velocity[k]);
            for (int i = 0; i < REPLICAS; i++)
                x[i][k] = theta[k];
        }
        memcpy(weights + (step - 1) * REPLICAS * SYNC_COUNT, x, sizeof x);
    }
    memcpy(model, theta, sizeof theta);
}

static void follows_its_equations(void **state)
{
    (void)state;
    float *weights = malloc(sizeof(float) * STEPS * REPLICAS * SYNC_COUNT);
    float model[SYNC_COUNT];
    struct sync_run run = base;
    assert_non_null(weights);
    reference(&run, true, weights, model);
    sync_expect_trajectory(&run, weights, model, 2e-6);
    run.options[2] = "instead=0";
    reference(&run, false, weights, model);
    sync_expect_trajectory(&run, weights, model, 2e-6);
    free(weights);
}

/* Each by itself, and about as often as was asked for. */
static void pulls_come_as_often_as_wanted(void **state)
{
    (void)state;
    const uint64_t steps = 10000;
    for (uint32_t i = 0; i < REPLICAS; i++) {
        uint64_t pulled = 0, together = 0;
        for (uint64_t step = 1; step <= steps; step++) {
            pulled += is_pulled(3, step, i);
            together += is_pulled(3, step, i) && is_pulled(3, step, i + 1);
        }
        assert_in_range(pulled, 2800, 3200);
        assert_in_range(together, 700, 1100);
    }
}

static void without_pulls_it_is_diloco(void **state)
{
    (void)state;
    struct sync_run diloco = base, run = base;
    diloco.method = "diloco";
    diloco.options[0] = NULL;
    run.options[0] = "prob=0";
    sync_expect_same_bits(&diloco, &run);
}

static void a_pull_ends_at_the_common_weights(void **state)
{
    (void)state;
    struct sync_trace traces[REPLICAS];
    struct sync_run run = base;
    float start[SYNC_COUNT];
    run.options[0] = "prob=1";
    run.options[1] = "alpha=1000";
    run.options[2] = "instead=0";
    run.num_steps = 3;
    sync_start(&run.problem, start);
    sync_threads_run(&run, traces);
    for (uint32_t i = 0; i < REPLICAS; i++)
        for (size_t k = 0; k < SYNC_COUNT; k++)
            assert_float_equal(sync_trace_at(&traces[i], 3)[k], start[k],
                               1e-6f);
    sync_trace_release(traces, REPLICAS);
}

static void resumes_between_synchronisations(void **state)
{
    (void)state;
    sync_expect_resumable(&base, 17);
    struct sync_run run = base;
    run.compress = "random-block:1";
    sync_expect_resumable(&run, 17);
}

static void sends_what_its_cost_says(void **state)
{
    (void)state;
    sync_expect_cost(&base, STEPS / 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equations),
        cmocka_unit_test(pulls_come_as_often_as_wanted),
        cmocka_unit_test(without_pulls_it_is_diloco),
        cmocka_unit_test(a_pull_ends_at_the_common_weights),
        cmocka_unit_test(resumes_between_synchronisations),
        cmocka_unit_test(sends_what_its_cost_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
