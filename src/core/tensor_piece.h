#ifndef PEN_CORE_TENSOR_PIECE_H
#define PEN_CORE_TENSOR_PIECE_H

#include "core/safetensors.h"

#include <stdbool.h>

/*
 * A piece of a tensor, as ranks that share it cut it: some of its rows, and of
 * these some columns. A row is what one index of the first dimension has; the
 * columns are all other dimensions as one. A tensor of three dimensions stacks
 * matrices, and has their rows one after the other. The numbers of a piece lie
 * densely, row by row, wherever it is by itself.
 *
 *             first_column
 *              |    num_columns
 *   first_row  +----+
 *    num_rows  |    |
 *              +----+
 */
struct pen_tensor_piece {
    uint64_t first_row;
    uint64_t num_rows;
    uint64_t first_column;
    uint64_t num_columns;
};

/* Returns the piece that is the whole tensor. */
struct pen_tensor_piece pen_tensor_piece_whole(uint32_t num_dims,
                                               const uint64_t *shape);

static inline size_t
pen_tensor_piece_count(const struct pen_tensor_piece *piece)
{
    return (size_t)(piece->num_rows * piece->num_columns);
}

/*
 * Elements of a piece that are neighbours in the whole tensor: a row of the
 * piece, or the whole piece where it has all columns.
 */
struct pen_tensor_stretch {
    uint64_t first; /* element of the whole */
    uint64_t count;
};

uint64_t pen_tensor_piece_num_stretches(const struct pen_tensor_piece *piece,
                                        const struct pen_tensor_piece *whole);
struct pen_tensor_stretch
pen_tensor_piece_stretch(const struct pen_tensor_piece *piece,
                         const struct pen_tensor_piece *whole, uint64_t index);

/* Returns whether every element of the whole is in exactly one piece. */
bool pen_tensor_pieces_tile(const struct pen_tensor_piece *whole,
                            const struct pen_tensor_piece *pieces,
                            size_t count);

/*
 * Reads a piece out of a file: as floats, of a type that pen_dtype_to_float()
 * reads.
 */
void pen_tensor_piece_read(const struct pen_tensor_piece *piece,
                           const struct pen_safetensor *tensor, float *out);

#endif
