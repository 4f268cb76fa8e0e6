#ifndef PEN_VIEW_PLOT_AXIS_H
#define PEN_VIEW_PLOT_AXIS_H

#include "view/plot_curves.h"

/*
 * An axis with ticks at round numbers: multiples of 1, 2 or 5 times a power of
 * ten, or, where it is logarithmic, powers of ten and what lies between.
 */

#define PEN__TICKS_MAX 32u

struct pen__axis {
    double from;
    double to; /* more than from */
    bool is_log;
    double ticks[PEN__TICKS_MAX];
    size_t num_ticks;
    double step; /* between ticks; 0: they are not evenly spaced */
};

enum pen__axis_kind {
    PEN__AXIS_COUNT, /* of whole numbers, from 0 if they begin near it */
    PEN__AXIS_TIGHT, /* the same of any numbers */
    PEN__AXIS_LOOSE, /* some room above and below the values */
    PEN__AXIS_ZERO,  /* from 0, some room above */
    PEN__AXIS_LOG
};

/* Return the kinds of axis that suit a plot. */
enum pen__axis_kind pen__plot_x_axis(const struct pen__plot *plot);
enum pen__axis_kind pen__plot_y_axis(const struct pen__plot *plot,
                                     enum pen__chart_kind kind);

/*
 * Makes an axis with about `most_ticks` ticks. An empty range, or one value, is
 * fine.
 */
void pen__axis_init(struct pen__axis *axis, enum pen__axis_kind kind,
                    struct pen__range range, unsigned most_ticks);

/* Returns where the value is: 0 at the beginning of the axis, 1 at its end. */
double pen__axis_share(const struct pen__axis *axis, double value);

#define PEN__NUMBER_SIZE 32

/*
 * Writes the label of a tick, with as many digits as the ticks need; large
 * numbers as 20k, 1.5M.
 */
void pen__axis_label(const struct pen__axis *axis, size_t tick,
                     char label[PEN__NUMBER_SIZE]);

/* Prints a number in four digits: 2.131, 13.1k. */
void pen__print_value(double value, char text[PEN__NUMBER_SIZE]);

#endif
