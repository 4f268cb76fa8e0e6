#include "sync/blocks.h"

#include "base/clones.h"

#include <float.h>
#include <string.h>

/*
 * A float of this size has its ones where its last bit is: adding it rounds to
 * the nearest whole number, ties to even, and leaves that in the last bits.
 */
#define ROUNDER 0x1.8p23f
static const int32_t rounder_bits = 0x4b400000;

static int32_t bits_of(float value)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* error += given. The largest |error|: as integers floats have their order. */
static float fold(const float *restrict given, float *restrict error,
                  size_t count)
{
    int32_t largest = 0;
    float value;
    for (size_t i = 0; i < count; i++) {
        float sum = error[i] + given[i];
        int32_t bits = bits_of(sum) & INT32_MAX;
        error[i] = sum;
        largest = bits > largest ? bits : largest;
    }
    memcpy(&value, &largest, sizeof value);
    return value;
}

static void round_all(float *restrict error, size_t count, float scale,
                      float inverse, int8_t *restrict numbers)
{
    for (size_t i = 0; i < count; i++) {
        float rounded = error[i] * inverse + ROUNDER;
        error[i] -= (rounded - ROUNDER) * scale;
        numbers[i] = (int8_t)(bits_of(rounded) - rounder_bits);
    }
}

PEN_CLONES float pen_blocks_encode(float levels, const float *given,
                                   float *error, size_t count, int8_t *numbers)
{
    float scale = fold(given, error, count) / levels;
    if (scale < FLT_MIN) {
        memset(numbers, 0, count);
        return 0;
    }
    round_all(error, count, scale, 1 / scale, numbers);
    return scale;
}

PEN_CLONES void pen_blocks_decode(const int8_t *restrict numbers, size_t count,
                                  float scale, bool is_added,
                                  float *restrict values)
{
    if (is_added)
        for (size_t i = 0; i < count; i++)
            values[i] += scale * (float)numbers[i];
    else
        for (size_t i = 0; i < count; i++)
            values[i] = scale * (float)numbers[i];
}
