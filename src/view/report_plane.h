#ifndef PEN_VIEW_REPORT_PLANE_H
#define PEN_VIEW_REPORT_PLANE_H

#include "view/plot_axis.h"
#include "view/report_internal.h"

/*
 * Two axes of a chart with their guides: the name of the one upwards above it,
 * that of the other below its end.
 */
struct pen__plane {
    struct pen_text *out;
    double right_margin; /* of the chart; the left one is the same for all */
    double height;       /* between the axes' ends */
    const char *x_name;
    const char *y_name;
    struct pen__axis x_axis;
    struct pen__axis y_axis;
};

#define PEN__PLANE_LEFT 70.0
#define PEN__PLANE_TOP 26.0

/* Return the place of a value in the chart. */
double pen__plane_x(const struct pen__plane *plane, double value);
double pen__plane_y(const struct pen__plane *plane, double value);

/* Returns the bottom end of the axes, where the rest of the chart begins. */
double pen__plane_bottom(const struct pen__plane *plane);

void pen__plane_draw(const struct pen__plane *plane);

#endif
