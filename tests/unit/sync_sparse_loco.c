/*
 * SparseLoCo, and top-k in chunks of which it is made: picked by a sort, coded
 * by plain loops, all replicas in one array.
 */
#include "support/support.h"

#include "support/compress_run.h"
#include "support/sync_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 4, STEPS = 60, CHUNK = 16 };

static const struct sync_run base = {
    .method = "sparse-loco",
    .interval = 5,
    .options = {"chunk=16", "k=3"},
    .num_replicas = REPLICAS,
    .num_steps = STEPS,
    .problem = {.seed = 7, .noise = 0.5},
    .optimizer = {.is_adam = true},
    .rate = 0.05,
};

static const struct compress_run compressed = {.compress =
                                                   "chunk-top-k:3,chunk=16",
                                               .num_members = REPLICAS,
                                               .num_steps = STEPS};

/* ---- a chunk ---- */

/* Of the largest that is not taken yet, the first. */
static size_t take_largest(const float *values, size_t count, bool *is_taken)
{
    size_t best = count;
    for (size_t i = 0; i < count; i++)
        if (!is_taken[i] &&
            (best == count || fabsf(values[i]) > fabsf(values[best])))
            best = i;
    is_taken[best] = true;
    return best;
}

/* What is told of values of these sizes: the mean of those on its side of the
 * middle. */
static float told(float value, const float *values, const bool *is_taken,
                  size_t count)
{
    float least = INFINITY, most = 0;
    double sum = 0, number = 0;
    for (size_t i = 0; i < count; i++)
        if (is_taken[i]) {
            least = fminf(least, fabsf(values[i]));
            most = fmaxf(most, fabsf(values[i]));
        }
    float middle = least + (most - least) / 2;
    for (size_t i = 0; i < count; i++)
        if (is_taken[i] &&
            (fabsf(values[i]) < middle) == (fabsf(value) < middle)) {
            sum += (double)fabsf(values[i]);
            number++;
        }
    return copysignf((float)(sum / number), value);
}

/* Moves what is sent of a chunk from the error to the mean. */
static void send_chunk(float *error, size_t count, size_t k, bool is_coded,
                       float *mean)
{
    float sent[CHUNK] = {0};
    bool is_taken[CHUNK] = {false};
    for (size_t i = 0; i < k && i < count; i++)
        (void)take_largest(error, count, is_taken);
    for (size_t i = 0; i < count; i++)
        if (is_taken[i])
            sent[i] =
                is_coded ? told(error[i], error, is_taken, count) : error[i];
    for (size_t i = 0; i < count; i++) {
        error[i] -= sent[i];
        mean[i] += sent[i] / REPLICAS;
    }
}

static void send_all(float *error, size_t k, bool is_coded, float *mean)
{
    size_t first = 0;
    for (size_t t = 0; t < SYNC_TENSORS; t++) {
        size_t count = sync_shapes[t][0] * sync_shapes[t][1];
        for (size_t at = 0; at < count; at += CHUNK)
            send_chunk(error + first + at,
                       count - at < CHUNK ? count - at : CHUNK, k, is_coded,
                       mean + first + at);
        first += count;
    }
}

/* ---- all replicas in one array ---- */

struct rule {
    size_t k;
    bool is_coded;
    float beta;
    float lr;
};

static void reference(const struct sync_run *run, struct rule rule,
                      float *weights, float *model)
{
    static float x[REPLICAS][SYNC_COUNT], error[REPLICAS][SYNC_COUNT];
    static struct sync_moments moments[REPLICAS];
    float theta[SYNC_COUNT], g[SYNC_COUNT];
    memset(moments, 0, sizeof moments);
    memset(error, 0, sizeof error);
    sync_start(&run->problem, theta);
    for (int i = 0; i < REPLICAS; i++)
        memcpy(x[i], theta, sizeof theta);
    for (uint64_t step = 1; step <= STEPS; step++) {
        float mean[SYNC_COUNT] = {0};
        for (uint32_t i = 0; i < REPLICAS; i++) {
            sync_gradient(&run->problem, i, step, x[i], g);
            sync_optimizer_step(&run->optimizer, run->rate, step, g,
                                &moments[i], x[i]);
        }
        for (int i = 0; i < REPLICAS && step % run->interval == 0; i++) {
            for (size_t k = 0; k < SYNC_COUNT; k++)
                error[i][k] = rule.beta * error[i][k] + (theta[k] - x[i][k]);
            send_all(error[i], rule.k, rule.is_coded, mean);
        }
        for (size_t k = 0; k < SYNC_COUNT && step % run->interval == 0; k++) {
            theta[k] -= rule.lr * mean[k];
            for (int i = 0; i < REPLICAS; i++)
                x[i][k] = theta[k];
        }
        memcpy(weights + (step - 1) * REPLICAS * SYNC_COUNT, x, sizeof x);
    }
    memcpy(model, theta, sizeof theta);
}

