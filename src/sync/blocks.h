#ifndef PEN_SYNC_BLOCKS_H
#define PEN_SYNC_BLOCKS_H

#include "base/status.h"
#include "base/text.h"
#include "sync/block_code.h"

#include <stdbool.h>

/* Blocks of sync/block_code.h, one at a time, for sync/two_sided.h. */
enum { PEN_BLOCKS_MOST = 256 }; /* values of a block */

/* Returns the bytes of a block's code, up to a multiple of 4. */
size_t pen_blocks_length(uint32_t bits, size_t count);

/* Codes a = given + error; the error becomes the part that the code loses. */
void pen_blocks_encode(uint32_t bits, const float *given, float *error,
                       size_t count, void *to);

/* Writes, or adds, `factor` times the decoded values. */
void pen_blocks_decode(uint32_t bits, const void *from, size_t count,
                       float factor, bool is_added, float *values);

/* Returns INVALID, and the reason, when blocks cannot have this many values. */
pen_status pen_blocks_check(double block, struct pen_text *why);

#endif
