/*
 * Blocks of 4-bit numbers (sync/block_code.h): of every `block` values of a
 * share
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

static const struct pen_coding coding = {.block = block,
                                         .length = length,
                                         .encode = encode,
                                         .decode = decode,
                                         .passes = 1.1};

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
    pen_status status = pen_blocks_check(setting->options.at[BLOCK], why);
    return status == PEN_OK ? pen_two_sided_create(&coding, setting, out)
                            : status;
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
