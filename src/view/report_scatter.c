/*
 * Points in a plane. The front is joined by steps: between two of its points
 * there is nothing better than the one that is already reached.
 */
#include "view/report_plane.h"

#include <math.h>

#define RIGHT 40.0
#define PLOT_HEIGHT 300.0
#define BOTTOM 74.0
#define RADIUS 5.0
#define LABEL_HEIGHT 16.0
#define LABEL_SHARE 0.06 /* of the axis, for the first label */

struct plane {
    const struct pen_report_scatter *scatter;
    struct pen__plane axes;
};

static size_t num_drawn(const struct pen_report_series *series)
{
    return series->num_points < PEN_REPORT_MAX_POINTS ? series->num_points
                                                      : PEN_REPORT_MAX_POINTS;
}

/* Returns false when there is no point. */
static bool init_axes(struct plane *plane)
{
    struct pen__range x = {INFINITY, -INFINITY};
    struct pen__range y = {INFINITY, -INFINITY};
    for (size_t i = 0; i < plane->scatter->num_series; i++) {
        const struct pen_report_series *series = &plane->scatter->series[i];
        for (size_t k = 0; k < num_drawn(series); k++) {
            pen__range_widen(&x, series->points[k].x);
            pen__range_widen(&y, series->points[k].y);
        }
    }
    if (x.most < x.least)
        return false;
    x.least -= LABEL_SHARE * (x.most - x.least);
    pen__axis_init(&plane->axes.x_axis, PEN__AXIS_LOOSE, x, 9);
    pen__axis_init(&plane->axes.y_axis, PEN__AXIS_LOOSE, y, 6);
    return true;
}

/* Draws the front: along, then up or down, from each point to the next. */
static void draw_front(const struct plane *plane,
                       const struct pen_report_series *series)
{
    pen_text_add_string(plane->axes.out, "<path class=\"front\" d=\"");
    for (size_t i = 0; i < num_drawn(series); i++) {
        double x = pen__plane_x(&plane->axes, series->points[i].x);
        double y = pen__plane_y(&plane->axes, series->points[i].y);
        if (i == 0)
            pen_text_add(plane->axes.out, "M%.1f %.1f", x, y);
        else
            pen_text_add(plane->axes.out, "H%.1fV%.1f", x, y);
    }
    pen_text_add_string(plane->axes.out, "\"/>\n");
}

static void draw_dot(struct pen_text *out, double x, double y, bool is_front)
{
    pen_text_add(out,
                 "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.0f\">",
                 is_front ? "dot best" : "dot", x, y, RADIUS);
}

/* Returns whether a label would not cover that of an earlier point. */
static bool has_room(const struct plane *plane,
                     const struct pen_report_series *series, size_t index)
{
    const struct pen_report_point *point = &series->points[index];
    double width = pen__letters_width(point->label) + RADIUS;
    for (size_t i = 0; i < index; i++) {
        const struct pen_report_point *other = &series->points[i];
        double x = fabs(pen__plane_x(&plane->axes, point->x) -
                        pen__plane_x(&plane->axes, other->x));
        double y = fabs(pen__plane_y(&plane->axes, point->y) -
                        pen__plane_y(&plane->axes, other->y));
        if (x < width && y < LABEL_HEIGHT)
            return false;
    }
    return true;
}

/* Draws a label to the lower left, where the front has no points. */
static void draw_label(const struct plane *plane,
                       const struct pen_report_series *series, size_t index)
{
    const struct pen_report_point *point = &series->points[index];
    if (point->label == NULL || !has_room(plane, series, index))
        return;
    pen__chart_write(plane->axes.out,
                     pen__plane_x(&plane->axes, point->x) - RADIUS - 2,
                     pen__plane_y(&plane->axes, point->y) + RADIUS + 9,
                     PEN__END, NULL, point->label);
}

static void draw_point(const struct plane *plane,
                       const struct pen_report_point *point, bool is_front)
{
    double x = pen__plane_x(&plane->axes, point->x);
    double y = pen__plane_y(&plane->axes, point->y);
    draw_dot(plane->axes.out, x, y, is_front);
    if (point->note != NULL) {
        pen_text_add_string(plane->axes.out, "<title>");
        pen__html_add(plane->axes.out, point->note);
        pen_text_add_string(plane->axes.out, "</title>");
    }
    pen_text_add_string(plane->axes.out, "</circle>\n");
}

static void draw_legend(const struct plane *plane)
{
    double x = PEN__PLANE_LEFT + RADIUS;
    double y = pen__plane_bottom(&plane->axes) + 60;
    for (size_t i = 0; i < plane->scatter->num_series; i++) {
        const struct pen_report_series *series = &plane->scatter->series[i];
        draw_dot(plane->axes.out, x, y - 4, series->is_front);
        pen_text_add_string(plane->axes.out, "</circle>\n");
        pen__chart_write(plane->axes.out, x + 12, y, PEN__START, NULL,
                         series->name);
        x += 12 + pen__letters_width(series->name) + 24;
    }
}

void pen__scatter_print(const struct pen_report_scatter *scatter,
                        struct pen_text *out)
{
    struct plane plane = {.scatter = scatter,
                          .axes = {.out = out,
                                   .right_margin = RIGHT,
                                   .height = PLOT_HEIGHT,
                                   .x_name = scatter->x_name,
                                   .y_name = scatter->y_name}};
    if (!init_axes(&plane))
        return;
    pen__chart_begin(out, pen__plane_bottom(&plane.axes) + BOTTOM,
                     scatter->y_name);
    pen__plane_draw(&plane.axes);
    for (size_t i = scatter->num_series; i-- > 0;) {
        const struct pen_report_series *series = &scatter->series[i];
        if (series->is_front)
            draw_front(&plane, series);
        for (size_t k = 0; k < num_drawn(series); k++)
            draw_point(&plane, &series->points[k], series->is_front);
        for (size_t k = 0; k < num_drawn(series); k++)
            draw_label(&plane, series, k);
    }
    draw_legend(&plane);
    pen__chart_end(out);
}
