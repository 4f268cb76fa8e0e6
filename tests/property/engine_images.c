/*
 * The oneDNN engine agrees with the reference in every operation on images,
 * over 540 random shapes in float and as many in bf16, odd ones included; all
 * but the convolution give the same bits on one thread and on two.
 */
#include "support/engine.h"

enum { SHAPES = 90 };

/* Few large ones: the reference takes its time. */
static size_t largest_of(uint64_t seed)
{
    return seed % 8 == 7 ? 20 : 11;
}

static void expect_all_near(enum pen_precision truth_dtype,
                            enum pen_precision dtype, double tolerance)
{
    struct pen_engine *engine = onednn_engine(dtype, 2);
    if (engine == NULL)
        skip();
    struct pen_engine *truth = reference_engine(truth_dtype);
    for (size_t op = 0; op < num_image_trial_ops; op++)
        for (uint64_t seed = 0; seed < SHAPES; seed++) {
            const struct comparison comparison = {seed, largest_of(seed),
                                                  tolerance};
            expect_near(&image_trial_ops[op], truth, engine, &comparison);
        }
    pen_engine_free(truth);
    pen_engine_free(engine);
}

/* Sums of at most 20 x 7 x 7 products, or of 3 x 20 x 20, in another order. */
static void float_agrees_with_the_reference(void **state)
{
    (void)state;
    expect_all_near(PEN_PRECISION_F32, PEN_PRECISION_F32, 100 * 0x1p-24);
}

/*
 * Inputs are numbers of bf16, sums are in float: what remains is the rounding
 * of what is stored, 2^-9 each; where windows of a maximum overlap there are
 * several.
 */
static void bf16_is_within_its_rounding(void **state)
{
    (void)state;
    expect_all_near(PEN_PRECISION_F64, PEN_PRECISION_BF16, 6 * 0x1p-9);
}

static void row_operations_do_not_depend_on_threads(void **state)
{
    (void)state;
    struct pen_engine *one = onednn_engine(PEN_PRECISION_F32, 1);
    if (one == NULL)
        skip();
    struct pen_engine *two = onednn_engine(PEN_PRECISION_F32, 2);
    for (size_t op = 1; op < num_image_trial_ops; op++)
        for (uint64_t seed = 500; seed < 520; seed++) {
            const struct comparison comparison = {seed, 20, 0};
            expect_near(&image_trial_ops[op], one, two, &comparison);
        }
    pen_engine_free(one);
    pen_engine_free(two);
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
