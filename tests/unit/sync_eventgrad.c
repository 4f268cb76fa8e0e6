/* EventGraD against plain loops over all replicas in one array. */
#include "support/support.h"

#include "support/sync_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 50 };

static const struct sync_run base = {
    .method = "eventgrad",
    .options = {"wait=1", "warmup=5"},
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 11, .noise = 0.5},
    .optimizer = {.momentum = 0.5},
    .rate = 0.02,
};

/* A tensor of a replica. */
struct sent {
    double norm;
    uint64_t step;
    double threshold;
    double slope;
};

struct all {
    float x[REPLICAS][SYNC_COUNT];
    float copies[REPLICAS][SYNC_COUNT]; /* as the neighbours have it */
    struct sent sent[REPLICAS][SYNC_TENSORS];
    struct sync_moments moments[REPLICAS];
    uint64_t num_events;
};

static double norm_of(const float *x, size_t count)
{
    double sum = 0;
    for (size_t k = 0; k < count; k++)
        sum += (double)x[k] * (double)x[k];
    return sqrt(sum);
}

static void look_at(struct all *all, int replica, int tensor, size_t first,
                    uint64_t step)
{
    struct sent *sent = &all->sent[replica][tensor];
    size_t count = sync_shapes[tensor][0] * sync_shapes[tensor][1];
    const float *x = all->x[replica] + first;
    double change = fabs(norm_of(x, count) - sent->norm);
    sent->threshold *= 0.9;
    if (change < sent->threshold && step >= 5)
        return;
    double slope = change / (double)(step - sent->step);
    *sent = (struct sent){norm_of(x, count), step, (slope + sent->slope) / 2,
                          slope};
    memcpy(all->copies[replica] + first, x, count * sizeof *x);
    all->num_events++;
}

static void one_step(const struct sync_run *run, struct all *all, uint64_t step)
{
    float mixed[REPLICAS][SYNC_COUNT], g[SYNC_COUNT];
    for (int i = 0; i < REPLICAS; i++)
        for (size_t k = 0; k < SYNC_COUNT; k++)
            mixed[i][k] = (all->copies[(i + 3) % 4][k] +
                           all->copies[(i + 1) % 4][k] + all->x[i][k]) /
                          3;
    for (uint32_t i = 0; i < REPLICAS; i++) {
        sync_gradient(&run->problem, i, step, all->x[i], g);
        memcpy(all->x[i], mixed[i], sizeof mixed[i]);
        sync_optimizer_step(&run->optimizer, run->rate, step, g,
                            &all->moments[i], all->x[i]);
        size_t first = 0;
        for (int t = 0; t < SYNC_TENSORS && step < STEPS; t++) {
            look_at(all, (int)i, t, first, step);
            first += sync_shapes[t][0] * sync_shapes[t][1];
        }
    }
}

static void start(const struct sync_run *run, struct all *all)
{
    for (int i = 0; i < REPLICAS; i++) {
        size_t first = 0;
        sync_start(&run->problem, all->x[i]);
        sync_start(&run->problem, all->copies[i]);
        for (int t = 0; t < SYNC_TENSORS; t++) {
            size_t count = sync_shapes[t][0] * sync_shapes[t][1];
            all->sent[i][t].norm = norm_of(all->x[i] + first, count);
            first += count;
        }
    }
}

static void follows_its_equations(void **state)
{
    (void)state;
    float *weights = malloc(sizeof(float) * STEPS * REPLICAS * SYNC_COUNT);
    struct all *all = calloc(1, sizeof *all);
    struct sync_run run = base;
    assert_non_null(weights);
    assert_non_null(all);
    run.options[2] = "horizon=0.9";
    start(&run, all);
    for (uint64_t step = 1; step <= STEPS; step++) {
        one_step(&run, all, step);
        memcpy(weights + (step - 1) * REPLICAS * SYNC_COUNT, all->x,
               sizeof all->x);
    }
    /* Some are events, and some are not. */
    uint64_t most = (uint64_t)(STEPS - 1) * REPLICAS * SYNC_TENSORS;
    assert_true(all->num_events > most / 10 && all->num_events < most * 9 / 10);
    sync_expect_trajectory(&run, weights, NULL, 2e-6);
    run.slow_ns[1] = 1000000;
    sync_expect_trajectory(&run, weights, NULL, 2e-6);
    free(weights);
    free(all);
}

static void without_a_threshold_it_is_d_psgd(void **state)
{
    (void)state;
    static const char *const zeros[] = {"threshold=0", "horizon=0"};
    for (uint32_t count = 1; count <= 5; count++)
        for (int i = 0; i < 2; i++) {
            struct sync_run run = base, gossip = base;
            run.options[1] = "warmup=0";
            run.options[2] = zeros[i];
            gossip.options[0] = NULL;
            gossip.method = "d-psgd";
            run.num_replicas = gossip.num_replicas = count;
            sync_expect_same_bits(&gossip, &run);
        }
}

static void resumes_at_any_step(void **state)
{
    (void)state;
    struct sync_run run = base;
    sync_expect_resumable(&run, 17);
    sync_expect_resumable(&run, 18);
    run.num_replicas = 2;
    run.optimizer = (struct sync_optimizer){.is_adam = true};
    sync_expect_resumable(&run, 1);
}

static void sends_what_its_cost_says(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 4; count++) {
        struct sync_run run = base;
        struct sync_trace traces[4];
        run.num_replicas = count;
        run.options[2] = "threshold=0";
        sync_threads_run(&run, traces);
        uint64_t most = (uint64_t)(count > 2 ? 2 : count - 1) *
                        (SYNC_COUNT * 4 + SYNC_TENSORS * 8 + 8) * (STEPS - 1);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(most, traces[i].num_bytes);
        assert_int_equal((STEPS - 1) * sync_run_cost(&run).bytes,
                         traces[0].num_bytes);
        sync_trace_release(traces, count);
    }
}

static double loss_of(const struct sync_problem *problem, const float *x)
{
    double sum = 0;
    float g[SYNC_COUNT];
    struct sync_problem quiet = {.seed = problem->seed};
    static float mean[SYNC_COUNT];
    memset(mean, 0, sizeof mean);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        sync_gradient(&quiet, i, 1, x, g);
        for (size_t k = 0; k < SYNC_COUNT; k++)
            mean[k] += g[k] / REPLICAS;
    }
    for (size_t k = 0; k < SYNC_COUNT; k++)
        sum += (double)mean[k] * (double)mean[k];
    return sum;
}

/* At whatever speeds it gets near the common minimum, also when resumed. */
static void learns_without_waiting(void **state)
{
    (void)state;
    struct sync_run run = base;
    struct sync_trace traces[REPLICAS];
    float start_at[SYNC_COUNT];
    run.options[0] = "wait=0";
    run.num_steps = 300;
    for (int i = 0; i < REPLICAS; i++)
        run.slow_ns[i] = 500000 + 100000 * i;
    run.resume_at = 33;
    sync_start(&run.problem, start_at);
    sync_threads_run(&run, traces);
    assert_true(loss_of(&run.problem, traces[0].consistent) <
                0.05 * loss_of(&run.problem, start_at));
    for (int i = 1; i < REPLICAS; i++)
        assert_memory_equal(traces[0].consistent, traces[i].consistent,
                            sizeof start_at);
    sync_trace_release(traces, REPLICAS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equations),
        cmocka_unit_test(without_a_threshold_it_is_d_psgd),
        cmocka_unit_test(resumes_at_any_step),
        cmocka_unit_test(sends_what_its_cost_says),
        cmocka_unit_test(learns_without_waiting)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
