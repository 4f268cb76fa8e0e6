#include "sync/blocks.h"

#include "base/clones.h"
#include "sync/collective.h"

static const size_t multiple = 8; /* that the code asks for */

/* Returns the code of a whole block; the last block may be short. */
static struct pen_block_code code_of(uint32_t bits)
{
    return (struct pen_block_code){.bits = bits, .block = PEN_BLOCKS_MOST};
}

size_t pen_blocks_length(uint32_t bits, size_t count)
{
    struct pen_block_code code = code_of(bits);
    return (pen_block_code_bytes(&code, count) + 3) / 4 * 4;
}

PEN_CLONES static void subtract(float *restrict from,
                                const float *restrict values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        from[i] -= values[i];
}

PEN_CLONES static void write_multiple(float *restrict to,
                                      const float *restrict values,
                                      float factor, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = factor * values[i];
}

PEN_CLONES static void add_multiple(float *restrict to,
                                    const float *restrict values, float factor,
                                    size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += factor * values[i];
}

void pen_blocks_encode(uint32_t bits, const float *given, float *error,
                       size_t count, void *to)
{
    struct pen_block_code code = code_of(bits);
    float told[PEN_BLOCKS_MOST];
    pen_add_floats(error, given, count);
    pen_block_encode(&code, error, count, to);
    pen_block_decode(&code, to, count, told);
    subtract(error, told, count);
}

void pen_blocks_decode(uint32_t bits, const void *from, size_t count,
                       float factor, bool is_added, float *values)
{
    struct pen_block_code code = code_of(bits);
    float told[PEN_BLOCKS_MOST];
    pen_block_decode(&code, from, count, told);
    (is_added ? add_multiple : write_multiple)(values, told, factor, count);
}

pen_status pen_blocks_check(double block, struct pen_text *why)
{
    if ((size_t)block % multiple == 0)
        return PEN_OK;
    pen_why(why, "a block must have a multiple of %zu values, not %.0f",
            multiple, block);
    return PEN_INVALID;
}
