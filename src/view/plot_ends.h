#ifndef PEN_VIEW_PLOT_ENDS_H
#define PEN_VIEW_PLOT_ENDS_H

#include "view/plot_axis.h"

/* The last value of a curve, written next to the chart. */
struct pen__end {
    double y;     /* from the top of the chart */
    size_t index; /* of the run */
    bool is_mark; /* of the validated loss */
    char text[PEN__NUMBER_SIZE];
};

/*
 * Finds the ends of all curves of a chart of this height and moves them apart
 * until they are at least `pitch` from each other, in the order of their
 * values. *out has *count of them and is to be freed; there are none when they
 * would not fit, as the legend has them all, or when memory ran out.
 */
void pen__ends_make(const struct pen__plot *plot, enum pen__chart_kind kind,
                    const struct pen__axis *axis, double height, double pitch,
                    struct pen__end **out, size_t *count);

#endif
