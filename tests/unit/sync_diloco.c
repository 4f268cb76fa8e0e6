/* DiLoCo against plain loops over all replicas in one array. */
#include "support/support.h"

#include "support/sync_run.h"

#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 50 };

static const struct sync_run base = {
    .method = "diloco",
    .interval = 7,
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 3, .noise = 0.5},
    .optimizer = {.is_adam = true},
    .rate = 0.05,
};

/* All replicas in one array, written down from the equations. */
static void reference(const struct sync_run *run, float lr, float mu,
                      float *weights, float *model)
{
    static float x[REPLICAS][SYNC_COUNT];
    static struct sync_moments moments[REPLICAS];
    float theta[SYNC_COUNT], velocity[SYNC_COUNT] = {0}, g[SYNC_COUNT];
    memset(moments, 0, sizeof moments);
    sync_start(&run->problem, theta);
    for (int i = 0; i < REPLICAS; i++)
        memcpy(x[i], theta, sizeof theta);
    for (uint64_t step = 1; step <= STEPS; step++) {
        for (uint32_t i = 0; i < REPLICAS; i++) {
            sync_gradient(&run->problem, i, step, x[i], g);
            sync_optimizer_step(&run->optimizer, run->rate, step, g,
                                &moments[i], x[i]);
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
    assert_non_null(weights);
    reference(&base, 0.7f, 0.9f, weights, model);
    sync_expect_trajectory(&base, weights, model, 2e-6);
    free(weights);
}

static void with_an_outer_rate_of_one_and_h_1_it_is_sync_sgd(void **state)
{
    (void)state;
    struct sync_run run = base, sync = base;
    run.optimizer = sync.optimizer = (struct sync_optimizer){0};
    run.interval = 1;
    run.options[0] = "lr=1";
    run.options[1] = "momentum=0";
    sync.method = "allreduce";
    sync.interval = 0;
    sync_expect_close(&sync, &run, 2e-6);
}

static void resumes_between_synchronisations(void **state)
{
    (void)state;
    sync_expect_resumable(&base, 17);
    struct sync_run run = base;
    run.compress = "random-block:1";
    sync_expect_resumable(&run, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equations),
        cmocka_unit_test(with_an_outer_rate_of_one_and_h_1_it_is_sync_sgd),
        cmocka_unit_test(resumes_between_synchronisations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
