/*
 * The oneDNN engine agrees with the reference in every operation, over 630
 * random shapes in float and as many in bf16, odd ones included, and its row
 * operations give the same bits on one thread and on two.
 */
#include "support/engine.h"

#include <string.h>

enum { SHAPES = 45, LARGEST = 70 };

static void expect_all_near(enum pen_precision truth_dtype,
                            enum pen_precision dtype, double tolerance)
{
    struct pen_engine *engine = onednn_engine(dtype, 2);
    if (engine == NULL)
        skip();
    struct pen_engine *truth = reference_engine(truth_dtype);
    for (size_t op = 0; op < num_trial_ops; op++)
        for (uint64_t seed = 0; seed < SHAPES; seed++) {
            const struct comparison comparison = {
                seed, seed % 8 == 7 ? 200 : LARGEST, tolerance};
            expect_near(&trial_ops[op], truth, engine, &comparison);
        }
    pen_engine_free(truth);
    pen_engine_free(engine);
}

/*
 * Both are sums of at most 200 products (200 x 200 in a norm) in another
 * order, each off by about sqrt(200) roundings of 2^-24 of its terms, and
 * results of random signs are smaller than their terms by as much again.
 */
static void float_agrees_with_the_reference(void **state)
{
    (void)state;
    expect_all_near(PEN_PRECISION_F32, PEN_PRECISION_F32, 100 * 0x1p-24);
}

/*
 * Inputs are numbers of bf16, sums are in float: what remains is the rounding
 * of what is stored, 2^-9 each. Behind a backward lie at most four of them
 * (probabilities, their slopes, the output they are compared with, the
 * result), where cancellation may double one.
 */
static void bf16_is_within_its_rounding(void **state)
{
    (void)state;
    expect_all_near(PEN_PRECISION_F64, PEN_PRECISION_BF16, 6 * 0x1p-9);
}

/* All but the products, which are the library's. */
static void expect_same_on_two_threads(enum pen_precision dtype)
{
    struct pen_engine *one = onednn_engine(dtype, 1);
    if (one == NULL)
        skip();
    struct pen_engine *two = onednn_engine(dtype, 2);
    for (size_t op = 0; op < num_trial_ops; op++) {
        if (strcmp(trial_ops[op].name, "linear") == 0 ||
            strcmp(trial_ops[op].name, "adamw") == 0 ||
            strcmp(trial_ops[op].name, "sgd") == 0)
            continue;
        for (uint64_t seed = 500; seed < 520; seed++) {
            const struct comparison comparison = {seed, LARGEST, 0};
            expect_near(&trial_ops[op], one, two, &comparison);
        }
    }
    pen_engine_free(one);
    pen_engine_free(two);
}

static void row_operations_do_not_depend_on_threads(void **state)
{
    (void)state;
    expect_same_on_two_threads(PEN_PRECISION_F32);
    expect_same_on_two_threads(PEN_PRECISION_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float_agrees_with_the_reference),
        cmocka_unit_test(bf16_is_within_its_rounding),
        cmocka_unit_test(row_operations_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
