/*
 * Half the bytes: of every float the upper 16 bits, rounded to the nearest,
 * ties to even,
 *
 *   a^ = bf16(a)
 *
 * where both the sender and the owner keep their rounding errors
 * (sync/two_sided.h). Values that have no more than eight significant bits have
 * an exact mean if that has no more, too.
 */
#include "base/clones.h"
#include "sync/two_sided.h"

#include <string.h>

enum { BLOCK = 1024 };

static size_t block(const double *values)
{
    (void)values;
    return BLOCK;
}

static size_t length(size_t count)
{
    return (count + 1) / 2 * 4;
}

/* Infinities stay infinities, and NaNs stay NaNs. */
static uint16_t upper_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static float value_of(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

PEN_CLONES static void encode(const float *given, float *error, size_t count,
                              void *to)
{
    uint16_t *codes = to;
    if (count % 2 == 1)
        codes[count] = 0;
    for (size_t i = 0; i < count; i++) {
        float wanted = given[i] + error[i];
        codes[i] = upper_half(wanted);
        error[i] = wanted - value_of(codes[i]);
    }
}

PEN_CLONES static void decode(const void *from, size_t count, float factor,
                              bool is_added, float *values)
{
    const uint16_t *codes = from;
    if (!is_added)
        memset(values, 0, count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] += factor * value_of(codes[i]);
}

static const struct pen_coding coding = {.block = block,
                                         .length = length,
                                         .encode = encode,
                                         .decode = decode,
                                         .passes = 1};

PEN_TWO_SIDED_FUNCTIONS(coding)

const struct pen_compressor pen_compressor_bf16 = {
    .name = "bf16",
    .title = "the upper half of every float, with error feedback on both sides",
    .paper = "Kalamkar et al., A Study of BFLOAT16 for Deep Learning Training, "
             "2019, arXiv:1905.12322",
    PEN_TWO_SIDED_TABLE,
};
