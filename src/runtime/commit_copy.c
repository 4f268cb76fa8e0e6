#include "runtime/commit_copy.h"

#include "base/crc32c.h"
#include "holder/shard.h"

#include <stdbool.h>

/* A block that is being made. */
struct block {
    char *at;
    char *end;
    uint32_t check;
    float *room;
};

/* Some elements of a column of a parameter, from element `first` on. */
static size_t add_column(const struct pen__contents_piece *piece, size_t first,
                         size_t count, float *to)
{
    const float *from = piece->from;
    size_t column = first / piece->rows;
    size_t row = first % piece->rows;
    size_t left = piece->rows - row;
    count = count < left ? count : left;
    for (size_t i = 0; i < count; i++)
        to[i] = from[(row + i) * piece->columns + column];
    return count;
}

/* Whole columns, as many as lie in a line of the cache. */
enum { TILE = 16 };
static void add_columns(const struct pen__contents_piece *piece, size_t column,
                        float *to)
{
    const float *from = (const float *)piece->from + column;
    for (size_t row = 0; row < piece->rows; row++)
        for (size_t i = 0; i < TILE; i++)
            to[i * piece->rows + row] = from[row * piece->columns + i];
}

/*
 * Elements first to first + count of a parameter as if it were transposed:
 * number i is from[i % rows][i / rows].
 */
static void transpose(const struct pen__contents_piece *piece, size_t first,
                      size_t count, float *to)
{
    while (count > 0) {
        size_t added = TILE * piece->rows;
        if (first % piece->rows == 0 && count >= added)
            add_columns(piece, first / piece->rows, to);
        else
            added = add_column(piece, first, count, to);
        first += added;
        count -= added;
        to += added;
    }
}

/* From here to the end of the piece or block. */
static void add_piece(struct block *block,
                      const struct pen__contents_piece *piece)
{
    size_t done = (size_t)(block->at - piece->to);
    size_t left = piece->num_bytes - done;
    size_t room = (size_t)(block->end - block->at);
    size_t count = left < room ? left : room;
    const char *from = (const char *)piece->from + done;
    if (piece->rows > 0) {
        transpose(piece, piece->first + done / sizeof(float),
                  count / sizeof(float), block->room);
        from = (const char *)block->room;
    }
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

static uint32_t make_block(const struct pen__commit_copy *copy, size_t number,
                           float *room)
{
    char *slot_end = copy->slot + copy->slot_bytes;
    char *begin = copy->slot + number * PEN_SHARD_BLOCK_BYTES;
    size_t left = (size_t)(slot_end - begin);
    struct block block = {.at = begin, .end = slot_end, .room = room};
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
    const size_t room = PEN_SHARD_BLOCK_BYTES / sizeof(float);
#pragma omp parallel for num_threads(copy->num_threads) schedule(static)
    for (int thread = 0; thread < copy->num_threads; thread++)
        for (size_t i = (size_t)thread; i < num_blocks;
             i += (size_t)copy->num_threads)
            copy->checks[i] =
                make_block(copy, i, copy->rooms + (size_t)thread * room);
}
