/*
 * Codes of 8 bits lie in order. With 4 bits a byte has two codes: in its lower
 * half that of value i of the block, in its upper half that of value i +
 * (length + 1)/2, so that whole vectors are packed without a shuffle.
 */
#include "sync/block_code.h"

#include "base/bug.h"
#include "base/clones.h"

#include <float.h>
#include <math.h>
#include <string.h>

static uint32_t bits_of(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static size_t code_bytes(uint32_t bits, size_t count)
{
    return bits == 8 ? count : (count + 1) / 2;
}

size_t pen_block_code_bytes(const struct pen_block_code *code, size_t count)
{
    size_t blocks = (count + code->block - 1) / code->block;
    return blocks * sizeof(float) + code_bytes(code->bits, count);
}

/*
 * Magnitudes are compared as integers, which puts infinities and NaNs on top.
 * Signed ones: early vector units compare no others.
 */
PEN_CLONES static float scale_of(const float *values, size_t count,
                                 float levels)
{
    int32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t magnitude = (int32_t)(bits_of(values[i]) & 0x7fffffffu);
        largest = magnitude > largest ? magnitude : largest;
    }
    float most = float_of((uint32_t)largest);
    if (!isfinite(most))
        return NAN;
    float scale = float_of(bits_of(most / levels) & ~0x7fu);
    return scale < FLT_MIN ? FLT_MIN : scale;
}

/*
 * Returns the nearest integer, in the low bits: beyond 1.5 * 2^23 floats are a
 * unit apart, and the processor rounds the sum.
 */
static uint32_t nearest(float ratio)
{
    return bits_of(ratio + 12582912.0f);
}

PEN_CLONES static void encode8(const float *restrict values, size_t count,
                               float inverse, uint8_t *restrict codes)
{
    for (size_t i = 0; i < count; i++)
        codes[i] = (uint8_t)nearest(values[i] * inverse);
}

PEN_CLONES static void encode4(const float *restrict values, size_t count,
                               float inverse, uint8_t *restrict codes)
{
    size_t half = (count + 1) / 2;
    for (size_t i = 0; i < count / 2; i++) {
        uint32_t low = nearest(values[i] * inverse) & 15;
        uint32_t high = nearest(values[half + i] * inverse) & 15;
        codes[i] = (uint8_t)(low | high << 4);
    }
    if (count % 2 != 0)
        codes[half - 1] = (uint8_t)(nearest(values[half - 1] * inverse) & 15);
}

PEN_CLONES static void decode8(const uint8_t *restrict codes, size_t count,
                               float scale, float *restrict values)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(int8_t)codes[i] * scale;
}

/* Four bits in two's complement. */
static float number_of(uint32_t nibble)
{
    return (float)((int32_t)(nibble ^ 8) - 8);
}

PEN_CLONES static void decode4(const uint8_t *restrict codes, size_t count,
                               float scale, float *restrict values)
{
    size_t half = (count + 1) / 2;
    for (size_t i = 0; i < half; i++)
        values[i] = number_of(codes[i] & 15u) * scale;
    for (size_t i = 0; i < count / 2; i++)
        values[half + i] = number_of((uint32_t)codes[i] >> 4) * scale;
}

static void check(const struct pen_block_code *code)
{
    PEN_BUG_UNLESS(code->bits == 8 || code->bits == 4);
    PEN_BUG_UNLESS(code->block > 0 && code->block % 8 == 0);
}

static size_t block_at(const struct pen_block_code *code, size_t first,
                       size_t count)
{
    size_t left = count - first;
    return left < code->block ? left : code->block;
}

void pen_block_encode(const struct pen_block_code *code, const float *values,
                      size_t count, void *coded)
{
    float levels = code->bits == 8 ? 127 : 7;
    uint8_t *to = coded;
    check(code);
    for (size_t first = 0; first < count; first += code->block) {
        size_t length = block_at(code, first, count);
        float scale = scale_of(values + first, length, levels);
        memcpy(to, &scale, sizeof scale);
        to += sizeof scale;
        (code->bits == 8 ? encode8 : encode4)(values + first, length,
                                              1.0f / scale, to);
        to += code_bytes(code->bits, length);
    }
}

void pen_block_decode(const struct pen_block_code *code, const void *coded,
                      size_t count, float *values)
{
    const uint8_t *from = coded;
    check(code);
    for (size_t first = 0; first < count; first += code->block) {
        size_t length = block_at(code, first, count);
        float scale;
        memcpy(&scale, from, sizeof scale);
        from += sizeof scale;
        (code->bits == 8 ? decode8 : decode4)(from, length, scale,
                                              values + first);
        from += code_bytes(code->bits, length);
    }
}
