/* Top-k and DGC: picked by a sort, and all replicas in one array. */
#include "support/support.h"

#include "support/compress_run.h"
#include "support/sync_run.h"

#include "base/random.h"
#include "sync/largest.h"
#include "sync/sparse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 4, STEPS = 50 };

static const struct compress_run base = {
    .compress = "top-k:0.1", .num_members = MEMBERS, .num_steps = STEPS};

static const struct sync_run training = {
    .method = "allreduce",
    .compress = "top-k:0.1",
    .num_replicas = MEMBERS,
    .num_steps = STEPS,
    .problem = {.seed = 3, .noise = 0.5},
    .rate = 0.05,
};

/* ---- the choice ---- */

struct item {
    float size;
    uint32_t place;
};

/* Size falls, then place rises. */
static int by_size(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    return x->size != y->size ? (x->size < y->size) - (x->size > y->size)
                              : (x->place > y->place) - (x->place < y->place);
}

static int by_place(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return (i > j) - (i < j);
}

/* The first k of all that are sorted, in order of their places. */
static void pick(const float *values, size_t count, size_t k, uint32_t *out)
{
    struct item *items = calloc(count, sizeof *items);
    assert_non_null(items);
    for (uint32_t i = 0; i < count; i++)
        items[i] = (struct item){fabsf(values[i]), i};
    qsort(items, count, sizeof *items, by_size);
    for (size_t i = 0; i < k; i++)
        out[i] = items[i].place;
    qsort(out, k, sizeof *out, by_place);
    free(items);
}

static void expect_picked(const float *values, size_t count, size_t k)
{
    struct pen_largest largest;
    uint32_t *expected = calloc(count, sizeof *expected);
    uint32_t *found = calloc(count, sizeof *found);
    assert_non_null(expected);
    assert_non_null(found);
    assert_int_equal(PEN_OK,
                     pen_largest_init(&largest, pen_largest_room(count, k)));
    pick(values, count, k, expected);
    struct pen_largest_source source = {.values = values, .count = count};
    pen_largest_find(&largest, &source, k, found);
    assert_memory_equal(expected, found, k * sizeof *found);
    pen_largest_release(&largest);
    free(expected);
    free(found);
}

enum { MANY = 60000 };

/* Values of several kinds: spread, equal, few, growing, falling, periodic. */
static void make_values(int kind, size_t count, float *out)
{
    struct pen_random random = {(uint64_t)kind + count};
    for (size_t i = 0; i < count; i++) {
        double unit = pen_random_unit(&random) * 2 - 1;
        double values[] = {
            unit * unit * unit,        0.25,
            (double)((i * 7) % 3) - 1, (double)i,
            (double)(count - i),       i % 58 == 0 ? 100 : unit,
            i % 1000 == 17 ? unit : 0, i > count / 2 ? unit * 50 : unit};
        out[i] = (float)values[kind];
    }
}

static void the_largest_are_found_whatever_the_values(void **state)
{
    (void)state;
    float *values = calloc(MANY, sizeof *values);
    assert_non_null(values);
    const size_t counts[] = {1, 2, 31, 33, 4095, 4096, 5000, MANY};
    const double ratios[] = {1e-6, 0.001, 0.01, 0.3, 0.99, 1};
    for (int kind = 0; kind < 8; kind++)
        for (size_t i = 0; i < 8; i++) {
            make_values(kind, counts[i], values);
            for (size_t j = 0; j < 6; j++)
                expect_picked(values, counts[i],
                              pen_sparse_picked(ratios[j], counts[i]));
        }
    free(values);
}

/* ---- all replicas in one array ---- */

struct reference {
    float x[MEMBERS][SYNC_COUNT];
    float u[MEMBERS][SYNC_COUNT];
    float v[MEMBERS][SYNC_COUNT];
};

/* What member i sends at a step; the rest waits. */
static void send(struct reference *it, int i, double ratio, float *mean)
{
    uint32_t places[SYNC_COUNT];
    size_t first = 0;
    for (size_t t = 0; t < SYNC_TENSORS; t++) {
        size_t count = sync_shapes[t][0] * sync_shapes[t][1];
        size_t k = (size_t)fmax(1, floor(ratio * (double)count + 0.5));
        pick(it->v[i] + first, count, k, places);
        for (size_t j = 0; j < k; j++) {
            size_t at = first + places[j];
            mean[at] += it->v[i][at] / MEMBERS;
            it->u[i][at] = it->v[i][at] = 0;
        }
        first += count;
    }
}

