#include "runtime/message_code.h"

#include "engine/bf16.h"

#include <stdint.h>

static size_t count_of(const struct pen_message_code *code, size_t bytes)
{
    return bytes / (code->is_bf16 ? sizeof(uint16_t) : sizeof(float));
}

size_t pen_message_code_bytes(const struct pen_message_code *code, size_t bytes)
{
    return code->blocks.bits == 0
               ? bytes
               : pen_block_code_bytes(&code->blocks, count_of(code, bytes));
}

static size_t block_at(const struct pen_message_code *code, size_t first,
                       size_t count)
{
    size_t left = count - first;
    return left < code->blocks.block ? left : code->blocks.block;
}

static void encode_bf16(const struct pen_message_code *code,
                        const uint16_t *values, size_t count, char *coded)
{
    float block[PEN_MESSAGE_MAX_BLOCK];
    for (size_t first = 0; first < count; first += code->blocks.block) {
        size_t length = block_at(code, first, count);
        for (size_t i = 0; i < length; i++)
            block[i] = pen_bf16_to_float(values[first + i]);
        pen_block_encode(&code->blocks, block, length, coded);
        coded += pen_block_code_bytes(&code->blocks, length);
    }
}

static void decode_bf16(const struct pen_message_code *code, const char *coded,
                        size_t count, uint16_t *values)
{
    float block[PEN_MESSAGE_MAX_BLOCK];
    for (size_t first = 0; first < count; first += code->blocks.block) {
        size_t length = block_at(code, first, count);
        pen_block_decode(&code->blocks, coded, length, block);
        for (size_t i = 0; i < length; i++)
            values[first + i] = pen_bf16_from_float(block[i]);
        coded += pen_block_code_bytes(&code->blocks, length);
    }
}

void pen_message_encode(const struct pen_message_code *code, const void *plain,
                        size_t bytes, void *coded)
{
    if (code->is_bf16)
        encode_bf16(code, plain, count_of(code, bytes), coded);
    else
        pen_block_encode(&code->blocks, plain, count_of(code, bytes), coded);
}

void pen_message_decode(const struct pen_message_code *code, const void *coded,
                        size_t bytes, void *plain)
{
    if (code->is_bf16)
        decode_bf16(code, coded, count_of(code, bytes), plain);
    else
        pen_block_decode(&code->blocks, coded, count_of(code, bytes), plain);
}
