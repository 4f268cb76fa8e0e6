/*
 * Every operation of text models on the first OpenCL device, over random shapes
 * in float and in bf16, as a table: how far it is from the reference engine, in
 * how many shapes it is beyond the bound, in how many its bits are not those of
 * the kernels as plain C, and in how many a second run has other bits. It fails
 * after the table where one of the last three is not 0.
 *
 *   device_shapes [SHAPES]
 *
 * SHAPES is 500 when not given.
 */
#include "support/device_trials.h"
#include "support/engine.h"
#include "support/plain_driver.h"
#include "support/seed.h"
#include "support/support.h"

#include "engine/device/kernels/sizes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHAPES = 500, FEW = 8 };
enum { TRUTH, PLAIN, DEVICE, AGAIN, RUNS };

/* A row of the table: the findings on one operation. */
struct row {
    const char *name;
    uint64_t shapes;
    uint64_t beyond;
    uint64_t unlike_plain;
    uint64_t unlike_itself;
    double largest; /* difference of results that have FEW numbers or more */
    uint64_t seed;  /* of that shape */
    const char *result;
};

static uint64_t num_shapes = SHAPES;

static const struct device_trials opencl = {.name = "device_shapes",
                                            .create = pen_engine_opencl_create,
                                            .refusal = "compiler"};

/* More than rounding, as `penstock doctor --engine` has it. Among thousands of
 * random shapes some are harder than those of property/engine_opencl. */
static double bound_of(enum pen_precision dtype)
{
    return dtype == PEN_PRECISION_BF16 ? 0x1p-5 : 1e-4;
}

/* Sums of random numbers may cancel: a norm of few of them may have little but
 * rounding errors, and shows only what is quite wrong. */
static bool is_beyond(const struct trial *truth, const struct trial *found,
                      double bound, uint64_t seed, struct row *row)
{
    bool is_any_beyond = false;
    for (int i = 0; i < truth->num_results; i++) {
        const struct trial_result *result = &truth->results[i];
        bool is_small = result->count < FEW;
        double apart = relative_distance(result->count, result->numbers,
                                         found->results[i].numbers);
        is_any_beyond |= !(apart <= (is_small ? 0.1 : bound));
        if (!is_small && !(apart <= row->largest)) {
            row->largest = apart;
            row->seed = seed;
            row->result = result->name;
        }
    }
    return is_any_beyond;
}

static void judge(const struct trial trials[RUNS], double bound, uint64_t seed,
                  struct row *row)
{
    row->shapes++;
    row->beyond += is_beyond(&trials[TRUTH], &trials[DEVICE], bound, seed, row);
    row->unlike_plain +=
        trials_distance(&trials[PLAIN], &trials[DEVICE]).apart != 0;
    row->unlike_itself +=
        trials_distance(&trials[DEVICE], &trials[AGAIN]).apart != 0;
}

/* Each tenth has products of more than one tile, each hundredth of several. */
static size_t largest_of(uint64_t shape)
{
    if (shape % 100 == 99)
        return 200;
    return shape % 10 == 9 ? PEN__TILE + 6 : 24;
}

static void try_shape(struct pen_engine *const engines[RUNS],
                      const struct trial_op *op, uint64_t seed, struct row *row)
{
    struct trial trials[RUNS];
    enum pen_precision dtype = engines[DEVICE]->dtype;
    for (int i = 0; i < RUNS; i++) {
        trial_init(&trials[i], engines[i], seed, largest_of(row->shapes));
        trials[i].is_bf16_exact = dtype == PEN_PRECISION_BF16;
        op->run(&trials[i]);
    }
    judge(trials, bound_of(dtype), seed, row);
    for (int i = 0; i < RUNS; i++)
        trial_release(&trials[i]);
}

static void print_head(enum pen_precision dtype)
{
    printf("%-4s  %-23s  %6s  %10s  %6s  %12s  %13s  %s\n",
           pen_precision_text(dtype), "operation", "shapes", "difference",
           "beyond", "unlike plain", "unlike itself", "where");
}

static void print_row(const struct row *row)
{
    printf("      %-23s  %6" PRIu64 "  %10.1e  %6" PRIu64 "  %12" PRIu64
           "  %13" PRIu64 "  %s, seed %" PRIu64 "\n",
           row->name, row->shapes, row->largest, row->beyond, row->unlike_plain,
           row->unlike_itself, row->result, row->seed);
    fflush(stdout);
}

static bool is_good(const struct row *row)
{
    return row->beyond + row->unlike_plain + row->unlike_itself == 0;
}

static bool try_all(struct pen_engine *const engines[RUNS])
{
    uint64_t seeds[MOST_SEEDS];
    size_t count = seeds_of(opencl.name, seeds);
    bool is_all_good = true;
    print_head(engines[DEVICE]->dtype);
    for (size_t i = 0; text_trial_op(i) != NULL; i++) {
        struct row row = {.name = text_trial_op(i)->name,
                          .result = "all equal"};
        for (size_t s = 0; s < count; s++)
            for (uint64_t k = 0; k < num_shapes; k++)
                try_shape(engines, text_trial_op(i), seeds[s] * 1000 + k, &row);
        print_row(&row);
        is_all_good = is_all_good && is_good(&row);
    }
    return is_all_good;
}

static bool try_dtype(enum pen_precision dtype)
{
    struct pen_engine *device = device_engine(&opencl, dtype);
    if (device == NULL) {
        fail_msg("there is no device");
        return false;
    }
    struct pen_engine *engines[RUNS] = {
        [TRUTH] = reference_engine(
            dtype == PEN_PRECISION_BF16 ? PEN_PRECISION_F64 : dtype),
        [PLAIN] = plain_engine(dtype),
        [DEVICE] = device,
        [AGAIN] = device};
    bool is_all_good = try_all(engines);
    pen_engine_free(engines[TRUTH]);
    pen_engine_free(engines[PLAIN]);
    pen_engine_free(device);
    return is_all_good;
}

static void operations_agree_over_random_shapes(void **state)
{
    (void)state;
    struct pen_text device = PEN_TEXT_EMPTY;
    pen_engine_opencl_describe(NULL, &device);
    printf("%s\n", pen_text_string(&device));
    pen_text_release(&device);
    bool is_float_good = try_dtype(PEN_PRECISION_F32);
    bool is_bf16_good = try_dtype(PEN_PRECISION_BF16);
    assert_true(is_float_good && is_bf16_good);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        num_shapes = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_agree_over_random_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
