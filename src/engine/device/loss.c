/* Cross entropy: stats of rows, gradients, and a sum of fixed order. */
#include "engine/device/device.h"

static struct pen__entropy_sizes
sizes_of(const struct pen_cross_entropy *entropy, size_t rows)
{
    return (struct pen__entropy_sizes){.rows = (long)rows,
                                       .classes = (long)entropy->classes,
                                       .first = entropy->first,
                                       .ignore = entropy->ignore,
                                       .count = (float)entropy->count};
}

/* A part of the rows, with what is kept of each of them. */
struct span {
    size_t first;
    size_t rows;
    const int32_t *targets;
    const float *stats;
    void *logits;
};

static struct span span_at(const struct pen_engine *engine,
                           const struct pen_cross_entropy *entropy,
                           const int32_t *targets, void *logits, size_t first)
{
    size_t left = entropy->rows - first;
    return (struct span){
        .first = first,
        .rows =
            left < PEN__DEVICE_ENTROPY_ROWS ? left : PEN__DEVICE_ENTROPY_ROWS,
        .targets = targets + first,
        .logits = (char *)logits + first * entropy->classes *
                                       pen_precision_bytes(engine->dtype)};
}

static void finish_span(
    struct pen_engine *engine, const struct pen_cross_entropy *entropy,
    const struct span *span, bool with_gradient,
    /* NOLINTNEXTLINE(readability-non-const-parameter): kernels write there */
    double *loss)
{
    struct pen__device_fixed *fixed = pen__device_of(engine)->fixed;
    struct pen__entropy_sizes sizes = sizes_of(entropy, span->rows);
    sizes.with_gradient = with_gradient;
    sizes.with_loss = loss != NULL;
    pen__launch(
        engine, PEN__KERNEL_entropy_finish, (long)span->rows,
        PEN__AT(span->targets, span->stats, span->logits, fixed->losses),
        &sizes);
    if (loss == NULL)
        return;
    const struct pen__sum_sizes sum = {.count = (long)span->rows,
                                       .divisor = entropy->count,
                                       .is_first = span->first == 0};
    pen__launch(engine, PEN__KERNEL_sum_numbers, 1,
                PEN__AT(fixed->losses, &fixed->total, loss), &sum);
}

static void cross_entropy(struct pen_engine *engine,
                          const struct pen_cross_entropy *entropy,
                          const int32_t *targets, void *logits,
                          bool with_gradient, double *loss)
{
    struct pen__device_fixed *fixed = pen__device_of(engine)->fixed;
    for (size_t first = 0; first < entropy->rows;
         first += PEN__DEVICE_ENTROPY_ROWS) {
        struct span span = span_at(engine, entropy, targets, logits, first);
        span.stats = fixed->stats;
        const struct pen__entropy_sizes sizes = sizes_of(entropy, span.rows);
        pen__launch(engine, PEN__KERNEL_entropy_measure, (long)span.rows,
                    PEN__AT(span.targets, span.logits, fixed->stats), &sizes);
        finish_span(engine, entropy, &span, with_gradient, loss);
    }
}

static void entropy_measure(struct pen_engine *engine,
                            const struct pen_cross_entropy *entropy,
                            const int32_t *targets, const void *logits,
                            void *stats)
{
    const struct pen__entropy_sizes sizes = sizes_of(entropy, entropy->rows);
    pen__launch(engine, PEN__KERNEL_entropy_measure, (long)entropy->rows,
                PEN__AT(targets, logits, stats), &sizes);
}

static void entropy_join(struct pen_engine *engine, size_t rows,
                         const void *from, void *stats)
{
    const struct pen__entropy_sizes sizes = {.rows = (long)rows};
    pen__launch(engine, PEN__KERNEL_entropy_join, pen__groups(rows, PEN__SHARE),
                PEN__AT(from, stats), &sizes);
}

static void entropy_finish(struct pen_engine *engine,
                           const struct pen_cross_entropy *entropy,
                           const int32_t *targets, const void *stats,
                           void *logits, bool with_gradient, double *loss)
{
    for (size_t first = 0; first < entropy->rows;
         first += PEN__DEVICE_ENTROPY_ROWS) {
        struct span span = span_at(engine, entropy, targets, logits, first);
        span.stats = (const float *)stats + first * 3;
        finish_span(engine, entropy, &span, with_gradient, loss);
    }
}

void pen__device_set_loss(struct pen_engine_ops *ops)
{
    ops->cross_entropy = cross_entropy;
    ops->entropy_measure = entropy_measure;
    ops->entropy_join = entropy_join;
    ops->entropy_finish = entropy_finish;
}
