#ifndef PEN_SYNC_BLOCKS_H
#define PEN_SYNC_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Blocks of values as whole numbers from -levels to levels, with one scale:
 *
 *   scale = max |a| / levels      number = a / scale, the nearest
 *
 * No value is off by more than scale / 2. A block that is too small for a
 * scale is coded as zeros.
 */
enum { PEN_BLOCK_MOST = 256 }; /* values of a block */

/* Of a = given + error; the error is what is lost then. Returns the scale. */
float pen_blocks_encode(float levels, const float *given, float *error,
                        size_t count, int8_t *numbers);

/* Writes, or adds, `scale` times the numbers. */
void pen_blocks_decode(const int8_t *numbers, size_t count, float scale,
                       bool is_added, float *values);

#endif
