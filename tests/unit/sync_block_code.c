/* Floats as small integers: how far off, what is exact, and how many bytes. */
#include "support/support.h"

#include "base/random.h"
#include "sync/block_code.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { COUNT = 1000 };

static const struct pen_block_code codes[] = {{8, 64}, {4, 64},  {8, 8},
                                              {4, 8},  {8, 256}, {4, 1024}};
enum { CODES = sizeof codes / sizeof *codes };

static uint8_t coded[COUNT * 4];

static void random_values(uint64_t seed, float size, size_t count, float *out)
{
    struct pen_random random = {seed};
    for (size_t i = 0; i < count; i++)
        out[i] = size * (float)(2 * pen_random_unit(&random) - 1);
}

static void there_and_back(const struct pen_block_code *code,
                           const float *values, size_t count, float *out)
{
    size_t bytes = pen_block_code_bytes(code, count);
    memset(coded, 0x5a, sizeof coded);
    pen_block_encode(code, values, count, coded);
    assert_int_equal(0x5a, coded[bytes]);
    pen_block_decode(code, coded, count, out);
}

static float largest_of(const float *values, size_t count)
{
    float largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(values[i]));
    return largest;
}

/* Half a scale, and what the scale and the quotient were rounded by. */
static void expect_near(const struct pen_block_code *code, const float *values,
                        const float *found, size_t count)
{
    double levels = code->bits == 8 ? 127 : 7;
    for (size_t first = 0; first < count; first += code->block) {
        size_t left = count - first;
        size_t length = left < code->block ? left : code->block;
        double scale = largest_of(values + first, length) / levels;
        double most = fmax(scale, (double)FLT_MIN) / 2 * (1 + 0x1p-14);
        for (size_t i = first; i < first + length; i++) {
            double off = fabs((double)found[i] - (double)values[i]);
            if (!(off <= most))
                fail_msg("%u bits: %g was read as %g, %g off, not %g",
                         code->bits, (double)values[i], (double)found[i], off,
                         most);
        }
    }
}

static void values_are_off_by_half_a_scale(void **state)
{
    (void)state;
    static const float sizes[] = {1,      3e-3f,   1e4f,   1e-30f, 1e30f,
                                  2e-36f, FLT_MAX, 5e-38f, 1e-40f, FLT_MIN};
    float values[COUNT], found[COUNT];
    for (size_t k = 0; k < CODES; k++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            for (size_t count = 1; count <= COUNT; count += 37) {
                random_values(count, sizes[s], count, values);
                there_and_back(&codes[k], values, count, found);
                expect_near(&codes[k], values, found, count);
            }
        }
    }
    values[0] = FLT_MAX;
    values[1] = -FLT_MAX;
    there_and_back(&codes[0], values, 2, found);
    assert_true(isfinite(found[0]) && found[0] == -found[1]);
}

static void values_that_were_coded_are_exact(void **state)
{
    (void)state;
    float values[COUNT], once[COUNT], twice[COUNT];
    for (size_t k = 0; k < CODES; k++) {
        for (uint64_t seed = 1; seed <= 300; seed++) {
            float size = ldexpf(1, (int)seed - 155);
            random_values(seed, size, COUNT, values);
            there_and_back(&codes[k], values, COUNT, once);
            there_and_back(&codes[k], once, COUNT, twice);
            assert_memory_equal(once, twice, sizeof once);
        }
    }
}

static void small_integers_are_exact(void **state)
{
    (void)state;
    float values[256], found[256];
    for (size_t k = 0; k < CODES; k++) {
        int most = codes[k].bits == 8 ? 127 : 7;
        for (int i = 0; i < 256; i++)
            values[i] = (float)(i % (2 * most + 1) - most);
        for (int i = 0; i < 256; i += 8)
            values[i] = (float)-most;
        there_and_back(&codes[k], values, 256, found);
        for (int i = 0; i < 256; i++)
            assert_true(values[i] == found[i]);
    }
}

static void zeros_stay_zero(void **state)
{
    (void)state;
    float values[COUNT] = {0}, found[COUNT];
    values[3] = -0.0f;
    for (size_t k = 0; k < CODES; k++) {
        there_and_back(&codes[k], values, COUNT, found);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(found[i] == 0 && !signbit(found[i]));
    }
}

static void what_is_not_finite_spoils_its_block_only(void **state)
{
    (void)state;
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    float values[192], found[192];
    for (size_t k = 0; k < 2; k++) {
        for (size_t b = 0; b < 3; b++) {
            random_values(b, 1, 192, values);
            values[64 + 17] = bad[b];
            there_and_back(&codes[k], values, 192, found);
            for (size_t i = 64; i < 128; i++)
                assert_true(isnan(found[i]));
            expect_near(&codes[k], values, found, 64);
            expect_near(&codes[k], values + 128, found + 128, 64);
        }
    }
}

static void bytes_are_codes_and_a_float_per_block(void **state)
{
    (void)state;
    assert_int_equal(0, pen_block_code_bytes(&codes[0], 0));
    assert_int_equal(4 + 1, pen_block_code_bytes(&codes[0], 1));
    assert_int_equal(4 + 64, pen_block_code_bytes(&codes[0], 64));
    assert_int_equal(8 + 65, pen_block_code_bytes(&codes[0], 65));
    assert_int_equal(4 + 32, pen_block_code_bytes(&codes[1], 64));
    assert_int_equal(8 + 33, pen_block_code_bytes(&codes[1], 65));
}

static void parts_are_coded_as_the_whole(void **state)
{
    (void)state;
    float values[COUNT];
    uint8_t whole[COUNT * 4];
    random_values(9, 2, COUNT, values);
    for (size_t k = 0; k < 4; k++) {
        const struct pen_block_code *code = &codes[k];
        size_t bytes = pen_block_code_bytes(code, COUNT);
        pen_block_encode(code, values, COUNT, whole);
        memset(coded, 0, sizeof coded);
        for (size_t first = 0; first < COUNT; first += 64) {
            size_t length = COUNT - first < 64 ? COUNT - first : 64;
            pen_block_encode(code, values + first, length,
                             coded + pen_block_code_bytes(code, first));
        }
        assert_memory_equal(whole, coded, bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_off_by_half_a_scale),
        cmocka_unit_test(values_that_were_coded_are_exact),
        cmocka_unit_test(small_integers_are_exact),
        cmocka_unit_test(zeros_stay_zero),
        cmocka_unit_test(what_is_not_finite_spoils_its_block_only),
        cmocka_unit_test(bytes_are_codes_and_a_float_per_block),
        cmocka_unit_test(parts_are_coded_as_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
