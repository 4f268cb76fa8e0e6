/*
 * Types of numbers and the rounding between them.
 *
 *          sign  exponent  fraction
 *   F32       1         8        23
 *   BF16      1         8         7     the upper half of F32
 *   F16       1         5        10     has its own bias, 15, and denormals
 */
#include "core/dtype.h"

#include "base/bug.h"

#include <float.h>
#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensors are mapped from little-endian files as they are");

static const struct {
    const char *name;
    uint32_t bits;
} dtypes[] = {
#define PEN_DTYPE_ROW(name, bits) {#name, bits},
    PEN_DTYPE_TABLE(PEN_DTYPE_ROW)
#undef PEN_DTYPE_ROW
};

const char *pen_dtype_name(enum pen_dtype dtype)
{
    PEN_BUG_UNLESS(dtype < PEN_DTYPES);
    return dtypes[dtype].name;
}

uint32_t pen_dtype_bits(enum pen_dtype dtype)
{
    PEN_BUG_UNLESS(dtype < PEN_DTYPES);
    return dtypes[dtype].bits;
}

enum pen_dtype pen_dtype_find(const char *name)
{
    unsigned found = 0;
    while (found < PEN_DTYPES && strcmp(dtypes[found].name, name) != 0)
        found++;
    return (enum pen_dtype)found;
}

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

/* Drops the lowest bits; the nearest wins, and the even one of two. */
static uint32_t shift_to_nearest(uint32_t value, uint32_t shift)
{
    uint32_t half = (1u << (shift - 1)) - 1;
    uint32_t odd = (value >> shift) & 1;
    return (value + half + odd) >> shift;
}

uint16_t pen_bf16_from_float(float value)
{
    uint32_t bits = bits_of(value);
    bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    /* Rounding could carry a NaN's payload away. */
    return (uint16_t)(is_nan ? bits >> 16 | 0x40 : shift_to_nearest(bits, 16));
}

float pen_bf16_to_float(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

uint16_t pen_f16_from_float(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t size = bits & 0x7fffffff;
    if (size > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x3ff));
    if (size >= 0x477ff000) /* 65520, half way to what would come next */
        return (uint16_t)(sign | 0x7c00);
    if (size >= 0x38800000) /* 2^-14, the least normal number */
        return (uint16_t)(sign | shift_to_nearest(size - 0x38000000, 13));
    if (size <= 0x33000000) /* 2^-25, half of the least denormal one */
        return (uint16_t)sign;
    uint32_t exponent = size >> 23;
    uint32_t fraction = (size & 0x7fffff) | 0x800000;
    return (uint16_t)(sign | shift_to_nearest(fraction, 126 - exponent));
}

float pen_f16_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t exponent = bits >> 10 & 0x1f;
    uint32_t fraction = bits & 0x3ff;
    if (exponent == 0x1f)
        return float_of(sign | 0x7f800000 | fraction << 13);
    if (exponent != 0)
        return float_of(sign | (exponent + 112) << 23 | fraction << 13);
    float size = (float)fraction * 0x1p-24f;
    return sign == 0 ? size : -size;
}

bool pen_dtype_is_float(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_BF16 || dtype == PEN_DTYPE_F16 ||
           dtype == PEN_DTYPE_F32 || dtype == PEN_DTYPE_F64;
}

void pen_dtype_to_float(enum pen_dtype dtype, const void *from, size_t count,
                        float *to)
{
    PEN_BUG_UNLESS(pen_dtype_is_float(dtype));
    const unsigned char *bytes = from;
    if (count == 0)
        return;
    if (dtype == PEN_DTYPE_F32) {
        memcpy(to, from, count * sizeof *to);
        return;
    }
    if (dtype == PEN_DTYPE_F64) {
        for (size_t i = 0; i < count; i++) {
            double value;
            memcpy(&value, bytes + i * sizeof value, sizeof value);
            to[i] = (float)value;
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, bytes + i * sizeof half, sizeof half);
        to[i] = dtype == PEN_DTYPE_BF16 ? pen_bf16_to_float(half)
                                        : pen_f16_to_float(half);
    }
}

void pen_dtype_from_float(enum pen_dtype dtype, const float *from, size_t count,
                          void *to)
{
    PEN_BUG_UNLESS(pen_dtype_is_float(dtype));
    unsigned char *bytes = to;
    if (count == 0)
        return;
    if (dtype == PEN_DTYPE_F32) {
        memcpy(to, from, count * sizeof *from);
        return;
    }
    if (dtype == PEN_DTYPE_F64) {
        for (size_t i = 0; i < count; i++) {
            double value = (double)from[i];
            memcpy(bytes + i * sizeof value, &value, sizeof value);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t half = dtype == PEN_DTYPE_BF16 ? pen_bf16_from_float(from[i])
                                                : pen_f16_from_float(from[i]);
        memcpy(bytes + i * sizeof half, &half, sizeof half);
    }
}

/* ---- numbers that are not finite ---- */

static bool is_nonfinite_at(enum pen_dtype dtype, const void *numbers, size_t i)
{
    if (dtype == PEN_DTYPE_BF16)
        return (((const uint16_t *)numbers)[i] & 0x7f80) == 0x7f80;
    if (dtype == PEN_DTYPE_F32)
        return !(fabsf(((const float *)numbers)[i]) <= FLT_MAX);
    return !(fabs(((const double *)numbers)[i]) <= DBL_MAX);
}

/*
 * Returns whether a number is not finite; without an early exit, so that the
 * loop becomes a few vector operations.
 */
static bool has_nonfinite_float(const float *numbers, size_t count)
{
    bool has_some = false;
    for (size_t i = 0; i < count; i++)
        has_some |= !(fabsf(numbers[i]) <= FLT_MAX);
    return has_some;
}

size_t pen_dtype_first_nonfinite(enum pen_dtype dtype, const void *numbers,
                                 size_t count)
{
    PEN_BUG_UNLESS(dtype == PEN_DTYPE_BF16 || dtype == PEN_DTYPE_F32 ||
                   dtype == PEN_DTYPE_F64);
    if (dtype == PEN_DTYPE_F32 && !has_nonfinite_float(numbers, count))
        return count;
    for (size_t i = 0; i < count; i++)
        if (is_nonfinite_at(dtype, numbers, i))
            return i;
    return count;
}