static void expect_reference(const struct sync_run *run, struct rule rule)
{
    float *weights = malloc(sizeof(float) * STEPS * REPLICAS * SYNC_COUNT);
    float model[SYNC_COUNT];
    assert_non_null(weights);
    reference(run, rule, weights, model);
    sync_expect_trajectory(run, weights, model, 0);
    free(weights);
}

/* Of four replicas a quarter is exact: the same bits. */
static void follows_its_equations(void **state)
{
    (void)state;
    struct sync_run run = base;
    expect_reference(&run, (struct rule){3, true, 0.95f, 1});
    run.options[2] = "bits=32";
    expect_reference(&run, (struct rule){3, false, 0.95f, 1});
    run.options[2] = "beta=0.5";
    run.options[3] = "lr=0.7";
    expect_reference(&run, (struct rule){3, true, 0.5f, 0.7f});
    run.options[1] = "k=16";
    expect_reference(&run, (struct rule){16, true, 0.5f, 0.7f});
}

static void that_sends_all_it_is_diloco(void **state)
{
    (void)state;
    struct sync_run run = base, diloco = base;
    run.options[1] = "k=16";
    run.options[2] = "bits=32";
    run.options[3] = "lr=0.7";
    run.options[4] = "momentum=0.9";
    diloco.method = "diloco";
    diloco.options[0] = NULL;
    sync_expect_close(&diloco, &run, 2e-6);
    run.options[5] = "beta=0.3";
    sync_expect_close(&diloco, &run, 2e-6);
}

static void resumes_between_synchronisations(void **state)
{
    (void)state;
    sync_expect_resumable(&base, 17);
    struct sync_run run = base;
    run.options[2] = "momentum=0.5";
    sync_expect_resumable(&run, 31);
}

static void sends_what_it_says(void **state)
{
    (void)state;
    struct sync_run run = base;
    sync_expect_cost(&run, 12);
    /* Tensors of 48, 7, 20 and 108 values have 3, 1, 2 and 7 chunks, each with
     * two sizes, 3 codes of 2 bits and 3 places of 4 bits. */
    const double chunk = 8 + 1 + 2;
    assert_true(sync_run_cost(&run).bytes == 3 * (13 * chunk + 8));
    run.options[1] = "k=16";
    run.options[2] = "bits=32";
    sync_expect_cost(&run, 12);
    assert_true(sync_run_cost(&run).bytes == 3 * (4.0 * SYNC_COUNT + 8));
}

/* ---- the compressor by itself ---- */

static void all_values_have_an_exact_mean(void **state)
{
    (void)state;
    struct compress_run run = compressed;
    run.compress = "chunk-top-k:16,chunk=16,bits=32,beta=0.5";
    compress_expect_exact(&run, 2e-7);
}

static void it_keeps_what_it_leaves_out(void **state)
{
    (void)state;
    for (uint32_t members = 1; members <= REPLICAS; members++) {
        struct compress_run run = compressed;
        run.num_members = members;
        compress_expect_same_bits(&run);
        compress_expect_nothing_lost(&run, "error", NULL);
        compress_expect_bytes(&run);
        run.compress = "chunk-top-k:5,chunk=37,bits=32";
        compress_expect_same_bits(&run);
        compress_expect_nothing_lost(&run, "error", NULL);
        compress_expect_bytes(&run);
    }
}

/* Without a choice of chunks it is top-k. */
static void one_chunk_for_each_tensor_is_top_k(void **state)
{
    (void)state;
    struct sync_run run = {.method = "allreduce",
                           .compress = "chunk-top-k:1,chunk=128,bits=32",
                           .num_replicas = REPLICAS,
                           .num_steps = STEPS,
                           .problem = {.seed = 3, .noise = 0.5},
                           .rate = 0.05};
    struct sync_run top_k = run;
    top_k.compress = "top-k:1e-6"; /* one value of each tensor */
    sync_expect_same_bits(&top_k, &run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_equations),
        cmocka_unit_test(that_sends_all_it_is_diloco),
        cmocka_unit_test(resumes_between_synchronisations),
        cmocka_unit_test(sends_what_it_says),
        cmocka_unit_test(all_values_have_an_exact_mean),
        cmocka_unit_test(it_keeps_what_it_leaves_out),
        cmocka_unit_test(one_chunk_for_each_tensor_is_top_k)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
