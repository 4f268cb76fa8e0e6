/* Entropy-SGD against plain loops, and the noise it adds. */
#include "support/support.h"

#include "support/sync_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REPLICAS = 4, STEPS = 50 };

static const struct sync_run base = {
    .method = "entropy-sgd",
    .interval = 7,
    .options = {"noise=0", "g0=0.5", "g1=0.1", "llr=0.04"},
    .num_replicas = MOST_REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 13, .noise = 0.5},
    .rate = 0.3,
    .weight_decay = 0.01,
};

/* The mean gradient of all replicas at w, with the decay. */
static void gradient(const struct sync_run *run, uint64_t step, const float *w,
                     float *out)
{
    float g[SYNC_COUNT];
    memset(out, 0, SYNC_COUNT * sizeof *out);
    for (uint32_t i = 0; i < run->num_replicas; i++) {
        sync_gradient(&run->problem, i, step, w, g);
        for (size_t k = 0; k < SYNC_COUNT; k++)
            out[k] += g[k] / (float)run->num_replicas;
    }
    for (size_t k = 0; k < SYNC_COUNT; k++)
        out[k] += (float)run->weight_decay * w[k];
}

/* The nested loops of the paper: an outer step is L inner ones. */
static void reference(const struct sync_run *run, float *weights, float *model)
{
    float w[SYNC_COUNT], wc[SYNC_COUNT], mw[SYNC_COUNT], v[SYNC_COUNT] = {0};
    float g = 0.5f;
    sync_start(&run->problem, w);
    for (uint64_t step = 1; step <= STEPS; g *= 1.1f) {
        float mu[SYNC_COUNT] = {0}, dw[SYNC_COUNT];
        memcpy(wc, w, sizeof w);
        memcpy(mw, w, sizeof w);
        for (uint64_t l = 1; l <= run->interval && step <= STEPS; l++) {
            gradient(run, step, w, dw);
            for (size_t k = 0; k < SYNC_COUNT; k++) {
                mu[k] = 0.9f * mu[k] + dw[k];
                dw[k] = dw[k] + 0.9f * mu[k] - g * (wc[k] - w[k]);
                w[k] -= 0.04f * dw[k];
                mw[k] = 0.75f * mw[k] + 0.25f * w[k];
            }
            for (size_t k = 0; k < SYNC_COUNT && l == run->interval; k++) {
                float d = wc[k] - mw[k] + (float)run->weight_decay * wc[k];
                v[k] = 0.9f * v[k] + d;
                w[k] = wc[k] - (float)run->rate * (d + 0.9f * v[k]);
                wc[k] = w[k];
            }
            for (uint32_t i = 0; i < run->num_replicas; i++)
                memcpy(weights +
                           ((step - 1) * run->num_replicas + i) * SYNC_COUNT,
                       w, sizeof w);
            step++;
        }
    }
    memcpy(model, wc, sizeof wc);
}

static void expect_reference(const struct sync_run *run)
{
    float *weights = malloc(sizeof(float) * STEPS * MOST_REPLICAS * SYNC_COUNT);
    float model[SYNC_COUNT];
    assert_non_null(weights);
    reference(run, weights, model);
    sync_expect_trajectory(run, weights, model, 2e-6);
    free(weights);
}

static void follows_its_equations(void **state)
{
    (void)state;
    struct sync_run run = base;
    expect_reference(&run);
    run.num_replicas = 1;
    expect_reference(&run);
}

/* Behind one step the weights differ by llr eps / sqrt(llr / 2) N(0, 1). */
static void adds_normal_noise_that_all_have(void **state)
{
    (void)state;
    struct sync_run run = base;
    struct sync_trace quiet[MOST_REPLICAS], noisy[MOST_REPLICAS];
    double sum = 0, squares = 0;
    run.num_steps = 1;
    sync_threads_run(&run, quiet);
    run.options[0] = "noise=2";
    sync_threads_run(&run, noisy);
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        double added = (double)quiet[0].weights[k] - noisy[0].weights[k];
        added /= 0.04 * 2 / sqrt(0.5 * 0.04);
        sum += added;
        squares += added * added;
    }
    for (uint32_t i = 1; i < MOST_REPLICAS; i++)
        assert_memory_equal(noisy[0].weights, noisy[i].weights,
                            SYNC_COUNT * sizeof(float));
    /* four deviations of mean and variance of that many */
    assert_true(fabs(sum / SYNC_COUNT) < 4 / sqrt(SYNC_COUNT));
    assert_true(fabs(squares / SYNC_COUNT - 1) < 4 * sqrt(2.0 / SYNC_COUNT));
    sync_trace_release(quiet, MOST_REPLICAS);
    sync_trace_release(noisy, MOST_REPLICAS);
}

static void noise_differs_from_step_to_step(void **state)
{
    (void)state;
    struct sync_run run = base;
    struct sync_trace found;
    run.num_replicas = 1;
    run.num_steps = 2;
    run.options[0] = "noise=2";
    run.options[1] = "g0=0";
    run.options[4] = "momentum=0";
    run.weight_decay = 0;
    sync_threads_run(&run, &found);
    float x[SYNC_COUNT], g[SYNC_COUNT];
    size_t num_same = 0;
    double deviation = 2 / sqrt(0.5 * 0.04);
    double past[SYNC_COUNT];
    sync_start(&run.problem, x);
    for (uint64_t step = 1; step <= 2; step++) {
        const float *next = sync_trace_at(&found, step);
        sync_gradient(&run.problem, 0, step, x, g);
        for (size_t k = 0; k < SYNC_COUNT; k++) {
            double drawn = (((double)x[k] - next[k]) / 0.04 - g[k]) / deviation;
            if (step == 2 && fabs(drawn - past[k]) < 1e-4)
                num_same++;
            past[k] = drawn;
        }
        memcpy(x, next, sizeof x);
    }
    assert_int_equal(0, num_same);
    sync_trace_release(&found, 1);
}

static void resumes_between_outer_steps(void **state)
{
    (void)state;
    struct sync_run run = base;
    run.options[0] = "noise=0.01";
    sync_expect_resumable(&run, 17);
    run.compress = "random-block:1";
    sync_expect_resumable(&run, 17);
}

static void sends_what_it_says(void **state)
{
    (void)state;
    struct sync_run run = base;
    sync_expect_cost(&run, STEPS);
    run.num_replicas = 1;
    sync_expect_cost(&run, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equations),
        cmocka_unit_test(adds_normal_noise_that_all_have),
        cmocka_unit_test(noise_differs_from_step_to_step),
        cmocka_unit_test(resumes_between_outer_steps),
        cmocka_unit_test(sends_what_it_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