/* DGC; top-k is without momentum. Epochs have 10 steps. */
static void reference(float momentum, double ratio, int warmup, float *weights,
                      float *model)
{
    static struct reference it;
    memset(&it, 0, sizeof it);
    for (int i = 0; i < MEMBERS; i++)
        sync_start(&training.problem, it.x[i]);
    for (uint64_t step = 1; step <= STEPS; step++) {
        float mean[SYNC_COUNT] = {0}, g[SYNC_COUNT];
        int epoch = (int)(step - 1) / 10;
        double now =
            epoch < warmup ? pow(ratio, (epoch + 1.0) / (warmup + 1)) : ratio;
        for (int i = 0; i < MEMBERS; i++) {
            sync_gradient(&training.problem, (uint32_t)i, step, it.x[i], g);
            for (size_t k = 0; k < SYNC_COUNT; k++) {
                it.u[i][k] = momentum * it.u[i][k] + g[k];
                it.v[i][k] += it.u[i][k];
            }
            send(&it, i, now, mean);
        }
        for (int i = 0; i < MEMBERS; i++)
            for (size_t k = 0; k < SYNC_COUNT; k++)
                it.x[i][k] -= (float)training.rate * mean[k];
        memcpy(weights + (step - 1) * MEMBERS * SYNC_COUNT, it.x, sizeof it.x);
    }
    memcpy(model, it.x[0], sizeof it.x[0]);
}

static void expect_reference(const char *compress, float momentum, double ratio,
                             int warmup)
{
    float *weights = malloc(sizeof(float) * STEPS * MEMBERS * SYNC_COUNT);
    float model[SYNC_COUNT];
    struct sync_run run = training;
    assert_non_null(weights);
    run.compress = compress;
    reference(momentum, ratio, warmup, weights, model);
    sync_expect_trajectory(&run, weights, model, 2e-6);
    free(weights);
}

static void follow_their_equations(void **state)
{
    (void)state;
    expect_reference("top-k:0.1", 0, 0.1, 0);
    expect_reference("top-k", 0, 0.0074, 0);
    expect_reference("dgc:0.05,warmup=0", 0.9f, 0.05, 0);
    expect_reference("dgc:0.01,momentum=0.5,warmup=3", 0.5f, 0.01, 3);
}

/* ---- promises ---- */

static void dgc_without_momentum_is_top_k(void **state)
{
    (void)state;
    struct sync_run dgc = training;
    dgc.compress = "dgc:0.1,momentum=0,warmup=0";
    sync_expect_same_bits(&training, &dgc);
}

static void all_values_have_an_exact_mean(void **state)
{
    (void)state;
    struct compress_run run = base;
    run.compress = "top-k:1";
    compress_expect_exact(&run, 2e-7);
    run.compress = "dgc:1,momentum=0";
    compress_expect_exact(&run, 2e-7);
}

static void keep_what_they_leave_out(void **state)
{
    (void)state;
    for (uint32_t members = 1; members <= MEMBERS; members++) {
        struct compress_run run = base;
        run.num_members = members;
        compress_expect_same_bits(&run);
        compress_expect_nothing_lost(&run, "error", NULL);
        run.compress = "dgc:0.02,momentum=0,warmup=0";
        compress_expect_same_bits(&run);
        compress_expect_nothing_lost(&run, "waiting", NULL);
    }
}

static void send_what_they_say(void **state)
{
    (void)state;
    struct compress_run run = base;
    struct pen_mean_cost cost;
    compress_expect_bytes(&run);
    compress_cost(&run, &cost);
    /* Of 48, 7, 20 and 108; 8 bytes each, and 8 of the length. */
    assert_true(cost.bytes == (MEMBERS - 1) * (8.0 * (5 + 1 + 2 + 11) + 8));
    run.compress = "dgc:0.02,warmup=0";
    compress_expect_bytes(&run);
}

static void resume(void **state)
{
    (void)state;
    struct sync_run run = training;
    sync_expect_resumable(&run, 17);
    run.compress = "dgc:0.01,warmup=3";
    sync_expect_resumable(&run, 17);
    run.method = "diloco";
    run.interval = 7;
    sync_expect_resumable(&run, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_are_found_whatever_the_values),
        cmocka_unit_test(follow_their_equations),
        cmocka_unit_test(dgc_without_momentum_is_top_k),
        cmocka_unit_test(all_values_have_an_exact_mean),
        cmocka_unit_test(keep_what_they_leave_out),
        cmocka_unit_test(send_what_they_say),
        cmocka_unit_test(resume)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
