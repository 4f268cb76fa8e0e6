#ifndef PEN_RUNTIME_MESSAGE_CODE_H
#define PEN_RUNTIME_MESSAGE_CODE_H

#include "sync/block_code.h"

#include <stdbool.h>

/*
 * The form in which activations and their gradients travel between stages: as
 * they are, or in blocks of small integers. Rounding errors are not carried
 * over to the next message: that one is of other samples.
 */
struct pen_message_code {
    struct pen_block_code blocks; /* of 0 bits: as they are */
    bool is_bf16;                 /* else they are floats */
};

/* Most values of a block. */
enum { PEN_MESSAGE_MAX_BLOCK = 1024 };

/* Bytes on the way, for `bytes` bytes of values. */
size_t pen_message_code_bytes(const struct pen_message_code *code,
                              size_t bytes);

/* For codes that have bits. */
void pen_message_encode(const struct pen_message_code *code, const void *plain,
                        size_t bytes, void *coded);
void pen_message_decode(const struct pen_message_code *code, const void *coded,
                        size_t bytes, void *plain);

#endif
