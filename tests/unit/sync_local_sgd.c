/* Local and post-local SGD against plain loops over all replicas. */
#include "support/support.h"

#include "support/sync_run.h"

#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 50 };

static const struct sync_run base = {
    .method = "local-sgd",
    .interval = 7,
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 5, .noise = 0.5},
    .optimizer = {.momentum = 0.9, .is_nesterov = true},
    .rate = 0.02,
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
static void reference(const struct sync_run *run, uint64_t start, bool moments,
                      float *weights, float *model)
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
        if (step <= start || step % run->interval == 0) {
            average(values);
            if (moments) {
                average(first);
                average(second);
            }
        }
        memcpy(weights + (step - 1) * REPLICAS * SYNC_COUNT, x, sizeof x);
    }
    average(values);
    memcpy(model, x[0], sizeof x[0]);
}

static void expect_reference(const struct sync_run *run, uint64_t start,
                             bool moments)
{
    float *weights = malloc(sizeof(float) * STEPS * REPLICAS * SYNC_COUNT);
    float model[SYNC_COUNT];
    assert_non_null(weights);
    reference(run, start, moments, weights, model);
    sync_expect_trajectory(run, weights, model, 2e-6);
    free(weights);
}

static void local_sgd_follows_its_equations(void **state)
{
    (void)state;
    struct sync_run run = base;
    expect_reference(&run, 0, true);
    run.options[0] = "moments=0";
    expect_reference(&run, 0, false);
    run.optimizer = (struct sync_optimizer){.is_adam = true};
    expect_reference(&run, 0, false);
    run.options[0] = NULL;
    expect_reference(&run, 0, true);
}

static void post_local_sgd_starts_late(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.method = "post-local-sgd";
    expect_reference(&run, STEPS / 2, true);
    run.options[0] = "start=12";
    expect_reference(&run, 12, true);
}

static void with_h_1_it_is_sync_sgd(void **state)
{
    (void)state;
    struct sync_run run = base, sync = base;
    run.interval = 1;
    sync.method = "allreduce";
    sync.interval = 0;
    sync_expect_close(&sync, &run, 2e-6);
    run.options[0] = "moments=0";
    run.optimizer = sync.optimizer = (struct sync_optimizer){0};
    sync_expect_close(&sync, &run, 2e-6);
}

/* An outer step that takes the mean as it is. */
static void it_is_diloco_with_an_outer_rate_of_one(void **state)
{
    (void)state;
    struct sync_run run = base, diloco = base;
    run.options[0] = "moments=0";
    run.num_steps = diloco.num_steps = 49; /* models differ in between */
    diloco.method = "diloco";
    diloco.options[0] = "lr=1";
    diloco.options[1] = "momentum=0";
    sync_expect_close(&diloco, &run, 2e-6);
}

static void post_local_that_starts_at_the_end_has_h_1(void **state)
{
    (void)state;
    struct sync_run run = base, local = base;
    run.method = "post-local-sgd";
    run.options[0] = "start=50";
    local.interval = 1;
    sync_expect_same_bits(&local, &run);
}

/* A block that is the tensor leaves nothing out. */
static void with_a_compressor_that_keeps_all_it_is_the_same(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.compress = "random-block:100";
    sync_expect_close(&base, &run, 2e-6);
}

static void resumes_between_synchronisations(void **state)
{
    (void)state;
    struct sync_run run = base;
    sync_expect_resumable(&run, 17);
    run.compress = "random-block:1";
    sync_expect_resumable(&run, 17);
    run.method = "post-local-sgd";
    sync_expect_resumable(&run, 31);
}

static void sends_what_it_says(void **state)
{
    (void)state;
    struct sync_run run = base;
    sync_expect_cost(&run, 7);
    run.optimizer = (struct sync_optimizer){.is_adam = true};
    sync_expect_cost(&run, 7);
    run.compress = "random-block:1";
    sync_expect_cost(&run, 7);
    run.options[0] = "moments=0";
    sync_expect_cost(&run, 7);
    run.method = "post-local-sgd";
    sync_expect_cost(&run, 25 + 4); /* then 28, 35, 42 and 49 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local_sgd_follows_its_equations),
        cmocka_unit_test(post_local_sgd_starts_late),
        cmocka_unit_test(with_h_1_it_is_sync_sgd),
        cmocka_unit_test(it_is_diloco_with_an_outer_rate_of_one),
        cmocka_unit_test(post_local_that_starts_at_the_end_has_h_1),
        cmocka_unit_test(with_a_compressor_that_keeps_all_it_is_the_same),
        cmocka_unit_test(resumes_between_synchronisations),
        cmocka_unit_test(sends_what_it_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
