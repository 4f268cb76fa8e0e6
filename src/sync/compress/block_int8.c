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

#define BITS 8
#define PASSES 1
#include "sync/compress/block_int_of_bits.h"

const struct pen_compressor pen_compressor_block_int8 = {
    .name = "int8",
    .title = "8-bit numbers in blocks, with error feedback on both sides",
    .paper = "Dettmers et al., 8-bit Optimizers via Block-wise Quantization, "
             "2021, arXiv:2110.02861",
    .options = options,
    .num_options = sizeof options / sizeof *options,
    PEN_TWO_SIDED_TABLE,
};
