/*
 * Blocks of 4-bit numbers (sync/blocks.h): of every `block` values of a share
 *
 *   scale = max |a| / 7      a^ = scale * nearest(a / scale)
 *
 * two of them in a byte, with what that loses kept by who sends and by who owns
 * (sync/two_sided.h). An eighth of the floats is sent, and the scales. Values
 * that are whole multiples of their scale have an exact mean if that is one,
 * too.
 */
#include "sync/blocks.h"
#include "sync/two_sided.h"

enum { BLOCK };

static const struct pen_sync_option options[] = {
    [BLOCK] = {"block", 64, 64, PEN_BLOCK_MOST, true,
               "values that share a scale"},
};

static const float levels = 7;

/* A block begins with a byte of its own. */
static size_t block_bytes(size_t block)
{
    return (block + 1) / 2;
}

static size_t num_blocks(size_t block, size_t count)
{
    return (count + block - 1) / block;
}

/* Scales, then numbers. */
static size_t length(const double *values, size_t count)
{
    size_t block = (size_t)values[BLOCK];
    size_t bytes =
        count / block * block_bytes(block) + block_bytes(count % block);
    return num_blocks(block, count) * sizeof(float) + (bytes + 3) / 4 * 4;
}

/* There is a zero behind an odd number of them. */
static void pack(const int8_t *restrict numbers, size_t count,
                 uint8_t *restrict to)
{
    for (size_t i = 0; i < block_bytes(count); i++)
        to[i] = (uint8_t)((numbers[2 * i] & 15) |
                          (uint8_t)(numbers[2 * i + 1] << 4));
}

static void unpack(const uint8_t *restrict from, size_t count,
                   int8_t *restrict numbers)
{
    for (size_t i = 0; i < block_bytes(count); i++) {
        numbers[2 * i] = (int8_t)(((from[i] & 15) ^ 8) - 8);
        numbers[2 * i + 1] = (int8_t)((from[i] >> 4 ^ 8) - 8);
    }
}

static void encode(const double *values, const float *given, float *error,
                   size_t count, void *to)
{
    size_t block = (size_t)values[BLOCK];
    float *scale = to;
    uint8_t *bytes = (uint8_t *)(scale + num_blocks(block, count));
    int8_t numbers[PEN_BLOCK_MOST + 1];
    for (size_t i = 0; i < count; i += block) {
        size_t part = count - i < block ? count - i : block;
        *scale++ =
            pen_block_encode(levels, given + i, error + i, part, numbers);
        numbers[part] = 0;
        pack(numbers, part, bytes);
        bytes += block_bytes(block);
    }
}

static void decode(const double *values, const void *from, size_t count,
                   float factor, bool is_added, float *to)
{
    size_t block = (size_t)values[BLOCK];
    const float *scale = from;
    const uint8_t *bytes = (const uint8_t *)(scale + num_blocks(block, count));
    int8_t numbers[PEN_BLOCK_MOST + 1];
    for (size_t i = 0; i < count; i += block) {
        size_t part = count - i < block ? count - i : block;
        unpack(bytes, part, numbers);
        pen_block_decode(numbers, part, factor * *scale++, is_added, to + i);
        bytes += block_bytes(block);
    }
}

static const struct pen_coding coding = {
    .length = length, .encode = encode, .decode = decode, .passes = 1};

static void cost(const struct pen_sync_case *of, struct pen_mean_cost *out)
{
    pen_two_sided_cost(&coding, of, out);
}

static void sizes(const struct pen_compression *setting, size_t *sum,
                  size_t *gathered)
{
    pen_two_sided_sizes(&coding, setting, sum, gathered);
}

static pen_status create(const struct pen_compression *setting, void **out,
                         struct pen_text *why)
{
    (void)why;
    return pen_two_sided_create(&coding, setting, out);
}

const struct pen_compressor pen_compressor_block_int4 = {
    .name = "int4",
    .title = "4-bit numbers in blocks, with error feedback on both sides",
    .paper = "Dettmers et al., 8-bit Optimizers via Block-wise Quantization, "
             "2021, arXiv:2110.02861 (there with 8 bits)",
    .options = options,
    .num_options = sizeof options / sizeof *options,
    .num_rounds = PEN_TWO_SIDED_ROUNDS,
    .cost = cost,
    .sizes = sizes,
    .create = create,
    .free = pen_two_sided_free,
    .bytes = pen_two_sided_bytes,
    .encode = pen_two_sided_encode,
    .decode = pen_two_sided_decode,
    .states = pen_two_sided_states,
};
