#ifndef PEN_SYNC_BLOCK_CODE_H
#define PEN_SYNC_BLOCK_CODE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Floats as integers of 8 or 4 bits with one scale per block: what activations
 * and gradients travel as where links are slow. Blocks stand one behind the
 * other, the last one may be short:
 *
 *   | scale (float) | codes | scale | codes | ...
 *
 * With m = 2^(bits-1) - 1, a value a of a block is told as the integer nearest
 * to a/s, s = max|a|/m, and read as that integer times s. It is off by s/2 at
 * most, save for the rounding of a/s itself. s has its last seven bits cut off:
 * every product is then exact, and values that were decoded once are coded
 * without loss. s is FLT_MIN where max|a|/m is smaller.
 *
 * A block with an infinity or a NaN in it is read as NaN throughout, so that
 * nobody trains on.
 */
struct pen_block_code {
    uint32_t bits; /* 8 or 4 */
    size_t block;  /* values, a multiple of 8 */
};

/*
 * Bytes of `count` values. What stands before them, in bytes, is found with
 * their index where that is a multiple of the block: parts can be coded apart.
 */
size_t pen_block_code_bytes(const struct pen_block_code *code, size_t count);

/* `coded` needs no alignment and may not overlap the floats. */
void pen_block_encode(const struct pen_block_code *code, const float *values,
                      size_t count, void *coded);
void pen_block_decode(const struct pen_block_code *code, const void *coded,
                      size_t count, float *values);

#endif
