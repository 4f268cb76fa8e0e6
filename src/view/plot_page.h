#ifndef PEN_VIEW_PLOT_PAGE_H
#define PEN_VIEW_PLOT_PAGE_H

#include "view/ink.h"
#include "view/plot_axis.h"

/*
 * A plot on paper, in points. From the top: the title, the loss, the speed,
 * the axis that both share, the legend.
 */
struct pen__plot_page {
    const struct pen__plot *plot; /* borrowed */
    struct pen__axis x;
    struct pen__axis y[PEN__CHARTS];
    struct pen__box boxes[PEN__CHARTS];
    double width;
    double height;
    double legend_y;
};

/*
 * Return the colours of a run. Hues are safe for colour-blind readers; marks
 * differ, too.
 */
struct pen__colour pen__run_colour(size_t index);
struct pen__colour pen__run_text_colour(size_t index);

/* Adds the outline of the run's mark around (x, y) to the path. */
void pen__run_mark(struct pen__canvas *canvas, size_t index, double x, double y,
                   double size);

/* Hundredths of a point are exact enough, and short in an SVG. */
double pen__snap(double points);

/* Draws lines at the ticks of both axes, and the labels of the vertical one. */
void pen__guides_draw(struct pen__canvas *canvas, const struct pen__box *box,
                      const struct pen__axis *x, const struct pen__axis *y);

/* Writes the labels of the horizontal axis under the box, and its name. */
void pen__x_axis_write(struct pen__canvas *canvas, const struct pen__box *box,
                       const struct pen__axis *x, const char *name);

/* Draws a chart with its guides, curves and, next to it, their last values. */
void pen__chart_draw(struct pen__canvas *canvas,
                     const struct pen__plot_page *page,
                     enum pen__chart_kind kind);

#endif
