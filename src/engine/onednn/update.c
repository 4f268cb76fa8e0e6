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

enum { PLAIN_PIECE = 1024 };

/* Pieces are contiguous in the float parts, and in the bf16 copy. */
static size_t piece_size(const struct pen_parameter *parameter)
{
    return parameter->lanes == 1 ? PLAIN_PIECE
                                 : PEN__PIECE_COLUMNS * parameter->lanes;
}

static size_t piece_count(const struct pen_parameter *parameter, size_t first)
{
    size_t left = parameter->count - first;
    return left < piece_size(parameter) ? left : piece_size(parameter);
}

/* Float columns c and c + 1 become pairs: a[c] a[c+1] b[c] b[c+1] ... */
static void write_pairs(size_t lanes, const float *value, uint16_t *half)
{
    for (size_t column = 0; column < PEN__PIECE_COLUMNS; column += 2) {
        const float *even = value + column * lanes;
        const float *odd = even + lanes;
        uint16_t *out = half + column * lanes;
#pragma omp simd
        for (size_t lane = 0; lane < lanes; lane++) {
            out[2 * lane] = pen_bf16_from_float(even[lane]);
            out[2 * lane + 1] = pen_bf16_from_float(odd[lane]);
        }
    }
}

static void write_half(struct pen_parameter *parameter, size_t first)
{
    const float *value = parameter->parts[PEN_PART_VALUE] + first;
    if (parameter->lanes > 1) {
        size_t block = first / parameter->block;
        write_pairs(parameter->lanes, value,
                    parameter->half + block * parameter->half_block +
                        first % parameter->block);
        return;
    }
    size_t count = piece_count(parameter, first);
    uint16_t *half = parameter->half + first;
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        half[i] = pen_bf16_from_float(value[i]);
}

static void parameter_value_changed(struct pen_engine *engine,
                                    struct pen_parameter *parameter)
{
    if (parameter->half == NULL)
        return;
    size_t size = piece_size(parameter);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t first = 0; first < parameter->count; first += size)
        write_half(parameter, first);
}

/* What AdamW multiplies with, in float. */
struct adamw_factors {
    float rate;       /* learning rate / (1 - beta1^step) */
    float correction; /* 1 / sqrt(1 - beta2^step) */
    float keep;       /* 1 - learning rate * decay */
    float beta1;
    float beta2;
    float epsilon;
    float scale;
};

static void adamw_piece(struct adamw_factors with, size_t count,
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
    size_t size = piece_size(parameter);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t first = 0; first < parameter->count; first += size) {
        adamw_piece(with, piece_count(parameter, first), gradient + first,
                    parameter->parts[PEN_PART_VALUE] + first,
                    parameter->parts[PEN_PART_MOMENT1] + first,
                    parameter->parts[PEN_PART_MOMENT2] + first);
        if (parameter->half != NULL)
            write_half(parameter, first);
    }
}

static void sgd_piece(const struct pen_sgd *sgd, size_t count,
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
    size_t size = piece_size(parameter);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t first = 0; first < parameter->count; first += size) {
        sgd_piece(sgd, piece_count(parameter, first), gradient + first,
                  parameter->parts[PEN_PART_VALUE] + first,
                  moment == NULL ? NULL : moment + first);
        if (parameter->half != NULL)
            write_half(parameter, first);
    }
}

/* A row may be named twice, so threads share out the columns. */
static void gradient_add_rows(struct pen_engine *engine,
                              struct pen_parameter *parameter, size_t count,
                              const int32_t *rows, struct pen_parameter *from)
{
    enum { COLUMNS = 64 };
    size_t width = parameter->shape.columns;
    size_t step = parameter->lanes;
    float *gradient = pen__gradient(parameter);
    const float *gathered = pen__gradient(from);
#pragma omp parallel for num_threads(engine->threads) schedule(static)
    for (size_t first = 0; first < width; first += COLUMNS) {
        size_t end = first + COLUMNS > width ? width : first + COLUMNS;
        for (size_t row = 0; row < count; row++) {
            const float *in = gathered + row * width;
            float *to =
                gradient + pen__parameter_at(parameter, (size_t)rows[row], 0);
            for (size_t i = first; i < end; i++)
                to[i * step] += in[i];
        }
    }
}

/* Sums of 64 shares of the array, whose bounds depend on its length alone. */
static double gradient_sum_squares(struct pen_engine *engine,
                                   struct pen_parameter *parameter)
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
    return total;
}

void PEN__FOR_ISA(pen__update_fill)(struct pen_engine_ops *ops)
{
    ops->parameter_value_changed = parameter_value_changed;
    ops->adamw_step = adamw_step;
    ops->sgd_step = sgd_step;
    ops->gradient_add_rows = gradient_add_rows;
    ops->gradient_sum_squares = gradient_sum_squares;
}
