/*
 * Exact sums of floats. A finite float is m * 2^(e - 149) with m below 2^24 and
 * e from 0 to 253, so it is m shifted by e in a long number whose lowest bit is
 * 2^-149. That number has digits of 32 bits in words of 64, which take 2^31
 * additions before they must be settled.
 */
#include "core/tally.h"

#include "base/random.h"

#include <math.h>
#include <string.h>

#define LOW UINT32_MAX
enum { DIGIT_BITS = 32, UNIT = -149, SETTLE_EVERY = 1 << 20 };

/* Carries move up; all digits but the highest are then 0 to 2^32 - 1. */
static void settle(int64_t *digits, size_t count)
{
    for (size_t i = 0; i + 1 < count; i++) {
        int64_t rest = (int64_t)((uint64_t)digits[i] & LOW);
        digits[i + 1] += (digits[i] - rest) / ((int64_t)1 << DIGIT_BITS);
        digits[i] = rest;
    }
}

static void settle_all(struct pen_tally *tally)
{
    settle(tally->sum, PEN_TALLY_DIGITS);
    for (int j = 0; j < PEN_TALLY_SKETCHES; j++)
        settle(tally->sketch[j], PEN_TALLY_DIGITS);
    settle(tally->squares, PEN_TALLY_SQUARE_DIGITS);
}

static void add_shifted(int64_t *digits, uint64_t number, unsigned shift)
{
    int64_t *at = digits + shift / DIGIT_BITS;
    uint64_t low = (number & LOW) << shift % DIGIT_BITS;
    uint64_t high = (number >> DIGIT_BITS) << shift % DIGIT_BITS;
    at[0] += (int64_t)(low & LOW);
    at[1] += (int64_t)(low >> DIGIT_BITS) + (int64_t)(high & LOW);
    at[2] += (int64_t)(high >> DIGIT_BITS);
}

static void add_finite(struct pen_tally *tally, uint32_t bits, uint64_t place)
{
    uint32_t exponent = bits >> 23 & 0xff;
    uint64_t m = (bits & 0x7fffff) | (exponent > 0 ? 0x800000u : 0);
    unsigned shift = exponent > 0 ? exponent - 1 : 0;
    uint64_t shifted = m << shift % DIGIT_BITS;
    int64_t sign = (bits >> 31) != 0 ? -1 : 1;
    int64_t low = sign * (int64_t)(shifted & LOW);
    int64_t high = sign * (int64_t)(shifted >> DIGIT_BITS);
    unsigned at = shift / DIGIT_BITS;
    tally->sum[at] += low;
    tally->sum[at + 1] += high;
    for (int j = 0; j < PEN_TALLY_SKETCHES; j++) {
        int64_t turn = 1 - 2 * (int64_t)(place >> j & 1);
        tally->sketch[j][at] += turn * low;
        tally->sketch[j][at + 1] += turn * high;
    }
    add_shifted(tally->squares, m * m, 2 * shift);
}

static void add_number(struct pen_tally *tally, uint64_t index, float number)
{
    struct pen_random of_place = {index};
    uint64_t place = pen_random_next(&of_place);
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    struct pen_random of_number = {place ^ bits};
    tally->hash += pen_random_next(&of_number);
    if (!isfinite(number)) {
        tally->nonfinite++;
        return;
    }
    tally->max = fmaxf(tally->max, fabsf(number));
    add_finite(tally, bits, place);
}

static void add_run(struct pen_tally *tally,
                    const struct pen_tensor_stretch *at, const float *numbers)
{
    for (uint64_t i = 0; i < at->count; i++) {
        add_number(tally, at->first + i, numbers[i]);
        if (i % SETTLE_EVERY == SETTLE_EVERY - 1)
            settle_all(tally);
    }
    tally->count += at->count;
    settle_all(tally);
}

void pen_tally_add(struct pen_tally *tally,
                   const struct pen_tensor_piece *whole,
                   const struct pen_tensor_piece *piece, const float *numbers)
{
    uint64_t count = pen_tensor_piece_num_stretches(piece, whole);
    for (uint64_t i = 0; i < count; i++) {
        struct pen_tensor_stretch at =
            pen_tensor_piece_stretch(piece, whole, i);
        add_run(tally, &at, numbers);
        numbers += at.count;
    }
}

static void join(int64_t *to, const int64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

void pen_tally_join(struct pen_tally *tally, const struct pen_tally *other)
{
    tally->count += other->count;
    tally->nonfinite += other->nonfinite;
    tally->hash += other->hash;
    tally->max = fmaxf(tally->max, other->max);
    join(tally->sum, other->sum, PEN_TALLY_DIGITS);
    for (int j = 0; j < PEN_TALLY_SKETCHES; j++)
        join(tally->sketch[j], other->sketch[j], PEN_TALLY_DIGITS);
    join(tally->squares, other->squares, PEN_TALLY_SQUARE_DIGITS);
    settle_all(tally);
}

/*
 * Returns the value of settled digits. A negative number is the negative of its
 * complement.
 */
static double value_of(const int64_t *digits, size_t count, int unit)
{
    int64_t turned[PEN_TALLY_SQUARE_DIGITS];
    bool is_negative = digits[count - 1] < 0;
    for (size_t i = 0; i < count; i++)
        turned[i] = is_negative ? -digits[i] : digits[i];
    settle(turned, count);
    double value = 0;
    for (size_t i = count; i-- > 0;)
        value += ldexp((double)turned[i], unit + (int)i * DIGIT_BITS);
    return is_negative ? -value : value;
}

void pen_tally_read(const struct pen_tally *tally, struct pen_tally_result *out)
{
    *out = (struct pen_tally_result){
        .count = tally->count,
        .nonfinite = tally->nonfinite,
        .hash = tally->hash,
        .max = (double)tally->max,
        .sum = value_of(tally->sum, PEN_TALLY_DIGITS, UNIT)};
    out->norm =
        sqrt(value_of(tally->squares, PEN_TALLY_SQUARE_DIGITS, 2 * UNIT));
    for (int j = 0; j < PEN_TALLY_SKETCHES; j++)
        out->sketch[j] = value_of(tally->sketch[j], PEN_TALLY_DIGITS, UNIT);
}
