/* Intervals by resampling, against what is known of them. */
#include "support/support.h"

#include "base/bootstrap.h"
#include "base/random.h"

#include <math.h>

static double mean(void *context, const uint32_t *picks, uint32_t count)
{
    const double *values = context;
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += values[picks[i]];
    return sum / count;
}

static void equal_values_have_no_width(void **state)
{
    (void)state;
    double values[5] = {3, 3, 3, 3, 3};
    struct pen_interval found;
    assert_int_equal(pen_bootstrap(mean, values, 5, 1, &found), PEN_OK);
    assert_true(found.low == 3 && found.middle == 3 && found.high == 3);
}

/* Of two values the mean of a sample is one of them with probability 1/4. */
static void two_values_are_the_ends(void **state)
{
    (void)state;
    double values[2] = {1, 5};
    struct pen_interval found;
    assert_int_equal(pen_bootstrap(mean, values, 2, 1, &found), PEN_OK);
    assert_true(found.low == 1 && found.middle == 3 && found.high == 5);
}

/* For many values the interval of a mean is 1.96 deviations of the mean. */
static void many_normal_values_follow_the_law(void **state)
{
    (void)state;
    enum { COUNT = 400 };
    double values[COUNT];
    struct pen_random random = {7};
    double sum = 0, squares = 0;
    for (int i = 0; i < COUNT; i += 2) {
        pen_random_normals(&random, values + i);
        sum += values[i] + values[i + 1];
    }
    for (int i = 0; i < COUNT; i++)
        squares += (values[i] - sum / COUNT) * (values[i] - sum / COUNT);
    double width = 1.96 * sqrt(squares / COUNT / COUNT);
    struct pen_interval found;
    assert_int_equal(pen_bootstrap(mean, values, COUNT, 2, &found), PEN_OK);
    assert_true(fabs(found.middle - sum / COUNT) < 1e-12);
    assert_true(fabs(found.high - found.middle - width) < 0.1 * width);
    assert_true(fabs(found.middle - found.low - width) < 0.1 * width);
}

static void a_seed_repeats_its_samples(void **state)
{
    (void)state;
    double values[5] = {1, 2, 4, 8, 16};
    struct pen_interval first, again, other;
    assert_int_equal(pen_bootstrap(mean, values, 5, 3, &first), PEN_OK);
    assert_int_equal(pen_bootstrap(mean, values, 5, 3, &again), PEN_OK);
    assert_int_equal(pen_bootstrap(mean, values, 5, 4, &other), PEN_OK);
    assert_memory_equal(&first, &again, sizeof first);
    assert_true(first.low <= first.middle && first.middle <= first.high);
    assert_true(other.middle == first.middle);
}

/* A training that never gets there takes for ever. */
static void infinite_figures_sort_last(void **state)
{
    (void)state;
    double values[5] = {1, 2, 3, 4, (double)INFINITY};
    struct pen_interval found;
    assert_int_equal(pen_bootstrap(mean, values, 5, 5, &found), PEN_OK);
    assert_true(isfinite(found.low) && isinf(found.high));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_values_have_no_width),
        cmocka_unit_test(two_values_are_the_ends),
        cmocka_unit_test(many_normal_values_follow_the_law),
        cmocka_unit_test(a_seed_repeats_its_samples),
        cmocka_unit_test(infinite_figures_sort_last)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
