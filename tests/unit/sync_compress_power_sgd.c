/* PowerSGD against plain loops over all replicas in one array. */
#include "support/support.h"

#include "support/compress_run.h"
#include "support/sync_run.h"

#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 4, STEPS = 50, RANK = 2 };

static const struct compress_run base = {
    .compress = "powersgd:2", .num_members = MEMBERS, .num_steps = STEPS};

static const struct sync_run training = {
    .method = "allreduce",
    .compress = "powersgd:2",
    .num_replicas = MEMBERS,
    .num_steps = STEPS,
    .problem = {.seed = 3, .noise = 0.5},
    .rate = 0.05,
};

/* ---- all replicas in one array, in the order of operations ---- */

enum { MOST = 16 };

struct reference {
    float x[MEMBERS][SYNC_COUNT];
    float e[MEMBERS][SYNC_COUNT];
    float q[SYNC_TENSORS][RANK][MOST];
};

/* The factor at first, as the compressor draws it. */
static void draw(uint64_t seed, uint64_t key, size_t m, float q[RANK][MOST])
{
    struct pen_random random = {seed};
    random.state ^= pen_random_next(&(struct pen_random){1});
    random.state ^= pen_random_next(&(struct pen_random){~key});
    for (int k = 0; k < RANK; k++)
        for (size_t j = 0; j < m; j++)
            q[k][j] = (float)(2 * pen_random_unit(&random) - 1);
}

