/* 1-bit Adam against plain loops over all replicas in one array. */
#include "support/support.h"

#include "support/sync_run.h"
#include "support/thread_group.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 50, EXACT_STEPS = 10 };

static const struct sync_run base = {
    .method = "onebit-adam",
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 3, .noise = 0.5},
    .optimizer = {.is_adam = true},
    .rate = 0.01,
};

/* All replicas in one array, written down from the equations. */
struct model {
    float x[SYNC_COUNT];
    float m[SYNC_COUNT];
    float v[SYNC_COUNT];
    float errors[REPLICAS][SYNC_COUNT]; /* of who sends */
    float owner_error[SYNC_COUNT];
};

/* c becomes scale sign(c), the error what is lost. */
static void take_signs(float *c, float *error, size_t count)
{
    double sum = 0;
    for (size_t k = 0; k < count; k++)
        sum += (double)c[k] * (double)c[k];
    float scale = (float)sqrt(sum / (double)count);
    for (size_t k = 0; k < count; k++) {
        float sign = c[k] < 0 ? -scale : scale;
        error[k] = c[k] - sign;
        c[k] = sign;
    }
}

/* One share of a tensor: what all have of it, to what all get. */
static void exchange_share(struct model *it, float given[REPLICAS][SYNC_COUNT],
                           size_t first, size_t count)
{
    float mean[SYNC_COUNT] = {0};
    for (int i = 0; i < REPLICAS; i++) {
        float *c = given[i] + first;
        for (size_t k = 0; k < count; k++)
            c[k] += it->errors[i][first + k];
        take_signs(c, it->errors[i] + first, count);
        for (size_t k = 0; k < count; k++)
            mean[k] += c[k] / REPLICAS;
    }
    for (size_t k = 0; k < count; k++)
        mean[k] += it->owner_error[first + k];
    take_signs(mean, it->owner_error + first, count);
    memcpy(it->m + first, mean, count * sizeof *mean);
}

static void exchange_signs(struct model *it, float given[REPLICAS][SYNC_COUNT])
{
    size_t first = 0;
    for (int i = 0; i < SYNC_TENSORS; i++) {
        size_t count = sync_shapes[i][0] * sync_shapes[i][1];
        for (size_t s = 0; s < REPLICAS; s++) {
            size_t begin = count * s / REPLICAS;
            size_t end = count * (s + 1) / REPLICAS;
            exchange_share(it, given, first + begin, end - begin);
        }
        first += count;
    }
}

static void step_all(struct model *it, const struct sync_run *run,
                     uint64_t step)
{
    static float given[REPLICAS][SYNC_COUNT];
    const double seen = step < EXACT_STEPS ? (double)step : EXACT_STEPS;
    float mean[SYNC_COUNT] = {0};
    for (uint32_t i = 0; i < REPLICAS; i++) {
        sync_gradient(&run->problem, i, step, it->x, given[i]);
        for (size_t k = 0; k < SYNC_COUNT; k++) {
            mean[k] += given[i][k] / REPLICAS;
            given[i][k] = 0.9f * it->m[k] + 0.1f * given[i][k];
        }
    }
    for (size_t k = 0; k < SYNC_COUNT && step <= EXACT_STEPS; k++) {
        it->m[k] = 0.9f * it->m[k] + 0.1f * mean[k];
        it->v[k] = 0.95f * it->v[k] + 0.05f * mean[k] * mean[k];
    }
    if (step > EXACT_STEPS)
        exchange_signs(it, given);
    for (size_t k = 0; k < SYNC_COUNT; k++) {
        double m = (double)it->m[k] / (1 - pow(0.9, (double)step));
        double v = (double)it->v[k] / (1 - pow(0.95, seen));
        it->x[k] -= (float)(run->rate * m / (sqrt(v) + 1e-8));
    }
}

static void follows_its_equations(void **state)
{
    (void)state;
    static struct model it;
    static float rows[STEPS * REPLICAS * SYNC_COUNT];
    memset(&it, 0, sizeof it);
    sync_start(&base.problem, it.x);
    for (uint64_t step = 1; step <= STEPS; step++) {
        step_all(&it, &base, step);
        for (uint64_t i = 0; i < REPLICAS; i++)
            memcpy(rows + ((step - 1) * REPLICAS + i) * SYNC_COUNT, it.x,
                   sizeof it.x);
    }
    sync_expect_trajectory(&base, rows, it.x, 2e-6);
}

static void without_signs_it_is_adam_with_the_mean_gradient(void **state)
{
    (void)state;
    struct sync_run run = base, adam = base;
    run.options[0] = "freeze=1";
    adam.method = "allreduce";
    sync_expect_close(&adam, &run, 2e-6);
}

static void resumes_before_and_behind_the_freezing(void **state)
{
    (void)state;
    sync_expect_resumable(&base, 7);
    sync_expect_resumable(&base, EXACT_STEPS);
    sync_expect_resumable(&base, 27);
}

/* A fifth of the steps is exact. */
static void sends_what_its_cost_says(void **state)
{
    (void)state;
    sync_expect_cost(&base, STEPS);
}

/* Weights 2 and 5 never have a gradient. */
static void weights_without_gradient_stay(void **state)
{
    (void)state;
    enum { COUNT = 8, TOTAL = 20 };
    struct thread_world *world = thread_world_create(1);
    float x[COUNT] = {0}, g[COUNT];
    struct pen_sync_tensor tensor = {
        .rows = 2, .columns = 4, .count = COUNT, .value = x, .gradient = g};
    struct pen_sync_setting setting = {
        .peers = thread_world_group(world, 0),
        .tensors = &tensor,
        .num_tensors = 1,
        .count = COUNT,
        .interval = 1,
        .total_steps = TOTAL,
        .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}};
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_sync_choice choice;
    struct pen_sync *sync;
    assert_int_equal(
        pen_sync_choose("onebit-adam", 0, NULL, 0, NULL, &choice, &why),
        PEN_OK);
    setting.options = choice.options;
    assert_int_equal(pen_sync_create(choice.method, &setting, &sync, &why),
                     PEN_OK);
    for (uint64_t step = 1; step <= TOTAL; step++) {
        for (size_t k = 0; k < COUNT; k++)
            g[k] = k == 2 || k == 5 ? 0 : (float)(k + 1);
        choice.method->local_step(sync, &(struct pen_sync_step){step, 0.01});
    }
    for (size_t k = 0; k < COUNT; k++)
        assert_true(k == 2 || k == 5 ? x[k] == 0 : x[k] < -0.01f);
    pen_sync_free(choice.method, sync);
    thread_world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equations),
        cmocka_unit_test(without_signs_it_is_adam_with_the_mean_gradient),
        cmocka_unit_test(resumes_before_and_behind_the_freezing),
        cmocka_unit_test(sends_what_its_cost_says),
        cmocka_unit_test(weights_without_gradient_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
