/* Gossip by pulling against plain loops over all replicas in one array. */
#include "support/support.h"

#include "base/random.h"
#include "support/sync_run.h"

#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 50 };

static const struct sync_run base = {
    .method = "gossip-pull",
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 23, .noise = 0.5},
    .optimizer = {.momentum = 0.5},
    .rate = 0.05,
};

/* Splitmix64 of the seed, the step and the member. */
static uint32_t draw(uint64_t seed, uint64_t step, uint32_t member)
{
    struct pen_random of_step = {step}, of_member = {~(uint64_t)member};
    struct pen_random random = {seed ^ pen_random_next(&of_step) ^
                                pen_random_next(&of_member)};
    return (member + 1 + pen_random_below(&random, REPLICAS - 1)) % REPLICAS;
}

static void follows_its_equations(void **state)
{
    (void)state;
    float *weights = malloc(sizeof(float) * STEPS * REPLICAS * SYNC_COUNT);
    static float x[REPLICAS][SYNC_COUNT], next[REPLICAS][SYNC_COUNT];
    static struct sync_moments moments[REPLICAS];
    float g[SYNC_COUNT], model[SYNC_COUNT];
    int asked[REPLICAS][REPLICAS] = {{0}};
    assert_non_null(weights);
    memset(moments, 0, sizeof moments);
    for (int i = 0; i < REPLICAS; i++)
        sync_start(&base.problem, x[i]);
    for (uint64_t step = 1; step <= STEPS; step++) {
        for (uint32_t i = 0; i < REPLICAS; i++) {
            sync_gradient(&base.problem, i, step, x[i], g);
            sync_optimizer_step(&base.optimizer, base.rate, step, g,
                                &moments[i], x[i]);
        }
        for (uint32_t i = 0; i < REPLICAS; i++) {
            uint32_t j = draw(base.problem.seed, step, i);
            asked[i][j]++;
            for (size_t k = 0; k < SYNC_COUNT; k++)
                next[i][k] = (x[i][k] + x[j][k]) / 2;
        }
        memcpy(x, next, sizeof x);
        memcpy(weights + (step - 1) * REPLICAS * SYNC_COUNT, x, sizeof x);
    }
    for (size_t k = 0; k < SYNC_COUNT; k++)
        model[k] = (x[0][k] + x[1][k] + x[2][k] + x[3][k]) / REPLICAS;
    for (int i = 0; i < REPLICAS; i++)
        for (int j = 0; j < REPLICAS; j++) /* about 17 of 50 */
            assert_true(i == j ? asked[i][j] == 0 : asked[i][j] > 5);
    sync_expect_trajectory(&base, weights, model, 2e-6);
    free(weights);
}

static void two_replicas_are_sync_sgd(void **state)
{
    (void)state;
    struct sync_run run = base, sync = base;
    run.num_replicas = sync.num_replicas = 2;
    run.optimizer = sync.optimizer = (struct sync_optimizer){0};
    sync.method = "allreduce";
    sync_expect_close(&sync, &run, 2e-6);
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
    run.num_replicas = 5;
    run.optimizer = (struct sync_optimizer){.is_adam = true};
    sync_expect_resumable(&run, 1);
}

static void sends_what_its_cost_says(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 5; count++) {
        struct sync_run run = base;
        run.num_replicas = count;
        sync_expect_cost(&run, STEPS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equations),
        cmocka_unit_test(two_replicas_are_sync_sgd),
        cmocka_unit_test(one_replica_is_the_optimizer),
        cmocka_unit_test(resumes_at_any_step),
        cmocka_unit_test(sends_what_its_cost_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
