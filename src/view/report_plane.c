/* The common part of charts of points and of curves in a report. */
#include "view/report_plane.h"

static double width_of(const struct pen__plane *plane)
{
    return PEN__CHART_WIDTH - PEN__PLANE_LEFT - plane->right_margin;
}

double pen__plane_x(const struct pen__plane *plane, double value)
{
    return PEN__PLANE_LEFT +
           width_of(plane) * pen__axis_share(&plane->x_axis, value);
}

double pen__plane_y(const struct pen__plane *plane, double value)
{
    return PEN__PLANE_TOP +
           plane->height * (1 - pen__axis_share(&plane->y_axis, value));
}

double pen__plane_bottom(const struct pen__plane *plane)
{
    return PEN__PLANE_TOP + plane->height;
}

void pen__plane_draw(const struct pen__plane *plane)
{
    char label[PEN__NUMBER_SIZE];
    double left = PEN__PLANE_LEFT;
    double right = left + width_of(plane);
    double bottom = pen__plane_bottom(plane);
    for (size_t i = 0; i < plane->x_axis.num_ticks; i++) {
        double x = pen__plane_x(plane, plane->x_axis.ticks[i]);
        pen__chart_guide(plane->out, x, PEN__PLANE_TOP, x, bottom + 4);
        pen__axis_label(&plane->x_axis, i, label);
        pen__chart_write(plane->out, x, bottom + 18, PEN__MIDDLE, "quiet",
                         label);
    }
    for (size_t i = 0; i < plane->y_axis.num_ticks; i++) {
        double y = pen__plane_y(plane, plane->y_axis.ticks[i]);
        pen__chart_guide(plane->out, left - 4, y, right, y);
        pen__axis_label(&plane->y_axis, i, label);
        pen__chart_write(plane->out, left - 9, y + 4, PEN__END, "quiet", label);
    }
    pen__chart_write(plane->out, right, bottom + 38, PEN__END, "quiet",
                     plane->x_name);
    pen__chart_write(plane->out, left - 4, PEN__PLANE_TOP - 12, PEN__START,
                     "quiet", plane->y_name);
}
