/*
 * Points in a plane. The front is joined by steps: between two of its points
 * there is nothing better than the one that is already reached.
 */
#include "view/plot_axis.h"
#include "view/report_internal.h"

#include <math.h>

#define LEFT 70.0
#define TOP 26.0
#define RIGHT 40.0
#define PLOT_HEIGHT 300.0
#define BOTTOM 74.0
#define RADIUS 5.0
#define LABEL_HEIGHT 16.0
#define LABEL_SHARE 0.06 /* of the axis, for the first label */

struct plane {
    const struct pen_report_scatter *scatter;
    struct pen_text *out;
    struct pen__axis x_axis;
    struct pen__axis y_axis;
};

static size_t num_drawn(const struct pen_report_series *series)
{
    return series->num_points < PEN_REPORT_MAX_POINTS ? series->num_points
                                                      : PEN_REPORT_MAX_POINTS;
}

static void widen(struct pen__range *range, double value)
{
    range->least = fmin(range->least, value);
    range->most = fmax(range->most, value);
}

/* False when there is no point. */
static bool init_axes(struct plane *plane)
{
    struct pen__range x = {INFINITY, -INFINITY};
    struct pen__range y = {INFINITY, -INFINITY};
    for (size_t i = 0; i < plane->scatter->num_series; i++) {
        const struct pen_report_series *series = &plane->scatter->series[i];
        for (size_t k = 0; k < num_drawn(series); k++) {
            widen(&x, series->points[k].x);
            widen(&y, series->points[k].y);
        }
    }
    if (x.most < x.least)
        return false;
    x.least -= LABEL_SHARE * (x.most - x.least);
    pen__axis_init(&plane->x_axis, PEN__AXIS_LOOSE, x, 9);
    pen__axis_init(&plane->y_axis, PEN__AXIS_LOOSE, y, 6);
    return true;
}

static double x_of(const struct plane *plane, double value)
{
    return LEFT + (PEN__CHART_WIDTH - LEFT - RIGHT) *
                      pen__axis_share(&plane->x_axis, value);
}

static double y_of(const struct plane *plane, double value)
{
    return TOP + PLOT_HEIGHT * (1 - pen__axis_share(&plane->y_axis, value));
}

static void draw_guide(const struct plane *plane, double x0, double y0,
                       double x1, double y1)
{
    pen_text_add(plane->out,
                 "<line class=\"guide\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
                 "y2=\"%.1f\"/>\n",
                 x0, y0, x1, y1);
}

static void draw_axes(const struct plane *plane)
{
    char label[PEN__NUMBER_SIZE];
    double bottom = TOP + PLOT_HEIGHT;
    double right = PEN__CHART_WIDTH - RIGHT;
    for (size_t i = 0; i < plane->x_axis.num_ticks; i++) {
        double x = x_of(plane, plane->x_axis.ticks[i]);
        draw_guide(plane, x, TOP, x, bottom + 4);
        pen__axis_label(&plane->x_axis, i, label);
        pen__chart_write(plane->out, x, bottom + 18, PEN__MIDDLE, "quiet",
                         label);
    }
    for (size_t i = 0; i < plane->y_axis.num_ticks; i++) {
        double y = y_of(plane, plane->y_axis.ticks[i]);
        draw_guide(plane, LEFT - 4, y, right, y);
        pen__axis_label(&plane->y_axis, i, label);
        pen__chart_write(plane->out, LEFT - 9, y + 4, PEN__END, "quiet", label);
    }
    pen__chart_write(plane->out, right, bottom + 38, PEN__END, "quiet",
                     plane->scatter->x_name);
    pen__chart_write(plane->out, LEFT - 4, TOP - 12, PEN__START, "quiet",
                     plane->scatter->y_name);
}

/* Along, then up or down, from each point to the next. */
static void draw_front(const struct plane *plane,
                       const struct pen_report_series *series)
{
    pen_text_add_string(plane->out, "<path class=\"front\" d=\"");
    for (size_t i = 0; i < num_drawn(series); i++) {
        double x = x_of(plane, series->points[i].x);
        double y = y_of(plane, series->points[i].y);
        if (i == 0)
            pen_text_add(plane->out, "M%.1f %.1f", x, y);
        else
            pen_text_add(plane->out, "H%.1fV%.1f", x, y);
    }
    pen_text_add_string(plane->out, "\"/>\n");
}

static void draw_dot(struct pen_text *out, double x, double y, bool is_front)
{
    pen_text_add(out,
                 "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.0f\">",
                 is_front ? "dot best" : "dot", x, y, RADIUS);
}

/* Not over the label of a point before it. */
static bool has_room(const struct plane *plane,
                     const struct pen_report_series *series, size_t index)
{
    const struct pen_report_point *point = &series->points[index];
    double width = pen__letters_width(point->label) + RADIUS;
    for (size_t i = 0; i < index; i++) {
        const struct pen_report_point *other = &series->points[i];
        double x = fabs(x_of(plane, point->x) - x_of(plane, other->x));
        double y = fabs(y_of(plane, point->y) - y_of(plane, other->y));
        if (x < width && y < LABEL_HEIGHT)
            return false;
    }
    return true;
}

/* To the lower left: nothing is there of what the front beats. */
static void draw_label(const struct plane *plane,
                       const struct pen_report_series *series, size_t index)
{
    const struct pen_report_point *point = &series->points[index];
    if (point->label == NULL || !has_room(plane, series, index))
        return;
    pen__chart_write(plane->out, x_of(plane, point->x) - RADIUS - 2,
                     y_of(plane, point->y) + RADIUS + 9, PEN__END, NULL,
                     point->label);
}

static void draw_point(const struct plane *plane,
                       const struct pen_report_point *point, bool is_front)
{
    double x = x_of(plane, point->x);
    double y = y_of(plane, point->y);
    draw_dot(plane->out, x, y, is_front);
    if (point->note != NULL) {
        pen_text_add_string(plane->out, "<title>");
        pen__html_add(plane->out, point->note);
        pen_text_add_string(plane->out, "</title>");
    }
    pen_text_add_string(plane->out, "</circle>\n");
}

static void draw_legend(const struct plane *plane)
{
    double x = LEFT + RADIUS;
    double y = TOP + PLOT_HEIGHT + 60;
    for (size_t i = 0; i < plane->scatter->num_series; i++) {
        const struct pen_report_series *series = &plane->scatter->series[i];
        draw_dot(plane->out, x, y - 4, series->is_front);
        pen_text_add_string(plane->out, "</circle>\n");
        pen__chart_write(plane->out, x + 12, y, PEN__START, NULL, series->name);
        x += 12 + pen__letters_width(series->name) + 24;
    }
}

void pen__scatter_print(const struct pen_report_scatter *scatter,
                        struct pen_text *out)
{
    struct plane plane = {.scatter = scatter, .out = out};
    if (!init_axes(&plane))
        return;
    pen__chart_begin(out, TOP + PLOT_HEIGHT + BOTTOM, scatter->y_name);
    draw_axes(&plane);
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
