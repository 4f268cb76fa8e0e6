/*
 * Blocks of 8-bit numbers (sync/block_code.h): of every `block` values of a
 * share
 *
 *   scale = max |a| / 127      a^ = scale * nearest(a / scale)
 *
 * where both the sender and the owner keep their rounding errors
 * (sync/two_sided.h). A quarter of the floats is sent. Values that are whole
 * multiples of their scale have an exact mean if that is one, too.
 */
#include "sync/blocks.h"
#include "sync/two_sided.h"

enum { BLOCK };

static const struct pen_sync_option options[] = {
    [BLOCK] = {"block", 256, 64, PEN_BLOCKS_MOST, true,
               "values that share a scale, a multiple of 8"},
};

enum { BITS = 8 };

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
                                         .passes = 1};

PEN_TWO_SIDED_FUNCTIONS(coding)

const struct pen_compressor pen_compressor_block_int8 = {
    .name = "int8",
    .title = "8-bit numbers in blocks, with error feedback on both sides",
    .paper = "Dettmers et al., 8-bit Optimizers via Block-wise Quantization, "
             "2021, arXiv:2110.02861",
    .options = options,
    .num_options = sizeof options / sizeof *options,
    PEN_TWO_SIDED_TABLE,
};
