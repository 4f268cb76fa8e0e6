#include "core/tensor_piece.h"

#include "base/bug.h"

#include <string.h>

struct pen_tensor_piece pen_tensor_piece_whole(uint32_t num_dims,
                                               const uint64_t *shape)
{
    struct pen_tensor_piece whole = {.num_rows = num_dims > 0 ? shape[0] : 1,
                                     .num_columns = 1};
    for (uint32_t i = 1; i < num_dims; i++)
        if (num_dims == 3 && i == 1)
            whole.num_rows *= shape[i];
        else
            whole.num_columns *= shape[i];
    return whole;
}

static bool has_all_columns(const struct pen_tensor_piece *piece,
                            const struct pen_tensor_piece *whole)
{
    return piece->num_columns == whole->num_columns;
}

uint64_t pen_tensor_piece_num_stretches(const struct pen_tensor_piece *piece,
                                        const struct pen_tensor_piece *whole)
{
    if (pen_tensor_piece_count(piece) == 0)
        return 0;
    return has_all_columns(piece, whole) ? 1 : piece->num_rows;
}

struct pen_tensor_stretch
pen_tensor_piece_stretch(const struct pen_tensor_piece *piece,
                         const struct pen_tensor_piece *whole, uint64_t index)
{
    return (struct pen_tensor_stretch){
        .first = (piece->first_row + index) * whole->num_columns +
                 piece->first_column,
        .count = has_all_columns(piece, whole) ? pen_tensor_piece_count(piece)
                                               : piece->num_columns};
}

static bool is_inside(const struct pen_tensor_piece *piece,
                      const struct pen_tensor_piece *whole)
{
    return piece->first_row <= whole->num_rows &&
           piece->num_rows <= whole->num_rows - piece->first_row &&
           piece->first_column <= whole->num_columns &&
           piece->num_columns <= whole->num_columns - piece->first_column;
}

static bool is_apart(uint64_t first, uint64_t count, uint64_t other,
                     uint64_t other_count)
{
    return first + count <= other || other + other_count <= first;
}

static bool do_meet(const struct pen_tensor_piece *a,
                    const struct pen_tensor_piece *b)
{
    return pen_tensor_piece_count(a) > 0 && pen_tensor_piece_count(b) > 0 &&
           !is_apart(a->first_row, a->num_rows, b->first_row, b->num_rows) &&
           !is_apart(a->first_column, a->num_columns, b->first_column,
                     b->num_columns);
}

bool pen_tensor_pieces_tile(const struct pen_tensor_piece *whole,
                            const struct pen_tensor_piece *pieces, size_t count)
{
    uint64_t covered = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_inside(&pieces[i], whole))
            return false;
        for (size_t k = 0; k < i; k++)
            if (do_meet(&pieces[i], &pieces[k]))
                return false;
        covered += pen_tensor_piece_count(&pieces[i]);
    }
    return covered == pen_tensor_piece_count(whole);
}

/* Reads a piece of a matrix that is stored column by column. */
static void read_transposed(const struct pen_tensor_piece *piece,
                            const struct pen_safetensor *tensor, float *out)
{
    PEN_BUG_UNLESS(tensor->num_dims == 2 && tensor->dtype == PEN_DTYPE_F32);
    for (uint64_t row = 0; row < piece->num_rows; row++)
        for (uint64_t column = 0; column < piece->num_columns; column++) {
            uint64_t at = (piece->first_column + column) * tensor->shape[0] +
                          piece->first_row + row;
            memcpy(out++, tensor->bytes + at * sizeof *out, sizeof *out);
        }
}

void pen_tensor_piece_read(const struct pen_tensor_piece *piece,
                           const struct pen_safetensor *tensor, float *out)
{
    const struct pen_tensor_piece whole =
        pen_tensor_piece_whole(tensor->num_dims, tensor->shape);
    size_t width = pen_dtype_bits(tensor->dtype) / 8;
    uint64_t count = pen_tensor_piece_num_stretches(piece, &whole);
    PEN_BUG_UNLESS(is_inside(piece, &whole));
    if (tensor->is_transposed) {
        read_transposed(piece, tensor, out);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        struct pen_tensor_stretch it =
            pen_tensor_piece_stretch(piece, &whole, i);
        pen_dtype_to_float(tensor->dtype, tensor->bytes + it.first * width,
                           (size_t)it.count, out);
        out += it.count;
    }
}
