/*
 * The optimizers, the bf16 copy of a weight, and the norm of a gradient; float
 * whatever the dtype, and compiled for each level of the instruction set.
 */
#include "base/bug.h"
#include "engine/bf16.h"
#include "engine/onednn/isa.h"
#include "engine/onednn/onednn.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/*
 * A piece of a parameter: `runs` times `length` elements, `stride` apart. Flat
 * where nothing depends on rows; else a part of a block of the bf16 copy, with
 * runs long enough for the memory's prefetching and all of it in cache.
 */
struct piece {
    size_t first; /* element, row and column */
    size_t row;
    size_t column;
    size_t runs;
    size_t length;
    size_t stride;
};

enum { FLAT_PIECE = 8192, BLOCK_COLUMNS = 512, TILE_COLUMNS = 32 };

static bool is_blocked(const struct pen_parameter *parameter)
{
    return parameter->lanes > 1;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t parts_of(size_t count, size_t part)
{
    return (count + part - 1) / part;
}

static size_t num_pieces(const struct pen_parameter *parameter)
{
    return is_blocked(parameter)
               ? parts_of(parameter->shape.rows, parameter->lanes) *
                     parts_of(parameter->shape.columns, BLOCK_COLUMNS)
               : parts_of(parameter->count, FLAT_PIECE);
}

static struct piece piece_at(const struct pen_parameter *parameter,
                             size_t number)
{
    struct piece piece = {0};
    if (!is_blocked(parameter)) {
        piece.first = number * FLAT_PIECE;
        piece.runs = 1;
        piece.length = smaller(parameter->count - piece.first, FLAT_PIECE);
        return piece;
    }
    size_t columns = parameter->shape.columns;
    size_t across = parts_of(columns, BLOCK_COLUMNS);
    piece.row = number / across * parameter->lanes;
    piece.column = number % across * BLOCK_COLUMNS;
    piece.first = piece.row * columns + piece.column;
    piece.runs = smaller(parameter->shape.rows - piece.row, parameter->lanes);
    piece.length = smaller(columns - piece.column, BLOCK_COLUMNS);
    piece.stride = columns;
    return piece;
}

static void round_run(size_t count, const float *value, uint16_t *half)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        half[i] = pen_bf16_from_float(value[i]);
}

/*
 * Some columns of a block: each row is rounded, then pairs of columns of all
 * rows are laid side by side. Rows that the block lacks stay zero.
 */
static void write_tile(size_t lanes, size_t runs, size_t stride, size_t columns,
                       const float *value, uint32_t *out)
{
    union {
        uint16_t halves[PEN__MAX_LANES][TILE_COLUMNS];
        uint32_t pairs[PEN__MAX_LANES][TILE_COLUMNS / 2];
    } tile;
    for (size_t run = 0; run < runs; run++) {
        if (columns == TILE_COLUMNS) {
            round_run(TILE_COLUMNS, value + run * stride, tile.halves[run]);
        } else {
            round_run(columns, value + run * stride, tile.halves[run]);
            tile.halves[run][columns] = 0; /* the other of an odd last one */
        }
    }
    for (size_t pair = 0; pair < parts_of(columns, 2); pair++) {
#pragma omp simd
        for (size_t run = 0; run < runs; run++)
            out[pair * lanes + run] = tile.pairs[run][pair];
    }
}

static void write_half(struct pen_parameter *parameter,
                       const struct piece *piece)
{
    const float *value = parameter->parts[PEN_PART_VALUE] + piece->first;
    if (!is_blocked(parameter)) {
        round_run(piece->length, value, parameter->half + piece->first);
        return;
    }
    size_t lanes = parameter->lanes;
    uint16_t *block =
        parameter->half + piece->row / lanes * parameter->half_block;
    for (size_t at = 0; at < piece->length; at += TILE_COLUMNS)
        write_tile(lanes, piece->runs, piece->stride,
                   smaller(piece->length - at, TILE_COLUMNS), value + at,
                   (uint32_t *)(block + (piece->column + at) * lanes));
}

static void parameter_value_changed(struct pen_engine *engine,
                                    struct pen_parameter *parameter)
{
    if (parameter->half == NULL)
        return;
    if (parameter->is_value_placed && parameter->half_count > parameter->count)
        memset(parameter->half, 0,
               parameter->half_count * sizeof *parameter->half);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t number = 0; number < num_pieces(parameter); number++) {
        struct piece piece = piece_at(parameter, number);
        write_half(parameter, &piece);
    }
}

/* The factors of AdamW, in float. */
struct adamw_factors {
    float rate;       /* learning rate / (1 - beta1^step) */
    float correction; /* 1 / sqrt(1 - beta2^step) */
    float keep;       /* 1 - learning rate * decay */
    float beta1;
    float beta2;
    float epsilon;
    float scale;
};

static void adamw_run(struct adamw_factors with, size_t count,
                      const float *gradient, float *value, float *first,
                      float *second)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float slope = gradient[i] * with.scale;
        float mean = with.beta1 * first[i] + (1 - with.beta1) * slope;
        float square =
            with.beta2 * second[i] + (1 - with.beta2) * slope * slope;
        first[i] = mean;
        second[i] = square;
        value[i] =
            with.keep * value[i] -
            with.rate * mean / (sqrtf(square) * with.correction + with.epsilon);
    }
}

