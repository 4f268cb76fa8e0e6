#include "view/rank_rows.h"

#include "base/text.h"
#include "view/ink.h"

#include <math.h>

double pen__rows_pitch(uint32_t count)
{
    static const struct {
        uint32_t most_rows;
        double pitch;
    } sizes[] = {{12, 20}, {32, 14}, {96, 9}, {256, 5}, {UINT32_MAX, 2}};
    size_t size = 0;
    while (sizes[size].most_rows < count)
        size++;
    return sizes[size].pitch;
}

double pen__rows_type_size(double pitch, uint32_t *every)
{
    double size = fmin(PEN__ROWS_TYPE_SIZE, fmax(5.5, pitch * 0.8));
    *every = (uint32_t)ceil(size * 1.1 / pitch);
    return size;
}

void pen__rows_axis(struct pen__canvas *canvas, const struct pen__box *plot,
                    double end_sec, const struct pen__unit *unit)
{
    double range = end_sec * unit->per_sec;
    double step = pen__nice_step(range, plot->width / 60);
    uint32_t count = (uint32_t)floor(range / step + 1e-9) + 1;
    double y = plot->y + plot->height + 3;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen__use_font(canvas, PEN__ROWS_TYPE_SIZE, false);
    pen__use_grey(canvas, 0.2);
    for (uint32_t tick = 0; tick < count; tick++) {
        double share = range > 0 ? tick * step / range : 0;
        double x = plot->x + share * plot->width;
        pen_text_clear(&text);
        pen_text_add(&text, "%.6g", tick * step);
        pen__write(canvas, x, y + 13, PEN__CENTRE, pen_text_string(&text));
        pen__add_line(canvas, x, y, x, y + 3.5);
    }
    pen_text_clear(&text);
    pen_text_add(&text, "time (%s)", unit->name);
    pen__write(canvas, plot->x + plot->width / 2, y + 25, PEN__CENTRE,
               pen_text_string(&text));
    pen__add_line(canvas, plot->x, y, plot->x + plot->width, y);
    pen__stroke(canvas, 0.6);
    pen_text_release(&text);
}

double pen__rows_sample(struct pen__canvas *canvas, double x, double y,
                        struct pen__colour colour, const char *words)
{
    const struct pen__box box = {x, y, 20, 9};
    pen__add_box(canvas, &box);
    pen__use_colour(canvas, colour);
    pen__fill_outlined(canvas, 0.3, 0.3);
    pen__use_grey(canvas, PEN__TEXT_GREY);
    return x + 24 + pen__write(canvas, x + 24, y + 7.8, PEN__LEFT, words) + 14;
}