static double product(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void orthonormalise(size_t n, float p[RANK][MOST])
{
    for (int k = 0; k < RANK; k++) {
        for (int j = 0; j < 2 * k; j++) {
            float along = (float)product(p[k], p[j % k], n);
            for (size_t i = 0; i < n; i++)
                p[k][i] -= along * p[j % k][i];
        }
        float inverse = (float)(1 / (sqrt(product(p[k], p[k], n)) + 1e-8));
        for (size_t i = 0; i < n; i++)
            p[k][i] *= inverse;
    }
}

/* Of up to 16 values: halves are added to halves. */
static float row_times(const float *row, const float *column, size_t m)
{
    float sums[MOST] = {0};
    for (size_t j = 0; j < m; j++)
        sums[j] = row[j] * column[j];
    for (size_t half = MOST / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            sums[j] += sums[j + half];
    return sums[0];
}

static float mean_of_four(float a, float b, float c, float d)
{
    return ((a + b) + (c + d)) / 4;
}

static void find_left(struct reference *it, size_t first, size_t n, size_t m,
                      float q[RANK][MOST], float p[RANK][MOST])
{
    for (int k = 0; k < RANK; k++)
        for (size_t i = 0; i < n; i++) {
            float of[MEMBERS];
            for (int r = 0; r < MEMBERS; r++)
                of[r] = row_times(it->e[r] + first + i * m, q[k], m);
            p[k][i] = mean_of_four(of[0], of[1], of[2], of[3]);
        }
}

static void find_right(struct reference *it, size_t first, size_t n, size_t m,
                       float q[RANK][MOST], float p[RANK][MOST])
{
    for (int k = 0; k < RANK; k++)
        for (size_t j = 0; j < m; j++) {
            float of[MEMBERS] = {0};
            for (int r = 0; r < MEMBERS; r++)
                for (size_t i = 0; i < n; i++)
                    of[r] += p[k][i] * it->e[r][first + i * m + j];
            q[k][j] = mean_of_four(of[0], of[1], of[2], of[3]);
        }
}

/* One tensor: e of all members is what they give, and then what they keep. */
static void compress(struct reference *it, size_t t, size_t first, float *out)
{
    size_t n = sync_shapes[t][0], m = sync_shapes[t][1];
    float p[RANK][MOST];
    for (size_t k = 0; k < n * m; k++)
        out[k] = mean_of_four(it->e[0][first + k], it->e[1][first + k],
                              it->e[2][first + k], it->e[3][first + k]);
    if (RANK * (n + m) >= n * m) {
        for (int r = 0; r < MEMBERS; r++)
            memset(it->e[r] + first, 0, n * m * sizeof(float));
        return;
    }
    orthonormalise(m, it->q[t]);
    find_left(it, first, n, m, it->q[t], p);
    orthonormalise(n, p);
    find_right(it, first, n, m, it->q[t], p);
    for (size_t k = 0; k < n * m; k++) {
        out[k] = 0;
        for (int c = 0; c < RANK; c++)
            out[k] += p[c][k / m] * it->q[t][c][k % m];
        for (int r = 0; r < MEMBERS; r++)
            it->e[r][first + k] -= out[k];
    }
}

static void one_step(struct reference *it, uint64_t step)
{
    float mean[SYNC_COUNT];
    size_t first = 0;
    for (int i = 0; i < MEMBERS; i++) {
        float g[SYNC_COUNT];
        sync_gradient(&training.problem, (uint32_t)i, step, it->x[i], g);
        for (size_t k = 0; k < SYNC_COUNT; k++)
            it->e[i][k] += g[k];
    }
    for (size_t t = 0; t < SYNC_TENSORS; t++) {
        compress(it, t, first, mean + first);
        first += sync_shapes[t][0] * sync_shapes[t][1];
    }
    for (int i = 0; i < MEMBERS; i++)
        for (size_t k = 0; k < SYNC_COUNT; k++)
            it->x[i][k] -= (float)training.rate * mean[k];
}

static void follows_its_equations(void **state)
{
    (void)state;
    static struct reference it;
    float *weights = malloc(STEPS * sizeof it.x);
    assert_non_null(weights);
    for (int i = 0; i < MEMBERS; i++)
        sync_start(&training.problem, it.x[i]);
    for (size_t t = 0; t < SYNC_TENSORS; t++)
        if (RANK * (sync_shapes[t][0] + sync_shapes[t][1]) <
            sync_shapes[t][0] * sync_shapes[t][1])
            draw(training.problem.seed, t, sync_shapes[t][1], it.q[t]);
    for (uint64_t step = 1; step <= STEPS; step++) {
        one_step(&it, step);
        memcpy(weights + (step - 1) * MEMBERS * SYNC_COUNT, it.x, sizeof it.x);
    }
    sync_expect_trajectory(&training, weights, it.x[0], 0);
    free(weights);
}

/* ---- promises ---- */

static void a_full_rank_has_an_exact_mean(void **state)
{
    (void)state;
    struct compress_run run = base;
    run.compress = "powersgd:1024";
    compress_expect_exact(&run, 2e-7);
}

static const size_t big[][2] = {{40, 30}, {1, 9}, {25, 60}};

/* Members differ, and the mean of their matrices has rank 3: waves. */
static void give_low_rank(uint32_t member, uint64_t step, size_t count,
                          float *out)
{
    size_t at = 0;
    (void)step;
    for (size_t t = 0; t < 3; t++)
        for (size_t i = 0; i < big[t][0]; i++)
            for (size_t j = 0; j < big[t][1]; j++) {
                double x = ((double)i + 0.5) / (double)big[t][0];
                double y = ((double)j + 0.5) / (double)big[t][1];
                double own = (double)((i * 7 + j * j) % 11) / 64;
                double sum = member % 2 == 0 ? own : -own;
                for (int k = 1; k <= 3; k++)
                    sum += cos(k * x * 3.14159) * cos(k * y * 3.14159);
                out[at++] = (float)sum;
            }
    assert_int_equal(count, at);
}

/* How far at most the first step is from the mean. */
static double largest_error(const char *compress)
{
    struct compress_run run = {.compress = compress,
                               .num_members = MEMBERS,
                               .num_steps = 1,
                               .shapes = big,
                               .num_shapes = 3,
                               .give = give_low_rank};
    struct compress_trace traces[MEMBERS];
    double largest = 0;
    compress_threads_run(&run, traces);
    for (size_t k = 0; k < traces[0].count; k++) {
        double mean =
            ((double)traces[0].given[k] + (double)traces[1].given[k] +
             (double)traces[2].given[k] + (double)traces[3].given[k]) /
            4;
        largest = fmax(largest, fabs(mean - (double)traces[0].delivered[k]));
    }
    compress_traces_release(traces, MEMBERS);
    return largest;
}

static void a_mean_of_less_rank_is_exact_at_once(void **state)
{
    (void)state;
    assert_true(largest_error("powersgd:4") < 2e-6 * 3); /* 3 is the largest */
    assert_true(largest_error("powersgd:2") > 0.1);
}

/* Nothing for some steps, as of weights that are not trained yet. */
static void give_late(uint32_t member, uint64_t step, size_t count, float *out)
{
    compress_give(member, step, count, out);
    if (step <= 3)
        memset(out, 0, count * sizeof *out);
}

static void zeros_do_not_stop_it(void **state)
{
    (void)state;
    struct compress_run run = base;
    struct compress_trace traces[MEMBERS];
    run.give = give_late;
    run.num_steps = 4;
    compress_threads_run(&run, traces);
    double length = 0;
    for (size_t k = 0; k < 48; k++)
        length += fabs((double)traces[0].delivered[3 * traces[0].count + k]);
    assert_true(length > 1);
    compress_traces_release(traces, MEMBERS);
    run.num_steps = STEPS;
    compress_expect_same_bits(&run);
    compress_expect_nothing_lost(&run, "error", NULL);
}

static void keeps_what_it_leaves_out(void **state)
{
    (void)state;
    for (uint32_t members = 1; members <= MEMBERS; members++) {
        struct compress_run run = base;
        run.num_members = members;
        compress_expect_same_bits(&run);
        compress_expect_nothing_lost(&run, "error", NULL);
    }
}

static void sends_what_it_says(void **state)
{
    (void)state;
    struct compress_run run = base;
    struct pen_mean_cost cost;
    compress_expect_bytes(&run);
    compress_cost(&run, &cost);
    /* Of 8 x 6, 5 x 4 and 12 x 9; the vector of 7 goes whole. */
    assert_true(cost.bytes == 2 * 3 / 4.0 * 4 * (2 * (14 + 9 + 21) + 7));
    assert_true(cost.legs == 4);
}

static void resumes(void **state)
{
    (void)state;
    struct sync_run run = training;
    sync_expect_resumable(&run, 17);
    run.method = "diloco";
    run.interval = 7;
    sync_expect_resumable(&run, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equations),
        cmocka_unit_test(a_full_rank_has_an_exact_mean),
        cmocka_unit_test(a_mean_of_less_rank_is_exact_at_once),
        cmocka_unit_test(zeros_do_not_stop_it),
        cmocka_unit_test(keeps_what_it_leaves_out),
        cmocka_unit_test(sends_what_it_says),
        cmocka_unit_test(resumes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
