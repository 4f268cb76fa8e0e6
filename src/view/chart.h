#ifndef PEN_VIEW_CHART_H
#define PEN_VIEW_CHART_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Lines through marked points, of any two quantities, on paper (SVG, PNG, PDF).
 * All is borrowed; names are of any bytes.
 */
struct pen_chart_point {
    double x;
    double y; /* NaN: the line is broken here */
};

struct pen_chart_line {
    const char *name; /* in the legend */
    const struct pen_chart_point *points;
    size_t num_points;
};

struct pen_chart {
    const char *title;
    const char *x_name;
    const char *y_name;
    const struct pen_chart_line *lines;
    size_t num_lines;
    bool has_log_x;
    bool has_log_y; /* else the axis begins at 0 */
};

/* Refuses a name that does not end in .svg, .png or .pdf. */
pen_status pen_chart_check(const char *path, struct pen_text *why);

/* Writes what the ending of path asks for. */
pen_status pen_chart_draw(const struct pen_chart *chart, const char *path,
                          struct pen_text *why);

#endif
