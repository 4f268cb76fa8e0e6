/* The peak of this machine, measured: products and memory. */
#include "host/peak.h"

#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum {
    WIDTH = 1024,    /* inputs and outputs of the product */
    ROWS_F32 = 128,  /* per thread: a run is over before others may cut in */
    ROWS_BF16 = 256, /* likewise */
    ROWS_MAX = 8192,
    RUNS_ALIKE = 8, /* this many runs near the best one confirm it */
    ALIGNMENT = 64
};

#define SHORTEST_SEC 0.05
#define LONGEST_SEC 0.4
#define TRIAD_LEAST_BYTES ((uint64_t)48 << 20) /* all three arrays */
#define TRIAD_MOST_BYTES ((uint64_t)512 << 20)

static double now_sec(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/*
 * Returns the best of many runs, after one that does not count. It runs until
 * several come near the best one: a quiet machine is done soon, and on a busy
 * one there may be a moment without the others.
 */
static double best_sec(void (*run)(void *context), void *context)
{
    run(context);
    double start = now_sec();
    double before = start;
    double best = HUGE_VAL;
    int num_alike = 0;
    do {
        run(context);
        double now = now_sec();
        double taken = now - before;
        before = now;
        if (taken < 0.95 * best)
            num_alike = 0;
        if (taken < best)
            best = taken;
        num_alike += taken < 1.05 * best;
    } while (before - start < SHORTEST_SEC ||
             (num_alike < RUNS_ALIKE && before - start < LONGEST_SEC));
    return best;
}

struct product {
    struct pen_engine *engine;
    struct pen_linear linear;
    void *x; /* (rows, WIDTH) */
    void *y; /* (rows, WIDTH) */
};

static void product_run(void *context)
{
    struct product *product = context;
    product->engine->ops->linear_forward(product->engine, &product->linear,
                                         product->x, NULL, product->y);
}

/*
 * Numbers as a network has them: zeros would use less power, and the clock
 * would be higher than it is in training. Two bytes of any kind are either a
 * bf16 or the upper half of a float.
 */
static void fill(void *bytes, size_t size)
{
    struct pen_random random = {.state = 1};
    uint16_t *halves = bytes;
    for (size_t i = 0; i < size / sizeof *halves; i++)
        halves[i] = (uint16_t)(0x3c00u | (pen_random_next(&random) & 0x81ffu));
}

static pen_status product_init(struct product *product, struct pen_text *why)
{
    struct pen_engine *engine = product->engine;
    const struct pen_parameter_shape shape = {
        .use = PEN_PARAMETER_DENSE, .rows = WIDTH, .columns = WIDTH};
    size_t bytes =
        product->linear.rows * WIDTH * pen_precision_bytes(engine->dtype);
    size_t plain_bytes = sizeof(float) * WIDTH * WIDTH;
    void *plain = aligned_alloc(ALIGNMENT, plain_bytes);
    product->x = aligned_alloc(ALIGNMENT, bytes);
    product->y = aligned_alloc(ALIGNMENT, bytes);
    pen_status status = PEN_NOMEM;
    if (plain != NULL && product->x != NULL && product->y != NULL)
        status = engine->ops->parameter_create(engine, &shape, why,
                                               &product->linear.weight);
    if (status == PEN_OK) {
        fill(plain, plain_bytes);
        fill(product->x, bytes);
        engine->ops->parameter_import(engine, product->linear.weight,
                                      PEN_PART_VALUE, PEN_ORDER_ROWS, plain);
        status = engine->ops->linear_prepare(engine, &product->linear, why);
    }
    free(plain);
    return status;
}

static void product_release(struct product *product)
{
    if (product->linear.weight != NULL)
        product->engine->ops->parameter_free(product->engine,
                                             product->linear.weight);
    free(product->y);
    free(product->x);
}

pen_status pen_peak_flops(enum pen_precision dtype, int threads,
                          struct pen_text *why, double *flops_per_sec)
{
    size_t rows =
        (size_t)threads * (dtype == PEN_PRECISION_BF16 ? ROWS_BF16 : ROWS_F32);
    struct product product = {.linear.rows = rows < ROWS_MAX ? rows : ROWS_MAX};
    pen_status status =
        pen_engine_onednn_create(dtype, threads, why, &product.engine);
    if (status != PEN_OK)
        return status;
    status = product_init(&product, why);
    if (status == PEN_OK)
        *flops_per_sec = 2.0 * (double)product.linear.rows * WIDTH * WIDTH /
                         best_sec(product_run, &product);
    product_release(&product);
    pen_engine_free(product.engine);
    return status;
}

struct triad {
    int threads;
    size_t count; /* of each array */
    float *a;
    float *b;
    float *c;
};

static void triad_run(void *context)
{
    const struct triad *triad = context;
    size_t count = triad->count;
    float *restrict a = triad->a;
    const float *restrict b = triad->b;
    const float *restrict c = triad->c;
#pragma omp parallel for simd num_threads(triad->threads) schedule(static)
    for (size_t i = 0; i < count; i++)
        a[i] = b[i] + 3 * c[i];
}

/* Each page is placed on the node of the thread that first touches it. */
static void triad_fill(const struct triad *triad)
{
#pragma omp parallel for simd num_threads(triad->threads) schedule(static)
    for (size_t i = 0; i < triad->count; i++) {
        triad->a[i] = 0;
        triad->b[i] = 1;
        triad->c[i] = 2;
    }
}

static uint64_t at_most(uint64_t bytes, uint64_t limit)
{
    return limit != 0 && limit < bytes ? limit : bytes;
}

static size_t triad_count(const struct pen_topology *topology)
{
    const struct pen_cache *last = &topology->caches[PEN_CACHE_LEVELS - 1];
    uint64_t bytes = at_most(TRIAD_MOST_BYTES, 4 * last->bytes * last->count);
    if (bytes < TRIAD_LEAST_BYTES)
        bytes = TRIAD_LEAST_BYTES;
    bytes = at_most(bytes, topology->memory_free_bytes / 4);
    bytes = at_most(bytes, topology->memory_limit_bytes / 4);
    size_t array_bytes = (size_t)bytes / 3 / ALIGNMENT * ALIGNMENT;
    return array_bytes / sizeof(float);
}

pen_status pen_peak_bandwidth(const struct pen_topology *topology, int threads,
                              struct pen_text *why, double *bytes_per_sec)
{
    size_t count = triad_count(topology);
    size_t bytes = 3 * count * sizeof(float);
    float *block = aligned_alloc(ALIGNMENT, bytes);
    if (block == NULL) {
        pen_why(why, "no memory for %zu bytes to measure with", bytes);
        return PEN_NOMEM;
    }
    struct triad triad = {threads, count, block, block + count,
                          block + 2 * count};
    triad_fill(&triad);
    *bytes_per_sec = (double)bytes / best_sec(triad_run, &triad);
    free(block);
    return PEN_OK;
}
