/* The axes of a chart on paper. */
#include "view/plot_page.h"

#include <math.h>

#define LABEL_SIZE 9.5

double pen__snap(double points)
{
    return round(points * 100) / 100;
}

static void write_y_ticks(struct pen__canvas *canvas,
                          const struct pen__box *box,
                          const struct pen__axis *axis)
{
    pen__use_font(canvas, LABEL_SIZE, false);
    pen__use_grey(canvas, PEN__TEXT_GREY);
    for (size_t i = 0; i < axis->num_ticks; i++) {
        char label[PEN__NUMBER_SIZE];
        pen__axis_label(axis, i, label);
        double up = pen__axis_share(axis, axis->ticks[i]);
        pen__write(canvas, box->x - 6, box->y + box->height * (1 - up) + 3.4,
                   PEN__RIGHT, label);
    }
}

void pen__guides_draw(struct pen__canvas *canvas, const struct pen__box *box,
                      const struct pen__axis *x, const struct pen__axis *y)
{
    double right = box->x + box->width;
    double bottom = box->y + box->height;
    for (size_t i = 0; i < y->num_ticks; i++) {
        double up = pen__axis_share(y, y->ticks[i]);
        double at = pen__snap(bottom - box->height * up);
        pen__add_line(canvas, box->x, at, right, at);
    }
    for (size_t i = 0; i < x->num_ticks; i++) {
        double across = pen__axis_share(x, x->ticks[i]);
        double at = pen__snap(box->x + box->width * across);
        pen__add_line(canvas, at, box->y, at, bottom);
    }
    pen__use_grey(canvas, 0.88);
    pen__stroke(canvas, 0.5);
    pen__add_line(canvas, box->x, bottom, right, bottom);
    pen__add_line(canvas, box->x, box->y, box->x, bottom);
    pen__use_grey(canvas, 0.2);
    pen__stroke(canvas, 0.7);
    write_y_ticks(canvas, box, y);
}

void pen__x_axis_write(struct pen__canvas *canvas, const struct pen__box *box,
                       const struct pen__axis *x, const char *name)
{
    double y = box->y + box->height;
    pen__use_font(canvas, LABEL_SIZE, false);
    pen__use_grey(canvas, PEN__TEXT_GREY);
    for (size_t i = 0; i < x->num_ticks; i++) {
        char label[PEN__NUMBER_SIZE];
        pen__axis_label(x, i, label);
        double across = pen__axis_share(x, x->ticks[i]);
        pen__write(canvas, box->x + box->width * across, y + 14, PEN__CENTRE,
                   label);
    }
    pen__use_font(canvas, LABEL_SIZE, true);
    pen__write(canvas, box->x + box->width / 2, y + 28, PEN__CENTRE, name);
}
