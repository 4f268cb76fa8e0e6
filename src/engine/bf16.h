#ifndef PEN_ENGINE_BF16_H
#define PEN_ENGINE_BF16_H

#include <stdint.h>
#include <string.h>

/*
 * bfloat16: the upper half of a float, rounded to nearest even. The NaN that
 * arithmetic makes stays a NaN; those with a full mantissa, which only come
 * from outside, do not, and a test for them would burden every store.
 */
static inline uint16_t pen_bf16_from_float(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    bits += 0x7fffu + ((bits >> 16) & 1u);
    return (uint16_t)(bits >> 16);
}

static inline float pen_bf16_to_float(uint16_t number)
{
    uint32_t bits = (uint32_t)number << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

#endif
