/*
 * Blocks of 8-bit numbers (sync/blocks.h): of every `block` values of a share
 *
 *   scale = max |a| / 127      a^ = scale * nearest(a / scale)
 *
 * with what that loses kept by who sends and by who owns (sync/two_sided.h). A
 * quarter of the floats is sent. Values that are whole multiples of their
 * scale have an exact mean if that is one, too.
 */
#include "sync/blocks.h"
#include "sync/two_sided.h"

enum { BLOCK };

static const struct pen_sync_option options[] = {
    [BLOCK] = {"block", 256, 64, PEN_BLOCK_MOST, true,
               "values that share a scale"},
};

static const float levels = 127;

static size_t num_blocks(size_t block, size_t count)
{
    return (count + block - 1) / block;
}

/* Scales, then numbers. */
static size_t length(const double *values, size_t count)
{
    return num_blocks((size_t)values[BLOCK], count) * sizeof(float) +
           (count + 3) / 4 * 4;
}

static void encode(const double *values, const float *given, float *error,
                   size_t count, void *to)
{
    size_t block = (size_t)values[BLOCK];
    float *scale = to;
    int8_t *numbers = (int8_t *)(scale + num_blocks(block, count));
    for (size_t i = 0; i < count; i += block) {
        size_t part = count - i < block ? count - i : block;
        *scale++ =
            pen_block_encode(levels, given + i, error + i, part, numbers + i);
    }
}

static void decode(const double *values, const void *from, size_t count,
                   float factor, bool is_added, float *to)
{
    size_t block = (size_t)values[BLOCK];
    const float *scale = from;
    const int8_t *numbers = (const int8_t *)(scale + num_blocks(block, count));
    for (size_t i = 0; i < count; i += block) {
        size_t part = count - i < block ? count - i : block;
        pen_block_decode(numbers + i, part, factor * *scale++, is_added,
                         to + i);
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

const struct pen_compressor pen_compressor_block_int8 = {
    .name = "int8",
    .title = "8-bit numbers in blocks, with error feedback on both sides",
    .paper = "Dettmers et al., 8-bit Optimizers via Block-wise Quantization, "
             "2021, arXiv:2110.02861",
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
