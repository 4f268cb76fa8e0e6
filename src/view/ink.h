#ifndef PEN_VIEW_INK_H
#define PEN_VIEW_INK_H

#include "view/cells.h"

#include <cairo.h>

/*
 * How things look: colours, hatching, type. Every kind of op is told apart
 * three times: by hue (safe for colour-blind readers), by lightness and by
 * hatching, so that a grey print says the same.
 */

struct pen__colour {
    double red;
    double green;
    double blue;
};

/* A full backward is input and weight gradient, and so is its hatching. */
enum pen__hatch {
    PEN__HATCH_NONE = 0,
    PEN__HATCH_RISING = 1,
    PEN__HATCH_FALLING = 2,
    PEN__HATCH_CROSSED = PEN__HATCH_RISING | PEN__HATCH_FALLING,
    PEN__HATCH_LEVEL = 4
};

struct pen__ink {
    struct pen__colour colour;
    enum pen__hatch hatch;
};

/* Of an op that takes time. Later chunks are lighter, as in Megatron's. */
struct pen__ink pen__ink_of(unsigned kind, uint32_t chunk, uint32_t chunks);

struct pen__box {
    double x;
    double y;
    double width;
    double height;
};

/* Adds the lines of the hatching to the path; they meet those of next boxes. */
void pen__hatch_box(cairo_t *cairo, enum pen__hatch hatch,
                    const struct pen__box *box);
void pen__hatch_stroke(cairo_t *cairo);

#define PEN__TEXT_GREY 0.1
#define PEN__QUIET_GREY 0.4 /* of what stands beside */

/* Adds a line of its own to the path. */
void pen__add_line(cairo_t *cairo, double x0, double y0, double x1, double y1);

/* One grey from 0, black, to 1. */
void pen__use_grey(cairo_t *cairo, double grey);
void pen__use_colour(cairo_t *cairo, struct pen__colour colour);

/* Type that is equal on all surfaces. Sizes in points. */
void pen__use_font(cairo_t *cairo, double size, bool is_bold);
double pen__text_width(cairo_t *cairo, const char *text);

enum pen__align { PEN__LEFT, PEN__CENTRE, PEN__RIGHT };

/* Written on the baseline y; returns the width. */
double pen__write(cairo_t *cairo, double x, double y, enum pen__align align,
                  const char *text);

/* As above from the left, in smaller type where the room is short. */
double pen__write_within(cairo_t *cairo, double x, double y, double room,
                         double size, bool is_bold, const char *text);

/* Marks of ops without time: a step, a stash that leaves or comes back. */
void pen__mark(cairo_t *cairo, unsigned kind, double x, double y,
               double height);

#endif
