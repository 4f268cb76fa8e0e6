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
#include "base/clones.h"
#include "sync/blocks.h"
#include "sync/two_sided.h"

enum { BLOCK };

static const struct pen_sync_option options[] = {
    [BLOCK] = {"block", 64, 64, PEN_BLOCK_MOST, true,
               "values that share a scale"},
};

static const float levels = 7;

struct code {
    float scale;
    uint8_t bytes[];
};

static size_t block(const double *values)
{
    return (size_t)values[BLOCK];
}

static size_t num_bytes(size_t count)
{
    return (count + 1) / 2;
}

static size_t length(size_t count)
{
    return sizeof(struct code) + (num_bytes(count) + 3) / 4 * 4;
}

/* There is a zero behind an odd number of them. */
PEN_CLONES static void pack(const int8_t *restrict numbers, size_t count,
                            uint8_t *restrict to)
{
    for (size_t i = 0; i < num_bytes(count); i++)
        to[i] = (uint8_t)((numbers[2 * i] & 15) |
                          (uint8_t)(numbers[2 * i + 1] << 4));
}

PEN_CLONES static void unpack(const uint8_t *restrict from, size_t count,
                              int8_t *restrict numbers)
{
    for (size_t i = 0; i < num_bytes(count); i++) {
        numbers[2 * i] = (int8_t)(((from[i] & 15) ^ 8) - 8);
        numbers[2 * i + 1] = (int8_t)((from[i] >> 4 ^ 8) - 8);
    }
}

static void encode(const float *given, float *error, size_t count, void *to)
{
    struct code *code = to;
    int8_t numbers[PEN_BLOCK_MOST + 1];
    code->scale = pen_blocks_encode(levels, given, error, count, numbers);
    numbers[count] = 0;
    pack(numbers, count, code->bytes);
}

static void decode(const void *from, size_t count, float factor, bool is_added,
                   float *values)
{
    const struct code *code = from;
    int8_t numbers[PEN_BLOCK_MOST + 1];
    unpack(code->bytes, count, numbers);
    pen_blocks_decode(numbers, count, factor * code->scale, is_added, values);
}

static const struct pen_coding coding = {.block = block,
                                         .length = length,
                                         .encode = encode,
                                         .decode = decode,
                                         .passes = 1};

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
