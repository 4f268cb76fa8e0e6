/* Stochastic gradient push against plain loops over all replicas. */
#include "support/support.h"

#include "support/sync_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 50 };

static const struct sync_run base = {
    .method = "sgp",
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 7, .noise = 0.5},
    .optimizer = {.momentum = 0.5, .is_nesterov = true},
    .rate = 0.05,
};

/* Everything of all replicas. */
struct all {
    float x[REPLICAS][SYNC_COUNT]; /* numerators */
    float w[REPLICAS];
    float z[REPLICAS][SYNC_COUNT];
    float came[REPLICAS][SYNC_COUNT]; /* on the way */
    float came_w[REPLICAS];
    struct sync_moments moments[REPLICAS];
};

static void push(struct all *all, const int *hops, int degree)
{
    memset(all->came, 0, sizeof all->came);
    memset(all->came_w, 0, sizeof all->came_w);
    for (int i = 0; i < REPLICAS; i++) {
        for (size_t k = 0; k < SYNC_COUNT; k++)
            all->x[i][k] /= (float)(degree + 1);
        all->w[i] /= (float)(degree + 1);
    }
    for (int i = 0; i < REPLICAS; i++)
        for (int j = 0; j < degree; j++) {
            int to = (i + hops[j]) % REPLICAS;
            for (size_t k = 0; k < SYNC_COUNT; k++)
                all->came[to][k] += all->x[i][k];
            all->came_w[to] += all->w[i];
        }
}

static void add(struct all *all)
{
    for (int i = 0; i < REPLICAS; i++) {
        for (size_t k = 0; k < SYNC_COUNT; k++)
            all->x[i][k] += all->came[i][k];
        all->w[i] += all->came_w[i];
    }
    memset(all->came, 0, sizeof all->came);
    memset(all->came_w, 0, sizeof all->came_w);
}

static void one_step(const struct sync_run *run, struct all *all, uint64_t step,
                     int degree, bool is_late)
{
    static const int all_hops[] = {1, 2, 3};
    const int one_hop[] = {step % 2 == 1 ? 1 : 2};
    float g[SYNC_COUNT];
    if (is_late)
        add(all);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        sync_gradient(&run->problem, i, step, all->z[i], g);
        sync_optimizer_step(&run->optimizer, run->rate, step, g,
                            &all->moments[i], all->x[i]);
    }
    push(all, degree == 1 ? one_hop : all_hops, degree);
    if (!is_late)
        add(all);
    for (int i = 0; i < REPLICAS; i++)
        for (size_t k = 0; k < SYNC_COUNT; k++)
            all->z[i][k] = all->x[i][k] / all->w[i];
}

static void expect_reference(const struct sync_run *run, int degree,
                             bool is_late)
{
    float *weights = malloc(sizeof(float) * STEPS * REPLICAS * SYNC_COUNT);
    struct all *all = calloc(1, sizeof *all);
    float model[SYNC_COUNT];
    assert_non_null(weights);
    assert_non_null(all);
    for (int i = 0; i < REPLICAS; i++) {
        sync_start(&run->problem, all->x[i]);
        sync_start(&run->problem, all->z[i]);
        all->w[i] = 1;
    }
    for (uint64_t step = 1; step <= STEPS; step++) {
        one_step(run, all, step, degree, is_late);
        memcpy(weights + (step - 1) * REPLICAS * SYNC_COUNT, all->z,
               sizeof all->z);
    }
    add(all);
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        float x = 0, w = 0;
        for (int i = 0; i < REPLICAS; i++) {
            x += all->x[i][k];
            w += all->w[i];
        }
        model[k] = x / w;
    }
    sync_expect_trajectory(run, weights, model, 2e-6);
    free(weights);
    free(all);
}

static void follows_its_equations(void **state)
{
    (void)state;
    expect_reference(&base, 1, false);
    struct sync_run run = base;
    run.options[0] = "overlap=1";
    run.slow_ns[1] = 500000;
    expect_reference(&run, 1, true);
    run.options[1] = "degree=3";
    expect_reference(&run, 3, true);
}