static void adamw_step(struct pen_engine *engine,
                       struct pen_parameter *parameter,
                       const struct pen_adamw *adamw)
{
    PEN_BUG_UNLESS(parameter->shape.moments == 2);
    double steps = (double)adamw->step;
    struct adamw_factors with = {
        .rate = (float)(adamw->learning_rate / (1 - pow(adamw->beta1, steps))),
        .correction = (float)(1 / sqrt(1 - pow(adamw->beta2, steps))),
        .keep = (float)(1 - adamw->learning_rate * adamw->weight_decay),
        .beta1 = (float)adamw->beta1,
        .beta2 = (float)adamw->beta2,
        .epsilon = (float)adamw->epsilon,
        .scale = (float)adamw->gradient_scale};
    const float *gradient = pen__gradient(parameter);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t number = 0; number < num_pieces(parameter); number++) {
        struct piece piece = piece_at(parameter, number);
        for (size_t run = 0; run < piece.runs; run++) {
            size_t at = piece.first + run * piece.stride;
            adamw_run(with, piece.length, gradient + at,
                      parameter->parts[PEN_PART_VALUE] + at,
                      parameter->parts[PEN_PART_MOMENT1] + at,
                      parameter->parts[PEN_PART_MOMENT2] + at);
        }
        if (parameter->half != NULL)
            write_half(parameter, &piece);
    }
}

static void sgd_run(const struct pen_sgd *sgd, size_t count,
                    const float *gradient, float *value, float *moment)
{
    float rate = (float)sgd->learning_rate;
    float momentum = (float)sgd->momentum;
    float scale = (float)sgd->gradient_scale;
    float decay = (float)sgd->weight_decay;
    if (moment == NULL) {
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            value[i] -= rate * (gradient[i] * scale + decay * value[i]);
        return;
    }
    float direct = sgd->is_nesterov ? 1 : 0;
    float carried = sgd->is_nesterov ? momentum : 1;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float slope = gradient[i] * scale + decay * value[i];
        float now = momentum * moment[i] + slope;
        moment[i] = now;
        value[i] -= rate * (direct * slope + carried * now);
    }
}

static void sgd_step(struct pen_engine *engine, struct pen_parameter *parameter,
                     const struct pen_sgd *sgd)
{
    PEN_BUG_UNLESS(sgd->momentum == 0 || parameter->shape.moments >= 1);
    float *moment =
        sgd->momentum == 0 ? NULL : parameter->parts[PEN_PART_MOMENT1];
    const float *gradient = pen__gradient(parameter);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t number = 0; number < num_pieces(parameter); number++) {
        struct piece piece = piece_at(parameter, number);
        for (size_t run = 0; run < piece.runs; run++) {
            size_t at = piece.first + run * piece.stride;
            sgd_run(sgd, piece.length, gradient + at,
                    parameter->parts[PEN_PART_VALUE] + at,
                    moment == NULL ? NULL : moment + at);
        }
        if (parameter->half != NULL)
            write_half(parameter, &piece);
    }
}

/* A row may be named twice, so threads share out the columns. */
static void gradient_add_rows(struct pen_engine *engine,
                              struct pen_parameter *parameter, int32_t base,
                              size_t count, const int32_t *rows,
                              const void *from)
{
    enum { COLUMNS = 64 };
    size_t width = parameter->shape.columns;
    float *gradient = pen__gradient(parameter);
    const float *gathered = from;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t first = 0; first < width; first += COLUMNS) {
        size_t end = first + COLUMNS > width ? width : first + COLUMNS;
        for (size_t row = 0; row < count; row++) {
            const float *in = gathered + row * width;
            size_t at = (size_t)(rows[row] - base);
            if (at >= parameter->shape.rows)
                continue;
            float *to = gradient + at * width;
#pragma omp simd
            for (size_t i = first; i < end; i++)
                to[i] += in[i];
        }
    }
}

/* Sums of 64 shares of the array, whose bounds depend on its length alone. */
static void gradient_sum_squares(struct pen_engine *engine,
                                 struct pen_parameter *parameter, double *out)
{
    enum { SHARES = 64 };
    double sums[SHARES] = {0};
    const float *gradient = pen__gradient(parameter);
    size_t share = (parameter->count + SHARES - 1) / SHARES;
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t at = 0; at < SHARES; at++) {
        size_t end = (at + 1) * share;
        double sum = 0;
        end = end < parameter->count ? end : parameter->count;
#pragma omp simd reduction(+ : sum)
        for (size_t i = at * share; i < end; i++)
            sum += (double)gradient[i] * (double)gradient[i];
        sums[at] = sum;
    }
    double total = 0;
    for (size_t at = 0; at < SHARES; at++)
        total += sums[at];
    *out = total;
}

void PEN__FOR_ISA(pen__update_fill)(struct pen_engine_ops *ops)
{
    ops->parameter_value_changed = parameter_value_changed;
    ops->adamw_step = adamw_step;
    ops->sgd_step = sgd_step;
    ops->gradient_add_rows = gradient_add_rows;
    ops->gradient_sum_squares = gradient_sum_squares;
}
