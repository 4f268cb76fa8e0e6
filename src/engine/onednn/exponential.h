#ifndef PEN_ENGINE_ONEDNN_EXPONENTIAL_H
#define PEN_ENGINE_ONEDNN_EXPONENTIAL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * exp() without a table or a branch, so that loops over it become vector code.
 * x = n ln 2 + r with |r| <= ln 2 / 2; the polynomial is the one of Cephes
 * (Moshier), within 2 units in the last place. Saturates instead of
 * overflowing.
 *
 * Below -60 the result is zero, which makes no difference when it is added to
 * 1. A compiler may compute the rest of a loop for that case as well as for the
 * general one, in every lane; a number close to the smallest would make
 * denormals there, which take the processor a hundred times as long.
 */
static inline float pen__exp(float x)
{
    const float to_integer = 12582912.0f; /* 1.5 * 2^23: rounds when added */
    bool is_zero = x < -60.0f;
    x = x > 88.0f ? 88.0f : x;
    x = is_zero ? -60.0f : x;
    float n = (x * 1.44269504088896341f + to_integer) - to_integer;
    float r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    uint32_t bits = (uint32_t)((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return is_zero ? 0.0f : p * power;
}

/* Below -40 as at -40: 4e-18, for the same reason. */
static inline float pen__sigmoid(float x)
{
    x = x < -40.0f ? -40.0f : x;
    return 1.0f / (1.0f + pen__exp(-x));
}

#endif