static void with_all_others_it_is_sync_sgd(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 5; count++) {
        struct sync_run run = base, sync = base;
        run.options[0] = "degree=4";
        run.num_replicas = sync.num_replicas = count;
        run.optimizer = sync.optimizer = (struct sync_optimizer){0};
        sync.method = "allreduce";
        sync_expect_close(&sync, &run, 2e-6);
    }
}

/* With a rate of 0 in step 20 there are two hops behind the last change. */
static void two_hops_reach_the_mean_of_four(void **state)
{
    (void)state;
    struct sync_run run = base;
    struct sync_trace traces[REPLICAS];
    double largest = 0;
    run.still_from = 20;
    run.optimizer.momentum = 0;
    sync_threads_run(&run, traces);
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        double mean = 0;
        for (int i = 0; i < REPLICAS; i++)
            mean += (double)sync_trace_at(&traces[i], 19)[k] / REPLICAS;
        for (int i = 0; i < REPLICAS; i++) {
            assert_float_equal(mean, (double)sync_trace_at(&traces[i], 20)[k],
                               2e-6);
            largest = fmax(
                largest, fabs(mean - (double)sync_trace_at(&traces[i], 19)[k]));
        }
    }
    assert_true(largest > 0.01); /* one hop does not */
    sync_trace_release(traces, REPLICAS);
}

struct weights {
    double at[STEPS + 1][5];
};

static void note_weight(void *context, uint32_t replica, uint64_t step,
                        struct pen_sync *sync)
{
    struct weights *weights = context;
    struct pen_sync_states states = {0};
    pen_sync_find_method("sgp")->states(sync, &states);
    for (size_t i = 0; i < states.count; i++)
        if (states.items[i].kind == PEN_STATE_NUMBERS)
            weights->at[step - 1][replica] = states.items[i].numbers[0];
}

static void weights_sum_up_to_their_number(void **state)
{
    (void)state;
    for (uint32_t count = 2; count <= 5; count++) {
        struct weights weights = {0};
        struct sync_run run = base;
        struct sync_trace traces[5];
        run.num_replicas = count;
        run.options[0] = "degree=2";
        run.watch = note_weight;
        run.context = &weights;
        sync_threads_run(&run, traces);
        sync_trace_release(traces, count);
        for (uint64_t step = 0; step < STEPS; step++) {
            double sum = 0;
            for (uint32_t i = 0; i < count; i++)
                sum += weights.at[step][i];
            assert_float_equal((double)count, sum, 1e-5);
        }
    }
}

static void resumes_at_any_step(void **state)
{
    (void)state;
    struct sync_run run = base;
    sync_expect_resumable(&run, 17);
    run.num_replicas = 5;
    run.options[0] = "overlap=1";
    run.options[1] = "degree=2";
    sync_expect_resumable(&run, 18);
    run.optimizer = (struct sync_optimizer){.is_adam = true};
    sync_expect_resumable(&run, 1);
}

static void sends_what_its_cost_says(void **state)
{
    (void)state;
    static const char *const degrees[] = {"degree=1", "degree=2", "degree=9"};
    static const uint64_t sent[] = {1, 2, 4}; /* of five */
    for (int i = 0; i < 3; i++) {
        struct sync_run run = base;
        struct sync_trace traces[5];
        run.num_replicas = 5;
        run.options[0] = degrees[i];
        sync_threads_run(&run, traces);
        for (int k = 0; k < 5; k++)
            assert_int_equal(sent[i] * (SYNC_COUNT + 1) * 4 * STEPS,
                             traces[k].num_bytes);
        assert_int_equal(STEPS * sync_run_cost(&run).bytes,
                         traces[0].num_bytes);
        sync_trace_release(traces, 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equations),
        cmocka_unit_test(with_all_others_it_is_sync_sgd),
        cmocka_unit_test(two_hops_reach_the_mean_of_four),
        cmocka_unit_test(weights_sum_up_to_their_number),
        cmocka_unit_test(resumes_at_any_step),
        cmocka_unit_test(sends_what_its_cost_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
