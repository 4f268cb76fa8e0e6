/* Numbers that weights begin with; see fill.h. */
#include "network/fill.h"

#include "base/random.h"

enum { STREAM_STEP = 0x632be5ab }; /* odd, so that streams do not meet soon */

static struct pen_random stream_of(const struct pen__fill *fill, uint64_t seed)
{
    struct pen_random mixer = {
        .state = seed + (uint64_t)(fill->slice->tensor + 1) * STREAM_STEP};
    uint64_t state = pen_random_next(&mixer);
    if (fill->expert > 0) {
        mixer.state = state + (uint64_t)fill->expert * STREAM_STEP;
        state = pen_random_next(&mixer);
    }
    return (struct pen_random){.state = state};
}

/* An element of the tensor, if the slice has it. */
static void put(const struct pen__fill *fill, uint64_t row, uint64_t column,
                double value)
{
    const struct pen_tensor_piece *piece = &fill->slice->piece;
    row -= piece->first_row;
    column -= piece->first_column;
    if (row >= piece->num_rows || column >= piece->num_columns)
        return; /* what lies before the piece is a large number now, too */
    size_t at =
        fill->slice->first + (size_t)(row * piece->num_columns + column);
    if (fill->is_double)
        ((double *)fill->plain)[at] = value;
    else
        ((float *)fill->plain)[at] = (float)value;
}

void pen__fill_constant(const struct pen__fill *fill, double value)
{
    for (uint64_t row = 0; row < fill->whole.num_rows; row++)
        for (uint64_t i = 0; i < fill->whole.num_columns; i++)
            put(fill, row, i, value);
}

/* Draws normal numbers in pairs, which continue over the ends of rows. */
void pen__fill_normal(const struct pen__fill *fill, uint64_t seed,
                      double deviation)
{
    struct pen_random random = stream_of(fill, seed);
    double pair[2] = {0};
    bool is_second = true;
    for (uint64_t row = 0; row < fill->whole.num_rows; row++) {
        for (uint64_t i = 0; i < fill->whole.num_columns; i++) {
            is_second = !is_second;
            if (!is_second)
                pen_random_normals(&random, pair);
            put(fill, row, i, deviation * pair[is_second]);
        }
    }
}

void pen__fill_uniform(const struct pen__fill *fill, uint64_t seed,
                       double bound)
{
    struct pen_random random = stream_of(fill, seed);
    for (uint64_t row = 0; row < fill->whole.num_rows; row++)
        for (uint64_t i = 0; i < fill->whole.num_columns; i++)
            put(fill, row, i, bound * (2 * pen_random_unit(&random) - 1));
}
