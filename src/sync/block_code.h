#ifndef PEN_SYNC_BLOCK_CODE_H
#define PEN_SYNC_BLOCK_CODE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Floats as integers of 8 or 4 bits with one scale per block: the form of
 * activations and gradients on slow links. Blocks follow each other; the last
 * one may be short:
 *
 *   | scale (float) | codes | scale | codes | ...
 *
 * With m = 2^(bits-1) - 1, a value a of a block is sent as the integer nearest
 * to a/s, s = max|a|/m, and read as that integer times s. It is off by s/2 at
 * most, save for the rounding of a/s itself. s has its last seven bits cut off:
 * every product is then exact, and values that were decoded once are coded
 * without loss. s is FLT_MIN where max|a|/m is smaller.
 *
 * A block with an infinity or a NaN in it is read as NaN throughout, so that
 * training stops.
 */
struct pen_block_code {
    uint32_t bits; /* 8 or 4 */
    size_t block;  /* values, a multiple of 8 */
};

/*
 * Returns the bytes of `count` values. With a multiple of the block as `count`,
 * this is where the value of that index begins: parts can be coded separately.
 */
size_t pen_block_code_bytes(const struct pen_block_code *code, size_t count);

/* Encodes values. `coded` needs no alignment and may not overlap the floats. */
void pen_block_encode(const struct pen_block_code *code, const float *values,
                      size_t count, void *coded);
void pen_block_decode(const struct pen_block_code *code, const void *coded,
                      size_t count, float *values);

#endif
