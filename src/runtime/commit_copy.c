#include "runtime/commit_copy.h"

#include "base/crc32c.h"
#include "holder/shard.h"

#include <stdbool.h>

/* A block that is being made. */
struct block {
    char *at;
    char *end;
    uint32_t check;
};

/* From here to the end of the piece or block. */
static void add_piece(struct block *block,
                      const struct pen__contents_piece *piece)
{
    size_t done = (size_t)(block->at - piece->to);
    size_t left = piece->num_bytes - done;
    size_t room = (size_t)(block->end - block->at);
    size_t count = left < room ? left : room;
    const char *from = (const char *)piece->from + done;
    block->check = pen_crc32c_copy(block->check, block->at, from, count);
    block->at += count;
}

/* What is there already, up to the next piece. */
static void add_gap(struct block *block, const char *end)
{
    const char *stop = end < block->end ? end : block->end;
    if (stop <= block->at)
        return;
    size_t count = (size_t)(stop - block->at);
    block->check = pen_crc32c_more(block->check, block->at, count);
    block->at += count;
}

/* The first piece that ends behind a place. */
static size_t find_piece(const struct pen__commit_copy *copy, const char *at)
{
    size_t low = 0;
    size_t high = copy->num_pieces;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct pen__contents_piece *it = &copy->pieces[middle];
        if (it->to + it->num_bytes <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t make_block(const struct pen__commit_copy *copy, size_t number)
{
    char *slot_end = copy->slot + copy->slot_bytes;
    char *begin = copy->slot + number * PEN_SHARD_BLOCK_BYTES;
    size_t left = (size_t)(slot_end - begin);
    struct block block = {.at = begin, .end = slot_end};
    if (left > PEN_SHARD_BLOCK_BYTES)
        block.end = begin + PEN_SHARD_BLOCK_BYTES;
    for (size_t i = find_piece(copy, begin); block.at < block.end; i++) {
        bool is_last = i >= copy->num_pieces;
        add_gap(&block, is_last ? slot_end : copy->pieces[i].to);
        if (block.at < block.end)
            add_piece(&block, &copy->pieces[i]);
    }
    return block.check;
}

void pen__commit_copy(const struct pen__commit_copy *copy)
{
    const size_t num_blocks = pen_shard_num_blocks(copy->slot_bytes);
#pragma omp parallel for num_threads(copy->num_threads) schedule(dynamic)
    for (size_t i = 0; i < num_blocks; i++)
        copy->checks[i] = make_block(copy, i);
}
