/*
 * Curves over one axis, from the top: the name of the other axis, the curves,
 * the axis, the legend.
 */
#include "view/report_plane.h"

#include <math.h>
#include <stdlib.h>

#define RIGHT 16.0
#define PLOT_HEIGHT 230.0
#define AXIS_HEIGHT 44.0
#define LEGEND_PITCH 20.0
#define LEGEND_LINE 22.0
#define RADIUS 3.0
#define MARK_PITCH 12.0 /* marks that are closer are left out */

struct plane {
    const struct pen_report_curves *chart;
    struct pen__curve *curves; /* thinned */
    size_t num_left_out;       /* points */
    struct pen__plane axes;
};

/* Copies the points that can be drawn: curves with marks lose their gaps. */
static pen_status copy(const struct pen_report_curve *curve,
                       struct pen__curve *out)
{
    out->points = malloc((curve->count + 1) * sizeof *out->points);
    if (out->points == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < curve->count; i++) {
        double y = isfinite(curve->y[i]) ? curve->y[i] : (double)NAN;
        if (isfinite(curve->x[i]) && !(curve->has_marks && isnan(y)))
            out->points[out->count++] = (struct pen__point){curve->x[i], y};
    }
    return PEN_OK;
}

/* Gaps are not counted. */
static size_t count_points(const struct pen__curve *curve)
{
    size_t count = 0;
    for (size_t i = 0; i < curve->count; i++)
        if (!isnan(curve->points[i].y))
            count++;
    return count;
}

/* Returns PEN_INVALID when there is no point. */
static pen_status init_plane(struct plane *plane)
{
    const struct pen_report_curves *chart = plane->chart;
    struct pen__range x = {INFINITY, -INFINITY};
    struct pen__range y = {INFINITY, -INFINITY};
    plane->curves = calloc(chart->num_curves + 1, sizeof *plane->curves);
    if (plane->curves == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < chart->num_curves; i++) {
        struct pen__curve *curve = &plane->curves[i];
        if (copy(&chart->curves[i], curve) != PEN_OK)
            return PEN_NOMEM;
        for (size_t k = 0; k < curve->count; k++) {
            pen__range_widen(&x, curve->points[k].x);
            pen__range_widen(&y, curve->points[k].y);
        }
    }
    if (y.most < y.least)
        return PEN_INVALID;
    for (size_t i = 0; i < chart->num_curves; i++) {
        size_t count = count_points(&plane->curves[i]);
        pen__curve_thin(&plane->curves[i], x,
                        PEN__CHART_WIDTH - PEN__PLANE_LEFT - RIGHT);
        plane->num_left_out += count - count_points(&plane->curves[i]);
    }
    pen__axis_init(&plane->axes.x_axis, PEN__AXIS_COUNT, x, 9);
    pen__axis_init(&plane->axes.y_axis,
                   chart->has_zero ? PEN__AXIS_ZERO : PEN__AXIS_LOOSE, y, 5);
    return PEN_OK;
}

static void release_plane(struct plane *plane)
{
    for (size_t i = 0; plane->curves != NULL && i < plane->chart->num_curves;
         i++)
        free(plane->curves[i].points);
    free(plane->curves);
}

static unsigned colour_of(const struct pen_report_curve *curve)
{
    return (unsigned)(curve->colour % PEN__REPORT_LINES);
}

/* Draws a line; a point between two gaps is a line of no length. */
static void draw_line(const struct plane *plane, size_t index)
{
    const struct pen_report_curve *curve = &plane->chart->curves[index];
    const struct pen__curve *points = &plane->curves[index];
    bool has_begun = false;
    if (curve->is_loose)
        return;
    pen_text_add(plane->axes.out,
                 "<path class=\"curve%s\" style=\"stroke:var(--l%u)\" d=\"",
                 curve->has_marks ? " dashes" : "", colour_of(curve));
    for (size_t i = 0; i < points->count; i++) {
        const struct pen__point *point = &points->points[i];
        bool is_gap = isnan(point->y);
        if (!is_gap)
            pen_text_add(plane->axes.out, "%c%.1f %.1f", has_begun ? 'L' : 'M',
                         pen__plane_x(&plane->axes, point->x),
                         pen__plane_y(&plane->axes, point->y));
        has_begun = !is_gap;
    }
    pen_text_add_string(plane->axes.out, "\"/>\n");
}

