/*
 * Half types convert exactly and round to nearest, ties to even: over all
 * 65536 patterns and over random floats, against arithmetic in double.
 */
#include "support/support.h"

#include "core/dtype.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct half {
    const char *name;
    int exponent_bits;
    int fraction_bits;
    uint16_t (*from)(float);
    float (*to)(uint16_t);
};

static const struct half halves[] = {
    {"bf16", 8, 7, pen_bf16_from_float, pen_bf16_to_float},
    {"f16", 5, 10, pen_f16_from_float, pen_f16_to_float}};

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What the pattern means by the definition of the format. */
static double meaning(const struct half *half, uint32_t pattern)
{
    int exponent_mask = (1 << half->exponent_bits) - 1;
    int bias = exponent_mask / 2;
    int exponent = (int)(pattern >> half->fraction_bits) & exponent_mask;
    int fraction = (int)pattern & ((1 << half->fraction_bits) - 1);
    double size;
    if (exponent == exponent_mask)
        size = fraction == 0 ? (double)INFINITY : (double)NAN;
    else if (exponent == 0)
        size = ldexp(fraction, 1 - bias - half->fraction_bits);
    else
        size = ldexp(fraction + (1 << half->fraction_bits),
                     exponent - bias - half->fraction_bits);
    return pattern & 0x8000 ? -size : size;
}

/* As the meaning, but infinity is where the next number would stand. */
static double place(const struct half *half, uint32_t size_pattern)
{
    int bias = ((1 << half->exponent_bits) - 1) / 2;
    double found = meaning(half, size_pattern);
    return isinf(found) ? ldexp(1, bias + 1) : found;
}

static uint32_t infinity_of(const struct half *half)
{
    return ((1u << half->exponent_bits) - 1) << half->fraction_bits;
}

/* The nearest pattern, found by bisection over the places. */
static uint16_t nearest(const struct half *half, float value)
{
    double size = fabs((double)value);
    uint32_t low = 0;
    uint32_t high = infinity_of(half);
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (place(half, middle) <= size)
            low = middle;
        else
            high = middle;
    }
    double below = size - place(half, low);
    double above = place(half, high) - size;
    bool is_upper = above < below || (above == below && (high & 1) == 0);
    return (uint16_t)((is_upper ? high : low) | (signbit(value) ? 0x8000 : 0));
}

static void expect_nearest(const struct half *half, float value)
{
    uint16_t found = half->from(value);
    uint16_t expected = nearest(half, value);
    if (found != expected)
        fail_msg("%s of %a: expected %04x, found %04x", half->name,
                 (double)value, expected, found);
}

static void every_pattern_means_what_the_format_says(void **state)
{
    (void)state;
    for (size_t h = 0; h < 2; h++) {
        for (uint32_t pattern = 0; pattern < 65536; pattern++) {
            double expected = meaning(&halves[h], pattern);
            double found = (double)halves[h].to((uint16_t)pattern);
            bool is_same =
                isnan(expected)
                    ? isnan(found) != 0
                    : expected == found && signbit(expected) == signbit(found);
            if (!is_same)
                fail_msg("%s %04x: expected %a, found %a", halves[h].name,
                         pattern, expected, found);
        }
    }
}

static void every_pattern_comes_back(void **state)
{
    (void)state;
    for (size_t h = 0; h < 2; h++) {
        uint32_t quiet = 1u << (halves[h].fraction_bits - 1);
        for (uint32_t pattern = 0; pattern < 65536; pattern++) {
            float value = halves[h].to((uint16_t)pattern);
            uint32_t expected = isnan(value) ? pattern | quiet : pattern;
            assert_int_equal(expected, halves[h].from(value));
        }
    }
}

/* Half way between two neighbours, and one float step to either side of it. */
static void ties_go_to_even_and_neighbours_to_the_nearest(void **state)
{
    (void)state;
    for (size_t h = 0; h < 2; h++) {
        for (uint32_t low = 0; low < infinity_of(&halves[h]); low++) {
            float middle =
                (float)((place(&halves[h], low) + place(&halves[h], low + 1)) /
                        2);
            expect_nearest(&halves[h], middle);
            expect_nearest(&halves[h], -middle);
            expect_nearest(&halves[h], nextafterf(middle, 0));
            expect_nearest(&halves[h], nextafterf(middle, INFINITY));
        }
    }
}

static void random_floats_go_to_the_nearest(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < 1000000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        float value = float_of((uint32_t)random);
        for (size_t h = 0; h < 2; h++) {
            if (isfinite(value))
                expect_nearest(&halves[h], value);
            else if (isnan(value))
                assert_true(isnan(halves[h].to(halves[h].from(value))));
        }
    }
}

static void a_nan_stays_one_with_its_sign(void **state)
{
    (void)state;
    const uint32_t nans[] = {0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff,
                             0x7fc00000, 0x7f80ffff, 0xff807fff};
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
        for (size_t h = 0; h < 2; h++) {
            float back = halves[h].to(halves[h].from(float_of(nans[i])));
            assert_true(isnan(back));
            assert_int_equal(nans[i] >> 31, bits_of(back) >> 31);
        }
    }
}

static void blocks_convert_as_single_numbers_do(void **state)
{
    (void)state;
    const float values[] = {0, -1.5f, 3.14159274f, 65504, 1e-7f, -1e30f};
    const size_t count = sizeof values / sizeof *values;
    const enum pen_dtype types[] = {PEN_DTYPE_BF16, PEN_DTYPE_F16,
                                    PEN_DTYPE_F32, PEN_DTYPE_F64};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        unsigned char bytes[1 + sizeof values * 2];
        float back[sizeof values / sizeof *values];
        pen_dtype_from_float(types[t], values, count, bytes + 1);
        pen_dtype_to_float(types[t], bytes + 1, count, back);
        for (size_t i = 0; i < count; i++) {
            float expected =
                t >= 2 ? values[i] : halves[t].to(halves[t].from(values[i]));
            assert_int_equal(bits_of(expected), bits_of(back[i]));
        }
    }
}

/* A double just above a tie must not be pulled down to the tie first. */
static void doubles_round_to_float_once(void **state)
{
    (void)state;
    double value = 1 + 0x1p-24 + 0x1p-50;
    float found;
    pen_dtype_to_float(PEN_DTYPE_F64, &value, 1, &found);
    assert_int_equal(bits_of(1 + 0x1p-23f), bits_of(found));
}

static void every_name_finds_its_type(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PEN_DTYPES; i++)
        assert_int_equal(i, pen_dtype_find(pen_dtype_name(i)));
    assert_int_equal(PEN_DTYPES, pen_dtype_find("F128"));
    assert_int_equal(PEN_DTYPES, pen_dtype_find(""));
    assert_int_equal(4, pen_dtype_bits(PEN_DTYPE_F4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_means_what_the_format_says),
        cmocka_unit_test(every_pattern_comes_back),
        cmocka_unit_test(ties_go_to_even_and_neighbours_to_the_nearest),
        cmocka_unit_test(random_floats_go_to_the_nearest),
        cmocka_unit_test(a_nan_stays_one_with_its_sign),
        cmocka_unit_test(blocks_convert_as_single_numbers_do),
        cmocka_unit_test(doubles_round_to_float_once),
        cmocka_unit_test(every_name_finds_its_type)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
