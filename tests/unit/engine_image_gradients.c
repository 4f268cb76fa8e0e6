/*
 * Every backward on images of the reference engine in double is the derivative
 * of its forward: central differences agree to 1e-6 of the norm of the
 * gradient. In float it agrees with itself in double.
 */
#include "support/engine.h"

enum { SHAPES = 20, LARGEST = 4 };

static void backward_is_the_derivative_of_forward(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F64);
    size_t gradients = 0;
    for (size_t op = 0; op < num_image_trial_ops; op++)
        for (uint64_t seed = 0; seed < SHAPES; seed++)
            gradients +=
                expect_derivatives(&image_trial_ops[op], engine, seed, LARGEST);
    assert_true(gradients > 150);
    pen_engine_free(engine);
}

/* Sums of at most 3 x 8 x 8 products; the bound is that of the other ops. */
static void float_agrees_with_double(void **state)
{
    (void)state;
    struct pen_engine *wide = reference_engine(PEN_PRECISION_F64);
    struct pen_engine *narrow = reference_engine(PEN_PRECISION_F32);
    for (size_t op = 0; op < num_image_trial_ops; op++)
        for (uint64_t seed = 100; seed < 130; seed++) {
            const struct comparison comparison = {seed, 8, 40 * 0x1p-24};
            expect_near(&image_trial_ops[op], wide, narrow, &comparison);
        }
    pen_engine_free(wide);
    pen_engine_free(narrow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backward_is_the_derivative_of_forward),
        cmocka_unit_test(float_agrees_with_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
