/* Functions of real numbers: near the C library's, and the same bits always. */
#include "support/support.h"

#include "base/random.h"
#include "base/real.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define TRIES 200000
#define MOST_UNITS 4.0

static void assert_near(double found, double expected)
{
    double unit = fabs(expected) * DBL_EPSILON;
    if (fabs(found - expected) > MOST_UNITS * unit)
        fail_msg("%.17g instead of %.17g", found, expected);
}

static void near_the_library(void **state)
{
    (void)state;
    struct pen_random random = {1};
    for (int i = 0; i < TRIES; i++) {
        double x = 60 * pen_random_unit(&random) - 30;
        double y = exp(x);
        assert_near(pen_real_exp(x), y);
        assert_near(pen_real_log(y), log(y));
        assert_near(pen_real_log2(1 + y), log2(1 + y));
        double power = 12 * pen_random_unit(&random);
        double base = pen_random_unit(&random);
        assert_true(fabs(pen_real_power(base, power) / pow(base, power) - 1) <
                    1e-13);
    }
}

static void ends(void **state)
{
    (void)state;
    assert_true(pen_real_exp(0) == 1 && pen_real_exp(-1e9) == 0);
    assert_true(isinf(pen_real_exp(1e9)) && isnan(pen_real_exp(NAN)));
    assert_true(pen_real_log(1) == 0 && pen_real_log(0) == -INFINITY);
    assert_true(pen_real_log2(0) == -INFINITY);
    assert_true(pen_real_power(0, 8) == 0 && pen_real_power(1, 8) == 1);
    for (int i = -60; i <= 60; i++)
        assert_true(pen_real_log2(ldexp(1, i)) == i);
}

static void powers_of_ten(void **state)
{
    (void)state;
    assert_true(pen_real_decimal(1) == 1 && pen_real_decimal(9.99) == 1);
    assert_true(pen_real_decimal(10) == 10 && pen_real_decimal(4e18) == 1e18);
    assert_true(pen_real_decimal(0.5) == 0.1);
}

/*
 * All bits of many values as one number, which was the same with gcc and clang,
 * with glibc's fused products and in a browser.
 */
static void bits_never_change(void **state)
{
    (void)state;
    struct pen_random random = {2};
    uint64_t mixed = 0;
    for (int i = 0; i < TRIES; i++) {
        double x = 20 * pen_random_unit(&random) - 10;
        double values[3] = {pen_real_exp(x), pen_real_log(x + 10.5),
                            pen_real_log2(x + 10.5)};
        for (int k = 0; k < 3; k++) {
            uint64_t bits;
            memcpy(&bits, &values[k], sizeof bits);
            mixed = mixed * 0x9e3779b97f4a7c15u + bits;
        }
    }
    assert_true(mixed == 0x67cc6dcbb325e91cu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_the_library),
        cmocka_unit_test(ends),
        cmocka_unit_test(powers_of_ten),
        cmocka_unit_test(bits_never_change),
    };
    return cmocka_run_group_tests_name("real", tests, NULL, NULL);
}
