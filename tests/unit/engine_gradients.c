/*
 * Every backward of the reference engine in double is the derivative of its
 * forward: central differences agree to 1e-6 of the norm of the gradient. In
 * float it agrees with itself in double.
 */
#include "support/engine.h"

#include <math.h>
#include <stdlib.h>

enum { SHAPES = 20, LARGEST = 5 };

/* The step whose errors of order h^2 and epsilon / h are both near 1e-10. */
static const double step = 1e-5;

static double loss_at(const struct trial_op *op, struct pen_engine *engine,
                      uint64_t seed, int input, size_t element, double by)
{
    struct trial trial;
    trial_init(&trial, engine, seed, LARGEST);
    trial.moved_input = input;
    trial.moved_element = element;
    trial.moved_by = by;
    op->run(&trial);
    double loss = trial.loss;
    trial_release(&trial);
    return loss;
}

static void expect_gradient(const struct trial_op *op,
                            struct pen_engine *engine, uint64_t seed,
                            const struct trial_result *result)
{
    double *quotient = malloc(result->count * sizeof *quotient);
    assert_non_null(quotient);
    for (size_t i = 0; i < result->count; i++)
        quotient[i] = (loss_at(op, engine, seed, result->input, i, step) -
                       loss_at(op, engine, seed, result->input, i, -step)) /
                      (2 * step);
    double apart = relative_distance(result->count, quotient, result->numbers);
    if (!(apart <= 1e-6))
        fail_msg("%s, seed %d: %s is %g from the difference quotient "
                 "(first element: expected %.12g, found %.12g)",
                 op->name, (int)seed, result->name, apart, quotient[0],
                 result->numbers[0]);
    free(quotient);
}

static void backward_is_the_derivative_of_forward(void **state)
{
    (void)state;
    struct pen_engine *engine = reference_engine(PEN_PRECISION_F64);
    size_t gradients = 0;
    for (size_t op = 0; op < num_trial_ops; op++)
        for (uint64_t seed = 0; seed < SHAPES; seed++) {
            struct trial trial;
            trial_init(&trial, engine, seed, LARGEST);
            trial_ops[op].run(&trial);
            for (int i = 0; i < trial.num_results; i++)
                if (trial.results[i].input >= 0) {
                    expect_gradient(&trial_ops[op], engine, seed,
                                    &trial.results[i]);
                    gradients++;
                }
            trial_release(&trial);
        }
    assert_true(gradients > 200);
    pen_engine_free(engine);
}

/*
 * A sum of n products of random signs is off by about sqrt(n) roundings of
 * 2^-24; n is at most 40 x 40 here (a gradient norm), later steps add a few.
 */
static void float_agrees_with_double(void **state)
{
    (void)state;
    struct pen_engine *wide = reference_engine(PEN_PRECISION_F64);
    struct pen_engine *narrow = reference_engine(PEN_PRECISION_F32);
    for (size_t op = 0; op < num_trial_ops; op++)
        for (uint64_t seed = 100; seed < 130; seed++) {
            struct trial truth, trial;
            trial_init(&truth, wide, seed, 40);
            trial_init(&trial, narrow, seed, 40);
            trial_ops[op].run(&truth);
            trial_ops[op].run(&trial);
            for (int i = 0; i < truth.num_results; i++) {
                double apart = relative_distance(truth.results[i].count,
                                                 truth.results[i].numbers,
                                                 trial.results[i].numbers);
                if (!(apart <= 40 * 0x1p-24))
                    fail_msg("%s, seed %d: %s is %g from double",
                             trial_ops[op].name, (int)seed,
                             truth.results[i].name, apart);
            }
            trial_release(&truth);
            trial_release(&trial);
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
