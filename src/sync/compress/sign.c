/*
 * Sign: one bit per value and one scale per block of 65536 of a share of a
 * tensor, where both the sender and the owner keep their coding errors
 * (sync/two_sided.h),
 *
 *   C(c) = ||c||_2 / sqrt(d) * sign(c)     d values, sign(0) = +1
 *
 * so that C(c) is as long as c. 1-bit Adam sends this after its warm-up, 1/32
 * of the floats; there a share has one scale, here a block stays in the cache.
 * Used under another method it is sign SGD with error feedback on both sides.
 * Values of the same size keep it: their mean is exact.
 */
#include "base/bits.h"
#include "base/clones.h"
#include "sync/two_sided.h"

#include <math.h>

enum {
    BLOCK = 65536,
    PART = 2048,
    WORD = 32 /* values of a word */
};

struct code {
    float scale;
    uint32_t words[]; /* bit j of a word: value j is negative */
};

/*
 * The masks of a word: compilers make vector code of loops over all its bits.
 */
static const uint32_t bits[WORD] = PEN_EACH_BIT;

static size_t num_words(size_t count)
{
    return (count + WORD - 1) / WORD;
}

static size_t block(const double *options)
{
    (void)options;
    return BLOCK;
}

static size_t length(size_t count)
{
    return sizeof(struct code) + num_words(count) * sizeof(uint32_t);
}

static size_t word_length(size_t count, size_t first)
{
    return count - first < WORD ? count - first : WORD;
}

/* Adds the given values to the error; returns the sum of its squares. */
static double fold_part(const float *restrict given, float *restrict error,
                        size_t count)
{
    float lanes[WORD] = {0};
    double sum = 0;
    size_t i = 0;
    for (; i + WORD <= count; i += WORD)
        for (size_t j = 0; j < WORD; j++) {
            error[i + j] += given[i + j];
            lanes[j] += error[i + j] * error[i + j];
        }
    for (; i < count; i++) {
        error[i] += given[i];
        lanes[0] += error[i] * error[i];
    }
    for (size_t j = 0; j < WORD; j++)
        sum += (double)lanes[j];
    return sum;
}

/* Folds in parts, so that a float can sum their squares. */
static double fold(const float *given, float *error, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i += PART)
        sum += fold_part(given + i, error + i,
                         count - i < PART ? count - i : PART);
    return sum;
}

/* Takes the signs of a word, and leaves the rest of its values. */
static uint32_t take_signs(float *error, size_t count, float scale)
{
    uint32_t word = 0;
    for (size_t j = 0; j < count; j++) {
        word |= error[j] < 0 ? bits[j] : 0;
        error[j] -= error[j] < 0 ? -scale : scale;
    }
    return word;
}

PEN_CLONES static void encode(const float *given, float *error, size_t count,
                              void *to)
{
    struct code *code = to;
    code->scale = (float)sqrt(fold(given, error, count) / (double)count);
    for (size_t i = 0; i < num_words(count); i++) {
        size_t part = word_length(count, i * WORD);
        float *at = error + i * WORD;
        code->words[i] = part == WORD ? take_signs(at, WORD, code->scale)
                                      : take_signs(at, part, code->scale);
    }
}

static void put_signs(uint32_t word, size_t count, float scale, bool is_added,
                      float *values)
{
    for (size_t j = 0; j < count; j++) {
        float value = (word & bits[j]) != 0 ? -scale : scale;
        values[j] = is_added ? values[j] + value : value;
    }
}

PEN_CLONES static void decode(const void *from, size_t count, float factor,
                              bool is_added, float *values)
{
    const struct code *code = from;
    float scale = factor * code->scale;
    for (size_t i = 0; i < num_words(count); i++) {
        size_t part = word_length(count, i * WORD);
        float *at = values + i * WORD;
        if (part < WORD)
            put_signs(code->words[i], part, scale, is_added, at);
        else if (is_added)
            put_signs(code->words[i], WORD, scale, true, at);
        else
            put_signs(code->words[i], WORD, scale, false, at);
    }
}

static const struct pen_coding coding = {.block = block,
                                         .length = length,
                                         .encode = encode,
                                         .decode = decode,
                                         .passes = 0.85};

PEN_TWO_SIDED_FUNCTIONS(coding)

const struct pen_compressor pen_compressor_sign = {
    .name = "sign",
    .title = "signs and one scale, with error feedback on both sides",
    .paper = "Tang et al., 1-bit Adam: Communication Efficient Large-Scale "
             "Training with Adam's Convergence Speed, 2021, arXiv:2102.02888",
    PEN_TWO_SIDED_TABLE,
};
