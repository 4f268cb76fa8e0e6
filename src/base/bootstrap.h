#ifndef PEN_BASE_BOOTSTRAP_H
#define PEN_BASE_BOOTSTRAP_H

#include "base/status.h"

#include <stdint.h>

/* A figure with its 95 % interval. */
struct pen_interval {
    double low;
    double middle; /* the figure of the sample itself */
    double high;
};

/*
 * A figure of a sample: items picks[0] to picks[count - 1] of those that the
 * context has, some of them perhaps more than once. May be infinite, not NaN.
 */
typedef double pen_bootstrap_figure(void *context, const uint32_t *picks,
                                    uint32_t count);

/*
 * Percentiles of the figure over 10,000 samples that are drawn with
 * replacement from `count` items. The same seed draws the same samples, so
 * that two figures with it are paired. NOMEM is the only failure.
 */
pen_status pen_bootstrap(pen_bootstrap_figure *figure, void *context,
                         uint32_t count, uint64_t seed,
                         struct pen_interval *out);

#endif
