/* DES-LOC against plain loops over all replicas in one array. */
#include "support/support.h"

#include "support/sync_run.h"

#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 84 };

static const struct sync_run base = {
    .method = "des-loc",
    .interval = 7,
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 9, .noise = 0.5},
    .optimizer = {.is_adam = true},
    .rate = 0.03,
};

static void average(float *of[REPLICAS])
{
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        float sum = 0;
        for (int i = 0; i < REPLICAS; i++)
            sum += of[i][k];
        for (int i = 0; i < REPLICAS; i++)
            of[i][k] = sum / REPLICAS;
    }
}

/* All replicas in one array, written down from the equations. */
static void reference(const struct sync_run *run, uint64_t kx, uint64_t ku,
                      uint64_t kv, float *weights, float *model)
{
    static float x[REPLICAS][SYNC_COUNT];
    static struct sync_moments m[REPLICAS];
    float *values[REPLICAS], *first[REPLICAS], *second[REPLICAS];
    float g[SYNC_COUNT];
    memset(m, 0, sizeof m);
    for (int i = 0; i < REPLICAS; i++) {
        sync_start(&run->problem, x[i]);
        values[i] = x[i];
        first[i] = m[i].first;
        second[i] = m[i].second;
    }
    for (uint64_t step = 1; step <= STEPS; step++) {
        for (uint32_t i = 0; i < REPLICAS; i++) {
            sync_gradient(&run->problem, i, step, x[i], g);
            sync_optimizer_step(&run->optimizer, run->rate, step, g, &m[i],
                                x[i]);
        }
        if (step % kx == 0)
            average(values);
        if (step % ku == 0)
            average(first);
        if (step % kv == 0)
            average(second);
        memcpy(weights + (step - 1) * REPLICAS * SYNC_COUNT, x, sizeof x);
    }
    average(values);
    memcpy(model, x[0], sizeof x[0]);
}

static void expect_reference(const struct sync_run *run, uint64_t kx,
                             uint64_t ku, uint64_t kv)
{
    float *weights = malloc(sizeof(float) * STEPS * REPLICAS * SYNC_COUNT);
    float model[SYNC_COUNT];
    assert_non_null(weights);
    reference(run, kx, ku, kv, weights, model);
    sync_expect_trajectory(run, weights, model, 5e-6);
    free(weights);
}

static void follows_its_equations(void **state)
{
    (void)state;
    struct sync_run run = base;
    expect_reference(&run, 7, 21, 42);
    run.options[0] = "ku=4";
    run.options[1] = "kv=10";
    expect_reference(&run, 7, 4, 10);
    run.optimizer =
        (struct sync_optimizer){.momentum = 0.9, .is_nesterov = true};
    expect_reference(&run, 7, 4, STEPS + 1);
}

/* All states averaged at once: what the paper calls Local Adam. */
static void with_equal_intervals_it_is_local_sgd_with_moments(void **state)
{
    (void)state;
    struct sync_run run = base, local = base;
    local.method = "local-sgd";
    run.options[0] = "ku=7";
    run.options[1] = "kv=7";
    sync_expect_same_bits(&local, &run);
    run.interval = local.interval = 1;
    run.options[0] = "ku=1";
    run.options[1] = "kv=1";
    sync_expect_same_bits(&local, &run);
}

static void with_endless_intervals_moments_stay(void **state)
{
    (void)state;
    struct sync_run run = base, local = base;
    local.method = "local-sgd";
    local.options[0] = "moments=0";
    run.options[0] = "ku=1e15";
    run.options[1] = "kv=1e15";
    sync_expect_same_bits(&local, &run);
}

static void without_moments_it_is_local_sgd(void **state)
{
    (void)state;
    struct sync_run run = base, sync = base;
    run.interval = 1;
    run.optimizer = sync.optimizer = (struct sync_optimizer){0};
    sync.method = "allreduce";
    sync.interval = 0;
    sync_expect_close(&sync, &run, 2e-6);
}

static void resumes_between_synchronisations(void **state)
{
    (void)state;
    struct sync_run run = base;
    sync_expect_resumable(&run, 17);
    run.compress = "random-block:1";
    sync_expect_resumable(&run, 33);
}

/* In 84 steps 12 means of weights, 4 of first and 2 of second moments. */
static void sends_what_it_says(void **state)
{
    (void)state;
    struct sync_run run = base;
    sync_expect_cost(&run, 12);
    run.compress = "random-block:1";
    sync_expect_cost(&run, 12);
    run.compress = NULL;
    run.options[0] = "ku=4"; /* 21, more often than the weights */
    run.options[1] = "kv=84";
    sync_expect_cost(&run, 12);
    run.optimizer = (struct sync_optimizer){.momentum = 0.9};
    sync_expect_cost(&run, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equations),
        cmocka_unit_test(with_equal_intervals_it_is_local_sgd_with_moments),
        cmocka_unit_test(with_endless_intervals_moments_stay),
        cmocka_unit_test(without_moments_it_is_local_sgd),
        cmocka_unit_test(resumes_between_synchronisations),
        cmocka_unit_test(sends_what_it_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
