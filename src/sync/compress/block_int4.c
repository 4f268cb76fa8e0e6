/*
 * Blocks of 4-bit numbers (sync/block_code.h): of every `block` values of a
 * share
 *
 *   scale = max |a| / 7      a^ = scale * nearest(a / scale)
 *
 * two of them in a byte, where both the sender and the owner keep their
 * rounding errors (sync/two_sided.h). An eighth of the floats is sent, and the
 * scales. Values that are whole multiples of their scale have an exact mean if
 * that is one, too.
 */
#include "sync/blocks.h"
#include "sync/two_sided.h"

enum { BLOCK };

static const struct pen_sync_option options[] = {
    [BLOCK] = {"block", 128, 64, PEN_BLOCKS_MOST, true,
               "values that share a scale, a multiple of 8"},
};

enum { BITS = 4 };

static size_t block(const double *values)
{
    return (size_t)values[BLOCK];
}

static size_t length(size_t count)
{
    return pen_blocks_length(BITS, count);
}

static void encode(const float *given, float *error, size_t count, void *to)
{
    pen_blocks_encode(BITS, given, error, count, to);
}

static void decode(const void *from, size_t count, float factor, bool is_added,
                   float *values)
{
    pen_blocks_decode(BITS, from, count, factor, is_added, values);
}

static pen_status check(const double *values, struct pen_text *why)
{
    return pen_blocks_check(values[BLOCK], why);
}

static const struct pen_coding coding = {.check = check,
                                         .block = block,
                                         .length = length,
                                         .encode = encode,
                                         .decode = decode,
                                         .passes = 1.1};

PEN_TWO_SIDED_FUNCTIONS(coding)

const struct pen_compressor pen_compressor_block_int4 = {
    .name = "int4",
    .title = "4-bit numbers in blocks, with error feedback on both sides",
    .paper = "Dettmers et al., 8-bit Optimizers via Block-wise Quantization, "
             "2021, arXiv:2110.02861 (there with 8 bits)",
    .options = options,
    .num_options = sizeof options / sizeof *options,
    PEN_TWO_SIDED_TABLE,
};
