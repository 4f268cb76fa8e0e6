#ifndef PEN_ENGINE_ONEDNN_ROWS_H
#define PEN_ENGINE_ONEDNN_ROWS_H

#include "engine/engine.h"
#include "engine/onednn/causal.h"

/*
 * Operations that work row by row. One source per concern, compiled for each
 * element type and each level of the instruction set; the best one that the
 * machine has is chosen when the engine is made.
 *
 * Work is shared out so that no number depends on how many threads there are:
 * a row, a column or a fixed piece of an array belongs to one thread.
 */

struct pen__rows {
    void (*fill)(struct pen_engine_ops *ops);

    /* to[i] += sum over the rows of x[row][i], x of the dtype */
    void (*add_columns)(const struct pen_engine *engine, size_t rows,
                        size_t width, const void *x, float *to);
    /* to[channel] += sum over images and positions, x of the dtype */
    void (*add_channels)(const struct pen_engine *engine, size_t batch,
                         size_t channels, size_t positions, const void *x,
                         float *to);

    /* y = bias + add, for a product to be added to; either may be NULL */
    void (*begin)(const struct pen_engine *engine, size_t rows, size_t width,
                  const float *bias, const void *add, void *y);

    /* These run inside one thread. Copies to or from rows `stride` apart. */
    void (*gather)(size_t rows, size_t width, size_t stride, const void *from,
                   void *to);
    void (*scatter)(size_t rows, size_t width, size_t stride, const float *from,
                    void *to);

    /*
     * Probabilities (of the dtype; may be the scores) and lse[query]. The
     * scores are overwritten in any case.
     */
    void (*softmax)(const struct pen__scores *block, float *scores,
                    void *probabilities, float *lse);
    /*
     * Probabilities again from lse, and the slopes of the scores from those of
     * the probabilities; both of the dtype, both may take the place of their
     * source. The scores are overwritten in any case.
     */
    void (*softmax_slope)(const struct pen__scores *block, const float *lse,
                          float *scores, const float *dprobabilities,
                          void *probabilities, void *dscores);
};

/* Returns the functions for this machine. */
const struct pen__rows *pen__rows_choose(enum pen_precision dtype);

/* Optimizer and gradient norm, the same for all dtypes. */
void pen__update_choose(struct pen_engine_ops *ops);

#endif
