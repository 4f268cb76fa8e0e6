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

#define BITS 4
#define PASSES 1.1
#include "sync/compress/block_int_of_bits.h"

const struct pen_compressor pen_compressor_block_int4 = {
    .name = "int4",
    .title = "4-bit numbers in blocks, with error feedback on both sides",
    .paper = "Dettmers et al., 8-bit Optimizers via Block-wise Quantization, "
             "2021, arXiv:2110.02861 (there with 8 bits)",
    .options = options,
    .num_options = sizeof options / sizeof *options,
    PEN_TWO_SIDED_TABLE,
};
