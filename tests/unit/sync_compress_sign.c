/* Signs with two-sided error feedback, against plain loops. */
#include "support/support.h"

#include "support/compress_run.h"
#include "support/sync_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 4, STEPS = 50 };

static const struct compress_run base = {
    .compress = "sign", .num_members = MEMBERS, .num_steps = STEPS};

static const struct sync_run training = {
    .method = "allreduce",
    .compress = "sign",
    .num_replicas = MEMBERS,
    .num_steps = STEPS,
    .problem = {.seed = 3, .noise = 0.5},
    .rate = 0.05,
};

/* What is left of c, which becomes its code. */
static void take_code(float *c, float *error, size_t count)
{
    double square = 0;
    for (size_t k = 0; k < count; k++)
        square += (double)c[k] * (double)c[k];
    float scale = (float)sqrt(square / (double)count);
    for (size_t k = 0; k < count; k++) {
        float code = c[k] >= 0 ? scale : -scale;
        error[k] = c[k] - code;
        c[k] = code;
    }
}

/* One chunk: the same values of all members, and of their owner. */
static void mean_of_chunk(float g[MEMBERS][SYNC_COUNT],
                          float worker[MEMBERS][SYNC_COUNT], float *server,
                          size_t first, size_t end, float *mean)
{
    float c[SYNC_COUNT] = {0};
    for (size_t k = first; k < end; k++)
        mean[k] = server[k];
    for (int i = 0; i < MEMBERS && end > first; i++) {
        for (size_t k = first; k < end; k++)
            c[k] = g[i][k] + worker[i][k];
        take_code(c + first, worker[i] + first, end - first);
        for (size_t k = first; k < end; k++)
            mean[k] += c[k] / MEMBERS;
    }
    if (end > first)
        take_code(mean + first, server + first, end - first);
}

/* All replicas in one array, written down from the equations. */
static void reference(float *weights, float *model)
{
    static float x[MEMBERS][SYNC_COUNT], g[MEMBERS][SYNC_COUNT];
    static float worker[MEMBERS][SYNC_COUNT], server[SYNC_COUNT];
    float mean[SYNC_COUNT];
    for (int i = 0; i < MEMBERS; i++)
        sync_start(&training.problem, x[i]);
    for (uint64_t step = 1; step <= STEPS; step++) {
        size_t first = 0;
        for (uint32_t i = 0; i < MEMBERS; i++)
            sync_gradient(&training.problem, i, step, x[i], g[i]);
        for (size_t t = 0; t < SYNC_TENSORS; t++) {
            size_t count = sync_shapes[t][0] * sync_shapes[t][1];
            for (size_t k = 0; k < MEMBERS; k++)
                mean_of_chunk(g, worker, server, first + count * k / MEMBERS,
                              first + count * (k + 1) / MEMBERS, mean);
            first += count;
        }
        for (int i = 0; i < MEMBERS; i++)
            for (size_t k = 0; k < SYNC_COUNT; k++)
                x[i][k] -= (float)training.rate * mean[k];
        memcpy(weights + (step - 1) * MEMBERS * SYNC_COUNT, x, sizeof x);
    }
    memcpy(model, x[0], sizeof x[0]);
}

static void follows_its_equations(void **state)
{
    (void)state;
    float *weights = malloc(sizeof(float) * STEPS * MEMBERS * SYNC_COUNT);
    float model[SYNC_COUNT];
    assert_non_null(weights);
    reference(weights, model);
    sync_expect_trajectory(&training, weights, model, 2e-6);
    free(weights);
}

static void keeps_what_it_leaves_out(void **state)
{
    (void)state;
    compress_expect_same_bits(&base);
    compress_expect_nothing_lost(&base, "error", "owner_error");
}

static void sends_what_it_says(void **state)
{
    (void)state;
    compress_expect_bytes(&base);
    struct compress_run run = base;
    const size_t shapes[2][2] = {{64, 64}, {1, 128}};
    struct pen_mean_cost cost;
    run.shapes = shapes;
    run.num_shapes = 2;
    compress_expect_bytes(&run);
    compress_cost(&run, &cost);
    /* A bit per value, a scale for each of 2 chunks, 8 bytes of length. */
    assert_true(cost.bytes ==
                2.0 * (MEMBERS - 1) * ((4096 + 128) / 8.0 / 4 + 2 * 4 + 8));
}

static void give_one_size(uint32_t member, uint64_t step, size_t count,
                          float *out)
{
    (void)member;
    for (size_t i = 0; i < count; i++)
        out[i] = (i + step) % 3 == 0 ? -0.5f : 0.5f;
}

static void values_of_one_size_have_an_exact_mean(void **state)
{
    (void)state;
    struct compress_run run = base;
    run.give = give_one_size;
    compress_expect_exact(&run, 0);
}

static void give_zeros(uint32_t member, uint64_t step, size_t count, float *out)
{
    (void)member, (void)step;
    for (size_t i = 0; i < count; i++)
        out[i] = i % 2 == 0 ? 0.0f : -0.0f;
}

/* Zero is positive, of both signs. */
static void the_sign_of_zero_is_plus(void **state)
{
    (void)state;
    struct compress_run run = base;
    struct compress_trace traces[MEMBERS];
    run.num_steps = 1;
    run.give = give_zeros;
    compress_threads_run(&run, traces);
    for (size_t k = 0; k < traces[0].count; k++)
        assert_true(traces[0].delivered[k] == 0 &&
                    !signbit(traces[0].delivered[k]));
    compress_traces_release(traces, MEMBERS);
}

static void resumes(void **state)
{
    (void)state;
    sync_expect_resumable(&training, 17);
    struct sync_run run = training;
    run.method = "diloco";
    run.interval = 7;
    sync_expect_resumable(&run, 17);
}

static void is_there_for_one_member(void **state)
{
    (void)state;
    struct compress_run run = base;
    run.num_members = 1;
    compress_expect_nothing_lost(&run, "error", "owner_error");
    compress_expect_bytes(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equations),
        cmocka_unit_test(keeps_what_it_leaves_out),
        cmocka_unit_test(sends_what_it_says),
        cmocka_unit_test(values_of_one_size_have_an_exact_mean),
        cmocka_unit_test(the_sign_of_zero_is_plus),
        cmocka_unit_test(resumes),
        cmocka_unit_test(is_there_for_one_member)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
