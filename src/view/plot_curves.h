#ifndef PEN_VIEW_PLOT_CURVES_H
#define PEN_VIEW_PLOT_CURVES_H

#include "view/plot.h"

/*
 * The contents of a plot, before any decision about pixels or characters: for
 * every run the points of its curves, smoothed and thinned, and the ranges over
 * all.
 */

struct pen__point {
    double x;
    double y; /* NaN: the line is broken here */
};

struct pen__curve {
    struct pen__point *points;
    size_t count;
};

/* least > most: there is nothing. */
struct pen__range {
    double least;
    double most;
};

/* Takes in the value; NaN changes nothing. */
void pen__range_widen(struct pen__range *range, double value);

enum pen__chart_kind { PEN__CHART_LOSS, PEN__CHART_SPEED, PEN__CHARTS };

struct pen__plot_run {
    struct pen__curve lines[PEN__CHARTS];
    struct pen__curve
        faint[PEN__CHARTS];  /* as logged, drawn under a smoothed line */
    struct pen__curve marks; /* where the loss was validated */
};

struct pen__plot {
    const struct pen_plot_item *items; /* borrowed */
    size_t count;
    struct pen_plot_options options;
    struct pen__plot_run *runs; /* one per item */
    struct pen__range x;
    struct pen__range y[PEN__CHARTS];
    const char *x_name; /* with its unit */
};

/*
 * Thins the curves to what a plot of this many columns can show: of each column
 * the first, the least, the most and the last point stay.
 */
pen_status pen__plot_init(struct pen__plot *plot,
                          const struct pen_plot_item *items, size_t count,
                          const struct pen_plot_options *options,
                          double columns, struct pen_text *why);
void pen__plot_release(struct pen__plot *plot);

/* Returns the last point; NULL: there is none. */
const struct pen__point *pen__curve_last(const struct pen__curve *curve);

/*
 * Replaces each y by the mean over those around it, `window` in all; fewer at
 * the ends, and gaps stay gaps.
 */
pen_status pen__curve_smooth(struct pen__curve *curve, uint32_t window);

void pen__curve_thin(struct pen__curve *curve, struct pen__range x,
                     double columns);

/* Adds the title, fit for pictures and terminals. */
void pen__plot_add_title(const struct pen__plot *plot, struct pen_text *out);

/* Adds "loss 2.131, validated 2.215, 1310 tokens/s at step 600". */
void pen__plot_add_words(const struct pen__plot *plot, size_t index,
                         struct pen_text *out);

/* Adds "loss" or "tokens/s", and the smoothing. */
void pen__plot_add_chart_name(const struct pen__plot *plot,
                              enum pen__chart_kind kind, struct pen_text *out);

#endif
