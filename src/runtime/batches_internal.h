#ifndef PEN_RUNTIME_BATCHES_INTERNAL_H
#define PEN_RUNTIME_BATCHES_INTERNAL_H

#include "runtime/batches.h"

/* A source of samples as its readers use it. */
struct pen__batches_ops {
    const char *unit;
    void (*free)(struct pen_batches *batches);
    uint64_t (*epoch)(const struct pen_batches *batches);
    /* One sample, to where *to points. */
    pen_status (*read)(struct pen_batches *batches, uint64_t sample,
                       const struct pen_batch *to, struct pen_text *why);
};

/* The head of every source's own struct. */
struct pen_batches {
    const struct pen__batches_ops *ops;
    struct pen_sample_shape shape;
};

#endif
