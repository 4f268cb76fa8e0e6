#ifndef PEN_VIEW_INK_H
#define PEN_VIEW_INK_H

#include "view/canvas.h"
#include "view/cells.h"

/*
 * Colours, hatching and type. Every kind of op is marked three times: by hue
 * (safe for colour-blind readers), by lightness and by hatching, so that a grey
 * print is as clear.
 */

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

/*
 * Returns the ink of an op that takes time. Later chunks are lighter, as in
 * Megatron's pictures.
 */
struct pen__ink pen__ink_of(unsigned kind, uint32_t chunk, uint32_t chunks);

/* Adds the lines of the hatching to the path; they meet those of next boxes. */
void pen__hatch_box(struct pen__canvas *canvas, enum pen__hatch hatch,
                    const struct pen__box *box);
void pen__hatch_stroke(struct pen__canvas *canvas);

#define PEN__TEXT_GREY 0.1
#define PEN__QUIET_GREY 0.4 /* of figures and notes */

/* Marks of ops without time: a step, a stash that leaves or comes back. */
void pen__mark(struct pen__canvas *canvas, unsigned kind, double x, double y,
               double height);

#endif