static void draw_mark(struct pen_text *out, unsigned colour, double x, double y)
{
    pen_text_add(out,
                 "<circle class=\"mark\" style=\"stroke:var(--l%u)\" "
                 "cx=\"%.1f\" cy=\"%.1f\" r=\"%.0f\"/>\n",
                 colour, x, y, RADIUS);
}

static void draw_marks(const struct plane *plane, size_t index)
{
    const struct pen_report_curve *curve = &plane->chart->curves[index];
    const struct pen__curve *points = &plane->curves[index];
    double before = -INFINITY;
    for (size_t i = 0; curve->has_marks && i < points->count; i++) {
        double x = pen__plane_x(&plane->axes, points->points[i].x);
        if (x - before < MARK_PITCH && i + 1 < points->count)
            continue;
        draw_mark(plane->axes.out, colour_of(curve), x,
                  pen__plane_y(&plane->axes, points->points[i].y));
        before = x;
    }
}

/* Draws the legend, or only measures it; returns its end. */
static double legend(const struct plane *plane, bool is_drawn)
{
    double x = PEN__PLANE_LEFT;
    double y = pen__plane_bottom(&plane->axes) + AXIS_HEIGHT + 8;
    for (size_t i = 0; i < plane->chart->num_curves; i++) {
        const struct pen_report_curve *curve = &plane->chart->curves[i];
        if (curve->name == NULL || plane->curves[i].count == 0)
            continue;
        double width = LEGEND_LINE + 6 + pen__letters_width(curve->name) + 18;
        if (x > PEN__PLANE_LEFT && x + width > PEN__CHART_WIDTH) {
            x = PEN__PLANE_LEFT;
            y += LEGEND_PITCH;
        }
        if (is_drawn && !curve->is_loose)
            pen_text_add(plane->axes.out,
                         "<path class=\"curve%s\" "
                         "style=\"stroke:var(--l%u)\" d=\"M%.1f %.1fh%.0f\"/>"
                         "\n",
                         curve->has_marks ? " dashes" : "", colour_of(curve), x,
                         y - 4, LEGEND_LINE);
        if (is_drawn) {
            if (curve->has_marks)
                draw_mark(plane->axes.out, colour_of(curve),
                          x + LEGEND_LINE / 2, y - 4);
            pen__chart_write(plane->axes.out, x + LEGEND_LINE + 6, y,
                             PEN__START, NULL, curve->name);
        }
        x += width;
    }
    return y + 8;
}

static void draw(const struct plane *plane)
{
    pen__chart_begin(plane->axes.out, legend(plane, false),
                     plane->chart->y_name);
    pen__plane_draw(&plane->axes);
    for (size_t i = 0; i < plane->chart->num_curves; i++)
        draw_line(plane, i);
    for (size_t i = 0; i < plane->chart->num_curves; i++)
        draw_marks(plane, i);
    legend(plane, true);
    pen__chart_end(plane->axes.out);
    if (plane->num_left_out > 0)
        pen_text_add(
            plane->axes.out,
            "<p class=\"note\">%zu points are not drawn: each column of "
            "the chart shows its first, least, greatest and last "
            "point.</p>\n",
            plane->num_left_out);
}

pen_status pen__curves_print(const struct pen_report_curves *curves,
                             struct pen_text *out)
{
    struct plane plane = {.chart = curves,
                          .axes = {.out = out,
                                   .right_margin = RIGHT,
                                   .height = PLOT_HEIGHT,
                                   .x_name = curves->x_name,
                                   .y_name = curves->y_name}};
    pen_status status = init_plane(&plane);
    if (status == PEN_OK)
        draw(&plane);
    release_plane(&plane);
    return status == PEN_NOMEM ? PEN_NOMEM : PEN_OK;
}
